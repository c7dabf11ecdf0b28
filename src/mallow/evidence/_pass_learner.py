"""Held-out scores of many rows, which are read in passes and become small integers (`_coarse.py`).

The first pass finds covariances. The second labels rows with their bins and adds up the sums of cells. The last scores
rows. Sums of integers are exact, so they are the same in any order and for any division of the rows.

If units are uneven (`are_uneven`), there are two kinds of axes, bins and products: rows in even cells are judged by
those that odd cells determine, and the other way round (`SpaceViews` has the reason).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.engine import round_to
from mallow.estimate import Features
from mallow.evidence._blocks import ROWS, ArrayRows, Values
from mallow.evidence._blocks import Rows as RowSource
from mallow.evidence._coarse import CoarseGrid, HalfMetrics, add_moments, find_coarse_grid
from mallow.evidence._identity import Draws, IdentityTest
from mallow.evidence._learner import Learner, Options, Part
from mallow.evidence._many_test import run_test_of_many
from mallow.evidence._rules import (
    PRODUCT_STRENGTHS,
    CellSums,
    Coordinates,
    Rules,
    Teacher,
    count_bins,
    count_product_axes,
    multiply_axes,
    no_sums,
    sum_cells,
)
from mallow.evidence._space import AXES, PARTITIONS_OF_MANY, find_centres, label_points, leading_axes
from mallow.evidence._units import Cells, Indices, Numbers, Units, are_uneven, deal_cells, scatter
from mallow.theory import Array

_MOST_ROWS = 2**12  # chosen: rows from which the grid and the bins are computed
_STACK_ROWS = 2**15  # chosen: rows on which the weights of the views are fitted
_TEST_UNITS = 2**14  # chosen: units whose sides are exchanged in the test. Each takes memory for 500 signs
_POINT_BITS = 10  # bits to which points are rounded for bins
_LONGEST = 2048.0  # the product of two vectors of this length is 2^22
_AXIS_BITS = 12  # bits to which axes are rounded, so that processors that differ in the last digits give the same bins


@dataclass(frozen=True, eq=False)
class Reader:
    """The map from rows to coordinates that are small integers. It is sent to other processes.

    Attributes
    ----------
    grid : CoarseGrid
        The grid of the features.
    axes : array (d, axes)
        Leading components of the integers.
    exponent : int
        Components are divided by 2**exponent.
    centres : list of arrays (bins, axes)
        The centres of each partition.
    deviations : array (axes,)
        Standard deviations of the components that are multiplied.
    product_grid : CoarseGrid or None
    """

    grid: CoarseGrid
    axes: Array
    exponent: int
    centres: list[Values]
    deviations: Array
    product_grid: CoarseGrid | None

    def points(self, integers: Values) -> Values:
        """Rows on the leading axes, as integers of length 2048 at most: products of two are exact in float32."""
        points = np.rint(np.ldexp(integers.astype(np.float64) @ self.axes, -self.exponent))
        lengths = np.sqrt(np.einsum("ij,ij->i", points, points))
        far = np.flatnonzero(lengths > _LONGEST)
        if far.size:  # much farther away than the whole sample
            points[far] = np.trunc(points[far] * (_LONGEST / lengths[far])[:, None])
        return points.astype(np.float32)

    def multiply(self, points: Values) -> Values:
        """The products of the first components, not yet integers."""
        return multiply_axes(points[:, : len(self.deviations)] / self.deviations)

    def products(self, points: Values) -> Values:
        """The products of the first components, as integers."""
        if self.product_grid is None:
            return np.empty((len(points), 0), np.float32)
        return self.product_grid.integers(self.multiply(points))

    def labels(self, points: Values) -> NDArray[np.uint8]:
        """The bins of points in all partitions, (partitions, rows)."""
        labels = np.empty((len(self.centres), len(points)), np.uint8)
        for number, centres in enumerate(self.centres):
            labels[number] = label_points(points, centres)
        return labels

    def coordinates(self, integers: Values, labels: NDArray[np.uint8]) -> Coordinates:
        """Rows as integers in all coordinates, given their bins in all partitions."""
        return Coordinates(integers, self.products(self.points(integers)), integers, split_by_view(labels))


def split_by_view(labels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], ...]:
    """The bins in all partitions (partitions, rows), for each view by bins."""
    return tuple(labels[low : low + PARTITIONS_OF_MANY] for low in range(0, len(labels), PARTITIONS_OF_MANY))


class PassLearner(Learner):
    """A learner of many rows, which are read in passes: sums of each cell, bins and products, scores."""

    together = False  # its test and its scores take memory

    def __init__(self, witness: Options, sets: Sequence[Features | RowSource], units: Units) -> None:
        super().__init__(witness, units, deal_cells(units, witness.folds))
        self._sources: list[RowSource] = [ArrayRows(rows) if isinstance(rows, np.ndarray) else rows for rows in sets]
        unit = np.concatenate(units.sets)
        present = np.flatnonzero(np.bincount(unit))  # without the units of other systems
        order = scatter(units.keys[present], 1)
        rank = np.zeros(units.count, np.int64)
        rank[present[np.argsort(order, kind="stable")]] = np.arange(len(present))
        self._rank = [rank[numbers] for numbers in units.sets]  # of each row's unit, in an order given by keys
        sample = self._first_rows(_MOST_ROWS)
        grid = find_coarse_grid(self._sources, sample)
        self._metrics = self._find_metrics(grid)
        self._reader = self._find_reader(grid, sample, None)
        self._is_crossed = self._cells is not None and are_uneven(units)
        self._readers = [self._find_reader(grid, sample, odd) for odd in (1, 0)] if self._is_crossed else [self._reader]
        self._summed = [self._sum_cells(reader) for reader in self._readers]

    def _first_rows(self, count: int) -> list[Indices]:
        """About this many rows of all sets, from the first units, in the order of their units."""
        ranks = np.concatenate(self._rank)
        last = np.partition(ranks, min(count, len(ranks)) - 1)[min(count, len(ranks)) - 1]
        rows = [np.flatnonzero(rank <= last) for rank in self._rank]
        return [first[np.argsort(rank[first], kind="stable")] for first, rank in zip(rows, self._rank, strict=True)]

    def _dealt_cells(self) -> Cells:
        """The cells, or a single cell if nothing is learned, since the test needs sums anyway."""
        if self._cells is not None:
            return self._cells
        return Cells([np.zeros(len(source), np.uint8) for source in self._sources], np.ones((1, len(self._sources))))

    def _find_metrics(self, grid: CoarseGrid) -> HalfMetrics:
        """The metrics of the features of all sets together."""
        width = self._sources[0].width
        tables, totals, cells = np.zeros((2, width, width)), np.zeros((2, width)), self._dealt_cells()
        for source, cell in zip(self._sources, cells.of_set, strict=True):
            if isinstance(source, ArrayRows):  # a table for each chunk costs little beside the products of its rows
                source = replace(source, step=max(ROWS, 4 * width))
            for _, (products, sums) in source.scan(partial(_moments, grid), cell):
                tables += products
                totals += sums
        return HalfMetrics(tables, totals, cells.of_set)

    def _find_reader(self, grid: CoarseGrid, sample: Sequence[Indices], half: int | None) -> Reader:
        """Axes, bins and products, from a sample of the rows: of even cells (0), of odd cells (1), or of all (None)."""
        if half is not None:
            cells = self._dealt_cells().of_set
            sample = [rows[cell[rows] % 2 == half] for rows, cell in zip(sample, cells, strict=True)]
        axes = _leading(self._metrics.of(half).covariance)
        taken = [grid.integers(source.take(rows)) for source, rows in zip(self._sources, sample, strict=True)]
        integers = np.concatenate(taken)
        lengths = np.square(integers.astype(np.float64) @ axes).sum(axis=1)
        exponent = max(0, math.ceil(math.log2(max(float(lengths.max()), 1.0)) / 2) - _POINT_BITS)
        reader = Reader(grid, axes, exponent, [], np.empty(0), None)
        points = reader.points(integers)
        unit = np.concatenate([rank[rows] for rank, rows in zip(self._rank, sample, strict=True)])
        order = np.lexsort((*points.T, unit))  # within a unit by values, so that sides do not matter
        if self.witness.bins:
            pair = len(self._sources[0]) + max(len(rows) for rows in self._sources[1:])
            of_units = np.unique(unit[order], return_inverse=True)[1]
            centres = find_centres(points[order], of_units, pair, partitions=PARTITIONS_OF_MANY)
            reader = replace(reader, centres=[np.rint(centre) for centre in centres])
        if not self.witness.products:
            return reader
        count = count_product_axes(axes.shape[1], len(points))
        deviations = np.rint(np.maximum(points[:, :count].astype(np.float64).std(axis=0), 1.0))
        products = ArrayRows(multiply_axes(points[:, :count] / deviations))
        product_grid = find_coarse_grid([products], [np.arange(len(points))])
        return replace(reader, deviations=deviations, product_grid=product_grid)

    def _sum_cells(self, reader: Reader) -> tuple[list[NDArray[np.uint8]], list[CellSums], HalfMetrics]:
        """The bins of the rows of each set, the sums of its cells, and the metrics of the products of components."""
        cells = self._dealt_cells()
        count = 0 if reader.product_grid is None else len(reader.product_grid.centre)
        bins = [len(reader.centres[low]) for low in range(0, len(reader.centres), PARTITIONS_OF_MANY)]
        tables, totals = np.zeros((2, count, count)), np.zeros((2, count))
        labels, sums_of_sets = [], []
        for source, cell in zip(self._sources, cells.of_set, strict=True):
            of_set = np.empty((len(reader.centres), len(source)), np.uint8)
            sums = no_sums(len(cells), source.width, count)
            for at, (of_rows, part, *moments) in source.scan(partial(_sum_cells, reader, len(cells)), cell):
                of_set[:, at] = of_rows
                sums += part
                tables += moments[0]
                totals += moments[1]
            counts = zip(split_by_view(of_set), bins, strict=True)
            of_bins = tuple(count_bins(of_view, number, cell, len(cells)) for of_view, number in counts)
            labels.append(of_set)
            sums_of_sets.append(replace(sums, bins=of_bins))
        return labels, sums_of_sets, HalfMetrics(tables, totals, cells.of_set)

    def test(self, system: int, draws: Draws) -> IdentityTest:
        """The test of identity of the reference and one system, on as many units as memory allows."""
        sides = (0, system)
        rows = [np.flatnonzero(self._rank[number] < _TEST_UNITS) for number in sides]
        sources, at = [self._sources[number] for number in sides], rows
        if not all(isinstance(source, ArrayRows) for source in sources):  # many small reads would take long
            sources = [ArrayRows(source.take(some)) for source, some in zip(sources, rows, strict=True)]
            at = [np.arange(len(some)) for some in rows]
        if self._is_crossed:  # which cells are odd depends on the sides, and bins of the test must not
            labels = [_label(self._reader, source.take(some)) for source, some in zip(sources, at, strict=True)]
        else:
            labels = [self._summed[0][0][number][:, some] for number, some in zip(sides, rows, strict=True)]
        return run_test_of_many(
            sources,
            at,
            [self._rank[number][some] for number, some in zip(sides, rows, strict=True)],
            self._reader.grid,
            self._metrics.whole,
            np.concatenate(labels, axis=1),
            draws,
        )

    def _teachers(self, cells: Cells) -> Sequence[Teacher]:
        strengths = self.witness.strengths, PRODUCT_STRENGTHS if self._reader.product_grid is not None else ()
        teacher: Teacher | None = None
        for _, sums, of_products in reversed(self._summed):
            solvers = self._metrics.solve, of_products.solve
            teacher = Teacher(sums, cells.units, solvers, strengths, self.witness.variances, teacher)
        return [] if teacher is None else [teacher]

    def _part(self, cells: Cells, systems: Sequence[int]) -> Part:
        numbers, chosen = (0, *systems), self._first_rows(_STACK_ROWS)
        set_of_row = np.concatenate([np.full(len(chosen[number]), number) for number in numbers])
        unit = np.concatenate([self._rank[number][chosen[number]] for number in numbers])
        cell = np.concatenate([cells.of_set[number][chosen[number]] for number in numbers])
        order = np.argsort(unit, kind="stable")
        weight = 1.0 / np.bincount(set_of_row)[set_of_row]  # all systems have the same weight
        position = np.empty_like(order)  # each row goes directly to its position, to avoid a second copy
        position[order] = np.arange(len(order))
        integers, first = np.empty((len(order), self._sources[0].width), np.int8), 0
        for number in numbers:
            rows, source = chosen[number], self._sources[number]
            step = ROWS if isinstance(source, ArrayRows) else max(len(rows), 1)
            for low in range(0, len(rows), step):
                some = rows[low : low + step]
                to = position[first + low : first + low + len(some)]
                integers[to] = self._reader.grid.integers(source.take(some))
            first += len(rows)
        in_order, along = ArrayRows(integers), []
        for reader, (labels, _, _) in zip(self._readers, self._summed, strict=True):
            products = [of_rows.T for _, of_rows in in_order.scan(partial(_multiply, reader))]
            of_chosen = np.concatenate([labels[number][:, chosen[number]] for number in numbers], axis=1)
            along.append((of_chosen[:, order], np.concatenate(products, axis=1)))
        of_other = np.flatnonzero(cell[order] % 2 == 1)

        def score(rules: Sequence[Rules]) -> NDArray[np.floating[Any]]:
            of_readers = [
                np.concatenate([scored for _, scored in in_order.scan(partial(_score, each), *own)], axis=-1)
                for each, own in zip(rules[0].both, along, strict=True)
            ]
            for scores in of_readers[1:]:
                of_readers[0][:, :, of_other] = scores[:, :, of_other]
            return of_readers[0]

        return Part(score, cell[order], unit[order], set_of_row[order] == 0, weight[order])

    def _judge(
        self, rules: Sequence[Rules], weights: Sequence[Array], cells: Cells, systems: Sequence[int]
    ) -> list[list[Array]]:
        scores = []
        for number in (0, *systems):
            h, source = np.empty(len(self._sources[number])), self._sources[number]
            along = np.concatenate([labels[number] for labels, _, _ in self._summed]), cells.of_set[number]
            for at, judged in source.scan(partial(_judge, self._readers, rules[0].both, weights[0]), *along):
                h[at] = judged
            scores.append(h)
        return [scores]


def _same(products: Values, _: int) -> Values:
    """With many rows, one unit more or less in the metric makes no difference."""
    return products


def _multiply(reader: Reader, integers: NDArray[np.int8]) -> NDArray[np.int8]:
    """The products of the first components of rows."""
    return reader.products(reader.points(integers.astype(np.float32))).astype(np.int8)


def _score(rules: Rules, integers: NDArray[np.int8], labels: NDArray[np.uint8], products: NDArray[np.int8]) -> Values:
    points = integers.astype(np.float64)
    rows = Coordinates(points, products.T.astype(np.float64, order="C"), points, split_by_view(labels))
    return rules.score(rows, _same).astype(np.float32)


def _judge(
    readers: Sequence[Reader],
    rules: Sequence[Rules],
    weights: Array,
    rows: Features,
    labels: NDArray[np.uint8],
    cell: Numbers,
) -> Array:
    """h of rows, before rounding, by the rules that were learned without their cells."""
    h = np.empty(len(rows))
    of_readers = np.split(labels, len(readers))
    for low in range(0, len(rows), ROWS):
        block = np.arange(low, min(low + ROWS, len(rows)))
        for number, (reader, learned, of_reader) in enumerate(zip(readers, rules, of_readers, strict=True)):
            at = block if len(readers) == 1 else block[cell[block] % 2 == number]
            if not at.size:
                continue
            coordinates = reader.coordinates(reader.grid.integers(rows[at]), of_reader[:, at])
            judged = learned.judge(coordinates, cell[at], _same)
            h[at] = np.einsum("rv,vr->r", weights[cell[at]], judged)
    return h


def _label(reader: Reader, rows: Features) -> NDArray[np.uint8]:
    """The bins of rows, (partitions, rows)."""
    blocks = [reader.grid.integers(rows[low : low + ROWS]) for low in range(0, len(rows), ROWS)]
    return np.concatenate([reader.labels(reader.points(block)) for block in blocks], axis=1)


def _moments(grid: CoarseGrid, rows: Features, cell: Numbers) -> tuple[Array, Array]:
    """Products and sums of the integers of rows, by half of the cells."""
    width = rows.shape[1]
    tables, totals = np.zeros((2, width, width)), np.zeros((2, width))
    for low in range(0, len(rows), ROWS):
        add_moments(grid.integers(rows[low : low + ROWS]), cell[low : low + ROWS], tables, totals)
    return tables, totals


def _sum_cells(
    reader: Reader, cells: int, rows: Features, cell: Numbers
) -> tuple[NDArray[np.uint8], CellSums, Array, Array]:
    """Bins of rows, (partitions, rows), the sums of cells except bins, and products and sums of products by half."""
    count = 0 if reader.product_grid is None else len(reader.product_grid.centre)
    labels = np.empty((len(reader.centres), len(rows)), np.uint8)
    tables, totals = np.zeros((2, count, count)), np.zeros((2, count))
    sums = no_sums(cells, rows.shape[1], count)
    for low in range(0, len(rows), ROWS):
        at = slice(low, low + ROWS)
        integers = reader.grid.integers(rows[at])
        points = reader.points(integers)
        labels[:, at] = reader.labels(points)
        products = reader.products(points)
        add_moments(products, cell[at], tables, totals)
        sums += sum_cells(Coordinates(integers, products, integers, ()), [], cell[at], cells)
    return labels, sums, tables, totals


def _leading(covariance: Array) -> Array:
    """The axes for the bins, (d, axes), as integers."""
    width = len(covariance)
    if width <= 4 * AXES:
        variances, axes = np.linalg.eigh(covariance)
    else:
        from scipy.sparse.linalg import eigsh

        start_vector = np.random.default_rng(0).standard_normal(width)
        variances, axes = eigsh(covariance, AXES, v0=start_vector, tol=1e-12)
    variances, axes = variances[::-1], axes[:, ::-1]
    axes = axes[:, : leading_axes(variances, float(np.trace(covariance)))]
    largest = np.abs(axes).argmax(axis=0)
    return round_to(axes * np.sign(axes[largest, np.arange(axes.shape[1])]), -_AXIS_BITS)
