"""How units are dealt out to folds.

The rows of one model, of one system or several, and of the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import Features
from mallow.evidence._space import LeaveUnitOut, Space
from mallow.evidence._units import Indices, Keys
from mallow.theory import Array


@dataclass(frozen=True, eq=False)
class Folds:
    """Several assignments of rows to folds; a fold never cuts a unit.

    Attributes
    ----------
    of_row : int64 array (assignments, rows)
    count : int
        The number of folds.
    """

    of_row: Indices
    count: int

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of folds. Rules are learned without both folds of a pair."""
        return list(combinations(range(self.count), 2))

    @cached_property
    def kept(self) -> Array:
        """Which folds the rules of each pair are learned from, (pairs, folds): 1 or 0."""
        return np.array([[float(fold not in pair) for fold in range(self.count)] for pair in self.pairs])

    @cached_property
    def pair_without(self) -> Indices:
        """The number of the pair of two folds, (folds, folds); −1 for a fold with itself."""
        table = np.full((self.count, self.count), -1)
        for number, (first, second) in enumerate(self.pairs):
            table[first, second] = table[second, first] = number
        return table

    def some(self, assignments: slice) -> Folds:
        """Some of the assignments."""
        return Folds(self.of_row[assignments], self.count)


def deal_folds(
    unit: Indices, keys: Keys, is_reference: NDArray[np.bool_], *, folds: int, assignments: int, seed: int
) -> Folds:
    """Units in orders that depend on their keys alone, dealt out like cards.

    Every fold gets as many units of either side as any other, up to one.

    Parameters
    ----------
    unit : int64 array (rows,)
    keys : uint64 array (units,)
        Of all units that the numbers may name.
    is_reference : bool array (rows,)
        The side of each row.
    """
    of_p, of_q = (np.bincount(unit[side], minlength=len(keys)) > 0 for side in (is_reference, ~is_reference))
    kinds = [np.flatnonzero(kind) for kind in (of_p & ~of_q, of_p & of_q, of_q & ~of_p)]
    # Units with both sides lie between the others, so that those of either side are dealt one after the other. Which
    # side is first does not depend on which one is called the reference.
    if (len(kinds[0]), *np.sort(keys[kinds[0]])[:1]) > (len(kinds[2]), *np.sort(keys[kinds[2]])[:1]):
        kinds.reverse()
    fold = np.zeros((assignments, len(keys)), np.int64)
    for number in range(assignments):
        shuffled = scatter(keys ^ scatter(np.array([seed % 2**63], np.uint64), 0)[0], number)
        order = np.concatenate([kind[np.argsort(shuffled[kind], kind="stable")] for kind in kinds])
        fold[number, order] = np.arange(len(order)) % folds
    return Folds(fold[:, unit], folds)


def scatter(keys: Keys, step: int) -> Keys:
    """Keys scattered over all 64-bit numbers (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64((step + 1) * 0x9E3779B97F4A7C15 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Pooled:
    """The rows of one model, of one system or several, and of the reference.

    Attributes
    ----------
    space : Space
    rows : int64 array (rows,)
        Which rows of the space take part, rising.
    is_reference : bool array (rows,)
    weight : array (rows,)
        Half of it on each side; it sums to 1.
    corrections : Future of LeaveUnitOut
        For the strengths of the linear discriminants, then for the radius; `leave_out` waits for them.
    sets : sequence of arrays
        The features as they came, for views that a user adds.
    """

    space: Space
    rows: Indices
    is_reference: NDArray[np.bool_]
    weight: Array
    corrections: Future[LeaveUnitOut]
    sets: Sequence[Features]

    @property
    def leave_out(self) -> LeaveUnitOut:
        """Products without the own unit."""
        return self.corrections.result()

    @cached_property
    def unit(self) -> Indices:
        """The unit of each row."""
        return self.space.unit[self.rows]

    @cached_property
    def sides(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The rows of the reference, and those of the model."""
        return self.is_reference, ~self.is_reference

    @cached_property
    def units_of_sides(self) -> tuple[int, int]:
        """How many units have samples of the reference, and of the model."""
        return len(np.unique(self.unit[self.is_reference])), len(np.unique(self.unit[~self.is_reference]))

    def take(self, values: NDArray[Number]) -> NDArray[Number]:
        """The rows of `values` (rows of the space, ...) that take part."""
        return values if len(self.rows) == len(values) else values[self.rows]

    @cached_property
    def features(self) -> Features:
        """The features of the rows, as they came."""
        every = np.concatenate(list(self.sets))
        ordered = np.empty_like(every)
        ordered[np.concatenate(self.space.places)] = every
        return self.take(ordered)
