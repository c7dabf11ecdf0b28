"""Decoding rules: pure functions from rows of log-probabilities to rows of log-probabilities.

A rule reshapes or truncates the distribution of the next token (paper: sec:bg:lms). What it keeps is renormalised, the rest
becomes −∞. The sets of tokens that the truncating rules keep are in `_kept_tokens`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mallow._checks import open_unit, positive, whole
from mallow.errors import InputError
from mallow.generate._kept_tokens import (
    SUM_TOLERANCE,
    Places,
    above_eta,
    largest,
    near_mode,
    nucleus,
    typical_set,
    typical_sum,
)
from mallow.generate._protocol import LogProbs


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


# --- what the rules of this module share: a name and, if they truncate, what happens to the rows


class _Name:
    """The name of a rule: a word and the rule's only option, as `mallow.generate.decoder` reads it."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __get__(self, rule: object, owner: type | None = None) -> str:
        return self.word if rule is None else f"{self.word}:{_option(rule)!r}"


def _truncation(kept: Callable[[LogProbs, Any], Places]) -> Callable[[Any, LogProbs], LogProbs]:
    """The `__call__` of a rule, from the function that returns the places to keep in a row, by the rule's only option."""

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
    """The fewest tokens whose total probability is at least `mass` (paper: eq:nucleus-def, p = mass; Holtzman et al. 2020).

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

    They are taken in the order of |log P + H|, as the authors of the rule do, and as their program does. The paper (setup,
    locally typical sampling, τ = mass) prints another set: that of least Σ |log P + H| with Σ P ≥ τ, which is `TypicalSum`
    (and prints Σ log P ≥ τ for Σ P ≥ τ: docs/paper.md, erratum 6). Where probability is spread over many tokens near the
    entropy, the sum is smaller with a few likely ones: the two sets can have no token in common.

    Examples
    --------
    The most likely token is left out: it carries less information than is typical here.

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
    """The tokens of least Σ |log P + H| with probability `mass`: typical sampling as the paper prints it.

    A knapsack problem; the sum is at most that of the best set plus the distance of one token, and at most that of `Typical`.
    This is not what its authors compute: see `Typical`.

    Examples
    --------
    One likely token is as good as a hundred that are typical: its distance from the entropy counts once.

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
