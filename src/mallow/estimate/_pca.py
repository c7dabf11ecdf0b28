"""Joint PCA of two samples from sums over blocks in a fixed order, without a copy of the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.estimate._row_order import BLOCK, CanonicalOrder, Indices, canonical_order, common_dtype, take_rows

__all__ = ["CanonicalOrder", "Reduction", "canonical_order", "pca_joint"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

PANEL = 256  # columns of one product of the scatter matrix
ROWS = 2560  # rows of one product: fewer cost time, more cost memory
LEADING = 192  # eigenvectors looked for first; as a rule they hold the variance wanted
SMALL = 2**31  # below this many multiplications all is done in float64, at no visible cost
ORDINARY = 20  # values between 2^-20 and 2^20 are not rescaled


@dataclass(frozen=True)
class Reduction:
    """The distinct pooled rows on their leading principal axes.

    Attributes
    ----------
    points : array (g, d')
        Coordinates of the distinct rows, in canonical order and centred; times ``2**exponent`` in the units
        of the input. Rows of x are ``points[pooled.group[:n]]``, rows of y ``points[pooled.group[n:]]``.
    pooled : CanonicalOrder
    axes : float64 array (d', d)
        Orthonormal principal axes, by falling variance; the largest entry of each is positive.
    mean : float64 array (d,)
        Mean of the (normalised) pooled rows, in units of ``2**exponent``.
    variances : float64 array (d',)
        Variance along each axis (divided by n + m), in units of ``4**exponent``.
    explained : float
        Share of the total variance that is kept; 1 if there is none.
    exponent : int
        0 unless the values are extremely large or small.
    """

    points: Array
    pooled: CanonicalOrder
    axes: Doubles
    mean: Doubles
    variances: Doubles
    explained: float
    exponent: int


def pca_joint(
    x: Array,
    y: Array,
    *,
    variance: float = 0.9,
    dimension: int | None = None,
    normalize: bool = False,
    pooled: CanonicalOrder | None = None,
    threads: int | None = None,
) -> Reduction:
    """Principal components of the pooled rows of ``x`` (n, d) and ``y`` (m, d).

    Keeps the fewest axes that explain the fraction ``variance``, or exactly ``dimension`` axes if given
    (fewer if the data have fewer). The result is bit-equal for any number of threads, any order of the rows,
    and x and y swapped. Axes with no variance beyond rounding are never kept, but one axis always is: without
    any variance all points are 0.

    Blocks of rows are copied, normalised and centred one at a time, and multiplied in the precision of the
    input; the sums over blocks are float64. With fewer rows than columns the (n + m)² Gram matrix replaces
    the d² covariance.

    Parameters
    ----------
    normalize : bool
        Divide each row by its Euclidean norm first; rows of zeros stay as they are.
    pooled : CanonicalOrder, optional
        That of x and y, if already known.
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
    pooled = pooled or canonical_order(x, y, threads=threads)
    size, width = len(x) + len(y), x.shape[1]
    dtype = np.dtype(np.float64) if size * width * min(size, width) <= SMALL else common_dtype(x, y)
    exponent = 0 if normalize else _exponent(x, y)

    def block(rows: Indices, origin: Array) -> Array:
        values = take_rows(x, y, rows, dtype)
        if normalize:
            _normalize(values)
        elif exponent:
            values = np.ldexp(values, -exponent)
        values -= origin
        return values

    with single_threaded_blas():
        # An approximate mean, from rows spread evenly over the order, keeps the sums free of cancellation.
        some = pooled.order[np.linspace(0, size - 1, min(size, BLOCK)).astype(np.int64)]
        shift = block(some, np.zeros(width, dtype)).mean(axis=0)

        def wanted(values: Doubles, total: float) -> bool:
            if dimension is not None:
                return dimension < len(values)
            return float(values[: len(values) - 8].sum()) >= variance * total  # the last few are the least exact

        def shifted(rows: Indices) -> Array:
            return block(rows, shift)

        if width <= size:
            spectrum = _covariance_side(shifted, pooled, width, dtype, threads, wanted)
        else:
            spectrum = _gram_side(shifted, pooled, width, dtype, threads)
        rounding = 8 * float(np.finfo(common_dtype(x, y)).eps * np.linalg.norm(shift.astype(np.float64)))
        flat = len(pooled.distinct) == 1 or spectrum.total <= size * rounding**2
        if flat:
            spectrum = replace(spectrum, values=np.zeros_like(spectrum.values), total=0.0, rank=0)
        kept = _kept(spectrum, variance, dimension)
        axes = _signed(spectrum.axes(kept))
        centre = shift + spectrum.mean.astype(dtype)
        basis = np.ascontiguousarray(axes.T.astype(dtype))
        points = np.zeros((len(pooled.distinct), kept), common_dtype(x, y))

        def project(low: int) -> None:
            at = slice(low, low + BLOCK)
            points[at] = block(pooled.distinct[at], centre) @ basis

        for _ in ordered_map(project, range(0, 0 if flat else len(points), BLOCK), threads):
            pass
    total = spectrum.total
    return Reduction(
        points,
        pooled,
        axes,
        centre.astype(np.float64),
        spectrum.values[:kept] / size,
        float(spectrum.values[:kept].sum() / total) if total > 0 else 1.0,
        exponent,
    )


@dataclass(frozen=True)
class _Spectrum:
    values: Doubles  # eigenvalues of the scatter matrix, falling, none negative; perhaps the largest alone
    total: float  # the sum of all of them
    rank: int  # how many are above rounding
    mean: Doubles  # (d,) of the shifted rows
    axes: Callable[[int], Doubles]  # the first few, as rows


def _covariance_side(
    block: Callable[[Indices], Array],
    pooled: CanonicalOrder,
    width: int,
    dtype: np.dtype[Any],
    threads: int,
    wanted: Callable[[Doubles, float], bool],
) -> _Spectrum:
    size = len(pooled.order)

    def rows(low: int) -> Array:
        return block(pooled.order[low : low + ROWS])

    scatter, total = _scatter(rows, range(0, size, ROWS), width, threads)
    mean = total / size
    scatter -= size * np.outer(mean, mean)
    values, vectors = _leading(scatter, wanted) if dtype == np.float32 else np.linalg.eigh(scatter)
    values = np.maximum(values[::-1], 0)
    sum_of_all = float(np.trace(scatter)) if len(values) < width else float(values.sum())
    return _Spectrum(values, sum_of_all, _rank(values, dtype), mean, lambda kept: vectors[:, ::-1][:, :kept].T)


def _leading(scatter: Doubles, wanted: Callable[[Doubles, float], bool]) -> tuple[Doubles, Doubles]:
    """The largest eigenvalues, rising, and their eigenvectors: as many as `wanted` needs, or all.

    A few from float32, with variances (Rayleigh quotients) in float64, cost two thirds of all of them; the products behind
    the scatter matrix are float32 anyway.
    """
    import scipy.linalg

    width, total = len(scatter), float(np.trace(scatter))
    if width >= 2 * LEADING and total > 0:
        small = (scatter / total).astype(np.float32)
        _, found = scipy.linalg.eigh(small, subset_by_index=[width - LEADING, width - 1], check_finite=False)
        vectors = found.astype(np.float64)
        values = np.einsum("ij,ij->j", vectors, scatter @ vectors)
        if wanted(values[::-1], total):
            return values, vectors
    values, vectors = np.linalg.eigh(scatter)
    return values, vectors


def _gram_side(
    block: Callable[[Indices], Array],
    pooled: CanonicalOrder,
    width: int,
    dtype: np.dtype[Any],
    threads: int,
) -> _Spectrum:
    rows = block(pooled.order)
    mean = rows.mean(axis=0, dtype=np.float64)
    rows -= mean.astype(dtype)
    scatter, _ = _scatter(lambda low: rows[:, low : low + BLOCK].T, range(0, width, BLOCK), len(rows), threads)
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values[::-1], 0)

    def axes(kept: int) -> Doubles:
        leading = np.ascontiguousarray(vectors[:, ::-1][:, :kept].T).astype(dtype)
        found, _ = np.linalg.qr((leading @ rows).T.astype(np.float64))
        return found.T

    return _Spectrum(values, float(values.sum()), _rank(values, dtype), mean, axes)


def _scatter(block: Callable[[int], Array], starts: range, width: int, threads: int) -> tuple[Doubles, Doubles]:
    """Sum over blocks B (b, width) of Bᵀ B, and of their rows.

    A task owns some panels of the result and adds the blocks to them in order, so no sum depends on the
    threads.
    """
    scatter = np.zeros((width, width))
    total = np.zeros(width)
    panels = [(i, j) for i in range(0, width, PANEL) for j in range(i, width, PANEL)]

    group = min(2 * threads, 16)  # blocks in memory at a time
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
    """Number of eigenvalues that stand out from the rounding of the products."""
    return int((values > 32 * np.finfo(dtype).eps * values[0]).sum())


def _kept(spectrum: _Spectrum, variance: float, dimension: int | None) -> int:
    """Number of axes to keep."""
    if dimension is not None:
        return max(1, min(dimension, spectrum.rank))
    share = np.cumsum(spectrum.values[: spectrum.rank])
    enough = 1 + int(np.searchsorted(share, variance * spectrum.total)) if spectrum.rank else 1
    return max(1, min(enough, spectrum.rank))


def _signed(axes: Doubles) -> Doubles:
    """Axes with their largest entry positive."""
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, None]


def _exponent(x: Array, y: Array) -> int:
    """Power of two above the largest absolute value, or 0 if that is ordinary."""
    largest = max(max(float(part.max()), -float(part.min())) for part in (x, y) if part.size)
    exponent = int(np.frexp(largest)[1])
    return 0 if largest == 0 or -ORDINARY < exponent < ORDINARY else exponent


def _normalize(values: Array) -> None:
    """Divide rows by their norm, in place; extreme rows, whose squares overflow or vanish, are scaled."""
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    exponent = np.frexp(largest)[1]
    extreme = np.flatnonzero((np.abs(exponent) >= ORDINARY) & (largest > 0))
    if extreme.size:
        values[extreme] = np.ldexp(values[extreme], -exponent[extreme, None])
    norm = np.sqrt(np.einsum("ij,ij->i", values, values))
    norm[norm == 0] = 1
    values /= norm[:, None]
