"""Text statistics: Zipf coefficient, repetition, distinct-n, diversity, self-BLEU (paper: baseline metrics)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, whole
from mallow.baselines._corpus import (
    Corpus,
    Floats,
    Ints,
    NGrams,
    Text,
    Tokenize,
    check_several,
    count_ngrams,
    make_corpus,
    require_ngrams,
    tokenizer_label,
)
from mallow.errors import Caveat, InputError, WithCaveats, warn_about, warns

RANKS = 5000  # from the code of Holtzman et al. (2020), which the paper uses

ORDER = 4  # paper: baseline metrics, self-BLEU(4)
SMOOTHING = 0.1  # ε of method 1 in Chen and Cherry (2014), and in the code of Holtzman et al. (2020)

_PAIRS = "self-BLEU compares each text with the others"
_MANY_SHORT = 0.05  # share of texts that are too short for an n-gram; chosen: below it the mean hardly depends on them


@dataclass(frozen=True)
class TextStatistics:
    """The statistics of one system's texts, each with the options of the paper.

    Attributes
    ----------
    zipf_coefficient : float
        As `zipf_coefficient` computes it.
    repetition : float
        As `repetition` computes it.
    distinct : float
        As `distinct` computes it, for 4-grams.
    diversity : float
        As `diversity` computes it.
    self_bleu : float
        As `self_bleu` computes it.
    texts : int
        The number of texts.
    tokens : int
        The number of tokens.
    tokenize : str
        "whitespace", "regex", the name of a callable, or "tokens" if none of the texts was a str.
    caveats : tuple of Caveat
        Reasons to doubt the numbers.
    """

    zipf_coefficient: float
    repetition: float
    distinct: float
    diversity: float
    self_bleu: float
    texts: int
    tokens: int
    tokenize: str
    caveats: tuple[Caveat, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """The five statistics by name."""
        names = ("zipf_coefficient", "repetition", "distinct", "diversity", "self_bleu")
        return {name: getattr(self, name) for name in names}

    def gap(self, reference: TextStatistics) -> dict[str, float]:
        """|T(Q) − T(P)| of each statistic T, where 0 is best. Both sides must have been tokenised in the same way.

        Examples
        --------
        >>> human = text_statistics(["to be or not to be", "not to be or to be"])
        >>> model = text_statistics(["to be or to be or", "to be or to be to"])
        >>> {name: round(value, 3) for name, value in model.gap(human).items()}
        {'zipf_coefficient': 0.123, 'repetition': 0.5, 'distinct': 0.333, 'diversity': 0.188, 'self_bleu': 0.42}
        """
        if self.tokenize != reference.tokenize:
            raise InputError(
                f"`reference` must be tokenised like the model's texts, by {self.tokenize!r}; got "
                f"{reference.tokenize!r}."
            )
        warn_about(_size_caveats(reference.texts, self.texts))
        return {name: abs(value - reference.values[name]) for name, value in self.values.items()}


@warns
def text_statistics(texts: Sequence[Text], *, tokenize: Tokenize = "whitespace") -> TextStatistics:
    """All statistics of some texts, which are tokenised and counted once.

    At least two texts are needed, and one of them must have at least 4 tokens.

    Examples
    --------
    >>> statistics = text_statistics(["the cat sat on the mat", "the dog sat on the rug", "it ran and ran"])
    >>> statistics.repetition, round(statistics.self_bleu, 3), statistics.tokens
    (0.0, 0.145, 16)
    """
    texts = check_several(texts, least=2, why=_PAIRS)
    corpus = make_corpus(texts, tokenize)
    ngrams = count_ngrams(corpus, ORDER)
    return TextStatistics(
        zipf_coefficient=fit_zipf(ngrams[0]),
        repetition=float(find_repetitions(corpus).mean()),
        distinct=distinct_share(ngrams[3]),
        diversity=diversity_product(ngrams),
        self_bleu=math.fsum(score_all(ngrams, corpus.lengths)) / len(texts),
        texts=len(texts),
        tokens=len(corpus.tokens),
        tokenize=tokenizer_label(tokenize) if any(isinstance(text, str) for text in texts) else "tokens",
        caveats=short_text_caveats(corpus),
    )


def gap(statistic: Callable[[Sequence[Text]], float], reference: Sequence[Text], model: Sequence[Text]) -> float:
    """|T(Q) − T(P)| of one statistic T, where 0 is best; to set options, pass a lambda or a `functools.partial`.

    Examples
    --------
    >>> from mallow.baselines import distinct
    >>> gap(lambda texts: distinct(texts, n=2), ["to be or not to be"], ["to be to be to be"])
    0.4
    """
    warn_about(_size_caveats(len(reference), len(model)))
    return abs(statistic(model) - statistic(reference))


def _size_caveats(reference: int, model: int) -> tuple[Caveat, ...]:
    if reference == model:
        return ()
    text = (
        f"the reference has {reference} texts and the model {model}: most text statistics depend on the number of "
        "texts. Compare equal numbers."
    )
    return (Caveat("unequal sizes", text, values={"n": reference, "m": model}),)


def zipf_coefficient(texts: Sequence[Text], *, ranks: int = RANKS, tokenize: Tokenize = "whitespace") -> float:
    """Minus the slope of a line fitted to log frequency against log rank, for the most frequent tokens of all texts.

    The fit is by least squares with the same weight for each rank; tokens of equal frequency have consecutive ranks.
    About 1 for human text, 0 if all tokens are equally frequent. It depends on the counts of tokens only, not on their
    order.

    Parameters
    ----------
    texts : sequence of texts
        With at least two different tokens; otherwise there is no line.
    ranks : int
        How many of the most frequent tokens are used, at least 2. The default is 5,000 as in the code of Holtzman et
        al. (2020), which the paper uses. The coefficient depends on it, because the rarest tokens, all of frequency
        1, flatten the line.
    tokenize : "whitespace", "regex" or callable
        See `mallow.baselines`.

    Examples
    --------
    >>> zipf_coefficient(["a a a a b b c", "d a a"], ranks=2)  # frequencies 6 and 2
    1.585
    """
    return fit_zipf(count_ngrams(make_corpus(texts, tokenize), 1)[0], whole("ranks", ranks, least=2))


def distinct(texts: Sequence[Text], n: int = 4, *, tokenize: Tokenize = "whitespace") -> float:
    """Distinct-n: the number of different n-grams in all texts divided by the number of all n-grams, from near 0 to 1.

    All texts are counted together, so that a system that writes the same in every text has a low value, and the value
    falls with the number of texts. Texts of fewer than n tokens contribute nothing. (The code of Holtzman et al. 2020
    counts the n-grams that occur exactly once instead; this function follows the wording of the paper.)

    Examples
    --------
    >>> distinct(["the cat sat", "the cat ran"], n=2)
    0.75
    """
    return distinct_share(count_ngrams(make_corpus(texts, tokenize), whole("n", n, least=1))[-1])


def diversity(texts: Sequence[Text], *, tokenize: Tokenize = "whitespace") -> float:
    """The product over n = 2, 3, 4 of (different n-grams of a text, summed over texts) / (all n-grams), from 0 to 1.

    As used with contrastive search (Su et al. 2022): repetition *within* a text lowers it, and the same n-gram in
    two texts does not. The fractions are taken of sums over texts, so that long texts have more weight, as in the
    code of that paper; unlike there, the last n-gram of each text is counted too, and nothing is rounded. Texts of
    fewer than n tokens contribute nothing.

    Examples
    --------
    >>> diversity(["the cat sat on the mat"] * 2), round(diversity(["so on and so on and so"]), 3)
    (1.0, 0.225)
    """
    return diversity_product(count_ngrams(make_corpus(texts, tokenize), 4))


def fit_zipf(tokens: NGrams, ranks: int = RANKS) -> float:
    """`zipf_coefficient` from the counts of tokens."""
    frequencies = np.sort(np.bincount(tokens.gram, weights=tokens.count))[::-1][:ranks]
    if len(frequencies) < 2:
        raise InputError("`texts` must have at least two different tokens for a Zipf coefficient; got one.")
    x, y = np.log(np.arange(1, len(frequencies) + 1)), np.log(frequencies)
    x -= x.mean()
    return 0.0 - float(x @ (y - y.mean()) / (x @ x))  # never −0.0


def distinct_share(ngrams: NGrams) -> float:
    """`distinct` from the counts of n-grams."""
    require_ngrams(ngrams)
    return (int(ngrams.gram[-1]) + 1) / int(ngrams.totals.sum())


def diversity_product(ngrams: Sequence[NGrams]) -> float:
    """`diversity` from the counts of n-grams for n = 1 … 4."""
    longer = [require_ngrams(counts) for counts in ngrams[1:4]]
    return math.prod(len(counts.gram) / int(counts.totals.sum()) for counts in longer)


def repetition(
    texts: Sequence[Text], *, copies: int = 2, shortest: int = 1, tokenize: Tokenize = "whitespace"
) -> float:
    """The share of texts that end in contiguous copies of one phrase, token by token, from 0 to 1.

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
    >>> repetition(["and so on and so on", "and so on"])
    0.5
    """
    return float(text_repetitions(texts, copies=copies, shortest=shortest, tokenize=tokenize).mean())


def text_repetitions(
    texts: Sequence[Text], *, copies: int = 2, shortest: int = 1, tokenize: Tokenize = "whitespace"
) -> NDArray[np.bool_]:
    """Whether each text ends in copies of one phrase, shape (n,); options as in `repetition`."""
    whole("copies", copies, least=2)
    whole("shortest", shortest, least=1)
    return find_repetitions(make_corpus(texts, tokenize), copies=copies, shortest=shortest)


@warns
def self_bleu(
    texts: Sequence[Text], *, order: int = ORDER, smoothing: float = SMOOTHING, tokenize: Tokenize = "whitespace"
) -> WithCaveats[float]:
    """The mean BLEU of each text against all other texts, from 0 to 1: the lower, the more diverse the texts are.

    The paper averages over 1,000 of its 5,000 texts, each against all others, because comparing all pairs takes hours;
    here all texts are used, exactly, in seconds (Zhu et al. 2018).

    BLEU is the geometric mean, with equal weights, of the precisions for n = 1 … order, times the brevity penalty
    min(1, exp(1 − r / length)), where r is the length of the other text that is closest in length (the shorter one of
    two). The precision is the share of a text's n-grams that match, where an n-gram matches at most as often as it
    occurs in any single other text. For this, the two largest counts of each n-gram are enough, and no pairs of texts
    are compared: time and memory grow with the number of n-grams, apart from sorting them.

    ``nltk.translate.bleu_score.sentence_bleu`` with ``method1`` gives the same result in all cases. sacreBLEU's
    ``smooth_method="floor"`` without effective order gives the same for texts of at least `order` tokens, and 0 for
    shorter ones. Limits of a text: 1 if it has at least `order` tokens and a duplicate, 0 if it is empty or shares no
    token with any other.

    Parameters
    ----------
    texts : sequence of texts
        At least two. If more than 5% of them are shorter than `order`, there is an `EstimateWarning`: such a text has
        no n-gram that could match, and its precision is `smoothing`, a mere convention.
    order : int
        The length of the longest n-grams.
    smoothing : float
        Replaces a count of 0 matches for some n, so that the mean is not 0: ε of method 1 in Chen and Cherry (2014),
        where it is 0.1, as in the code of Holtzman et al. (2020). With 0 there is no smoothing, and a text without a
        match for some n has the value 0.
    tokenize : "whitespace", "regex" or callable
        See `mallow.baselines`.

    Examples
    --------
    >>> self_bleu(["the cat sat on the mat"] * 2)
    1.0
    >>> self_bleu(["the cat sat on the mat", "a dog ran to his bowl"])
    0.0
    """
    values, caveats = text_self_bleus.quiet(texts, order=order, smoothing=smoothing, tokenize=tokenize)
    return WithCaveats(math.fsum(values) / len(values), caveats)  # exact, so that the order of the texts has no effect


@warns
def text_self_bleus(
    texts: Sequence[Text], *, order: int = ORDER, smoothing: float = SMOOTHING, tokenize: Tokenize = "whitespace"
) -> WithCaveats[Floats]:
    """The BLEU of each text with all other texts as references, shape (n,); options as in `self_bleu`."""
    whole("order", order, least=1)
    if smoothing != 0:
        open_unit("smoothing", smoothing, why=" Pass 0 for no smoothing.")
    corpus = make_corpus(check_several(texts, least=2, why=_PAIRS), tokenize)
    values = score_all(count_ngrams(corpus, order), corpus.lengths, float(smoothing))
    return WithCaveats(values, short_text_caveats(corpus, order))


def short_text_caveats(corpus: Corpus, order: int = ORDER) -> tuple[Caveat, ...]:
    """A caveat if many texts have no n-gram of the largest order."""
    texts, short = len(corpus.lengths), int((corpus.lengths < order).sum())
    if short <= _MANY_SHORT * texts:
        return ()
    text = (
        f"{short} of {texts} texts have fewer than {order} tokens, and their self-BLEU mostly reflects the smoothing. "
        "Use longer texts."
    )
    return (Caveat("short texts", text, values={"short": short, "texts": texts}),)


def score_all(ngrams: Sequence[NGrams], lengths: Ints, smoothing: float = SMOOTHING) -> Floats:
    """The BLEU of each text against all others, from the counts of n-grams for n = 1 … order."""
    logs = np.zeros(len(lengths))
    for counts in ngrams:
        matches = np.bincount(counts.text, weights=_clipped_counts(counts), minlength=len(lengths))
        with np.errstate(divide="ignore"):  # log 0 = −∞, and the geometric mean is 0
            logs += np.log(np.where(matches > 0, matches, smoothing) / np.maximum(counts.totals, 1))
        if counts.n == 1:
            logs[matches == 0] = -np.inf  # no token in common: 0 with any smoothing
    penalty = np.minimum(1.0 - _closest_lengths(lengths) / np.maximum(lengths, 1), 0.0)
    return np.exp(penalty + logs / len(ngrams))


def find_repetitions(corpus: Corpus, *, copies: int = 2, shortest: int = 1) -> NDArray[np.bool_]:
    """Whether each text of a corpus ends in copies of one phrase."""

    def ends_in_copies(backwards: Ints) -> bool:
        # A copy can only end where the last token occurs again, which leaves few lengths to check.
        longest = len(backwards) // copies
        lengths = shortest + np.flatnonzero(backwards[shortest : longest + 1] == backwards[:1])
        return any(np.array_equal(backwards[: n * (copies - 1)], backwards[n : n * copies]) for n in lengths)

    texts = np.split(corpus.tokens, np.cumsum(corpus.lengths)[:-1])
    return np.array([ends_in_copies(tokens[::-1]) for tokens in texts])


def _clipped_counts(ngrams: NGrams) -> Ints:
    """Each count, clipped to the largest count of the same n-gram in any single other text.

    A text's count is clipped only if it is the only largest one. It is then clipped to the second largest.
    """
    gram, count = ngrams.gram, ngrams.count
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    top = count == np.maximum.reduceat(count, starts)[gram]
    alone = np.add.reduceat(top.astype(np.int64), starts) == 1
    second = np.maximum.reduceat(np.where(top, 0, count), starts)
    return np.where(top & alone[gram], second[gram], count)


def _closest_lengths(lengths: Ints) -> Floats:
    """The length of the other text that is closest in length to each text, the shorter one of two.

    It belongs to a neighbour in sorted order.
    """
    order = np.argsort(lengths, kind="stable")
    padded = np.concatenate([[-np.inf], lengths[order], [np.inf]])
    below, middle, above = padded[:-2], padded[1:-1], padded[2:]
    closest = np.empty(len(lengths))
    closest[order] = np.where(middle - below <= above - middle, below, above)
    return closest
