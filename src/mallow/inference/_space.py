"""The samples in coordinates that know nothing of their sides: what the witness and the test of identity work in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.estimate import Features, Reduce, lloyd
from mallow.theory import Array

__all__ = ["LeaveUnitOut", "Space", "find_space"]

_ROWS = 1024  # chosen: rows per task
_CONSTANT = 16.0  # chosen: roundings of its mean up to which the spread of a column counts as none
_ROUNDS = 20  # of k-means; chosen: bins need not be the best ones
_VARIANCE = 0.9  # share of the variance in which bins are made, as published


@dataclass(frozen=True, eq=False)
class Space:
    """The samples of all sets, one set after the other, on all their common principal axes.

    Each column of the features is first divided by its standard deviation. The axes and the
    bins come from the pooled samples, whichever side they are of.

    Attributes
    ----------
    points : array (rows, width)
        Centred; all directions with any variance are kept.
    columns : array (rows, d)
        The scaled features themselves, centred. Variances are compared here: the axes follow the samples, most of all
        those of large units, so that along them a side with fewer units would seem to vary more.
    variances : array (width,)
        Along each axis.
    bins : tuple of int64 arrays (rows,)
        The bin of each sample in partitions by k-means, from coarse to fine.
    sizes : tuple of int
        How many samples each set has.
    """

    points: NDArray[np.floating[Any]]
    columns: NDArray[np.floating[Any]]
    variances: Array
    bins: tuple[NDArray[np.int64], ...]
    sizes: tuple[int, ...]

    def rows(self, place: int) -> slice:
        """The rows of one set."""
        start = sum(self.sizes[:place])
        return slice(start, start + self.sizes[place])

    def metric(self, strength: float) -> Array:
        """The inverse variances along each axis, regularised by `strength` times their mean."""
        floor = strength * float(self.variances.mean())
        return np.where(self.variances > 0, 1.0 / np.maximum(self.variances + floor, np.finfo(float).tiny), 0.0)

    def multiply(self, weights: Array, *, squares: bool = False) -> Array:
        """``points @ weights``, or the squares of the columns @ weights: the same bits on any number of threads."""
        source = self.columns if squares else self.points
        factor = np.ascontiguousarray(weights, dtype=source.dtype)
        product = np.empty((len(source), factor.shape[1]))

        def task(low: int) -> None:
            block = source[low : low + _ROWS]
            product[low : low + _ROWS] = (np.square(block) if squares else block) @ factor

        with single_threaded_blas():
            for _ in ordered_map(task, range(0, len(product), _ROWS), _threads(len(product))):
                pass
        return product

    def sums(self, weights: Array, *, squares: bool = False) -> Array:
        """``weights @ points``, or weights @ the squares of the columns, summed over blocks in a fixed order."""
        source = self.columns if squares else self.points

        def task(low: int) -> Array:
            block = source[low : low + _ROWS]
            part: Array = weights[:, low : low + _ROWS].astype(block.dtype) @ (np.square(block) if squares else block)
            return part

        total = np.zeros((len(weights), source.shape[1]))
        with single_threaded_blas():
            for part in ordered_map(task, range(0, len(source), _ROWS), _threads(len(source))):
                total += part
        return total


def _threads(rows: int) -> int:
    return min(cores(), -(-rows // _ROWS))


def find_space(sets: Sequence[Features], seed: int) -> Space:
    """The common coordinates of the reference and one or more systems."""
    shift, scale = _column_scales(sets)
    dtype = np.result_type(np.float32, *(rows.dtype for rows in sets))
    columns = np.concatenate([((rows - shift) * scale).astype(dtype) for rows in sets])
    axes = Reduce(variance=1.0, normalise=False).fit(columns[: len(sets[0])], columns[len(sets[0]) :])
    group = axes.pooled.group
    sizes = tuple(len(rows) for rows in sets)
    pair = sizes[0] + max(sizes[1:])
    share = np.cumsum(axes.variances) / max(float(axes.variances.sum()), np.finfo(float).tiny)
    leading = np.ascontiguousarray(axes.points[:, : int(np.searchsorted(share, _VARIANCE)) + 1])
    # A few dozen samples per bin see broad shifts, twenty see narrow ones; the same in a comparison of many systems.
    counts = sorted({max(2, min(count, len(leading))) for count in (round(math.sqrt(pair) / 2), pair // 20)})
    rng = np.random.default_rng([seed, 1])
    bins = [lloyd(leading, count, rng=rng, weights=axes.pooled.counts, max_iter=_ROUNDS).labels for count in counts]
    return Space(axes.points[group], columns, axes.variances, tuple(labels[group] for labels in bins), sizes)


def _column_scales(sets: Sequence[Features]) -> tuple[Array, Array]:
    """The mean of each column, and the inverse of its standard deviation; 0 where it is constant."""
    size = sum(len(rows) for rows in sets)
    largest = np.max([np.abs(rows).max(axis=0).astype(np.float64) for rows in sets], axis=0)
    unit = np.ldexp(1.0, -np.frexp(largest)[1])  # no square of a scaled entry overflows
    blocks = [rows[low : low + _ROWS] for rows in sets for low in range(0, len(rows), _ROWS)]
    mean = np.sum([(block * unit).sum(axis=0) for block in blocks], axis=0) / size
    spread = np.sqrt(np.sum([((block * unit - mean) ** 2).sum(axis=0) for block in blocks], axis=0) / size)
    rounding = max(float(np.finfo(rows.dtype).eps) for rows in sets)
    constant = spread <= _CONSTANT * rounding * np.abs(mean)
    spread[constant] = 1.0
    # Twenty bits of the spread: sums in another order of the rows round to the same, and no column jumps in scale.
    step = np.ldexp(1.0, np.frexp(spread)[1] - 20)
    mean, spread = np.round(mean / step) * step, np.round(spread / step) * step
    return mean / unit, np.where(constant, 0.0, unit / spread)


class LeaveUnitOut:
    """Turns products z·Mw into those of a metric M that was made without the samples of z's own unit.

    M = (C + ridge)⁻¹ holds the covariance C of all samples. With the rows Z of a unit taken out of C, their products
    become (I − L)⁻¹ Z M w with L = Z M Zᵀ/N (Woodbury), so that no rule is judged on samples that shaped its metric:
    with it, two samples of a pair that resemble each other would look easier to tell from others than they are.
    """

    def __init__(self, space: Space, unit_of_row: NDArray[np.int64], strengths: Sequence[float]) -> None:
        self._size = len(unit_of_row)
        order = np.argsort(unit_of_row, kind="stable")
        sizes = np.bincount(unit_of_row)
        starts = np.cumsum(sizes) - sizes
        metrics = [space.metric(strength) / len(space.points) for strength in strengths]
        self._parts: list[tuple[NDArray[np.int64], list[Array]]] = []
        for size in np.unique(sizes[sizes > 0]):
            rows = order[starts[sizes == size][:, None] + np.arange(size)]  # (units, size)
            step = max(1, 2**22 // (int(size) * space.points.shape[1]))  # chosen: blocks of some ten megabytes
            inverses: list[list[Array]] = [[] for _ in metrics]
            identity = np.eye(int(size))
            for low in range(0, len(rows), step):
                points = space.points[rows[low : low + step]].astype(np.float64)
                for metric, parts in zip(metrics, inverses, strict=True):
                    own = (points * metric) @ points.swapaxes(1, 2)
                    parts.append(np.linalg.inv((1.0 + 1e-9) * identity - own))
            self._parts.append((rows, [np.concatenate(parts) for parts in inverses]))

    def correct(self, products: Array, place: int) -> Array:
        """The corrected products, (rows, columns), for the strength at `place`."""
        corrected = np.empty_like(products)
        for rows, inverses in self._parts:
            corrected[rows] = inverses[place] @ products[rows]
        return corrected

    def radius(self, place: int) -> Array:
        """The squared distance z·Mz of each row from the centre, in the metric made without its own unit, over N."""
        lengths = np.empty(self._size)
        for rows, inverses in self._parts:
            # (I − L)⁻¹L = (I − L)⁻¹ − I
            lengths[rows] = np.diagonal(inverses[place], axis1=1, axis2=2) - 1.0
        return lengths
