"""The witness for many samples: the same views, learned from sums over folds, in memory that does not grow with the samples.

With tens of thousands of units, rules that were learned without a sample's fold are as good as those learned without its
unit alone, and everything they need is sums. Features become small integers (`_coarse.py`), so that these sums are exact:
the same bits on every machine, for any order and division of the rows. Rows are read in four passes: sums of each fold
(`_many_sums.py`), bins, weights of the views (on a part of the units), scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, round_to, single_threaded_blas
from mallow.estimate import Features
from mallow.inference._blocks import Values
from mallow.inference._coarse import ROWS, find_coarse_grid
from mallow.inference._folds import Folds, deal_folds, scatter
from mallow.inference._many_rules import Rules, learn_rules
from mallow.inference._many_sums import FoldSums, Metrics, sum_folds
from mallow.inference._many_test import run_test_of_many
from mallow.inference._partitions import AXES, PARTITIONS, find_centres, label_points, leading_axes
from mallow.inference._stack import round_scores, stack_weights
from mallow.inference._units import Indices, Units
from mallow.theory import Array

if TYPE_CHECKING:
    from mallow.inference._identity import IdentityTest
    from mallow.inference._witness import Witness

__all__ = ["ManyLearner"]

_GRID_ROWS = 2**12  # chosen: rows that the grid and the bins are made from
_STACK_ROWS = 2**16  # chosen: rows that the weights of the views are fitted on
_TEST_UNITS = 2**14  # chosen: units whose sides are exchanged in the test; all would take memory for 500 signs each
_AXIS_BITS = 12  # to which axes are rounded: processors that differ in their last digits give the same bins


class ManyLearner:
    """The reference and its systems, ready for a witness of any of them; see `Learner` for the meaning of its scores."""

    tolerance = 0.0
    together = False  # its test and its scores take memory

    def __init__(self, witness: Witness, sets: Sequence[Features], units: Units, seed: int) -> None:
        self.witness, self.sets, self.units = witness, sets, units
        self._seed = seed
        unit = np.concatenate(units.sets)
        is_reference = np.arange(len(unit)) < len(sets[0])
        self._folds = deal_folds(unit, units.keys, is_reference, folds=witness.folds, assignments=1, seed=seed)
        cuts = np.cumsum([len(rows) for rows in sets])[:-1]
        self._fold = np.split(self._folds.of_row[0], cuts)
        order = scatter(units.keys ^ scatter(np.array([seed % 2**63], np.uint64), 0)[0], 1)
        rank = np.empty(units.count, np.int64)
        rank[np.argsort(order, kind="stable")] = np.arange(units.count)
        self._rank = [rank[own] for own in units.sets]  # the place of each row's unit in an order by keys alone
        sample = self._first_rows(_GRID_ROWS)
        self._grid = find_coarse_grid(sets, sample)
        self._sums: FoldSums = sum_folds(sets, self._fold, units.sets, witness.folds, self._grid)
        self._metrics = Metrics(self._sums)
        self._labels, self._partitions = self._find_bins(sample) if witness.bins else ([], 0)

    def scores(self, *systems: int) -> tuple[Array, ...]:
        """h of every sample of the reference and of the systems, as `Learner.scores` has it."""
        rules = self._learn_rules(systems)
        weights = self._stack(rules, systems)
        mixed = rules.mix(weights)
        scores = []
        for place in (0, *systems):
            own = np.empty(len(self.sets[place]))
            fold = self._fold[place]

            def judge(rows: slice, place: int = place, own: Array = own, fold: Indices = fold) -> None:
                every = self._score(mixed, place, np.arange(rows.start, rows.stop))[:, 0]
                own[rows] = np.take_along_axis(every, fold[None, rows], axis=0)[0]

            self._each(judge, len(own))
            scores.append(round_scores(own, self.units.count))
        return tuple(scores)

    def test(self, system: int, *, permutations: int, seed: int) -> IdentityTest:
        """The test of identity of the reference and one system, on so many units as memory allows."""
        few = [own < _TEST_UNITS for own in (self._rank[0], self._rank[system])]
        rows = [np.flatnonzero(own) for own in few]
        return run_test_of_many(
            [self.sets[0], self.sets[system]],
            rows,
            [self._rank[0][rows[0]], self._rank[system][rows[1]]],
            self._grid,
            self._metrics,
            [[own[0][rows[0]], own[system][rows[1]]] for own in self._labels],
            permutations=permutations,
            seed=seed,
        )

    def _first_rows(self, count: int) -> list[Indices]:
        """About so many rows of all sets, those of the first units, in the order of their units."""
        ranks = np.sort(np.concatenate(self._rank))
        last = ranks[min(count, len(ranks)) - 1]
        rows = [np.flatnonzero(own <= last) for own in self._rank]
        return [own[np.argsort(rank[own], kind="stable")] for own, rank in zip(rows, self._rank, strict=True)]

    def _each(self, task: Callable[[slice], None], size: int) -> None:
        """Run a task for slices of `size` rows, on all threads."""
        with single_threaded_blas():
            slices = (slice(low, min(low + ROWS, size)) for low in range(0, size, ROWS))
            for _ in ordered_map(task, slices, cores()):
                pass

    def _integers(self, place: int, rows: Indices) -> Values:
        return self._grid.integers(self.sets[place][rows]).astype(np.float64)

    def _find_bins(self, sample: Sequence[Indices]) -> tuple[list[list[NDArray[np.uint8]]], int]:
        """For each partition, the bins of the rows of each set; and how many partitions have few bins."""
        axes = _leading(self._metrics.covariance)
        points = np.concatenate([self._integers(place, rows) @ axes for place, rows in enumerate(sample)])
        unit = np.concatenate([self._rank[place][rows] for place, rows in enumerate(sample)])
        order = np.lexsort((points[:, 0], unit))  # within a unit by values, so that sides play no part
        pair = len(self.sets[0]) + max(len(rows) for rows in self.sets[1:])
        centres = find_centres(points[order], unit[order], pair, self._seed)
        labels = [[np.empty(len(rows), np.uint8) for rows in self.sets] for _ in centres]
        for place, rows in enumerate(self.sets):

            def label(some: slice, place: int = place) -> None:
                own = self._integers(place, np.arange(some.start, some.stop)) @ axes
                for number, table in enumerate(centres):
                    labels[number][place][some] = label_points(own, table)

            self._each(label, len(rows))
        return labels, PARTITIONS

    def _learn_rules(self, systems: Sequence[int]) -> Rules:
        witness, folds = self.witness, self._folds.count
        counts = [
            np.stack([_count(fold, label, folds, labels) for fold, label in zip(self._fold, labels, strict=True)], 1)
            for labels in self._labels
        ]
        lengths, squares = (
            np.stack([np.bincount(fold, own, folds) for fold, own in zip(self._fold, each, strict=True)], 1)
            for each in (self._sums.lengths, [own**2 for own in self._sums.lengths])
        )
        return learn_rules(
            self._sums,
            self._metrics,
            self._folds,
            systems,
            strengths=witness.strengths,
            variances=witness.variances,
            bin_counts=[counts[low : low + self._partitions] for low in range(0, len(counts), self._partitions or 1)],
            length_sums=(lengths.astype(np.float64), squares.astype(np.float64)),
        )

    def _score(self, rules: Rules, place: int, rows: Indices) -> Array:
        labels = np.stack([own[place][rows] for own in self._labels]) if self._labels else np.empty((0, len(rows)))
        return rules.score(self._integers(place, rows), self._sums.lengths[place][rows], labels.astype(np.int64))

    def _stack(self, rules: Rules, systems: Sequence[int]) -> Array:
        """The weights of all views and pairs for the rows of each fold, (folds, views, pairs)."""
        folds = Folds(np.empty((0, 0), np.int64), self._folds.count)
        chosen = self._first_rows(_STACK_ROWS)
        used = (0, *systems)
        place = np.concatenate([np.full(len(chosen[own]), own) for own in used])
        row = np.concatenate([chosen[own] for own in used])
        unit = np.concatenate([self._rank[own][chosen[own]] for own in used])
        order = np.argsort(unit, kind="stable")
        place, row, unit = place[order], row[order], unit[order]
        sizes = np.bincount(place, minlength=len(self.sets))
        weight = 0.5 / sizes[place] / np.where(place > 0, len(systems), 1)
        views = np.empty((*rules.constant.shape, len(row)), np.float32)

        def score(at: slice) -> None:
            for own in used:
                here = at.start + np.flatnonzero(place[at] == own)
                views[:, :, here] = self._score(rules, own, row[here])

        self._each(score, len(row))
        fold = np.empty(len(row), np.int64)
        for own in used:
            fold[place == own] = self._fold[own][row[place == own]]
        result = np.zeros((folds.count, *rules.constant.shape))
        for k in range(folds.count):
            factor = stack_weights(views, k, fold, folds, is_reference=place == 0, weight=weight, unit=unit)
            others = [folds.pair_without[other, k] for other in range(folds.count) if other != k]
            result[k][:, others] = factor[:, None] / len(others)
        return result


def _leading(covariance: Array) -> Array:
    """The axes on which bins are made, (d, axes), as integers."""
    width = len(covariance)
    if width <= 4 * AXES:
        variances, axes = np.linalg.eigh(covariance)
    else:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(0).standard_normal(width)
        variances, axes = eigsh(covariance, AXES, v0=start, tol=1e-12)
    variances, axes = variances[::-1], axes[:, ::-1]
    axes = axes[:, : leading_axes(variances, float(np.trace(covariance)))]
    largest = np.abs(axes).argmax(axis=0)
    return round_to(axes * np.sign(axes[largest, np.arange(axes.shape[1])]), -_AXIS_BITS)


def _count(fold: Indices, label: NDArray[np.uint8], folds: int, labels: Sequence[NDArray[np.uint8]]) -> Array:
    bins = 1 + max(int(own.max()) for own in labels)
    return np.bincount(fold * bins + label, minlength=folds * bins).reshape(folds, bins).astype(np.float64)
