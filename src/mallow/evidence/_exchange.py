"""Which samples can change sides if model and reference are one distribution, and random exchanges of them.

Sides can be exchanged within a unit with equal numbers of samples of both sides, between whole units of equal size, and
between single samples within a unit with different numbers of both. Each of these is an atom with a sign. The
difference of the means (reference minus model) is then a constant plus a sum of signs times atoms, so a permutation is
a row of signs.

Atoms can be merged at random into fewer that change sides together. Without a gap the distribution is invariant under
this smaller group of permutations too, so a test stays exact, and it costs less. Rows are in the order of their values.
Random choices must therefore depend on the division of the rows into sides: a fixed choice of ranks would be the same
function of the values in all samples (`generator_of_sides`).

Units without a counterpart of the same size cannot be exchanged. A few of them are left out, and all are if the other
side has no separate units. If there are many (400 texts against 100 prompts with 4 texts each), larger units are cut at
random to a size that both sides have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.evidence._units import Indices
from mallow.theory import Array

_LEFT_OUT = 0.1  # chosen: largest share of the samples of a side in units without counterpart that are left out
_LEAST = 32  # chosen: atoms of a side, pairs or units of one kind below which they are not merged
_PARTNERS = 1024  # chosen: atoms of the larger side that can change sides; more take time and change little

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Exchange:
    """The atoms that can change sides, and random exchanges of them.

    Attributes
    ----------
    atoms : sparse array (atoms + 1, rows)
        The part of each atom in Δ, the difference of the means (reference minus model) of values of the rows. The last
        atom is the constant part: Δ = (signs, 1) @ atoms @ values.
    observed : int8 array (atoms,)
        The observed signs, 1 and −1.
    flips : int64 array
        Atoms that change sign by themselves: units with equal numbers of samples of both sides.
    permuted : tuple of int64 arrays (sets, atoms)
        In each set, the signs of the atoms are permuted.
    """

    atoms: sparse.csr_array
    observed: NDArray[np.int8]
    flips: Indices
    permuted: tuple[Indices, ...]

    def draw(self, permutations: int, rng: np.random.Generator) -> Array:
        """Signs of this many random exchanges, (permutations, atoms + 1). The last column is 1."""
        signs = np.tile(np.append(self.observed, 1).astype(np.float64), (permutations, 1))
        signs[:, self.flips] *= 1.0 - 2.0 * rng.integers(2, size=(permutations, len(self.flips)))
        for members in self.permuted:
            signs[:, members] = rng.permuted(signs[:, members], axis=-1)
        return signs

    def as_observed(self) -> Array:
        """The observed signs, (1, atoms + 1)."""
        return np.append(self.observed, 1).astype(np.float64)[None]

    def generator(self, purpose: int) -> np.random.Generator:
        """Random numbers for one purpose; see `generator_of_sides`."""
        moving = self.atoms[:-1]
        sides = moving.data * np.repeat(self.observed, np.diff(moving.indptr)) > 0
        # In the order of the rows. Rows that merging has left out have no side that could change.
        return generator_of_sides(sides[np.argsort(moving.indices, kind="stable")], purpose)

    def merge(self, most: int, rng: np.random.Generator, *, least: int = _LEAST) -> tuple[Exchange, sparse.csr_array]:
        """Exchanges of about `most` merged atoms, and the sums that form them, (merged + 1, atoms + 1).

        At least `least` remain on the smaller side.
        """
        times = -(-len(self.observed) // most)
        label = np.full(len(self.observed), -1)  # the merged atom of each; atoms without one keep their sign
        blocks = max(1, len(self.flips) // min(times, max(1, len(self.flips) // least)))
        flips, permuted = np.arange(min(blocks, len(self.flips))), []
        label[rng.permutation(self.flips)] = np.arange(len(self.flips)) % blocks
        count = len(flips)
        for members in self.permuted:
            by_sign = _by_sign(members, self.observed, rng)
            first = int((self.observed[by_sign[0]] > 0).sum())
            fewer = min(first, by_sign.shape[1] - first)
            if fewer >= 2 * least or len(by_sign) == 1:  # atoms of one side in a set become one
                times_each = min(times, max(1, fewer // least))
                sizes = [min(size // times_each, max(_PARTNERS, fewer)) for size in (first, by_sign.shape[1] - first)]
                new = np.arange(len(by_sign) * sum(sizes)).reshape(len(by_sign), -1) + count
                for low, start, size in ((0, 0, sizes[0]), (first, sizes[0], sizes[1])):
                    label[by_sign[:, low : low + size * times_each]] = np.repeat(
                        new[:, start : start + size], times_each, axis=1
                    )
            else:  # sets become one
                blocks = max(1, len(by_sign) // min(times, max(1, len(by_sign) // least)))
                new = np.arange(blocks * by_sign.shape[1]).reshape(blocks, -1) + count
                label[by_sign] = new[np.arange(len(by_sign)) % blocks]
            permuted.append(new)
            count += new.size
        observed = np.zeros(count, np.int8)
        observed[label[label >= 0]] = self.observed[label >= 0]
        observed[flips] = 1
        entries = np.append(np.where(label < 0, self.observed, 1), 1).astype(np.float64)
        new_atom = np.append(np.where(label < 0, count, label), count)
        shape = count + 1, len(label) + 1
        join = sparse.csr_array((entries, (new_atom, np.arange(shape[1]))), shape=shape)
        return Exchange(join @ self.atoms, observed, flips, tuple(permuted)), join


def generator_of_sides(is_reference: Flags, purpose: int) -> np.random.Generator:
    """Random numbers that depend on the sides of the rows, but not on which side is called the reference.

    They are the same for the same samples on any machine, and practically independent of which rows are on which side.
    """
    digest = blake2b(np.packbits(is_reference ^ is_reference[0]).tobytes(), digest_size=8).digest()
    return np.random.default_rng([purpose, int.from_bytes(digest, "little")])


def _by_sign(members: Indices, observed: NDArray[np.int8], rng: np.random.Generator) -> Indices:
    """Sets in random order, and in each the atoms with sign 1 first, in random order."""
    order = np.lexsort((rng.random(members.shape), -observed[members]), axis=-1)
    return np.take_along_axis(members, order, axis=1)[rng.permutation(len(members))]


@dataclass(frozen=True, eq=False)
class _Counts:
    """The number of rows of either side in each unit."""

    of_p: Indices
    of_q: Indices

    @property
    def size(self) -> Indices:
        """The number of rows in each unit."""
        return self.of_p + self.of_q

    @cached_property
    def equal(self) -> Flags:
        """Units with equal numbers of samples of both sides."""
        return np.equal(self.of_p, self.of_q)

    @cached_property
    def alone(self) -> Flags:
        """Units with samples of one side."""
        alone: Flags = (self.of_p == 0) ^ (self.of_q == 0)
        return alone

    @cached_property
    def without_counterpart(self) -> Flags:
        """Units of one side without a unit of the same size on the other side."""
        sizes = [set(counts[other == 0].tolist()) for counts, other in ((self.of_p, self.of_q), (self.of_q, self.of_p))]
        shared = np.array(sorted(sizes[0] & sizes[1]), np.int64)
        return np.logical_and(self.alone, np.isin(self.size, shared, invert=True))

    def cut(self, most: int) -> _Counts:
        """The same with at most this many rows of each unit that has only one side."""
        return _Counts(*(np.where(self.alone, np.minimum(counts, most), counts) for counts in (self.of_p, self.of_q)))

    def is_exchangeable(self) -> bool:
        """Whether few rows of either side are in units without counterpart."""
        lonely = self.without_counterpart
        return all(float(counts[lonely].sum() / counts.sum()) <= _LEFT_OUT for counts in (self.of_p, self.of_q))


def _count(unit: Indices, is_reference: Flags) -> _Counts:
    count = int(unit.max()) + 1
    return _Counts(*(np.bincount(unit[side], minlength=count) for side in (is_reference, ~is_reference)))


def common_size(unit: Indices, is_reference: Flags) -> int | None:
    """The number of rows to which units with only one side must be cut to be exchanged; None if no cut is needed.

    Also None if the other side has no separate units, since nothing could be exchanged with them.
    """
    counts = _count(unit, is_reference)
    if counts.is_exchangeable():
        return None
    sizes = [int(size) for size in np.unique(counts.size[counts.alone])]
    return next((size for size in (*sizes[-2::-1], 1) if counts.cut(size).is_exchangeable()), None)


def exchangeable_rows(unit: Indices, is_reference: Flags, most: int | None, rng: np.random.Generator) -> Flags:
    """Which rows take part: at most this many, at random, of a unit with one side, and no units without counterpart."""
    counts = _count(unit, is_reference)
    if most is not None:
        counts = counts.cut(most)
    order = np.lexsort((rng.random(len(unit)), unit))
    starts = np.searchsorted(unit, np.arange(len(counts.of_p)))
    kept = np.empty(len(unit), np.bool_)
    kept[order] = np.arange(len(unit)) - starts[unit] < counts.size[unit]
    return np.logical_and(kept, ~counts.without_counterpart[unit])


def find_exchange(unit: Indices, is_reference: Flags) -> Exchange:
    """The exchange of rows whose units are numbered from 0 without gaps, in order, and have counterparts."""
    counts = _count(unit, is_reference)
    n, m = int(is_reference.sum()), int((~is_reference).sum())
    half, side = (1.0 / n + 1.0 / m) / 2.0, np.where(is_reference, 1.0, -1.0)
    single = ~(counts.equal | counts.alone)[unit]  # rows that are separate atoms
    new = single | (np.diff(unit, prepend=-1) > 0)
    of_atom = unit[new]
    entries = np.where(counts.equal[unit], side * half, half)
    constant = np.full(len(unit), (1.0 / n - 1.0 / m) / 2.0)
    rows = np.arange(len(unit))
    atoms = sparse.csr_array(
        (
            np.concatenate([entries, constant]),
            (np.concatenate([np.cumsum(new) - 1, np.full(len(unit), len(of_atom))]), np.concatenate([rows, rows])),
        ),
        shape=(len(of_atom) + 1, len(unit)),
    )
    permuted = []
    for size in np.unique(counts.size[counts.alone]):
        permuted.append(np.flatnonzero((counts.alone & (counts.size == size))[of_atom])[None])
    for a, b in sorted({(int(counts.of_p[u]), int(counts.of_q[u])) for u in np.unique(of_atom[single[new]])}):
        units = np.flatnonzero((counts.of_p == a) & (counts.of_q == b))
        permuted.append(np.searchsorted(of_atom, units)[:, None] + np.arange(a + b))
    observed = np.where(counts.equal[of_atom], 1.0, side[new]).astype(np.int8)
    return Exchange(atoms, observed, np.flatnonzero(counts.equal[of_atom]), tuple(permuted))
