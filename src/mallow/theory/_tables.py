"""Sums over atoms, fast: atoms with equal masses are evaluated once.

Resampled histograms of counts hold few distinct pairs (p, q), so a batch of thousands of histograms needs few
evaluations of a divergence. The sums are those of a plain loop over the atoms, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.theory._arrays import Array

_BLOCK = 1 << 17  # chosen: values held at once; a few arrays of one megabyte fit in the second-level cache
_MOST_CELLS = 4_000_000  # chosen: distinct p times distinct q, up to which equal pairs are looked for
_MOST_ENTRIES = 50_000_000  # chosen: entries of the matrix (rows, distinct pairs) that are held at once, 400 MB
_EVALUATION_COST = 30  # measured: evaluating a pair takes about as long as 30 entries of the matrix product


@dataclass(frozen=True, eq=False)
class AtomTable:
    """Atoms of a batch of histograms, with equal pairs of masses merged.

    Attributes
    ----------
    batch : tuple of int
        The leading axes of the masses; flattened, they are the rows below.
    p, q : array (pairs,) or (rows, atoms)
        The distinct pairs of masses; all of them where nothing is merged.
    weight : array (rows, atoms)
        How much each atom counts.
    column : int array (rows, atoms) or None
        Which pair each atom is; ``pairs`` for an atom without mass. None where nothing is merged.
    """

    batch: tuple[int, ...]
    p: Array
    q: Array
    weight: Array
    column: NDArray[np.intp] | None

    def sums(self, values: Callable[[Array, Array], Array]) -> Array:
        """Σ weight · values(p, q) for each row, shape (*batch, v)."""
        if self.column is None:
            rows = zip(self.p, self.q, self.weight, strict=True)
            parts = [_weighted_sums(p, q, weight[None], values) for p, q, weight in rows]
        else:
            parts = [_weighted_sums(self.p, self.q, weights, values) for weights in self._pair_weights]
        return np.concatenate(parts).reshape(*self.batch, -1)

    @property
    def _pair_weights(self) -> Iterator[Array]:
        """How much each pair counts in each row, in blocks of rows: all at once may be too large."""
        if len(self.p) * len(self.weight) <= _MOST_ENTRIES:
            yield self._all_pair_weights
            return
        step = max(1, _MOST_ENTRIES // len(self.p))
        for start in range(0, len(self.weight), step):
            yield self._pair_weights_of(slice(start, start + step))

    @cached_property
    def _all_pair_weights(self) -> Array:
        return self._pair_weights_of(slice(None))

    def _pair_weights_of(self, rows: slice) -> Array:
        weight, pairs = self.weight[rows], len(self.p)
        column = np.zeros_like(weight, dtype=np.intp) if self.column is None else self.column[rows]
        cell = column + (pairs + 1) * np.arange(len(weight))[:, None]  # the last column collects atoms without mass
        totals = np.bincount(cell.ravel(), weight.ravel(), minlength=(pairs + 1) * len(weight))
        return totals.reshape(len(weight), -1)[:, :pairs].astype(np.float64, copy=False)


def build_table(p: Array, q: Array, weight: Array) -> AtomTable:
    """The table of masses (..., atoms); equal pairs are merged where that saves time."""
    batch, atoms = p.shape[:-1], p.shape[-1]
    p, q, weight = (array.reshape(-1, atoms) for array in (p, q, weight))
    values_p, place_p = _distinct(p)
    values_q, place_q = _distinct(q)
    cells = len(values_p) * len(values_q)
    if cells > _MOST_CELLS:
        return AtomTable(batch, p, q, weight, None)
    code = place_p * len(values_q) + place_q
    used = np.bincount(code.ravel(), minlength=cells) > 0
    used[(values_p[:, None] + values_q == 0).ravel()] = False  # atoms without mass
    pairs = int(used.sum())
    if pairs > _EVALUATION_COST * atoms:
        return AtomTable(batch, p, q, weight, None)
    column = np.where(used, np.cumsum(used) - 1, pairs)[code]
    at_p, at_q = np.divmod(np.flatnonzero(used), len(values_q))
    return AtomTable(batch, values_p[at_p], values_q[at_q], weight, column)


def _distinct(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """The distinct values in rising order, and the place of each entry among them."""
    ordered = np.sort(values, axis=None)
    distinct = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] + 0.0  # turns -0.0 into 0.0
    # A hashed look-up first, since a binary search for every entry would take most of the time.
    slots = np.zeros(1 << 16, dtype=np.intp)
    slots[_slot(distinct)] = np.arange(len(distinct))
    place = slots[_slot(values)]
    missed = distinct[place] != values
    place[missed] = np.searchsorted(distinct, values[missed])
    return distinct, place


def _slot(values: Array) -> NDArray[np.uint64]:
    """A hash of 16 bits: Fibonacci hashing of the bits of the number."""
    mixed = (values + 0.0).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio
    return mixed >> np.uint64(48)


def _weighted_sums(p: Array, q: Array, weights: Array, values: Callable[[Array, Array], Array]) -> Array:
    """weights @ values(p, q) in blocks of atoms, with 0·∞ = 0.

    A row that contains an infinite cost is ∞, even where the weight of that cost is negative.
    """
    width = values(p[:1], q[:1]).shape[-1]
    step = max(1, _BLOCK // width)
    total = np.zeros((len(weights), width))
    for start in range(0, len(p), step):
        block = slice(start, start + step)
        costs, weight = values(p[block], q[block]), weights[:, block]
        finite = np.isfinite(costs)
        if not finite.all():
            if np.isnan(costs).any():
                raise InputError("The generator `f` of the divergence must not return NaN; it did for legal masses.")
            total[(weight != 0).astype(np.float64) @ ~finite > 0] = np.inf
            costs = np.where(finite, costs, 0.0)
        total += weight @ costs
    return total
