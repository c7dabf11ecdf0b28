"""Files and folders: made, written completely or not at all, and identified by their content."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mallow.errors import InputError

_LARGEST_TEXT = 1_000_000_000  # bytes; chosen: a result with the evidence of a million samples has a tenth of it


def is_url(source: str) -> bool:
    """Whether a source is in an object store: s3://…, gs://…, memory://…"""
    return "://" in source


def is_glob(source: str) -> bool:
    """Whether a source is a pattern of names."""
    return any(sign in source for sign in ("*", "?", "["))


def files_below(folder: Path) -> Iterator[Path]:
    """All files that are not hidden; links are followed, but each folder is visited once."""

    def refuse(error: OSError) -> None:
        raise InputError(
            f"{error.filename}: the folder cannot be read: {error.strerror}. Check that it is there, and its "
            f"permissions."
        )

    visited = set()
    for here, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(here)
        folders[:] = [] if real in visited else sorted(name for name in folders if not name.startswith("."))
        if real not in visited:
            visited.add(real)
            yield from (Path(here, file) for file in files if not file.startswith("."))


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder at `path`, created where it does not exist."""
    if not os.fspath(path):
        raise InputError("the name of a folder must not be empty. Name one, or . for the working folder.")
    folder = Path(os.path.expanduser(path))
    try:
        create_folder(folder)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: the folder cannot be created: {error.strerror or error}.") from error
    return folder


def create_folder(folder: Path) -> None:
    """Create a folder, and those above it, where they do not exist; their names are on the disk afterwards."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in new:
        sync_folder(each.parent)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose bytes appear at `path` all at once when the block ends, and not at all if it raises.

    The bytes go to a hidden file in the same folder, which then replaces the target. A link stays a link: what it
    points to is replaced. When the block has ended, file and name are on the disk: a power failure does not undo
    them.
    """
    target = Path(os.path.realpath(os.path.expanduser(path)))
    refuse_special(path, target)
    hidden = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        with hidden.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(hidden, target)
        sync_folder(target.parent)
    finally:
        hidden.unlink(missing_ok=True)


def refuse_special(path: str | os.PathLike[str], target: Path | None = None) -> None:
    """Raise an InputError for a device, a pipe or a socket.

    Whoever reads it waits, and whoever replaces it breaks it.
    """
    try:
        mode = (Path(os.path.expanduser(path)) if target is None else target).stat().st_mode
    except OSError:  # there is nothing, or nothing that can be reached: whoever opens it will say so
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{os.fspath(path)}: is a device or a pipe, not a file on a disk. Name a file.")


def sync_folder(folder: Path) -> None:
    """Have the names of a folder's files written to the disk, where the system can do it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders, nor does Linux those that may be written but not read
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks have no such call
            raise
    finally:
        os.close(handle)


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Write a UTF-8 text file, all of it or nothing."""
    try:
        with atomic_file(path) as stream:
            stream.write(content.encode("utf-8", "backslashreplace"))  # what is computed is not lost for a name
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}.") from error


def read_text(path: str | os.PathLike[str]) -> str:
    """The content of a UTF-8 text file that is read whole, such as a result: at most 1 GB, and nothing without an end.

    A file whose name ends in .gz is decompressed, to at most 1 GB.
    """
    name, file = os.fspath(path), Path(os.path.expanduser(path))
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name}: is a folder, not a file. Name a file in it.")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(
                f"{name}: must be a file on a disk; it is a pipe or a device. Save its content to a file first."
            )
        if status.st_size > _LARGEST_TEXT:
            raise InputError(f"{name}: has {status.st_size / 1e9:.1f} GB; at most {_LARGEST_TEXT / 1e9:g} GB are read.")
        if file.suffix == ".gz":
            return _unzip(file, name).decode()
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}. Check the path.") from error
    except (EOFError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read to the end: {error}. Is the file complete?") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: must be UTF-8 text; byte {error.start} is not.") from error


def _unzip(file: Path, name: str) -> bytes:
    with gzip.open(file) as stream:
        content = stream.read(_LARGEST_TEXT + 1)
    if len(content) > _LARGEST_TEXT:
        raise InputError(f"{name}: expands to more than {_LARGEST_TEXT / 1e9:g} GB, which is the most that is read.")
    return content


def parse_json(text: str | bytes) -> Any:
    """What JSON holds; a ValueError for anything that is not JSON, is nested too deeply, or has a key twice.

    Of a key that occurs twice, each program reads another value: people would see one, and mallow the other.

    Examples
    --------
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: it is nested too deeply
    >>> parse_json('{"mauve": 0.5, "mauve": 0.9}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'mauve' occurs twice
    """

    def refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            keys = [key for key, _ in pairs]
            raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
        return values

    try:
        return json.loads(text, object_pairs_hook=refuse_twice)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def digest(path: str | os.PathLike[str]) -> str:
    """Twelve hexadecimal digits that identify the content of a file, or of all files in a folder with their names."""
    root = Path(path)
    files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    total = hashlib.sha256()
    for file in files:
        if root.is_dir():
            total.update(file.relative_to(root).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()[:12]
