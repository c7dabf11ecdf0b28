"""The samples in coordinates that do not depend on their sides, for the witness and the test of identity.

This module also has products with a metric that was computed without the samples of a row's unit.

It also has bins: partitions of the samples by a few rounds of k-means, whatever their side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

from mallow.engine import cores, ordered_map, single_threaded_blas, start
from mallow.estimate import Features
from mallow.evidence._blocks import ROWS, Values, at_once, each_block, sum_blocks
from mallow.evidence._units import Indices, Keys, Units, content_keys
from mallow.theory import Array

_LARGE = 2560  # chosen: rows per large product; fewer take more time, more take more memory
_FEW = 2**32  # chosen: up to this many multiplications, float64 costs a few tenths of a second at most
_ORDINARY = 20  # chosen: values between 2^-20 and 2^20 are not rescaled
_EXTREME = 900  # chosen: powers of two beyond which an inverse is out of range
_CONSTANT = 16.0  # chosen: a column is constant if its spread is at most this many roundings of its mean
_RANK = 32.0  # an axis with a variance of at most this many roundings of the largest is dropped, as in `Reduce`


@dataclass(frozen=True, eq=False)
class Axes:
    """The results from the principal axes of all samples; see `Space`."""

    points: Values
    variances: Array
    bins: tuple[Indices, ...]


@dataclass(frozen=True, eq=False)
class Space:
    """The samples of all sets on all their common principal axes.

    Each column of the features is first divided by its standard deviation. The axes and the bins come from the pooled
    samples, whatever their side. Rows are ordered by the keys of their units and by their own values, so nothing
    depends on the order of the samples.

    Attributes
    ----------
    columns : array (rows, d)
        The scaled features themselves, centred, in float64 unless there are many. Rounding differences between
        processors then vanish when held-out scores are rounded. Variances are compared here, because the axes follow
        the samples, especially of large units, and along them a side with fewer units would seem to vary more.
    places : tuple of int64 arrays
        For each set, the row of each of its samples.
    unit : int64 array (rows,)
        The unit of each row, from 0, rising, so that rows of one unit are neighbours.
    pair : int
        The number of distinct samples of the reference and the largest system together.
    axes : Future of Axes
        They are computed while columns can already be used; `points`, `variances` and `bins` wait for them.
    """

    columns: Values
    places: tuple[Indices, ...]
    unit: Indices
    pair: int
    axes: Future[Axes]

    @property
    def points(self) -> Values:
        """The samples on their principal axes, centred, (rows, width). All directions with any variance are kept."""
        return self.axes.result().points

    @property
    def variances(self) -> Array:
        """The variance along each axis, (width,), falling."""
        return self.axes.result().variances

    @property
    def bins(self) -> tuple[Indices, ...]:
        """The bin of each sample in partitions by k-means, (partitions, rows).

        Several partitions have few bins, and several have many.
        """
        return self.axes.result().bins


def regularised_inverse(variances: Array, strength: float) -> Array:
    """1/(variance + strength · mean variance) along each axis; 0 without variance."""
    floor = strength * float(variances.mean())
    return np.where(variances > 0, 1.0 / np.maximum(variances + floor, np.finfo(float).tiny), 0.0)


def find_space(sets: Sequence[Features], units: Units) -> Space:
    """The common coordinates of the reference and one or more systems with known units."""
    return find_spaces(sets, units, {"": sets[0].shape[1]})[""]


def find_spaces(sets: Sequence[Features], units: Units, widths: Mapping[str, int]) -> dict[str, Space]:
    """The same for columns of several named spaces with these widths, one after the other, with the same rows."""
    contents = content_keys(sets)
    ends = np.cumsum([0, *widths.values()])
    parts = [[rows[:, low:high] for rows in sets] for low, high in pairwise(ends)]
    order, unit = _order_rows(contents, _project(parts[0]), units)
    row = np.empty_like(order)
    row[order] = np.arange(len(order))
    places = tuple(np.split(row, np.cumsum([len(rows) for rows in sets])[:-1]))
    # Distinct rows of both sides together, a number that no exchange of sides changes, so that tests stay exact.
    pair = max(len(np.unique(np.concatenate([contents[0], other]))) for other in contents[1:])
    return {name: _make_space(part, places, unit, pair) for name, part in zip(widths, parts, strict=True)}


def find_space_beside(space: Space, sets: Sequence[Features]) -> Space:
    """The space of other columns of the same samples, whose rows are in the order of `space`."""
    return _make_space(sets, space.places, space.unit, space.pair)


def _make_space(sets: Sequence[Features], places: tuple[Indices, ...], unit: Indices, pair: int) -> Space:
    with single_threaded_blas():
        columns = _scale_columns(sets, places)

    def find_axes() -> Axes:
        with single_threaded_blas():
            points, variances = principal_axes(columns)
            bins = find_partitions(points, variances, unit, pair)
        return Axes(points, variances, bins)

    return Space(columns, places, unit, pair, start(find_axes))


def _project(sets: Sequence[Features]) -> list[Array]:
    """The position of each row on a line through all columns, whose order does not depend on units of measurement."""
    low, high = np.min([rows.min(axis=0) for rows in sets], axis=0), np.max([rows.max(axis=0) for rows in sets], axis=0)
    with np.errstate(over="ignore"):
        span = high.astype(np.float64) - low
    exponent = np.frexp(span)[1]
    shift = np.where(np.abs(exponent) > _EXTREME, -exponent, 0)  # if its inverse would overflow
    line = np.random.default_rng(0).standard_normal(len(span)) / np.where(span > 0, np.ldexp(span, shift), np.inf)

    def project(rows: Features) -> Array:
        scaled = np.ldexp(rows.astype(np.float64), shift) if shift.any() else rows
        value: Array = (scaled * line).sum(axis=1)
        return value

    return [np.concatenate([project(rows[at : at + ROWS]) for at in range(0, len(rows), ROWS)]) for rows in sets]


def _order_rows(contents: Sequence[Keys], values: Sequence[Array], units: Units) -> tuple[Indices, Indices]:
    """The order of all samples by unit and value, and the unit of each in that order."""
    unit = np.concatenate(units.sets)
    order = np.lexsort((np.concatenate(contents), np.concatenate(values)))
    rank = np.empty(units.count, np.int64)  # units in the order of their first rows
    present, first_row = np.unique(unit[order], return_index=True)
    rank[present[np.argsort(first_row)]] = np.arange(len(present))
    order = order[np.argsort(rank[unit[order]], kind="stable")]
    return order, np.cumsum(np.diff(rank[unit[order]], prepend=-1) > 0) - 1


def _scale_columns(sets: Sequence[Features], places: Sequence[Indices]) -> Values:
    """All samples in the order of the space, each column with mean 0 and standard deviation 1.

    Constant columns are 0.
    """
    size, width = sum(len(rows) for rows in sets), sets[0].shape[1]
    dtypes = [np.result_type(np.float32, rows.dtype) for rows in sets]
    pair = len(sets[0]) + max(len(rows) for rows in sets[1:])  # a difference of two systems is as exact as their scores
    few = pair * width * min(pair, width) <= _FEW
    columns = np.empty((size, width), np.float64 if few else np.result_type(*dtypes))
    for rows, rows_of_set in zip(sets, places, strict=True):
        columns[rows_of_set] = rows
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


def principal_axes(columns: Values) -> tuple[Values, Array]:
    """The coordinates of centred rows on all their principal axes, and the variance along each, falling."""
    size, width = columns.shape
    if width <= size:

        def product(low: int) -> Values:
            block = columns[low : low + _LARGE]
            return block.T @ block

        table = sum_blocks(product, (width, width), size, _LARGE) / size
    else:  # fewer rows than columns, so products of rows are used

        def product(low: int) -> Values:
            block = columns[:, low : low + _LARGE]
            return block @ block.T

        table = sum_blocks(product, (size, size), width, _LARGE) / size
    with single_threaded_blas():
        driver = "evd" if len(table) > 1 else "ev"  # SciPy 1.13 asks for too small a workspace for one number
        values, vectors = scipy.linalg.eigh(table.astype(columns.dtype), driver=driver, check_finite=False)
    kept = max(1, int(np.count_nonzero(values > _RANK * np.finfo(columns.dtype).eps * values[-1])))
    leading = np.ascontiguousarray(vectors[:, : -kept - 1 : -1])
    if width > size:
        points = leading * np.sqrt(np.maximum(values[: -kept - 1 : -1], 0.0) * size)
    else:
        points = np.empty((size, kept), columns.dtype)

        def project(low: int) -> None:
            np.matmul(columns[low : low + _LARGE], leading, out=points[low : low + _LARGE])

        each_block(project, size, _LARGE)

    def mean_squares(low: int) -> Values:
        block = points[low : low + ROWS]
        part: Values = np.full((1, len(block)), 1.0 / size, points.dtype) @ np.square(block)
        return part

    return points, sum_blocks(mean_squares, (1, kept), size, ROWS)[0]


_NUMBERS = 2**20  # chosen: numbers of the points at once, some megabytes
_SMALL = 4  # chosen: units with up to this many rows are multiplied all at once


class LeaveUnitOut:
    """Turns products z·Mw into products with a metric M that was computed without the samples of z's unit.

    M = (C + ridge)⁻¹ holds the covariance C of all samples. With the rows Z of a unit taken out of C, their products
    become (I − L)⁻¹ Z M w with L = Z M Zᵀ/N (Woodbury), so that no rule is judged on samples that shaped its metric.
    Otherwise two similar samples of a pair would look easier to distinguish from others than they are.

    `points` are rows on their principal axes with the `variances` along them, units one after the other.

    A unit with more rows than axes has a smaller form: (I − L)⁻¹ = I + Z K Zᵀ, K = (M⁻¹ − ZᵀZ/N)⁻¹/N.
    """

    def __init__(self, points: Values, variances: Array, unit: Indices, strengths: Sequence[float]) -> None:
        self._points = points
        size, width = points.shape
        self._small: list[tuple[Indices, Array]] = []  # rows (units, s), and (I − L)⁻¹, (strengths, units, s, s)
        self._large: list[tuple[slice, Array]] = []  # rows, and K (strengths, width, width)
        if not strengths:
            return
        metrics = np.stack([regularised_inverse(variances, strength) / size for strength in strengths])
        counts = np.bincount(unit)
        starts = np.cumsum(counts) - counts
        with single_threaded_blas():
            for count in np.unique(counts[counts <= width]):
                rows = starts[counts == count][:, None] + np.arange(count)
                step = at_once(_NUMBERS, int(count) * width)
                blocks = [rows[low : low + step] for low in range(0, len(rows), step)]
                products = ordered_map(lambda some: _own_products(points[some], metrics), blocks, cores())
                products_of_units = np.concatenate(list(products), axis=1)
                self._small.append((rows, np.linalg.inv((1.0 + 1e-9) * np.eye(int(count)) - products_of_units)))
            for large in np.flatnonzero(counts > width):
                rows_of_unit = slice(int(starts[large]), int(starts[large] + counts[large]))
                self._large.append((rows_of_unit, _inner_inverses(points[rows_of_unit], metrics)))

    def correct(self, products: Values, number: int) -> Values:
        """The corrected products, (columns, rows), for the strength at `place`."""
        corrected = np.empty_like(products)
        for rows, inverses in self._small:
            _apply(inverses[number].astype(products.dtype), products, rows, corrected)
        for unit, inner in self._large:
            points, of_unit = self._points[unit].astype(np.float64), products[:, unit]
            corrected[:, unit] = of_unit + ((of_unit @ points) @ inner[number]) @ points.T
        return corrected


def _apply(inverses: Values, products: Values, rows: Indices, out: Values) -> None:
    """Products of small matrices (units, s, s) with the columns of each unit's rows (units, s)."""
    count = rows.shape[1]
    if count > _SMALL:
        out[:, rows] = np.moveaxis(inverses @ np.moveaxis(products[:, rows], 0, -1), -1, 0)
        return
    # One pass over all units is much faster than one product for each; slices are faster than indices.
    whole = rows.size == products.shape[1]
    columns = [slice(column, None, count) if whole else rows[:, column] for column in range(count)]
    for row in range(count):
        total = inverses[:, row, 0] * products[:, columns[0]]
        for column in range(1, count):
            total += inverses[:, row, column] * products[:, columns[column]]
        out[:, columns[row]] = total


def _own_products(points: Values, metrics: Array) -> Array:
    """L, (strengths, units, s, s), of units whose rows are `points` (units, s, width)."""
    count = points.shape[1]
    factors = metrics.astype(points.dtype)
    if count <= _SMALL:  # fewer passes over the points
        products = np.stack([(points[:, [column]] * points) @ factors.T for column in range(count)], axis=1)
        return np.moveaxis(products, -1, 0).astype(np.float64)
    other = points.swapaxes(1, 2)
    return np.stack([(points * metric) @ other for metric in factors]).astype(np.float64)


def _inner_inverses(points: Values, metrics: Array) -> Array:
    """K, (strengths, width, width), of one unit whose rows are `points` (s, width)."""
    scatter = (points.T @ points).astype(np.float64)
    inverse = (1.0 + 1e-9) / np.maximum(metrics, np.finfo(float).tiny)
    return np.stack([np.linalg.inv(np.diag(inverse_of_metric) - scatter) for inverse_of_metric in inverse])


PARTITIONS_OF_MANY = 4  # the same with many samples, which depend less on luck
_VARIANCE = 0.9  # share of the variance kept for the bins, as published,
AXES = 32  # on at most this many axes; chosen: more take time and change little
_MOST_BINS = 200  # chosen: more take time
_FITTING_UNITS = 1000  # units that move the centres; chosen: all samples get a bin
_ROUNDS = 3  # of k-means; chosen: bins need not be optimal
PARTITIONS = 8  # of each number of bins; chosen: several poor ones detect more than a good one, with less luck


def find_partitions(
    points: Values, variances: Array, unit: Indices, pair: int, fitted: NDArray[np.bool_] | None = None
) -> tuple[Indices, ...]:
    """The bin of each sample, (partitions, rows), in several partitions with few bins and several with many.

    Parameters
    ----------
    points : array (rows, width)
        Points on their principal axes, one unit after the other.
    variances : array (width,)
    unit : int64 array (rows,)
        The unit of each row, rising.
    pair : int
        The number of distinct samples of two sides together. It determines the bins, not the number of systems.
    fitted : bool array (rows,) or None
        The rows that place the centres; None: all.
    """
    leading = np.ascontiguousarray(points[:, : leading_axes(variances, float(variances.sum()))])
    if fitted is None:
        centres = find_centres(leading, unit, pair)
    else:
        centres = find_centres(leading[fitted], np.unique(unit[fitted], return_inverse=True)[1], pair // 2)
    labels = list(ordered_map(lambda bins: label_points(leading, bins), centres, cores()))
    return tuple(np.stack(labels[low : low + PARTITIONS]) for low in range(0, len(labels), PARTITIONS))


def find_leading(space: Space, fitted: NDArray[np.bool_]) -> tuple[Values, Array, tuple[Indices, ...]]:
    """All rows on the leading axes that some rows determine, the variances along them, and bins by these rows."""
    columns, chosen = space.columns, space.columns[fitted]
    with single_threaded_blas():
        points, variances = principal_axes(chosen - chosen.mean(axis=0))
        count = min(AXES, points.shape[1])
        scale = 1.0 / (len(chosen) * np.maximum(variances[:count], np.finfo(np.float32).tiny))
        axes = chosen.T @ (points[:, :count] * scale).astype(columns.dtype)
        leading = np.empty((len(columns), count), columns.dtype)

        def project(low: int) -> None:
            np.matmul(columns[low : low + _LARGE], axes, out=leading[low : low + _LARGE])

        each_block(project, len(columns), _LARGE)
        bins = find_partitions(leading, variances, space.unit, space.pair, fitted)
    return leading, variances, bins


def leading_axes(variances: Array, total: float) -> int:
    """The number of axes for the bins, from the largest variances along axes and the sum of all."""
    share = np.cumsum(variances) / max(total, np.finfo(float).tiny)
    return min(int(np.searchsorted(share, _VARIANCE)) + 1, AXES)


def find_centres(points: Values, unit: Indices, pair: int, *, partitions: int = PARTITIONS) -> list[Values]:
    """The centres of all partitions, with few bins first, and this many `partitions` with each number of bins."""
    # A few dozen samples per bin detect broad shifts, and twenty detect narrow ones.
    sizes = min(round(math.sqrt(pair) / 2), _MOST_BINS // 2), min(pair // 20, _MOST_BINS)
    counts = sorted({max(2, count) for count in sizes})
    tasks = [(count, [0, 1, size, times]) for size, count in enumerate(counts) for times in range(partitions)]

    def cluster(task: tuple[int, list[int]]) -> Values:
        count, seed = task
        return _cluster(points, unit, count, np.random.default_rng(seed))

    return list(ordered_map(cluster, tasks, cores()))


def _cluster(points: Values, unit: Indices, count: int, rng: np.random.Generator) -> Values:
    """Centres of bins. They start at samples of random units, so copies of a sample change nothing."""
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    sizes = np.diff(starts, append=len(unit))
    order = rng.permutation(len(starts))
    drawn = order[np.arange(count) % len(starts)]
    centres = points[starts[drawn] + (rng.random(count) * sizes[drawn]).astype(np.int64)]
    chosen = np.zeros(len(starts), np.bool_)
    chosen[order[:_FITTING_UNITS]] = True
    some = points if chosen.all() else points[chosen[unit]]
    for _ in range(_ROUNDS):
        labels = label_points(some, centres)
        members = np.bincount(labels, minlength=count)[:, None]
        sums = membership(labels[None], count).T @ some
        centres = np.where(members > 0, sums / np.maximum(members, 1), centres).astype(points.dtype)
    return centres


def label_points(points: Values, centres: Values) -> Indices:
    """The nearest centre of each point."""
    table, half = np.ascontiguousarray(centres.T), np.einsum("ij,ij->i", centres, centres) / 2.0
    labels = np.empty(len(points), np.int64)
    for low in range(0, len(points), ROWS):
        labels[low : low + ROWS] = (points[low : low + ROWS] @ table - half).argmax(axis=1)
    return labels


def membership(partitions: Indices, bins: int) -> sparse.csr_array:
    """Indicators of the bins of rows, (rows, partitions × bins), from their labels (partitions, rows)."""
    count, rows = partitions.shape
    places = (partitions + bins * np.arange(count)[:, None]).T.ravel()
    return sparse.csr_array(
        (np.ones(rows * count), places, np.arange(0, rows * count + 1, count)), shape=(rows, count * bins)
    )
