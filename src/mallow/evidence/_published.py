"""Intervals for the published score of bins: for repeat samples, and for the value with unlimited samples.

Both move along curves θ·C, the scaled frontier C of the samples: θ = 1 is the observed curve, and θ = 0 is identity. A
summary of the bins is nearly linear in θ, whatever its own scale, and its range ends where the range of θ ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mallow.engine import single_threaded_blas
from mallow.evidence._certificate import NAMES, summary_slopes
from mallow.evidence._evidence import NORMAL
from mallow.evidence._jackknife import (
    CountMasses,
    UnitBins,
    add_to_counts,
    bin_terms,
    exact_nodes,
    find_bin_errors,
    find_unit_bins,
    has_corner,
    masses_by_count,
    order_units,
)
from mallow.evidence._units import Units
from mallow.results import Estimate
from mallow.theory import Array, Divergence, Frontier, Masses, Partition, area, integral, midpoint

_FAINT = 1e-3  # chosen: the size of the curve that is used if both histograms are equal; any small value works
# Tuned on family 1 of experiments/honesty/intervals.py and confirmed on family 2 (intervals.md there). "Sparsity" is
# bins per unit of the smaller side, up to 2:
_DRAW_WIDTH, _DRAW_SPARSE = 1.06, 0.2  # factor on the standard error of the score: first + second · sparsity
_TRUTH_WIDTH, _TRUTH_SPARSE = 1.1, 0.8  # the same for the bias-corrected value, which is noisier
_BELOW, _ABOVE = 1.3, 0.6  # possible change by higher orders of the jackknife, in multiples of the second's

Smooth = Callable[[Array, Array], Masses]


@dataclass(frozen=True, eq=False)
class _Family:
    """The curves θ·C, with the slopes of the three summaries by the costs at C."""

    curve: Array  # (2·points,), the costs of P at all λ first
    seen: float  # the θ of the samples: 1, or 0 if both histograms are equal and C is a substitute
    slopes: Array  # (2·points, 3)
    per_theta: Array  # (3,): the change of a summary with θ, to first order, without its sign
    scale: float

    def theta(self, sums: Array) -> Array:
        """The θ that correspond to sums of slopes times costs, (3,)."""
        return _ratio(np.sign(self.slopes.T @ self.curve) * sums, self.per_theta)

    def summaries(self, theta: Array) -> Array:
        """Each summary at its own θ, (3,); a negative θ counts as 0."""
        costs = np.maximum(theta, 0.0)[:, None] * self.curve
        p, q = np.split(costs, 2, axis=1)
        at = Frontier(exact_nodes(), p, q, exact=True)
        values: Array = np.array([area(at, scale=self.scale), integral(at), midpoint(at)])  # (summaries, thetas)
        return np.diagonal(values).copy()


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
    """The ranges, around the mean of `values`, of the summaries of 95% of repeat samples with this many units.

    A repeat sample has its own noise, so the interval is √2 times as wide as a confidence interval of the expected
    value. The noise comes from units, in all partitions, and from the clustering (unknown and left out with one
    partition). If masses jump with the counts, as in Good–Turing smoothing, the interval is too narrow near identity
    (70 to 90% of repeat samples).

    Parameters
    ----------
    partitions : sequence of Partition
        One for each repeat.
    units : Units
        The units of the reference (set 0) and of the model (set 1). With a single unit on a side the noise is unknown,
        and the intervals are the whole range.
    values : dict
        Each summary in every repeat.
    smooth : callable
        Counts of both sides → `Masses`, as in the measure.
    """
    printed = np.array([np.mean(values[name]) for name in NAMES])
    least, most = _range(divergence, scale)
    units = order_units(partitions, units)
    if _fewest_units(units) < 2:
        return _by_name(np.minimum(least, printed), np.maximum(most, printed))
    bins = [find_unit_bins(partition, units) for partition in partitions]
    smoothed = [smooth(of_bins.p.astype(np.float64), of_bins.q.astype(np.float64)) for of_bins in bins]
    least_constant = -np.inf if math.isfinite(divergence.at_zero) else 0.5
    masses = [masses_by_count(of_bins, exact, least_constant) for of_bins, exact in zip(bins, smoothed, strict=True)]
    pairs = [
        (exact.p, exact.q) if exact.plain else line(of_bins.p, of_bins.q)
        for of_bins, exact, line in zip(bins, smoothed, masses, strict=True)
    ]
    with single_threaded_blas():
        family = _build_family(_mean_curve(pairs, divergence), scale)
        errors = find_bin_errors(bins, masses, divergence, family.slopes)
        blended = family.theta(_mean_curve(_blend(pairs, units), divergence) @ family.slopes)
    repeats = len(partitions)
    variance = errors.variance
    if repeats > 1:
        # Clusterings differ in their expected values and in their noise. The errors already include the noise.
        differences = np.array([values[name] for name in NAMES]).var(axis=1, ddof=1) / repeats
        noise = (errors.each_variance.mean(axis=0) - errors.variance) / (repeats - 1)
        variance = variance + np.maximum(differences - noise, 0.0)
    factor = _DRAW_WIDTH + _DRAW_SPARSE * _sparsity(bins, units)
    reach = NORMAL * factor * _ratio(np.sqrt(2.0 * variance), family.per_theta)
    # The variance grows with θ, by `growth`. On the scale on which it is constant, both arms are equal.
    growth = factor**2 * _ratio(errors.linear, family.per_theta**2)
    shift = NORMAL**2 * growth / 2.0
    low, high = np.minimum(family.seen + shift - reach, blended), family.seen + shift + reach
    ends = np.array([family.summaries(theta) for theta in (low, high)])
    ends += printed - family.summaries(np.full(3, family.seen))
    ends = np.clip(np.sort(ends, axis=0), least, most)
    return _by_name(np.minimum(ends[0], printed), np.maximum(ends[1], printed))


def debiased_estimate(
    partitions: Sequence[Partition], units: Units, *, divergence: Divergence, scale: float
) -> dict[str, Estimate]:
    """The summaries with unlimited samples, in the bins of these partitions, with 95% confidence intervals.

    Bias-corrected by a jackknife that leaves out units, so it accounts for shared prompts and several generations. The
    smoothing of the measure plays no part. If identity cannot be excluded, an interval reaches the end of the range:
    area 1, costs 0.

    Parameters
    ----------
    partitions : sequence of Partition
        One for each repeat. The target is the mean over them.
    units : Units
        The units of the reference (set 0) and of the model (set 1). With a single unit on a side the intervals are the
        whole range.
    """
    least, most = _range(divergence, scale)
    units = order_units(partitions, units)
    bins = [find_unit_bins(partition, units) for partition in partitions]
    with single_threaded_blas():
        # Some divergences, such as reverse KL, forbid an empty bin.
        masses, pairs, curve = _empirical(bins, 0.0 if math.isfinite(divergence.at_zero) else 0.5, divergence)
        family = _build_family(curve, scale)
        if _fewest_units(units) < 2:
            return _as_estimates(np.clip(family.summaries(np.full(3, family.seen)), least, most), least, most)
        errors = find_bin_errors(bins, masses, divergence, family.slopes)
        blended = family.theta(_mean_curve(_blend(pairs, units), divergence) @ family.slopes)
    # In bins with many samples both orders agree. In sparse bins the first subtracts too little, and the second too
    # much.
    first, second = family.theta(errors.first), family.theta(errors.second)
    theta, rest = (first + second) / 2.0, np.abs(first - second)
    factor = _TRUTH_WIDTH + _TRUTH_SPARSE * _sparsity(bins, units)
    variance = factor**2 * _ratio(errors.variance, family.per_theta**2)
    below = np.where(first > second, _BELOW, _ABOVE) * rest
    low = np.minimum(theta - NORMAL * np.sqrt(variance + below**2), blended)
    if has_corner(divergence):  # its bias is unknown, but never negative
        theta, low = np.full(3, family.seen), np.zeros(3)
    # Above: the θ from which the samples are 1.96 of its standard errors away. The variance grows with θ by `growth`.
    growth = factor**2 * _ratio(errors.linear, family.per_theta**2)
    variance = variance + (_ABOVE * rest) ** 2
    high = theta + NORMAL**2 * growth / 2.0 + NORMAL * np.sqrt(variance + NORMAL**2 * growth**2 / 4.0)
    high = np.maximum(high, np.sqrt(variance))
    ends = np.clip(np.sort([family.summaries(end) for end in (low, high)], axis=0), least, most)
    return _as_estimates(np.clip(family.summaries(theta), ends[0], ends[1]), ends[0], ends[1])


def _empirical(
    bins: Sequence[UnitBins], constant: float, divergence: Divergence
) -> tuple[list[CountMasses], list[tuple[Array, Array]], Array]:
    """Masses of counts plus a constant: as functions, in each bin, and the mean of their costs."""
    masses = [add_to_counts(of_bins, constant) for of_bins in bins]
    pairs = [line(of_bins.p, of_bins.q) for of_bins, line in zip(bins, masses, strict=True)]
    return masses, pairs, _mean_curve(pairs, divergence)


def _by_name(low: Array, high: Array) -> dict[str, tuple[float, float]]:
    return {name: (float(x), float(y)) for name, x, y in zip(NAMES, low, high, strict=True)}


def _as_estimates(value: Array, low: Array, high: Array) -> dict[str, Estimate]:
    rows = zip(NAMES, value, low, high, strict=True)
    return {name: Estimate(float(v), float(x), float(y)) for name, v, x, y in rows}


def _range(divergence: Divergence, scale: float) -> tuple[Array, Array]:
    """The smallest and the largest value of each summary, for equal distributions and for disjoint supports."""
    p, q = np.split(bin_terms(divergence, np.array([1.0, 0.0]), np.array([0.0, 1.0])).sum(axis=0), 2)
    apart = Frontier(exact_nodes(), p, q, exact=True)
    least, costs = float(area(apart, scale=scale)), (float(integral(apart)), float(midpoint(apart)))
    return np.array([least, 0.0, 0.0]), np.array([1.0, *costs])


def _mean_curve(pairs: Sequence[tuple[Array, Array]], divergence: Divergence) -> Array:
    """The mean over partitions of the costs at all nodes, (2·points,), from the masses of their bins."""
    total = np.zeros(2 * len(exact_nodes()))
    for p, q in pairs:
        distinct, times = np.unique(np.stack([p, q]), axis=1, return_counts=True)
        total += times @ bin_terms(divergence, distinct[0], distinct[1])
    return total / len(pairs)


def _blend(pairs: Sequence[tuple[Array, Array]], units: Units) -> list[tuple[Array, Array]]:
    """Both sides with the largest share of the other that may be unobserved, with 97.5% confidence.

    This share is 3.7 of n units.

    If the two do not overlap in the samples, nothing else limits how much they may overlap.
    """
    p_share, q_share = (min(0.5, -math.log(0.025) / np.count_nonzero(units.sizes(side))) for side in (0, 1))
    return [((1.0 - p_share) * p + p_share * q, (1.0 - q_share) * q + q_share * p) for p, q in pairs]


def _fewest_units(units: Units) -> int:
    """The number of units with samples of a side, for the side with fewer."""
    return min(int(np.count_nonzero(units.sizes(side))) for side in (0, 1))


def _sparsity(bins: Sequence[UnitBins], units: Units) -> float:
    """Bins per unit of the smaller side, up to 2."""
    return min(2.0, float(np.mean([len(of_bins.p) for of_bins in bins])) / _fewest_units(units))


def _ratio(numerator: Array, denominator: Array) -> Array:
    """If both are 0, the ratio is 0."""
    ratio: Array = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
    return ratio
