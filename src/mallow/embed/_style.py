"""An embedder of texts without a model: the frequencies of short runs of letters, which show style more than
subject."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.embed._protocol import checked_texts

_RECIPE = 1  # changes whenever the features of any text do
_LONGEST = 4  # characters of a run, at least two: letters, and the space before or after a word
_CHUNK = 1 << 15  # characters that are counted at once; chosen: the arrays stay in the processor's cache
_SPACE, _NOTHING = 32, 0x110000  # codes for the end of a word, and for a character that does not count

Codes = NDArray[np.uint32]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Style:
    """Features of texts without a model: how often each run of two to four letters occurs.

    A text is set in lower case, and only letters and the ends of words are kept. Digits, punctuation, quotation
    marks, line breaks and repeated spaces do not count, since files and encodings change them. Every run of two to
    four characters in a word, including its ends, is hashed to one of `width` columns with a sign. The features are
    the signed square roots of these counts, scaled to length 1. A text without letters has a row of zeros.

    They reflect spelling, word endings, function words and frequent words, hardly the subject, and not the order of
    words.

    Parameters
    ----------
    width : int
        The number of columns.

    Examples
    --------
    >>> points = Style()(["“It’s late,” he said.", '"It\\'s\\nlate", HE SAID', "It is late."])
    >>> points.shape, points.dtype, bool((points[0] == points[1]).all()), bool((points[0] == points[2]).all())
    ((3, 1024), dtype('float32'), True, False)
    """

    kind: ClassVar[Literal["text"]] = "text"
    cached: ClassVar[bool] = False  # reading a cache would take longer
    published: ClassVar[bool] = False  # papers do not score such features: they are for evidence only

    width: int = 1024

    def __post_init__(self) -> None:
        whole("width", self.width, least=1)

    @property
    def name(self) -> str:
        """The version of the recipe, and the width."""
        return f"style-{_RECIPE}(width={self.width})"

    def __call__(self, samples: Sequence[str], /) -> NDArray[np.float32]:
        """The features (n, width) of the texts, in their order."""
        texts = [_normalised(text) for text in checked_texts(samples)]
        points = np.empty((len(texts), self.width), np.float32)
        for rows in _chunks(texts):
            counts = _count_runs(texts[rows], self.width)
            sizes = np.abs(counts)
            shares = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1)
            points[rows] = np.sign(counts) * np.sqrt(shares)  # roots of exact shares: the same bits on every machine
        return points


style = Style()
"""The embedder `Style` with its defaults."""


def _normalised(text: str) -> str:
    """A text without capitals; characters that Unicode has in several forms get one."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _chunks(texts: list[str]) -> Iterator[slice]:
    """Texts in groups that are counted together, for speed. The features of a text do not depend on the others."""
    start = size = 0
    for place, text in enumerate(texts):
        if size and size + len(text) > _CHUNK:
            yield slice(start, place)
            start, size = place, 0
        size += len(text) + 1
    yield slice(start, len(texts))


def _count_runs(texts: list[str], width: int) -> NDArray[np.int64]:
    """Signed counts (n, width) of the runs of letters of each text."""
    letters, rows = _words(texts)
    is_letter = letters != _SPACE
    first = rows.copy()  # of the run that begins here: a space belongs to the word after it
    first[:-1] += (rows[1:] - rows[:-1]) * ~is_letter[:-1]
    first *= 2 * width
    inside = np.ones(len(letters), np.bool_)  # no space inside the run
    cells, runs = list[NDArray[np.int64]](), letters
    for length in range(2, _LONGEST + 1):
        runs = runs[:-1] * np.uint32(0x9E3779B1) + letters[length - 1 :]
        inside = inside[: len(runs)] & is_letter[length - 2 : -1] if length > 2 else inside[:-1]
        begin = np.flatnonzero(inside)
        cells.append(_hashed(runs[begin], 2 * width) + first[begin])
    counts = np.bincount(np.concatenate(cells), minlength=len(texts) * 2 * width).reshape(len(texts), 2, width)
    return counts[:, 0] - counts[:, 1]


def _words(texts: list[str]) -> tuple[Codes, Rows]:
    """The words of all texts, with one space before each and one at the end, and the text of each character."""
    codes = np.frombuffer("".join(f" {text}" for text in texts).encode("utf-32-le") + b" \0\0\0", np.uint32)
    rows = np.repeat(np.arange(len(texts)), [len(text) + 1 for text in texts])
    letters, rows = _letters(codes), np.append(rows, len(texts) - 1)
    seen = letters != _NOTHING
    if not seen.all():
        letters, rows = letters[seen], rows[seen]
    kept = letters != _SPACE
    kept[1:] |= kept[:-1]
    kept[0] = True
    return letters[kept], rows[kept]


def _letters(codes: Codes) -> Codes:
    """Each letter as it is; other characters as a space, or as nothing."""
    table = np.zeros(int(codes.max()) + 1, np.uint32)
    table[codes] = 1
    present = np.flatnonzero(table)
    table[present] = [_letter(int(code)) for code in present]
    return table[codes]


@lru_cache(maxsize=1 << 16)
def _letter(code: int) -> int:
    category = unicodedata.category(chr(code))
    if category[0] in "LM":  # letters, and the marks that belong to one
        return code
    return _NOTHING if category == "Cf" else _SPACE  # soft hyphens and direction marks are ignored


def _hashed(runs: Codes, width: int) -> NDArray[np.int64]:
    """A column for each run: the last step of MurmurHash3, so that similar codes of letters get unrelated columns."""
    mixed = (runs ^ (runs >> 16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * np.uint32(0xC2B2AE35)
    return ((mixed ^ (mixed >> 16)).astype(np.int64) * width) >> 32
