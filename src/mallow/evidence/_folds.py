"""The assignment of units to cells, and of cells to folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import mix_keys
from mallow.evidence._blocks import Numbers
from mallow.evidence._units import Indices, Keys, Units
from mallow.theory import Array

_CELLS = 100  # chosen: more hardly improve the rules


@dataclass(frozen=True, eq=False)
class Cells:
    """The assignment of the units of some sets to cells.

    Attributes
    ----------
    of_set : sequence of int arrays
        The cell of each row of each set.
    units : array (cells, sets)
        The number of units of each set in each cell.
    """

    of_set: Sequence[Numbers]
    units: Array

    def __len__(self) -> int:
        return len(self.units)


def deal_cells(units: Units, folds: int) -> Cells | None:
    """Units assigned to cells by their keys; None if a set has fewer units than there are folds."""
    first_rows = [np.unique(numbers, return_index=True)[1] for numbers in units.sets]
    least = min(map(len, first_rows))
    if least < folds:
        return None
    cells = folds * min(max(_CELLS // folds, 1), least // folds)
    unit = np.concatenate(units.sets)
    is_reference = np.arange(len(unit)) < len(units.sets[0])
    dealt = deal_folds(unit, units.keys, is_reference, folds=cells).astype(np.min_scalar_type(cells))
    of_set = np.split(dealt, np.cumsum([len(numbers) for numbers in units.sets])[:-1])
    counts = [np.bincount(cell[first], minlength=cells) for cell, first in zip(of_set, first_rows, strict=True)]
    return Cells(of_set, np.stack(counts, axis=1).astype(np.float64))


def group_cells(cells: int, folds: int, count: int) -> list[Indices]:
    """The fold of each cell, in several groupings of cells into folds. The same groupings for all samples."""
    if cells == folds:
        return [np.arange(cells)]
    dealt = np.repeat(np.arange(folds), cells // folds)
    return [np.random.default_rng([0, 4, number]).permutation(dealt) for number in range(count)]


@dataclass(frozen=True, eq=False)
class Folds:
    """A number of folds, and their pairs."""

    count: int

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of folds. Rules are learned without both folds of a pair."""
        return list(combinations(range(self.count), 2))

    @cached_property
    def kept(self) -> Array:
        """The folds from which the rules of each pair are learned, (pairs, folds): 1 or 0."""
        return np.array([[float(fold not in pair) for fold in range(self.count)] for pair in self.pairs])

    @cached_property
    def pair_without(self) -> Indices:
        """The number of the pair of two folds, (folds, folds); −1 for a fold with itself."""
        table = np.full((self.count, self.count), -1)
        for number, (first, second) in enumerate(self.pairs):
            table[first, second] = table[second, first] = number
        return table


def deal_folds(unit: Indices, keys: Keys, is_reference: NDArray[np.bool_], *, folds: int) -> Indices:
    """The fold of each row: units, in an order that depends only on their keys, are dealt out in turn.

    The numbers of units of a side in two folds differ by at most one.

    Parameters
    ----------
    unit : int64 array (rows,)
    keys : uint64 array (units,)
        The keys of all units.
    is_reference : bool array (rows,)
        The side of each row.
    """
    of_p, of_q = (np.bincount(unit[side], minlength=len(keys)) > 0 for side in (is_reference, ~is_reference))
    kinds = [np.flatnonzero(kind) for kind in (of_p & ~of_q, of_p & of_q, of_q & ~of_p)]
    # Units with both sides lie between the others, so that the units of each side are dealt one after the other. Which
    # side comes first does not depend on which one is called the reference.
    if (len(kinds[0]), *np.sort(keys[kinds[0]])[:1]) > (len(kinds[2]), *np.sort(keys[kinds[2]])[:1]):
        kinds.reverse()
    shuffled = scatter(keys, 0)
    order = np.concatenate([kind[np.argsort(shuffled[kind], kind="stable")] for kind in kinds])
    fold = np.zeros(len(keys), np.int64)
    fold[order] = np.arange(len(order)) % folds
    return fold[unit]


def scatter(keys: Keys, step: int) -> Keys:
    """Keys in a random order that differs from step to step."""
    return mix_keys(keys + np.uint64((step + 1) * 0x9E3779B97F4A7C15 % 2**64))
