"""The samples in coordinates that know nothing of their sides: what the witness and the test of identity work in."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from mallow.engine import eigenvectors, single_threaded_blas, start
from mallow.estimate import Features
from mallow.evidence._blocks import ROWS, Values, add_up, each_block, sum_blocks
from mallow.evidence._partitions import find_partitions
from mallow.evidence._units import Indices, Keys, Units, content_keys
from mallow.theory import Array

_LARGE = 2560  # chosen: rows per large product; fewer take more time, more take more memory
_FEW = 2**32  # chosen: up to so many multiplications float64 costs a few tenths of a second at most
_ORDINARY = 20  # chosen: values between 2^-20 and 2^20 are not rescaled
_CONSTANT = 16.0  # chosen: roundings of its mean up to which the spread of a column counts as none
_RANK = 32.0  # roundings of the largest variance up to which an axis counts as none, as in `Reduce`


@dataclass(frozen=True, eq=False)
class Axes:
    """What follows from the principal axes of all samples; see `Space`."""

    points: Values
    variances: Array
    bins: tuple[Indices, ...]


@dataclass(frozen=True, eq=False)
class Space:
    """The samples of all sets on all their common principal axes.

    Each column of the features is first divided by its standard deviation. The axes and the bins come from the pooled
    samples, whichever side they are of. Rows are ordered by the keys of their units and by their own values, so that
    nothing depends on the order in which samples came.

    Attributes
    ----------
    columns : array (rows, d)
        The scaled features themselves, centred, in float64 unless they are many: what processors round differently then
        vanishes when held-out scores are rounded. Variances are compared here: the axes follow the samples, most of all
        those of large units, so that along them a side with fewer units would seem to vary more.
    places : tuple of int64 arrays
        For each set, the row of each of its samples.
    unit : int64 array (rows,)
        The unit of each row, from 0, rising: rows of one unit are neighbours.
    keys : uint64 array (units,)
        What identifies each unit.
    axes : Future of Axes
        They are still being found while columns can be used already; `points`, `variances` and `bins` wait for them.
    """

    columns: Values
    places: tuple[Indices, ...]
    unit: Indices
    keys: Keys
    axes: Future[Axes]

    @property
    def points(self) -> Values:
        """The samples on their principal axes, centred, (rows, width); all directions with any variance are kept."""
        return self.axes.result().points

    @property
    def variances(self) -> Array:
        """The variance along each axis, (width,), falling."""
        return self.axes.result().variances

    @property
    def bins(self) -> tuple[Indices, ...]:
        """The bin of each sample in partitions by k-means, (partitions, rows): several with few bins, several with many."""
        return self.axes.result().bins

    def metric(self, strength: float) -> Array:
        """The inverse variances along each axis, regularised by `strength` times their mean."""
        floor = strength * float(self.variances.mean())
        return np.where(self.variances > 0, 1.0 / np.maximum(self.variances + floor, np.finfo(float).tiny), 0.0)


def find_space(sets: Sequence[Features], units: Units, seed: int) -> Space:
    """The common coordinates of the reference and one or more systems, whose units are known."""
    contents = content_keys(sets)
    order, unit, keys = _order_rows(contents, [rows[:, 0] for rows in sets], units)
    row = np.empty_like(order)
    row[order] = np.arange(len(order))
    places = tuple(np.split(row, np.cumsum([len(rows) for rows in sets])[:-1]))
    distinct = [len(np.unique(own)) for own in contents]
    with single_threaded_blas():
        columns = _scale_columns(sets, places)

    def find_axes() -> Axes:
        with single_threaded_blas():
            points, variances = _principal_axes(columns)
            bins = find_partitions(points, variances, unit, distinct[0] + max(distinct[1:]), seed)
        return Axes(points, variances, bins)

    return Space(columns, places, unit, keys, start(find_axes))


def _order_rows(
    contents: Sequence[Keys], first_column: Sequence[Features], units: Units
) -> tuple[Indices, Indices, Keys]:
    """The order of all samples by unit and value, the unit of each in that order, and the keys of these units."""
    content, value, unit = np.concatenate(contents), np.concatenate(first_column), np.concatenate(units.sets)
    sums = np.zeros(units.count, np.uint64)  # tell units with the same key apart: duplicates in a reference without ids
    np.add.at(sums, unit, content)
    rank = np.empty(units.count, np.int64)
    rank[np.lexsort((sums, units.keys))] = np.arange(units.count)
    order = np.lexsort((content, value, rank[unit]))  # by values first: other units of measurement change nothing
    ordered = rank[unit[order]]
    first = np.diff(ordered, prepend=-1) > 0
    return order, np.cumsum(first) - 1, units.keys[unit[order[first]]]


def _scale_columns(sets: Sequence[Features], places: Sequence[Indices]) -> Values:
    """All samples in the order of the space, each column with mean 0 and standard deviation 1; 0 where it is constant."""
    size, width = sum(len(rows) for rows in sets), sets[0].shape[1]
    dtypes = [np.result_type(np.float32, rows.dtype) for rows in sets]
    pair = len(sets[0]) + max(len(rows) for rows in sets[1:])  # a difference of two systems is as exact as their scores
    few = pair * width * min(pair, width) <= _FEW
    columns = np.empty((size, width), np.float64 if few else np.result_type(*dtypes))
    for rows, own in zip(sets, places, strict=True):
        columns[own] = rows
    exponent = np.frexp(np.maximum(columns.max(axis=0), -columns.min(axis=0)))[1]
    if np.abs(exponent).max() >= _ORDINARY:  # squares would overflow, or vanish
        np.ldexp(columns, -exponent, out=columns)
    centre = columns[:ROWS].mean(axis=0)  # near the mean, so that little cancels below

    def moments(low: int) -> Values:
        gap = columns[low : low + ROWS] - centre
        return np.stack([gap.sum(axis=0), np.einsum("ij,ij->j", gap, gap)])

    first, second = sum_blocks(moments, (2, width), size, ROWS) / size
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    mean = centre + first
    constant = spread <= _CONSTANT * max(float(np.finfo(dtype).eps) for dtype in dtypes) * np.abs(mean)
    scale = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, spread)).astype(columns.dtype)
    rest = first.astype(columns.dtype)

    def standardise(low: int) -> None:
        block = columns[low : low + ROWS]
        block -= centre
        block -= rest
        block *= scale

    each_block(standardise, size, ROWS)
    return columns


def _principal_axes(columns: Values) -> tuple[Values, Array]:
    """The coordinates of centred rows on all their principal axes, and the variance along each, falling."""
    size, width = columns.shape
    if width <= size:

        def product(low: int) -> Values:
            block = columns[low : low + _LARGE]
            return block.T @ block

        table = sum_blocks(product, (width, width), size, _LARGE) / size
    else:  # fewer rows than columns: products of rows instead

        def product(low: int) -> Values:
            block = columns[:, low : low + _LARGE]
            return block @ block.T

        table = sum_blocks(product, (size, size), width, _LARGE) / size
    with single_threaded_blas():
        values, vectors = eigenvectors(table.astype(columns.dtype))
    kept = max(1, int(np.count_nonzero(values > _RANK * np.finfo(columns.dtype).eps * values[-1])))
    leading = np.ascontiguousarray(vectors[:, : -kept - 1 : -1])
    if width > size:
        points = leading * np.sqrt(np.maximum(values[: -kept - 1 : -1], 0.0) * size)
    else:
        points = np.empty((size, kept), columns.dtype)

        def project(low: int) -> None:
            np.matmul(columns[low : low + _LARGE], leading, out=points[low : low + _LARGE])

        each_block(project, size, _LARGE)
    variances = add_up(points, np.full((1, size), 1.0 / size), squares=True)[0]
    return points, variances
