"""The units in the bins of a partition, and what the costs would be with a unit less or one more like it.

A cost is a sum over bins of terms t(p, q) that depend on nothing but the two counts of the bin, so that leaving a unit out
changes the bins that it has samples in and no others. Units are few kinds in a bin (one sample of the reference, one of the
model, one of each), and bins with equal counts are equal: the terms of a few hundred pairs of counts are all that is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mallow.inference._units import Units
from mallow.theory import Array, Divergence, Masses, Partition, compute_frontier

__all__ = [
    "CountMasses",
    "MassOfCount",
    "UnitBins",
    "add_to_counts",
    "bin_terms",
    "exact_nodes",
    "find_unit_bins",
    "look_up_terms",
    "masses_by_count",
]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitBins:
    """The samples of each unit in each bin of one partition.

    A cell is a unit in a bin. Cells of the same bin with equally many samples of each side are of one kind.

    Attributes
    ----------
    p, q : int64 array (bins,)
        The samples of each side in each bin.
    p_size, q_size : int64 array (units,)
        The samples of each side in each unit.
    unit, kind : int64 array (cells,)
    kind_bin, kind_p, kind_q, kind_units : int64 array (kinds,)
        The bin, the samples of each side that one such unit has in the bin, and the number of such units.
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
class MassOfCount:
    """The mass of a bin as a function of its count: linear between the counts that are known, and beyond them."""

    counts: tuple[int, ...]  # rising, at least two
    masses: tuple[float, ...]

    def __call__(self, counts: Counts) -> Array:
        known, mass = np.array(self.counts), np.array(self.masses)
        place = np.clip(np.searchsorted(known, counts), 1, len(known) - 1)
        slope = np.diff(mass) / np.diff(known)
        between: Array = mass[place - 1] + (counts - known[place - 1]) * slope[place - 1]
        return np.maximum(between, 0.0)


@dataclass(frozen=True)
class CountMasses:
    """How the counts of both sides become masses."""

    p: MassOfCount
    q: MassOfCount


def add_to_counts(bins: UnitBins, constant: float) -> CountMasses:
    """(count + constant)/(samples + constant·bins)."""

    def side(counts: Counts) -> MassOfCount:
        total = float(counts.sum()) + constant * len(counts)
        return MassOfCount((0, 1), (constant / total, (1.0 + constant) / total))

    return CountMasses(side(bins.p), side(bins.q))


def masses_by_count(bins: UnitBins, smooth: Callable[[Array, Array], Masses]) -> CountMasses:
    """The masses that a smoothing gives to these bins, as functions of their counts.

    That is exact where a constant is added to all counts. A smoothing that does not end in masses of the same bins is taken
    as the add-1/2 estimate.
    """
    smoothed = smooth(bins.p.astype(np.float64), bins.q.astype(np.float64))
    if not smoothed.plain or smoothed.p.shape != bins.p.shape:
        return add_to_counts(bins, 0.5)
    return CountMasses(_tabulate(bins.p, smoothed.p), _tabulate(bins.q, smoothed.q))


def _tabulate(counts: Counts, masses: Array) -> MassOfCount:
    known, first = np.unique(counts, return_index=True)
    mass = masses[first]
    if len(known) == 1:
        known, mass = np.array([0, known[0]]), np.array([0.0, mass[0]])
    slope = (mass[-1] - mass[0]) / (known[-1] - known[0])
    constant = round(float(mass[0] / slope - known[0]), 9) if slope > 0 else -1.0
    total = float(counts.sum()) + constant * len(counts)
    if constant >= 0 and np.allclose(mass * total, known + constant, rtol=1e-9, atol=0):
        # The same for all partitions, whatever counts occur: their terms are computed together.
        return MassOfCount((0, 1), (constant / total, (1.0 + constant) / total))
    return MassOfCount(tuple(map(int, known)), tuple(map(float, mass)))


Pairs = tuple[Counts, Counts]


def look_up_terms(
    divergence: Divergence, masses: Sequence[CountMasses], pairs: Sequence[Sequence[Pairs]], slopes: Array
) -> list[list[Array]]:
    """The terms Σ_λ slope·t of each pair of counts, (pairs, summaries), for several lists of pairs in each partition.

    Partitions with the same masses share their terms, and each pair of counts is evaluated once.
    """
    found: list[list[Array]] = [[] for _ in pairs]
    for how in dict.fromkeys(masses):
        members = [i for i, other in enumerate(masses) if other == how]
        lists = [one for i in members for one in pairs[i]]
        p, q = (np.concatenate([one[side] for one in lists]) for side in (0, 1))
        width = int(q.max(initial=0)) + 1
        codes, place = np.unique(p * width + q, return_inverse=True)
        p, q = np.divmod(codes, width)
        values = bin_terms(divergence, how.p(p), how.q(q)) @ slopes
        parts = np.split(values[place], np.cumsum([len(one[0]) for one in lists])[:-1])
        for i in members:
            found[i], parts = parts[: len(pairs[i])], parts[len(pairs[i]) :]
    return found


@lru_cache(maxsize=1)
def exact_nodes() -> Array:
    """The λ of an exact frontier; they are symmetric, so that reversed they are 1 − λ."""
    nodes = compute_frontier(Masses.from_histograms([1.0], [1.0])).lam
    nodes.setflags(write=False)
    return nodes


def bin_terms(divergence: Divergence, p: Array, q: Array) -> Array:
    """The terms of D_f(P‖R_λ) and then of D_f(Q‖R_λ) at all nodes, (atoms, 2·points), of atoms with masses p and q."""
    lam = exact_nodes()
    rest = lam[::-1]
    p, q = p[:, None], q[:, None]
    mix = lam * p + rest * q
    return np.concatenate([divergence.terms(p, mix, rest * (p - q)), divergence.terms(q, mix, lam * (q - p))], axis=1)
