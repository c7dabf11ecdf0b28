"""Errors of summaries of bins, unit by unit, in closed form: their variance, and a jackknife for their bias.

**Variance.** A summary is T = Σ_bins t(p, q), up to slopes. What one unit adds to it, ψ_u, comes from differences of terms,
averaged over all partitions, and Σ ψ_u² estimates the variance V of T from whatever shares a unit: pairs, groups, duplicates.
Near identity T is a quadratic form of the noise, T = Σ z² with z ~ N(μ, 1) for each bin. Its variance is 4Σμ² + 2·bins, and
4Σz² = Σ ψ² is too large by twice the second part. That part is known: it is ½ Σ_uv K(u, v)² for the kernel K of the
quadratic form, in which two units meet where they share a bin. So V = max(V₁ − V₂, V₂) with V₁ = Σ ψ² and V₂ = ½ Σ K².

**Bias.** Let f(x) be the expected summary when each unit is kept with probability 1/x (counts divided by what they lost). The
value behind the samples is f(0), and the derivatives at 1 are differences: with D the change of T by leaving out one unit,
summed over units, and D₂ the same for two units, f(0) = f(1) − f′(1) + ½f″(1) − … = D + ½D₂ + … (the terms are homogeneous, so
f(1) cancels). The first is the jackknife; both agree with ten samples in a bin, and with two the truth lies
between them. Terms for the change of totals (n and m are known) are taken off: one degree of freedom.

Neither a quadratic form nor the expansion of f exists where the divergence has a corner at equal masses (total variation):
there V = V₁, and there is no jackknife.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.evidence._unit_bins import CountMasses, Counts, Pairs, UnitBins, bin_terms, look_up_terms
from mallow.theory import Array, Divergence

_MOST_KINDS = 40  # chosen: bins with more kinds of units are full, and the second order of their bias is negligible


@dataclass(frozen=True, eq=False)
class BinErrors:
    """The errors of summaries, which are sums of slopes times costs.

    Attributes
    ----------
    variance : array (summaries,)
        V of the mean over partitions.
    linear : array (summaries,)
        V₁ of the mean over partitions. A sum of squares has a variance that grows with it, by V₁ from 0 to what it is.
    each_variance : array (partitions, summaries)
        In each partition.
    first, second : array (summaries,)
        The sums by a jackknife of first and of second order, means over partitions.
    """

    variance: Array
    linear: Array
    each_variance: Array
    first: Array
    second: Array


def find_bin_errors(
    bins: Sequence[UnitBins], masses: Sequence[CountMasses], divergence: Divergence, slopes: Array
) -> BinErrors:
    """The errors of summaries with these slopes by the costs, (2·points, summaries).

    No unit has all samples of a side.
    """
    kind_pairs = [_find_kind_pairs(one) for one in bins]
    pairs = [_list_pairs(one, *both[:2]) for one, both in zip(bins, kind_pairs, strict=True)]
    terms = [_Terms(*parts) for parts in look_up_terms(divergence, masses, pairs, slopes)]
    parts = [_find_influence(one, of_one) for one, of_one in zip(bins, terms, strict=True)]
    influence = np.array([part[0] for part in parts])  # (partitions, units, summaries), centred
    units = influence.shape[1]
    spread = units / (units - 1.0)
    shared = _pair_variances(bins, [part[1] for part in parts], units)
    if has_corner(divergence):
        shared[:] = 0.0
    orders = np.array([_jackknife(*each) for each in zip(bins, terms, kind_pairs, strict=True)])
    totals = _change_of_totals(bins[0], divergence) @ slopes
    first, second = orders.mean(axis=0) + totals
    linear = spread * (influence.mean(axis=0) ** 2).sum(axis=0)
    return BinErrors(
        variance=_variance(linear, shared.mean(axis=(0, 1))),
        linear=linear,
        each_variance=_variance(spread * (influence**2).sum(axis=1), np.diagonal(shared).T),
        first=first,
        second=second,
    )


def has_corner(divergence: Divergence) -> bool:
    """Whether the divergence falls like the gap, not like its square, as two masses become equal."""
    near, nearer = (
        float(divergence.terms(np.array([1.0 + gap, 1.0 - gap]), np.array([1.0 - gap, 1.0 + gap])).sum())
        for gap in (1e-2, 1e-3)
    )
    return nearer > 0.03 * near  # a hundredth for a square, a tenth for a corner


def _variance(first: Array, second: Array) -> Array:
    """V from V₁ and V₂."""
    total: Array = np.maximum(first - second, second)
    return total


@dataclass(frozen=True, eq=False)
class _Terms:
    """The terms of bins (bins, summaries) and of kinds of units in them, as they are and with samples more or less."""

    whole: Array
    more: Array  # of the bin of each kind, with one more such unit
    less: Array
    both: Array  # of the bin of each pair of kinds, without both
    p_more: Array  # of each bin with samples of P, with one more of them
    p_less: Array
    q_more: Array
    q_less: Array


def _list_pairs(bins: UnitBins, one: Counts, other: Counts) -> list[Pairs]:
    """The pairs of counts whose terms are needed, in the order of `_Terms`."""
    p, q = bins.p[bins.kind_bin], bins.q[bins.kind_bin]
    less = p - bins.kind_p, q - bins.kind_q
    has_p, has_q = bins.p > 0, bins.q > 0
    return [
        (bins.p, bins.q),
        (p + bins.kind_p, q + bins.kind_q),
        less,
        (less[0][one] - bins.kind_p[other], less[1][one] - bins.kind_q[other]),
        (bins.p[has_p] + 1, bins.q[has_p]),
        (bins.p[has_p] - 1, bins.q[has_p]),
        (bins.p[has_q], bins.q[has_q] + 1),
        (bins.p[has_q], bins.q[has_q] - 1),
    ]


def _find_influence(bins: UnitBins, terms: _Terms) -> tuple[Array, Array]:
    """What each unit adds to the summaries, centred, (units, summaries); and the bias of each bin, (bins, summaries)."""
    change = (terms.more - terms.less) / 2.0
    of_p = bins.p[bins.p > 0] @ (terms.p_more - terms.p_less) / (2.0 * bins.p.sum())  # of one sample more, on average
    of_q = bins.q[bins.q > 0] @ (terms.q_more - terms.q_less) / (2.0 * bins.q.sum())
    influence = _sums(bins.unit, change[bins.kind], len(bins.p_size))
    influence -= np.outer(bins.p_size, of_p) + np.outer(bins.q_size, of_q)
    curvature = bins.kind_units[:, None] * (terms.more - 2.0 * terms.whole[bins.kind_bin] + terms.less) / 2.0
    return influence - influence.mean(axis=0), _sums(bins.kind_bin, curvature, len(bins.p))


def _pair_variances(bins: Sequence[UnitBins], bias: Sequence[Array], units: int) -> Array:
    """½ Σ_uv K_r(u, v) K_s(u, v) for all partitions r and s, (partitions, partitions, summaries).

    K(u, v) is Σ h·y_u·y_v over the bins that two units share: y is how far a unit moves the ratio of the bin, and the
    curvature h makes ½ Σ_u K(u, u) the bias of the bin.
    """
    moves, heights = [], []
    for one, of_bin in zip(bins, bias, strict=True):
        move = one.kind_p / (one.p[one.kind_bin] + 0.5) - one.kind_q / (one.q[one.kind_bin] + 0.5)
        total = np.bincount(one.kind_bin, one.kind_units * move**2, len(one.p))
        still = total < 1e-12  # bins in which every unit has both sides in the proportion of the bin
        heights.append(np.where(still[:, None], 0.0, 2.0 * of_bin / np.where(still, 1.0, total)[:, None]))
        shape = (units, len(one.p))
        moves.append(sparse.csr_array((move[one.kind], (one.unit, one.kind_bin[one.kind])), shape=shape))
    count = len(bins)
    variances = np.empty((count, count, bias[0].shape[1]))
    for r in range(count):
        for s in range(r, count):
            shared = moves[r].T @ moves[s]  # (bins, bins)
            shared.data **= 2
            variances[r, s] = variances[s, r] = (heights[r] * (shared @ heights[s])).sum(axis=0) / 2.0
    return variances


def _jackknife(bins: UnitBins, terms: _Terms, kind_pairs: tuple[Counts, Counts, Array]) -> tuple[Array, Array]:
    """D and D + ½D₂ of one partition, (summaries,) each, before the change of totals."""
    one, other, times = kind_pairs
    own = terms.whole[bins.kind_bin]
    first = bins.kind_units @ (own - terms.less)
    second = times @ (own[one] - terms.less[one] - terms.less[other] + terms.both)
    return first, first + second / 2.0


def _change_of_totals(bins: UnitBins, divergence: Divergence) -> Array:
    """Σ_u t(1 − p_u/n, 1 − q_u/m), (2·points,): what leaving out units takes from the totals, which are known."""
    sizes, alike = np.unique(np.stack([bins.p_size, bins.q_size], axis=1), axis=0, return_counts=True)
    left = 1.0 - sizes / sizes.T.dot(alike)
    total: Array = alike @ bin_terms(divergence, left[:, 0], left[:, 1])
    return total


def _find_kind_pairs(bins: UnitBins) -> tuple[Counts, Counts, Array]:
    """All ordered pairs of kinds in the same bin, and how many pairs of different units each stands for."""
    kinds = np.bincount(bins.kind_bin, minlength=len(bins.p))[bins.kind_bin]  # in the bin of each kind
    start = np.searchsorted(bins.kind_bin, bins.kind_bin)  # kinds are in order of bins
    kinds = np.where(kinds > _MOST_KINDS, 0, kinds)
    one = np.repeat(np.arange(len(kinds)), kinds)
    other = np.repeat(start - np.cumsum(kinds) + kinds, kinds) + np.arange(len(one))
    times = bins.kind_units[one] * (bins.kind_units[other] - (one == other))
    some = times > 0
    return one[some], other[some], times[some].astype(np.float64)


def _sums(place: NDArray[np.int64], values: Array, size: int) -> Array:
    """The sums of the rows of `values` that go to the same place, (size, columns)."""
    return np.stack([np.bincount(place, column, size) for column in values.T], axis=1)
