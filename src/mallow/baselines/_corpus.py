"""Texts as numbered tokens, and the counts of their n-grams, from which all text statistics are computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.models import words

Text = str | Sequence[Hashable]
"""A text, or its tokens."""
Tokenize = Literal["whitespace", "regex"] | Callable[[str], Sequence[Hashable]]
"""How a str is split into tokens."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TOKENIZERS: dict[str, Callable[[str], Any]] = {"whitespace": str.split, "regex": words}


class Corpus(NamedTuple):
    """Tokenised texts."""

    tokens: Ints  # of all texts, one text after another, numbered from 0; at least one
    lengths: Ints  # (texts,)


def check_several(texts: Sequence[Text], *, least: int, why: str) -> list[Text]:
    """The texts as a list of at least `least`; `why` gives the reason in the error message."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"`texts` must be a list of texts; got a single {type(texts).__name__}. Pass [text].")
    listed = list(texts)
    if len(listed) < least:
        raise InputError(f"`texts` must hold at least {least}: {why}; got {len(listed)}.")
    return listed


def make_corpus(texts: Sequence[Text], tokenize: Tokenize) -> Corpus:
    """The texts, tokenised and checked."""
    if not callable(tokenize) and tokenize not in _TOKENIZERS:
        raise InputError(
            f"`tokenize` must be 'whitespace', 'regex' or a function from a text to its tokens; got {tokenize!r}."
        )
    split = tokenize if callable(tokenize) else _TOKENIZERS[tokenize]
    number: dict[Hashable, int] = {}
    tokens: list[int] = []
    lengths: list[int] = []
    for i, text in enumerate(check_several(texts, least=1, why="there is nothing to count otherwise")):
        if isinstance(text, str):
            words = _check_tokens(split(text), f"`tokenize` must return a list of tokens; got {{}} for text {i}.")
        else:
            words = _check_tokens(text, f"`texts` must hold str or lists of tokens; got {{}} at index {i}.")
        try:
            tokens += [number.setdefault(token, len(number)) for token in words]
        except TypeError as error:
            raise InputError(f"`texts` must have hashable tokens, such as str or int; in text {i}: {error}.") from None
        lengths.append(len(words))
    if not tokens:
        raise InputError(f"`texts` must have tokens, but all {len(lengths)} texts are empty.")
    return Corpus(np.array(tokens, np.int64), np.array(lengths, np.int64))


def tokenizer_label(tokenize: Tokenize) -> str:
    """The name of a tokenizer."""
    if isinstance(tokenize, str):
        return tokenize
    name = getattr(tokenize, "name", None)
    if isinstance(name, str):
        return name
    named: Any = tokenize if hasattr(tokenize, "__qualname__") else type(tokenize)
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True, eq=False)
class NGrams:
    """The n-grams of one length: one entry per distinct n-gram of each text, sorted by n-gram, then by text."""

    n: int
    gram: Ints  # numbered from 0
    text: Ints
    count: Ints  # how often the n-gram occurs in the text
    totals: Ints  # (texts,): the number of all n-grams of each text


def count_ngrams(corpus: Corpus, order: int) -> list[NGrams]:
    """The n-grams for n = 1 … order. An n-gram is numbered by the pair (its first n − 1 tokens, its last token)."""
    tokens, lengths = corpus
    texts, vocabulary = len(lengths), int(tokens.max()) + 1
    of_text = np.repeat(np.arange(texts), lengths)
    places = np.arange(len(tokens))  # the starts of the n-grams
    rest = np.repeat(np.cumsum(lengths), lengths) - places  # tokens from there to the end of the text
    grams, counted = tokens, []
    for n in range(1, order + 1):
        if n > 1:
            long = rest[places] >= n
            places = places[long]
            _, grams = np.unique(grams[long] * vocabulary + tokens[places + n - 1], return_inverse=True)
        pairs, count = np.unique(grams * texts + of_text[places], return_counts=True)
        gram, text = np.divmod(pairs, texts)
        counted.append(NGrams(n, gram, text, count, np.maximum(lengths - n + 1, 0)))
    return counted


def require_ngrams(ngrams: NGrams) -> NGrams:
    """The n-grams, if there is at least one."""
    if len(ngrams.gram) == 0:
        raise InputError(f"`texts` must include a text of at least {ngrams.n} tokens, but there is no {ngrams.n}-gram.")
    return ngrams


def _check_tokens(tokens: Any, message: str) -> Sequence[Hashable]:
    # The entries of a tensor are objects that are never equal. The entries of a transformers encoding are its keys.
    if hasattr(tokens, "tolist"):
        tokens = tokens.tolist()
    if not isinstance(tokens, Sequence) or isinstance(tokens, (str, bytes)):
        raise InputError(message.format(type(tokens).__name__))
    return tokens
