"""Held-out evidence about systems: what the samples of each prove, and which of two is farther from the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mallow.engine import bar, run_now, settle, single_threaded_blas, start
from mallow.errors import InputError
from mallow.evidence._certificate import (
    NAMES,
    Certificate,
    certify,
    cost_terms,
    standard_errors,
    summary_terms,
    unit_influence,
)
from mallow.evidence._identity import Draws, IdentityTest
from mallow.evidence._learner import Learner
from mallow.evidence._shares import bound_shares
from mallow.evidence._units import Units
from mallow.results import Estimate
from mallow.theory import Array, Divergence, Frontier


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order of the input. They keep the chance of any false alarm below the level.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise InputError(f"`p_values` must lie between 0 and 1; got {list(p_values)}.")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = largest
    return adjusted


LEVEL = 0.05
NORMAL = 1.959963984540054  # standard errors of a two-sided 95% interval
_DIGITS = 6  # digits of p-values, which are less exact than other numbers far in the tail
_CLEAR = (
    3.5  # chosen: standard errors, √2 times as large, beyond which a difference of certificates needs no common witness
)
_ROUNDING = 1e-12  # chosen: summaries are of order 1, so a smaller difference, and its error, are rounding


@dataclass(frozen=True, eq=False)
class Evidence:
    """The stored evidence about one system, enough to certify, compare and explain without learning again.

    Attributes
    ----------
    reference_scores : array (n,)
        The held-out score h of each reference sample, an estimate of log p/q by a rule that was learned without this
        sample. It is large for samples that look like the reference and small for samples that look like the model.
    model_scores : array (m,)
        The held-out score of each model sample.
    reference_units : int64 array (n,)
        The unit of each reference sample.
    model_units : int64 array (m,)
        The unit of each model sample.
    keys : uint64 array (units,)
        A key that identifies each unit in other runs.
    test : IdentityTest
    tolerance : float
        The largest difference of a score between processors: 0, or one step of the grid of scores with so many samples
        that the rules were learned in float32.
    spaces : tuple of str
        The spaces that evidence used in addition to the features.
    """

    reference_scores: Array
    model_scores: Array
    reference_units: NDArray[np.int64]
    model_units: NDArray[np.int64]
    keys: NDArray[np.uint64]
    test: IdentityTest
    tolerance: float = 0.0
    spaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:  # it may come from a file
        for scores, units in zip((self.reference_scores, self.model_scores), self.units.sets, strict=True):
            if scores.shape != units.shape or scores.ndim != 1 or not scores.size:
                raise InputError(f"each sample must have a score and a unit; got {scores.shape} and {units.shape}.")
            if units.dtype.kind not in "iu" or units.min() < 0 or units.max() >= self.units.count:
                raise InputError(f"the units of samples must be whole numbers below {self.units.count}, their number.")
            if not np.isfinite(scores).all():
                raise InputError("held-out scores must be finite.")

    @property
    def units(self) -> Units:
        """The units of the reference and the model."""
        return Units((self.reference_units, self.model_units), self.keys)

    def certify(self, divergence: Divergence, scale: float) -> Certificate:
        """The certificate for a divergence and the constant c of the area.

        If the test shows no gap at the 5% level, the limits are the ends of the range, so the printed test and limits
        never disagree.
        """
        certificate = certify(self.reference_scores, self.model_scores, self.units, divergence, scale)
        return certificate if self.test.p_value < LEVEL else certificate.without_limits()

    def shares(self) -> dict[str, Estimate]:
        """How many samples are not like the other side, at least (`bound_shares`); 0 where the test shows no gap."""
        shares = bound_shares(self.reference_scores, self.model_scores, self.units)
        if self.test.p_value < LEVEL:
            return shares
        return {name: replace(share, low=0.0) for name, share in shares.items()}


def gather_evidence(learner: Learner, system: int, *, permutations: int, seed: int = 0) -> Evidence:
    """The evidence about one of the systems of a learner (1 is the first): the first of `evidence_by_choice`."""
    return evidence_by_choice(learner, system, permutations=permutations, seed=seed)[0]


def evidence_by_choice(learner: Learner, system: int, *, permutations: int, seed: int = 0) -> list[Evidence]:
    """The evidence about one of the systems by each choice of spaces; all have the test by the first, all spaces.

    `seed` is the seed of the permutations. Results always use the same seed, so that nobody can choose among several
    answers.
    """
    units = learner.units.pair(system)
    reference_units, model_units = units.sets
    with bar("checking the gap", 2) as show, single_threaded_blas():
        test = (start if learner.together else run_now)(partial(learner.test, system, Draws(permutations, seed)))
        by_choice = learner.scores_by_choice(system)
        show(1, "")
        known = reference_units, model_units, units.keys, test.result(), learner.tolerance
        return [Evidence(at_p, at_q, *known) for at_p, at_q in by_choice]


@dataclass(frozen=True)
class EvidenceDifference:
    """The differences between the certified summaries of two systems.

    Each has a value, a 95% interval and a two-sided p-value.
    """

    value: dict[str, float]
    interval: dict[str, tuple[float, float]]
    p_value: dict[str, float]

    def undecided(self) -> EvidenceDifference:
        """The same if richer views reverse the order: no p-value is small, and intervals contain 0."""
        interval = {name: (min(low, 0.0), max(high, 0.0)) for name, (low, high) in self.interval.items()}
        return EvidenceDifference(self.value, interval, dict.fromkeys(self.p_value, 1.0))


def difference_between(
    learner: Learner, systems: tuple[int, int], certificates: tuple[Certificate, Certificate], divergence: Divergence
) -> EvidenceDifference:
    """Which of two systems of a learner is farther from the reference, unit by unit.

    A third witness is learned for the reference against both systems together. The derivative of a summary, when the
    model moves from one system to the other, is then a difference of two means of one function, which was not chosen
    for either of them. If both systems are the same, or equally far, its expectation is 0 whatever was learned. A
    difference of two certificates is not enough, because each has its own witness, and by chance one may have learned
    more than the other. A difference counts only if both agree.
    """
    at_reference, *at_systems = learner.scores(*systems)
    sets = learner.units.sets
    pooled = Units((sets[0], np.concatenate([sets[system] for system in systems])), learner.units.keys)
    scale = certificates[0].scale
    curve = certify(at_reference, np.concatenate(at_systems), pooled, divergence, scale).frontier
    first, second = (_summary_terms_of_model(at_system, curve, divergence, scale) for at_system in at_systems)
    units = Units((sets[systems[0]], sets[systems[1]]), learner.units.keys)
    errors = standard_errors(unit_influence([first, -second], units))
    means = first.mean(axis=0) - second.mean(axis=0)
    return subtract_certificates(*certificates, common=np.where(errors > 0, means / np.maximum(errors, 1e-300), 0.0))


def _summary_terms_of_model(scores: Array, curve: Frontier, divergence: Divergence, scale: float) -> Array:
    """The part of each sample of a model in the three summaries near a curve, (samples, 3)."""
    values, inverse = np.unique(scores, return_inverse=True)
    terms = cost_terms(scores[:0], values, divergence, curve.lam, curve.lam[::-1])[1]
    return summary_terms(terms, curve, scale)[inverse]


def is_undecided(first: Certificate, second: Certificate) -> bool:
    """Whether a common witness must decide if the difference of two certificates is real.

    Not if their errors cover it, and not if it would be clear even with the variance doubled by the luck of the
    witnesses.
    """
    return any(_in_doubt(z) for _, _, z in _apart(first, second))


def subtract_certificates(first: Certificate, second: Certificate, common: Array | None = None) -> EvidenceDifference:
    """The difference of two certificates whose units have the same numbers.

    `common` is the difference between the systems by a common witness, in standard errors, (3,). Without one, p-values
    allow for errors larger by √2, because two witnesses were learned, each with its own luck, which doubles the
    variance near identity. Intervals do the same if the difference is undecided.
    """
    value, interval, p_value = {}, {}, {}
    for number, (name, (difference, error, z)) in enumerate(zip(NAMES, _apart(first, second), strict=True)):
        if common is not None:
            z = min(z, max(0.0, float(common[number]) * math.copysign(1.0, difference)))
            reach = max(NORMAL * error, abs(difference) * NORMAL / max(z, 1.0))
        else:
            reach = NORMAL * error * (math.sqrt(2.0) if _in_doubt(z) else 1.0)
            z /= math.sqrt(2.0)
        if first.errors[number] == 0.0 and second.errors[number] == 0.0 and difference == 0.0:
            reach = first.estimates[name].high  # nothing was learned about either, so any difference is possible
        most = 1.0 if number == 0 else first.estimates[name].high  # the range of the summary
        value[name], interval[name] = difference, (max(difference - reach, -most), min(difference + reach, most))
        p_value[name] = math.erfc(z / math.sqrt(2.0))
    return EvidenceDifference(settle(value), settle(interval), settle(p_value, _DIGITS))


def _apart(first: Certificate, second: Certificate) -> list[tuple[float, float, float]]:
    """The difference of each summary, its standard error, and its distance from 0 in standard errors."""
    apart = []
    for name, error in zip(NAMES, standard_errors(first.influence - second.influence).tolist(), strict=True):
        difference = first.estimates[name].value - second.estimates[name].value
        difference = difference if abs(difference) > _ROUNDING else 0.0
        z = abs(difference) / error if error > 0 else 0.0 if difference == 0 else math.inf
        apart.append((difference, error, z))
    return apart


def _in_doubt(z: float) -> bool:
    return NORMAL <= z < math.sqrt(2.0) * _CLEAR
