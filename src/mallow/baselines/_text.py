"""Statistics of the texts alone: Zipf coefficient, repetition, distinct-n, diversity, self-BLEU (paper: baseline metrics).

None of them is good when high or when low: greedy text repeats itself, and pure noise is as diverse as can be. They say
something beside their value for human text: the gap |T(Q) − T(P)|, 0 being best, by `gap` for one statistic and by
`TextStatistics.gap` for all. All of them but repetition depend on how much text there is: compare equal numbers of texts
of equal lengths.

Wherever texts are wanted, a text is a str or a sequence of hashable tokens, such as a model's token ids. How a str becomes
tokens is the choice of `tokenize`, and numbers of different choices cannot be compared:

    "whitespace"   ``text.split()``: "cat" and "cat." differ. Used with contrastive search; the default, as it hides nothing
    "regex"        lower-cased words, and punctuation marks one by one: `mallow.models.words`
    a callable     from a text to a list of tokens: the ``encode`` of a model. The paper uses the tokens of GPT-2

An end-of-text token is a token like any other: take it off first. An empty text is a text; it has no n-grams.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, whole
from mallow.errors import EstimateWarning, InputError
from mallow.models import words

__all__ = [
    "Text",
    "TextStatistics",
    "Tokenize",
    "distinct",
    "diversity",
    "gap",
    "repetition",
    "self_bleu",
    "text_repetitions",
    "text_self_bleus",
    "text_statistics",
    "zipf_coefficient",
]

Text = str | Sequence[Hashable]
"""A text, or its tokens."""
Tokenize = Literal["whitespace", "regex"] | Callable[[str], Sequence[Hashable]]
"""How a str becomes tokens."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_RANKS = 5000  # of the code by Holtzman et al. (2020), which the paper uses
_SMOOTHING = 0.1
_ORDER = 4
_MANY = 0.05  # share of texts too short for an n-gram from which a warning is given


# --- all at once


@dataclass(frozen=True)
class TextStatistics:
    """The statistics of one system's texts, each with the options of the paper.

    Attributes
    ----------
    zipf_coefficient, repetition, distinct, diversity, self_bleu : float
        As given by the functions of these names; `distinct` is of 4-grams.
    texts, tokens : int
        How many there were.
    tokenize : str
        "whitespace", "regex", the name of a callable, or "tokens" where none of the texts was a str.
    warnings : tuple of str
        What makes the numbers doubtful.
    """

    zipf_coefficient: float
    repetition: float
    distinct: float
    diversity: float
    self_bleu: float
    texts: int
    tokens: int
    tokenize: str
    warnings: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """The five statistics by name."""
        names = ("zipf_coefficient", "repetition", "distinct", "diversity", "self_bleu")
        return {name: getattr(self, name) for name in names}

    def gap(self, reference: TextStatistics) -> dict[str, float]:
        """|T(Q) − T(P)| of each statistic, 0 being best; both sides must have been tokenised the same way.

        Examples
        --------
        >>> human = text_statistics(["to be or not to be", "not to be or to be"])
        >>> model = text_statistics(["to be or to be or", "to be or to be to"])
        >>> {name: round(value, 3) for name, value in model.gap(human).items()}
        {'zipf_coefficient': 0.123, 'repetition': 0.5, 'distinct': 0.333, 'diversity': 0.188, 'self_bleu': 0.42}
        """
        if self.tokenize != reference.tokenize:
            raise InputError(
                f"`reference` must be tokenised as the model's texts are, by {self.tokenize!r}; it was by "
                f"{reference.tokenize!r}."
            )
        _warn_of_sizes(reference.texts, self.texts)
        return {name: abs(value - reference.values[name]) for name, value in self.values.items()}


def text_statistics(texts: Sequence[Text], *, tokenize: Tokenize = "whitespace") -> TextStatistics:
    """All statistics of some texts, tokenised and counted once. At least two texts, one of them of at least 4 tokens.

    Examples
    --------
    >>> found = text_statistics(["the cat sat on the mat", "the dog sat on the rug", "it ran and ran"])
    >>> found.repetition, round(found.self_bleu, 3), found.tokens
    (0.0, 0.145, 16)
    """
    texts = _several(texts, least=2, why="self-BLEU compares each text with the others")
    corpus = _corpus(texts, tokenize)
    levels = _levels(corpus, _ORDER)
    doubts = _doubts(corpus.lengths, _ORDER)
    for doubt in doubts:
        warnings.warn(doubt, EstimateWarning, stacklevel=2)
    return TextStatistics(
        zipf_coefficient=_zipf(levels[0], _RANKS),
        repetition=float(_repetitions(corpus, copies=2, shortest=1).mean()),
        distinct=_distinct(levels[3], 4),
        diversity=_diversity(levels),
        self_bleu=_mean(_self_bleus(levels, corpus.lengths, _SMOOTHING)),
        texts=len(texts),
        tokens=len(corpus.tokens),
        tokenize=_label(tokenize) if any(isinstance(text, str) for text in texts) else "tokens",
        warnings=doubts,
    )


def gap(statistic: Callable[[Sequence[Text]], float], reference: Sequence[Text], model: Sequence[Text]) -> float:
    """|T(Q) − T(P)| of one statistic T, 0 being best; options are given by a lambda or `functools.partial`.

    Examples
    --------
    >>> gap(lambda texts: distinct(texts, n=2), ["to be or not to be"], ["to be to be to be"])
    0.4
    """
    _warn_of_sizes(len(reference), len(model))
    return abs(statistic(model) - statistic(reference))


def _warn_of_sizes(reference: int, model: int) -> None:
    if reference != model:
        warnings.warn(
            f"the reference has {reference} texts and the model {model}: most text statistics depend on how many there "
            "are. Compare equal numbers.",
            EstimateWarning,
            stacklevel=3,
        )


# --- one by one


def zipf_coefficient(texts: Sequence[Text], *, ranks: int = _RANKS, tokenize: Tokenize = "whitespace") -> float:
    """Minus the slope of the line fitted to log frequency over log rank, for the most frequent tokens of all texts.

    By least squares, each rank with the same weight; tokens of equal frequency have successive ranks. About 1 for human
    text, 0 where all tokens are equally frequent. It depends on the counts of tokens alone, not on their order.

    Parameters
    ----------
    texts : sequence of texts
        With at least two different tokens, else there is no line.
    ranks : int
        How many of the most frequent tokens are used; at least 2. 5,000 is what the code of Holtzman et al. (2020) does,
        which the paper uses; the coefficient depends on it, as the rarest tokens, all of frequency 1, flatten the line.
    tokenize :
        See the top of the module.

    Examples
    --------
    >>> zipf_coefficient(["a a a a b b c", "d a a"], ranks=2)  # frequencies 6 and 2
    1.585
    """
    return _zipf(_levels(_corpus(texts, tokenize), 1)[0], whole("ranks", ranks, least=2))


def repetition(
    texts: Sequence[Text], *, copies: int = 2, shortest: int = 1, tokenize: Tokenize = "whitespace"
) -> float:
    """The share of texts that end in copies of one phrase, from 0 to 1; the options are those of `text_repetitions`.

    Examples
    --------
    >>> repetition(["and so on and so on", "and so on"])
    0.5
    """
    return float(text_repetitions(texts, copies=copies, shortest=shortest, tokenize=tokenize).mean())


def text_repetitions(
    texts: Sequence[Text], *, copies: int = 2, shortest: int = 1, tokenize: Tokenize = "whitespace"
) -> NDArray[np.bool_]:
    """For each text whether it ends in contiguous copies of one phrase, token by token, shape (n,).

    The phrase may have any length, as the paper says, and thus a text that ends in one token twice, "very very", counts.
    With "regex" so does one that ends in "...", and with a model's tokens one that ends in two line breaks. The code of
    Holtzman et al. (2020) wants phrases of 3 to 90 tokens, or more than 50 copies; ``shortest=3`` is nearest to it.

    Parameters
    ----------
    texts : sequence of texts
    copies : int
        How many copies at least; 2 or more.
    shortest : int
        How many tokens a phrase has at least. With 3, six copies of one token are two of a phrase of 3.
    tokenize :
        See the top of the module.

    Examples
    --------
    >>> text_repetitions(["and so on and so on", "it is very very", "again and again"]).tolist()
    [True, True, False]
    """
    whole("copies", copies, least=2)
    whole("shortest", shortest, least=1)
    return _repetitions(_corpus(texts, tokenize), copies=copies, shortest=shortest)


def distinct(texts: Sequence[Text], n: int = 4, *, tokenize: Tokenize = "whitespace") -> float:
    """Distinct-n: the number of different n-grams of all texts over the number of all, from near 0 to 1.

    Counted over all texts together, so that it sees a system that says the same in every text, and falls with the number
    of texts. Texts of fewer than n tokens add nothing. (The code of Holtzman et al. 2020 counts the n-grams that occur
    exactly once instead; the paper's words are followed here.)

    Examples
    --------
    >>> distinct(["the cat sat", "the cat ran"], n=2)
    0.75
    """
    return _distinct(_levels(_corpus(texts, tokenize), whole("n", n, least=1))[-1], n)


def diversity(texts: Sequence[Text], *, tokenize: Tokenize = "whitespace") -> float:
    """The product over n = 2, 3, 4 of (different n-grams of a text, summed over texts) / (all n-grams): from 0 to 1.

    As used with contrastive search (Su et al. 2022): repetition *within* each text lowers it, the same n-gram in two texts
    does not. The fractions are of sums over texts, so that long texts count for more, as in the code of that paper; unlike
    there, the last n-gram of each text counts too, and nothing is rounded. Texts of fewer than n tokens add nothing.

    Examples
    --------
    >>> diversity(["the cat sat on the mat"] * 2), round(diversity(["so on and so on and so"]), 3)
    (1.0, 0.225)
    """
    return _diversity(_levels(_corpus(texts, tokenize), 4))


def self_bleu(
    texts: Sequence[Text], *, order: int = _ORDER, smoothing: float = _SMOOTHING, tokenize: Tokenize = "whitespace"
) -> float:
    """The mean over all texts of the BLEU of each against all the others, from 0 to 1: the lower, the more diverse.

    The paper takes the mean over 1,000 of its 5,000 texts, each against all others, since going through all pairs takes
    hours; here it is over all texts, in seconds. The options are those of `text_self_bleus`.

    Examples
    --------
    >>> self_bleu(["the cat sat on the mat"] * 2)
    1.0
    >>> self_bleu(["the cat sat on the mat", "a dog ran to his bowl"])
    0.0
    """
    return _mean(text_self_bleus(texts, order=order, smoothing=smoothing, tokenize=tokenize))


def text_self_bleus(
    texts: Sequence[Text], *, order: int = _ORDER, smoothing: float = _SMOOTHING, tokenize: Tokenize = "whitespace"
) -> Floats:
    """The BLEU of each text with all other texts as references, shape (n,), exactly (Zhu et al. 2018).

    The geometric mean, with equal weights, of the precisions for n = 1 … order, times the brevity penalty
    min(1, exp(1 − r / length)), where r is the length of another text that is closest, the shorter one of two. The
    precision is the share of a text's n-grams that match, where an n-gram matches at most as often as it occurs in any
    single other text. For that the two largest counts of each n-gram are enough, and no pair of texts is looked at: time
    and memory grow with the number of n-grams, up to sorting them.

    It is what ``nltk.translate.bleu_score.sentence_bleu`` gives with ``method1``, in all cases. sacreBLEU's
    ``smooth_method="floor"`` without effective order is the same for texts of at least `order` tokens, and gives 0 to
    shorter ones. Limits: 1 for a text of at least `order` tokens that has a copy, 0 for one that shares no token with any
    other, and for an empty one.

    Parameters
    ----------
    texts : sequence of texts
        At least two. From 5 % of them shorter than `order` on there is an `EstimateWarning`: a text has no n-gram that
        could match, and its precision is `smoothing`, a mere convention.
    order : int
        The longest n-gram.
    smoothing : float
        What stands for 0 matches of one n, so that the mean is not 0: ε of method 1 in Chen and Cherry (2014), 0.1 there
        and in the code of Holtzman et al. (2020). 0: no smoothing; then a text with no match for one n has 0.
    tokenize :
        See the top of the module.

    Examples
    --------
    >>> text_self_bleus(["the cat sat on the mat", "the dog sat on the rug", "the cat sat"], order=2).round(3)
    array([0.816, 0.516, 0.368])
    """
    whole("order", order, least=1)
    if smoothing != 0:
        open_unit("smoothing", smoothing, why=" Or pass 0 for none.")
    corpus = _corpus(_several(texts, least=2, why="self-BLEU compares each text with the others"), tokenize)
    for doubt in _doubts(corpus.lengths, order):
        warnings.warn(doubt, EstimateWarning, stacklevel=2)
    return _self_bleus(_levels(corpus, order), corpus.lengths, float(smoothing))


# --- the door


class _Corpus(NamedTuple):
    tokens: Ints  # of all texts, one after another, numbered from 0; at least one
    lengths: Ints  # (texts,)


def _several(texts: Sequence[Text], *, least: int, why: str) -> list[Text]:
    if isinstance(texts, (str, bytes)):
        raise InputError(f"`texts` must be several texts; got one {type(texts).__name__}. Pass [text].")
    listed = list(texts)
    if len(listed) < least:
        raise InputError(f"`texts` must hold at least {least}: {why}; got {len(listed)}.")
    return listed


def _corpus(texts: Sequence[Text], tokenize: Tokenize) -> _Corpus:
    cut = _tokenizer(tokenize)
    number: dict[Hashable, int] = {}
    tokens: list[int] = []
    lengths: list[int] = []
    for i, text in enumerate(_several(texts, least=1, why="there is nothing to count")):
        if isinstance(text, str):
            found = _sequence(cut(text), f"`tokenize` must return a list of tokens; got {{}} for text {i}.")
        else:
            found = _sequence(text, f"`texts` must hold str or lists of tokens; got {{}} at place {i}.")
        try:
            tokens += [number.setdefault(token, len(number)) for token in found]
        except TypeError as error:
            raise InputError(f"`texts` must have hashable tokens, such as str or int; in text {i}: {error}.") from None
        lengths.append(len(found))
    if not tokens:
        raise InputError(f"`texts` must have tokens; all of the {len(lengths)} are empty.")
    return _Corpus(np.array(tokens, np.int64), np.array(lengths, np.int64))


def _tokenizer(tokenize: Tokenize) -> Callable[[str], Any]:
    if callable(tokenize):
        return tokenize
    known: dict[str, Callable[[str], Any]] = {"whitespace": str.split, "regex": words}
    if tokenize not in known:
        raise InputError(
            f"`tokenize` must be 'whitespace', 'regex' or a callable from a text to its tokens; got {tokenize!r}."
        )
    return known[tokenize]


def _sequence(tokens: Any, rule: str) -> Sequence[Hashable]:
    # The entries of a tensor are objects that are never equal, and those of a transformers encoding are its keys.
    if hasattr(tokens, "tolist"):
        tokens = tokens.tolist()
    if not isinstance(tokens, Sequence) or isinstance(tokens, (str, bytes)):
        raise InputError(rule.format(type(tokens).__name__))
    return tokens


def _label(tokenize: Tokenize) -> str:
    if isinstance(tokenize, str):
        return tokenize
    named: Any = tokenize if hasattr(tokenize, "__qualname__") else type(tokenize)
    return f"{named.__module__}.{named.__qualname__}"


def _doubts(lengths: Ints, order: int) -> tuple[str, ...]:
    short = int((lengths < order).sum())
    if short <= _MANY * len(lengths):
        return ()
    return (
        f"{short} of {len(lengths)} texts have fewer than {order} tokens, and their self-BLEU is mostly that of the "
        "smoothing. Use longer texts.",
    )


# --- counts


@dataclass(frozen=True, eq=False)
class _Level:
    """The n-grams of one length: an entry for each different n-gram of each text, by n-gram, then by text."""

    gram: Ints  # n-grams are numbered from 0
    text: Ints
    count: Ints
    totals: Ints  # (texts,): all n-grams of each text


def _levels(corpus: _Corpus, order: int) -> list[_Level]:
    """The n-grams for n = 1 … order. An n-gram is numbered by the pair (its first n − 1 tokens, its last token)."""
    tokens, lengths = corpus
    texts, vocabulary = len(lengths), int(tokens.max()) + 1
    of_text = np.repeat(np.arange(texts), lengths)
    places = np.arange(len(tokens))  # where the n-grams begin
    rest = np.repeat(np.cumsum(lengths), lengths) - places  # tokens from there to the end of the text
    grams, levels = tokens, []
    for n in range(1, order + 1):
        if n > 1:
            long = rest[places] >= n
            places = places[long]
            _, grams = np.unique(grams[long] * vocabulary + tokens[places + n - 1], return_inverse=True)
        pairs, count = np.unique(grams * texts + of_text[places], return_counts=True)
        gram, text = np.divmod(pairs, texts)
        levels.append(_Level(gram, text, count, np.maximum(lengths - n + 1, 0)))
    return levels


def _zipf(level: _Level, ranks: int) -> float:
    frequencies = np.sort(np.bincount(level.gram, weights=level.count))[::-1][:ranks]
    if len(frequencies) < 2:
        raise InputError("`texts` must have at least two different tokens for a Zipf coefficient; got one.")
    x, y = np.log(np.arange(1, len(frequencies) + 1)), np.log(frequencies)
    x -= x.mean()
    return 0.0 - float(x @ (y - y.mean()) / (x @ x))  # never −0.0


def _repetitions(corpus: _Corpus, *, copies: int, shortest: int) -> NDArray[np.bool_]:
    each = np.split(corpus.tokens, np.cumsum(corpus.lengths)[:-1])
    return np.array([_ends_in_copies(tokens[::-1], copies, shortest) for tokens in each])


def _ends_in_copies(backwards: Ints, copies: int, shortest: int) -> bool:
    # Only where the last token stands again can a copy end: few lengths are left to look at.
    longest = len(backwards) // copies
    lengths = shortest + np.flatnonzero(backwards[shortest : longest + 1] == backwards[:1])
    return any(np.array_equal(backwards[: n * (copies - 1)], backwards[n : n * copies]) for n in lengths)


def _distinct(level: _Level, n: int) -> float:
    _need_some(level, n)
    return (int(level.gram[-1]) + 1) / int(level.totals.sum())


def _diversity(levels: list[_Level]) -> float:
    for n in (2, 3, 4):
        _need_some(levels[n - 1], n)
    return math.prod(len(level.gram) / int(level.totals.sum()) for level in levels[1:4])


def _need_some(level: _Level, n: int) -> None:
    if len(level.gram) == 0:
        raise InputError(
            f"`texts` must have a text of at least {n} tokens, else there is no {n}-gram; all are shorter."
        )


def _self_bleus(levels: list[_Level], lengths: Ints, smoothing: float) -> Floats:
    logs = np.zeros(len(lengths))
    for level in levels:
        matches = np.bincount(level.text, weights=_clipped(level), minlength=len(lengths))
        with np.errstate(divide="ignore"):  # log 0 = −∞, and the geometric mean is 0
            logs += np.log(np.where(matches > 0, matches, smoothing) / np.maximum(level.totals, 1))
        if level is levels[0]:
            logs[matches == 0] = -np.inf  # no token in common: 0 whatever the smoothing
    penalty = np.minimum(1.0 - _closest_others(lengths) / np.maximum(lengths, 1), 0.0)
    return np.exp(penalty + logs / len(levels))


def _clipped(level: _Level) -> Ints:
    """Each count, cut to the largest count of the same n-gram in any single other text.

    A text's count is cut only if it is the largest and no other text has as many: then to the second largest.
    """
    gram, count = level.gram, level.count
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    top = count == np.maximum.reduceat(count, starts)[gram]
    alone = np.add.reduceat(top.astype(np.int64), starts) == 1
    second = np.maximum.reduceat(np.where(top, 0, count), starts)
    return np.where(top & alone[gram], second[gram], count)


def _closest_others(lengths: Ints) -> Floats:
    """For each text the length of another one that is closest to its own, the shorter one of two: a neighbour, sorted."""
    order = np.argsort(lengths, kind="stable")
    padded = np.concatenate([[-np.inf], lengths[order], [np.inf]])
    below, own, above = padded[:-2], padded[1:-1], padded[2:]
    closest = np.empty(len(lengths))
    closest[order] = np.where(own - below <= above - own, below, above)
    return closest


def _mean(values: Floats) -> float:
    return math.fsum(values) / len(values)  # exact: the order of the texts makes no difference
