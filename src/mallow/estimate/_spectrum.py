"""Eigenvalues and eigenvectors of the scatter matrix of many rows of integers, from exact sums."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import ordered_map
from mallow.estimate._row_order import Indices

__all__ = ["ROWS", "Spectrum", "spectrum_from_covariance", "spectrum_from_gram", "spectrum_from_sums"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Rows = Callable[[Indices], Array]

ROWS = 2560  # rows of one product at most: more would not be exact, and take more memory
FEWEST, ENTRIES = 512, 2560 * 1024  # chosen: fewer rows of wide data, which need memory
SLAB = 256  # rows of a table that are converted at once; chosen: they stay in the cache
COLUMNS = 4096  # columns of one product of rows; chosen likewise
LEADING = 192  # chosen: eigenvectors computed first; they usually explain the share of the variance asked for


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

    `enough` says of the leading eigenvalues, and of the sum of all, whether no more of them are needed.
    """
    size = len(order)
    step = min(ROWS, max(FEWEST, ENTRIES // integers(order[:1]).shape[1]))

    def part(low: int) -> tuple[Doubles, Doubles]:
        rows = integers(order[low : low + step])
        return rows.T @ rows, rows.sum(axis=0)

    return spectrum_from_sums(*_sum_integers(part, range(0, size, step), threads), size, enough)


def spectrum_from_sums(
    scatter: Doubles, total: Doubles, size: int, enough: Callable[[Doubles, float], bool]
) -> Spectrum:
    """The spectrum of `size` rows of which the sum of products (d, d) is known, and the sum (d,); `scatter` is changed."""
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

    def part(low: int) -> tuple[Doubles, Doubles]:
        some = rows[:, low : low + COLUMNS]
        return some @ some.T, some.sum(axis=1)

    scatter, _ = _sum_integers(part, range(0, rows.shape[1], COLUMNS), threads)
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values[::-1], 0)

    def axes(kept: int) -> Doubles:
        orthonormal, _ = np.linalg.qr((vectors[:, ::-1][:, :kept].T @ rows).T)
        return orthonormal.T

    return Spectrum(values, float(values.sum()), _rank(values, rows.shape[1]), mean, axes)


def _eigenvectors(scatter: Doubles, enough: Callable[[Doubles, float], bool]) -> tuple[Doubles, Doubles]:
    """The largest eigenvalues, rising, with their eigenvectors: `LEADING` of them if those are `enough`, or all."""
    import scipy.linalg

    width, total = len(scatter), float(np.trace(scatter))
    if width >= 2 * LEADING and total > 0:
        leading = [width - LEADING, width - 1]
        values, vectors = scipy.linalg.eigh(scatter, subset_by_index=leading, check_finite=False)
        if enough(values, total):
            return values, vectors
    values, vectors = np.linalg.eigh(scatter)
    return values, vectors


def _sum_integers(
    part: Callable[[int], tuple[Doubles, Doubles]], starts: range, threads: int
) -> tuple[Doubles, Doubles]:
    """The sums of both results of ``part(start)``, which are integers below 2^53: exact, hence the same in any order."""
    sums: list[npt.NDArray[np.int64]] = []
    lock = threading.Lock()

    def add(start: int) -> None:  # here, so that no results wait: each is as large as the sum
        parts = part(start)
        with lock:
            if not sums:
                sums.extend(np.zeros(one.shape, np.int64) for one in parts)
            for total, one in zip(sums, parts, strict=True):
                for low in range(0, len(one), SLAB):
                    total[low : low + SLAB] += one[low : low + SLAB].astype(np.int64)

    for _ in ordered_map(add, starts, threads):
        pass
    if not sums or int(np.abs(np.diagonal(sums[0])).max()) >= 2**62:
        raise AssertionError("sums of integers are too large to be exact")
    return sums[0].astype(np.float64), sums[1].astype(np.float64)


def _rank(values: Doubles, size: int) -> int:
    """The number of eigenvalues that exceed rounding: that of LAPACK, and of `size` numbers to integers."""
    return int((values > max(32 * np.finfo(np.float64).eps * values[0], size / 2.0)).sum())
