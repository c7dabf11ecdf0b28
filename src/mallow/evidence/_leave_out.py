"""Products with a metric that was made without the samples of a row's own unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.evidence._blocks import Values, at_once
from mallow.evidence._space import Space
from mallow.evidence._units import Indices
from mallow.theory import Array

_NUMBERS = 2**20  # chosen: numbers of the points at once, some megabytes
_SMALL = 4  # chosen: rows of a unit up to which units are multiplied all at once


class LeaveUnitOut:
    """Turns products z·Mw into those of a metric M that was made without the samples of z's own unit.

    M = (C + ridge)⁻¹ holds the covariance C of all samples. With the rows Z of a unit taken out of C, their products
    become (I − L)⁻¹ Z M w with L = Z M Zᵀ/N (Woodbury), so that no rule is judged on samples that shaped its metric:
    with it, two samples of a pair that resemble each other would look easier to tell from others than they are.

    A unit with more rows than there are axes has a smaller form: (I − L)⁻¹ = I + Z K Zᵀ, K = (M⁻¹ − ZᵀZ/N)⁻¹/N.
    """

    def __init__(self, space: Space, strengths: Sequence[float]) -> None:
        self._points = space.points
        size, width = space.points.shape
        self._metrics = np.stack([space.metric(strength) / size for strength in strengths])  # (strengths, width)
        counts = np.bincount(space.unit)
        starts = np.cumsum(counts) - counts
        self._small: list[
            tuple[Indices, Array, Array]
        ] = []  # rows (units, s); L and (I − L)⁻¹, (strengths, units, s, s)
        self._large: list[tuple[slice, Array]] = []  # rows, and K (strengths, width, width)
        with single_threaded_blas():
            for count in np.unique(counts[counts <= width]):
                rows = starts[counts == count][:, None] + np.arange(count)
                step = at_once(_NUMBERS, int(count) * width)
                blocks = [rows[low : low + step] for low in range(0, len(rows), step)]
                products = ordered_map(lambda some: _own_products(space.points[some], self._metrics), blocks, cores())
                own = np.concatenate(list(products), axis=1)
                self._small.append((rows, own, np.linalg.inv((1.0 + 1e-9) * np.eye(int(count)) - own)))
            for unit in np.flatnonzero(counts > width):
                rows_of_unit = slice(int(starts[unit]), int(starts[unit] + counts[unit]))
                self._large.append((rows_of_unit, _inner_inverses(space.points[rows_of_unit], self._metrics)))

    def own(self, values: Values, place: int) -> Values:
        """L @ values within each unit, (columns, rows), for the strength at `place`."""
        result = np.empty_like(values)
        for rows, own, _ in self._small:
            _apply(own[place].astype(values.dtype), values, rows, result)
        for unit, _ in self._large:
            points = self._points[unit].astype(np.float64)
            result[:, unit] = ((values[:, unit] @ points) * self._metrics[place]) @ points.T
        return result

    def correct(self, products: Values, place: int) -> Values:
        """The corrected products, (columns, rows), for the strength at `place`."""
        corrected = np.empty_like(products)
        for rows, _, inverses in self._small:
            _apply(inverses[place].astype(products.dtype), products, rows, corrected)
        for unit, inner in self._large:
            points, own = self._points[unit].astype(np.float64), products[:, unit]
            corrected[:, unit] = own + ((own @ points) @ inner[place]) @ points.T
        return corrected

    def radius(self, place: int) -> Array:
        """The squared distance z·Mz of each row from the centre, in the metric made without its own unit, over N."""
        lengths = np.empty(len(self._points))
        for rows, _, inverses in self._small:
            # (I − L)⁻¹L = (I − L)⁻¹ − I
            lengths[rows] = np.diagonal(inverses[place], axis1=1, axis2=2) - 1.0
        for unit, inner in self._large:
            points = self._points[unit].astype(np.float64)
            lengths[unit] = np.einsum("ij,ij->i", points @ inner[place], points)
        return lengths


def _apply(inverses: Values, products: Values, rows: Indices, out: Values) -> None:
    """Products of small matrices (units, s, s) with the columns of each unit's rows (units, s)."""
    count = rows.shape[1]
    if count > _SMALL:
        out[:, rows] = np.moveaxis(inverses @ np.moveaxis(products[:, rows], 0, -1), -1, 0)
        return
    # One pass over all units is much faster than one product for each; slices are faster than indices.
    whole = rows.size == products.shape[1]
    columns = [slice(place, None, count) if whole else rows[:, place] for place in range(count)]
    for row in range(count):
        total = inverses[:, row, 0] * products[:, columns[0]]
        for place in range(1, count):
            total += inverses[:, row, place] * products[:, columns[place]]
        out[:, columns[row]] = total


def _own_products(points: Values, metrics: Array) -> Array:
    """L, (strengths, units, s, s), of units whose rows are `points` (units, s, width)."""
    count = points.shape[1]
    factors = metrics.astype(points.dtype)
    if count <= _SMALL:  # fewer passes over the points
        products = np.stack([(points[:, [place]] * points) @ factors.T for place in range(count)], axis=1)
        return np.moveaxis(products, -1, 0).astype(np.float64)
    other = points.swapaxes(1, 2)
    return np.stack([(points * metric) @ other for metric in factors]).astype(np.float64)


def _inner_inverses(points: Values, metrics: Array) -> Array:
    """K, (strengths, width, width), of one unit whose rows are `points` (s, width)."""
    scatter = (points.T @ points).astype(np.float64)
    inverse = (1.0 + 1e-9) / np.maximum(metrics, np.finfo(float).tiny)
    return np.stack([np.linalg.inv(np.diag(own) - scatter) for own in inverse])
