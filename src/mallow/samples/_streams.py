"""Files as bytes: their format by suffix, opened, decompressed and decoded line by line."""

from __future__ import annotations

import gzip
import io
import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from mallow._files import CUT_SHORT, explained
from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Row
from mallow.samples._value_checks import Limits, check_expansion

_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".txt": "txt",
    ".csv": "csv",
    ".parquet": "parquet",
    ".npy": "npy",
    ".npz": "npz",
    ".eval": "eval",
}


def file_format(path: Path, name: str) -> tuple[str, bool]:
    """The format of a file and whether it is compressed, both by its suffix."""
    zipped = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if zipped else path).suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix], zipped
    raise InputError(
        f"{name}: the suffix must be one of {' '.join(_FORMATS)}, with or without .gz; "
        f"got {repr(suffix) if suffix else 'none'}."
    )


@contextmanager
def open_file(path: Path, name: str, limits: Limits) -> Iterator[BinaryIO]:
    """The bytes of a file or pipe, decompressed."""
    try:
        raw = io.BufferedReader(_Pipe(path, name, limits)) if is_pipe(path, name) else path.open("rb")
    except OSError as error:
        raise InputError(f"{name}: cannot be opened: {error.strerror}. Check its permissions.") from error
    with raw:
        yield decompress(raw, name, limits)


def is_pipe(path: Path, name: str) -> bool:
    """Whether a path is a pipe or a terminal. An InputError for other devices, which have no end."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return False
    if stat.S_ISCHR(mode) and not _is_terminal(path):
        raise InputError(f"{name}: is a device, not a file of samples. Pass a file, a folder, a pipe or -.")
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        raise InputError(f"{name}: is neither a file nor a folder nor a pipe. Check the path.")
    return stat.S_ISFIFO(mode)


def _is_terminal(path: Path) -> bool:
    try:
        with path.open("rb", buffering=0) as stream:
            return stream.isatty()
    except OSError:
        return False


class _Pipe(io.RawIOBase):
    """A named pipe. An InputError if no program opens its other end in time. A plain open would wait forever."""

    def __init__(self, path: Path, name: str, limits: Limits) -> None:
        self._place, self._name, self._limits = os.open(path, os.O_RDONLY | os.O_NONBLOCK), name, limits
        self._started = False  # a program has opened the other end

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            os.close(self._place)
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what there is, waiting for it if need be; 0 at the end."""
        end = time.monotonic() + self._limits.wait
        while True:
            try:
                data = os.read(self._place, len(buffer))
            except BlockingIOError:  # the writer has opened the pipe, but has not written yet
                self._started = True
                select.select([self._place], [], [])
                continue
            if data or self._started or _was_left(self._place):
                self._started = True
                buffer[: len(data)] = data
                return len(data)
            if time.monotonic() > end:
                raise InputError(
                    f"{self._name}: no program writes to this pipe; waited for {self._limits.wait:g} s. Start the "
                    "program first, or wait longer with `limits=Limits(wait=…)`."
                )
            time.sleep(0.02)


def _was_left(place: int) -> bool:
    """Whether a program had opened the other end of a pipe, and has closed it."""
    poll = select.poll()
    poll.register(place, select.POLLIN)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def decompress(raw: Any, name: str, limits: Limits) -> BinaryIO:
    """The bytes of a stream that can `peek`, decompressed if they are in gzip format."""
    if not is_gzip(raw):
        return cast("BinaryIO", raw)
    return cast("BinaryIO", io.BufferedReader(_Expanding(raw, name, limits), 1 << 16))


def seekable(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream itself, or all its bytes in memory if they are decompressed on the way."""
    if stream.seekable():
        return stream
    with to_the_end(name):
        return io.BytesIO(stream.read())


def to_the_end(name: str) -> AbstractContextManager[None]:
    """Inside the block, errors of reading say that the file may be incomplete."""
    return explained(name, "cannot be read to the end", "Is the file complete?", CUT_SHORT)


def is_gzip(raw: Any) -> bool:
    """Whether a stream that can `peek` is in gzip format."""
    # By content, not by suffix, because downloads are often already decompressed, and standard input has no name.
    return bool(raw.peek(2)[:2] == b"\x1f\x8b")


class _Counted:
    """A stream that counts the bytes that were read from it."""

    def __init__(self, raw: Any) -> None:
        self._raw, self.count = raw, 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._raw.read(size)
        self.count += len(data)
        return data


class _Expanding(io.RawIOBase):
    """The expanded bytes of a gzip stream, up to the limit."""

    def __init__(self, raw: Any, name: str, limits: Limits) -> None:
        self._stored, self._size = _Counted(raw), 0
        self._stream = gzip.GzipFile(fileobj=cast("Any", self._stored), mode="rb")
        self._name, self._limits = name, limits

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._size += len(data)
        check_expansion(self._name, self._size, self._stored.count, self._limits)
        return len(data)


def decode_lines(stream: BinaryIO, name: str, limits: Limits) -> Iterator[Row]:
    """The number of each line, from 1, and its text including the line end. Only a line feed ends a line."""
    longest, number, offset = limits.line_bytes, 0, 0
    with to_the_end(name):
        while raw := stream.readline(longest + 1):
            number += 1
            line = raw
            if number == 1:
                _refuse_utf16(line, name)
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(raw) > longest and not raw.endswith(b"\n"):
                way_out = "allow longer ones with `limits=Limits(line_mb=…)`"
                yield number, BadEntryError(f"the line is longer than {limits.line_mb:g} MB; {way_out}")
                while not raw.endswith(b"\n") and (raw := stream.readline(1 << 20)):
                    offset += len(raw)
                offset += longest + 1
                continue
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                place = offset + len(raw) - len(line) + error.start
                reason = f"not UTF-8: byte 0x{line[error.start]:02x} at byte offset {place}"
                way_out = "if the file is Latin-1, re-encode it with iconv -f ISO-8859-1 -t UTF-8"
                yield number, BadEntryError(f"{reason}; {way_out}", line.decode(errors="surrogateescape"))
            offset += len(raw)


def _refuse_utf16(start: bytes, name: str) -> None:
    """Raise an InputError for UTF-16 and UTF-32, with or without a byte-order mark: every other byte is zero."""
    marked = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    even, odd = start[0:4:2], start[1:4:2]
    if marked or (odd and ((all(even) and not any(odd)) or (all(odd) and not any(even)))):
        raise InputError(
            f"{name}: must be UTF-8, but it looks like UTF-16 or UTF-32. Re-encode it with iconv -f UTF-16 -t UTF-8."
        )
