"""Words and pairs of words that are typical of some texts in contrast to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from mallow.models import words

_MOST_TERMS = 8  # n-grams shown for a region; chosen: one line
_STANDARD_ERRORS = 3.0  # above 0, from which on an n-gram is shown; chosen: there are thousands of n-grams
_FEWEST_TEXTS = 3  # texts that must contain an n-gram; chosen
_PRIOR_TEXTS = 10.0  # texts that the prior counts as; chosen


def marking_terms(inside: Sequence[str], outside: Sequence[str]) -> tuple[str, ...]:
    """The words and pairs of words that are typical of some texts in contrast to others, the clearest first.

    For each n-gram the odds that a text contains it are compared between inside and outside: the log odds ratio divided by
    its standard error, with a prior worth ten texts at the rate of all texts together (Monroe, Colaresi and Quinn,
    Fightin' Words, 2008, counting texts instead of words). Because texts are counted, a text that repeats itself counts
    once; the prior holds down rare n-grams, and the standard error common ones. An n-gram is shown if at least three texts
    contain it, if it is more than three standard errors above 0, and if it shares no word with a clearer one. Case and
    punctuation are ignored: `mallow.models.words`.

    Examples
    --------
    >>> marking_terms(["A soft cat sat.", "One soft cat."] * 20, ["A dog sat.", "A soft bed."] * 40)
    ('cat', 'one', 'soft')
    """
    return terms_of_groups([inside], [*inside, *outside])[0]


def terms_of_groups(groups: Sequence[Sequence[str]], every: Sequence[str]) -> list[tuple[str, ...]]:
    """The terms that are typical of each group of texts in contrast to the rest of `every`, which contains the group."""
    counts_inside = [Counter(term for text in group for term in _ngrams(text)) for group in groups]
    # Only n-grams of several texts can be typical of a group; counting all n-grams of all texts would take much memory.
    candidates = {term for counts in counts_inside for term, count in counts.items() if count >= _FEWEST_TEXTS}
    pooled = Counter(term for text in every for term in _ngrams(text) & candidates)
    return [
        _typical_terms(counts, len(group), pooled, len(every))
        for counts, group in zip(counts_inside, groups, strict=True)
    ]


def _typical_terms(inside: Counter[str], n: int, pooled: Counter[str], total: int) -> tuple[str, ...]:
    """See `marking_terms`: `inside` and `pooled` count which of n and of all `total` texts contain each n-gram."""
    # Of two equally clear ones, the word comes before the pair that contains it.
    terms = sorted(
        (term for term, count in inside.items() if count >= _FEWEST_TEXTS), key=lambda term: (" " in term, term)
    )
    here, everywhere = (np.array([counts[term] for term in terms], dtype=np.float64) for counts in (inside, pooled))
    rate = (everywhere + 0.5) / (total + 1.0)
    yes_inside, no_inside = here + _PRIOR_TEXTS * rate, n - here + _PRIOR_TEXTS * (1.0 - rate)
    yes_outside = everywhere - here + _PRIOR_TEXTS * rate
    no_outside = total - n - everywhere + here + _PRIOR_TEXTS * (1.0 - rate)
    error = np.sqrt(1.0 / yes_inside + 1.0 / no_inside + 1.0 / yes_outside + 1.0 / no_outside)
    z = (np.log(yes_inside / no_inside) - np.log(yes_outside / no_outside)) / error
    order = [terms[i] for i in np.argsort(-z, kind="stable") if z[i] > _STANDARD_ERRORS]
    return tuple(without_overlap(order))[:_MOST_TERMS]


def without_overlap(terms: Iterable[str]) -> Iterator[str]:
    """The terms that share no word with an earlier one: "new" says little after "new york", and "of york" less."""
    used: set[str] = set()
    for term in terms:
        if used.isdisjoint(parts := term.split()):
            used.update(parts)
            yield term


def _ngrams(text: str) -> set[str]:
    """The words of a text and its pairs of neighbouring words without punctuation between them."""
    tokens = [token if any(map(str.isalnum, token)) else "" for token in words(text)]
    pairs = {f"{first} {second}" for first, second in pairwise(tokens) if first and second}
    return pairs | set(filter(None, tokens))
