"""Joint PCA of two samples, from sums over blocks in a fixed order, without copying the samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.estimate._row_order import BLOCK, CanonicalOrder, Indices, canonical_order, common_dtype, take_rows
from mallow.estimate._spectrum import Spectrum, spectrum_from_covariance, spectrum_from_gram

__all__ = ["Reduction", "pca_joint"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

SMALL = 2**31  # chosen: up to this many multiplications float64 costs no noticeable time
ORDINARY = 20  # chosen: values between 2^-20 and 2^20 are not rescaled, as their squares neither overflow nor vanish


@dataclass(frozen=True)
class Reduction:
    """The distinct pooled rows on their leading principal axes.

    Attributes
    ----------
    points : array (g, d')
        Coordinates of the distinct rows, centred, in canonical order; multiplied by ``2**exponent`` they are in the
        units of the input. `split` gives those of x and of y.
    pooled : CanonicalOrder
    axes : float64 array (d', d)
        Orthonormal principal axes in order of falling variance; the largest entry of each is positive.
    mean : float64 array (d,)
        Mean of the (normalised) pooled rows, in units of ``2**exponent``.
    variances : float64 array (d',)
        Variance along each axis (divided by n + m), in units of ``4**exponent``.
    explained : float
        Share of the total variance that is kept; 1 if the data have no variance.
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

    def split(self, n: int) -> tuple[Array, Array]:
        """The coordinates of the first n pooled rows, those of x, and of the others, those of y."""
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
    None (fewer if the data have fewer). The result is bit-equal for any number of threads, for any order of the rows,
    and when x and y are swapped. Axes without variance beyond rounding are dropped, but at least one axis is kept: if
    there is no variance at all, all points are 0.

    Blocks of rows are copied, normalised and centred one at a time and multiplied in the precision of the input; the
    sums over blocks are float64. With fewer rows than columns, the (n + m)² Gram matrix replaces the d² covariance.

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
        # An approximate mean, of rows spread evenly over the order, prevents cancellation in the sums.
        spread = pooled.order[np.linspace(0, size - 1, min(size, BLOCK)).astype(np.int64)]
        shift = block(spread, np.zeros(width, dtype)).mean(axis=0)

        def enough(values: Doubles, total: float) -> bool:
            if dimension is not None:
                return dimension < len(values)
            return float(values[: len(values) - 8].sum()) >= variance * total  # the last few are the least accurate

        def shifted(rows: Indices) -> Array:
            return block(rows, shift)

        if width <= size:
            every = dimension is None and variance >= 1.0
            spectrum = spectrum_from_covariance(shifted, pooled.order, dtype, threads, None if every else enough)
        else:
            spectrum = spectrum_from_gram(shifted, pooled.order, dtype, threads)
        rounding = 8 * float(np.finfo(common_dtype(x, y)).eps * np.linalg.norm(shift.astype(np.float64)))
        flat = len(pooled.distinct) == 1 or spectrum.total <= size * rounding**2
        if flat:
            spectrum = replace(spectrum, values=np.zeros_like(spectrum.values), total=0.0, rank=0)
        kept = _axes_to_keep(spectrum, variance, dimension)
        axes = _with_signs(spectrum.axes(kept))
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


def _exponent(x: Array, y: Array) -> int:
    """The power of two above the largest absolute value, or 0 if that value is ordinary."""
    largest = max(max(float(part.max()), -float(part.min())) for part in (x, y) if part.size)
    exponent = int(np.frexp(largest)[1])
    return 0 if largest == 0 or -ORDINARY < exponent < ORDINARY else exponent


def _normalize(values: Array) -> None:
    """Divide rows by their norms, in place; extreme rows, whose squares would overflow or vanish, are scaled first."""
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    exponent = np.frexp(largest)[1]
    extreme = np.flatnonzero((np.abs(exponent) >= ORDINARY) & (largest > 0))
    if extreme.size:
        values[extreme] = np.ldexp(values[extreme], -exponent[extreme, None])
    norm = np.sqrt(np.einsum("ij,ij->i", values, values))
    norm[norm == 0] = 1
    values /= norm[:, None]
