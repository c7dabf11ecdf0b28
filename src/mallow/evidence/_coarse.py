"""Features as small integers, so small that sums of their products are exact in float32, whatever the order.

What is learned from many samples needs few bits of each: with steps of a twentieth of a standard deviation, rounding
adds two ten-thousandths to the variance of a column. Sums are then the same on every machine, in any order and any
division of the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.estimate import Features
from mallow.evidence._blocks import ArrayRows, Numbers, Rows, Values
from mallow.evidence._units import Indices
from mallow.theory import Array

LEVELS = 127  # the largest integer
ROWS = 1024  # rows whose products sum exactly in float32: 1024 · 127² < 2^24
_REACH = 6.0  # chosen: standard deviations from the centre that the integers reach; what is farther away is moved there
_TAIL = 0.002  # chosen: share of the values on either side that do not count for the standard deviation
_BITS = 8  # of a step: processors that differ in the last digit of a standard deviation give the same step
_LEAST = 1.0 / np.finfo(np.float64).max  # a smaller step has no inverse
_ORDINARY = 60  # powers of two between which float32 is wide enough


@dataclass(frozen=True, eq=False)
class CoarseGrid:
    """Where the integers lie: column j at ``centre[j]`` plus integers times a step.

    Attributes
    ----------
    centre : array (d,)
    one_over_step : array (d,)
        0 for columns that are constant, up to differences below 1e-306.
    """

    centre: Array
    one_over_step: Array

    def integers(self, rows: Features) -> Values:
        """The rows as integers between −127 and 127, in float32."""
        largest = np.abs(np.frexp(self.one_over_step)[1]).max(initial=0)
        dtype = np.float64 if largest > _ORDINARY else np.result_type(np.float32, rows.dtype)
        with np.errstate(over="ignore"):
            values = np.subtract(rows, self.centre.astype(dtype), dtype=dtype)
            values *= self.one_over_step.astype(dtype)
        np.rint(values, out=values)
        np.clip(values, -LEVELS, LEVELS, out=values)
        integers: Values = values.astype(np.float32, copy=False)
        return integers


def find_coarse_grid(sets: Sequence[Rows], sample: Sequence[Indices]) -> CoarseGrid:
    """The grid for all rows of some sets, from a sample of the rows of each."""
    values = np.concatenate([rows.take(own) for rows, own in zip(sets, sample, strict=True)]).astype(np.float64)
    values.sort(axis=0)
    tail = int(_TAIL * len(values))
    np.clip(values, values[tail], values[len(values) - 1 - tail], out=values)
    exponent = np.frexp(np.maximum(values[-1], -values[0]))[1]
    ordinary = np.ldexp(values, -exponent)  # squares neither overflow nor vanish
    mean, reach = (np.ldexp(each, exponent) for each in (ordinary.mean(axis=0), _REACH * ordinary.std(axis=0)))
    unseen = np.flatnonzero(values[0] == values[-1])
    if unseen.size:  # constant but for a few rows: all of them count
        ends = [own for rows in sets for _, own in rows.scan(partial(_ends, unseen))]
        low, high = np.min([own[0] for own in ends], axis=0), np.max([own[1] for own in ends], axis=0)
        mean[unseen] = values[0, unseen]
        reach[unseen] = np.maximum(high - mean[unseen], mean[unseen] - low)
    fraction, power = np.frexp(reach / LEVELS)
    step = np.ldexp(np.rint(np.ldexp(fraction, _BITS)), power - _BITS)
    varies = step > _LEAST
    whole_steps = np.rint(np.divide(mean, step, out=np.zeros_like(mean), where=varies))
    one_over_step = np.divide(1.0, step, out=np.zeros_like(step), where=varies)
    return CoarseGrid(np.where(varies, whole_steps * step, mean), one_over_step)


def _ends(columns: Indices, rows: Features) -> Array:
    """The smallest and the largest value of some columns."""
    own = rows[:, columns].astype(np.float64)
    return np.stack([own.min(axis=0), own.max(axis=0)])


_EXACT = 1e-26  # chosen: of the squared error of a solution; what is left is rounding
_PART = 256  # chosen: rows of a table that are multiplied at once
_STEPS = 200  # chosen: far more than it takes


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums over the rows of each cell and set, of the integers of a `CoarseGrid`. Folds are made of whole cells.

    Attributes
    ----------
    counts : array (cells, sets)
        Rows.
    units : array (cells, sets)
        Units.
    sums, squares : array (cells, sets, d)
        Of the integers, and of their squares.
    products : array (cells, d, d)
        Of all pairs of columns, over the rows of all sets.
    lengths : tuple of int32 arrays
        For each set, the sum of squares of each row.
    """

    counts: Array
    units: Array
    sums: Array
    squares: Array
    products: NDArray[Any]
    lengths: tuple[NDArray[np.int32], ...]

    def total_covariance(self) -> Array:
        """The covariance of all rows, (d, d)."""
        size = float(self.counts.sum())
        mean = self.sums.sum(axis=(0, 1)) / size
        table: Array = self.products[0].astype(np.float64)
        for own in self.products[1:]:
            table += own
        table /= size
        for low in range(0, len(table), ROWS):  # in parts: no second table
            table[low : low + ROWS] -= np.outer(mean[low : low + ROWS], mean)
        return table


class Metrics:
    """(C + ridge)⁻¹ for several ridges, with the covariance C of all rows or of those of some cells.

    With many rows, covariances of most cells differ little from that of all: one factor of the latter, as a
    preconditioner, solves for all of them in a few steps.
    """

    def __init__(self, sums: CellSums) -> None:
        self._sums = sums
        self._table = sums.total_covariance().T  # in Fortran's order; roots take the lower triangle
        self._diagonal = np.diagonal(self._table).copy()
        self._floor = max(float(self._diagonal.sum()) / len(self._diagonal), np.finfo(float).tiny)

    @property
    def covariance(self) -> Array:
        """C, of all rows, until `root` is called again."""
        self._table[np.diag_indices(len(self._table))] = self._diagonal
        for low in range(0, len(self._table), _PART):
            high = low + _PART
            self._table[high:, low:high] = self._table[low:high, high:].T
            block = self._table[low:high, low:high]
            np.copyto(block, block.T.copy(), where=np.tri(len(block), k=-1, dtype=np.bool_))
        return self._table

    def root(self, strength: float) -> Array:
        """L with L Lᵀ = C + strength · mean variance, C of all rows.

        The lower triangle of a table that the next call changes.
        """
        table = self.covariance
        table[np.diag_indices(len(table))] += strength * self._floor
        root: Array = scipy.linalg.cho_factor(table, lower=True, overwrite_a=True, check_finite=False)[0]
        return root

    def solve(self, targets: Array, kept: Array, strengths: Sequence[float]) -> Array:
        """(C + strength · mean variance)⁻¹ of each column of `targets` (d, columns), C of its cells ``kept``
        (columns, cells).

        For all strengths at once, (strengths, d, columns): the products of the cells are large, and each step reads
        them.
        """
        width, columns = targets.shape
        sizes = kept @ self._sums.counts.sum(axis=1)  # (columns,)
        means = np.tile((kept @ self._sums.sums.sum(axis=1) / sizes[:, None]).T, len(strengths))
        shares = np.tile((kept / sizes[:, None]).T, len(strengths))  # (cells, strengths · columns)
        ridges = self._floor * np.repeat(np.asarray(strengths, np.float64), columns)
        several = len(strengths) > 1
        roots = [self.root(strength).copy(order="F") if several else self.root(strength) for strength in strengths]

        def multiply(values: Array) -> Array:
            total: Array = ridges * values - means * np.einsum("ij,ij->j", means, values)
            chosen = [np.flatnonzero(share) for share in shares]
            scaled = [values[:, some] * share[some] for some, share in zip(chosen, shares, strict=True)]

            def rows(low: int) -> None:
                for own, some, part in zip(self._sums.products, chosen, scaled, strict=True):
                    total[low : low + _PART, some] += own[low : low + _PART].astype(np.float64) @ part

            for _ in ordered_map(rows, range(0, width, _PART), cores()):
                pass
            return total

        def precondition(values: Array) -> Array:
            parts = np.split(values, len(strengths), axis=1)
            each = zip(roots, parts, strict=True)
            return np.hstack([scipy.linalg.cho_solve((root, True), part, check_finite=False) for root, part in each])

        solution = _conjugate_gradients(multiply, precondition, np.tile(targets, len(strengths)))
        return np.stack(np.split(solution, len(strengths), axis=1))


def _conjugate_gradients(
    multiply: Callable[[Array], Array], precondition: Callable[[Array], Array], targets: Array
) -> Array:
    """The solutions of positive definite systems, one for each column of the targets."""
    solution = np.zeros_like(targets)
    rest = targets.copy()
    direction = near = precondition(rest)
    energy = np.einsum("ij,ij->j", rest, near)
    enough = _EXACT * energy
    for _ in range(_STEPS):
        product = multiply(direction)
        curvature = np.einsum("ij,ij->j", direction, product)
        open_ = (energy > enough) & (curvature > 0)
        if not open_.any():
            break
        size = np.where(open_, energy / np.where(open_, curvature, 1.0), 0.0)
        solution += size * direction
        rest -= size * product
        near = precondition(rest)
        before, energy = energy, np.einsum("ij,ij->j", rest, near)
        direction = near + direction * np.where(open_, energy / np.where(before > 0, before, 1.0), 0.0)
    return solution


def sum_cells(
    sources: Sequence[Rows], folds: Sequence[Numbers], units: Sequence[Indices], count: int, grid: CoarseGrid
) -> CellSums:
    """The sums over the rows of some sets, whose cells and units are known. All of them are integers, and exact."""
    width = sources[0].width
    # Integers of 32 bits take half the memory, and hold the sums of 2^17 rows.
    rows = sum(np.bincount(own, minlength=count) for own in folds)
    small = int(np.max(rows)) * LEVELS**2 < 2**31
    products = np.zeros((count, width, width), np.int32 if small else np.float64)
    sums, squares = np.zeros((2, count, len(sources), width))
    lengths = tuple(np.empty(len(own), np.int32) for own in sources)
    locks = [threading.Lock() for _ in range(count)]

    def add(place: int, fold: int, table: NDArray[Any], column: NDArray[Any], own: NDArray[Any]) -> None:
        with locks[fold]:
            np.add(products[fold], table, out=products[fold], casting="unsafe")  # both are integers
            sums[fold, place] += column
            squares[fold, place] += own

    for place, source in enumerate(sources):
        if isinstance(source, ArrayRows):
            values = source.values

            def task(at: tuple[int, Indices], place: int = place, values: Features = values) -> None:
                fold, rows = at
                table, column, own, lengths[place][rows] = sum_rows(grid.integers(values[rows]))
                add(place, fold, table, column, own)

            with single_threaded_blas():
                for _ in ordered_map(task, _blocks(folds[place], count), cores()):
                    pass
            continue
        for at, (parts, own_lengths) in source.scan(partial(_sum_chunk, grid, count), folds[place]):
            lengths[place][at] = own_lengths
            for fold, part in enumerate(parts):
                add(place, fold, *part)
    counts = np.stack([np.bincount(own, minlength=count) for own in folds], axis=1).astype(np.float64)
    firsts = [np.unique(own, return_index=True)[1] for own in units]
    of_units = [np.bincount(own[first], minlength=count) for own, first in zip(folds, firsts, strict=True)]
    return CellSums(counts, np.stack(of_units, axis=1).astype(np.float64), sums, squares, products, lengths)


def sum_rows(integers: Values) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.int32]]:
    """Products, sums and squares of the columns of 1,024 rows at most, exact in float32.

    And the squared length of each row.
    """
    square = np.square(integers)
    lengths = square.sum(axis=1, dtype=np.float64).astype(np.int32)
    return integers.T @ integers, integers.sum(axis=0), square.sum(axis=0), lengths


def _sum_chunk(
    grid: CoarseGrid, count: int, rows: Features, fold: Numbers
) -> tuple[list[tuple[Array, Array, Array]], NDArray[np.int32]]:
    """The sums of each cell over a chunk of any size."""
    width = rows.shape[1]
    totals = [(np.zeros((width, width)), np.zeros(width), np.zeros(width)) for _ in range(count)]
    lengths = np.empty(len(rows), np.int32)
    for number, at in _blocks(fold, count):
        *parts, lengths[at] = sum_rows(grid.integers(rows[at]))
        for total, part in zip(totals[number], parts, strict=True):
            total += part
    return totals, lengths


def _blocks(fold: Numbers, count: int) -> Iterator[tuple[int, Indices]]:
    """Blocks of rows of one cell; neighbours are of different cells, so that threads do not wait."""
    members = [np.flatnonzero(fold == number) for number in range(count)]
    for low in range(0, max(len(rows) for rows in members), ROWS):
        for number, rows in enumerate(members):
            if low < len(rows):
                yield number, rows[low : low + ROWS]
