"""The words of texts: terms that are typical of some texts, and traits of words and style that may be a reason."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.caveats import TRAITS
from mallow.evidence import holm
from mallow.explain._candidates import Candidate, contrast, numbers_apart
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.models import words
from mallow.results import join_names
from mallow.theory import Array

Indices = NDArray[np.int64]
_MOST_TERMS = 8  # n-grams shown for a region; chosen: one line
_STANDARD_ERRORS = 3.0  # above 0, beyond which an n-gram is shown; chosen: there are thousands of n-grams
_FEWEST_TEXTS = 3  # texts that must contain an n-gram; chosen
_PRIOR_TEXTS = 10.0  # the prior counts as this many texts; chosen
_FEWEST = 20  # texts with a term, and without it; with fewer, z is at most √20 and no term of a thousand is significant
_STRATA = 20  # groups of texts with about equally many different words; chosen
_SHOWN = 4  # terms in a phrase; chosen
_LOOKED_AT = 100  # clearest terms, from which the shown ones are selected; chosen
_GOES_ALONG = 1.0  # standard errors by which a shown term should correlate with the score; chosen
_SHORTEST = 20  # words; chosen: the smallest number over which vocabularies are compared
_PHRASE = 4  # words of a phrase whose repetition counts, as is usual
_RATIO = 1.05  # chosen: smaller differences of medians are not mentioned
_SENTENCE_ENDS = frozenset(".!?…。！？؟۔।")
_QUOTES = frozenset('"“”„«»「」')
_DIGIT = re.compile(r"\d")
_OPENING = "\"'“‘«([{*_"
_BRACKETS = frozenset("()[]{}（）")


@dataclass(frozen=True, eq=False)
class Tokens:
    """All words and punctuation marks of some texts, one text after the other."""

    texts: int  # their number
    row: Indices  # the text that each token is in
    token: Indices  # its number in the vocabulary
    vocabulary: list[str]

    @cached_property
    def word(self) -> NDArray[np.bool_]:
        """Whether each entry of the vocabulary is a word or number, not punctuation."""
        return self.which(lambda token: token.isalnum() or any(map(str.isalnum, token)))

    @cached_property
    def only_words(self) -> Tokens:
        """The tokens without punctuation."""
        keep = self.word[self.token]
        return Tokens(self.texts, self.row[keep], self.token[keep], self.vocabulary)

    def which(self, rule: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Whether a rule holds for each entry of the vocabulary."""
        return np.fromiter(map(rule, self.vocabulary), np.bool_, len(self.vocabulary))

    def per_text(self, weight: NDArray[np.generic] | None = None) -> Array:
        """The number of tokens of each text, or the sum of their weights, one for each entry of the vocabulary."""
        weights = None if weight is None else weight[self.token]
        if weights is not None and weights.dtype == np.bool_:  # few marks: faster than a sum of zeros
            return np.bincount(self.row[weights], minlength=self.texts).astype(np.float64)
        return np.bincount(self.row, weights, self.texts).astype(np.float64)

    def pairs(self) -> Indices:
        """Each pair of a token and a text that contains it, once, as token · texts + text; sorted."""
        return distinct(self.token * self.texts + self.row)

    def different(self, first: int) -> Array:
        """The number of different tokens among the first `first` tokens of each text."""
        ends = np.cumsum(np.bincount(self.row, minlength=self.texts))
        position = np.arange(len(self.row)) - np.concatenate([[0], ends])[self.row]
        some = Tokens(self.texts, self.row[position < first], self.token[position < first], self.vocabulary)
        return np.bincount(some.pairs() % self.texts, minlength=self.texts).astype(np.float64)


def distinct(keys: NDArray[Any]) -> NDArray[Any]:
    """The sorted keys without repetitions; faster for integers than `numpy.unique`."""
    keys = np.sort(keys)
    new = np.ones(len(keys), np.bool_)
    new[1:] = keys[1:] != keys[:-1]
    return keys[new]


def split_texts(texts: Sequence[str]) -> Tokens:
    """The tokens of texts by `mallow.models.words`."""
    every = [words(text) for text in texts]
    number = defaultdict[str, int](count().__next__)  # a new word gets the next number
    token = np.fromiter(map(number.__getitem__, chain.from_iterable(every)), np.int64)
    row = np.repeat(np.arange(len(every)), [len(tokens) for tokens in every])
    return Tokens(len(every), row, token, list(number))


def terms_of_groups(groups: Sequence[Sequence[str]], every: Sequence[str]) -> list[tuple[str, ...]]:
    """The words and pairs of words that are typical of each group of texts, the clearest first.

    A group is compared with the rest of `every`, which contains it. For each n-gram the odds that a text contains it
    are compared between inside and outside: the log odds ratio divided by its standard error, with a prior worth ten
    texts at the rate of all texts together (Monroe, Colaresi and Quinn, Fightin' Words, 2008, counting texts instead
    of words). Because texts are counted, repetitions in a text count once. The prior limits rare n-grams, and the
    standard error limits common ones. An n-gram is shown if at least three texts contain it, if it is more than three
    standard errors above 0, and if it shares no word with a clearer one. Case and punctuation are ignored:
    `mallow.models.words`.

    Examples
    --------
    >>> cats, others = ["A soft cat sat.", "One soft cat."] * 20, ["A dog sat.", "A soft bed."] * 40
    >>> terms_of_groups([cats], cats + others)
    [('cat', 'one', 'soft')]
    """
    counts_inside = [Counter(term for text in group for term in _ngrams(text)) for group in groups]
    # Only n-grams of several texts can be typical of a group; counting all n-grams of all texts would take much memory.
    candidates = {term for counts in counts_inside for term, count in counts.items() if count >= _FEWEST_TEXTS}
    pooled = Counter(term for text in every for term in _ngrams(text) & candidates)
    return [
        _typical_terms(counts, len(group), pooled, len(every))
        for counts, group in zip(counts_inside, groups, strict=True)
    ]


def _typical_terms(inside: Counter[str], n: int, pooled: Counter[str], total: int) -> tuple[str, ...]:
    """See `terms_of_groups`. `inside` and `pooled` count how many of n and of all `total` texts contain each n-gram."""
    # If two are equally clear, the word comes before the pair that contains it.
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
    """The terms that share no word with an earlier one: "new" adds little after "new york", and "of york" adds less."""
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


@dataclass(frozen=True, eq=False)
class TermTable:
    """Which texts contain which words and pairs of neighbouring words."""

    names: list[str]  # the words first, then the pairs
    present: Any  # sparse array (texts, terms): 1 if a text contains a term


def word_candidates(tokens: Tokens, tests: UnitTests, level: float) -> list[Candidate]:
    """At most two candidates: all terms that the model uses more often, and all terms that it uses less often.

    A term counts if the shares of texts that contain it differ, and still differ between texts with equal numbers of
    different words, since longer texts contain more of all words. Its p-value, corrected for all terms that are
    frequent enough to be tried, must be below `level`. The trait of a direction is the share of a text's vocabulary
    that its terms make up.
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
    for sign in (-1.0, 1.0):  # the model has more, then less
        clear = np.flatnonzero((adjusted < level) & (sign * delta > 0))
        if len(clear) == 0:
            continue
        share = table.present[:, clear].sum(axis=1) / np.maximum(vocabulary, 1.0)
        clearest = np.array(sorted(clear, key=lambda term: (-z[term], table.names[term]))[:_LOOKED_AT])
        _, goes_along = tests.association(table.present[:, clearest].toarray())
        # Terms that correlate with the score by themselves come first.
        order = clearest[np.argsort(sign * goes_along < _GOES_ALONG, kind="stable")]
        chosen = list(without_overlap(table.names[term] for term in order))[:_SHOWN]
        shown = [term for term in order if table.names[term] in chosen]
        phrase = partial(_term_phrase, chosen, tests.side_means(table.present[:, shown]))
        ((of_reference, of_model),) = tests.side_means(share[:, None]).tolist()
        p_value, corrected = float(p_values[shown].max()), float(adjusted[shown].max())
        means = of_model, of_reference
        candidates.append(Candidate("words", share, phrase, means, p_value, corrected, tuple(chosen)))
    return candidates


def _strata(values: Array) -> NDArray[np.int64]:
    """Labels from 0 for samples with about equal values, with about as many samples of each label."""
    edges = np.quantile(values, np.linspace(0.0, 1.0, _STRATA + 1)[1:-1])
    return np.searchsorted(np.unique(edges), values, side="left").astype(np.int64)


def tabulate_terms(tokens: Tokens, fewest: int) -> TermTable:
    """The terms that at least `fewest` texts contain, and at least `fewest` do not, whatever their sides."""
    names, size, texts = tokens.vocabulary, len(tokens.vocabulary), tokens.texts
    words = tokens.only_words.pairs()
    frequent = np.bincount(words // texts, minlength=size) >= fewest
    # A pair is no more frequent than either word, and no punctuation stands between its words.
    inside = (tokens.row[:-1] == tokens.row[1:]) & frequent[tokens.token[:-1]] & frequent[tokens.token[1:]]
    pair = tokens.token[:-1][inside] * size + tokens.token[1:][inside]
    pairs = distinct(pair * texts + tokens.row[:-1][inside])
    chosen_words, of_words = _frequent_columns(words, texts, fewest)
    chosen_pairs, of_pairs = _frequent_columns(pairs, texts, fewest)
    labels = [names[number] for number in chosen_words]
    labels += [f"{names[number // size]} {names[number % size]}" for number in chosen_pairs]
    return TermTable(labels, sparse.hstack([of_words, of_pairs], format="csr"))


def _frequent_columns(keys: Indices, texts: int, fewest: int) -> tuple[Indices, Any]:
    """The terms in neither too few nor too many texts, and which texts contain them.

    Sorted keys are term · texts + text.
    """
    term, text = np.divmod(keys, texts)
    starts = np.flatnonzero(np.diff(term, prepend=-1))
    count = np.diff(starts, append=len(term))
    usable = (count >= fewest) & (count <= texts - fewest)
    ends = np.concatenate([[0], np.cumsum(count[usable])])
    keep = np.repeat(usable, count)
    entries = np.ones(int(keep.sum()))
    return term[starts[usable]], sparse.csc_array((entries, text[keep], ends), shape=(texts, len(ends) - 1))


def _term_phrase(terms: Sequence[str], shares: Array, model: float, reference: float) -> tuple[str, dict[str, float]]:
    """`shares` are the shares of texts that contain each term, (terms, 2), for the reference and for the model."""
    values: dict[str, float] = {}
    for term, (of_reference, of_model) in zip(terms, shares.tolist(), strict=True):
        values |= {f"“{term}”": of_model, f"“{term}”, reference": of_reference}
    share, share_reference = numbers_apart(100.0 * shares[0, 1], 100.0 * shares[0, 0])
    amount = "more" if model > reference else "less"
    quoted = [f"“{term}”" for term in terms]
    subject = "in" if len(terms) == 1 else f"{quoted[0]} in"
    text = f"{join_names(quoted)} {amount} often ({subject} {share}% of the texts, reference {share_reference}%)"
    return text, values


def style_candidates(texts: Sequence[str], tokens: Tokens, n: int) -> Iterator[Candidate]:
    """All traits of writing style that may be a reason. The first n texts are the reference."""
    words = tokens.only_words
    length = words.per_text()
    size = np.log1p(length)
    yield Candidate("length", size, partial(_length_phrase, length, n))
    yield Candidate("length", np.abs(size - np.median(size)), partial(_spread_phrase, length, n))
    some = np.maximum(length, 1.0)
    first = max(_SHORTEST, math.floor(np.quantile(length, 0.1)))
    different = words.different(first) / np.maximum(np.minimum(length, first), 1.0)
    yield _rate(different, "different words", f"% of the first {first} words", "%")
    yield _rate(_repeated(words), "repeated phrases", f"% of all phrases of {_PHRASE} words", "%")
    for noun, marks in _marks(texts, tokens).items():
        yield _rate(marks / some, noun, " per 100 words")
    letters = np.array([len(token) for token in tokens.vocabulary])
    yield _mean(words.per_text(letters) / some, "words", "letters")
    yield _mean(_sentence_lengths(length, tokens), "sentences", "words")
    for trait in TRAITS:
        share = np.fromiter(map(trait.applies_to, texts), np.float64, len(texts))
        yield Candidate("trait", share, partial(_share_phrase, trait.phrase))


def _marks(texts: Sequence[str], tokens: Tokens) -> dict[str, Array]:
    """Counts in each text of marks and words that may be more or less frequent."""
    rules = {
        "commas": {",", "，", "、", "،"}.__contains__,
        "quotation marks": _QUOTES.__contains__,
        "brackets": _BRACKETS.__contains__,
        "question and exclamation marks": frozenset("?!？！؟").__contains__,
        "numbers": lambda token: not token.isalpha() and _DIGIT.search(token) is not None,
    }
    counts = {"punctuation marks": tokens.per_text(~tokens.word)}
    counts |= {noun: tokens.per_text(tokens.which(rule)) for noun, rule in rules.items()}
    counts["words that begin with a capital"] = np.array([_count_capitals(text) for text in texts], float)
    counts["line breaks"] = np.array([text.count("\n") for text in texts], float)
    return counts


def _count_capitals(text: str) -> int:
    """The words that begin with a capital, after marks that open something."""
    others = (word for word in text.split() if word < "a" or word >= "{")  # few begin with a letter other than a to z
    return sum(word.lstrip(_OPENING)[:1].isupper() for word in others)


def _sentence_lengths(length: Array, tokens: Tokens) -> Array:
    """Words per mark that ends a sentence. Texts without such a mark, such as lists, get the average."""
    ends = tokens.per_text(tokens.which(_SENTENCE_ENDS.__contains__))
    known = ends > 0
    average = math.fsum(length[known] / ends[known]) / max(int(known.sum()), 1)
    return np.where(known, length / np.maximum(ends, 1.0), average)


def _repeated(words: Tokens) -> Array:
    """The share of phrases in each text that occurred in it before."""
    size = max(len(words.token) - _PHRASE + 1, 0)
    key = np.zeros(size, np.uint64)
    with np.errstate(over="ignore"):
        for step in range(_PHRASE):  # a hash with 2⁴⁰ values, which two phrases of one text hardly ever share
            key = (key ^ words.token[step : step + size].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
    row, last = words.row[:size], words.row[len(words.row) - size :]
    inside = row == last
    keys = (row[inside].astype(np.uint64) << np.uint64(40)) | (key[inside] >> np.uint64(24))
    every = np.bincount(row[inside], minlength=words.texts)
    different = np.bincount((distinct(keys) >> np.uint64(40)).astype(np.int64), minlength=words.texts)
    share: Array = (every - different) / np.maximum(every, 1)
    return share


def _rate(trait: Array, noun: str, unit: str, short: str = "") -> Candidate:
    """A frequency that is shown per 100."""
    numbers = f"{{}}{unit}, reference {{}}{short}"
    return Candidate("trait", trait, contrast(f"more {noun}", f"fewer {noun}", numbers, times=100.0))


def _mean(trait: Array, noun: str, unit: str) -> Candidate:
    """A length that is shown as a mean."""
    numbers = f"{{}} {unit} on average, reference {{}}"
    return Candidate("trait", trait, contrast(f"longer {noun}", f"shorter {noun}", numbers))


def _share_phrase(predicate: str, model: float, reference: float) -> tuple[str, dict[str, float]]:
    shown, shown_reference = numbers_apart(100.0 * model, 100.0 * reference)
    only = "only " if model < reference else ""
    text = f"{only}{shown}% of the texts {predicate} (reference {shown_reference}%)"
    return text, {"model": model, "reference": reference}


def _length_phrase(length: Array, n: int, model: float, reference: float) -> tuple[str, dict[str, float]]:
    """The medians if they differ, otherwise the end where lengths differ most.

    `model` and `reference` are mean logarithms.
    """
    of_model, of_reference, values = _quantiles(length, n, (0.5, 0.1, 0.9))
    longer = model > reference
    ratio = (of_model + 1.0) / (of_reference + 1.0) if longer else (of_reference + 1.0) / (of_model + 1.0)
    level = 0 if ratio[0] >= _RATIO else int(np.argmax(ratio))
    if ratio[level] < _RATIO:
        return "", values
    if level == 0:
        subject, numbers = f"{'longer' if longer else 'shorter'} texts", f"median {of_model[0]:.0f} words"
    elif level == 1:
        subject, numbers = (
            f"{'fewer' if longer else 'more'} short texts",
            f"a tenth have at most {of_model[1]:.0f} words",
        )
    else:
        subject, numbers = (
            f"{'more' if longer else 'fewer'} long texts",
            f"a tenth have at least {of_model[2]:.0f} words",
        )
    return f"{subject} ({numbers}, reference {of_reference[level]:.0f})", values


def _spread_phrase(length: Array, n: int, model: float, reference: float) -> tuple[str, dict[str, float]]:
    """The range of most lengths; `model` and `reference` are mean distances from the middle."""
    of_model, of_reference, values = _quantiles(length, n, (0.1, 0.9))
    ratio = (of_model[1] - of_model[0] + 1.0) / (of_reference[1] - of_reference[0] + 1.0)
    amount = "more" if model > reference else "less"
    text = (
        f"texts whose length varies {amount} (80% have {of_model[0]:.0f} to {of_model[1]:.0f} words, reference "
        f"{of_reference[0]:.0f} to {of_reference[1]:.0f})"
    )
    return (text if (ratio if model > reference else 1.0 / ratio) >= _RATIO else ""), values


def _quantiles(length: Array, n: int, levels: tuple[float, ...]) -> tuple[Array, Array, dict[str, float]]:
    """Quantiles of the lengths of the model and of the reference, and the same by name."""
    of_model, of_reference = np.quantile(length[n:], levels), np.quantile(length[:n], levels)
    values: dict[str, float] = {}
    for level, in_model, in_reference in zip(levels, of_model.tolist(), of_reference.tolist(), strict=True):
        values |= {f"words_{round(100 * level)}": in_model, f"words_{round(100 * level)}_reference": in_reference}
    return of_model, of_reference, values
