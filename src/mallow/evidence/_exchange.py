"""Which samples can change sides if model and reference are one distribution, and random exchanges of them.

Sides can be exchanged within a unit that has as many samples of both, between whole units of equal size, and between
single samples within a unit that has different numbers of both. Each of these is an atom with a sign: the mean of the
reference minus that of the model is then a constant plus a sum of signs times atoms, so that a permutation is a row
of signs.

Units that have no counterpart of their size cannot be exchanged. They are left out where one side has few of them;
where they are many on both sides (400 texts against 100 prompts with 4 texts each), the deviations of units from the common mean change sign instead, which
keeps what their samples share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

from mallow.evidence._units import Indices
from mallow.theory import Array

_AT_ONCE = 32  # chosen: permutations that are drawn at once
_LEFT_OUT = 0.1  # chosen: share of the samples of a side up to which units without counterpart are left out

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Exchange:
    """Random exchanges of sides.

    Attributes
    ----------
    signs : int8 array (1 + permutations, atoms)
        1 and −1; the first row is the observed one.
    atoms : sparse array (atoms, rows)
        What each atom adds to Δ, the mean of the reference minus that of the model, from values of the rows.
    constant : array (rows,)
        What does not change: Δ = constant @ values + signs @ (atoms @ values).
    within : sparse array (units, atoms)
        Means over the atoms of each unit whose samples are exchanged one by one; the sum of their signs never changes.
    exact : bool
        Whether every unit could be exchanged; if not, some only changed sign.
    log_count : float
        The logarithm of the number of different permutations.
    """

    signs: NDArray[np.int8]
    atoms: sparse.csr_array
    constant: Array
    within: sparse.csr_array
    exact: bool
    log_count: float


@dataclass(frozen=True, eq=False)
class _Counts:
    """How many rows of either side each unit has."""

    of_p: Indices
    of_q: Indices

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
        sizes = [set(own[other == 0].tolist()) for own, other in ((self.of_p, self.of_q), (self.of_q, self.of_p))]
        shared = np.array(sorted(sizes[0] & sizes[1]), np.int64)
        return np.logical_and(self.alone, np.isin(self.of_p + self.of_q, shared, invert=True))


def _count(unit: Indices, is_reference: Flags) -> _Counts:
    count = int(unit.max()) + 1
    return _Counts(*(np.bincount(unit[side], minlength=count) for side in (is_reference, ~is_reference)))


def exchangeable_rows(unit: Indices, is_reference: Flags) -> Flags:
    """Which rows take part: not those of units without counterpart, if these are few on one side.

    The other side has enough rows without them: a reference with more prompts than a model was given.
    """
    left_out = _count(unit, is_reference).without_counterpart[unit]
    if all(left_out[side].mean() > _LEFT_OUT for side in (is_reference, ~is_reference)):
        return np.ones(len(unit), np.bool_)
    return ~left_out


def draw_exchanges(unit: Indices, is_reference: Flags, permutations: int, rng: np.random.Generator) -> Exchange:
    """Random exchanges of the sides of rows, whose units are numbered from 0 without gaps and rise."""
    counts = _count(unit, is_reference)
    n, m = int(is_reference.sum()), int((~is_reference).sum())
    half, side = (1.0 / n + 1.0 / m) / 2.0, np.where(is_reference, 1.0, -1.0)
    lonely = counts.without_counterpart
    single = ~(counts.equal | counts.alone)[unit]  # rows that are atoms of their own
    # One number for each atom, in the order of the rows.
    new = single | (np.diff(unit, prepend=-1) > 0)
    atom = np.cumsum(new) - 1
    unit_of_atom, observed = unit[new], np.where(counts.equal[unit[new]], 1.0, side[new])
    entries = np.where(counts.equal[unit], side * half, half)
    entries = np.where(lonely[unit], np.where(is_reference, 1.0 / n, 1.0 / m), entries)
    shape = len(unit_of_atom), len(unit)
    atoms = sparse.csr_array((entries, (atom, np.arange(len(unit)))), shape=shape)
    constant = np.where(lonely[unit], 0.0, (1.0 / n - 1.0 / m) / 2.0)
    signs = np.tile(observed.astype(np.int8), (1 + permutations, 1))
    log_count = _draw_signs(signs, counts, unit_of_atom, single[new], lonely, rng)
    if n == m and not single.any():
        log_count -= math.log(2.0)  # all signs at once: the same statistics
    at = np.flatnonzero(single[new])
    sizes = (counts.of_p + counts.of_q)[unit_of_atom[at]]
    _, place = np.unique(unit_of_atom[at], return_inverse=True)
    within = sparse.csr_array((1.0 / sizes, (place, at)), shape=(int(place.max(initial=-1)) + 1, shape[0]))
    return Exchange(signs, atoms, constant, within, not lonely.any(), max(log_count, 0.0))


def _draw_signs(
    signs: NDArray[np.int8],
    counts: _Counts,
    unit: Indices,
    single: Flags,
    lonely: Flags,
    rng: np.random.Generator,
) -> float:
    """Fill in random signs below the observed ones; the logarithm of the number of ways."""
    permutations = len(signs) - 1
    flipped = np.flatnonzero((counts.equal | lonely)[unit])
    _flip(signs[1:], flipped, rng)
    log_count = len(flipped) * math.log(2.0)
    whole = counts.alone & ~lonely
    for size in np.unique((counts.of_p + counts.of_q)[whole]):
        members = np.flatnonzero((whole & (counts.of_p + counts.of_q == size))[unit])
        for low in range(1, len(signs), _AT_ONCE):
            signs[low : low + _AT_ONCE, members] = rng.permuted(signs[low : low + _AT_ONCE, members], axis=1)
        log_count += _log_ways(len(members), int((signs[0, members] > 0).sum()))
    kinds = {(int(counts.of_p[u]), int(counts.of_q[u])) for u in np.unique(unit[single])}
    for a, b in sorted(kinds):
        units = np.flatnonzero((counts.of_p == a) & (counts.of_q == b))
        members = np.searchsorted(unit, units)[:, None] + np.arange(a + b)  # (units, a + b)
        drawn = rng.permuted(np.tile(signs[0, members], (permutations, 1, 1)), axis=-1)
        signs[1:, members] = drawn
        log_count += len(units) * _log_ways(a + b, a)
    return log_count


def _flip(signs: NDArray[np.int8], columns: Indices, rng: np.random.Generator) -> None:
    """Multiply the signs in some columns by those of fair coins.

    A few rows at a time, since there may be many columns.
    """
    count = signs.shape[0] * len(columns)
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-count // 8)), np.uint8), count=count).reshape(len(signs), -1)
    for low in range(0, len(signs), _AT_ONCE):
        signs[low : low + _AT_ONCE, columns] *= 1 - 2 * bits[low : low + _AT_ONCE].astype(np.int8)


def _log_ways(total: int, chosen: int) -> float:
    return float(gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1))
