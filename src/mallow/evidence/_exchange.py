"""Which samples can change sides if model and reference are one distribution, and random exchanges of them.

Sides can be exchanged within a unit that has as many samples of both, between whole units of equal size, and between
single samples within a unit that has different numbers of both. Each of these is an atom with a sign: the mean of the
reference minus that of the model is then a constant plus a sum of signs times atoms, so that a permutation is a row
of signs.

Atoms can be merged at random into fewer that change sides together. That too is a group of permutations under which
nothing changes if there is no gap, so that a test stays exact, and it costs less. Rows are in the order of their
values. What is drawn at random must therefore differ from one division of the same rows into sides to the next: a
fixed choice of ranks would be the same function of the values in all samples (`generator_of_sides`).

Units that have no counterpart of their size cannot be exchanged. A few of them are left out, and all if the other
side has no units of its own; where they are many (400 texts against 100 prompts with 4 texts each), larger units are
cut at random to a size that both sides have.
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

_LEFT_OUT = 0.1  # chosen: share of the samples of a side up to which units without counterpart are left out
_LEAST = 32  # chosen: atoms of a side, pairs or units of one kind below which they are not merged
_PARTNERS = 1024  # chosen: atoms of the larger side that can change sides; more take time and change little

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Exchange:
    """What can change sides, and random exchanges of it.

    Attributes
    ----------
    atoms : sparse array (atoms + 1, rows)
        What each atom adds to Δ, the mean of the reference minus that of the model, from values of the rows. The last
        is what does not change: Δ = (signs, 1) @ atoms @ values.
    observed : int8 array (atoms,)
        The signs as they are, 1 and −1.
    flips : int64 array
        Atoms that change sign by themselves: units with as many samples of both sides.
    permuted : tuple of int64 arrays (sets, atoms)
        In each set the signs of some atoms change places.
    """

    atoms: sparse.csr_array
    observed: NDArray[np.int8]
    flips: Indices
    permuted: tuple[Indices, ...]

    def draw(self, permutations: int, rng: np.random.Generator) -> Array:
        """Signs of so many exchanges at random, (permutations, atoms + 1). The last column is 1."""
        signs = np.tile(np.append(self.observed, 1).astype(np.float64), (permutations, 1))
        signs[:, self.flips] *= 1.0 - 2.0 * rng.integers(2, size=(permutations, len(self.flips)))
        for members in self.permuted:
            signs[:, members] = rng.permuted(signs[:, members], axis=-1)
        return signs

    def as_observed(self) -> Array:
        """The signs as they are, (1, atoms + 1)."""
        return np.append(self.observed, 1).astype(np.float64)[None]

    def generator(self, purpose: int) -> np.random.Generator:
        """Random numbers for one purpose; see `generator_of_sides`."""
        moving = self.atoms[:-1]
        sides = moving.data * np.repeat(self.observed, np.diff(moving.indptr)) > 0
        # In the order of the rows; rows that merging has left out have no side that could change.
        return generator_of_sides(sides[np.argsort(moving.indices, kind="stable")], purpose)

    def merge(self, most: int, rng: np.random.Generator, *, least: int = _LEAST) -> tuple[Exchange, sparse.csr_array]:
        """Exchanges of about `most` atoms, each the sum of some, and these sums, (merged + 1, atoms + 1).

        Not fewer than `least` are left of the smaller side.
        """
        times = -(-len(self.observed) // most)
        label = np.full(len(self.observed), -1)  # the new atom of each; those without one keep their sign
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
    """Random numbers that the sides of the rows decide, whichever of the two is called the reference.

    They are the same for the same samples on any machine, and as good as independent of which rows are of which side.
    """
    digest = blake2b(np.packbits(is_reference ^ is_reference[0]).tobytes(), digest_size=8).digest()
    return np.random.default_rng([purpose, int.from_bytes(digest, "little")])


def _by_sign(members: Indices, observed: NDArray[np.int8], rng: np.random.Generator) -> Indices:
    """Sets in random order, and in each the atoms with sign 1 first, in random order."""
    order = np.lexsort((rng.random(members.shape), -observed[members]), axis=-1)
    return np.take_along_axis(members, order, axis=1)[rng.permutation(len(members))]


@dataclass(frozen=True, eq=False)
class _Counts:
    """How many rows of either side each unit has."""

    of_p: Indices
    of_q: Indices

    @property
    def size(self) -> Indices:
        """How many rows each unit has."""
        return self.of_p + self.of_q

    @cached_property
    def equal(self) -> Flags:
        """Units with as many samples of both sides."""
        return np.equal(self.of_p, self.of_q)

    @cached_property
    def alone(self) -> Flags:
        """Units with samples of one side."""
        alone: Flags = (self.of_p == 0) ^ (self.of_q == 0)
        return alone

    @cached_property
    def without_counterpart(self) -> Flags:
        """Units of one side for which the other has no unit of the same size."""
        sizes = [set(counts[other == 0].tolist()) for counts, other in ((self.of_p, self.of_q), (self.of_q, self.of_p))]
        shared = np.array(sorted(sizes[0] & sizes[1]), np.int64)
        return np.logical_and(self.alone, np.isin(self.size, shared, invert=True))

    def cut(self, most: int) -> _Counts:
        """The same with at most so many rows of each unit of one side alone."""
        return _Counts(*(np.where(self.alone, np.minimum(counts, most), counts) for counts in (self.of_p, self.of_q)))

    def is_exchangeable(self) -> bool:
        """Whether few rows of either side are in units without counterpart."""
        lonely = self.without_counterpart
        return all(float(counts[lonely].sum() / counts.sum()) <= _LEFT_OUT for counts in (self.of_p, self.of_q))


def _count(unit: Indices, is_reference: Flags) -> _Counts:
    count = int(unit.max()) + 1
    return _Counts(*(np.bincount(unit[side], minlength=count) for side in (is_reference, ~is_reference)))


def common_size(unit: Indices, is_reference: Flags) -> int | None:
    """To how many rows units of one side alone have to be cut so that they can be exchanged; None: it needs no cut.

    None too where the other side has no units of its own: then nothing is left to be exchanged with them.
    """
    counts = _count(unit, is_reference)
    if counts.is_exchangeable():
        return None
    sizes = [int(size) for size in np.unique(counts.size[counts.alone])]
    return next((size for size in (*sizes[-2::-1], 1) if counts.cut(size).is_exchangeable()), None)


def exchangeable_rows(unit: Indices, is_reference: Flags, most: int | None, rng: np.random.Generator) -> Flags:
    """Which rows take part: at most so many of a unit of one side, at random, and not units without counterpart."""
    counts = _count(unit, is_reference)
    if most is not None:
        counts = counts.cut(most)
    order = np.lexsort((rng.random(len(unit)), unit))
    starts = np.searchsorted(unit, np.arange(len(counts.of_p)))
    kept = np.empty(len(unit), np.bool_)
    kept[order] = np.arange(len(unit)) - starts[unit] < counts.size[unit]
    return np.logical_and(kept, ~counts.without_counterpart[unit])


def find_exchange(unit: Indices, is_reference: Flags) -> Exchange:
    """What of rows can change sides; their units are numbered from 0 without gaps and rise, and have counterparts."""
    counts = _count(unit, is_reference)
    n, m = int(is_reference.sum()), int((~is_reference).sum())
    half, side = (1.0 / n + 1.0 / m) / 2.0, np.where(is_reference, 1.0, -1.0)
    single = ~(counts.equal | counts.alone)[unit]  # rows that are atoms of their own
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
