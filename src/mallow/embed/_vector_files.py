"""Files of word vectors: GloVe and word2vec as text or binary, and folders with a matrix and a list of words."""

from __future__ import annotations

import array
import gzip
import io
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.errors import InputError

Vectors = tuple[list[bytes], NDArray[np.float64]]
"""Words in the order of the file, and their vectors, one row per word."""

_HEADER = 1 << 16  # bytes; chosen: a longer first line is not one of word vectors
_COUNTS = 100  # bytes; a first line with the number of words and the dimension is shorter
_MOST_EXPANSION = 1100  # of a .gz file, by its format
_BLOCK = 1 << 22  # bytes of a binary file that are read at a time; chosen: small beside the vectors that are kept


def read_vectors(path: Path, wanted: Container[bytes]) -> Vectors:
    """Those of the wanted words that the file or folder has, with their vectors. Only these are kept in memory."""
    return _read_folder(path, wanted) if path.is_dir() else _read_file(path, wanted)


def file_in_folder(path: Path, suffix: str) -> Path:
    """The only file in a folder with this suffix."""
    files = sorted(path.glob(f"*{suffix}"))
    if len(files) != 1:
        raise InputError(
            f"`path` must be a file, or a folder with one {suffix} file; there are {len(files)} in {path}."
        )
    return files[0]


def _read_file(path: Path, wanted: Container[bytes]) -> Vectors:
    with _open(path) as stream:
        first = stream.readline(_HEADER)
        fields = first.split()
        has_header = len(fields) == 2 and len(first) < _COUNTS and fields[0].isdigit() and fields[1].isdigit()
        dimension = int(fields[1]) if has_header else len(fields) - 1
        if dimension < 1:
            raise InputError(
                f"{path}, line 1: must be a word and its numbers, or the number of words and the dimension. "
                "Check that it is a file of word vectors."
            )
        if 4 * dimension > _MOST_EXPANSION * path.stat().st_size:  # before memory is set aside for it
            raise InputError(
                f"{path}: the first line announces vectors of {dimension} numbers, more than the file can hold. Download it again."
            )
        if not has_header:
            stream.seek(0)
            return _read_lines(stream, path, wanted, first=1, count=None, dimension=dimension)
        if _is_binary(stream):
            return _read_binary(stream, path, wanted, int(fields[0]), dimension)
        return _read_lines(stream, path, wanted, first=2, count=int(fields[0]), dimension=dimension)


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader]:
    with path.open("rb") as raw:
        start = raw.read(4)
        raw.seek(0)
        if start == b"PK\x03\x04":
            raise InputError(f"{path} is a .zip archive, which may hold several files. Unzip it and pass one of them.")
        if start[:2] != b"\x1f\x8b":
            yield raw
            return
        try:
            with gzip.GzipFile(fileobj=raw) as unzipped:
                yield io.BufferedReader(cast("io.RawIOBase", unzipped), 1 << 20)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path} is a damaged .gz file: {error}. Download it again.") from error


def _read_lines(
    lines: BinaryIO, path: Path, wanted: Container[bytes], *, first: int, count: int | None, dimension: int
) -> Vectors:
    line_numbers: dict[bytes, int] = {}
    values = array.array("d")
    number = first - 1
    for number, full in enumerate(lines, first):
        line = full.rstrip(b" \t\r\n")
        word, _, rest = line.partition(b" ")
        if rest.count(b" ") != dimension - 1 or not rest:
            word, rest = _split_word_with_spaces(line, dimension, path, number)
        if word in wanted and word not in line_numbers:
            line_numbers[word] = number
            try:
                values.extend(map(float, rest.split(b" ")))
            except ValueError as error:
                raise InputError(f"{path}, line {number}: a word must be followed by numbers; {error}.") from None
    if count is not None and number - first + 1 != count:
        raise InputError(
            f"{path}: the first line announces {count} words; got {number - first + 1}. The file may be incomplete: "
            "download it again."
        )
    vectors = np.array(values).reshape(-1, dimension)
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        line_number = list(line_numbers.values())[int(bad.argmax())]
        raise InputError(f"{path}, line {line_number}: the numbers must be finite.")
    return list(line_numbers), vectors


def _split_word_with_spaces(line: bytes, dimension: int, path: Path, number: int) -> tuple[bytes, bytes]:
    """The word and the numbers of a line whose word contains spaces, as some in GloVe 840B do."""
    fields = line.rsplit(b" ", dimension)
    last = fields[0].rpartition(b" ")[2]
    if len(fields) <= dimension or not fields[0] or _is_number(last):
        count = len(line.split(b" ")) - 1 if line else 0
        raise InputError(
            f"{path}, line {number}: must have {dimension} numbers after the word, as line 1 has; got {count}."
        )
    return fields[0], b" ".join(fields[1:])


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _is_binary(stream: io.BufferedReader) -> bool:
    """Whether raw floats follow the first word."""
    _, _, after = stream.peek(512)[:512].partition(b" ")
    return bool(set(after.partition(b"\n")[0]) - set(b"0123456789+-.eEnaif \t\r"))


def _read_binary(stream: BinaryIO, path: Path, wanted: Container[bytes], count: int, dimension: int) -> Vectors:
    words: dict[bytes, None] = {}
    vectors = array.array("f")
    size = 4 * dimension
    block, at = b"", 0
    for number in range(count):
        end = block.find(b" ", at)
        if end < 0 or end + 1 + size > len(block):  # read the next block, after what is left of this one
            block, at = block[at:] + stream.read(_BLOCK + size), 0
            end = block.find(b" ")
            if end < 0 or end + 1 + size > len(block):
                raise InputError(
                    f"{path}: the first line announces {count} words; got {number}. The file may be incomplete: "
                    "download it again."
                )
        word = block[at:end].lstrip(b"\n")
        if word in wanted and word not in words:
            words[word] = None
            vectors.frombytes(block[end + 1 : end + 1 + size])
        at = end + 1 + size
    table = np.frombuffer(vectors, dtype="<f4").reshape(-1, dimension)
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        word = list(words)[int(bad.argmax())]
        raise InputError(f"{path}: the numbers of the word {word.decode(errors='replace')!r} must be finite.")
    return list(words), table.astype(np.float64)  # only now: some NaNs warn when they are cast


def _read_folder(path: Path, wanted: Container[bytes]) -> Vectors:
    parquet = optional("pyarrow.parquet", extra="glove")
    words_file, table_file = file_in_folder(path, ".parquet"), file_in_folder(path, ".npy")
    try:
        columns = parquet.read_table(words_file).columns
        table = np.load(table_file, mmap_mode="r")
    except (ValueError, EOFError) as error:  # pyarrow's errors of damaged files are ValueErrors
        raise InputError(f"{path} has a damaged file: {error}. Download it again.") from error
    words = columns[0].to_pylist() if columns else []
    if not words or not all(isinstance(word, str) for word in words):
        raise InputError(
            f"{words_file}: the first column must be the words, as texts. Check that it is the list of words."
        )
    if table.ndim != 2 or len(table) != len(words) or table.shape[1] < 1 or table.dtype.kind not in "fiu":
        raise InputError(
            f"{table_file}: must have one row of numbers for each of the {len(words)} words; got shape {table.shape} of {table.dtype}."
        )
    places: dict[bytes, int] = {}
    for place, word in enumerate(words):
        key = word.encode()
        if key in wanted:
            places.setdefault(key, place)
    # One column at a time: the published matrix is stored by columns, and is never fully in memory.
    rows = np.fromiter(places.values(), dtype=np.int64, count=len(places))
    vectors = np.stack([column[rows] for column in table.T], axis=1).astype(np.float64)
    return list(places), vectors
