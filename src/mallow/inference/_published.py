"""The published score of bins: what another draw would give, and the value behind the samples.

Both move along curves θ·C, the scaled frontier C of the samples: θ = 1 is what was seen, θ = 0 is identity. A summary of the
bins is nearly linear in θ, whatever its own scale, and its range ends where θ does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mallow.engine import single_threaded_blas
from mallow.inference._jackknife import find_bin_errors
from mallow.inference._slopes import NAMES, summary_slopes
from mallow.inference._unit_bins import (
    CountMasses,
    UnitBins,
    add_to_counts,
    bin_terms,
    exact_nodes,
    find_unit_bins,
    masses_by_count,
)
from mallow.inference._units import Units
from mallow.results import Estimate
from mallow.theory import Array, Divergence, Frontier, Masses, Partition, area, integral, midpoint

__all__ = ["debiased_estimate", "published_interval"]

_NORMAL = 1.959963984540054  # standard errors of a two-sided 95 % interval
_FAINT = 1e-3  # chosen: the size of the curve that stands in where both histograms are equal; any small one will do
# Tuned on experiments/honesty/intervals.py, seed family 1, and confirmed on seed family 2 (intervals.md):
_WIDEN = 1.15  # of standard errors: that of the jackknife is a little larger than that of the summary
_WIDEN_SPARSE = 0.6  # more for each bin per unit, up to two
_SECOND_ORDER = 2.0  # weight of the second order of the jackknife for each bin per unit, up to 1

Smooth = Callable[[Array, Array], Masses]


@dataclass(frozen=True, eq=False)
class _Family:
    """The curves θ·C, with the slopes of the three summaries by the costs at C."""

    curve: Array  # (2·points,), the costs of P at all λ first
    seen: float  # the θ of the samples: 1, or 0 where both histograms are equal and C is a stand-in
    slopes: Array  # (2·points, 3)
    per_theta: Array  # (3,): how much a summary changes with θ, to first order, without its sign
    scale: float

    def theta(self, sums: Array) -> Array:
        """The θ that sums of slopes times costs, (3,), stand for."""
        return _ratio(np.sign(self.slopes.T @ self.curve) * sums, self.per_theta)

    def summaries(self, theta: Array) -> Array:
        """Each summary at its own θ, (3,); below 0 as at 0."""
        costs = np.maximum(theta, 0.0)[:, None] * self.curve
        p, q = np.split(costs, 2, axis=1)
        at = Frontier(exact_nodes(), p, q, exact=True)
        each: Array = np.array([area(at, scale=self.scale), integral(at), midpoint(at)])  # (summaries, thetas)
        return np.diagonal(each).copy()


def _build_family(curve: Array, scale: float) -> _Family:
    equal = not (curve > 0.0).any()
    if equal:
        lam = exact_nodes()
        curve = _FAINT * np.concatenate([lam[::-1] ** 2, lam**2])  # the shape of every frontier near identity
    p, q = np.split(curve, 2)
    slopes = np.concatenate(summary_slopes(Frontier(exact_nodes(), p, q, exact=True), scale))
    return _Family(curve, 0.0 if equal else 1.0, slopes, np.abs(slopes.T @ curve), scale)


def published_interval(
    partitions: Sequence[Partition],
    units: Units,
    values: Mapping[str, Sequence[float]],
    *,
    smooth: Smooth,
    divergence: Divergence,
    scale: float,
) -> dict[str, tuple[float, float]]:
    """Where the summaries of another draw of so many units would be, in 95 % of draws: around the mean of `values`.

    The other draw has noise of its own, so that the interval is √2 times as wide as a confidence interval of the expected
    value. The noise is that of units, in all partitions, and of the clustering.

    Parameters
    ----------
    partitions : sequence of Partition
        One for each repeat.
    units : Units
        Those of the reference (set 0) and of the model (set 1). With one unit nothing is known of the noise, and the
        intervals are the whole range.
    values : dict
        Each summary in every repeat.
    smooth : callable
        Counts of both sides → `Masses`, as the measure does it.
    """
    printed = np.array([np.mean(values[name]) for name in NAMES])
    most = _largest(divergence)
    if units.count < 2:
        return {name: (0.0, float(end)) for name, end in zip(NAMES, most, strict=True)}
    bins = [find_unit_bins(partition, units) for partition in partitions]
    masses = [masses_by_count(one, smooth) for one in bins]
    with single_threaded_blas():
        family = _build_family(_mean_curve(bins, masses, divergence), scale)
        errors = find_bin_errors(bins, masses, divergence, family.slopes)
    repeats = len(partitions)
    variance = errors.variance
    if repeats > 1:
        # Clusterings differ in what they measure and in their noise; the noise is in the errors already.
        differences = np.array([values[name] for name in NAMES]).var(axis=1, ddof=1) / repeats
        noise = (errors.each_variance.mean(axis=0) - errors.variance) / (repeats - 1)
        variance = variance + np.maximum(differences - noise, 0.0)
    reach = _NORMAL * _ratio(np.sqrt(2.0 * variance), family.per_theta)
    ends = np.array([family.summaries(family.seen + sign * reach) for sign in (-1.0, 1.0)])
    ends += printed - family.summaries(np.full(3, family.seen))
    low = np.minimum(np.clip(ends.min(axis=0), 0.0, most), printed)
    high = np.maximum(np.clip(ends.max(axis=0), 0.0, most), printed)
    return {name: (float(x), float(y)) for name, x, y in zip(NAMES, low, high, strict=True)}


def debiased_estimate(
    partitions: Sequence[Partition], units: Units, *, divergence: Divergence, scale: float
) -> dict[str, Estimate]:
    """The summaries of the distributions behind the samples, in the bins of these partitions, with 95 % confidence intervals.

    Bias-corrected by a jackknife that leaves out units, so that it knows about shared prompts and several generations; the
    smoothing of the measure plays no part. Where identity cannot be excluded, an interval reaches the end of the range:
    area 1, costs 0.

    Parameters
    ----------
    partitions : sequence of Partition
        One for each repeat; the target is the mean over them.
    units : Units
        Those of the reference (set 0) and of the model (set 1). With one unit the intervals are the whole range.
    """
    most = _largest(divergence)
    bins = [find_unit_bins(partition, units) for partition in partitions]
    with single_threaded_blas():
        masses = [add_to_counts(one, 0.0) for one in bins]
        curve = _mean_curve(bins, masses, divergence)
        if not np.isfinite(curve).all():  # one of the few divergences that forbid an empty bin
            masses = [add_to_counts(one, 0.5) for one in bins]
            curve = _mean_curve(bins, masses, divergence)
        family = _build_family(curve, scale)
        if units.count < 2:
            value = family.summaries(np.full(3, family.seen))
            return {n: Estimate(float(v), 0.0, float(end)) for n, v, end in zip(NAMES, value, most, strict=True)}
        errors = find_bin_errors(bins, masses, divergence, family.slopes)
    first, second = family.theta(errors.first), family.theta(errors.second)
    occupied = min(np.count_nonzero(units.sizes(side)) for side in (0, 1))
    sparsity = float(np.mean([len(one.p) for one in bins])) / occupied  # bins per unit
    theta = first + min(1.0, _SECOND_ORDER * sparsity) * (second - first)
    error = (_WIDEN + _WIDEN_SPARSE * min(sparsity, 2.0)) * _ratio(np.sqrt(errors.variance), family.per_theta)
    # What the next orders would still take off is at most about as much as the second did.
    low = theta - _NORMAL * np.hypot(error, np.maximum(first - second, 0.0))
    high = np.maximum(theta + _NORMAL * error, error)
    ends = np.sort([np.minimum(family.summaries(each), most) for each in (low, high)], axis=0)
    value = np.clip(np.minimum(family.summaries(theta), most), *ends)
    return {name: Estimate(*map(float, each)) for name, *each in zip(NAMES, value, *ends, strict=True)}


def _largest(divergence: Divergence) -> Array:
    """The largest value of each summary: the area of equal distributions, and the costs of disjoint supports."""
    p, q = np.split(bin_terms(divergence, np.array([1.0, 0.0]), np.array([0.0, 1.0])).sum(axis=0), 2)
    apart = Frontier(exact_nodes(), p, q, exact=True)
    return np.array([1.0, float(integral(apart)), float(midpoint(apart))])


def _mean_curve(bins: Sequence[UnitBins], masses: Sequence[CountMasses], divergence: Divergence) -> Array:
    """The costs of all partitions at all nodes, (2·points,)."""
    total = np.zeros(2 * len(exact_nodes()))
    for one, how in zip(bins, masses, strict=True):
        pairs, times = np.unique(np.stack([one.p, one.q]), axis=1, return_counts=True)
        total += times @ bin_terms(divergence, how.p(pairs[0]), how.q(pairs[1]))
    return total / len(bins)


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Where both are 0 the ratio is 0."""
    ratio: Array = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
    return ratio
