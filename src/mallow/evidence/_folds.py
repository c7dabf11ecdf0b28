"""How units are dealt out to cells, and cells to folds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mallow.evidence._units import Indices, Keys
from mallow.theory import Array


@dataclass(frozen=True, eq=False)
class Folds:
    """So many folds, and their pairs."""

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


def deal_folds(unit: Indices, keys: Keys, is_reference: NDArray[np.bool_], *, folds: int) -> Indices:
    """The fold of each row: units in an order that depends on their keys alone, dealt out like cards.

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
    shuffled = scatter(keys, 0)
    order = np.concatenate([kind[np.argsort(shuffled[kind], kind="stable")] for kind in kinds])
    fold = np.zeros(len(keys), np.int64)
    fold[order] = np.arange(len(order)) % folds
    return fold[unit]


def scatter(keys: Keys, step: int) -> Keys:
    """Keys scattered over all 64-bit numbers (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64((step + 1) * 0x9E3779B97F4A7C15 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
