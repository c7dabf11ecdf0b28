"""Decoding rules: pure functions from rows of log-probabilities to rows of log-probabilities.

A rule reshapes or truncates the distribution of the next token (paper: sec:bg:lms). The tokens that it keeps are
renormalised, and the rest becomes −∞. Rules that keep the smallest set of tokens with some property break ties in
favour of the lowest token id, so that the set is unique and the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow._checks import open_unit, positive, whole
from mallow.errors import InputError
from mallow.generate._protocol import LogProbs

Places = NDArray[np.intp]

SUM_TOLERANCE = 0.01
"""The allowed distance of the sum of a row's probabilities from 1.

Half-precision logits normalised in float32 stay within it.
"""


def largest(row: LogProbs, count: int) -> Places:
    """Places of the `count` largest values above −∞, in ascending order. The lowest places among equal values."""
    if count >= len(row):
        return _possible(row)
    cut = np.partition(row, len(row) - count)[len(row) - count]
    return _possible(row) if cut == -np.inf else _at_least(row, cut, count)


def nucleus(row: LogProbs, mass: float) -> Places:
    """The fewest tokens whose total probability is at least `mass`."""
    if mass == 1:
        return _possible(row)
    total = _total(row)
    # Sorting values instead of places is several times faster, and the places follow from the value at the cut.
    ranked = np.sort(row[_worth_sorting(row, mass, total)])[::-1]
    reached = np.cumsum(np.exp(ranked), dtype=np.float64)
    count = min(int(np.searchsorted(reached, mass * total)) + 1, len(ranked))
    return _at_least(row, ranked[count - 1], count)


def typical_set(row: LogProbs, mass: float) -> Places:
    """The tokens whose surprisal is nearest to the entropy, until they have probability `mass`."""
    if mass == 1:
        return _possible(row)
    total, entropy = _total(row), _entropy(row)
    candidates = _worth_sorting(row, mass, total)
    places, cut = _nearest_to_entropy(row, candidates, entropy, mass * total)
    # Tokens that were not sorted are farther away than this. If the cut is too, they may belong to the set.
    nearest_unsorted = -_least_worth(len(row), mass, total) - entropy
    if cut >= nearest_unsorted and len(candidates) < len(row):
        places, _ = _nearest_to_entropy(row, _possible(row), entropy, mass * total)
    return places


def typical_sum(row: LogProbs, mass: float) -> Places:
    """Tokens with probability `mass` and the least sum of distances |log P + H|: a knapsack, solved up to one token.

    Taking tokens by distance per probability is optimal if the last token may be split. The cheapest token that
    completes the mass replaces it, and tokens that are then no longer needed are dropped.
    """
    if mass == 1:
        return _possible(row)
    need = mass * _total(row)
    places = _possible(row)
    distance, weight = np.abs(row[places] + _entropy(row)).astype(np.float64), np.exp(row[places], dtype=np.float64)
    order = np.lexsort((places, distance / weight))
    reached = np.cumsum(weight[order])
    count = min(int(np.searchsorted(reached, need)), len(order) - 1)  # tokens before the one that would be split
    before = float(reached[count - 1]) if count else 0.0
    rest = order[count:]
    enough = rest[before + weight[rest] >= need]
    last = enough[int(distance[enough].argmin())] if len(enough) else order[count]
    kept = _without_spare(np.append(order[:count], last), distance, weight, need)
    nearest = np.searchsorted(places, typical_set(row, mass))
    best = min(kept, nearest, key=lambda chosen: float(distance[chosen].sum()))
    return places[np.sort(best)]


def above_eta(row: LogProbs, epsilon: float) -> Places:
    """The tokens with probability above η = min(ε, √ε·exp(−H))."""
    _total(row)
    log_epsilon = math.log(epsilon)
    places = np.flatnonzero(row > min(log_epsilon, log_epsilon / 2 - _entropy(row)))
    return places if len(places) else largest(row, 1)  # rounding can leave none, for epsilon near 1


def near_mode(row: LogProbs, share: float) -> Places:
    """The tokens with at least `share` of the most likely token's probability."""
    return np.flatnonzero(row >= row.max() + math.log(share))


def _without_spare(kept: Places, distance: Any, weight: Any, need: float) -> Places:
    """The tokens, without the farthest ones that are not needed to reach the mass."""
    spare = float(weight[kept].sum()) - need
    chosen = []
    for token in kept[np.argsort(-distance[kept], kind="stable")]:
        if distance[token] > 0 and weight[token] <= spare:
            spare -= float(weight[token])
        else:
            chosen.append(token)
    return np.array(chosen, np.intp)


def _at_least(row: LogProbs, cut: Any, count: int) -> Places:
    """Places of all values above the cut and of the first values equal to it, `count` in total."""
    places = np.flatnonzero(row >= cut)
    surplus = len(places) - count
    if surplus:
        tied = np.flatnonzero(row[places] == cut)
        places = np.delete(places, tied[len(tied) - surplus :])
    return places


def _nearest_to_entropy(row: LogProbs, candidates: Places, entropy: float, need: float) -> tuple[Places, float]:
    """The candidates nearest to the entropy with total probability `need`, and the distance of the last one."""
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
    """Places such that all other tokens together have less than 1 − mass; a few thousand in the rows of real models."""
    return np.flatnonzero(row >= _least_worth(len(row), mass, total))


def _least_worth(size: int, mass: float, total: float) -> float:
    # `size` tokens below (1 − mass)/size each cannot sum to 1 − mass.
    return math.log((1 - mass) * total / size)


def _possible(row: LogProbs) -> Places:
    return np.flatnonzero(row > -np.inf)


def _entropy(row: LogProbs) -> float:
    # 0·log 0 = 0: below −1e4 the probability is 0 in every precision, and the product must not be nan.
    return -float(np.sum(np.exp(row) * np.maximum(row, -1e4), dtype=np.float64))


def _total(row: LogProbs) -> float:
    """The sum of the probabilities; refused if it is not 1 up to rounding."""
    total = float(np.sum(np.exp(row), dtype=np.float64))
    if abs(total - 1) > SUM_TOLERANCE:
        raise InputError(
            "`log_probs` must be rows of log-probabilities, which sum to 1 after exp; got a row that sums to "
            f"{total:.4g}. Subtract scipy.special.logsumexp of each row from logits."
        )
    return total


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


# --- the common parts of the rules: a name and, if they truncate, the processing of rows


class _Name:
    """The name of a rule: a word and the rule's only option, as `mallow.generate.decoder` reads it."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __get__(self, rule: object, owner: type | None = None) -> str:
        return self.word if rule is None else f"{self.word}:{_option(rule)!r}"


def _truncation(kept: Callable[[LogProbs, Any], Places]) -> Callable[[Any, LogProbs], LogProbs]:
    """The `__call__` of a rule, from the function that returns the places to keep in a row for the rule's option."""

    def truncate(rule: Any, log_probs: LogProbs) -> LogProbs:
        """Log-probabilities (b, vocabulary), finite for the tokens of each row that the rule keeps, renormalised."""
        rows = _check_log_probs(log_probs)
        truncated = np.full_like(rows, -np.inf)
        for row, into in zip(rows, truncated, strict=True):  # row by row: interim results stay in the processor's cache
            places = kept(row, _option(rule))
            values = row[places]
            into[places] = values - _log_sum(values)
        return truncated

    return truncate


def _option(rule: object) -> Any:
    [value] = vars(rule).values()
    return value


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
    __call__ = _truncation(largest)

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole("k", self.k, least=1))


@dataclass(frozen=True)
class Nucleus:
    """The fewest tokens with a total probability of at least `mass` (paper: eq:nucleus-def; Holtzman et al. 2020).

    Examples
    --------
    >>> np.exp(Nucleus(0.7)(np.log([[0.1, 0.5, 0.3, 0.1]]))).round(3)
    array([[0.   , 0.625, 0.375, 0.   ]])
    """

    mass: float
    name = _Name("nucleus")
    __call__ = _truncation(nucleus)

    def __post_init__(self) -> None:
        _check_share("mass", self.mass)


@dataclass(frozen=True)
class Typical:
    """The tokens whose surprisal is nearest to the entropy H, until they have probability `mass` (Meister et al. 2023).

    They are taken in the order of |log P + H|, as in the paper and the program of the rule's authors. The paper (setup,
    locally typical sampling, τ = mass) prints a different set, the one with the smallest Σ |log P + H| with Σ P ≥ τ,
    which is `TypicalSum` (and prints Σ log P ≥ τ for Σ P ≥ τ: docs/paper.md, erratum 6). If probability is spread over
    many tokens near the entropy, the sum is smaller with a few likely tokens, so the two sets may have no token in
    common.

    Examples
    --------
    The most likely token is left out, because it carries less information than is typical here.

    >>> np.exp(Typical(0.3)(np.log([[0.4, 0.2, 0.2, 0.1, 0.1]]))).round(3)
    array([[0. , 0.5, 0.5, 0. , 0. ]])
    """

    mass: float
    name = _Name("typical")
    __call__ = _truncation(typical_set)

    def __post_init__(self) -> None:
        _check_share("mass", self.mass)


@dataclass(frozen=True)
class TypicalSum:
    """The tokens with the smallest Σ |log P + H| and probability `mass`: typical sampling as printed in the paper.

    This is a knapsack problem. The sum is at most the optimum plus the distance of one token, and at most the sum of
    `Typical`. The authors of the rule compute something else: see `Typical`.

    Examples
    --------
    One likely token is as good as a hundred typical ones, because its distance from the entropy counts once.

    >>> row = np.log([[0.5] + [0.005] * 100])
    >>> [int(np.isfinite(rule(0.4)(row)).sum()) for rule in (Typical, TypicalSum)]
    [80, 1]
    """

    mass: float
    name = _Name("typical-sum")
    __call__ = _truncation(typical_sum)

    def __post_init__(self) -> None:
        _check_share("mass", self.mass)


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
    __call__ = _truncation(above_eta)

    def __post_init__(self) -> None:
        open_unit("epsilon", self.epsilon, why=" Its authors use 0.0003 to 0.004.")


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
    __call__ = _truncation(near_mode)

    def __post_init__(self) -> None:
        _check_share("share", self.share)


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


# --- inside


def _log_sum(values: LogProbs) -> float:
    top = float(values.max())
    return top + math.log(np.sum(np.exp(values - top), dtype=np.float64))


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
    top = rows.max(axis=1)  # nan if the row contains a nan
    bad = np.flatnonzero(~(np.isfinite(top) & (top <= SUM_TOLERANCE)))
    if len(bad):
        raise InputError(
            "`log_probs` must be rows of log-probabilities, at most 0 and not all −∞, but the largest value of row "
            f"{bad[0]} is {top[bad[0]]:.4g}. Subtract scipy.special.logsumexp of each row from logits."
        )
    return rows


def _check_share(name: str, value: float) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and 0 < value <= 1):
        raise InputError(f"`{name}` must be above 0 and at most 1; got {value!r}.")
