"""The units in the bins of a partition, and what the costs would be with a unit less or one more like it.

A cost is a sum over bins of terms t(p, q) that depend on nothing but the two counts of the bin, so that leaving a unit out
changes the bins that it has samples in and no others. Units are few kinds in a bin (one sample of the reference, one of the
model, one of each), and bins with equal counts are equal: the terms of a few hundred pairs of counts are all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mallow.evidence._units import Units
from mallow.theory import Array, Divergence, Masses, Partition, frontier

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


def order_units(partitions: Sequence[Partition], units: Units) -> Units:
    """The units in an order that depends on the bins of their samples alone, so that sums over units have the same bits.

    Units that have equally many samples of each side in all bins are interchangeable. Those without samples are left out.
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
    return Units(tuple(rank[one] for one in units.sets[:2]), units.keys[order])


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
    """How counts become masses: (count + constant)·factor on each side."""

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
    """The line through the masses of these bins and their counts: exact where a constant was added to all counts.

    Other smoothings are lines but for the smallest counts. Masses that are not those of the same bins are taken as the
    add-1/2 estimate. The constant is at least `least`.
    """
    if not masses.plain or masses.p.shape != bins.p.shape:
        return add_to_counts(bins, 0.5)
    return CountMasses(*_fit_line(bins.p, masses.p, least), *_fit_line(bins.q, masses.q, least))


def _fit_line(counts: Counts, masses: Array, least: float) -> tuple[float, float]:
    """The constant and the factor of (count + constant)·factor by least squares; these masses sum to 1 as well."""
    spread = counts - counts.mean()
    slope = float(spread @ masses)
    # Rounded, so that all partitions have the same constant where one was added: their terms are computed together.
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
        lists = [one for i in members for one in pairs[i]]
        p, q = (np.concatenate([one[side] for one in lists]) for side in (0, 1))
        width = int(q.max(initial=0)) + 1
        codes, place = np.unique(p * width + q, return_inverse=True)
        p, q = np.divmod(codes, width)
        values = bin_terms(divergence, *line(p, q)) @ slopes
        parts = np.split(values[place], np.cumsum([len(one[0]) for one in lists])[:-1])
        for i in members:
            terms[i], parts = parts[: len(pairs[i])], parts[len(pairs[i]) :]
    return terms


@lru_cache(maxsize=1)
def exact_nodes() -> Array:
    """The λ of an exact frontier; they are symmetric, so that reversed they are 1 − λ."""
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
