"""One file of the cache: rows with their keys, in which any changed bit is noticed on reading.

The file begins with a line of JSON (format, type, width and number of rows) and a digest of that line. One record per
row follows: the key, a digest, the row. The digest of a record covers the first line, the key and the row. So neither a
value nor its place nor its meaning can change unnoticed, and a reader checks only the rows that it takes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mallow._files import atomic_file
from mallow.embed._protocol import Points

KEY_BYTES = 16  # chosen: two of a trillion samples share a key with probability 1e-15
_DIGEST_BYTES = 16
_ROW_START = KEY_BYTES + _DIGEST_BYTES  # in a record
_FORMAT = "mallow features 2"
_LONGEST_HEADER = 200  # bytes; the numbers of the largest file need fewer
_BLOCK = 1 << 22  # bytes that are read at a time; chosen: fast, and small beside the features


class DamageError(Exception):
    """A file is not as it was written."""


@dataclass(frozen=True)
class CacheFile:
    """A file of the cache, with its first line read and checked.

    Attributes
    ----------
    path : Path
    rows : int
        How many it holds.
    """

    path: Path
    rows: int
    _record: np.dtype[Any]
    _start: int
    _seed: bytes

    @classmethod
    def open(cls, path: Path) -> CacheFile:
        """The file at `path`; a `DamageError` if its first line or its size is wrong."""
        with path.open("rb") as stream:
            header = stream.readline(_LONGEST_HEADER)
            if stream.read(_DIGEST_BYTES) != _digest(b"", header):
                raise DamageError("its first line has another digest")
            facts = json.loads(header)
            if facts["format"] != _FORMAT:
                raise DamageError(f"it has the format {facts['format']!r}, which this version does not read")
            record, start = _record_type(np.dtype(facts["dtype"]), facts["width"]), len(header) + _DIGEST_BYTES
            size, wanted = os.fstat(stream.fileno()).st_size, start + facts["rows"] * record.itemsize
        if size != wanted:
            raise DamageError(f"it has {size} bytes, not {wanted}")
        return cls(path, facts["rows"], record, start, header)

    def select(self, keys: Container[bytes]) -> dict[bytes, NDArray[Any]]:
        """The rows of those keys that it holds; a `DamageError` if one of them is not as it was written."""
        rows = {}
        for content, records in self._blocks():
            for place, key in enumerate(records["key"].tolist()):
                if key in keys:
                    if not self._is_intact(content, place):
                        raise DamageError("a row has another digest")
                    rows[key] = records["row"][place].copy()  # not a view that keeps the whole block in memory
        return rows

    def intact(self) -> tuple[list[bytes], Points]:
        """All rows that are as they were written, with their keys."""
        keys: list[bytes] = []
        parts = [np.empty((0, *self._record["row"].shape), self._record["row"].base)]
        for content, records in self._blocks():
            places = [place for place in range(len(records)) if self._is_intact(content, place)]
            keys += records["key"][places].tolist()
            parts.append(records["row"][places])
        return keys, np.concatenate(parts)

    def _is_intact(self, content: memoryview, place: int) -> bool:
        record = content[place * self._record.itemsize : (place + 1) * self._record.itemsize]
        key, digest, row = record[:KEY_BYTES], record[KEY_BYTES:_ROW_START], record[_ROW_START:]
        return _digest(self._seed, key, row) == digest

    def _blocks(self) -> Iterator[tuple[memoryview, NDArray[Any]]]:
        """Some records after the other, as bytes and as an array."""
        # Read, not mapped: a failing disk is then an error that can be told, and not a signal that ends the process.
        count = max(_BLOCK // self._record.itemsize, 1)
        with self.path.open("rb") as stream:
            stream.seek(self._start)
            for first in range(0, self.rows, count):
                size = min(count, self.rows - first) * self._record.itemsize
                content = stream.read(size)
                if len(content) != size:
                    raise DamageError("it is shorter than it was")
                yield memoryview(content), np.frombuffer(content, self._record)


def write_cache_file(path: Path, keys: Sequence[bytes], rows: Points) -> None:
    """Write a file of the cache, all of it or nothing."""
    facts = {"format": _FORMAT, "dtype": rows.dtype.str, "width": rows.shape[1], "rows": len(keys)}
    header = json.dumps(facts).encode() + b"\n"
    records = np.empty(len(keys), _record_type(rows.dtype, rows.shape[1]))
    records["key"], records["row"] = np.frombuffer(b"".join(keys), f"V{KEY_BYTES}"), rows
    content, size = records.view(np.uint8).data, records.itemsize
    starts = range(0, len(content), size)
    digests = [_digest(header, content[s : s + KEY_BYTES], content[s + _ROW_START : s + size]) for s in starts]
    records["digest"] = np.frombuffer(b"".join(digests), f"V{_DIGEST_BYTES}")
    with atomic_file(path) as stream:
        _write_all(stream, header + _digest(b"", header), records)


def _write_all(stream: BinaryIO, head: bytes, records: NDArray[Any]) -> None:
    stream.write(head)
    content = records.view(np.uint8).data
    for start in range(0, len(content), _BLOCK):
        stream.write(content[start : start + _BLOCK])


def _record_type(dtype: np.dtype[Any], width: int) -> np.dtype[Any]:
    return np.dtype([("key", f"V{KEY_BYTES}"), ("digest", f"V{_DIGEST_BYTES}"), ("row", dtype, (width,))])


def _digest(*parts: bytes | memoryview) -> bytes:
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=b"mallow cache")
    for part in parts:
        total.update(part)
    return total.digest()
