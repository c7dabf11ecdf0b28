"""An n-gram language model that is fitted in seconds on any text, so that everything runs without a download."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.generate._protocol import Tokens

_BYTES = 256  # tokens 1 to 256 are single bytes

# Runs of letters, of digits and of other signs, with the space before them; English clitics are separate pieces.
_PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)(?![^\W\d_])| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")

Floats = NDArray[np.float64]

END = 0
"""The token that ends a text, and begins the next one."""


def pieces(text: str) -> list[str]:
    """Words, numbers and punctuation with the space before them, and other white space; joined, they are the text."""
    return _PIECE.findall(text)


@dataclass(frozen=True, eq=False, repr=False)
class NGram:
    """Interpolated modified Kneser–Ney (Chen and Goodman 1998) over words with their spaces. A `NextToken`.

    Let c be the count of an n-gram (for the longest order, and for n-grams that begin a text) or the number of
    different tokens seen before it (for all others), and D one of three discounts per length, for c = 1, 2 and more.
    Then

        P(w | h) = max(c(hw) − D(c(hw)), 0) / Σ_v c(hv) + B(h) · P(w | h without its first token),

    where B(h) is the total of the discounts, so that each row sums to 1. An unseen context is shortened. The lowest
    level is the uniform distribution, so every token is possible everywhere.

    No token is unknown. Pieces seen less than `min_count` times are spelt in bytes, for which there are 256 tokens, so
    ``decode(encode(text)) == text`` for every text. Bytes that are not valid UTF-8, which can occur in samples, decode
    to "�".

    Token 0 ends a text. It also begins one: a prefix that starts with it is the beginning of a text, and any other
    prefix is inside a text. Tokens before an end have no effect.

    Create one with `NGram.fit`.

    Examples
    --------
    >>> model = NGram.fit(["the cat sat on the mat", "the dog sat on the cat"], order=3, min_count=1)
    >>> log_probs, state = model.start([model.encode("the dog sat on")])
    >>> model.decode([int(log_probs[0].argmax())])
    ' the'
    """

    order: int
    words: tuple[str, ...]
    tokenize: Callable[[str], list[str]]
    digest: str
    _unigram: Floats
    _levels: tuple[Level, ...]  # n = 2, …, order

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        *,
        order: int = 5,
        min_count: int = 2,
        tokenize: Callable[[str], list[str]] = pieces,
    ) -> NGram:
        """Fit a model to texts.

        Parameters
        ----------
        texts : iterable of str
            At least one; empty texts are refused.
        order : int
            The length of the longest n-grams, so that order − 1 tokens are remembered.
        min_count : int
            Pieces seen less often are spelt in bytes. This bounds the vocabulary, and unseen words can be spelt as
            well.
        tokenize : callable
            From a text to pieces that give the text when joined. A module-level function, if the model is to be
            pickled.
        """
        whole("order", order, least=1)
        whole("min_count", min_count, least=1)
        if isinstance(texts, str):
            raise InputError("`texts` must be a sequence of texts; got one str. Pass [text].")
        pieces_of = [_cut(text, tokenize, f"`texts[{i}]`") for i, text in enumerate(texts)]
        if not pieces_of:
            raise InputError("`texts` must hold at least one text; got none.")
        counts = Counter(chain.from_iterable(pieces_of))
        # A piece of one byte already has a token.
        words = sorted(word for word, count in counts.items() if count >= min_count and len(word.encode()) > 1)
        table = _Table({word: 1 + _BYTES + i for i, word in enumerate(words)})
        stream = np.fromiter(_join(pieces_of, table), np.int64)
        vocabulary = 1 + _BYTES + len(words)
        total = hashlib.sha256("\0".join(words).encode() + b"\0")
        total.update(stream.astype("<i8").tobytes())
        unigram, levels = fit_levels(stream, vocabulary, order)
        return cls(order, tuple(words), tokenize, total.hexdigest()[:12], unigram, levels)

    @property
    def name(self) -> str:
        """Order, size of the vocabulary, tokenizer, and digest of the texts it was fitted to."""
        tokenizer = getattr(self.tokenize, "__qualname__", repr(self.tokenize))
        return f"NGram(order={self.order}, vocabulary={self.vocabulary}, tokenize={tokenizer}, {self.digest})"

    @property
    def vocabulary(self) -> int:
        """Number of tokens: end of text, 256 bytes and the words."""
        return 1 + _BYTES + len(self.words)

    @property
    def end(self) -> frozenset[int]:
        """Token 0, which also begins a text."""
        return frozenset({END})

    @property
    def context(self) -> None:
        """None: there is no limit."""
        return None

    def __repr__(self) -> str:
        return self.name

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without the end of text; none for an empty text."""
        if text == "":
            return []
        return list(chain.from_iterable(map(self._table.__getitem__, _cut(text, self.tokenize, "`text`"))))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens. The end of text is left out."""
        known = self._bytes
        if len(tokens) and (min(tokens) < 0 or max(tokens) >= len(known)):
            raise InputError(f"`tokens` must be from 0 to {len(known) - 1}; got {min(tokens)} to {max(tokens)}.")
        return b"".join(known[token] for token in tokens).decode("utf-8", "replace")

    def start(self, prefixes: Sequence[Sequence[int]]) -> tuple[Floats, Tokens]:
        """Log-probabilities (b, vocabulary) after each prefix, and the state."""
        recent = np.full((len(prefixes), max(self.order - 1, 1)), -1, np.int64)
        for row, prefix in zip(recent, prefixes, strict=True):
            tail = np.asarray(prefix[-len(row) :], np.int64)
            if len(tail) == 0:
                raise InputError("`prefixes` must have at least one token each; got an empty one. [0] begins a text.")
            if tail.min() < 0 or tail.max() >= self.vocabulary:
                raise InputError(f"`prefixes` must hold tokens from 0 to {self.vocabulary - 1}; got {tail.tolist()}.")
            row[len(row) - len(tail) :] = tail
        state = np.full_like(recent, -1)
        for column in recent.T:
            state = self._next(state, column)
        return self._rows(state), state

    def step(self, state: Tokens, tokens: Tokens) -> tuple[Floats, Tokens]:
        """The same after one more token per row."""
        state = self._next(state, np.asarray(tokens, np.int64))
        return self._rows(state), state

    def select(self, state: Tokens, rows: Tokens) -> Tokens:
        """The state of some rows."""
        return state[rows]

    def log_prob(self, tokens: Sequence[int], prefix: Sequence[int] | None = None) -> Floats:
        """The log-probability of each token after `prefix` and the tokens before it; append `end` to score the end.

        Equal to the results of `start` and `step`, but faster, because no full rows are computed. The default prefix is
        the end of the text before.

        Examples
        --------
        >>> model = NGram.fit(["to be or not to be"], min_count=1)
        >>> text = [*model.encode("to be"), *model.end]
        >>> model.log_prob(text).shape
        (3,)
        """
        before = [END] if prefix is None else prefix
        if len(before) == 0:
            raise InputError("`prefix` must have at least one token; got none. Pass None for the beginning of a text.")
        stream = np.concatenate([np.asarray(before, np.int64), np.asarray(tokens, np.int64)])
        if stream.min() < 0 or stream.max() >= self.vocabulary:
            raise InputError(f"`tokens` must be from 0 to {self.vocabulary - 1}; got {stream.min()} to {stream.max()}.")
        probs = self._unigram[stream[1:]]
        numbers = stream  # of the (n − 1)-gram that begins at each place
        for n, level in enumerate(self._levels, start=2):
            contexts, last = numbers[: len(stream) - n + 1], stream[n - 1 :]
            numbers = level.look_up(contexts, last, self.vocabulary)
            # The n-gram at place i predicts token i + n − 1 of the stream, which is token i + n − 2 of the text.
            known = np.flatnonzero(contexts >= 0)
            known = known[level.backoff[contexts[known]] < 1]
            into, ngram = known + n - 2, numbers[known]
            probs[into] *= level.backoff[contexts[known]]
            probs[into] += np.where(ngram >= 0, level.share[ngram], 0.0)
        return np.asarray(np.log(probs[len(before) - 1 :]), np.float64)

    def _next(self, state: Tokens, tokens: Tokens) -> Tokens:
        # The state (b, order − 1) holds the numbers of the n-grams of the last 1, 2, … tokens; −1 for one never seen.
        following = np.empty_like(state)
        following[:, 0] = tokens
        for k, level in enumerate(self._levels[: state.shape[1] - 1]):
            following[:, k + 1] = level.look_up(state[:, k], tokens, self.vocabulary)
        return following

    def _rows(self, state: Tokens) -> Floats:
        rows = np.empty((len(state), self.vocabulary))
        scratch = np.empty(self.vocabulary)
        for row, contexts in zip(rows, state, strict=True):
            self._fill(row, contexts, scratch)
        return rows

    def _fill(self, row: Floats, contexts: Tokens, scratch: Floats) -> None:
        """Log-probabilities after one context: a multiple of the unigrams, except for tokens seen after its end."""
        left, after = 1.0, None
        for level, context in zip(self._levels, contexts.tolist(), strict=False):
            if context < 0 or (backoff := float(level.backoff[context])) == 1:
                break
            stretch = slice(level.offsets[context], level.offsets[context + 1])
            tokens = level.keys[stretch] - context * self.vocabulary
            if after is None:  # every token seen after a longer context was also seen after its last token
                after = tokens
                scratch[after] = self._unigram[after]
            left *= backoff
            scratch[after] *= backoff
            scratch[tokens] += level.share[stretch]
        np.add(self._log_unigram, np.log(left), out=row)
        if after is not None:
            row[after] = np.log(scratch[after])

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}

    @functools.cached_property
    def _log_unigram(self) -> Floats:
        return np.asarray(np.log(self._unigram), np.float64)

    @functools.cached_property
    def _table(self) -> _Table:
        return _Table({word: 1 + _BYTES + i for i, word in enumerate(self.words)})

    @functools.cached_property
    def _bytes(self) -> list[bytes]:
        return [b"", *(bytes([i]) for i in range(_BYTES)), *(word.encode() for word in self.words)]


class _Table(dict[str, tuple[int, ...]]):
    """Pieces → tokens: the token of a word, or the tokens of its bytes."""

    def __init__(self, words: dict[str, int]) -> None:
        super().__init__((word, (token,)) for word, token in words.items())

    def __missing__(self, word: str) -> tuple[int, ...]:
        return tuple(1 + byte for byte in word.encode("utf-8", "surrogatepass"))


def _join(pieces_of: list[list[str]], table: _Table) -> Iterable[int]:
    """End, the tokens of the first text, end, the second text, …, end."""
    yield END
    for words in pieces_of:
        yield from chain.from_iterable(map(table.__getitem__, words))
        yield END


def _cut(text: str, tokenize: Callable[[str], list[str]], name: str) -> list[str]:
    """The pieces of a text, checked."""
    if not isinstance(text, str) or not text:
        raise InputError(f"{name} must be a non-empty text; got {text!r}.")
    cut = tokenize(text)
    if "".join(cut) != text:
        raise InputError(
            f"`tokenize` must cut a text without changing it, but the pieces of {name} do not join to the same text."
        )
    return cut


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one length n ≥ 2, as the children of their first n − 1 tokens, the context.

    The number of a 1-gram is its token. The number of a longer n-gram is its place in `keys`, which is sorted, so that
    the children of context c are at offsets[c] to offsets[c + 1].
    """

    keys: Tokens  # number of the context · vocabulary + last token
    share: Floats  # max(count − discount, 0) / sum of the counts after this context
    offsets: Tokens
    backoff: Floats  # for each context: the discounts, spread like the distribution of the shorter context

    def look_up(self, contexts: Tokens, tokens: Tokens, vocabulary: int) -> Tokens:
        """The numbers of n-grams; −1 if the context is −1 or the n-gram was never seen."""
        if len(self.keys) == 0:  # all texts are shorter
            return np.full(len(contexts), -1, np.int64)
        wanted = contexts * vocabulary + tokens
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where((contexts >= 0) & (self.keys[places] == wanted), places, -1)


def fit_levels(stream: Tokens, vocabulary: int, order: int) -> tuple[Floats, tuple[Level, ...]]:
    """Unigram probabilities, and n-grams of length 2 to `order`, of texts joined by `END`, with one on each side."""
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
            # Kneser and Ney count the different tokens before an n-gram. N-grams that begin a text have none.
            before = np.bincount(suffixes[i + 1], minlength=len(keys))
            counts = np.where(opens, counts, before)
        contexts = vocabulary if i == 0 else len(ngrams[i - 1][0])
        parents = keys // vocabulary
        share, backoff = _discount(counts, parents, contexts)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(parents, minlength=contexts))])
        levels.append(Level(keys, share, offsets, backoff))
    share, backoff = _discount(unigram, np.zeros(vocabulary, np.int64), 1)
    return share + backoff[0] / vocabulary, tuple(levels)


def _discount(counts: Tokens, parents: Tokens, contexts: int) -> tuple[Floats, Floats]:
    """Discounted share of each n-gram after its context, and the rest of each context; 1 for one without n-grams."""
    taken = _discounts(counts)[np.minimum(counts, 3)]
    totals = np.bincount(parents, counts, contexts)
    divisor = np.where(totals > 0, totals, 1.0)
    backoff = np.where(totals > 0, np.bincount(parents, taken, contexts) / divisor, 1.0)
    return (counts - taken) / divisor[parents], backoff


def _discounts(counts: Tokens) -> Floats:
    """The discounts for counts of 0, 1, 2, and 3 or more (Chen and Goodman 1998, eq. 26).

    If too few texts lead to missing counts from 1 to 4, there is one discount for all (Ney, Essen and Kneser 1994), or
    a half without counts of 1 or 2.
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
