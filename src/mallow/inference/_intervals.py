"""Intervals of scores and of their differences, from the bins of the samples, never from features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mallow.inference._calibration import NAMES, Calibrated, Influence, calibrate, correlate_errors, find_influence
from mallow.theory import Array, Divergence, Partition

__all__ = [
    "NORMAL",
    "BinEvidence",
    "PairDifference",
    "collect_evidence",
    "join_arms",
    "pair_difference",
    "score_interval",
]

_CERTAIN = 1.0  # an integral below this many standard errors gets no interval; tuned in experiments/coverage
NORMAL = 1.959963984540054  # standard errors of a two-sided 95 % interval


@dataclass(frozen=True, eq=False)
class BinEvidence:
    """What the bins of one system say about its summaries: a bias-corrected estimate, and the influence of each sample.

    `shift` moves the estimate from the first partition to the mean of all; `seed_error` is what the choice of seeds
    leaves uncertain in that mean.
    """

    estimate: Calibrated
    influence: Influence
    shift: Array
    seed_error: Array

    @property
    def score(self) -> dict[str, float]:
        """Each summary, bias-corrected."""
        moved = self.estimate.score + self.shift
        limits = [(0.0, 1.0), (0.0, np.inf), (0.0, np.inf)]
        return {name: float(np.clip(v, *ends)) for name, v, ends in zip(NAMES, moved, limits, strict=True)}


def collect_evidence(
    partitions: Sequence[Partition],
    values: Mapping[str, Sequence[float]],
    *,
    divergence: Divergence,
    scale: float,
    rng: np.random.Generator,
) -> BinEvidence:
    """The evidence in a system's partitions, in which its summaries had these `values`."""
    first = partitions[0]
    estimate = calibrate(first.p_counts, first.q_counts, rng=rng, divergence=divergence, scale=scale)
    observed = np.array([values[name] for name in NAMES])  # (3, repeats)
    repeats = observed.shape[1]
    seed_error = observed.std(axis=1, ddof=1) / math.sqrt(repeats) if repeats > 1 else np.zeros(len(NAMES))
    shift = observed.mean(axis=1) - observed[:, 0]
    return BinEvidence(estimate, find_influence(first, divergence, scale), shift, seed_error)


def score_interval(evidence: BinEvidence) -> dict[str, tuple[float, float] | None]:
    """A 95 % interval of each summary's population value; None for all where the system is too close to the reference.

    Very near identity the score is at the end of its range and its error has no known shape.
    """
    estimate = evidence.estimate
    ends = _ends(evidence, NORMAL, 1.0)
    if estimate.value[1] + evidence.shift[1] < _CERTAIN * estimate.error[1] or ends[0][0] >= 1.0:
        return dict.fromkeys(NAMES)
    most = np.array([1.0, np.inf, np.inf])
    pairs = zip(*(np.clip(end, 0.0, most) for end in ends), strict=True)
    return {name: (float(low), float(high)) for name, (low, high) in zip(NAMES, pairs, strict=True)}


def _ends(evidence: BinEvidence, z: Array | float, factor: Array | float) -> tuple[Array, Array]:
    """Both ends at z standard errors, around the mean of all partitions; the noise of the seeds widens both arms."""
    centre = evidence.estimate.score
    low, high = evidence.estimate.ends(z, factor)
    seeds = z * evidence.seed_error
    return (
        centre - np.hypot(centre - low, seeds) + evidence.shift,
        centre + np.hypot(high - centre, seeds) + evidence.shift,
    )


@dataclass(frozen=True)
class PairDifference:
    """First minus second: value, interval and two-sided p-value of each summary."""

    value: dict[str, float]
    interval: dict[str, tuple[float, float]]
    p_value: dict[str, float]


def pair_difference(first: BinEvidence, second: BinEvidence, *, paired: bool) -> PairDifference:
    """The difference between two systems' scores against the same reference.

    The interval joins those of the two scores, which need not be symmetric (the method of variance estimates recovery);
    the p-value is that of the widest interval that leaves 0 out, so that both always agree.

    `paired`: sample i of the reference and of both systems belong together.
    """
    shared, factor_a, factor_b = correlate_errors(first.influence, second.influence, paired=paired)
    centre_a, centre_b = first.estimate.score + first.shift, second.estimate.score + second.shift
    value = centre_a - centre_b

    def ends(z: Array | float) -> tuple[Array, Array]:
        (low_a, high_a), (low_b, high_b) = _ends(first, z, factor_a), _ends(second, z, factor_b)
        down = join_arms(centre_a - low_a, high_b - centre_b, shared)
        return value - down, value + join_arms(high_a - centre_a, centre_b - low_b, shared)

    small, large = np.zeros(len(NAMES)), np.full(len(NAMES), 40.0)
    for _ in range(50):
        z = (small + large) / 2.0
        low, high = ends(z)
        out = (low > 0) | (high < 0)
        small, large = np.where(out, z, small), np.where(out, large, z)
    low, high = ends(NORMAL)
    return PairDifference(
        value={name: float(v) for name, v in zip(NAMES, value, strict=True)},
        interval={name: (float(x), float(y)) for name, x, y in zip(NAMES, low, high, strict=True)},
        p_value={name: math.erfc(float(x) / math.sqrt(2.0)) for name, x in zip(NAMES, small, strict=True)},
    )


def join_arms(first: Array | float, second: Array | float, correlation: Array | float) -> Array:
    """How far a difference reaches, from the arms of the two intervals that point the same way and their correlation."""
    squares = first**2 + second**2 - 2.0 * correlation * first * second
    reach: Array = np.sqrt(np.maximum(squares, 0.0))
    return reach
