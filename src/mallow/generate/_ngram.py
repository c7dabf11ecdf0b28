"""An n-gram language model of our own: fitted in seconds on any text, it makes everything runnable without a download."""

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

__all__ = ["NGram", "pieces"]

Floats = NDArray[np.float64]

_END = 0
_BYTES = 256  # tokens 1 … 256 are single bytes

# Letters, digits and other signs apart, with the space before them; English clitics apart.
_PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)(?![^\W\d_])| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")


def pieces(text: str) -> list[str]:
    """Words, numbers and punctuation with the space before them, and other white space; joined they are the text again.

    Examples
    --------
    >>> pieces("It's 3 o'clock,  he said.")
    ['It', "'s", ' 3', ' o', "'", 'clock', ',', ' ', ' he', ' said', '.']
    """
    return _PIECE.findall(text)


@dataclass(frozen=True, eq=False)
class _Level:
    """The n-grams of one length n ≥ 2, as the children of their first n − 1 tokens.

    Tokens number the 1-grams; an n-gram's number is its place in `keys`, which is sorted, so that the children of
    context c are the stretch offsets[c] … offsets[c + 1].
    """

    keys: Tokens  # number of the first n − 1 tokens · vocabulary + last token
    share: Floats  # max(count − discount, 0) / sum of the counts after this context
    offsets: Tokens
    backoff: Floats  # for each context: what the discounts took, to be spread like the shorter context's distribution

    def found(self, contexts: Tokens, tokens: Tokens, vocabulary: int) -> Tokens:
        """The numbers of n-grams; −1 where the context is −1 or the n-gram was never seen."""
        if len(self.keys) == 0:  # every text was shorter
            return np.full(len(contexts), -1, np.int64)
        wanted = contexts * vocabulary + tokens
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where((contexts >= 0) & (self.keys[places] == wanted), places, -1)


@dataclass(frozen=True, eq=False, repr=False)
class NGram:
    """Interpolated modified Kneser–Ney (Chen and Goodman 1998) over words with their spaces; a `NextToken`.

    With c the count of an n-gram (of the longest order, and of n-grams that open a text) or the number of different tokens
    seen before it (all others), and with D one of three discounts a length, for c = 1, 2 and more,

        P(w | h) = max(c(hw) − D(c(hw)), 0) / Σ_v c(hv) + B(h) · P(w | h without its first token),

    B(h) being what the discounts took away, so that each row sums to 1. A context that was never seen is shortened. Below
    one token stands the uniform distribution: every token is possible everywhere.

    No token is unknown. Pieces seen less than `min_count` times are spelt in bytes, of which there are 256 tokens, so
    ``decode(encode(text)) == text`` for every text. Bytes that are no UTF-8, which a sample may hold, decode to "�".

    Token 0 ends a text. It also opens one: a prefix that begins with it is the beginning of a text, one that does not is
    somewhere inside. Nothing before an end is remembered.

    Make one with `NGram.fit`.

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
    _levels: tuple[_Level, ...]  # n = 2, …, order

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        *,
        order: int = 5,
        min_count: int = 2,
        tokenize: Callable[[str], list[str]] = pieces,
    ) -> NGram:
        """The model of some texts, none of them empty.

        Parameters
        ----------
        texts : iterable of str
        order : int
            The longest n-gram, so that order − 1 tokens are remembered.
        min_count : int
            Pieces seen less often are spelt in bytes: bounds the vocabulary, and lets unseen words be spelt too.
        tokenize : callable
            From a text to pieces that give the text when joined. A function of a module, for the model to pickle.
        """
        whole("order", order, least=1)
        whole("min_count", min_count, least=1)
        if isinstance(texts, str):
            raise InputError("`texts` must be several texts; got one str. Pass [text].")
        cut = [_checked_pieces(text, tokenize, f"`texts[{i}]`") for i, text in enumerate(texts)]
        if not cut:
            raise InputError("`texts` must hold at least one text; got none.")
        counts = Counter(chain.from_iterable(cut))
        # A piece of one byte has its token already.
        often = sorted(word for word, count in counts.items() if count >= min_count and len(word.encode()) > 1)
        table = _Table({word: 1 + _BYTES + i for i, word in enumerate(often)})
        stream = np.fromiter(_joined(cut, table), np.int64)
        vocabulary = 1 + _BYTES + len(often)
        total = hashlib.sha256("\0".join(often).encode() + b"\0")
        total.update(stream.astype("<i8").tobytes())
        unigram, levels = _fitted(stream, vocabulary, order)
        return cls(order, tuple(often), tokenize, total.hexdigest()[:12], unigram, levels)

    @property
    def name(self) -> str:
        """Order, vocabulary and what it was fitted on."""
        how = getattr(self.tokenize, "__qualname__", repr(self.tokenize))
        return f"NGram(order={self.order}, vocabulary={self.vocabulary}, tokenize={how}, {self.digest})"

    @property
    def vocabulary(self) -> int:
        """End of text, 256 bytes and the words."""
        return 1 + _BYTES + len(self.words)

    @property
    def end(self) -> frozenset[int]:
        """Token 0, which also opens a text."""
        return frozenset({_END})

    @property
    def context(self) -> None:
        """Any number of tokens."""
        return None

    def __repr__(self) -> str:
        return self.name

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without end of text; none for an empty text."""
        if text == "":
            return []
        return list(chain.from_iterable(map(self._table.__getitem__, _checked_pieces(text, self.tokenize, "`text`"))))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; end of text is left out."""
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
                raise InputError("`prefixes` must each have at least one token; got an empty one. [0] opens a text.")
            if tail.min() < 0 or tail.max() >= self.vocabulary:
                raise InputError(f"`prefixes` must hold tokens from 0 to {self.vocabulary - 1}; got {tail.tolist()}.")
            row[len(row) - len(tail) :] = tail
        state = np.full_like(recent, -1)
        for column in recent.T:
            state = self._next(state, column)
        return self._rows(state), state

    def step(self, state: Tokens, tokens: Tokens) -> tuple[Floats, Tokens]:
        """The same after one more token of each row."""
        state = self._next(state, np.asarray(tokens, np.int64))
        return self._rows(state), state

    def select(self, state: Tokens, rows: Tokens) -> Tokens:
        """The state of some rows."""
        return state[rows]

    def log_prob(self, tokens: Sequence[int], given: Sequence[int] | None = None) -> Floats:
        """The log-probability of each token after those before it; append `end` to have that of the end.

        Equal to what `start` and `step` give after the prefix `given`, by default the end of the text before; faster, since
        no row is made.

        Examples
        --------
        >>> model = NGram.fit(["to be or not to be"], min_count=1)
        >>> text = [*model.encode("to be"), *model.end]
        >>> model.log_prob(text).shape
        (3,)
        """
        before = [_END] if given is None else given
        if len(before) == 0:
            raise InputError("`given` must have at least one token; got none. Pass None for the beginning of a text.")
        stream = np.concatenate([np.asarray(before, np.int64), np.asarray(tokens, np.int64)])
        if stream.min() < 0 or stream.max() >= self.vocabulary:
            raise InputError(f"`tokens` must be from 0 to {self.vocabulary - 1}; got {stream.min()} to {stream.max()}.")
        found = self._unigram[stream[1:]]
        numbers = stream  # of the (n − 1)-gram that begins at each place
        for n, level in enumerate(self._levels, start=2):
            contexts, last = numbers[: len(stream) - n + 1], stream[n - 1 :]
            numbers = level.found(contexts, last, self.vocabulary)
            # The n-gram from place i predicts token i + n − 1 of the stream, which is i + n − 2 of the text.
            known = np.flatnonzero(contexts >= 0)
            known = known[level.backoff[contexts[known]] < 1]
            into, seen = known + n - 2, numbers[known]
            found[into] *= level.backoff[contexts[known]]
            found[into] += np.where(seen >= 0, level.share[seen], 0.0)
        return np.asarray(np.log(found[len(before) - 1 :]), np.float64)

    def _next(self, state: Tokens, tokens: Tokens) -> Tokens:
        # The state (b, order − 1) has the numbers of the last 1, 2, … tokens as n-grams, −1 where never seen.
        following = np.empty_like(state)
        following[:, 0] = tokens
        for k, level in enumerate(self._levels[: state.shape[1] - 1]):
            following[:, k + 1] = level.found(state[:, k], tokens, self.vocabulary)
        return following

    def _rows(self, state: Tokens) -> Floats:
        rows = np.empty((len(state), self.vocabulary))
        scratch = np.empty(self.vocabulary)
        for row, contexts in zip(rows, state, strict=True):
            self._fill(row, contexts, scratch)
        return rows

    def _fill(self, row: Floats, contexts: Tokens, scratch: Floats) -> None:
        """Log-probabilities after one context: a multiple of the unigrams but for the tokens seen after its last token."""
        left, after = 1.0, None
        for level, context in zip(self._levels, contexts.tolist(), strict=False):
            if context < 0 or (backoff := float(level.backoff[context])) == 1:
                break
            stretch = slice(level.offsets[context], level.offsets[context + 1])
            tokens = level.keys[stretch] - context * self.vocabulary
            if after is None:
                after = tokens  # a token seen after a long context was seen after its last token: none other is touched
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
    """Pieces → tokens: a word's own, or its bytes'."""

    def __init__(self, words: dict[str, int]) -> None:
        super().__init__((word, (token,)) for word, token in words.items())

    def __missing__(self, word: str) -> tuple[int, ...]:
        return tuple(1 + byte for byte in word.encode("utf-8", "surrogatepass"))


def _joined(cut: list[list[str]], table: _Table) -> Iterable[int]:
    """End, the tokens of the first text, end, the second text, …, end."""
    yield _END
    for words in cut:
        yield from chain.from_iterable(map(table.__getitem__, words))
        yield _END


def _checked_pieces(text: str, tokenize: Callable[[str], list[str]], name: str) -> list[str]:
    if not isinstance(text, str) or not text:
        raise InputError(f"{name} must be a text that is not empty; got {text!r}.")
    cut = tokenize(text)
    if "".join(cut) != text:
        raise InputError(f"`tokenize` must cut a text without changing it; {name} is another text after joining.")
    return cut


def _fitted(stream: Tokens, vocabulary: int, order: int) -> tuple[Floats, tuple[_Level, ...]]:
    """Unigram probabilities, and the n-grams of length 2, …, order with their shares."""
    ends = stream == _END
    numbers = stream  # of the n-gram that begins at each place; −1 for none
    whole_ngram = np.ones(len(stream), bool)
    found = []  # (keys, raw counts, first places) of each length from 2
    suffixes = []  # for each length from 2: the numbers of its n-grams without their first token
    for n in range(2, order + 1):
        size = max(len(stream) - n + 1, 0)
        whole_ngram = whole_ngram[:size]
        if n > 2:  # no n-gram has the end of a text inside
            whole_ngram = whole_ngram & ~ends[n - 2 : n - 2 + size]
        places = np.flatnonzero(whole_ngram)
        keys, first, inverse, counts = np.unique(
            numbers[places] * vocabulary + stream[places + n - 1],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        suffixes.append(numbers[places[first] + 1])
        numbers = np.full(size + 1, -1, np.int64)  # one more, for the suffix of an n-gram that ends the stream
        numbers[places] = inverse
        found.append((keys, counts, ends[places[first]]))
    unigram = np.bincount(suffixes[0] if suffixes else stream[1:], minlength=vocabulary)
    levels = []
    for i, (keys, counts, opens) in enumerate(found):
        if i + 1 < len(found):
            # Kneser and Ney: not how often, but after how many different tokens. What opens a text has none before it.
            before = np.bincount(suffixes[i + 1], minlength=len(keys))
            counts = np.where(opens, counts, before)
        contexts = vocabulary if i == 0 else len(found[i - 1][0])
        levels.append(_level(keys, counts, vocabulary, contexts))
    share, backoff = _discounted(unigram, np.zeros(vocabulary, np.int64), 1)
    return share + backoff[0] / vocabulary, tuple(levels)


def _level(keys: Tokens, counts: Tokens, vocabulary: int, contexts: int) -> _Level:
    parents = keys // vocabulary
    share, backoff = _discounted(counts, parents, contexts)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(parents, minlength=contexts))])
    return _Level(keys, share, offsets, backoff)


def _discounted(counts: Tokens, parents: Tokens, contexts: int) -> tuple[Floats, Floats]:
    """Discounted shares of each n-gram after its context, and what each context has left; 1 for a context without any."""
    taken = _discounts(counts)[np.minimum(counts, 3)]
    totals = np.bincount(parents, counts, contexts)
    seen = np.where(totals > 0, totals, 1.0)
    backoff = np.where(totals > 0, np.bincount(parents, taken, contexts) / seen, 1.0)
    return (counts - taken) / seen[parents], backoff


def _discounts(counts: Tokens) -> Floats:
    """What is taken from a count of 0, 1, 2, and 3 or more (Chen and Goodman 1998, eq. 26).

    Where a text is too small to have n-grams of each of the counts 1 to 4, one discount for all (Ney, Essen and Kneser
    1994), and where there are none of count 1 or 2, a half.
    """
    of = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    if of[1] == 0 or of[2] == 0:
        return np.array([0.0, 0.5, 0.5, 0.5])
    single = of[1] / (of[1] + 2 * of[2])
    if (of[1:5] > 0).all():
        c = np.arange(1, 4)
        three = c - (c + 1) * single * of[2:5] / of[1:4]
        if (three > 0).all():
            return np.concatenate([[0.0], three])
    return np.array([0.0, single, single, single])
