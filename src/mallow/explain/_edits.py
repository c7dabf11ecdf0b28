"""Edits of texts that make them worse in a known way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

__all__ = ["EDITS", "edit_texts"]

_LOOP = 20  # words that a looping text repeats; chosen: a sentence or two, as in degenerate generations

Words = list[str]


def _shuffle(words: Words, rng: np.random.Generator) -> Words:
    return [words[i] for i in rng.permutation(len(words))]


def _keep_half(words: Words, rng: np.random.Generator) -> Words:
    return words[: max(1, len(words) // 2)]


def _keep_quarter(words: Words, rng: np.random.Generator) -> Words:
    return words[: max(1, len(words) // 4)]


def _loop(words: Words, rng: np.random.Generator) -> Words:
    """The first twenty words again and again, to the length of the text."""
    return [words[i % _LOOP] for i in range(len(words))]


def _lower_case(words: Words, rng: np.random.Generator) -> Words:
    return [word.lower() for word in words]


EDITS: Mapping[str, Callable[[Words, np.random.Generator], Words]] = {
    "words shuffled": _shuffle,
    "first half": _keep_half,
    "first quarter": _keep_quarter,
    "looping": _loop,
    "lower case": _lower_case,
}
"""What is done to the words of a text. Except for the loss of capital letters, each is a defect that models have."""


def edit_texts(texts: Sequence[str], edit: str, *, seed: int = 0) -> list[str]:
    """The texts after one of `EDITS`; what happens to a text depends on its place and the seed, not on the other texts.

    Examples
    --------
    >>> edit_texts(["One two three four"], "first half")
    ['One two']
    """
    change = EDITS[edit]
    changed = [" ".join(change(text.split(), np.random.default_rng([seed, i]))) for i, text in enumerate(texts)]
    return [new or old for new, old in zip(changed, texts, strict=True)]  # a text of white space has no words
