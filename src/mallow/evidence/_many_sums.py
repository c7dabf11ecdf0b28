"""Exact sums over the rows of each cell: counts, sums, squares and products of columns. They add up in any order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cholesky, cores, ordered_map, single_threaded_blas, solve_with_root
from mallow.estimate import Features
from mallow.evidence._blocks import Values
from mallow.evidence._coarse import LEVELS, ROWS, CoarseGrid
from mallow.evidence._rows import ArrayRows, Numbers, Rows
from mallow.evidence._units import Indices
from mallow.theory import Array

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

    With many rows, covariances of most cells differ little from that of all: one factor of the latter, as a preconditioner,
    solves for all of them in a few steps.
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
        """L with L Lᵀ = C + strength · mean variance, C of all rows: the lower triangle of a table that the next call changes."""
        table = self.covariance
        table[np.diag_indices(len(table))] += strength * self._floor
        return cholesky(table)

    def solve(self, targets: Array, kept: Array, strengths: Sequence[float]) -> Array:
        """(C + strength · mean variance)⁻¹ of each column of `targets` (d, columns), C of its cells ``kept`` (columns, cells).

        For all strengths at once, (strengths, d, columns): the products of the cells are large, and each step reads them.
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
            return np.hstack([solve_with_root(root, part) for root, part in zip(roots, parts, strict=True)])

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
    """Products, sums and squares of the columns of 1,024 rows at most, exact in float32; and the squared length of each row."""
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
