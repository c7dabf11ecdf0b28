"""Words and pairs of words that the model uses more or less often than the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.evidence import holm
from mallow.explain._candidate import Candidate, numbers_apart
from mallow.explain._terms import without_overlap
from mallow.explain._tokens import Indices, Tokens, distinct
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.results import join_names
from mallow.theory import Array

_FEWEST = 20  # texts with a term, and without it; with fewer, z is at most √20 and no term of a thousand is significant
_STRATA = 20  # groups of texts with about equally many different words; chosen
_SHOWN = 4  # terms in a phrase; chosen
_LOOKED_AT = 100  # of the clearest terms, from which those are chosen; chosen
_GOES_ALONG = 1.0  # standard errors by which a term that is shown should go with the score; chosen


@dataclass(frozen=True, eq=False)
class TermTable:
    """Which texts contain which words and pairs of neighbouring words.

    Attributes
    ----------
    names : list of str
        The words first, then the pairs.
    present : sparse array (texts, terms)
        1 where a text contains a term.
    """

    names: list[str]
    present: Any


def word_candidates(tokens: Tokens, tests: UnitTests, level: float) -> list[Candidate]:
    """Two candidates at most: terms that the model uses more often, together, and terms that it uses less often.

    A term counts if the shares of texts that contain it differ, and still differ between texts with equally many different
    words: longer texts contain more of all words. Its p-value, corrected for all terms that are frequent enough to be
    tried, must be below `level`. The trait of a direction is the share of a text's vocabulary that its terms make up.
    """
    table = tabulate_terms(tokens, _FEWEST)
    if not table.names:
        return []
    vocabulary = np.bincount(tokens.only_words.pairs() % tokens.texts, minlength=tokens.texts).astype(np.float64)
    delta, z = tests.difference(table.present)
    delta_equal, z_equal = tests.difference(table.present, _strata(vocabulary))
    z = np.where(delta * delta_equal > 0, np.minimum(np.abs(z), np.abs(z_equal)), 0.0)
    p_values = two_sided(z)
    adjusted = np.array(holm(p_values.tolist()))
    candidates = []
    for sign in (-1.0, 1.0):  # the model has more; the model has less
        clear = np.flatnonzero((adjusted < level) & (sign * delta > 0))
        if len(clear) == 0:
            continue
        share = table.present[:, clear].sum(axis=1) / np.maximum(vocabulary, 1.0)
        clearest = np.array(sorted(clear, key=lambda place: (-z[place], table.names[place]))[:_LOOKED_AT])
        _, goes_along = tests.association(table.present[:, clearest].toarray())
        # Those come first that go with the score by themselves.
        order = clearest[np.argsort(sign * goes_along < _GOES_ALONG, kind="stable")]
        chosen = list(without_overlap(table.names[place] for place in order))[:_SHOWN]
        shown = [place for place in order if table.names[place] in chosen]
        phrase = partial(_term_phrase, chosen, tests.side_means(table.present[:, shown]))
        ((of_reference, of_model),) = tests.side_means(share[:, None]).tolist()
        p_value, corrected = float(p_values[shown].max()), float(adjusted[shown].max())
        candidates.append(Candidate("words", share, phrase, (of_model, of_reference), p_value, corrected))
    return candidates


def _strata(values: Array) -> NDArray[np.int64]:
    """Numbers from 0 for samples with about equal values; as many samples have each of them, whatever their side."""
    edges = np.quantile(values, np.linspace(0.0, 1.0, _STRATA + 1)[1:-1])
    return np.searchsorted(np.unique(edges), values, side="left").astype(np.int64)


def tabulate_terms(tokens: Tokens, fewest: int) -> TermTable:
    """The terms that at least so many texts contain, and as many do not; which side a text is of does not matter."""
    names, size, texts = tokens.vocabulary, len(tokens.vocabulary), tokens.texts
    words = tokens.only_words.pairs()
    frequent = np.bincount(words // texts, minlength=size) >= fewest
    # A pair is no more frequent than either word, and no punctuation stands between its words.
    inside = (tokens.row[:-1] == tokens.row[1:]) & frequent[tokens.token[:-1]] & frequent[tokens.token[1:]]
    pair = tokens.token[:-1][inside] * size + tokens.token[1:][inside]
    pairs = distinct(pair * texts + tokens.row[:-1][inside])
    chosen_words, of_words = _frequent_columns(words, texts, fewest)
    chosen_pairs, of_pairs = _frequent_columns(pairs, texts, fewest)
    labels = [names[place] for place in chosen_words]
    labels += [f"{names[place // size]} {names[place % size]}" for place in chosen_pairs]
    return TermTable(labels, sparse.hstack([of_words, of_pairs], format="csr"))


def _frequent_columns(keys: Indices, texts: int, fewest: int) -> tuple[Indices, Any]:
    """The terms in neither too few nor too many texts, and which texts contain them; sorted keys are term · texts + text."""
    term, text = np.divmod(keys, texts)
    starts = np.flatnonzero(np.diff(term, prepend=-1))
    count = np.diff(starts, append=len(term))
    usable = (count >= fewest) & (count <= texts - fewest)
    ends = np.concatenate([[0], np.cumsum(count[usable])])
    keep = np.repeat(usable, count)
    entries = np.ones(int(keep.sum()))
    return term[starts[usable]], sparse.csc_array((entries, text[keep], ends), shape=(texts, len(ends) - 1))


def _term_phrase(terms: Sequence[str], shares: Array, model: float, reference: float) -> tuple[str, dict[str, float]]:
    """`shares` are those of texts that contain each term, (terms, 2), of the reference and of the model."""
    values: dict[str, float] = {}
    for term, (of_reference, of_model) in zip(terms, shares.tolist(), strict=True):
        values |= {f"“{term}”": of_model, f"“{term}”, reference": of_reference}
    own, other = numbers_apart(100.0 * shares[0, 1], 100.0 * shares[0, 0])
    amount = "more" if model > reference else "less"
    quoted = [f"“{term}”" for term in terms]
    subject = "in" if len(terms) == 1 else f"{quoted[0]} in"
    return f"{join_names(quoted)} {amount} often ({subject} {own} % of the texts, reference {other} %)", values
