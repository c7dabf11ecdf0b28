"""Errors of summaries of bins, unit by unit, in closed form: their variance, and a jackknife for their bias.

**Variance.** A summary is T = Σ_bins t(p, q), up to slopes. The part of one unit in it, ψ_u, comes from differences of
terms, averaged over all partitions. Σ ψ_u² estimates the variance V of T, including the effect of pairs, groups and
duplicates, which share a unit. Near identity T is a quadratic form of the noise, T = Σ z² with z ~ N(μ, 1) for each
bin. Its variance is 4Σμ² + 2·bins, and 4Σz² = Σ ψ² is too large by twice the second part. That part is known: it is ½
Σ_uv K(u, v)² for the kernel K of the quadratic form, which is nonzero only for units that share a bin. So V = max(V₁ −
V₂, V₂) with V₁ = Σ ψ² and V₂ = ½ Σ K².

**Bias.** Let f(x) be the expected summary when each unit is kept with probability 1/x (with counts scaled back). The
value with unlimited samples is f(0), and the derivatives at 1 are differences: with D the change of T by leaving out
one unit, summed over units, and D₂ the same for two units, f(0) = f(1) − f′(1) + ½f″(1) − … = D + ½D₂ + … (the terms
are homogeneous, so f(1) cancels). The first is the jackknife. Both agree with ten samples in a bin, and with two
samples the truth lies between them. Terms for the change of totals (n and m are known) are subtracted, which is one
degree of freedom.

Neither a quadratic form nor the expansion of f exists if the divergence has a corner at equal masses (total variation).
Then V = V₁, and there is no jackknife.

The code needs the units in the bins of a partition, and the costs with one unit less or one more of the same kind.

A cost is a sum over bins of terms t(p, q) that depend only on the two counts of the bin, so leaving out a unit only
changes the bins of its samples. A bin has few kinds of units (one sample of the reference, one of the model, one of
each), and bins with equal counts have equal terms. The terms of a few hundred pairs of counts are therefore enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.evidence._units import Units
from mallow.theory import Array, Divergence, Masses, Partition, frontier

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitBins:
    """The samples of each unit in each bin of one partition.

    A cell is a unit in a bin. Cells of the same bin with the same numbers of samples of each side are of one kind.

    Attributes
    ----------
    p, q : int64 array (bins,)
        The numbers of samples of each side in each bin.
    p_size, q_size : int64 array (units,)
        The numbers of samples of each side in each unit.
    unit, kind : int64 array (cells,)
    kind_bin, kind_p, kind_q, kind_units : int64 array (kinds,)
        The bin, the numbers of samples of each side of one such unit in the bin, and the number of such units.
    """

    p: Counts
    q: Counts
    p_size: Counts
    q_size: Counts
    unit: Counts
    kind: Counts
    kind_bin: Counts
    kind_p: Counts
    kind_q: Counts
    kind_units: Counts


def order_units(partitions: Sequence[Partition], units: Units) -> Units:
    """The units in an order that depends only on the bins of their samples, so that sums over units are bit-equal.

    Units with the same numbers of samples of each side in all bins are interchangeable. Units without samples are left
    out.
    """
    signature = np.zeros(units.count, np.uint64)
    factors = np.random.default_rng(0x756E697473).integers(
        2**64, size=len(partitions) + 2, dtype=np.uint64
    ) | np.uint64(1)
    for side in (0, 1):
        code = np.full(len(units.sets[side]), factors[side], np.uint64)
        for partition, factor in zip(partitions, factors[2:], strict=True):
            code += (partition.q_labels if side else partition.p_labels).astype(np.uint64) * factor
        code ^= code >> np.uint64(32)
        code *= factors[side]
        code ^= code >> np.uint64(29)
        np.add.at(signature, units.sets[side], code)
    occupied = np.flatnonzero(units.sizes(0) + units.sizes(1))
    order = occupied[np.argsort(signature[occupied], kind="stable")]
    rank = np.zeros(units.count, np.int64)
    rank[order] = np.arange(len(order))
    return Units(tuple(rank[numbers] for numbers in units.sets[:2]), units.keys[order])


def find_unit_bins(partition: Partition, units: Units) -> UnitBins:
    """The units of the reference (set 0) and the model (set 1) in the bins of a partition."""
    bins, n = partition.bins, len(partition.p_labels)
    places = np.concatenate([units.sets[0] * bins + partition.p_labels, units.sets[1] * bins + partition.q_labels])
    cells, cell = np.unique(places, return_inverse=True)
    p, q = (np.bincount(side, minlength=len(cells)) for side in (cell[:n], cell[n:]))
    unit, in_bin = np.divmod(cells, bins)
    most_q = q.max() + 1
    code = (in_bin * (p.max() + 1) + p) * most_q + q
    _, first, kind, kind_units = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    return UnitBins(
        p=partition.p_counts.astype(np.int64),
        q=partition.q_counts.astype(np.int64),
        p_size=units.sizes(0),
        q_size=units.sizes(1),
        unit=unit,
        kind=kind,
        kind_bin=in_bin[first],
        kind_p=p[first],
        kind_q=q[first],
        kind_units=kind_units,
    )


@dataclass(frozen=True)
class CountMasses:
    """The map from counts to masses: (count + constant)·factor on each side."""

    p_constant: float
    p_factor: float
    q_constant: float
    q_factor: float

    def __call__(self, p: Counts, q: Counts) -> tuple[Array, Array]:
        """The masses of bins with these counts, at least 0."""
        return (
            np.maximum(p + self.p_constant, 0.0) * self.p_factor,
            np.maximum(q + self.q_constant, 0.0) * self.q_factor,
        )


def add_to_counts(bins: UnitBins, constant: float) -> CountMasses:
    """(count + constant)/(samples + constant·bins)."""
    p, q = (1.0 / (float(counts.sum()) + constant * len(counts)) for counts in (bins.p, bins.q))
    return CountMasses(constant, p, constant, q)


def masses_by_count(bins: UnitBins, masses: Masses, least: float = -np.inf) -> CountMasses:
    """The line through the masses of these bins and their counts, which is exact if a constant was added to all counts.

    Other smoothings are lines except for the smallest counts. If masses do not belong to the same bins, the add-1/2
    estimate is used. The constant is at least `least`.
    """
    if not masses.plain or masses.p.shape != bins.p.shape:
        return add_to_counts(bins, 0.5)
    return CountMasses(*_fit_line(bins.p, masses.p, least), *_fit_line(bins.q, masses.q, least))


def _fit_line(counts: Counts, masses: Array, least: float) -> tuple[float, float]:
    """The constant and the factor of (count + constant)·factor by least squares. These masses sum to 1 as well."""
    spread = counts - counts.mean()
    slope = float(spread @ masses)
    # Rounded, so that all partitions have the same constant if one was added, and share the computation of terms.
    constant = round(float(masses.mean() * (spread @ spread) / slope - counts.mean()), 9) if slope > 0 else 0.5
    constant = max(constant, least)
    return constant, 1.0 / (float(counts.sum()) + constant * len(counts))


Pairs = tuple[Counts, Counts]


def look_up_terms(
    divergence: Divergence, masses: Sequence[CountMasses], pairs: Sequence[Sequence[Pairs]], slopes: Array
) -> list[list[Array]]:
    """The terms Σ_λ slope·t of each pair of counts, (pairs, summaries), for several lists of pairs in each partition.

    Partitions with the same masses share their terms, and each pair of counts is evaluated once.
    """
    terms: list[list[Array]] = [[] for _ in pairs]
    for line in dict.fromkeys(masses):
        members = [i for i, other in enumerate(masses) if other == line]
        lists = [listed for i in members for listed in pairs[i]]
        p, q = (np.concatenate([listed[side] for listed in lists]) for side in (0, 1))
        width = int(q.max(initial=0)) + 1
        codes, inverse = np.unique(p * width + q, return_inverse=True)
        p, q = np.divmod(codes, width)
        values = bin_terms(divergence, *line(p, q)) @ slopes
        parts = np.split(values[inverse], np.cumsum([len(listed[0]) for listed in lists])[:-1])
        for i in members:
            terms[i], parts = parts[: len(pairs[i])], parts[len(pairs[i]) :]
    return terms


@lru_cache(maxsize=1)
def exact_nodes() -> Array:
    """The λ of an exact frontier. They are symmetric, so in reverse order they are 1 − λ."""
    nodes = frontier.quiet(Masses.from_histograms([1.0], [1.0])).lam
    nodes.setflags(write=False)
    return nodes


def bin_terms(divergence: Divergence, p: Array, q: Array) -> Array:
    """The terms of D_f(P‖R_λ) and then of D_f(Q‖R_λ) at all nodes, (atoms, 2·points), of atoms with masses p and q."""
    lam = exact_nodes()
    rest = lam[::-1]
    p, q = p[:, None], q[:, None]
    mix = lam * p + rest * q
    return np.concatenate([divergence.terms(p, mix, rest * (p - q)), divergence.terms(q, mix, lam * (q - p))], axis=1)


_MOST_KINDS = 40  # chosen: bins with more kinds of units have many samples, so the second order of bias is negligible


@dataclass(frozen=True, eq=False)
class BinErrors:
    """The errors of summaries, which are sums of slopes times costs.

    Attributes
    ----------
    variance : array (summaries,)
        V for the mean over partitions.
    linear : array (summaries,)
        V₁ for the mean over partitions. The variance of a sum of squares grows with the sum, by V₁ from 0 to its value.
    each_variance : array (partitions, summaries)
        V for each partition.
    first, second : array (summaries,)
        The sums by a jackknife of first and second order, averaged over partitions.
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

    No unit may have all samples of a side.
    """
    kind_pairs = [_find_kind_pairs(of_bins) for of_bins in bins]
    pairs = [_list_pairs(of_bins, *both[:2]) for of_bins, both in zip(bins, kind_pairs, strict=True)]
    terms = [_Terms(*parts) for parts in look_up_terms(divergence, masses, pairs, slopes)]
    parts = [_find_influence(of_bins, of_pairs) for of_bins, of_pairs in zip(bins, terms, strict=True)]
    influence = np.array([part[0] for part in parts])  # (partitions, units, summaries), centred
    units = influence.shape[1]
    spread = units / (units - 1.0)
    shared = _pair_variances(bins, [part[1] for part in parts], units)
    if has_corner(divergence):
        shared[:] = 0.0
    orders = np.array([_jackknife(*arguments) for arguments in zip(bins, terms, kind_pairs, strict=True)])
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
    """Whether the divergence falls like the gap, instead of its square, as two masses become equal."""
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
    """The terms of bins (bins, summaries) and of kinds of units in them, unchanged and with samples more or less."""

    whole: Array
    more: Array  # of the bin of each kind, with one more such unit
    less: Array
    both: Array  # of the bin of each pair of kinds, without both
    p_more: Array  # of each bin with samples of P, with one more of them
    p_less: Array
    q_more: Array
    q_less: Array


def _list_pairs(bins: UnitBins, first: Counts, other: Counts) -> list[Pairs]:
    """The pairs of counts whose terms are needed, in the order of `_Terms`."""
    p, q = bins.p[bins.kind_bin], bins.q[bins.kind_bin]
    less = p - bins.kind_p, q - bins.kind_q
    has_p, has_q = bins.p > 0, bins.q > 0
    return [
        (bins.p, bins.q),
        (p + bins.kind_p, q + bins.kind_q),
        less,
        (less[0][first] - bins.kind_p[other], less[1][first] - bins.kind_q[other]),
        (bins.p[has_p] + 1, bins.q[has_p]),
        (bins.p[has_p] - 1, bins.q[has_p]),
        (bins.p[has_q], bins.q[has_q] + 1),
        (bins.p[has_q], bins.q[has_q] - 1),
    ]


def _find_influence(bins: UnitBins, terms: _Terms) -> tuple[Array, Array]:
    """The part of each unit in the summaries, centred, (units, summaries).

    It also returns the bias of each bin, (bins, summaries).
    """
    change = (terms.more - terms.less) / 2.0
    of_p = bins.p[bins.p > 0] @ (terms.p_more - terms.p_less) / (2.0 * bins.p.sum())  # of one more sample, on average
    of_q = bins.q[bins.q > 0] @ (terms.q_more - terms.q_less) / (2.0 * bins.q.sum())
    influence = _sums(bins.unit, change[bins.kind], len(bins.p_size))
    influence -= np.outer(bins.p_size, of_p) + np.outer(bins.q_size, of_q)
    curvature = bins.kind_units[:, None] * (terms.more - 2.0 * terms.whole[bins.kind_bin] + terms.less) / 2.0
    return influence - influence.mean(axis=0), _sums(bins.kind_bin, curvature, len(bins.p))


def _pair_variances(bins: Sequence[UnitBins], bias: Sequence[Array], units: int) -> Array:
    """½ Σ_uv K_r(u, v) K_s(u, v) for all partitions r and s, (partitions, partitions, summaries).

    K(u, v) is Σ h·y_u·y_v over the bins that two units share. Here y is how far a unit moves the ratio of the bin, and
    the curvature h makes ½ Σ_u K(u, u) the bias of the bin.
    """
    moves, heights = [], []
    for of_unit, of_bin in zip(bins, bias, strict=True):
        move = of_unit.kind_p / (of_unit.p[of_unit.kind_bin] + 0.5) - of_unit.kind_q / (
            of_unit.q[of_unit.kind_bin] + 0.5
        )
        total = np.bincount(of_unit.kind_bin, of_unit.kind_units * move**2, len(of_unit.p))
        still = total < 1e-12  # bins in which every unit has both sides in the proportion of the bin
        heights.append(np.where(still[:, None], 0.0, 2.0 * of_bin / np.where(still, 1.0, total)[:, None]))
        shape = (units, len(of_unit.p))
        moves.append(
            sparse.csr_array((move[of_unit.kind], (of_unit.unit, of_unit.kind_bin[of_unit.kind])), shape=shape)
        )
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
    kind, other, times = kind_pairs
    whole = terms.whole[bins.kind_bin]
    first = bins.kind_units @ (whole - terms.less)
    second = times @ (whole[kind] - terms.less[kind] - terms.less[other] + terms.both)
    return first, first + second / 2.0


def _change_of_totals(bins: UnitBins, divergence: Divergence) -> Array:
    """Σ_u t(1 − p_u/n, 1 − q_u/m), (2·points,): the effect of leaving out units on the totals, which are known."""
    sizes, alike = np.unique(np.stack([bins.p_size, bins.q_size], axis=1), axis=0, return_counts=True)
    left = 1.0 - sizes / sizes.T.dot(alike)
    total: Array = alike @ bin_terms(divergence, left[:, 0], left[:, 1])
    return total


def _find_kind_pairs(bins: UnitBins) -> tuple[Counts, Counts, Array]:
    """All ordered pairs of kinds in the same bin, and the number of pairs of different units for each."""
    kinds = np.bincount(bins.kind_bin, minlength=len(bins.p))[bins.kind_bin]  # in the bin of each kind
    start = np.searchsorted(bins.kind_bin, bins.kind_bin)  # kinds are in order of bins
    kinds = np.where(kinds > _MOST_KINDS, 0, kinds)
    kind = np.repeat(np.arange(len(kinds)), kinds)
    other = np.repeat(start - np.cumsum(kinds) + kinds, kinds) + np.arange(len(kind))
    times = bins.kind_units[kind] * (bins.kind_units[other] - (kind == other))
    some = times > 0
    return kind[some], other[some], times[some].astype(np.float64)


def _sums(index: NDArray[np.int64], values: Array, size: int) -> Array:
    """The sums of the rows of `values` that go to the same place, (size, columns)."""
    return np.stack([np.bincount(index, column, size) for column in values.T], axis=1)
