"""A shard of texts or images, read in parts, including the archives of webdataset."""

from __future__ import annotations

import itertools
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
    skips = Skips(options)
    fault, kinds = "the archive cannot be read to the end", (tarfile.TarError, EOFError, OSError)
    with (
        explained(name, fault, "Is it complete? Write it again.", kinds),
        open_shard(name) as stream,
        tarfile.open(fileobj=stream, mode="r:", tarinfo=_Entry) as archive,
    ):
        members, empty = iter(archive), True
        while True:
            with tempfile.TemporaryDirectory(prefix="mallow-") as folder:
                before = len(skips)
                part = list(itertools.islice(_unpack(archive, members, folder, name, skips, options), rows))
                if not part:  # bad images after the last good one have no part to be listed in
                    break
                empty, (ids, paths) = False, zip(*part, strict=True)
                yield Samples.trusted(images=paths, ids=ids, source=name, skipped=tuple(skips)[before:])
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


def _unpack(
    archive: tarfile.TarFile, members: Iterator[tarfile.TarInfo], folder: str, name: str, skips: Skips, options: Options
) -> Iterator[tuple[str, Path]]:
    """The names of the next images, and files with new names, since a name in an archive may lead anywhere."""
    for number, member in enumerate(members):
        inside = PurePosixPath(member.name)
        is_image = inside.suffix.lower() in IMAGE_SUFFIXES and not inside.name.startswith(".")
        content = archive.extractfile(member) if member.isfile() and is_image else None
        if content is None:
            continue
        path = Path(folder, f"{number:06d}{inside.suffix.lower()}")
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        if path.stat().st_size < member.size:
            raise EOFError(f"{member.name} is cut short")
        if (fault := IMAGES.fault(path, decode=options.skip_bad)) is None:
            yield member.name, path
        else:
            skips.add(f"{name}: {member.name}", fault)
            path.unlink()
