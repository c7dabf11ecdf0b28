"""Likelihood ratios from Gaussian kernel densities of both samples (paper: sec:kde-mauve)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from mallow._checks import positive
from mallow.engine import cores, ordered_map
from mallow.errors import warn_about
from mallow.estimate._features import Features, estimate_masses
from mallow.estimate._neighbors import blocks, checked_distances, to_unit_range
from mallow.estimate._reduce import Reduce, distinct_points
from mallow.theory import Array, Masses, range_caveats

_WIDEN = 1.4  # measured: kernel width with the smallest error, in units of Scott's rule, see `KernelDensity`
_NARROWEST = 1e-150  # for samples of one repeated point: the ratio is 1 or 0 at any small width


@dataclass(frozen=True)
class KernelDensity:
    """Estimate masses from Gaussian kernel densities of both samples (paper: sec:kde-mauve).

    At a point of Q the likelihood ratio is the density of P, from all n samples, over the density of Q, from the
    *other* m − 1 samples. At a point of P the roles are exchanged. If the other sample holds a copy of the point, one
    copy is left out as well. Otherwise a model that repeats the reference would differ from it, whereas P identical to
    Q should give r = 1. Sums are taken in log space. P and Q share one bandwidth, whose normalisation cancels. The
    estimate has no randomness, is exactly symmetric in the two samples, and does not depend on the order of their rows.

    Known failure: a point that is far from its own sample but near the other sample has an unbounded ratio. In the
    published form (`pooled=False`) a single such point can dominate the cost of the whole sample: with GloVe features
    of web text, 900 on each side, the frontier integral, which is at most 1, was 7,000 to 5e14 for six decoders, and
    MAUVE 0. Pooled masses give 0.72 for greedy and 0.73 for beam search, 0.96 to 0.98 for the others, and 0.97 for
    human text against human text.

    Parameters
    ----------
    bandwidth : float or None
        The standard deviation h of the kernel, in units of the reduced features. None: 1.4 σ min(n, m)^(−1/(d + 4)),
        Scott's rule with a factor. At Scott's own width isolated points dominate the estimate (samples of the same
        distribution scored 0.0 in 10 dimensions at n = 500, c = 10); with the factor 1.4 they score 0.85, and with 2
        real gaps vanish. σ and d are those of the isotropic Gaussian whose pairwise squared distances have the same
        mean and variance as the distances within the samples: 2σ²d and 8σ⁴d. So the rule only needs distances.
    reduce : Reduce or None
        Reduction first, as in `Neighbors`. None: no reduction.
    pooled : bool
        As in `Neighbors`. False, as published, adds a caveat if a few points dominate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 2)), rng.normal(1.0, 1.0, size=(500, 2))
    >>> KernelDensity(bandwidth=0.5, reduce=None)(x, y).p.shape
    (1000,)
    """

    bandwidth: float | None = None
    reduce: Reduce | None = field(default_factory=lambda: Reduce(dimension=10))
    pooled: bool = True

    scale: ClassVar[float] = 10.0
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            positive("bandwidth", self.bandwidth, why=" Pass bandwidth=None for a rule that fits the data.")

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator | None = 0) -> Masses:
        """Masses at the points of both samples; `rng` is not used."""
        return estimate_masses(self, x, y, rng)

    def prepare(self, x: Features, y: Features) -> Masses:
        """The masses: nothing here needs randomness."""
        from scipy.spatial.distance import cdist

        n, m = len(x), len(y)
        distinct, pooled, _ = distinct_points(self.reduce, x, y)
        points, exponent = to_unit_range(distinct)
        points = points[pooled.group]
        width = _scott(n, m, *_moments(points[:n]), *_moments(points[n:]))
        if self.bandwidth is not None:
            width = math.ldexp(self.bandwidth, -exponent)

        def log_ratios(rows: slice) -> Array:
            return _log_ratios(cdist(points[rows], points, "sqeuclidean"), rows, n, width)

        log_ratio = np.concatenate(list(ordered_map(log_ratios, blocks(n + m, n + m), cores())))
        return self._masses(log_ratio, n, math.ldexp(width, exponent))

    def masses(self, prepared: Masses, rng: int | np.random.Generator | None = 0) -> Masses:
        """The prepared masses: every repeat is the same."""
        return prepared

    def from_distances(self, distances: Any, n: int) -> Masses:
        """Masses from the distances between all points; parameters as in `Neighbors.from_distances`."""
        matrix, n = checked_distances(distances, n)
        m = len(matrix) - n
        exponent = math.frexp(float(matrix.max()))[1]
        if self.bandwidth is None:
            inner = [np.ldexp(part.astype(np.float64), -exponent) for part in (matrix[:n, :n], matrix[n:, n:])]
            width = _scott(n, m, *(_off_diagonal(part, power) for part in inner for power in (2, 4)))
        else:
            width = math.ldexp(self.bandwidth, -exponent)
        log_ratios = [
            _log_ratios(np.ldexp(matrix[rows].astype(np.float64), -exponent) ** 2, rows, n, width)
            for rows in blocks(len(matrix), len(matrix))
        ]
        masses = self._masses(np.concatenate(log_ratios), n, math.ldexp(width, exponent))
        warn_about(masses.caveats)
        return masses

    def _masses(self, log_ratio: Array, n: int, width: float) -> Masses:
        masses = Masses.from_log_ratio(log_ratio[:n], log_ratio[n:], pooled=self.pooled)
        way_out = f"Use pooled=True, a wider `bandwidth` than {width:.3g}, or more samples."
        return replace(masses, caveats=range_caveats(masses, way_out))


def _log_ratios(squared: Array, rows: slice, n: int, width: float) -> Array:
    """log of the ratio of the densities of P and Q at some points, from the squared distances (rows, n + m)."""
    point, row = np.arange(rows.start, rows.stop), np.arange(rows.stop - rows.start)
    of_p = point < n
    squared[row, point] = np.inf  # leave one out
    size_p, size_q = n - of_p, squared.shape[1] - n - ~of_p
    for columns, size, side in ((squared[:, :n], size_p, ~of_p), (squared[:, n:], size_q, of_p)):
        copy = columns.argmin(axis=1)  # the point itself, in the other sample
        has_copy = side & (columns[row, copy] == 0)
        columns[row[has_copy], copy[has_copy]] = np.inf
        size -= has_copy
    least, total = zip(*(_log_sum(part, width) for part in (squared[:, :n], squared[:, n:])), strict=True)
    with np.errstate(over="ignore"):
        gap: Array = (least[1] - least[0]) / width / width / 2
    # Both logarithms in one pair of brackets: exactly the negative when P and Q are swapped.
    log_ratio: Array = gap + (np.log(total[0] / size_p) - np.log(total[1] / size_q))
    return log_ratio


def _log_sum(squared: Array, width: float) -> tuple[Array, Array]:
    """The smallest squared distance of each row, and the sum of kernels relative to the kernel there, at least 1."""
    least = squared.min(axis=1)
    with np.errstate(over="ignore", under="ignore"):
        scaled = squared - least[:, None]
        scaled /= width
        scaled /= -2 * width
        return least, np.exp(scaled, out=scaled).sum(axis=1)


def _moments(points: Array) -> tuple[float, float]:
    """Mean and mean square of the squared distances between different points of a sample, without all pairs."""
    n = len(points)
    centred = points - points.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    gram = centred @ centred.T if n < centred.shape[1] else centred.T @ centred
    mean = 2 * squares.mean()
    square = 2 * (squares**2).mean() + 2 * squares.mean() ** 2 + 4 * ((gram / n) ** 2).sum()
    return float(mean * n / (n - 1)), float(square * n / (n - 1))


def _off_diagonal(matrix: Array, power: int) -> float:
    """The mean of a power of all entries off the diagonal, which is 0."""
    return float((matrix**power).sum() / (len(matrix) * (len(matrix) - 1)))


def _scott(n: int, m: int, mean_x: float, square_x: float, mean_y: float, square_y: float) -> float:
    """The bandwidth by the rule in `KernelDensity`, from moments of squared distances within each sample."""
    mean, square = (mean_x + mean_y) / 2, (square_x + square_y) / 2
    if mean == 0:
        return _NARROWEST
    size = min(n, m)
    variance = square - mean**2
    most = max(1, size - 1)  # the points span no more dimensions than this; if all are equally far apart, they span all
    dimension = min(2 * mean**2 / variance, most) if variance > 2 * mean**2 / most else most
    return _WIDEN * math.sqrt(mean / (2 * dimension)) * math.pow(size, -1 / (dimension + 4))
