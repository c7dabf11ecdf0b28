"""Likelihood ratios from what lies nearby: nearest neighbours (paper: alg:mauve:knn) and kernels (sec:kde-mauve).

Both estimators are without randomness, exactly symmetric in the two samples, and blind to the order of the rows.
Both also take a matrix of distances, so that they work where there are no features, as with string kernels.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place, positive, whole
from mallow.engine import cores, ordered_map
from mallow.errors import EstimateWarning, InputError
from mallow.estimate._reduce import Features, Reduce, checked_pair
from mallow.estimate._row_order import canonical_order
from mallow.theory import Array, Masses

__all__ = ["KernelDensity", "Neighbors"]

_ENTRIES = 1 << 20  # entries of a block of distances: a few arrays of 8 MB are held at once
_SPARE = 8  # candidates beyond k: with a tie at the k-th distance, the next one further tells that it ended
_ROUNDING = 64  # distances that differ by this many units of rounding are equal: a rotation moves them by a few
_TOO_LARGE = 2.0  # mean likelihood ratio, which should be 1, from which a few points make the estimate
_WIDEN = 1.4  # kernel width in units of Scott's rule: chosen by the error, see `KernelDensity`


@dataclass(frozen=True)
class Neighbors:
    """Estimate masses from the k nearest neighbours of every point among both samples (paper: alg:mauve:knn).

    At each point the likelihood ratio is r = (|N ∩ X|/n) / (|N ∩ X′|/m), where N are its k nearest neighbours in the
    pooled sample (paper: eq:knn:likelihood-ratio). The point itself is one of them, as in the paper: a point of the
    model is proof that the model has mass there, so that r is finite at the points of Q, and 1/r at those of P. Points
    tied at the k-th distance share the remaining places in equal parts: duplicates count in full, and the order of the
    rows never matters. P identical to Q gives r = 1 everywhere.

    Known failure: D(P‖·) is averaged over the points of Q alone (paper: eq:divf:discretized:knn), where what the model
    misses altogether cannot be seen. For disjoint samples it is f_λ(0) = 1 − λ instead of log(1/λ), and the frontier
    integral 2/3 instead of 1; the same holds for `KernelDensity` and `Classifier`.

    Parameters
    ----------
    neighbors : int or None
        The number of neighbours k, the point itself included. None: √min(n, m), rounded up (71 for 5,000). Few
        neighbours make noise that looks like a gap: with k = 5 two samples of the *same* distribution score 0.33,
        with k = 50 they score 0.975, with 100 they score 0.993 (n = m = 5,000, any dimension, c = 10). Many neighbours
        blur real gaps, and the more the higher the dimension.
    reduce : Reduce or None
        Reduction before the search. The paper finds 5 or 10 axes best and more than 50 useless. None: no reduction.
    pooled : bool
        False, as published: a cost of P is averaged over the points of Q alone, see the known failure. True: over all
        points (`Masses.from_log_ratio`), which sees what the model misses.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 2)), rng.normal(1.0, 1.0, size=(500, 2))
    >>> masses = Neighbors(neighbors=20, reduce=None)(x, y)
    >>> masses.p.shape
    (1000,)
    """

    neighbors: int | None = None
    reduce: Reduce | None = field(default_factory=lambda: Reduce(dimension=10))
    pooled: bool = False

    scale: ClassVar[float] = 10.0
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.neighbors is not None:
            whole("neighbors", self.neighbors, least=2)

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator = 0) -> Masses:
        """Masses at the points of both samples; `rng` is not used."""
        return self.masses(self.prepare(x, y), rng)

    def prepare(self, x: Any, y: Any) -> Masses:
        """All the work: there is no randomness in it."""
        n, m, points, group = _pooled(self.reduce, x, y)
        eps = float(np.finfo(points.dtype).eps)
        times = np.stack([np.bincount(side, minlength=len(points)) for side in (group[:n], group[n:])])
        near = _neighbourhoods(_to_unit_range(points)[0], times.astype(np.float64), self.neighbors_for(n, m), eps)
        return _masses_of_counts(near[:, group], n, self.pooled)

    def masses(self, prepared: Masses, rng: int | np.random.Generator = 0) -> Masses:
        """The prepared masses: every repeat is the same."""
        return prepared

    def from_distances(self, distances: Any, n: int) -> Masses:
        """Masses from the distances between all points; `reduce` is not used.

        Parameters
        ----------
        distances : array (n + m, n + m)
            Of the reference samples, which come first, and the model's. Symmetric, with zeros on the diagonal.
        n : int
            The number of reference samples.
        """
        matrix, n = _checked_distances(distances, n)
        neighbors = self.neighbors_for(n, len(matrix) - n)
        eps = float(np.finfo(matrix.dtype).eps)
        p = (np.arange(len(matrix)) < n).astype(np.float64)
        near = np.empty((2, len(matrix)))
        for rows in _blocks(len(matrix), len(matrix)):
            block = matrix[rows].astype(np.float64)
            near[:, rows], _ = _count(block, np.stack([p, 1.0 - p])[:, None], neighbors, eps, block.max(axis=1))
        return _masses_of_counts(near, n, self.pooled)

    def neighbors_for(self, n: int, m: int) -> int:
        """The number of neighbours for samples of these sizes."""
        if self.neighbors is None:
            return max(2, math.ceil(math.sqrt(min(n, m))))
        if self.neighbors > n + m:
            raise InputError(
                f"`neighbors` must be at most n + m = {n + m} points; got {self.neighbors}. "
                "Pass neighbors=None or more samples."
            )
        if self.neighbors > min(n, m):
            warnings.warn(
                f"{self.neighbors} neighbours are more than the {min(n, m)} points of the smaller sample: "
                "the ratios are forced towards 1.",
                EstimateWarning,
                stacklevel=3,
            )
        return self.neighbors


@dataclass(frozen=True)
class KernelDensity:
    """Estimate masses from Gaussian kernel densities of both samples (paper: sec:kde-mauve).

    At a point of Q the likelihood ratio is the density of P by all n samples over that of Q by the *other* m − 1
    samples; at a point of P the roles are exchanged. Where the other sample holds a copy of the point, one copy is left
    out as well: else a model that repeats the reference would be told from it, while so P identical to Q gives r = 1.
    Sums are taken in log-space. P and Q share one bandwidth, whose normalisation cancels.

    Known failure: a point far from its own sample, but not from the other one, has a ratio without bound, and one
    such point can make the cost of the whole sample. The mean ratio should be 1; from 2 an `EstimateWarning` is given.

    Parameters
    ----------
    bandwidth : float or None
        The standard deviation h of the kernel, in units of the reduced features. None: 1.4 σ min(n, m)^(−1/(d + 4)),
        Scott's rule with a factor. At Scott's own width isolated points make the estimate (samples of the same
        distribution scored 0.0 in 10 dimensions at n = 500, c = 10), with the factor 1.4 they score 0.85 and with 2
        real gaps vanish. σ and d are of the isotropic Gaussian whose pairwise squared distances have the same mean and
        variance as those within the samples: 2σ²d and 8σ⁴d. So the rule needs distances only.
    reduce : Reduce or None
        Reduction first, as in `Neighbors`. None: no reduction.
    pooled : bool
        As in `Neighbors`; it also bounds every ratio, so that no point can make the estimate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 2)), rng.normal(1.0, 1.0, size=(500, 2))
    >>> KernelDensity(bandwidth=0.5, reduce=None)(x, y).p.shape
    (1000,)
    """

    bandwidth: float | None = None
    reduce: Reduce | None = field(default_factory=lambda: Reduce(dimension=10))
    pooled: bool = False

    scale: ClassVar[float] = 10.0
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            positive("bandwidth", self.bandwidth, why=" Pass bandwidth=None for a rule that fits the data.")

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator = 0) -> Masses:
        """Masses at the points of both samples; `rng` is not used."""
        return self.masses(self.prepare(x, y), rng)

    def prepare(self, x: Any, y: Any) -> Masses:
        """All the work: there is no randomness in it."""
        from scipy.spatial.distance import cdist

        n, m, points, group = _pooled(self.reduce, x, y)
        points, exponent = _to_unit_range(points)
        points = points[group]
        width = _scott(n, m, *_moments(points[:n]), *_moments(points[n:]))
        if self.bandwidth is not None:
            width = math.ldexp(self.bandwidth, -exponent)

        def rows(block: slice) -> Array:
            return _log_ratios(cdist(points[block], points, "sqeuclidean"), block, n, width)

        found = np.concatenate(list(ordered_map(rows, _blocks(n + m, n + m), cores())))
        return self._masses(found, n, math.ldexp(width, exponent))

    def masses(self, prepared: Masses, rng: int | np.random.Generator = 0) -> Masses:
        """The prepared masses: every repeat is the same."""
        return prepared

    def from_distances(self, distances: Any, n: int) -> Masses:
        """Masses from the distances between all points; `reduce` is not used.

        Parameters
        ----------
        distances : array (n + m, n + m)
            Of the reference samples, which come first, and the model's. Symmetric, with zeros on the diagonal.
        n : int
            The number of reference samples.
        """
        matrix, n = _checked_distances(distances, n)
        m = len(matrix) - n
        exponent = math.frexp(float(matrix.max()))[1]
        if self.bandwidth is None:
            inner = [np.ldexp(part.astype(np.float64), -exponent) for part in (matrix[:n, :n], matrix[n:, n:])]
            width = _scott(n, m, *(_off_diagonal(part, power) for part in inner for power in (2, 4)))
        else:
            width = math.ldexp(self.bandwidth, -exponent)
        found = [
            _log_ratios(np.ldexp(matrix[rows].astype(np.float64), -exponent) ** 2, rows, n, width)
            for rows in _blocks(len(matrix), len(matrix))
        ]
        return self._masses(np.concatenate(found), n, math.ldexp(width, exponent))

    def _masses(self, log_ratio: Array, n: int, width: float) -> Masses:
        if self.pooled:
            return Masses.from_log_ratio(log_ratio[:n], log_ratio[n:], pooled=True)
        masses = Masses.from_log_ratio(log_ratio[:n], log_ratio[n:])
        split = len(log_ratio) - n
        largest = max(float(masses.p[:split].sum()), float(masses.q[split:].sum()))
        if largest > _TOO_LARGE:
            warnings.warn(
                f"the mean likelihood ratio is {largest:.3g} where it should be 1: points far from their own sample "
                f"make the estimate. Use more samples, a wider `bandwidth` than {width:.3g}, or Neighbors.",
                EstimateWarning,
                stacklevel=3,
            )
        return masses


# --- shared


def _pooled(reduce: Reduce | None, x: Any, y: Any) -> tuple[int, int, Features, NDArray[np.int64]]:
    """n, m, the distinct reduced points in an order of their own, and which of them each sample is."""
    x, y = checked_pair(x, y)
    if reduce is not None:
        found = reduce.fit(x, y)
        return len(x), len(y), found.points, found.pooled.group
    pooled = canonical_order(x, y)
    return len(x), len(y), np.concatenate([x, y])[pooled.distinct], pooled.group


def _to_unit_range(points: Features) -> tuple[Array, int]:
    """Points divided by a power of two, so that no square overflows; exact."""
    exponent = math.frexp(float(np.abs(points).max()))[1]
    return np.ldexp(points.astype(np.float64), -exponent), exponent


def _blocks(rows: int, width: int) -> list[slice]:
    step = max(1, _ENTRIES // width)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _checked_distances(distances: Any, n: int) -> tuple[Features, int]:
    matrix = np.asarray(distances)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"`distances` must be an array of numbers; got dtype {matrix.dtype}.")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"`distances` must be a square matrix, from all n + m samples to all; got shape {matrix.shape}."
        )
    n = whole("n", n, least=2)
    if len(matrix) - n < 2:
        raise InputError(
            f"`n` must leave at least 2 of the {len(matrix)} samples to the model; got {n}. "
            "It is the number of reference samples, which come first."
        )
    matrix = matrix.astype(np.result_type(matrix.dtype, np.float32), copy=False)
    if not np.isfinite(matrix).all():
        place = first_place(~np.isfinite(matrix))
        raise InputError(f"`distances` must be finite; got {matrix[place]} at index {place}.")
    if (matrix < 0).any():
        place = first_place(matrix < 0)
        raise InputError(f"`distances` must not be negative; got {matrix[place]} at index {place}. Are these kernels?")
    if np.diagonal(matrix).any():
        place = first_place(np.diagonal(matrix) != 0)
        raise InputError(
            f"`distances` must be 0 from each sample to itself; got {matrix[place, place]} for sample {place}. "
            "Are these kernels? A kernel k becomes a distance by √(k(u, u) + k(v, v) − 2k(u, v))."
        )
    off = np.abs(matrix - matrix.T)
    if off.max() > 1e-5 * matrix.max():
        place = first_place(off == off.max())
        raise InputError(f"`distances` must be symmetric; entry {place} and its mirror differ by {off.max():.3g}.")
    return matrix, n


# --- nearest neighbours


def _neighbourhoods(points: Array, times: Array, neighbors: int, eps: float) -> Array:
    """How many of the nearest neighbours of each distinct point are of P and of Q, shape (2, points).

    `times` (2, points) says how often each point occurs in either sample. Candidates come from a fast search whose
    distances are made of products, and thus inexact: they are computed again by differences. Where a candidate may be
    missing, as where many are tied, the whole row is looked at.
    """
    from scipy.spatial.distance import cdist

    count, width = points.shape
    norm = np.sqrt((points**2).sum(axis=1))
    near = np.empty((2, count))
    unsure = np.ones(count, np.bool_)
    wanted = neighbors + _SPARE
    if wanted < count:
        candidates, off = _search(points, wanted)
        for rows in _blocks(count, wanted * width):
            at = candidates[rows]
            distance = np.sqrt(((points[at] - points[rows, None]) ** 2).sum(axis=-1))
            near[:, rows], edge = _count(distance, times[:, at], neighbors, eps, norm[rows])
            # What the search left out is at least as far as the last candidate, but for rounding.
            unsure[rows] = distance.max(axis=1) ** 2 - off <= edge**2
    rest = np.flatnonzero(unsure)
    for some in _blocks(len(rest), count):
        at = rest[some]
        near[:, at], _ = _count(cdist(points[at], points), times[:, None], neighbors, eps, norm[at])
    return near


def _search(points: Array, wanted: int) -> tuple[NDArray[np.int64], float]:
    """About the nearest points of each point, and how far its order of squared distances can be off."""
    # Measured for 10,000 points in 10 and 50 dimensions on two cores: 1.1 and 1.0 s. By differences of all pairs
    # 2.6 and 5.5 s, by a k-d tree 2.0 and 12.7 s. Its memory does not grow with the square of the points.
    from sklearn.neighbors import NearestNeighbors

    centred = points - points.mean(axis=0)
    index = NearestNeighbors(n_neighbors=wanted, algorithm="brute").fit(centred)
    found = index.kneighbors(centred, return_distance=False)
    largest = float((centred**2).sum(axis=1).max())
    return found, 8 * (points.shape[1] + _ROUNDING) * float(np.finfo(np.float64).eps) * largest


def _count(distance: Array, times: Array, neighbors: int, eps: float, norm: Array) -> tuple[Array, Array]:
    """The neighbours of P and of Q (2, rows), and the distance up to which points were counted (rows,).

    distance (rows, columns); times (2, rows or 1, columns). What is tied at the k-th distance shares the places left.
    """
    last = min(neighbors, distance.shape[1]) - 1  # every column counts at least once
    nearest = np.argpartition(distance, last, axis=1)[:, : last + 1]
    found = np.take_along_axis(distance, nearest, axis=1)
    order = np.argsort(found, axis=1)
    weight = np.take_along_axis(np.broadcast_to(times.sum(axis=0), distance.shape), nearest, axis=1)
    filled = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1) >= neighbors
    place = np.take_along_axis(order, filled.argmax(axis=1)[:, None], axis=1)
    reach = np.take_along_axis(found, place, axis=1)[:, 0]
    slack = _ROUNDING * eps * (reach + norm)
    within = distance <= (reach + slack)[:, None]
    closer = distance < (reach - slack)[:, None]
    inner, outer = (closer * times).sum(axis=-1), ((within & ~closer) * times).sum(axis=-1)
    return inner + (neighbors - inner.sum(axis=0)) * outer / outer.sum(axis=0), reach + slack


def _masses_of_counts(near: Array, n: int, pooled: bool) -> Masses:
    m = near.shape[1] - n
    with np.errstate(divide="ignore"):  # no neighbour of one side: r = 0 or ∞
        log_ratio = np.log(near[0] / n) - np.log(near[1] / m)
    return Masses.from_log_ratio(log_ratio[:n], log_ratio[n:], pooled=pooled)


# --- kernel densities


def _log_ratios(squared: Array, rows: slice, n: int, width: float) -> Array:
    """log of the density of P over that of Q at some points, from the squared distances (rows, n + m)."""
    own, row = np.arange(rows.start, rows.stop), np.arange(rows.stop - rows.start)
    of_p = own < n
    squared[row, own] = np.inf  # leave one out
    size_p, size_q = n - of_p, squared.shape[1] - n - ~of_p
    for columns, size, side in ((squared[:, :n], size_p, ~of_p), (squared[:, n:], size_q, of_p)):
        copy = columns.argmin(axis=1)  # the point itself, in the other sample
        found_copy = side & (columns[row, copy] == 0)
        columns[row[found_copy], copy[found_copy]] = np.inf
        size -= found_copy
    least, total = zip(*(_log_sum(part, width) for part in (squared[:, :n], squared[:, n:])), strict=True)
    with np.errstate(over="ignore"):
        gap: Array = (least[1] - least[0]) / width / width / 2
    # Both logarithms in one pair of brackets: exactly the opposite when P and Q are swapped.
    log_ratio: Array = gap + (np.log(total[0] / size_p) - np.log(total[1] / size_q))
    return log_ratio


def _log_sum(squared: Array, width: float) -> tuple[Array, Array]:
    """The least squared distance of each row, and the sum of kernels relative to the kernel there: at least 1."""
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
    if mean == 0:  # each sample is one point, repeated: the ratio is 1 or 0 at any small width
        return 1e-150
    size = min(n, m)
    variance = square - mean**2
    most = max(1, size - 1)  # the points span no more dimensions; all equally far, they span all
    dimension = min(2 * mean**2 / variance, most) if variance > 2 * mean**2 / most else most
    return _WIDEN * math.sqrt(mean / (2 * dimension)) * math.pow(size, -1 / (dimension + 4))
