"""The words of many texts as arrays: what word counts and styles are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.models import words
from mallow.theory import Array

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tokens:
    """All words and punctuation marks of some texts, one text after the other.

    Attributes
    ----------
    texts : int
        How many there are.
    row, token : int64 array (tokens,)
        The text that each token is in, and its number in `vocabulary`.
    vocabulary : list of str
    """

    texts: int
    row: Indices
    token: Indices
    vocabulary: list[str]

    @cached_property
    def word(self) -> NDArray[np.bool_]:
        """Which entries of the vocabulary are words or numbers, not punctuation."""
        return self.which(lambda token: token.isalnum() or any(map(str.isalnum, token)))

    @cached_property
    def only_words(self) -> Tokens:
        """The same without punctuation."""
        keep = self.word[self.token]
        return Tokens(self.texts, self.row[keep], self.token[keep], self.vocabulary)

    def which(self, rule: Callable[[str], bool]) -> NDArray[np.bool_]:
        """For which entries of the vocabulary a rule holds."""
        return np.fromiter(map(rule, self.vocabulary), np.bool_, len(self.vocabulary))

    def per_text(self, weight: NDArray[np.generic] | None = None) -> Array:
        """The number of tokens of each text, or the sum of their weights, one for each entry of the vocabulary."""
        weights = None if weight is None else weight[self.token].astype(np.float64)
        return np.bincount(self.row, weights, self.texts).astype(np.float64)

    def pairs(self) -> Indices:
        """Each pair of a token and a text that contains it, once, as token · texts + text; sorted."""
        return distinct(self.token * self.texts + self.row)

    def different(self, first: int) -> Array:
        """The number of different tokens among the first so many of each text."""
        ends = np.cumsum(np.bincount(self.row, minlength=self.texts))
        place = np.arange(len(self.row)) - np.concatenate([[0], ends])[self.row]
        some = Tokens(self.texts, self.row[place < first], self.token[place < first], self.vocabulary)
        return np.bincount(some.pairs() % self.texts, minlength=self.texts).astype(np.float64)


def distinct(keys: NDArray[Any]) -> NDArray[Any]:
    """The sorted keys without repetitions; faster for integers than `numpy.unique`."""
    keys = np.sort(keys)
    new = np.ones(len(keys), np.bool_)
    new[1:] = keys[1:] != keys[:-1]
    return keys[new]


def split_texts(texts: Sequence[str]) -> Tokens:
    """The tokens of texts by `mallow.models.words`."""
    number: dict[str, int] = {}
    every = [words(text) for text in texts]
    token = np.fromiter((number.setdefault(each, len(number)) for own in every for each in own), np.int64)
    row = np.repeat(np.arange(len(every)), [len(own) for own in every])
    return Tokens(len(every), row, token, list(number))
