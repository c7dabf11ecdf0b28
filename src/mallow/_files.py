"""Files and folders: made, written completely or not at all, and identified by their content."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mallow.errors import InputError

CUT_SHORT = (EOFError, OSError, zlib.error)  # errors while a file is read, which may end too early
_LARGEST_TEXT = 1_000_000_000  # bytes; chosen: ten times a result with the evidence of a million samples


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


@contextmanager
def explained(
    name: str, fault: str, way_out: str, kinds: type[Exception] | tuple[type[Exception], ...] = Exception
) -> Iterator[None]:
    """Errors of these kinds in the block become an InputError: the name, the fault, the reason and the way out."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except kinds as error:
        lines = str(getattr(error, "strerror", None) or error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"{name}: {fault}: {lines[0].rstrip('.')}. {way_out}") from error


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
    """A stream whose bytes appear at `path` all at once when the block ends, and never if the block raises.

    The bytes go to a hidden file in the same folder, which then replaces the target. A link stays a link, and its
    target is replaced. At the end of the block both file and name are on the disk, so that a power failure does not
    undo them.
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

    Reading it would wait for ever, and replacing it would break it.
    """
    try:
        mode = (Path(os.path.expanduser(path)) if target is None else target).stat().st_mode
    except OSError:  # missing or unreachable: opening it raises the error
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{os.fspath(path)}: is a device or a pipe, not a file on a disk. Name a file.")


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk, where the system can do it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders; Linux opens none that is write-only
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
            stream.write(content.encode("utf-8", "backslashreplace"))  # a strange name must not lose the result
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}.") from error


def read_text(path: str | os.PathLike[str]) -> str:
    """The content of a UTF-8 text file that is read whole, such as a result: at most 1 GB, and no endless stream.

    A file whose name ends in .gz is decompressed, to at most 1 GB.
    """
    name, file = os.fspath(path), Path(os.path.expanduser(path))
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name}: is a folder, not a file. Name a file in it.")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(
                f"{name}: must be a file on a disk, but it is a pipe or a device. Save its content to a file first."
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
    """The value of a JSON text. A ValueError for anything that is not JSON, is nested too deeply, or has a key twice.

    If a key occurs twice, programs disagree about its value: people could see one, and mallow the other.

    Examples
    --------
    >>> parse_json('{"answer": 1, "answer": 2}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'answer' occurs twice
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(text, object_pairs_hook=unique_names)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. A ValueError if two of its values have the same name: nobody can tell which one counts."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return values


def digest(path: str | os.PathLike[str], *, is_graph: bool = False) -> str:
    """Twelve hexadecimal digits that identify the content of a file, or of all files in a folder with their names.

    All bytes that are loaded from there count. Links are followed, and an ONNX graph (.onnx, or with `is_graph` a file
    of any name) includes the files that hold its weights. Asking again is cheap: a file is read only once while its
    size, times and place on the disk stay the same.
    """
    root = Path(path)
    files = {file.relative_to(root).as_posix(): file for file in _linked_files(root)} if root.is_dir() else {"": root}
    total = hashlib.sha256()
    for name, file in files.items():
        if name:
            total.update(name.encode("utf-8", "surrogateescape") + b"\0")
        content = _content_of(file, is_graph=is_graph or file.suffix == ".onnx")
        total.update(content.digest)
        for location in content.external:  # relative to the folder of the graph
            if (weights := file.parent / location).is_file():
                digest_of_weights = _content_of(weights, is_graph=False).digest
                total.update(location.encode("utf-8", "surrogateescape") + b"\0" + digest_of_weights)
    return total.hexdigest()[:12]


def external_files(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the files in which an ONNX graph keeps weights, as the graph has them."""
    return _content_of(Path(path), is_graph=True).external


class _Content(NamedTuple):
    digest: bytes
    external: tuple[str, ...]


_SETTLED = 2 * 10**9  # nanoseconds; chosen: some disks store times this coarsely
_BLOCK = 1 << 20  # bytes that are read at a time; chosen: they stay in the processor's cache
_LONGEST_NAME = 4096  # bytes of a path, on Linux
_CONTENTS: dict[tuple[object, ...], _Content] = {}  # files that were unchanged for a while, by their stamps


def _content_of(file: Path, *, is_graph: bool) -> _Content:
    """The digest of a file, and the files that an ONNX graph names. An InputError if it cannot be read."""
    try:
        with file.open("rb") as stream:
            stamp = file_stamp(stream.fileno())
            if (is_graph, *stamp) in _CONTENTS:
                return _CONTENTS[is_graph, *stamp]
            content = _read_content(stream, is_graph=is_graph)
            if file_stamp(stream.fileno()) != stamp:
                raise InputError(f"{file}: was changed while it was read. Wait until it is complete.")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}.") from error
    if time.time_ns() - max(stamp[-2:]) > _SETTLED:
        _CONTENTS[is_graph, *stamp] = content
    return content


def file_stamp(file: int | str | os.PathLike[str]) -> tuple[int, ...]:
    """What changes when a file is written to or replaced. The last two are times."""
    status = os.stat(file)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_content(stream: BinaryIO, *, is_graph: bool) -> _Content:
    """The digest, and for a graph the values of all entries of its protocol buffer whose key is "location"."""
    total, names, kept = hashlib.sha256(), set[str](), b""
    while True:
        block = stream.read(_BLOCK)
        total.update(block)
        kept += block if is_graph else b""
        # An entry that may continue is kept for the next block.
        ready = len(kept) - (2 * _LONGEST_NAME if block else 0)
        for entry in re.finditer(rb"\x0a\x08location\x12", kept):
            if entry.start() < ready and (name := _text_at(kept, entry.end())):
                names.add(name)
        kept = kept[max(ready, 0) :]
        if not block:
            return _Content(total.digest(), tuple(sorted(names)))


def _text_at(content: bytes, place: int) -> str:
    """A text in a protocol buffer: its length, seven bits per byte, then its bytes; "" if it is no path."""
    size = shift = 0
    while place < len(content) and shift < 21:
        byte, place = content[place], place + 1
        size, shift = size | (byte & 127) << shift, shift + 7
        if byte < 128:
            break
    text = content[place : place + size] if size <= _LONGEST_NAME else b""
    return "" if b"\0" in text else os.fsdecode(text)


def _linked_files(root: Path) -> list[Path]:
    """All files of a folder, hidden ones and those behind links too. A link to a folder above it is not followed."""
    files = []
    waiting = [(root, frozenset([os.path.realpath(root)]))]
    while waiting:
        folder, above = waiting.pop()
        try:
            entries = list(folder.iterdir())
        except OSError as error:
            raise InputError(f"{folder}: the folder cannot be read: {error.strerror or error}.") from error
        files += [entry for entry in entries if entry.is_file()]
        for entry in entries:
            if entry.is_dir() and (real := os.path.realpath(entry)) not in above:
                waiting.append((entry, above | {real}))
    return sorted(files)
