"""How texts are written, as numbers: length, repetition, punctuation, and whatever spoils comparisons."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from mallow.caveats import TRAITS
from mallow.explain._candidate import Candidate, numbers_apart
from mallow.explain._tokens import Tokens, distinct
from mallow.theory import Array

_SHORTEST = 20  # words; chosen: vocabularies are compared over so many at least
_PHRASE = 4  # words of a phrase that may be repeated, as is usual
_RATIO = 1.05  # chosen: medians that differ by less are not worth telling
_SENTENCE_ENDS = frozenset(".!?…。！？؟۔।")
_QUOTES = frozenset('"“”„«»「」')
_DIGIT = re.compile(r"\d")
_OPENING = "\"'“‘«([{*_"
_BRACKETS = frozenset("()[]{}（）")


def style_candidates(texts: Sequence[str], tokens: Tokens, n: int) -> Iterator[Candidate]:
    """Everything about the way of writing that may be a reason; the first n texts are those of the reference."""
    words = tokens.only_words
    length = words.per_text()
    size = np.log1p(length)
    yield Candidate("length", size, partial(_length_phrase, length, n))
    yield Candidate("length", np.abs(size - np.median(size)), partial(_spread_phrase, length, n))
    some = np.maximum(length, 1.0)
    first = max(_SHORTEST, math.floor(np.quantile(length, 0.1)))
    different = words.different(first) / np.maximum(np.minimum(length, first), 1.0)
    yield _rate(different, "different words", f" % of the first {first} words", " %")
    yield _rate(_repeated(words), "repeated phrases", f" % of all phrases of {_PHRASE} words", " %")
    for noun, count in _marks(texts, tokens).items():
        yield _rate(count / some, noun, " per 100 words")
    letters = np.array([len(token) for token in tokens.vocabulary])
    yield _mean(words.per_text(letters) / some, "words", "letters")
    yield _mean(_sentence_lengths(length, tokens), "sentences", "words")
    for trait in TRAITS:
        share = np.fromiter(map(trait.applies_to, texts), np.float64, len(texts))
        yield Candidate("trait", share, partial(_share_phrase, trait.phrase))


def _marks(texts: Sequence[str], tokens: Tokens) -> dict[str, Array]:
    """Counts in each text of what may be more or less frequent."""
    rules = {
        "commas": {",", "，", "、", "،"}.__contains__,
        "quotation marks": _QUOTES.__contains__,
        "brackets": _BRACKETS.__contains__,
        "question and exclamation marks": frozenset("?!？！؟").__contains__,
        "numbers": lambda token: _DIGIT.search(token) is not None,
    }
    counts = {"punctuation marks": tokens.per_text(~tokens.word)}
    counts |= {noun: tokens.per_text(tokens.which(rule)) for noun, rule in rules.items()}
    counts["words that begin with a capital"] = np.array(
        [sum(map(str.isupper, _initials(text))) for text in texts], float
    )
    counts["line breaks"] = np.array([text.count("\n") for text in texts], float)
    return counts


def _sentence_lengths(length: Array, tokens: Tokens) -> Array:
    """Words per mark that ends a sentence; texts without such a mark, such as lists, count as average."""
    ends = tokens.per_text(tokens.which(_SENTENCE_ENDS.__contains__))
    known = ends > 0
    average = math.fsum(length[known] / ends[known]) / max(int(known.sum()), 1)
    return np.where(known, length / np.maximum(ends, 1.0), average)


def _initials(text: str) -> list[str]:
    return [word.lstrip(_OPENING)[:1] for word in text.split()]


def _repeated(words: Tokens) -> Array:
    """The share of phrases in each text that occurred in it before."""
    size = max(len(words.token) - _PHRASE + 1, 0)
    key = np.zeros(size, np.uint64)
    with np.errstate(over="ignore"):
        for step in range(_PHRASE):  # a hash: two of the phrases of one text hardly ever share one of 2⁴⁰
            key = (key ^ words.token[step : step + size].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
    row, last = words.row[:size], words.row[len(words.row) - size :]
    inside = row == last
    keys = (row[inside].astype(np.uint64) << np.uint64(40)) | (key[inside] >> np.uint64(24))
    every = np.bincount(row[inside], minlength=words.texts)
    different = np.bincount((distinct(keys) >> np.uint64(40)).astype(np.int64), minlength=words.texts)
    share: Array = (every - different) / np.maximum(every, 1)
    return share


def _rate(trait: Array, noun: str, unit: str, short: str = "") -> Candidate:
    """A frequency that is shown as so many of 100."""

    def phrase(model: float, reference: float) -> tuple[str, dict[str, float]]:
        own, other = numbers_apart(100.0 * model, 100.0 * reference)
        amount = "more" if model > reference else "fewer"
        return f"{amount} {noun} ({own}{unit}, reference {other}{short})", {"model": model, "reference": reference}

    return Candidate("trait", trait, phrase)


def _mean(trait: Array, noun: str, unit: str) -> Candidate:
    """A length that is shown as a mean."""

    def phrase(model: float, reference: float) -> tuple[str, dict[str, float]]:
        own, other = numbers_apart(model, reference)
        size = "longer" if model > reference else "shorter"
        return f"{size} {noun} ({own} {unit} on average, reference {other})", {"model": model, "reference": reference}

    return Candidate("trait", trait, phrase)


def _share_phrase(predicate: str, model: float, reference: float) -> tuple[str, dict[str, float]]:
    own, other = numbers_apart(100.0 * model, 100.0 * reference)
    only = "only " if model < reference else ""
    return f"{only}{own} % of the texts {predicate} (reference {other} %)", {"model": model, "reference": reference}


def _length_phrase(length: Array, n: int, model: float, reference: float) -> tuple[str, dict[str, float]]:
    """The medians if they differ, otherwise the end where lengths differ most; `model` and `reference` are mean logarithms."""
    own, other, values = _quantiles(length, n, (0.5, 0.1, 0.9))
    longer = model > reference
    ratio = (own + 1.0) / (other + 1.0) if longer else (other + 1.0) / (own + 1.0)
    place = 0 if ratio[0] >= _RATIO else int(np.argmax(ratio))
    if ratio[place] < _RATIO:
        return "", values
    if place == 0:
        subject, numbers = f"{'longer' if longer else 'shorter'} texts", f"median {own[0]:.0f} words"
    elif place == 1:
        subject, numbers = f"{'fewer' if longer else 'more'} short texts", f"a tenth have at most {own[1]:.0f} words"
    else:
        subject, numbers = f"{'more' if longer else 'fewer'} long texts", f"a tenth have at least {own[2]:.0f} words"
    return f"{subject} ({numbers}, reference {other[place]:.0f})", values


def _spread_phrase(length: Array, n: int, model: float, reference: float) -> tuple[str, dict[str, float]]:
    """The range of most lengths; `model` and `reference` are mean distances from the middle."""
    own, other, values = _quantiles(length, n, (0.1, 0.9))
    ratio = (own[1] - own[0] + 1.0) / (other[1] - other[0] + 1.0)
    amount = "more" if model > reference else "less"
    text = (
        f"texts whose length varies {amount} (80 % have {own[0]:.0f} to {own[1]:.0f} words, reference {other[0]:.0f} to "
        f"{other[1]:.0f})"
    )
    return (text if (ratio if model > reference else 1.0 / ratio) >= _RATIO else ""), values


def _quantiles(length: Array, n: int, levels: tuple[float, ...]) -> tuple[Array, Array, dict[str, float]]:
    """Quantiles of the lengths of the model and of the reference, and the same by name."""
    own, other = np.quantile(length[n:], levels), np.quantile(length[:n], levels)
    values: dict[str, float] = {}
    for level, one, another in zip(levels, own.tolist(), other.tolist(), strict=True):
        values |= {f"words_{round(100 * level)}": one, f"words_{round(100 * level)}_reference": another}
    return own, other, values
