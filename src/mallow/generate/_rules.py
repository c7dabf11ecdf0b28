"""Decoding rules: pure functions from rows of log-probabilities to rows of log-probabilities.

A rule reshapes or truncates the distribution of the next token (paper: sec:bg:lms). What it keeps is renormalised, the rest
becomes −∞. Rules that keep the smallest set of tokens with some property break ties in favour of the lowest token id, so that
the set is unique and the same on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, positive, whole
from mallow.errors import InputError
from mallow.generate._protocol import LogProbs

__all__ = ["SUM_TOLERANCE", "Chain", "Eta", "MinP", "Nucleus", "Rule", "Temperature", "TopK", "Typical", "largest"]

Places = NDArray[np.intp]

SUM_TOLERANCE = 0.01
"""How far the probabilities of a row may be from summing to 1: half-precision logits that were normalised in float32 are well
within it, plain logits are not."""


@runtime_checkable
class Rule(Protocol):
    """Any callable from log-probabilities to log-probabilities, with a name for signatures."""

    @property
    def name(self) -> str:
        """The rule with its options, without spaces."""
        ...

    def __call__(self, log_probs: LogProbs, /) -> LogProbs:
        """Normalised log-probabilities (b, vocabulary), −∞ for tokens that are left out; never a whole row of −∞."""
        ...


# --- what all rules of this module share: a name and, if they truncate, what happens to the rows


class _Name:
    """The name of a rule: a word and the rule's only option, as `mallow.generate.decoder` reads it."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __get__(self, rule: object, owner: type | None = None) -> str:
        if rule is None:
            return self.word
        [option] = vars(rule).values()
        return f"{self.word}:{option!r}"


class _Truncation(Protocol):
    def _kept(self, row: LogProbs, /) -> Places: ...


def _truncate(rule: _Truncation, log_probs: LogProbs) -> LogProbs:
    """Log-probabilities (b, vocabulary), finite for the tokens of each row that the rule keeps, renormalised."""
    rows = _check_log_probs(log_probs)
    truncated = np.full_like(rows, -np.inf)
    for row, into in zip(
        rows, truncated, strict=True
    ):  # row by row: intermediate results stay in the processor's cache
        places = rule._kept(row)
        values = row[places]
        into[places] = values - _log_sum(values)
    return truncated


# --- the rules


@dataclass(frozen=True)
class Temperature:
    """P^(1/τ), renormalised (paper: sec:bg:lms): more peaked below 1, flatter above 1, unchanged at 1.

    Examples
    --------
    >>> np.exp(Temperature(0.5)(np.log([[0.8, 0.2]]))).round(3)
    array([[0.941, 0.059]])
    """

    temperature: float
    name = _Name("temperature")

    def __post_init__(self) -> None:
        positive("temperature", self.temperature, why=" For the limit 0 use greedy decoding.")

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary) of the rescaled rows."""
        rows = _check_log_probs(log_probs)
        # Below this value the quotient is 0/0 in float32; by then all probability is at the mode.
        divisor = max(float(self.temperature), float(np.finfo(rows.dtype).tiny))
        out = np.empty_like(rows)
        with np.errstate(over="ignore"):  # −∞ is intended
            for row, into in zip(rows, out, strict=True):
                np.subtract(row, row.max(), out=into)
                into /= divisor
                into -= math.log(np.exp(into).sum(dtype=np.float64))  # the largest is 0: nothing overflows
        return out


@dataclass(frozen=True)
class TopK:
    """The k most likely tokens (paper: sec:bg:lms, top-K): all of them at k = |V|, greedy at k = 1.

    Examples
    --------
    >>> np.exp(TopK(2)(np.log([[0.2, 0.4, 0.2, 0.2]]))).round(3)
    array([[0.333, 0.667, 0.   , 0.   ]])
    """

    k: int
    name = _Name("top-k")
    __call__ = _truncate

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole("k", self.k, least=1))

    def _kept(self, row: LogProbs) -> Places:
        return largest(row, self.k)


@dataclass(frozen=True)
class Nucleus:
    """The fewest tokens whose total probability is at least `mass` (paper: eq:nucleus-def, p = mass; Holtzman et al. 2020).

    Examples
    --------
    >>> np.exp(Nucleus(0.7)(np.log([[0.1, 0.5, 0.3, 0.1]]))).round(3)
    array([[0.   , 0.625, 0.375, 0.   ]])
    """

    mass: float
    name = _Name("nucleus")
    __call__ = _truncate

    def __post_init__(self) -> None:
        _check_share("mass", self.mass)

    def _kept(self, row: LogProbs) -> Places:
        if self.mass == 1:
            return _possible(row)
        total = _total(row)
        # Values are sorted, not places, which is several times faster; the places follow from the value at the cut.
        ranked = np.sort(row[_worth_sorting(row, self.mass, total)])[::-1]
        reached = np.cumsum(np.exp(ranked), dtype=np.float64)
        count = min(int(np.searchsorted(reached, self.mass * total)) + 1, len(ranked))
        return _at_least(row, ranked[count - 1], count)


@dataclass(frozen=True)
class Typical:
    """The tokens whose surprisal is nearest to the entropy H, until they have probability `mass` (Meister et al. 2023).

    They are taken in the order of |log P + H|, as the authors of the rule do. The paper (setup, locally typical sampling,
    τ = mass) writes this as the set of least Σ |log P + H| under a constraint on the mass, which the greedy order
    approximates, and prints Σ log P ≥ τ where Σ P ≥ τ is meant (docs/paper.md, erratum 6).

    Examples
    --------
    The most likely token is left out: it carries less information than is typical here.

    >>> np.exp(Typical(0.3)(np.log([[0.4, 0.2, 0.2, 0.1, 0.1]]))).round(3)
    array([[0. , 0.5, 0.5, 0. , 0. ]])
    """

    mass: float
    name = _Name("typical")
    __call__ = _truncate

    def __post_init__(self) -> None:
        _check_share("mass", self.mass)

    def _kept(self, row: LogProbs) -> Places:
        if self.mass == 1:
            return _possible(row)
        total, entropy = _total(row), _entropy(row)
        candidates = _worth_sorting(row, self.mass, total)
        places, cut = _nearest_to_entropy(row, candidates, entropy, self.mass * total)
        # Tokens that were not sorted are further away than this; if the cut is too, they may belong to the set.
        nearest_unsorted = -_least_worth(len(row), self.mass, total) - entropy
        if cut >= nearest_unsorted and len(candidates) < len(row):
            places, _ = _nearest_to_entropy(row, _possible(row), entropy, self.mass * total)
        return places


@dataclass(frozen=True)
class Eta:
    """The tokens with probability above η = min(ε, √ε·exp(−H)), ε = epsilon (Hewitt, Manning and Liang 2022).

    H is the entropy of the row. exp(−H) is at most the largest probability, so the most likely token is always kept.

    Examples
    --------
    >>> np.exp(Eta(0.04)(np.log([[0.9, 0.06, 0.03, 0.01]]))).round(3)
    array([[0.938, 0.062, 0.   , 0.   ]])
    """

    epsilon: float
    name = _Name("eta")
    __call__ = _truncate

    def __post_init__(self) -> None:
        open_unit("epsilon", self.epsilon, why=" Its authors use 0.0003 to 0.004.")

    def _kept(self, row: LogProbs) -> Places:
        _total(row)
        log_epsilon = math.log(self.epsilon)
        places = np.flatnonzero(row > min(log_epsilon, log_epsilon / 2 - _entropy(row)))
        return places if len(places) else largest(row, 1)  # none by rounding, for epsilon next to 1


@dataclass(frozen=True)
class MinP:
    """The tokens with at least `share` of the most likely token's probability (min-p: Nguyen et al. 2024).

    Examples
    --------
    >>> np.exp(MinP(0.5)(np.log([[0.5, 0.3, 0.2]]))).round(3)
    array([[0.625, 0.375, 0.   ]])
    """

    share: float
    name = _Name("min-p")
    __call__ = _truncate

    def __post_init__(self) -> None:
        _check_share("share", self.share)

    def _kept(self, row: LogProbs) -> Places:
        return np.flatnonzero(row >= row.max() + math.log(self.share))


@dataclass(frozen=True)
class Chain:
    """Rules one after the other, each applied to the result of the one before.

    Examples
    --------
    >>> Chain((Temperature(0.7), TopK(50))).name
    'temperature:0.7+top-k:50'
    """

    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        for rule in self.rules:
            if not (callable(rule) and hasattr(rule, "name")):
                raise InputError(f"`rules` must be decoding rules such as Nucleus(0.95); got {rule!r}.")

    @property
    def name(self) -> str:
        """The names of the rules joined by +; "ancestral" without rules."""
        return "+".join(rule.name for rule in self.rules) or "ancestral"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary) after all rules; unchanged without rules."""
        for rule in self.rules:
            log_probs = rule(log_probs)
        return log_probs


# --- sets of tokens


def largest(row: LogProbs, count: int) -> Places:
    """Places of the `count` largest values above −∞, in ascending order; the lowest places among equal values."""
    if count >= len(row):
        return _possible(row)
    cut = np.partition(row, len(row) - count)[len(row) - count]
    return _possible(row) if cut == -np.inf else _at_least(row, cut, count)


def _at_least(row: LogProbs, cut: Any, count: int) -> Places:
    """Places of all values above the cut and of the first values equal to it, `count` in total."""
    places = np.flatnonzero(row >= cut)
    surplus = len(places) - count
    if surplus:
        tied = np.flatnonzero(row[places] == cut)
        places = np.delete(places, tied[len(tied) - surplus :])
    return places


def _nearest_to_entropy(row: LogProbs, candidates: Places, entropy: float, need: float) -> tuple[Places, float]:
    """The candidates nearest to the entropy that have probability `need` together; and the distance of the last one."""
    values = row[candidates]
    distance = np.abs(values + entropy)
    weights = np.exp(values)
    order = np.argsort(distance)
    count = int(np.searchsorted(np.cumsum(weights[order], dtype=np.float64), need)) + 1
    cut = distance[order[min(count, len(order)) - 1]]
    inside, tied = np.flatnonzero(distance < cut), np.flatnonzero(distance == cut)
    # The sort orders ties arbitrarily, and a token above the entropy can tie with one below: take them by their ids.
    reached = weights[inside].sum(dtype=np.float64) + np.cumsum(weights[tied], dtype=np.float64)
    tied = tied[: int(np.searchsorted(reached, need)) + 1]
    return candidates[np.sort(np.concatenate([inside, tied]))], float(cut)


def _worth_sorting(row: LogProbs, mass: float, total: float) -> Places:
    """Places such that all other tokens together have less than 1 − mass: a few thousand in the rows of real models."""
    return np.flatnonzero(row >= _least_worth(len(row), mass, total))


def _least_worth(size: int, mass: float, total: float) -> float:
    # `size` tokens below (1 − mass)/size each cannot sum to 1 − mass.
    return math.log((1 - mass) * total / size)


def _possible(row: LogProbs) -> Places:
    return np.flatnonzero(row > -np.inf)


# --- sums over a row


def _entropy(row: LogProbs) -> float:
    # 0·log 0 = 0: below −1e4 the probability is 0 in every precision, and the product must not be nan.
    return -float(np.sum(np.exp(row) * np.maximum(row, -1e4), dtype=np.float64))


def _total(row: LogProbs) -> float:
    """The sum of the probabilities; refused if it is not 1 up to rounding."""
    total = float(np.sum(np.exp(row), dtype=np.float64))
    if abs(total - 1) > SUM_TOLERANCE:
        raise InputError(
            f"`log_probs` must be rows of log-probabilities, which sum to 1 after exp; got a row that sums to {total:.4g}. "
            "Subtract scipy.special.logsumexp of each row from logits."
        )
    return total


def _log_sum(values: LogProbs) -> float:
    top = float(values.max())
    return top + math.log(np.sum(np.exp(values - top), dtype=np.float64))


# --- checks


def _check_log_probs(log_probs: Any) -> LogProbs:
    """Rows of log-probabilities in float32 or float64; refused if a row is impossible."""
    rows = np.asarray(log_probs)
    if rows.dtype.kind != "f":
        raise InputError(f"`log_probs` must be an array of floating-point numbers; got dtype {rows.dtype}.")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"`log_probs` must have two axes, rows and vocabulary; got shape {rows.shape}.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float32 if rows.dtype.itemsize < 4 else np.float64)
    if len(rows) == 0:
        return rows
    top = rows.max(axis=1)  # nan if the row contains one
    bad = np.flatnonzero(~(np.isfinite(top) & (top <= SUM_TOLERANCE)))
    if len(bad):
        raise InputError(
            f"`log_probs` must be rows of log-probabilities, at most 0 and not all −∞; the largest value of row {bad[0]} "
            f"is {top[bad[0]]:.4g}. Subtract scipy.special.logsumexp of each row from logits."
        )
    return rows


def _check_share(name: str, value: float) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and 0 < value <= 1):
        raise InputError(f"`{name}` must be above 0 and at most 1; got {value!r}.")
