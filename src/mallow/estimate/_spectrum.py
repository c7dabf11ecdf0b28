"""Spectra of rows of integers: eigenvalues and axes, from exact sums of products."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.linalg.blas import dsyrk

from mallow.engine import (
    DOUBLE,
    ordered_map,
)
from mallow.estimate._row_order import Indices

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

Rows = Callable[[Indices], Array]
ROWS = 2560  # rows of one product at most: more would not be exact, and take more memory
FEWEST, ENTRIES = 512, 1280 * 1024  # chosen: fewer rows of wide data, which need memory
SLAB = 256  # rows of a table that are converted at once; chosen: they stay in the cache
COLUMNS = 4096  # columns of one product of rows; chosen likewise
LEADING = 192  # chosen: eigenvectors computed first. They usually explain the share of the variance asked for


@dataclass(frozen=True)
class Spectrum:
    """The leading part of an eigendecomposition."""

    values: Doubles  # eigenvalues of the scatter matrix, falling, not negative; possibly only the largest ones
    total: float  # the sum of all eigenvalues
    rank: int  # how many eigenvalues exceed rounding
    mean: Doubles  # (d,) of the shifted rows
    axes: Callable[[int], Doubles]  # how many → the leading axes, as rows


def spectrum_from_covariance(
    integers: Rows, order: Indices, threads: int, enough: Callable[[Doubles, float], bool]
) -> Spectrum:
    """The spectrum of the rows ``integers(order)``, at most 2^20 each, through the matrix (d, d).

    `enough` decides from the leading eigenvalues and the sum of all whether these are enough.
    """
    size = len(order)
    step = min(ROWS, max(FEWEST, ENTRIES // integers(order[:1]).shape[1]))
    sums = ProductSums()

    def add(low: int) -> None:
        sums.add(integers(order[low : low + step]))

    for _ in ordered_map(add, range(0, size, step), threads):
        pass
    return spectrum_from_sums(*sums.result(), size, enough)


class ProductSums:
    """Sums of products of rows of integers, and of the rows, added by several threads: exact, the same in any order.

    Each thread adds to its own table in float64, which is exact while its largest entry, on the diagonal, stays below
    2^53. Before that, the table is emptied into a table of 64-bit integers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[tuple[Doubles, Doubles]] = []  # tables of no thread at present, with their sums of rows
        self._whole: list[npt.NDArray[np.int64]] = []

    def add(self, rows: Doubles) -> None:
        """Add a block of rows whose own sums are below 2^53."""
        width, squares = rows.shape[1], np.einsum("ij,ij->j", rows, rows)
        if float(squares.max()) >= DOUBLE:
            raise AssertionError("sums of integers are too large to be exact")
        with self._lock:
            table, total = self._free.pop() if self._free else (np.zeros((width, width), order="F"), np.zeros(width))
            if float((np.diagonal(table) + squares).max()) >= DOUBLE:
                self._empty(table, total)
        # With 2,048 columns, `table += rows.T @ rows` takes three times as long: it mirrors a new table and adds it.
        dsyrk(1.0, rows.T, 1.0, table, lower=1, overwrite_c=1)
        total += rows.sum(axis=0)
        with self._lock:
            self._free.append((table, total))

    def _empty(self, table: Doubles, total: Doubles) -> None:
        if not self._whole:
            self._whole = [np.zeros(table.shape, np.int64, order="F"), np.zeros(len(total), np.int64)]
        for whole, part in zip(self._whole, (table.T, total), strict=True):
            for low in range(0, len(part), SLAB):
                whole.T[low : low + SLAB] += part[low : low + SLAB].astype(np.int64)
            part[...] = 0.0

    def integers(self) -> list[npt.NDArray[np.int64]]:
        """The sum of products, of which the lower triangle counts, and the sum of the rows."""
        for table, total in self._free:
            self._empty(table, total)
        return self._whole

    def result(self) -> tuple[Doubles, Doubles]:
        """The same in float64, rounded once."""
        whole = self.integers()
        scatter, total = self._free[0]
        self._free.clear()
        if int(np.diagonal(whole[0]).max()) >= 2**62:
            raise AssertionError("sums of integers are too large to be exact")
        scatter[...], total[...] = whole
        return scatter, total


def spectrum_from_sums(
    scatter: Doubles, total: Doubles, size: int, enough: Callable[[Doubles, float], bool]
) -> Spectrum:
    """The spectrum of `size` rows from their sum of products (d, d), of which the lower triangle counts, and sum (d,).

    `scatter` is changed.
    """
    mean = total / size
    scatter -= np.outer(mean, total)
    values, vectors = _eigenvectors(scatter, enough)
    values = np.maximum(values[::-1], 0)
    sum_of_all = float(np.trace(scatter)) if len(values) < len(scatter) else float(values.sum())
    return Spectrum(values, sum_of_all, _rank(values, size), mean, lambda kept: vectors[:, ::-1][:, :kept].T)


def spectrum_from_gram(integers: Rows, order: Indices, threads: int) -> Spectrum:
    """The spectrum of the rows ``integers(order)`` through the matrix (n + m, n + m), for fewer rows than columns."""
    rows = integers(order)
    mean = rows.sum(axis=0) / len(rows)
    rows -= np.rint(mean)

    sums = ProductSums()

    def add(low: int) -> None:
        sums.add(rows[:, low : low + COLUMNS].T)

    for _ in ordered_map(add, range(0, rows.shape[1], COLUMNS), threads):
        pass
    values, vectors = np.linalg.eigh(sums.result()[0])
    values = np.maximum(values[::-1], 0)

    def axes(kept: int) -> Doubles:
        orthonormal, _ = np.linalg.qr((vectors[:, ::-1][:, :kept].T @ rows).T)
        return orthonormal.T

    return Spectrum(values, float(values.sum()), _rank(values, rows.shape[1]), mean, axes)


def _eigenvectors(scatter: Doubles, enough: Callable[[Doubles, float], bool]) -> tuple[Doubles, Doubles]:
    """The largest eigenvalues, rising, with their eigenvectors: `LEADING` of them if those are `enough`, or all."""
    width, total = len(scatter), float(np.trace(scatter))
    if width >= 2 * LEADING and total > 0:
        largest = [width - LEADING, width - 1]
        values, vectors = scipy.linalg.eigh(scatter, subset_by_index=largest, check_finite=False)
        if enough(values, total):
            return values, vectors
    values, vectors = np.linalg.eigh(scatter)
    return values, vectors


def _rank(values: Doubles, size: int) -> int:
    """The number of eigenvalues that exceed rounding, by LAPACK and of `size` numbers to integers."""
    return int((values > max(32 * np.finfo(np.float64).eps * values[0], size / 2.0)).sum())
