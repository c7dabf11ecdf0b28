"""Files as bytes: their format by suffix, opened, decompressed and decoded line by line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Row, message_of

__all__ = ["decode_lines", "decompress", "file_format", "open_file"]

_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
    ".csv": "csv",
    ".parquet": "parquet",
    ".npy": "npy",
    ".npz": "npz",
}


def file_format(path: Path, name: str) -> tuple[str, bool]:
    """The format of a file and whether it is compressed, both by its suffix."""
    zipped = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if zipped else path).suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix], zipped
    hint = " If it contains one JSON object per line, rename it to .jsonl." if suffix == ".json" else ""
    raise InputError(
        f"{name}: the suffix must be one of {' '.join(_FORMATS)}, with or without .gz; "
        f"got {repr(suffix) if suffix else 'none'}.{hint}"
    )


@contextmanager
def open_file(path: Path, name: str) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise InputError(f"{name}: cannot be opened: {error.strerror}. Check its permissions.") from error
    with raw:
        yield decompress(raw)


def decompress(raw: Any) -> BinaryIO:
    """The bytes of a stream that can `peek`, decompressed if they are in gzip format."""
    # By content, not by suffix: downloads are often decompressed on the way, and standard input has no name.
    return cast("BinaryIO", gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw)


def decode_lines(stream: BinaryIO, name: str) -> Iterator[Row]:
    """The number of each line, from 1, and its text including the line end. Only a line feed ends a line."""
    offset = 0
    try:
        for number, raw in enumerate(stream, start=1):
            line = raw
            if number == 1:
                _refuse_utf16(line, name)
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                place = offset + len(raw) - len(line) + error.start
                reason = f"not UTF-8: byte 0x{line[error.start]:02x} at byte offset {place}"
                way_out = "if the file is Latin-1, re-encode it with iconv -f ISO-8859-1 -t UTF-8"
                yield number, BadEntryError(f"{reason}; {way_out}", line.decode(errors="surrogateescape"))
            offset += len(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read to the end: {message_of(error)}. Is the file complete?") from error


def _refuse_utf16(start: bytes, name: str) -> None:
    """Raise an InputError for UTF-16 and UTF-32, with or without a byte-order mark: every other byte is zero."""
    marked = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    even, odd = start[0:4:2], start[1:4:2]
    if marked or (odd and ((all(even) and not any(odd)) or (all(odd) and not any(even)))):
        raise InputError(
            f"{name}: must be UTF-8; it looks like UTF-16 or UTF-32. Re-encode it with iconv -f UTF-16 -t UTF-8."
        )
