"""Decoding rules: pure functions from rows of log-probabilities to rows of log-probabilities.

A rule reshapes or truncates the distribution of the next token (paper: sec:bg:lms); what it leaves is renormalised, the
rest is −∞. Rules that keep the fewest tokens with some property break ties by the lowest token id, so that the kept set is
one set, the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.errors import InputError
from mallow.generate._protocol import LogProbs

__all__ = ["Chain", "Eta", "MinP", "Nucleus", "Rule", "Temperature", "TopK", "Typical"]

Places = NDArray[np.intp]

_SUM_TOLERANCE = 0.01  # a row of half-precision logits, normalised in float32, is well inside; logits are not


@runtime_checkable
class Rule(Protocol):
    """Any callable from log-probabilities to log-probabilities, with a name for signatures."""

    @property
    def name(self) -> str:
        """The rule with its options, in one word."""
        ...

    def __call__(self, log_probs: LogProbs, /) -> LogProbs:
        """Normalised log-probabilities (b, vocabulary), −∞ for what is left out; never a whole row of −∞."""
        ...


@dataclass(frozen=True)
class Temperature:
    """P^(1/τ), renormalised (paper: sec:bg:lms): below 1 more peaked, above 1 flatter, 1 unchanged.

    Examples
    --------
    >>> np.exp(Temperature(0.5)(np.log([[0.8, 0.2]]))).round(3)
    array([[0.941, 0.059]])
    """

    temperature: float

    def __post_init__(self) -> None:
        positive("temperature", self.temperature, why=" For the limit 0 use greedy decoding.")

    @property
    def name(self) -> str:
        """The rule as `mallow.generate.decoder` reads it."""
        return f"temperature:{self.temperature!r}"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary) of the rescaled rows."""
        rows = _checked(log_probs)
        # Below this the quotient of float32 is 0/0; the distribution has long been its mode.
        divisor = max(float(self.temperature), float(np.finfo(rows.dtype).tiny))
        out = np.empty_like(rows)
        with np.errstate(over="ignore"):  # −∞ is meant
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

    def __post_init__(self) -> None:
        whole("k", self.k, least=1)

    @property
    def name(self) -> str:
        """The rule as `mallow.generate.decoder` reads it."""
        return f"top-k:{self.k}"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary) with at most k finite entries a row."""
        return _kept(log_probs, lambda row: largest(row, self.k))


@dataclass(frozen=True)
class Nucleus:
    """The fewest tokens with probability at least `mass` together (paper: eq:nucleus-def, p = mass; Holtzman et al. 2020).

    Examples
    --------
    >>> np.exp(Nucleus(0.7)(np.log([[0.1, 0.5, 0.3, 0.1]]))).round(3)
    array([[0.   , 0.625, 0.375, 0.   ]])
    """

    mass: float

    def __post_init__(self) -> None:
        _share("mass", self.mass)

    @property
    def name(self) -> str:
        """The rule as `mallow.generate.decoder` reads it."""
        return f"nucleus:{self.mass!r}"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary), finite on the nucleus of each row."""
        return _kept(log_probs, self._places)

    def _places(self, row: LogProbs) -> Places:
        if self.mass == 1:
            return _possible(row)
        total = _total(row)
        # Values are sorted, not places: several times faster; the places follow from the value at the cut.
        ranked = np.sort(row[_worth_sorting(row, self.mass, total)])[::-1]
        reached = np.cumsum(np.exp(ranked), dtype=np.float64)
        count = min(int(np.searchsorted(reached, self.mass * total)) + 1, len(ranked))
        return _at_least(row, ranked[count - 1], count)


@dataclass(frozen=True)
class Typical:
    """Tokens whose surprisal is nearest the entropy H, until they have probability `mass` (Meister et al. 2023).

    They are taken in the order of |log P + H|, as the authors of the rule do. The paper (setup, locally typical sampling,
    τ = mass) writes this as the set of least Σ |log P + H| under a constraint on the mass, which greedy order approximates,
    and prints Σ log P ≥ τ where Σ P ≥ τ is meant (docs/paper.md, erratum 6).

    Examples
    --------
    The likeliest token is left out: it says less than is usual here.

    >>> np.exp(Typical(0.3)(np.log([[0.4, 0.2, 0.2, 0.1, 0.1]]))).round(3)
    array([[0. , 0.5, 0.5, 0. , 0. ]])
    """

    mass: float

    def __post_init__(self) -> None:
        _share("mass", self.mass)

    @property
    def name(self) -> str:
        """The rule as `mallow.generate.decoder` reads it."""
        return f"typical:{self.mass!r}"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary), finite on the typical set of each row."""
        return _kept(log_probs, self._places)

    def _places(self, row: LogProbs) -> Places:
        if self.mass == 1:
            return _possible(row)
        total = _total(row)
        entropy = _entropy(row)
        among = _worth_sorting(row, self.mass, total)
        chosen, cut = _fewest(row, among, entropy, self.mass * total)
        left_out = -_least_worth(len(row), self.mass, total) - entropy  # what was not sorted is further off than this
        if cut >= left_out and len(among) < len(row):
            chosen, _ = _fewest(row, _possible(row), entropy, self.mass * total)
        return chosen


@dataclass(frozen=True)
class Eta:
    """Tokens with probability above η = min(ε, √ε·exp(−H)), ε = epsilon (Hewitt, Manning and Liang 2022).

    H is the entropy of the row. exp(−H) is at most the largest probability, so the likeliest token is always kept.

    Examples
    --------
    >>> np.exp(Eta(0.04)(np.log([[0.9, 0.06, 0.03, 0.01]]))).round(3)
    array([[0.938, 0.062, 0.   , 0.   ]])
    """

    epsilon: float

    def __post_init__(self) -> None:
        if not (_number(self.epsilon) and 0 < self.epsilon < 1):
            raise InputError(
                f"`epsilon` must lie strictly between 0 and 1; got {self.epsilon!r}. Its authors use 0.0003 to 0.004."
            )

    @property
    def name(self) -> str:
        """The rule as `mallow.generate.decoder` reads it."""
        return f"eta:{self.epsilon!r}"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary), finite where they exceed η."""
        return _kept(log_probs, self._places)

    def _places(self, row: LogProbs) -> Places:
        _total(row)
        log_epsilon = math.log(self.epsilon)
        places = np.flatnonzero(row > min(log_epsilon, log_epsilon / 2 - _entropy(row)))
        return places if len(places) else largest(row, 1)  # by rounding, for epsilon next to 1


@dataclass(frozen=True)
class MinP:
    """Tokens with at least `share` of the likeliest token's probability (min-p: Nguyen et al. 2024).

    Examples
    --------
    >>> np.exp(MinP(0.5)(np.log([[0.5, 0.3, 0.2]]))).round(3)
    array([[0.625, 0.375, 0.   ]])
    """

    share: float

    def __post_init__(self) -> None:
        _share("share", self.share)

    @property
    def name(self) -> str:
        """The rule as `mallow.generate.decoder` reads it."""
        return f"min-p:{self.share!r}"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary), finite where they are near the row's largest."""
        offset = math.log(self.share)
        return _kept(log_probs, lambda row: np.flatnonzero(row >= row.max() + offset))


@dataclass(frozen=True)
class Chain:
    """Rules one after the other, each on what the one before has left.

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
        """The rules joined by +; ancestral where there is none."""
        return "+".join(rule.name for rule in self.rules) or "ancestral"

    def __call__(self, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary) after all rules; unchanged where there is none."""
        for rule in self.rules:
            log_probs = rule(log_probs)
        return log_probs


def largest(row: LogProbs, count: int) -> Places:
    """Places of the `count` largest values above −∞, in ascending order; among equal values the lowest places."""
    if count >= len(row):
        return _possible(row)
    cut = np.partition(row, len(row) - count)[len(row) - count]
    return _possible(row) if cut == -np.inf else _at_least(row, cut, count)


def _at_least(row: LogProbs, cut: Any, count: int) -> Places:
    """Places of values above the cut, then of values equal to it in their order, `count` in all."""
    places = np.flatnonzero(row >= cut)
    surplus = len(places) - count
    if surplus:
        tied = np.flatnonzero(row[places] == cut)
        places = np.delete(places, tied[len(tied) - surplus :])
    return places


def _fewest(row: LogProbs, among: Places, entropy: float, need: float) -> tuple[Places, float]:
    """Of some places, those nearest the entropy that have `need` together; and how far the last one is."""
    values = row[among]
    far = np.abs(values + entropy)
    weights = np.exp(values)
    order = np.argsort(far)
    count = int(np.searchsorted(np.cumsum(weights[order], dtype=np.float64), need)) + 1
    cut = far[order[min(count, len(order)) - 1]]
    inside, tied = np.flatnonzero(far < cut), np.flatnonzero(far == cut)
    # The sort orders ties at random, and a token above the entropy can tie with one below: take them by their ids.
    reached = weights[inside].sum(dtype=np.float64) + np.cumsum(weights[tied], dtype=np.float64)
    tied = tied[: int(np.searchsorted(reached, need)) + 1]
    return among[np.sort(np.concatenate([inside, tied]))], float(cut)


def _worth_sorting(row: LogProbs, mass: float, total: float) -> Places:
    """Places outside of which the tokens have less than 1 − mass together: a few thousand for the rows of real models."""
    return np.flatnonzero(row >= _least_worth(len(row), mass, total))


def _least_worth(size: int, mass: float, total: float) -> float:
    # `size` tokens, each below (1 − mass)/size, cannot make up 1 − mass.
    return math.log((1 - mass) * total / size)


def _possible(row: LogProbs) -> Places:
    return np.flatnonzero(row > -np.inf)


def _entropy(row: LogProbs) -> float:
    # 0·log 0 = 0: below −1e4 the probability is 0 in every precision, and the product must not be nan.
    return -float(np.sum(np.exp(row) * np.maximum(row, -1e4), dtype=np.float64))


def _total(row: LogProbs) -> float:
    """The sum of the probabilities, refused when it is not 1 to about rounding."""
    total = float(np.sum(np.exp(row), dtype=np.float64))
    if abs(total - 1) > _SUM_TOLERANCE:
        raise InputError(
            f"`log_probs` must be rows of log-probabilities, which sum to 1 after exp; got a row that sums to {total:.4g}. "
            "Subtract scipy.special.logsumexp of each row from logits."
        )
    return total


def _log_sum(values: LogProbs) -> float:
    top = float(values.max())
    return top + math.log(np.sum(np.exp(values - top), dtype=np.float64))


def _kept(log_probs: LogProbs, places: Callable[[LogProbs], Places]) -> LogProbs:
    """The rows restricted to the places that are found for each, renormalised."""
    rows = _checked(log_probs)
    out = np.full_like(rows, -np.inf)
    for row, into in zip(rows, out, strict=True):  # row by row: what is between stays in the processor's cache
        chosen = places(row)
        values = row[chosen]
        into[chosen] = values - _log_sum(values)
    return out


def _checked(log_probs: Any) -> LogProbs:
    """Rows of log-probabilities in float32 or float64, none of them impossible."""
    rows = np.asarray(log_probs)
    if rows.dtype.kind != "f":
        raise InputError(f"`log_probs` must be an array of floating-point numbers; got dtype {rows.dtype}.")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"`log_probs` must have two axes, rows and vocabulary; got shape {rows.shape}.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float32 if rows.dtype.itemsize < 4 else np.float64)
    if len(rows) == 0:
        return rows
    top = rows.max(axis=1)  # nan where there is one in the row
    bad = np.flatnonzero(~(np.isfinite(top) & (top <= _SUM_TOLERANCE)))
    if len(bad):
        raise InputError(
            f"`log_probs` must be rows of log-probabilities, at most 0 and not all −∞; the largest value of row {bad[0]} "
            f"is {top[bad[0]]:.4g}. Subtract scipy.special.logsumexp of each row from logits."
        )
    return rows


def _share(name: str, value: float) -> None:
    if not (_number(value) and 0 < value <= 1):
        raise InputError(f"`{name}` must be above 0 and at most 1; got {value!r}.")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
