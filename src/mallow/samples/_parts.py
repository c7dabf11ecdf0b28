"""A shard of texts or images, read in parts, including the archives of webdataset."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self

from mallow._files import explained
from mallow.errors import InputError
from mallow.samples._entries import Options, Skips
from mallow.samples._media import IMAGE_SUFFIXES, IMAGES
from mallow.samples._read import read
from mallow.samples._samples import Samples
from mallow.samples._shard_files import open_shard, shard_suffix
from mallow.samples._value_checks import DEFAULT_LIMITS, Limits


def read_parts(
    name: str, rows: int, *, field: str | None = None, skip_bad: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Samples]:
    """The samples of a shard, at most `rows` at a time, in order; other options as in `read`.

    A shard is a file of texts, a .tar archive of images, or a folder of images. The images of an archive are files in a
    temporary folder, which exist until the next part is asked for. Their ids are their names in the archive.
    """
    if shard_suffix(name) == ".tar":
        yield from _read_archive(name, rows, Options(field, skip_bad, None, limits))
        return
    samples = read(name, field=field, skip_bad=skip_bad, limits=limits)
    if samples.kind == "features":
        raise InputError(f"{name}: holds features already. There is nothing to embed.")
    for low in range(0, len(samples), rows):
        part = samples.take(range(low, min(low + rows, len(samples))))
        yield replace(part, skipped=()) if part.skipped and low else part  # skipped entries are listed once


def _read_archive(name: str, rows: int, options: Options) -> Iterator[Samples]:
    """The images of a tar archive; other files in it, such as captions, are ignored."""
    skips, empty, decode = Skips(options), True, options.skip_bad
    fault, kinds = "the archive cannot be read to the end", (tarfile.TarError, EOFError, OSError)
    with (
        explained(name, fault, "Is it complete? Write it again.", kinds),
        open_shard(name) as stream,
        tarfile.open(fileobj=stream, mode="r:", tarinfo=_Entry) as archive,
    ):
        members = _images(archive)
        while True:
            with tempfile.TemporaryDirectory(prefix="mallow-") as folder:
                part = _extract(archive, members, Path(folder), rows, name, skips, decode=decode)
                if part is None:  # bad images after the last good one have no part to be listed in
                    break
                empty = False
                yield part
        _check_end(stream, archive.offset)
    if empty and skips:
        raise skips.nothing_left(name)
    if empty:
        raise InputError(
            f"{name}: the archive must contain images ({' '.join(sorted(IMAGE_SUFFIXES))}), but it has none."
        )


class _Entry(tarfile.TarInfo):
    """An entry of an archive whose damage is an error; tarfile treats a damaged header as the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # the mark at the end
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error}, at byte {archive.offset}") from error


def _check_end(stream: BinaryIO, offset: int) -> None:
    """Raise a ReadError if data follow the end mark, since joined archives would lose all but the first."""
    stream.seek(offset)
    while block := stream.read(1 << 20):
        if block.count(0) < len(block):
            raise tarfile.ReadError(
                "more follows its end mark, as after joining two archives; unpack both and pack them again"
            )


def _images(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        path = PurePosixPath(member.name)
        if member.isfile() and path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith("."):
            yield member


def _extract(
    archive: tarfile.TarFile,
    members: Iterator[tarfile.TarInfo],
    folder: Path,
    rows: int,
    name: str,
    skips: Skips,
    *,
    decode: bool,
) -> Samples | None:
    """The next images, as files with new names, since a name in an archive may lead anywhere."""
    ids: list[str] = []
    paths: list[Path] = []
    before = len(skips)
    for member in members:
        path = folder / f"{len(paths):06d}{PurePosixPath(member.name).suffix.lower()}"
        content = archive.extractfile(member)
        if content is None:
            continue
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        if path.stat().st_size < member.size:
            raise EOFError(f"{member.name} is cut short")
        fault = IMAGES.fault(path, decode=decode)
        if fault is not None:
            skips.add(f"{name}: {member.name}", fault)
            continue
        ids.append(member.name)
        paths.append(path)
        if len(paths) == rows:
            break
    if not paths:
        return None
    return Samples.trusted(images=tuple(paths), ids=tuple(ids), source=name, skipped=tuple(skips)[before:])
