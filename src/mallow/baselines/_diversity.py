"""How varied texts are, from counts of n-grams: Zipf coefficient, distinct-n, diversity (paper: baseline metrics)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mallow._checks import whole
from mallow.baselines._corpus import NGrams, Text, Tokenize, count_ngrams, make_corpus, require_ngrams
from mallow.errors import InputError

RANKS = 5000  # from the code of Holtzman et al. (2020), which the paper uses


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
        How many of the most frequent tokens are used, at least 2. The default of 5,000 is that of the code of Holtzman et
        al. (2020), which the paper uses; the coefficient depends on it, because the rarest tokens, all of frequency 1,
        flatten the line.
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

    As used with contrastive search (Su et al. 2022): repetition *within* a text lowers it, the same n-gram in two texts
    does not. The fractions are taken of sums over texts, so that long texts have more weight, as in the code of that
    paper; unlike there, the last n-gram of each text is counted too, and nothing is rounded. Texts of fewer than n tokens
    contribute nothing.

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
