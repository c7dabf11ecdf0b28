"""The rules of all views, learned from sums over cells.

A cell is a set of whole units. A rule only needs sums over the rows of the cells that it may learn from, so one pass
over the rows serves all rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.evidence._blocks import ROWS, Values, multiply
from mallow.evidence._units import Indices, Numbers
from mallow.theory import Array

_PRIOR_SHARE = 0.5  # units added to every bin, as in the published score
_PRIOR_UNITS = 20.0  # chosen: the common variance counts as this many units
_LEAST = 1e-300  # a variance whose inverse is finite
_PRODUCT_AXES = 20  # chosen: leading components whose products are used
PRODUCT_STRENGTHS = (0.1, 1.0)  # chosen: strengths of the regularisation of discriminants of products
_FAR = 4.0  # chosen: standard deviations at which components are clipped before they are multiplied
_CONSTANT = 1e-9  # chosen: share of the mean variance that is added to the variance of every column


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows in all coordinates that rules use.

    Attributes
    ----------
    points : array (rows, width)
        For linear discriminants: all features.
    products : array (rows, products)
        Also for linear discriminants: products of two leading components.
    columns : array (rows, d)
        For variances: the features minus a common centre.
    labels : tuple of int arrays (partitions, rows)
        For each view by bins, the bins of the rows.
    """

    points: Values
    products: Values
    columns: Values
    labels: tuple[Numbers, ...]

    @cached_property
    def lengths(self) -> Array:
        """The squared length of each row of `columns`."""
        lengths: Array = np.einsum("ij,ij->i", self.columns, self.columns, dtype=np.float64)
        return lengths

    def part(self, rows: slice | Indices) -> Coordinates:
        """The rows at these places."""
        labels = tuple(partitions[:, rows] for partitions in self.labels)
        return Coordinates(self.points[rows], self.products[rows], self.columns[rows], labels)


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums over the rows of each cell.

    Attributes
    ----------
    points, products, squares : array (cells, width)
        Sums of the coordinates; `squares` has the sums of the squares of the columns.
    lengths : array (cells, 3)
        The number of rows, the sum of their squared lengths, and the sum of the squares of these.
    bins : tuple of arrays (partitions, cells, bins)
        For each view by bins, the number of rows in each bin.
    """

    points: Array
    products: Array
    squares: Array
    lengths: Array
    bins: tuple[Array, ...]

    def __add__(self, other: CellSums) -> CellSums:
        bins = tuple(first + second for first, second in zip(self.bins, other.bins, strict=True))
        points, products = self.points + other.points, self.products + other.products
        return CellSums(points, products, self.squares + other.squares, self.lengths + other.lengths, bins)


def sum_cells(rows: Coordinates, bins: Sequence[int], cell: Numbers, cells: int) -> CellSums:
    """The sums over the rows of each cell. `bins` has the number of bins of each view, `cell` the cell of each row."""
    return CellSums(
        _sum_by_cell(rows.points, cell, cells),
        _sum_by_cell(rows.products, cell, cells),
        _sum_by_cell(rows.columns, cell, cells, squares=True),
        _sum_lengths(rows.lengths, cell, cells),
        tuple(count_bins(labels, count, cell, cells) for labels, count in zip(rows.labels, bins, strict=True)),
    )


def no_sums(cells: int, width: int, products: int) -> CellSums:
    """The sums over no rows, without bins."""
    return CellSums(
        np.zeros((cells, width)), np.zeros((cells, products)), np.zeros((cells, width)), np.zeros((cells, 3)), ()
    )


def _sum_by_cell(values: Values, cell: Numbers, cells: int, *, squares: bool = False) -> Array:
    """Sums over the rows of each cell, (cells, width), in float64 and in the order of the rows."""
    total = np.zeros((cells, values.shape[1]))
    for low in range(0, len(values), ROWS):
        block, of_block = values[low : low + ROWS].astype(np.float64), cell[low : low + ROWS]
        shape = cells, len(of_block)
        member = sparse.csr_array((np.ones(len(of_block)), (of_block, np.arange(len(of_block)))), shape=shape)
        total += member @ (np.square(block, out=block) if squares else block)
    return total


def _sum_lengths(lengths: Array, cell: Numbers, cells: int) -> Array:
    """The `lengths` of `CellSums`."""
    powers = np.ones(len(lengths)), lengths, lengths**2
    return np.stack([np.bincount(cell, power, cells) for power in powers], axis=1)


def count_bins(labels: Numbers, bins: int, cell: Numbers, cells: int) -> Array:
    """The rows of each cell in each bin, (partitions, cells, bins)."""
    first_bin = cell.astype(np.int64) * bins
    counts = [np.bincount(first_bin + bin_, minlength=cells * bins).reshape(cells, bins) for bin_ in labels]
    return np.stack(counts).astype(np.float64)


def count_product_axes(width: int, samples: int) -> int:
    """How many leading components are multiplied. Their products are at most a quarter of the number of samples."""
    return min(width, _PRODUCT_AXES, int((math.sqrt(1.0 + 2.0 * samples) - 1.0) / 2.0))


def multiply_axes(points: Values) -> Values:
    """All products of two components, (rows, pairs), of components with standard deviation 1."""
    near = np.clip(points, -_FAR, _FAR)
    first, second = np.triu_indices(near.shape[1])
    products: Values = near[:, first] * near[:, second]
    return products


Correct = Callable[[Values, int], Values]
"""(scores by linear rules (rules, rows), number of the view) → the same without the row's unit in the metric."""
Solve = Callable[[Array, float, Array], Array]
"""(vectors (rules, width), strength, kept (rules, cells)) → the vectors times (C + strength · mean variance)⁻¹."""


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules of each view.

    Views are, in this order: discriminants of the points at each strength, discriminants of the products, variances by
    column, the total variance, bins.

    Attributes
    ----------
    points, products : array (strengths, rules, width)
    quadratic : array (rules, d) or None
        The factors of the squares of the columns.
    slope : array (rules,)
        The factor of the squared length.
    bins : tuple of arrays (partitions, rules, bins)
    constant : array (views, rules)
    other : Rules or None
        The rules in the other coordinates, if rows have products and bins of two kinds; see `SpaceViews`.
    """

    points: Array
    products: Array
    quadratic: Array | None
    slope: Array
    bins: tuple[Array, ...]
    constant: Array
    other: Rules | None = None

    @property
    def both(self) -> tuple[Rules, ...]:
        """These rules, and then the ones in the other coordinates, if there are any."""
        return (self,) if self.other is None else (self, self.other)

    def part(self, rules: slice) -> Rules:
        """Some of the rules of each view."""
        quadratic = None if self.quadratic is None else self.quadratic[rules]
        bins = tuple(tables[:, rules] for tables in self.bins)
        points, products, constant = self.points[:, rules], self.products[:, rules], self.constant[:, rules]
        other = None if self.other is None else self.other.part(rules)
        return Rules(points, products, quadratic, self.slope[rules], bins, constant, other)

    def score(self, rows: Coordinates, correct: Correct) -> NDArray[np.floating[Any]]:
        """The score of every row by every rule, (views, rules, rows)."""
        views: list[Values] = []
        for factors, values in ((self.points, rows.points), (self.products, rows.products)):  # all strengths at once
            strengths, rules, width = factors.shape
            scored = multiply(factors.reshape(strengths * rules, width), values)
            views += list(scored.reshape(strengths, rules, len(values)))
        views = [correct(products, number) for number, products in enumerate(views)]
        if self.quadratic is not None:
            views += [multiply(self.quadratic, rows.columns, squares=True), np.outer(self.slope, rows.lengths)]
        for tables, labels in zip(self.bins, rows.labels, strict=True):
            views.append(np.sum([table[:, at] for table, at in zip(tables, labels, strict=True)], axis=0))
        scores = np.empty((*self.constant.shape, len(rows.points)), rows.points.dtype)
        for number, scored in enumerate(views):
            scores[number] = scored
        scores += self.constant[..., None].astype(scores.dtype)
        return scores

    def judge(self, rows: Coordinates, number: Numbers, correct: Correct) -> Array:
        """The score of each row by the rule with the given number (rows,), (views, rows)."""
        blocks = [slice(low, low + ROWS) for low in range(0, len(rows.points), ROWS)]
        scores = np.concatenate([self._judge(rows.part(at), number[at]) for at in blocks], axis=1)
        for view in range(len(self.points) + len(self.products)):
            scores[[view]] = correct(scores[[view]], view)
        scores += self.constant[:, number]
        return scores

    def _judge(self, rows: Coordinates, number: Numbers) -> Array:
        views = [np.einsum("ij,ij->i", factors[number], rows.points) for factors in self.points]
        views += [np.einsum("ij,ij->i", factors[number], rows.products) for factors in self.products]
        if self.quadratic is not None:
            squares = np.square(rows.columns, dtype=np.float64)
            views += [np.einsum("ij,ij->i", self.quadratic[number], squares), self.slope[number] * squares.sum(axis=1)]
        for tables, labels in zip(self.bins, rows.labels, strict=True):
            views.append(np.sum([table[number, at] for table, at in zip(tables, labels, strict=True)], axis=0))
        return np.array(views).reshape(len(self.constant), len(rows.points))


@dataclass(frozen=True, eq=False)
class Teacher:
    """The sums and metrics from which rules are learned.

    Attributes
    ----------
    sums : sequence of CellSums
        The sums of each set.
    units : array (cells, sets)
        The number of units of each set in each cell.
    solvers, strengths : two each
        For the discriminants of the points, and of the products.
    variances : bool
        Whether variances are used.
    other : Teacher or None
        The same in other coordinates; see `Rules.other`.
    """

    sums: Sequence[CellSums]
    units: Array
    solvers: tuple[Solve, Solve]
    strengths: tuple[Sequence[float], Sequence[float]]
    variances: bool
    other: Teacher | None = None

    def learn(self, kept: Array, systems: Sequence[int]) -> Rules:
        """Rules, each learned from some of the cells.

        Parameters
        ----------
        kept : array (rules, cells)
            1 for the cells from which a rule is learned, 0 for the others.
        systems : sequence of int
            The sets that form the model, each with the same weight. Set 0 is the reference.
        """
        chosen = [self.sums[system] for system in (0, *systems)]
        rows = [kept @ sums.lengths[:, 0] for sums in chosen]
        present = np.array([count > 0 for count in rows[1:]])[..., None]  # a small system may have no row in some cells
        of_units = kept @ self.units
        n, m = of_units[:, 0], of_units[:, list(systems)].sum(axis=1)

        def means(name: str, *at: int) -> tuple[Array, Array]:
            """The values for the reference and for the model, (rules, ...)."""
            of_p, *of_q = (
                kept
                @ (getattr(sums, name)[at[0]][at[1]] if at else getattr(sums, name))
                / np.maximum(count, 1.0)[:, None]
                for sums, count in zip(chosen, rows, strict=True)
            )
            return of_p, np.sum(of_q, axis=0) / present.sum(axis=0)

        constants, linear = [], []
        for name, solve, strengths in zip(("points", "products"), self.solvers, self.strengths, strict=True):
            of_p, of_q = means(name)
            factors = np.array([solve(of_p - of_q, strength, kept) for strength in strengths])
            factors = factors.reshape(len(strengths), *of_p.shape)
            constants += [-np.einsum("ij,ij->i", factor, (of_p + of_q) / 2.0) for factor in factors]
            linear.append(factors)
        quadratic, slope = None, np.zeros(len(kept))
        if self.variances:
            of_p, of_q = _shrink_variances(*means("squares"), n[:, None], m[:, None])
            quadratic = 0.5 / of_q - 0.5 / of_p
            of_p, of_q = np.log(of_p), np.log(of_q)
            constants.append(0.5 * (of_q - of_p).sum(axis=1))
            of_p, of_q = means("lengths")
            slope, middle = _discriminant(of_p, of_q)
            constants.append(-slope * middle)
        bins = []
        for view, partitions in enumerate(chosen[0].bins):
            shares = [means("bins", view, number) for number in range(len(partitions))]
            bins.append(np.stack([_log_shares(p, n) - _log_shares(q, m) for p, q in shares]) / len(partitions))
            constants.append(np.zeros(len(kept)))
        constant = np.array(constants).reshape(-1, len(kept))
        other = None if self.other is None else self.other.learn(kept, systems)
        return Rules(linear[0], linear[1], quadratic, slope, tuple(bins), constant, other)


def _shrink_variances(of_p: Array, of_q: Array, n: Array, m: Array) -> tuple[Array, Array]:
    """Variances of either side, learned from n and m units, shrunk towards their common value."""
    common = (n * of_p + m * of_q) / (n + m)
    common += _CONSTANT * common.mean(axis=-1, keepdims=True) + _LEAST
    shrunk_p, shrunk_q = ((k * v + _PRIOR_UNITS * common) / (k + _PRIOR_UNITS) for k, v in ((n, of_p), (m, of_q)))
    return shrunk_p, shrunk_q


def _discriminant(of_p: Array, of_q: Array) -> tuple[Array, Array]:
    """Slope and zero of a linear discriminant of the squared length, from means (rules, 3) as in `lengths`."""
    variance = (of_p[:, 2] - of_p[:, 1] ** 2 + of_q[:, 2] - of_q[:, 1] ** 2) / 2.0
    apart, middle = of_p[:, 1] - of_q[:, 1], (of_p[:, 1] + of_q[:, 1]) / 2.0
    return np.where(variance > 0, apart / np.maximum(variance, 1e-300), 0.0), middle


def _log_shares(share: Array, units: Array) -> Array:
    """Logarithms of the shares of each bin, (rules, bins), with half a unit added to each."""
    added = _PRIOR_SHARE * share.shape[-1]
    logs: Array = np.log((share * units[:, None] + _PRIOR_SHARE) / (units[:, None] + added))
    return logs
