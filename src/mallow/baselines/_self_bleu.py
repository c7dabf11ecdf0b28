"""Self-BLEU: how similar the texts of one system are to each other (paper: baseline metrics)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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
)
from mallow.errors import Caveat, WithCaveats, warns

ORDER = 4  # paper: baseline metrics, self-BLEU(4)
SMOOTHING = 0.1  # ε of method 1 in Chen and Cherry (2014), and in the code of Holtzman et al. (2020)

_MANY_SHORT = 0.05  # share of texts that are too short for an n-gram; chosen: below it the mean hardly depends on them


@warns
def self_bleu(
    texts: Sequence[Text], *, order: int = ORDER, smoothing: float = SMOOTHING, tokenize: Tokenize = "whitespace"
) -> WithCaveats[float]:
    """The mean BLEU of each text against all other texts, from 0 to 1: the lower, the more diverse the texts are.

    The paper averages over 1,000 of its 5,000 texts, each against all others, because comparing all pairs takes hours;
    here all texts are used, in seconds. Options as in `text_self_bleus`.

    Examples
    --------
    >>> self_bleu(["the cat sat on the mat"] * 2)
    1.0
    >>> self_bleu(["the cat sat on the mat", "a dog ran to his bowl"])
    0.0
    """
    values, caveats = text_self_bleus.quiet(texts, order=order, smoothing=smoothing, tokenize=tokenize)
    return WithCaveats(exact_mean(values), caveats)


@warns
def text_self_bleus(
    texts: Sequence[Text], *, order: int = ORDER, smoothing: float = SMOOTHING, tokenize: Tokenize = "whitespace"
) -> WithCaveats[Floats]:
    """The BLEU of each text with all other texts as references, shape (n,), computed exactly (Zhu et al. 2018).

    This is the geometric mean, with equal weights, of the precisions for n = 1 … order, times the brevity penalty
    min(1, exp(1 − r / length)), where r is the length of the other text that is closest in length (the shorter one of
    two). The precision is the share of a text's n-grams that match, where an n-gram matches at most as often as it occurs
    in any single other text. For this, the two largest counts of each n-gram are enough, and no pairs of texts are
    compared: time and memory grow with the number of n-grams, apart from sorting them.

    The result equals that of ``nltk.translate.bleu_score.sentence_bleu`` with ``method1`` in all cases. sacreBLEU's
    ``smooth_method="floor"`` without effective order gives the same for texts of at least `order` tokens, and 0 for
    shorter ones. Limits: 1 for a text of at least `order` tokens that has a duplicate, 0 for an empty text or one that
    shares no token with any other.

    Parameters
    ----------
    texts : sequence of texts
        At least two. If more than 5 % of them are shorter than `order`, there is an `EstimateWarning`: such a text has no
        n-gram that could match, and its precision is `smoothing`, a mere convention.
    order : int
        The length of the longest n-grams.
    smoothing : float
        Replaces a count of 0 matches for some n, so that the mean is not 0: ε of method 1 in Chen and Cherry (2014), where
        it is 0.1, as in the code of Holtzman et al. (2020). With 0 there is no smoothing, and a text without a match for
        some n has the value 0.
    tokenize : "whitespace", "regex" or callable
        See `mallow.baselines`.

    Examples
    --------
    >>> text_self_bleus(["the cat sat on the mat", "the dog sat on the rug", "the cat sat"], order=2).round(3)
    array([0.816, 0.516, 0.368])
    """
    whole("order", order, least=1)
    if smoothing != 0:
        open_unit("smoothing", smoothing, why=" Pass 0 for no smoothing.")
    corpus = make_corpus(check_two(texts), tokenize)
    values = score_all(count_ngrams(corpus, order), corpus.lengths, float(smoothing))
    return WithCaveats(values, short_text_caveats(corpus, order))


def check_two(texts: Sequence[Text]) -> list[Text]:
    """The texts as a list, if there are at least two."""
    return check_several(texts, least=2, why="self-BLEU compares each text with the others")


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


def exact_mean(values: Floats) -> float:
    """The mean by an exact sum, so that the order of the texts has no effect."""
    return math.fsum(values) / len(values)


def _clipped_counts(ngrams: NGrams) -> Ints:
    """Each count, clipped to the largest count of the same n-gram in any single other text.

    A text's count is clipped only if it is the largest and no other text has as many: then to the second largest.
    """
    gram, count = ngrams.gram, ngrams.count
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    top = count == np.maximum.reduceat(count, starts)[gram]
    alone = np.add.reduceat(top.astype(np.int64), starts) == 1
    second = np.maximum.reduceat(np.where(top, 0, count), starts)
    return np.where(top & alone[gram], second[gram], count)


def _closest_lengths(lengths: Ints) -> Floats:
    """The length of the other text that is closest in length to each text, the shorter one of two.

    It is that of a neighbour in sorted order.
    """
    order = np.argsort(lengths, kind="stable")
    padded = np.concatenate([[-np.inf], lengths[order], [np.inf]])
    below, own, above = padded[:-2], padded[1:-1], padded[2:]
    closest = np.empty(len(lengths))
    closest[order] = np.where(own - below <= above - own, below, above)
    return closest
