"""Counting and discounting n-grams: interpolated modified Kneser–Ney (Chen and Goodman 1998)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow.generate._protocol import Tokens

Floats = NDArray[np.float64]

END = 0
"""The token that ends a text, and begins the next one."""


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one length n ≥ 2, as the children of their first n − 1 tokens, the context.

    The number of a 1-gram is its token. The number of a longer n-gram is its place in `keys`, which is sorted, so that the
    children of context c are at offsets[c] to offsets[c + 1].
    """

    keys: Tokens  # number of the context · vocabulary + last token
    share: Floats  # max(count − discount, 0) / sum of the counts after this context
    offsets: Tokens
    backoff: Floats  # for each context: what the discounts took, spread like the distribution of the shorter context

    def look_up(self, contexts: Tokens, tokens: Tokens, vocabulary: int) -> Tokens:
        """The numbers of n-grams; −1 if the context is −1 or the n-gram was never seen."""
        if len(self.keys) == 0:  # all texts are shorter
            return np.full(len(contexts), -1, np.int64)
        wanted = contexts * vocabulary + tokens
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where((contexts >= 0) & (self.keys[places] == wanted), places, -1)


def fit_levels(stream: Tokens, vocabulary: int, order: int) -> tuple[Floats, tuple[Level, ...]]:
    """Unigram probabilities, and the n-grams of length 2 to `order`, from texts joined by `END` with one at each side."""
    ends = stream == END
    numbers = stream  # of the n-gram that begins at each place; −1 if there is none
    whole_ngram = np.ones(len(stream), bool)
    ngrams = []  # for each length from 2: keys, raw counts, and whether they begin a text
    suffixes = []  # for each length from 2: the numbers of its n-grams without their first token
    for n in range(2, order + 1):
        size = max(len(stream) - n + 1, 0)
        whole_ngram = whole_ngram[:size]
        if n > 2:  # no n-gram contains the end of a text in its middle
            whole_ngram = whole_ngram & ~ends[n - 2 : n - 2 + size]
        places = np.flatnonzero(whole_ngram)
        keys, first, inverse, counts = np.unique(
            numbers[places] * vocabulary + stream[places + n - 1],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        suffixes.append(numbers[places[first] + 1])
        numbers = np.full(size + 1, -1, np.int64)  # one more, for the suffix of the n-gram that ends the stream
        numbers[places] = inverse
        ngrams.append((keys, counts, ends[places[first]]))
    unigram = np.bincount(suffixes[0] if suffixes else stream[1:], minlength=vocabulary)
    levels = []
    for i, (keys, counts, opens) in enumerate(ngrams):
        if i + 1 < len(ngrams):
            # Kneser and Ney: not how often, but after how many different tokens. N-grams that begin a text have none.
            before = np.bincount(suffixes[i + 1], minlength=len(keys))
            counts = np.where(opens, counts, before)
        contexts = vocabulary if i == 0 else len(ngrams[i - 1][0])
        levels.append(_build_level(keys, counts, vocabulary, contexts))
    share, backoff = _discount(unigram, np.zeros(vocabulary, np.int64), 1)
    return share + backoff[0] / vocabulary, tuple(levels)


def _build_level(keys: Tokens, counts: Tokens, vocabulary: int, contexts: int) -> Level:
    parents = keys // vocabulary
    share, backoff = _discount(counts, parents, contexts)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(parents, minlength=contexts))])
    return Level(keys, share, offsets, backoff)


def _discount(counts: Tokens, parents: Tokens, contexts: int) -> tuple[Floats, Floats]:
    """Discounted share of each n-gram after its context, and what is left for each context; 1 for one without n-grams."""
    taken = _discounts(counts)[np.minimum(counts, 3)]
    totals = np.bincount(parents, counts, contexts)
    seen = np.where(totals > 0, totals, 1.0)
    backoff = np.where(totals > 0, np.bincount(parents, taken, contexts) / seen, 1.0)
    return (counts - taken) / seen[parents], backoff


def _discounts(counts: Tokens) -> Floats:
    """What is taken from a count of 0, 1, 2, and 3 or more (Chen and Goodman 1998, eq. 26).

    If there are too few texts to have n-grams of each count from 1 to 4, one discount for all (Ney, Essen and Kneser 1994);
    if there are none of count 1 or 2, a half.
    """
    frequency = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    if frequency[1] == 0 or frequency[2] == 0:
        return np.array([0.0, 0.5, 0.5, 0.5])
    single = frequency[1] / (frequency[1] + 2 * frequency[2])
    if (frequency[1:5] > 0).all():
        c = np.arange(1, 4)
        three = c - (c + 1) * single * frequency[2:5] / frequency[1:4]
        if (three > 0).all():
            return np.concatenate([[0.0], three])
    return np.array([0.0, single, single, single])
