"""Texts that end in a loop: repetition (paper: baseline metrics)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.baselines._corpus import Corpus, Ints, Text, Tokenize, make_corpus


def repetition(
    texts: Sequence[Text], *, copies: int = 2, shortest: int = 1, tokenize: Tokenize = "whitespace"
) -> float:
    """The share of texts that end in copies of one phrase, from 0 to 1; options as in `text_repetitions`.

    Examples
    --------
    >>> repetition(["and so on and so on", "and so on"])
    0.5
    """
    return float(text_repetitions(texts, copies=copies, shortest=shortest, tokenize=tokenize).mean())


def text_repetitions(
    texts: Sequence[Text], *, copies: int = 2, shortest: int = 1, tokenize: Tokenize = "whitespace"
) -> NDArray[np.bool_]:
    """Whether each text ends in contiguous copies of one phrase, token by token; shape (n,).

    The phrase may have any length, as the paper says, so that a text that ends in the same token twice, "very very",
    counts. With "regex", so does a text that ends in "...", and with a model's tokens one that ends in two line breaks.
    The code of Holtzman et al. (2020) requires phrases of 3 to 90 tokens, or more than 50 copies; ``shortest=3`` comes
    closest to it.

    Parameters
    ----------
    texts : sequence of texts
    copies : int
        The minimum number of copies, at least 2.
    shortest : int
        The minimum number of tokens in a phrase. With 3, six copies of one token are two copies of a phrase of 3.
    tokenize : "whitespace", "regex" or callable
        See `mallow.baselines`.

    Examples
    --------
    >>> text_repetitions(["and so on and so on", "it is very very", "again and again"]).tolist()
    [True, True, False]
    """
    whole("copies", copies, least=2)
    whole("shortest", shortest, least=1)
    return find_repetitions(make_corpus(texts, tokenize), copies=copies, shortest=shortest)


def find_repetitions(corpus: Corpus, *, copies: int = 2, shortest: int = 1) -> NDArray[np.bool_]:
    """Whether each text of a corpus ends in copies of one phrase."""
    texts = np.split(corpus.tokens, np.cumsum(corpus.lengths)[:-1])
    return np.array([_ends_in_copies(tokens[::-1], copies, shortest) for tokens in texts])


def _ends_in_copies(backwards: Ints, copies: int, shortest: int) -> bool:
    # A copy can only end where the last token occurs again, which leaves few lengths to check.
    longest = len(backwards) // copies
    lengths = shortest + np.flatnonzero(backwards[shortest : longest + 1] == backwards[:1])
    return any(np.array_equal(backwards[: n * (copies - 1)], backwards[n : n * copies]) for n in lengths)
