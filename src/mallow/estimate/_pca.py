"""Joint PCA of two samples, from exact sums of integers, without copying the samples.

Rows lie on a grid of integers, so sums of their products do not depend on any order. LAPACK gets the same matrix
everywhere. Its results differ only by rounding, which vanishes when the axes are put on a grid too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import (
    cores,
    ordered_map,
    round_to,
    single_threaded_blas,
    unit_rows,
)
from mallow.estimate._row_order import BLOCK, NO_ROWS, CanonicalOrder, Indices, canonical_order, common_dtype, take_rows
from mallow.estimate._spectrum import Spectrum, spectrum_from_covariance, spectrum_from_gram

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

ORDINARY = 20  # chosen: values between 2^-20 and 2^20 are not rescaled, as their squares neither overflow nor vanish
ROW_BITS = 20  # rows are integers up to 2^20, relative to the largest value; chosen: products of 2,560 rows are exact
AXIS_BITS = 32  # of the finest grid that axes lie on


@dataclass(frozen=True)
class Projection:
    """The map from a row to a point, which depends only on this row, to the last bit.

    Attributes
    ----------
    axes : float64 array (d', d)
        Orthonormal up to the grid they lie on. The largest entry of each is positive.
    mean : float64 array (d,)
        The mean of the (normalised) pooled rows, in units of ``2**exponent``.
    normalise : bool
        Whether rows are scaled to length 1 first.
    exponent : int
        Values are divided by ``2**exponent`` first; 0 unless they are extremely large or small.
    grid : int
        A row minus the mean is rounded to multiples of ``2**grid``.
    """

    axes: Doubles
    mean: Doubles
    normalise: bool
    exponent: int
    grid: int

    def integers(self, rows: Array) -> Doubles:
        """Rows minus the mean, as integers in units of ``2**(exponent + grid)``."""
        values = unit_rows(rows) if self.normalise else scale_rows(rows, self.exponent)
        values -= self.mean
        values *= 2.0**-self.grid
        return np.rint(values, out=values)

    def __call__(self, rows: Array) -> Doubles:
        """The coordinates of rows, in units of ``2**exponent``."""
        integers = self.axes.T * 2.0**AXIS_BITS  # axes lie on a grid of 2**-32 or coarser
        points: Doubles = (self.integers(rows) @ integers) * 2.0 ** (self.grid - AXIS_BITS)
        return points


@dataclass(frozen=True)
class Reduction:
    """The distinct pooled rows on their leading principal axes.

    Attributes
    ----------
    points : array (g, d')
        Coordinates of the distinct rows, centred, in canonical order; multiplied by ``2**exponent`` they are in the
        units of the input. `split` gives the coordinates of x and of y.
    pooled : CanonicalOrder
    projection : Projection
    variances : float64 array (d',)
        Variance along each axis (divided by n + m), in units of ``4**exponent``.
    explained : float
        Share of the total variance that is kept; 1 if the data have no variance.
    flat : bool
        Whether the data have no variance; all points are then 0.
    """

    points: Array
    pooled: CanonicalOrder
    projection: Projection
    variances: Doubles
    explained: float
    flat: bool

    @property
    def axes(self) -> Doubles:
        """The axes, as rows."""
        return self.projection.axes

    @property
    def mean(self) -> Doubles:
        """The mean of the pooled rows."""
        return self.projection.mean

    @property
    def exponent(self) -> int:
        """The power of two in which points and mean are measured."""
        return self.projection.exponent

    @property
    def precision(self) -> float:
        """The largest shift of a point by rounding rows to a grid, relative to the farthest point."""
        farthest = float(np.sqrt(np.square(self.points.astype(np.float64)).sum(axis=1).max()))
        step = 2.0**self.projection.grid
        return float(np.sqrt(self.axes.shape[1])) * step / farthest if farthest > 0 else 0.0

    def without_points(self) -> Reduction:
        """Only the axes and variances, which take little memory."""
        return replace(self, points=self.points[:0].copy(), pooled=NO_ROWS)

    def split(self, n: int) -> tuple[Array, Array]:
        """The coordinates of the first n pooled rows, which belong to x, and of the others, which belong to y."""
        return self.points[self.pooled.group[:n]], self.points[self.pooled.group[n:]]


def pca_joint(
    x: Array,
    y: Array,
    *,
    variance: float = 0.9,
    dimension: int | None = None,
    normalize: bool = False,
    threads: int | None = None,
) -> Reduction:
    """Principal components of the pooled rows of ``x`` (n, d) and ``y`` (m, d).

    Keeps the fewest axes that explain the share ``variance`` of the variance, or ``dimension`` axes if that is not
    None (fewer if the data have fewer). The result is bit-equal for any number of threads, any processor and BLAS, any
    order of the rows, and when x and y are swapped. Axes without variance beyond rounding are dropped, but at least one
    axis is kept: if there is no variance at all, all points are 0.

    Blocks of rows are copied, normalised, centred and rounded one at a time. With fewer rows than columns, the (n + m)²
    Gram matrix replaces the d² covariance.

    Parameters
    ----------
    normalize : bool
        Divide each row by its Euclidean norm first; rows of zeros are left as they are.
    threads : int, optional
        By default all processors available to the process.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[2.0, 4.0]])
    >>> pca_joint(x, y).points.shape, pca_joint(x, y).explained
    ((3, 1), 1.0)
    """
    threads = threads or cores()
    pooled = canonical_order(x, y, threads=threads)
    size, width = len(x) + len(y), x.shape[1]
    dtype = common_dtype(x, y)

    def rows(at: Indices) -> Array:
        return take_rows(x, y, at, dtype)

    def farthest(exponent: int, origin: Doubles) -> float:
        def block(low: int) -> float:
            return largest_rest(rows(pooled.distinct[low : low + BLOCK]), exponent, origin)

        return max(ordered_map(block, range(0, len(pooled.distinct), BLOCK), threads))

    def spectra(frames: Sequence[Projection]) -> list[Spectrum]:
        def integers(at: Indices) -> Doubles:
            return frames[0].integers(rows(at))

        if width <= size:
            return [spectrum_from_covariance(integers, pooled.order, threads, is_enough(variance, dimension))]
        return [spectrum_from_gram(integers, pooled.order, threads)]

    with single_threaded_blas():
        largest = max(max(float(part.max()), -float(part.min())) for part in (x, y) if part.size)
        spread = rows(pooled.order[evenly_spaced(size)])
        source = RowSource(size, dtype, len(pooled.distinct) == 1, largest, spread, farthest)
        (reduction,) = find_axes([source], spectra, normalize, variance, dimension)
        points = np.zeros((len(pooled.distinct), len(reduction.axes)), dtype)

        def project(low: int) -> None:
            points[low : low + BLOCK] = reduction.projection(rows(pooled.distinct[low : low + BLOCK]))

        for _ in ordered_map(project, range(0, 0 if reduction.flat else len(points), BLOCK), threads):
            pass
    return replace(reduction, points=points, pooled=pooled)


def is_enough(variance: float, dimension: int | None) -> Callable[[Doubles, float], bool]:
    """Decides from the leading eigenvalues and the sum of all whether these are enough."""

    def enough(values: Doubles, total: float) -> bool:
        if dimension is not None:
            return dimension <= len(values)
        return variance < 1.0 and float(values.sum()) >= variance * total

    return enough


def choose_axes(
    frame: Projection, spectrum: Spectrum, source: RowSource, variance: float, dimension: int | None
) -> Reduction:
    """The axes to keep of the spectrum of the rows of a source in a frame, without points."""
    rounding = 8 * float(np.finfo(source.dtype).eps * np.linalg.norm(frame.mean)) * 2.0**-frame.grid
    flat = source.one_row or spectrum.total <= source.size * max(rounding**2, 0.25 * len(frame.mean))
    if flat:
        spectrum = replace(spectrum, values=np.zeros_like(spectrum.values), total=0.0, rank=0)
    kept = _axes_to_keep(spectrum, variance, dimension)
    axes = _on_grid(_with_signs(spectrum.axes(kept)))
    mean = frame.mean + spectrum.mean * 2.0**frame.grid
    total, unit = spectrum.total, 4.0**frame.grid
    explained = float(spectrum.values[:kept].sum() / total) if total > 0 else 1.0
    variances = spectrum.values[:kept] * unit / source.size
    return Reduction(
        np.empty((0, kept), source.dtype), NO_ROWS, replace(frame, axes=axes, mean=mean), variances, explained, flat
    )


def _axes_to_keep(spectrum: Spectrum, variance: float, dimension: int | None) -> int:
    """The number of axes to keep."""
    if dimension is not None:
        return max(1, min(dimension, spectrum.rank))
    share = np.cumsum(spectrum.values[: spectrum.rank])
    enough = 1 + int(np.searchsorted(share, variance * spectrum.total)) if spectrum.rank else 1
    return max(1, min(enough, spectrum.rank))


def _with_signs(axes: Doubles) -> Doubles:
    """The axes, with signs that make the largest entry of each positive."""
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, None]


def _on_grid(axes: Doubles) -> Doubles:
    """Axes, rounded so that LAPACK's rounding changes a value only once in a few thousand runs.

    LAPACK's rounding is about 1e-13 for a width of 1,000 and falls with the width. The chance that it crosses a border
    grows with the number of entries. Hence a step of 2^-14 there, and a finer one for narrow data, down to 2^-30.
    """
    bits = max(14, AXIS_BITS + 2 - 2 * axes.shape[1].bit_length())
    rounded: Doubles = np.ldexp(round_to(axes, -bits), -bits)
    return rounded


@dataclass(frozen=True, eq=False)
class RowSource:
    """The rows whose axes are computed, in memory or not."""

    size: int
    dtype: np.dtype[Any]  # the common precision of the rows
    one_row: bool  # whether all rows are the same
    largest: float  # the largest absolute value
    spread: Array  # the rows that are `evenly_spaced` in the canonical order
    farthest: Callable[[int, Doubles], float]  # exponent, origin → the largest value of `largest_rest` of all rows


def evenly_spaced(size: int) -> Indices:
    """The indices of rows that are spread evenly over all rows."""
    return np.linspace(0, size - 1, min(size, BLOCK)).astype(np.int64)


def find_axes(
    sources: Sequence[RowSource],
    spectra: Callable[[Sequence[Projection]], Sequence[Spectrum]],
    normalise: bool,
    variance: float,
    dimension: int | None,
) -> list[Reduction]:
    """The axes to keep of each source; `spectra` gives the spectra of all sources, each in its frame."""
    frames = [_find_frame(source, normalise) for source in sources]
    parts = zip(frames, spectra(frames), sources, strict=True)
    return [choose_axes(*part, variance, dimension) for part in parts]


def _find_frame(source: RowSource, normalise: bool) -> Projection:
    """An origin near the mean of all rows, and a power of two above the largest entry of the rows minus the origin.

    The origin is the mean of some rows, so that less is lost when the differences are rounded.
    """
    none = np.zeros((0, source.spread.shape[1]))
    if normalise:
        return Projection(none, unit_rows(source.spread).mean(axis=0), True, 0, -ROW_BITS)
    exponent = exponent_for(source.largest)
    origin = scale_rows(source.spread, exponent).mean(axis=0)
    above = int(np.frexp(source.farthest(exponent, origin))[1])
    return Projection(none, origin, False, exponent, above - ROW_BITS)


def largest_rest(rows: Array, exponent: int, origin: Doubles) -> float:
    """The largest absolute value of the rows minus the origin, in units of ``2**exponent``."""
    rest = scale_rows(rows, exponent) - origin
    return max(float(rest.max()), -float(rest.min()))


def scale_rows(rows: Array, exponent: int) -> Doubles:
    """A copy of rows in units of ``2**exponent``."""
    values = np.array(rows, np.float64)
    return np.ldexp(values, -exponent) if exponent else values


def exponent_for(largest: float) -> int:
    """The power of two above the largest absolute value, or 0 if that value is ordinary."""
    exponent = int(np.frexp(largest)[1])
    return 0 if largest == 0 or -ORDINARY < exponent < ORDINARY else exponent
