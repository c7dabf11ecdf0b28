"""Eigenvalues and eigenvectors of the scatter matrix of many rows, from products of fixed shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import ordered_map
from mallow.estimate._row_order import BLOCK, Indices

__all__ = ["Spectrum", "spectrum_from_covariance", "spectrum_from_gram"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Rows = Callable[[Indices], Array]

# Chosen for speed. `PANEL` and `ROWS` shape products and hence decide last bits: they are part of the algorithm.
PANEL = 256  # columns of one product for the scatter matrix
ROWS = 2560  # rows of one product: fewer take more time, more take more memory
LEADING = 192  # eigenvectors computed first; they usually explain the share of the variance asked for


@dataclass(frozen=True)
class Spectrum:
    """The leading part of an eigendecomposition."""

    values: Doubles  # eigenvalues of the scatter matrix, falling, not negative; possibly only the largest ones
    total: float  # the sum of all eigenvalues
    rank: int  # how many eigenvalues exceed rounding
    mean: Doubles  # (d,) of the shifted rows
    axes: Callable[[int], Doubles]  # how many → the leading axes, as rows


def spectrum_from_covariance(
    block: Rows, order: Indices, dtype: np.dtype[Any], threads: int, enough: Callable[[Doubles, float], bool] | None
) -> Spectrum:
    """The spectrum of the rows ``block(order)``, through the matrix (d, d).

    `enough` says of the leading eigenvalues, and of the sum of all, whether no more of them are needed; None: all
    are.
    """
    size = len(order)
    width = block(order[:1]).shape[1]

    def rows(low: int) -> Array:
        return block(order[low : low + ROWS])

    scatter, total = _scatter(rows, range(0, size, ROWS), width, threads)
    mean = total / size
    scatter -= size * np.outer(mean, mean)
    if enough is None or dtype != np.float32:
        values, vectors = np.linalg.eigh(scatter)
    else:
        values, vectors = _leading(scatter, enough)
    values = np.maximum(values[::-1], 0)
    sum_of_all = float(np.trace(scatter)) if len(values) < width else float(values.sum())
    return Spectrum(values, sum_of_all, _rank(values, dtype), mean, lambda kept: vectors[:, ::-1][:, :kept].T)


def spectrum_from_gram(block: Rows, order: Indices, dtype: np.dtype[Any], threads: int) -> Spectrum:
    """The spectrum of the rows ``block(order)``, through the matrix (n + m, n + m), for fewer rows than columns."""
    rows = block(order)
    mean = rows.mean(axis=0, dtype=np.float64)
    rows -= mean.astype(dtype)
    scatter, _ = _scatter(lambda low: rows[:, low : low + BLOCK].T, range(0, rows.shape[1], BLOCK), len(rows), threads)
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values[::-1], 0)

    def axes(kept: int) -> Doubles:
        leading = np.ascontiguousarray(vectors[:, ::-1][:, :kept].T).astype(dtype)
        orthonormal, _ = np.linalg.qr((leading @ rows).T.astype(np.float64))
        return orthonormal.T

    return Spectrum(values, float(values.sum()), _rank(values, dtype), mean, axes)


def _leading(scatter: Doubles, enough: Callable[[Doubles, float], bool]) -> tuple[Doubles, Doubles]:
    """The largest eigenvalues, rising, with their eigenvectors: `LEADING` of them if those are `enough`, or all.

    Computing the leading eigenvectors in float32, with their variances (Rayleigh quotients) in float64, takes two thirds
    of the time of computing all; the products behind the scatter matrix are float32 anyway.
    """
    import scipy.linalg

    width, total = len(scatter), float(np.trace(scatter))
    if width >= 2 * LEADING and total > 0:
        small = (scatter / total).astype(np.float32)
        _, singles = scipy.linalg.eigh(small, subset_by_index=[width - LEADING, width - 1], check_finite=False)
        vectors = singles.astype(np.float64)
        values = np.einsum("ij,ij->j", vectors, scatter @ vectors)
        if enough(values[::-1], total):
            return values, vectors
    values, vectors = np.linalg.eigh(scatter)
    return values, vectors


def _scatter(block: Callable[[int], Array], starts: range, width: int, threads: int) -> tuple[Doubles, Doubles]:
    """The sum of Bᵀ B over blocks B (b, width), and the sum of all their rows.

    Each task owns one panel of the result and adds the blocks to it in order, so that no sum depends on the threads.
    """
    scatter = np.zeros((width, width))
    total = np.zeros(width)
    panels = [(i, j) for i in range(0, width, PANEL) for j in range(i, width, PANEL)]

    group = min(2 * threads, 16)  # blocks in memory at once
    for first in range(0, len(starts), group):
        some = list(ordered_map(block, starts[first : first + group], threads))
        for values in some:
            total += values.sum(axis=0)

        def panel(at: tuple[int, int], some: list[Array] = some) -> None:
            rows, columns = slice(at[0], at[0] + PANEL), slice(at[1], at[1] + PANEL)
            for values in some:
                scatter[rows, columns] += values[:, rows].T @ values[:, columns]

        for _ in ordered_map(panel, panels, threads):
            pass
    for i, j in panels:
        scatter[j : j + PANEL, i : i + PANEL] = scatter[i : i + PANEL, j : j + PANEL].T
    return scatter, total


def _rank(values: Doubles, dtype: np.dtype[Any]) -> int:
    """The number of eigenvalues that exceed the rounding of the products."""
    return int((values > 32 * np.finfo(dtype).eps * values[0]).sum())
