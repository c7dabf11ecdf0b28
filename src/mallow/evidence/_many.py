"""The witness for many samples: the same views, learned from sums over cells, in memory of constant size.

Units are dealt into up to 20 cells. With tens of thousands of units, rules that were learned without a sample's cell
are as good as those learned without its unit alone, and everything they need is sums. Features become small integers
(`_coarse.py`), so that these sums are exact: the same bits on every machine, for any order and division of the rows.
The weights of the views come from folds of whole cells, in several groupings. Rows are read in three passes: sums of
each cell (`CellSums`), bins, scores; and a part of them for the weights and the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.engine import round_to
from mallow.estimate import Features
from mallow.evidence._blocks import ArrayRows, Values
from mallow.evidence._blocks import Rows as RowSource
from mallow.evidence._coarse import ROWS, CellSums, CoarseGrid, Metrics, find_coarse_grid, sum_cells
from mallow.evidence._folds import Folds, deal_folds, scatter
from mallow.evidence._many_rules import Rules, learn_rules
from mallow.evidence._many_test import run_test_of_many
from mallow.evidence._space import AXES, PARTITIONS_OF_MANY, find_centres, label_points, leading_axes
from mallow.evidence._stack import round_scores, stack_weights
from mallow.evidence._units import Indices, Units
from mallow.theory import Array

if TYPE_CHECKING:
    from mallow.evidence._identity import IdentityTest


_GRID_ROWS = 2**12  # chosen: rows that the grid and the bins are made from
_STACK_ROWS = 2**15  # chosen: rows that the weights of the views are fitted on
_TEST_UNITS = 2**14  # chosen: units whose sides are exchanged in the test; all would take memory for 500 signs each
_CELLS = ((512, 20), (1024, 10), (math.inf, 5))  # chosen: up to so wide, so many cells; each takes memory
_GROUPINGS = 8  # chosen: of cells into folds; seeds then differ little
_POINT_BITS = 10  # to which points are rounded for bins
_LONGEST = 2048.0  # the product of two vectors as long is 2^22
_AXIS_BITS = 12  # to which axes are rounded: processors that differ in their last digits give the same bins


Result = TypeVar("Result")


class Options(Protocol):
    """What a `Witness` says about its views and folds."""

    @property
    def strengths(self) -> tuple[float, ...]:
        """Of the linear discriminants."""

    @property
    def variances(self) -> bool:
        """Whether to look at variances."""

    @property
    def bins(self) -> bool:
        """Whether to look at bins."""

    @property
    def folds(self) -> int:
        """The number of folds."""


class ManyLearner:
    """The reference and its systems, ready for a witness of any of them.

    See `Learner` for the meaning of its scores.
    """

    tolerance = 0.0
    together = False  # its test and its scores take memory

    def __init__(self, witness: Options, sets: Sequence[Features | RowSource], units: Units, seed: int) -> None:
        self.witness, self.units = witness, units
        self._rows: list[RowSource] = [ArrayRows(own) if isinstance(own, np.ndarray) else own for own in sets]
        self._seed = seed
        unit = np.concatenate(units.sets)
        is_reference = np.arange(len(unit)) < len(sets[0])
        width = self._rows[0].width
        most = next(cells for limit, cells in _CELLS if width <= limit)
        cells = max(1, most // witness.folds) * witness.folds
        dealt = deal_folds(unit, units.keys, is_reference, folds=cells, assignments=1, seed=seed)
        cuts = np.cumsum([len(rows) for rows in sets])[:-1]
        self._cell = np.split(dealt.of_row[0].astype(np.uint8), cuts)
        self._groupings = _group(cells, witness.folds, seed)
        present = np.flatnonzero(np.bincount(unit))  # not the units of systems beside these
        order = scatter(units.keys[present] ^ scatter(np.array([seed % 2**63], np.uint64), 0)[0], 1)
        rank = np.zeros(units.count, np.int64)
        rank[present[np.argsort(order, kind="stable")]] = np.arange(len(present))
        self._count = len(present)
        self._rank = [rank[own] for own in units.sets]  # the place of each row's unit in an order by keys alone
        sample = self._first_rows(_GRID_ROWS)
        self._grid = find_coarse_grid(self._rows, sample)
        self._sums: CellSums = sum_cells(self._rows, self._cell, units.sets, cells, self._grid)
        self._metrics = Metrics(self._sums)
        self._labels = (
            self._find_bins(sample) if witness.bins else [np.empty((0, len(rows)), np.uint8) for rows in sets]
        )

    def scores(self, *systems: int) -> tuple[Array, ...]:
        """h of every sample of the reference and of the systems, as `Learner.scores` has it."""
        counted = self._count_rows()
        cells = len(self._sums.counts)
        without = self._learn_rules(1.0 - np.eye(cells), systems, counted)  # the own cell
        part = self._stack_part(systems)
        weights = np.zeros((cells, len(without.constant), cells))
        for grouping in self._groupings:
            factors = self._stack(grouping, part, systems, counted)
            weights[np.arange(cells), :, np.arange(cells)] += factors[grouping] / len(self._groupings)
        mixed = without.mix(weights)
        scores = []
        for place in (0, *systems):
            own = np.empty(len(self._rows[place]))
            along = self._sums.lengths[place], self._labels[place], self._cell[place]
            for at, judged in self._rows[place].scan(partial(_judge, self._grid, mixed), *along):
                own[at] = judged
            scores.append(round_scores(own, self._count))
        return tuple(scores)

    def test(self, system: int, *, permutations: int, seed: int) -> IdentityTest:
        """The test of identity of the reference and one system, on so many units as memory allows."""
        places = (0, system)
        rows = [np.flatnonzero(self._rank[place] < _TEST_UNITS) for place in places]
        sources, at = [self._rows[place] for place in places], rows
        if not all(isinstance(own, ArrayRows) for own in sources):  # many small reads would take long
            sources = [ArrayRows(own.take(some)) for own, some in zip(sources, rows, strict=True)]
            at = [np.arange(len(some)) for some in rows]
        return run_test_of_many(
            sources,
            at,
            [self._rank[place][some] for place, some in zip(places, rows, strict=True)],
            self._grid,
            self._metrics,
            np.concatenate([self._labels[0][:, rows[0]], self._labels[system][:, rows[1]]], axis=1),
            permutations=permutations,
            seed=seed,
        )

    def _first_rows(self, count: int) -> list[Indices]:
        """About so many rows of all sets, those of the first units, in the order of their units."""
        ranks = np.concatenate(self._rank)
        last = np.partition(ranks, min(count, len(ranks)) - 1)[min(count, len(ranks)) - 1]
        rows = [np.flatnonzero(own <= last) for own in self._rank]
        return [own[np.argsort(rank[own], kind="stable")] for own, rank in zip(rows, self._rank, strict=True)]

    def _find_bins(self, sample: Sequence[Indices]) -> list[NDArray[np.uint8]]:
        """The bins of the rows of each set in all partitions, (partitions, rows)."""
        axes = _leading(self._metrics.covariance)
        taken = [self._grid.integers(self._rows[place].take(rows)) for place, rows in enumerate(sample)]
        longest = max(float(_squares(own.astype(np.float64) @ axes).max()) for own in taken)
        exponent = max(0, math.ceil(math.log2(max(longest, 1.0)) / 2) - _POINT_BITS)
        points = np.concatenate([_points(own, axes, exponent) for own in taken])
        unit = np.concatenate([self._rank[place][rows] for place, rows in enumerate(sample)])
        order = np.lexsort((*points.T, unit))  # within a unit by values, so that sides play no part
        pair = len(self._rows[0]) + max(len(rows) for rows in self._rows[1:])
        unrounded = find_centres(points[order], unit[order], pair, self._seed, partitions=PARTITIONS_OF_MANY)
        centres = [np.rint(own) for own in unrounded]
        labels = []
        for rows in self._rows:
            own = np.empty((len(centres), len(rows)), np.uint8)
            for at, some in rows.scan(partial(_label, self._grid, axes, exponent, centres)):
                own[:, at] = some
            labels.append(own)
        return labels

    def _count_rows(self) -> tuple[list[Array], Array, Array]:
        """Rows by cell, set and bin, for each partition; sums of squared lengths by cell and set; of their squares."""
        cells = len(self._sums.counts)
        cell = [own.astype(np.int64) for own in self._cell]
        counts = []
        for partition in range(len(self._labels[0])):
            bins = 1 + max(int(own[partition].max()) for own in self._labels)
            each = [
                np.bincount(own * bins + labels[partition], minlength=cells * bins).reshape(cells, bins)
                for own, labels in zip(cell, self._labels, strict=True)
            ]
            counts.append(np.stack(each, axis=1).astype(np.float64))
        lengths = [own.astype(np.float64) for own in self._sums.lengths]
        sums, squares = (
            np.stack([np.bincount(own, values, cells) for own, values in zip(cell, each, strict=True)], axis=1)
            for each in (lengths, [own**2 for own in lengths])
        )
        return counts, sums.astype(np.float64), squares.astype(np.float64)

    def _learn_rules(self, kept: Array, systems: Sequence[int], counted: tuple[list[Array], Array, Array]) -> Rules:
        """Rules that are learned from the cells ``kept`` (rules, cells)."""
        counts, *length_sums = counted
        return learn_rules(
            self._sums,
            self._metrics,
            kept,
            systems,
            strengths=self.witness.strengths,
            variances=self.witness.variances,
            bin_counts=[counts[low : low + PARTITIONS_OF_MANY] for low in range(0, len(counts), PARTITIONS_OF_MANY)],
            length_sums=(length_sums[0], length_sums[1]),
        )

    def _stack_part(self, systems: Sequence[int]) -> _Part:
        """The rows that weights are fitted on."""
        used, chosen = (0, *systems), self._first_rows(_STACK_ROWS)
        place = np.concatenate([np.full(len(chosen[own]), own) for own in used])
        unit = np.concatenate([self._rank[own][chosen[own]] for own in used])
        lengths, cell = (
            np.concatenate([of[own][chosen[own]] for own in used]) for of in (self._sums.lengths, self._cell)
        )
        labels = np.concatenate([self._labels[own][:, chosen[own]] for own in used], axis=1)
        order = np.argsort(unit, kind="stable")
        weight = 1.0 / np.bincount(place)[place]  # all systems count alike; each side, half
        position = np.empty_like(order)  # each row goes to its place at once: no second copy
        position[order] = np.arange(len(order))
        rows: ArrayRows | _Integers
        if len(self._groupings) == 1 and all(isinstance(self._rows[own], ArrayRows) for own in used):
            at = np.concatenate([chosen[own] for own in used])  # read once: not held as integers
            rows = _Integers(self._grid, self._rows, place[order], at[order])
        else:
            integers, low = np.empty((len(order), self._rows[0].width), np.int8), 0
            for own in used:
                high = low + len(chosen[own])
                _put_integers(self._grid, self._rows[own], chosen[own], integers, position[low:high])
                low = high
            rows = ArrayRows(integers)
        return _Part(rows, lengths[order], labels[:, order], cell[order], place[order] == 0, weight[order], unit[order])

    def _stack(
        self, grouping: Indices, part: _Part, systems: Sequence[int], counted: tuple[list[Array], Array, Array]
    ) -> Array:
        """The weights of the views for the rows of each fold, (folds, views).

        ``grouping`` has the fold of each cell.
        """
        folds = Folds(np.empty((0, 0), np.int64), self.witness.folds)
        rules = self._learn_rules(folds.kept[:, grouping], systems, counted)
        views = np.empty((*rules.constant.shape, len(part.unit)), np.float32)
        for at, scored in part.rows.scan(partial(_score_integers, rules), part.lengths, part.labels):
            views[:, :, at] = scored
        weights = partial(
            stack_weights,
            views,
            fold=grouping[part.cell.astype(np.int64)],
            folds=folds,
            is_reference=part.is_reference,
            weight=part.weight,
            unit=part.unit,
        )
        return np.stack([weights(k) for k in range(folds.count)])


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of the reference and the systems, in the order of their units."""

    rows: ArrayRows | _Integers  # as integers
    lengths: NDArray[np.int32]
    labels: NDArray[np.uint8]
    cell: NDArray[np.uint8]
    is_reference: NDArray[np.bool_]
    weight: Array
    unit: Indices


@dataclass(frozen=True, eq=False)
class _Integers:
    """Some rows of several arrays, which become integers when they are read."""

    grid: CoarseGrid
    sources: Sequence[RowSource]
    place: Indices  # of each row: which array
    row: Indices  # and where in it

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """``function(integers, *along)`` for blocks of rows; see `Rows.scan`."""

        def read(numbers: Indices, *own: NDArray[Any]) -> Result:
            place, row = self.place[numbers], self.row[numbers]
            integers = np.empty((len(numbers), self.sources[0].width), np.int8)
            for source in np.unique(place):
                integers[place == source] = self.grid.integers(self.sources[source].take(row[place == source]))
            return function(integers, *own)

        yield from ArrayRows(np.arange(len(self.row))).scan(read, *along)


def _put_integers(
    grid: CoarseGrid, source: RowSource, places: Indices, integers: NDArray[np.int8], position: Indices
) -> None:
    """Put some rows, as integers, to their positions. Arrays are read in parts; other sources only once."""
    step = ROWS if isinstance(source, ArrayRows) else max(len(places), 1)
    for low in range(0, len(places), step):
        at = slice(low, low + step)
        integers[position[at]] = grid.integers(source.take(places[at]))


def _group(cells: int, folds: int, seed: int) -> list[Indices]:
    """The fold of each cell, in several groupings of cells into folds."""
    if cells == folds:
        return [np.arange(cells)]
    each = np.repeat(np.arange(folds), cells // folds)
    return [np.random.default_rng([seed, 4, number]).permutation(each) for number in range(_GROUPINGS)]


def _score(
    grid: CoarseGrid, rules: Rules, rows: Features, lengths: NDArray[np.int32], labels: NDArray[np.uint8]
) -> Array:
    """The scores of rows by all rules, (views, rules, rows)."""
    return _score_integers(rules, grid.integers(rows), lengths, labels)


def _score_integers(
    rules: Rules, integers: NDArray[Any], lengths: NDArray[np.int32], labels: NDArray[np.uint8]
) -> Array:
    return rules.score(integers, lengths.astype(np.float64), labels.astype(np.int64))


def _judge(
    grid: CoarseGrid,
    mixed: Rules,
    rows: Features,
    lengths: NDArray[np.int32],
    labels: NDArray[np.uint8],
    cell: NDArray[np.uint8],
) -> Array:
    """h of rows by the rule without their own cell, before it is rounded."""
    parts = []
    for low in range(0, len(rows), ROWS):
        at = slice(low, low + ROWS)
        every = _score(grid, mixed, rows[at], lengths[at], labels[:, at])[:, 0]
        parts.append(np.take_along_axis(every, cell[None, at].astype(np.int64), axis=0)[0])
    return np.concatenate(parts)


def _squares(points: Values) -> Array:
    """The squared lengths of points."""
    squares: Array = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    return squares


def _points(integers: Values, axes: Array, exponent: int) -> Values:
    """Rows on the axes of the bins, as integers of length 2048 at most.

    Products of two of them are exact in float32.
    """
    points = np.rint(np.ldexp(integers.astype(np.float64) @ axes, -exponent))
    lengths = np.sqrt(_squares(points))
    far = np.flatnonzero(lengths > _LONGEST)
    if far.size:  # much farther away than all of the sample
        points[far] = np.trunc(points[far] * (_LONGEST / lengths[far])[:, None])
    return points.astype(np.float32)


def _label(
    grid: CoarseGrid, axes: Array, exponent: int, centres: Sequence[Values], rows: Features
) -> NDArray[np.uint8]:
    """The bins of rows in all partitions, (partitions, rows)."""
    labels = np.empty((len(centres), len(rows)), np.uint8)
    for low in range(0, len(rows), ROWS):
        points = _points(grid.integers(rows[low : low + ROWS]), axes, exponent)
        for number, table in enumerate(centres):
            labels[number, low : low + ROWS] = label_points(points, table)
    return labels


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
