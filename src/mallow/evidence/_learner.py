"""Held-out scores: what judges a sample has seen nothing of its unit.

Units are dealt into up to 100 cells. A row is judged by rules that were learned without its cell, from sums over all
other cells (`_rules.py`). The weights of the views, which also calibrate them, come from folds of whole cells
(`_stack.py`): they are fitted outside the fold of the row, on scores by rules that were learned without both this fold
and that of the row scored. Several groupings of cells into folds are averaged.

Rows are in memory, or so many that they are read in passes and become small integers (`_coarse.py`): sums are then
exact, so that they are the same in any order and any division of the rows. Nothing depends on a seed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, round_to, single_threaded_blas, start
from mallow.errors import InputError
from mallow.estimate import Features
from mallow.evidence._blocks import ROWS, ArrayRows, Numbers, Values
from mallow.evidence._blocks import Rows as RowSource
from mallow.evidence._coarse import CoarseGrid, Metric, find_coarse_grid
from mallow.evidence._folds import Folds, deal_folds, scatter
from mallow.evidence._identity import IdentityTest, add_within, find_within, run_identity_test
from mallow.evidence._many_test import run_test_of_many
from mallow.evidence._rules import (
    CellSums,
    Coordinates,
    Rules,
    Teacher,
    count_bins,
    sum_by_cell,
    sum_lengths,
)
from mallow.evidence._space import (
    AXES,
    PARTITIONS_OF_MANY,
    LeaveUnitOut,
    Space,
    find_centres,
    find_spaces,
    label_points,
    leading_axes,
    principal_axes,
    regularised_inverse,
)
from mallow.evidence._stack import STEP, round_scores, stack_weights
from mallow.evidence._units import Indices, Units
from mallow.theory import Array

_CELLS = 100  # chosen: with more, rules are hardly better
_GROUPINGS = ((8000, 16), (math.inf, 8))  # chosen: up to so many samples, so many groupings of cells into folds
_PRODUCT_AXES = 20  # chosen: leading components whose products are looked at
_PRODUCT_STRENGTHS = (0.1, 1.0)  # chosen
_FAR = 4.0  # chosen: standard deviations at which components are cut before they are multiplied
_SEED = 0

View = Callable[[Features, Features, Features], Any]
"""(reference samples, model samples, other samples) → one number for each of the others, larger for those that look
more like the reference; learned from the first two alone."""


class Options(Protocol):
    """What a `Witness` says about its views and folds."""

    @property
    def strengths(self) -> tuple[float, ...]:
        """Of the linear discriminants."""

    @property
    def variances(self) -> bool:
        """Whether to look at variances."""

    @property
    def products(self) -> bool:
        """Whether to look at products of leading components."""

    @property
    def bins(self) -> bool:
        """Whether to look at bins."""

    @property
    def views(self) -> tuple[View, ...]:
        """A user's own views."""

    @property
    def folds(self) -> int:
        """The number of folds."""

    @property
    def assignments(self) -> int | None:
        """Groupings of cells into folds that are averaged."""

    @property
    def independent_samples(self) -> bool:
        """Whether samples are independent given their unit."""


@dataclass(frozen=True, eq=False)
class Cells:
    """How the units of some sets are dealt into cells.

    Attributes
    ----------
    of_set : sequence of int arrays
        The cell of each row of each set.
    units : array (cells, sets)
        How many units each cell has of each set.
    """

    of_set: Sequence[Numbers]
    units: Array

    def __len__(self) -> int:
        return len(self.units)


def deal_cells(units: Units, folds: int) -> Cells | None:
    """Units dealt into cells by their keys; None where a set has fewer units than there are folds."""
    each = [np.unique(own, return_index=True) for own in units.sets]
    least = min(len(names) for names, _ in each)
    if least < folds:
        return None
    cells = folds * min(max(_CELLS // folds, 1), least // folds)
    unit = np.concatenate(units.sets)
    is_reference = np.arange(len(unit)) < len(units.sets[0])
    dealt = deal_folds(unit, units.keys, is_reference, folds=cells).astype(np.min_scalar_type(cells))
    of_set = np.split(dealt, np.cumsum([len(own) for own in units.sets])[:-1])
    counts = [np.bincount(own[first], minlength=cells) for own, (_, first) in zip(of_set, each, strict=True)]
    return Cells(of_set, np.stack(counts, axis=1).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of the reference and of some systems, on which the weights of the views are fitted.

    Attributes
    ----------
    score : function
        The rules of each space → what each of them says of each row, (views, rules, rows).
    cell, unit : array (rows,)
    is_reference : bool array (rows,)
    weight : array (rows,)
        All systems count alike.
    features : array (rows, d) or None
        As they came, for a user's own views.
    """

    score: Callable[[Sequence[Rules]], NDArray[np.floating[Any]]]
    cell: Numbers
    unit: Indices
    is_reference: NDArray[np.bool_]
    weight: Array
    features: Features | None = None


class Learner(ABC):
    """The reference and its systems, ready for witnesses of any pair: coordinates, bins and cells are shared."""

    together = True  # whether its test and its scores may be computed at the same time
    tolerance = 0.0  # by how much a score may differ on another processor

    def __init__(self, witness: Options, units: Units, cells: Cells | None) -> None:
        self.witness, self.units, self._cells = witness, units, cells

    @abstractmethod
    def test(self, system: int, *, permutations: int, seed: int) -> IdentityTest:
        """The test of identity of the reference and one system."""

    @abstractmethod
    def _teachers(self, cells: Cells) -> Sequence[Teacher]:
        """What the rules of each space are learned from."""

    @abstractmethod
    def _part(self, cells: Cells, systems: Sequence[int]) -> Part:
        """The rows that weights are fitted on."""

    @abstractmethod
    def _judge(self, rules: Sequence[Rules], weights: Array, cells: Cells, systems: Sequence[int]) -> list[Array]:
        """h of the rows of the reference and of the systems; `weights` (cells, views) of all views by cell."""

    def scores(self, *systems: int) -> tuple[Array, ...]:
        """h of every sample of the reference and of the systems, one array each; several systems count as one model.

        All are 0 where nothing was learned, or where a side has fewer units than there are folds. No score exceeds the
        logarithm of the number of units: no sample is worth more than all others together. They are rounded to
        multiples of 2⁻¹⁰, so that they are the same on every processor.
        """
        used = (0, *systems)
        if self._cells is None:
            return tuple(np.zeros(len(self.units.sets[place])) for place in used)
        with single_threaded_blas():
            h = self._learn(self._cells, systems)
        count = sum(len(np.unique(self.units.sets[place])) for place in used)
        return tuple(round_scores(own, count) for own in h)

    def _learn(self, cells: Cells, systems: Sequence[int]) -> list[Array]:
        teachers, part = self._teachers(cells), self._part(cells, systems)

        def learn(kept: Array) -> list[Rules]:
            return [teacher.learn(kept, systems) for teacher in teachers]

        without = learn(1.0 - np.eye(len(cells)))
        folds, closed = Folds(self.witness.folds), sum(len(rules.constant) for rules in without)
        rows = sum(len(self.units.sets[place]) for place in (0, *systems))
        count = self.witness.assignments or next(number for most, number in _GROUPINGS if rows <= most)

        def fit(grouping: Indices) -> tuple[Array, Array | None]:
            """The weights of the views by cell, and what a user's own views add to h of each row."""
            fold = grouping[part.cell]
            views = part.score(learn(folds.kept[:, grouping]))
            if self.witness.views:
                views = np.concatenate(
                    [views, [_score_by_view(view, part, fold, folds) for view in self.witness.views]]
                )
            weights = np.stack(
                [
                    stack_weights(
                        views,
                        k,
                        fold,
                        folds,
                        is_reference=part.is_reference,
                        weight=part.weight,
                        unit=part.unit,
                    )
                    for k in range(folds.count)
                ]
            )
            added = _mean_over_rules(views[closed:], weights[:, closed:], fold, folds) if self.witness.views else None
            return weights[grouping, :closed], added

        groupings = _group_cells(len(cells), folds.count, count)
        weights, added = np.zeros((len(cells), closed)), np.zeros(len(part.unit))
        for own, more in ordered_map(fit, groupings, 1 if self.witness.views else cores()):
            weights += own / len(groupings)
            if more is not None:
                added += more / len(groupings)
        h = self._judge(without, weights, cells, systems)
        return h if not self.witness.views else self._add(h, added, systems)

    def _add(self, h: list[Array], added: Array, systems: Sequence[int]) -> list[Array]:
        """h and what a user's own views add, in the order of the part; rows that are read in passes have none."""
        return h


def _group_cells(cells: int, folds: int, count: int) -> list[Indices]:
    """The fold of each cell, in several groupings of cells into folds."""
    if cells == folds:
        return [np.arange(cells)]
    each = np.repeat(np.arange(folds), cells // folds)
    return [np.random.default_rng([_SEED, 4, number]).permutation(each) for number in range(count)]


def _score_by_view(view: View, part: Part, fold: Indices, folds: Folds) -> Array:
    """What a user's function, learned without both folds of each pair, says of the samples of both, (pairs, rows)."""
    features = part.features
    if features is None:
        raise InputError("`views` need features in memory.")
    scores = np.zeros((len(folds.pairs), len(fold)))
    for number, pair in enumerate(folds.pairs):
        others = np.isin(fold, pair)
        reference, model = (features[~others & side] for side in (part.is_reference, ~part.is_reference))
        values = np.asarray(view(reference, model, features[others]), dtype=np.float64)
        if values.shape != (int(others.sum()),) or not np.isfinite(values).all():
            raise InputError(
                f"`views` must return one finite number for each of {int(others.sum())} samples; "
                f"{getattr(view, '__name__', repr(view))} returned an array of shape {values.shape}."
            )
        scores[number, others] = values
    return scores


def _mean_over_rules(views: Values, weights: Array, fold: Indices, folds: Folds) -> Array:
    """The weighted sum of views for each row, by the mean of the rules that were learned without its fold."""
    total = np.zeros(len(fold))
    for k in range(folds.count):
        test = np.flatnonzero(fold == k)
        pairs = [folds.pair_without[other, k] for other in range(folds.count) if other != k]
        total[test] = weights[k] @ views[:, pairs][:, :, test].mean(axis=1)
    return total


class SpaceViews:
    """The views of one space of rows in memory."""

    def __init__(self, witness: Options, space: Space) -> None:
        self._witness, self._space = witness, space
        self._products = start(self._find_products)
        self._corrections = start(self._leave_units_out)

    def _find_products(self) -> tuple[Values, Array]:
        """The products of leading components on their principal axes, and the variance along each."""
        space = self._space
        axes = _product_axes(space.points.shape[1], space.pair) if self._witness.products else 0
        if not axes:
            return space.points[:, :0], np.empty(0)
        deviations = np.sqrt(np.maximum(space.variances[:axes], np.finfo(np.float32).tiny))
        products = multiply_axes(space.points[:, :axes] / deviations.astype(space.points.dtype))
        products -= products.mean(axis=0)
        products /= np.maximum(products.std(axis=0), np.finfo(np.float32).tiny)
        return principal_axes(products)

    def _leave_units_out(self) -> tuple[LeaveUnitOut, LeaveUnitOut]:
        """Of the points and of the products."""
        (products, variances), space = self._products.result(), self._space
        strengths = _PRODUCT_STRENGTHS if len(variances) else ()
        return (
            LeaveUnitOut(space.points, space.variances, space.unit, self._witness.strengths),
            LeaveUnitOut(products, variances, space.unit, strengths),
        )

    def correct(self, products: Values, number: int) -> Values:
        """See `Correct`."""
        of_points, of_products = self._corrections.result()
        first = len(self._witness.strengths)
        return of_points.correct(products, number) if number < first else of_products.correct(products, number - first)

    @cached_property
    def rows(self) -> Coordinates:
        """All rows of the space."""
        space = self._space
        labels = space.bins if self._witness.bins else ()
        return Coordinates(space.points, self._products.result()[0], space.columns, labels)

    def teacher(self, cells: Cells, cell_of_row: Numbers) -> Teacher:
        """What rules are learned from."""
        rows, witness = self.rows, self._witness

        def sums(places: Indices) -> CellSums:
            cell = cell_of_row[places]
            add = partial(sum_by_cell, cell=cell, cells=len(cells))
            bins = tuple(
                count_bins(labels[:, places], int(labels.max()) + 1, cell, len(cells)) for labels in rows.labels
            )
            columns = rows.columns[places]
            lengths = sum_lengths(columns, cell, len(cells))
            return CellSums(
                add(rows.points[places]), add(rows.products[places]), add(columns, squares=True), lengths, bins
            )

        variances = self._space.variances, self._products.result()[1]
        solvers = partial(_scale, variances[0]), partial(_scale, variances[1])
        strengths = witness.strengths, _PRODUCT_STRENGTHS if len(variances[1]) else ()
        every = list(ordered_map(sums, [np.sort(places) for places in self._space.places], cores()))
        return Teacher(every, cells.units, solvers, strengths, witness.variances)

    def judge(self, rules: Rules, cell_of_row: Numbers) -> Array:
        """What the rules without its cell say of each row, (views, rows)."""
        return rules.judge(self.rows, cell_of_row, self.correct)


class MemoryLearner(Learner):
    """A learner of arrays, whose columns are those of one space, or of several, one after the other."""

    def __init__(
        self, witness: Options, sets: Sequence[Features], units: Units, widths: Mapping[str, int] | None = None
    ) -> None:
        widths = widths or {"": sets[0].shape[1]}
        spaces = find_spaces(sets, units, _SEED, list(widths.values()))
        self.space, self.others = spaces[0], dict(zip(list(widths)[1:], spaces[1:], strict=True))
        keys = np.zeros(units.count, np.uint64)  # by the order of the space, which knows no unit of measurement
        for numbers, rows in zip(units.sets, self.space.places, strict=True):
            keys[numbers] = self.space.unit[rows]
        super().__init__(witness, units, deal_cells(Units(units.sets, keys), witness.folds))
        self._features = [rows[:, : self.space.columns.shape[1]] for rows in sets]
        self.tolerance = 0.0 if all(space.columns.dtype == np.float64 for space in spaces) else STEP
        self._views = [SpaceViews(witness, space) for space in spaces]

    def test(self, system: int, *, permutations: int, seed: int) -> IdentityTest:
        """The test of identity of the reference and one system."""
        units = self.units.pair(system)
        test = run_identity_test(self.space, units, system, permutations=permutations, seed=seed, others=self.others)
        if not self.witness.independent_samples:
            return test
        spaces = {"": self.space, **self.others}
        return add_within(test, find_within(spaces, units, system), permutations=permutations, seed=seed)

    @cached_property
    def _cell_of_row(self) -> Numbers:
        cell = np.zeros(len(self.space.unit), np.int64)
        for of_set, rows in zip(self._cells.of_set if self._cells else (), self.space.places, strict=True):
            cell[rows] = of_set
        return cell

    def _teachers(self, cells: Cells) -> Sequence[Teacher]:
        return [views.teacher(cells, self._cell_of_row) for views in self._views]

    def _part(self, cells: Cells, systems: Sequence[int]) -> Part:
        places = self.space.places
        weight = np.zeros(len(self.space.unit))
        for number in (0, *systems):
            weight[places[number]] = 0.5 / len(places[number]) / (len(systems) if number else 1)
        is_reference = np.zeros(len(weight), np.bool_)
        is_reference[places[0]] = True
        used = np.flatnonzero(weight)
        features = None
        if self.witness.views:
            every = np.concatenate(self._features)
            ordered = np.empty_like(every)
            ordered[np.concatenate(places)] = every
            features = ordered[used]

        def score(rules: Sequence[Rules]) -> NDArray[np.floating[Any]]:
            parts = [own.score(views.rows, views.correct) for own, views in zip(rules, self._views, strict=True)]
            scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
            return scores if len(used) == len(weight) else scores[..., used]

        return Part(score, self._cell_of_row[used], self.space.unit[used], is_reference[used], weight[used], features)

    def _judge(self, rules: Sequence[Rules], weights: Array, cells: Cells, systems: Sequence[int]) -> list[Array]:
        parts = [views.judge(own, self._cell_of_row) for own, views in zip(rules, self._views, strict=True)]
        h = np.einsum("rv,vr->r", weights[self._cell_of_row], np.concatenate(parts))
        return [h[self.space.places[number]] for number in (0, *systems)]

    def _add(self, h: list[Array], added: Array, systems: Sequence[int]) -> list[Array]:
        places = [self.space.places[number] for number in (0, *systems)]
        used = np.sort(np.concatenate(places))
        return [scores + added[np.searchsorted(used, rows)] for scores, rows in zip(h, places, strict=True)]


def _scale(variances: Array, vectors: Array, strength: float, _: Array) -> Array:
    """Vectors along principal axes times the regularised inverse of the variances."""
    return vectors * regularised_inverse(variances, strength)


def _product_axes(width: int, samples: int) -> int:
    """How many leading components are multiplied: their products are at most a quarter as many as the samples."""
    return min(width, _PRODUCT_AXES, int((math.sqrt(1.0 + 2.0 * samples) - 1.0) / 2.0))


def multiply_axes(points: Values) -> Values:
    """All products of two components, (rows, pairs), of components with standard deviation 1."""
    near = np.clip(points, -_FAR, _FAR)
    first, second = np.triu_indices(near.shape[1])
    products: Values = near[:, first] * near[:, second]
    return products


# Many rows

_MOST_ROWS = 2**12  # chosen: rows that the grid and the bins are made from
_STACK_ROWS = 2**15  # chosen: rows that the weights of the views are fitted on
_TEST_UNITS = 2**14  # chosen: units whose sides are exchanged in the test; all would take memory for 500 signs each
_POINT_BITS = 10  # to which points are rounded for bins
_LONGEST = 2048.0  # the product of two vectors as long is 2^22
_AXIS_BITS = 12  # to which axes are rounded: processors that differ in their last digits give the same bins


@dataclass(frozen=True, eq=False)
class Reader:
    """How rows become coordinates that are small integers. It travels to other processes.

    Attributes
    ----------
    grid : CoarseGrid
        Of the features.
    axes : array (d, axes)
        Leading components, of integers.
    exponent : int
        Components are divided by two to it.
    centres : list of arrays (bins, axes)
        Of each partition.
    deviations : array (axes,)
        Of the components that are multiplied.
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
        if far.size:  # much farther away than all of the sample
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

    def coordinates(self, rows: Features, labels: NDArray[np.uint8]) -> Coordinates:
        """Rows, whose bins in all partitions are known, in all coordinates."""
        integers = self.grid.integers(rows)
        views = tuple(labels[low : low + PARTITIONS_OF_MANY] for low in range(0, len(labels), PARTITIONS_OF_MANY))
        return Coordinates(integers, self.products(self.points(integers)), integers, views)


class PassLearner(Learner):
    """A learner of so many rows that they are read in passes: sums of each cell, bins and products, scores."""

    together = False  # its test and its scores take memory

    def __init__(self, witness: Options, sets: Sequence[Features | RowSource], units: Units) -> None:
        super().__init__(witness, units, deal_cells(units, witness.folds))
        self._sources: list[RowSource] = [ArrayRows(own) if isinstance(own, np.ndarray) else own for own in sets]
        unit = np.concatenate(units.sets)
        present = np.flatnonzero(np.bincount(unit))  # not the units of systems beside these
        order = scatter(units.keys[present], 1)
        rank = np.zeros(units.count, np.int64)
        rank[present[np.argsort(order, kind="stable")]] = np.arange(len(present))
        self._rank = [rank[own] for own in units.sets]  # the place of each row's unit in an order by keys alone
        sample = self._first_rows(_MOST_ROWS)
        grid = find_coarse_grid(self._sources, sample)
        self._sums, self._metrics = self._sum_features(grid)
        self.metric = self._metrics.whole
        self._reader = self._find_reader(grid, sample)
        self._labels, self._bins, self._product_sums, self._product_metrics = self._sum_products()

    def _first_rows(self, count: int) -> list[Indices]:
        """About so many rows of all sets, those of the first units, in the order of their units."""
        ranks = np.concatenate(self._rank)
        last = np.partition(ranks, min(count, len(ranks)) - 1)[min(count, len(ranks)) - 1]
        rows = [np.flatnonzero(own <= last) for own in self._rank]
        return [own[np.argsort(rank[own], kind="stable")] for own, rank in zip(rows, self._rank, strict=True)]

    def _sum_features(self, grid: CoarseGrid) -> tuple[list[tuple[Array, Array, Array]], _Metrics]:
        """Sums, sums of squares and lengths by cell of each set, and the metrics of all sets together."""
        cells, width = self._known_cells, self._sources[0].width
        total, tables = [], np.zeros((2, width, width))
        for source, cell in zip(self._sources, cells.of_set, strict=True):
            parts = np.zeros((len(cells), width)), np.zeros((len(cells), width)), np.zeros((len(cells), 3))
            for _, (products, *some) in source.scan(partial(_sum_features, grid, len(cells)), cell):
                tables += products
                for part, own in zip(parts, some, strict=True):
                    part += own
            total.append(parts)
        return total, _Metrics(tables, [own[0] for own in total], self._rows_by_cell)

    @property
    def _rows_by_cell(self) -> Array:
        cells = self._known_cells
        rows: Array = np.sum([np.bincount(own, minlength=len(cells)) for own in cells.of_set], axis=0).astype(
            np.float64
        )
        return rows

    @property
    def _known_cells(self) -> Cells:
        if self._cells is not None:
            return self._cells
        one = [np.zeros(len(own), np.uint8) for own in self._sources]  # nothing is learned, but the test needs sums
        return Cells(one, np.ones((1, len(one))))

    def _find_reader(self, grid: CoarseGrid, sample: Sequence[Indices]) -> Reader:
        """Axes, bins and products, from a sample of the rows."""
        axes = _leading(self.metric.covariance)
        taken = [grid.integers(own.take(rows)) for own, rows in zip(self._sources, sample, strict=True)]
        integers = np.concatenate(taken)
        lengths = np.square(integers.astype(np.float64) @ axes).sum(axis=1)
        exponent = max(0, math.ceil(math.log2(max(float(lengths.max()), 1.0)) / 2) - _POINT_BITS)
        reader = Reader(grid, axes, exponent, [], np.empty(0), None)
        points = reader.points(integers)
        unit = np.concatenate([self._rank[place][rows] for place, rows in enumerate(sample)])
        order = np.lexsort((*points.T, unit))  # within a unit by values, so that sides play no part
        centres: list[Values] = []
        if self.witness.bins:
            pair = len(self._sources[0]) + max(len(rows) for rows in self._sources[1:])
            found = find_centres(points[order], unit[order], pair, _SEED, partitions=PARTITIONS_OF_MANY)
            centres = [np.rint(own) for own in found]
        if not self.witness.products:
            return Reader(grid, axes, exponent, centres, np.empty(0), None)
        count = _product_axes(axes.shape[1], len(points))
        deviations = np.rint(np.maximum(points[:, :count].astype(np.float64).std(axis=0), 1.0))
        products = ArrayRows(multiply_axes(points[:, :count] / deviations))
        product_grid = find_coarse_grid([products], [np.arange(len(points))])
        return Reader(grid, axes, exponent, centres, deviations, product_grid)

    def _sum_products(self) -> tuple[list[NDArray[np.uint8]], list[tuple[Array, ...]], list[Array], _Metrics]:
        """The bins of the rows of each set; their counts by cell; sums of the products by cell; and their metrics."""
        reader, cells = self._reader, self._known_cells
        count = 0 if reader.product_grid is None else len(reader.product_grid.centre)
        labels, bins, sums, tables = [], [], [], np.zeros((2, count, count))
        for source, cell in zip(self._sources, cells.of_set, strict=True):
            own, total = np.empty((len(reader.centres), len(source)), np.uint8), np.zeros((len(cells), count))
            for at, (some, products, part) in source.scan(partial(_sum_products, reader, len(cells)), cell):
                own[:, at] = some
                tables += products
                total += part
            labels.append(own)
            sums.append(total)
            views = range(0, len(reader.centres), PARTITIONS_OF_MANY)
            bins.append(
                tuple(
                    count_bins(own[low : low + PARTITIONS_OF_MANY], len(reader.centres[low]), cell, len(cells))
                    for low in views
                )
            )
        return labels, bins, sums, _Metrics(tables, sums, self._rows_by_cell)

    def test(self, system: int, *, permutations: int, seed: int) -> IdentityTest:
        """The test of identity of the reference and one system, on so many units as memory allows."""
        places = (0, system)
        rows = [np.flatnonzero(self._rank[place] < _TEST_UNITS) for place in places]
        sources, at = [self._sources[place] for place in places], rows
        if not all(isinstance(own, ArrayRows) for own in sources):  # many small reads would take long
            sources = [ArrayRows(own.take(some)) for own, some in zip(sources, rows, strict=True)]
            at = [np.arange(len(some)) for some in rows]
        return run_test_of_many(
            sources,
            at,
            [self._rank[place][some] for place, some in zip(places, rows, strict=True)],
            self._reader.grid,
            self.metric,
            np.concatenate([self._labels[0][:, rows[0]], self._labels[system][:, rows[1]]], axis=1),
            permutations=permutations,
            seed=seed,
        )

    def _teachers(self, cells: Cells) -> Sequence[Teacher]:
        sums = [
            CellSums(points, products, squares, lengths, bins)
            for (points, squares, lengths), products, bins in zip(
                self._sums, self._product_sums, self._bins, strict=True
            )
        ]
        strengths = self.witness.strengths, _PRODUCT_STRENGTHS if self._reader.product_grid is not None else ()
        solvers = self._metrics.solve, self._product_metrics.solve
        return [Teacher(sums, cells.units, solvers, strengths, self.witness.variances)]

    def _part(self, cells: Cells, systems: Sequence[int]) -> Part:
        used, chosen = (0, *systems), self._first_rows(_STACK_ROWS)
        place = np.concatenate([np.full(len(chosen[own]), own) for own in used])
        unit = np.concatenate([self._rank[own][chosen[own]] for own in used])
        cell = np.concatenate([cells.of_set[own][chosen[own]] for own in used])
        labels = np.concatenate([self._labels[own][:, chosen[own]] for own in used], axis=1)
        order = np.argsort(unit, kind="stable")
        weight = 1.0 / np.bincount(place)[place]  # all systems count alike
        position = np.empty_like(order)  # each row goes to its place at once: no second copy
        position[order] = np.arange(len(order))
        integers, low = np.empty((len(order), self._sources[0].width), np.int8), 0
        for own in used:
            high = low + len(chosen[own])
            step = ROWS if isinstance(self._sources[own], ArrayRows) else max(high - low, 1)
            for start_at in range(0, high - low, step):
                some = chosen[own][start_at : start_at + step]
                to = position[low + start_at : low + start_at + len(some)]
                integers[to] = self._reader.grid.integers(self._sources[own].take(some))
            low = high
        held = ArrayRows(integers)

        def score(rules: Sequence[Rules]) -> NDArray[np.floating[Any]]:
            parts = held.scan(partial(_score, self._reader, rules[0]), labels[:, order])
            return np.concatenate([scored for _, scored in parts], axis=-1)

        return Part(score, cell[order], unit[order], place[order] == 0, weight[order])

    def _judge(self, rules: Sequence[Rules], weights: Array, cells: Cells, systems: Sequence[int]) -> list[Array]:
        every = []
        for place in (0, *systems):
            h = np.empty(len(self._sources[place]))
            along = self._labels[place], cells.of_set[place]
            for at, judged in self._sources[place].scan(partial(_judge, self._reader, rules[0], weights), *along):
                h[at] = judged
            every.append(h)
        return every


def _same(products: Values, _: int) -> Values:
    """With many rows, one unit more or less in the metric changes nothing."""
    return products


def _score(reader: Reader, rules: Rules, integers: NDArray[np.int8], labels: NDArray[np.uint8]) -> Values:
    values = integers.astype(np.float32)
    views = tuple(labels[low : low + PARTITIONS_OF_MANY] for low in range(0, len(labels), PARTITIONS_OF_MANY))
    exact = values.astype(np.float64)
    products = reader.products(reader.points(values)).astype(np.float64)
    return rules.score(Coordinates(exact, products, exact, views), _same).astype(np.float32)


def _judge(
    reader: Reader, rules: Rules, weights: Array, rows: Features, labels: NDArray[np.uint8], cell: Numbers
) -> Array:
    """h of rows by the rules without their own cell, before it is rounded."""
    parts = []
    for low in range(0, len(rows), ROWS):
        at = slice(low, low + ROWS)
        judged = rules.judge(reader.coordinates(rows[at], labels[:, at]), cell[at], _same)
        parts.append(np.einsum("rv,vr->r", weights[cell[at]], judged))
    return np.concatenate(parts)


def _sum_features(grid: CoarseGrid, cells: int, rows: Features, cell: Numbers) -> tuple[Array, Array, Array, Array]:
    """Products of the integers of rows, by half; by cell, their sums, sums of squares and lengths: all exact."""
    width = rows.shape[1]
    tables = np.zeros((2, width, width))
    sums, squares, lengths = np.zeros((cells, width)), np.zeros((cells, width)), np.zeros((cells, 3))
    for low in range(0, len(rows), ROWS):
        integers, own = grid.integers(rows[low : low + ROWS]), cell[low : low + ROWS]
        tables += _multiply_halves(integers, own)
        sums += sum_by_cell(integers, own, cells)
        squares += sum_by_cell(integers, own, cells, squares=True)
        lengths += sum_lengths(integers, own, cells)
    return tables, sums, squares, lengths


def _sum_products(reader: Reader, cells: int, rows: Features, cell: Numbers) -> tuple[NDArray[np.uint8], Array, Array]:
    """Bins of rows by partition, (partitions, rows); products of their products, by half; sums of these by cell."""
    count = 0 if reader.product_grid is None else len(reader.product_grid.centre)
    labels = np.empty((len(reader.centres), len(rows)), np.uint8)
    tables, sums = np.zeros((2, count, count)), np.zeros((cells, count))
    for low in range(0, len(rows), ROWS):
        at = slice(low, low + ROWS)
        points = reader.points(reader.grid.integers(rows[at]))
        for number, centres in enumerate(reader.centres):
            labels[number, at] = label_points(points, centres)
        products = reader.products(points)
        tables += _multiply_halves(products, cell[at])
        sums += sum_by_cell(products, cell[at], cells)
    return labels, tables, sums


def _multiply_halves(integers: Values, cell: Numbers) -> Array:
    """The products of the columns of the rows in even cells, and in odd cells, (2, d, d); exact in float32."""
    even = cell % 2 == 0
    return np.stack([some.T @ some for some in (integers[even], integers[~even])])


class _Metrics:
    """The metrics of all rows, of those in even cells, and of those in odd cells.

    A rule that judges a cell has a metric without it, that of the other half: with its own unit in the metric, samples
    of a pair that have much in common would look easier to tell apart than they are.
    """

    def __init__(self, tables: Array, sums: Sequence[Array], rows: Array) -> None:
        by_cell = np.sum(sums, axis=0)  # (cells, d)
        halves = [slice(0, None, 2), slice(1, None, 2)]
        self.whole = Metric(_covariance(tables.sum(axis=0), by_cell.sum(axis=0), float(rows.sum())))
        self._halves = [
            Metric(_covariance(table, by_cell[half].sum(axis=0), float(rows[half].sum())))
            for table, half in zip(tables, halves, strict=True)
        ]

    def solve(self, vectors: Array, strength: float, kept: Array) -> Array:
        """See `Solve`."""
        left_out = len(kept[0]) - kept.sum(axis=1)
        if (left_out != 1).any():  # these rules judge several cells: only weights are fitted on them
            return self.whole.solve(vectors, strength)
        parity = kept.argmin(axis=1) % 2
        solved = np.empty_like(vectors)
        for half, metric in enumerate(self._halves):
            solved[parity != half] = metric.solve(vectors[parity != half], strength)
        return solved


def _covariance(table: Array, total: Array, size: float) -> Array:
    """The covariance of rows, from their products and their sum."""
    mean, covariance = total / size, table / size
    for low in range(0, len(covariance), ROWS):  # in parts: no second table
        covariance[low : low + ROWS] -= np.outer(mean[low : low + ROWS], mean)
    return covariance


def _leading(covariance: Array) -> Array:
    """The axes on which bins are made, (d, axes), as integers."""
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
