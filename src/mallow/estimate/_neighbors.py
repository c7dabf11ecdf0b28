"""Likelihood ratios from the nearest neighbours of each point (paper: alg:mauve:knn), and distances between samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place, whole
from mallow.errors import Caveat, InputError, warn_about
from mallow.estimate._features import Features, estimate_masses
from mallow.estimate._reduce import Reduce, distinct_points
from mallow.estimate._row_order import Oriented, orient
from mallow.theory import Array, Masses, range_caveats

ENTRIES = 1 << 20  # chosen: entries of one block of distances, so that a few arrays of 8 MB are held at once

_ASYMMETRY = 1e-5  # chosen: relative to the largest distance; rounding in float32 stays below
SPARE = 8  # chosen: candidates beyond k; if some are tied at the k-th distance, the next one shows that the tie ends
_ROUNDING = 64  # chosen: distances this many units of rounding apart are equal. A rotation changes them by a few


@dataclass(frozen=True)
class Neighbors:
    """Estimate masses from the k nearest neighbours of every point among both samples (paper: alg:mauve:knn).

    At each point the likelihood ratio is r = (|N ∩ X|/n) / (|N ∩ X′|/m), where N are its k nearest neighbours in the
    pooled sample (paper: eq:knn:likelihood-ratio). The point itself is one of them, as in the paper: a point of the
    model proves that the model has mass there, so r is finite at the points of Q, and 1/r at those of P. Points tied at
    the k-th distance share the remaining places equally: duplicates count in full. P identical to Q gives r = 1
    everywhere. The estimate has no randomness, is exactly symmetric in the two samples, and does not depend on the
    order of their rows.

    Known failure of the published form, ``pooled=False``: D(P‖·) is averaged only over the points of Q (paper:
    eq:divf:discretized:knn), so regions that the model misses altogether do not count. For disjoint samples it is
    f_λ(0) = 1 − λ instead of log(1/λ), and the frontier integral is 2/3 instead of 1. The same holds for
    `KernelDensity` and `Classifier`.

    Parameters
    ----------
    neighbors : int or None
        The number of neighbours k, including the point itself. None: √min(n, m), rounded up (71 for 5,000). With few
        neighbours, noise looks like a gap: two samples of the *same* distribution score 0.33 with k = 5, 0.975 with
        k = 50 and 0.993 with k = 100 (n = m = 5,000, any dimension, c = 10). Many neighbours blur real gaps, especially
        in high dimensions.
    reduce : Reduce or None
        Reduction before the search. The paper finds that 5 or 10 axes work best and more than 50 do not work. None: no
        reduction.
    pooled : bool
        True: both costs are averaged over all points, each with masses proportional to (r, 1)/(n r + m)
        (`Masses.from_log_ratio`). These are two distributions, so every cost and summary stays in its range, and
        regions that the model misses count. False, as published: a cost of P is averaged only over the points of Q, see
        the known failure.

    noise : float
        The standard deviation σ of Gaussian noise that is added to each reduced feature. 0: none. The paper's theorem
        (thm:mauve:knn) is about P and Q blurred in this way, which have densities even where the features repeat. The
        divergence of the blurred distributions is at most that of P and Q. With
        k = `mallow.theory.bounds.suggested_neighbors` the two terms of its bound are balanced.

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
    pooled: bool = True
    noise: float = 0.0

    scale: ClassVar[float] = 10.0

    def __post_init__(self) -> None:
        if self.neighbors is not None:
            whole("neighbors", self.neighbors, least=2)
        if not (isinstance(self.noise, (int, float, np.integer, np.floating)) and 0 <= self.noise < np.inf):
            raise InputError(f"`noise` must be a standard deviation, 0 or more; got {self.noise!r}.")

    def __repr__(self) -> str:
        parts = [f"neighbors={self.neighbors}", f"reduce={self.reduce}", f"pooled={self.pooled}"]
        return f"Neighbors({', '.join([*parts, f'noise={self.noise:g}'] if self.noise else parts)})"

    @property
    def deterministic(self) -> bool:
        """Whether one repeat is enough: without noise, nothing is random."""
        return self.noise == 0

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator | None = 0) -> Masses:
        """Masses at the points of both samples; `rng` is only used for the noise."""
        return estimate_masses(self, x, y, rng)

    def prepare(self, x: Features, y: Features) -> Masses | Oriented:
        """The masses, or the reduced samples if there is noise to draw."""
        n, neighbors = len(x), self.neighbors_for(len(x), len(y))
        if self.noise:
            return orient(x, y) if self.reduce is None else orient(*self.reduce.fit(x, y).split(n))
        points, pooled, reduction = distinct_points(self.reduce, x, y)
        group, precision = pooled.group, 0.0 if reduction is None else reduction.precision
        eps = max(float(np.finfo(points.dtype).eps), precision / _ROUNDING)
        times = np.stack([np.bincount(side, minlength=len(points)) for side in (group[:n], group[n:])])
        near = _neighbourhoods(to_unit_range(points)[0], times.astype(np.float64), neighbors, eps)
        return self._masses(near[:, group], n)

    def masses(self, prepared: Masses | Oriented, rng: int | np.random.Generator | None = 0) -> Masses:
        """The prepared masses, the same in every repeat, or with noise, the masses for one draw of it."""
        if isinstance(prepared, Masses):
            return prepared
        rng, sides = np.random.default_rng(rng), (prepared.first, prepared.second)
        points = np.concatenate([prepared.points[side] for side in sides])
        points = points + self.noise * rng.standard_normal(points.shape)
        n = len(prepared.first)
        times = np.stack([np.arange(len(points)) < n, np.arange(len(points)) >= n]).astype(np.float64)
        neighbors = self.neighbors_for(n, len(points) - n)
        near = _neighbourhoods(to_unit_range(points)[0], times, neighbors, float(np.finfo(np.float64).eps))
        masses = self._masses(near, n)
        return masses.swap() if prepared.flipped else masses

    def from_distances(self, distances: Any, n: int) -> Masses:
        """Masses from the distances between all points, for data without features; `reduce` is not used.

        Parameters
        ----------
        distances : array (n + m, n + m)
            Distances between all samples, the reference samples first. Symmetric, with zeros on the diagonal.
        n : int
            The number of reference samples.
        """
        matrix, n = checked_distances(distances, n)
        neighbors = self.neighbors_for(n, len(matrix) - n)
        eps = float(np.finfo(matrix.dtype).eps)
        p = (np.arange(len(matrix)) < n).astype(np.float64)
        near = np.empty((2, len(matrix)))
        for rows in blocks(len(matrix), len(matrix)):
            block = matrix[rows].astype(np.float64)
            near[:, rows], _ = _count(block, np.stack([p, 1.0 - p])[:, None], neighbors, eps, block.max(axis=1))
        masses = self._masses(near, n)
        warn_about(masses.caveats)
        return masses

    def neighbors_for(self, n: int, m: int) -> int:
        """The number of neighbours for samples of these sizes."""
        if self.neighbors is None:
            return max(2, math.ceil(math.sqrt(min(n, m))))
        if self.neighbors > n + m:
            raise InputError(
                f"`neighbors` must be at most n + m = {n + m} points; got {self.neighbors}. "
                "Pass neighbors=None or more samples."
            )
        return self.neighbors

    def _masses(self, near: Array, n: int) -> Masses:
        """The masses, from the numbers of neighbours in P and in Q (2, n + m)."""
        m = near.shape[1] - n
        with np.errstate(divide="ignore"):  # no neighbour on one side: r = 0 or ∞
            log_ratio = np.log(near[0] / n) - np.log(near[1] / m)
        masses = Masses.from_log_ratio(log_ratio[:n], log_ratio[n:], pooled=self.pooled)
        doubts = _too_many_neighbors(self.neighbors_for(n, m), min(n, m))
        return replace(masses, caveats=doubts + range_caveats(masses, "Use pooled=True or more neighbours."))


def _too_many_neighbors(neighbors: int, smaller: int) -> tuple[Caveat, ...]:
    if neighbors <= smaller:
        return ()
    message = (
        f"{neighbors} neighbours are more than the {smaller} points of the smaller sample, which forces the ratios "
        "towards 1. Use fewer neighbours or more samples."
    )
    return (Caveat("many neighbours", message, values={"neighbors": neighbors, "smaller_sample": smaller}),)


def _neighbourhoods(points: Array, times: Array, neighbors: int, eps: float) -> Array:
    """How many of the nearest neighbours of each distinct point are in P and in Q, shape (2, points).

    `times` (2, points) is how often each point occurs in either sample. Candidates come from a fast search whose
    distances are made of products, and are therefore inexact. The distances of the candidates are computed again from
    differences. If a candidate may be missing, for instance because many are tied, all points are compared.
    """
    from scipy.spatial.distance import cdist

    count, width = points.shape
    norm = np.sqrt((points**2).sum(axis=1))
    near = np.empty((2, count))
    unsure = np.ones(count, np.bool_)
    wanted = neighbors + SPARE
    if wanted < count:
        candidates, off = _search(points, wanted)
        for rows in blocks(count, wanted * width):
            at = candidates[rows]
            distance = np.sqrt(((points[at] - points[rows, None]) ** 2).sum(axis=-1))
            near[:, rows], edge = _count(distance, times[:, at], neighbors, eps, norm[rows])
            # Points that the search left out are at least as far away as the last candidate, apart from rounding.
            unsure[rows] = distance.max(axis=1) ** 2 - off <= edge**2
    rest = np.flatnonzero(unsure)
    for rows in blocks(len(rest), count):
        at = rest[rows]
        near[:, at], _ = _count(cdist(points[at], points), times[:, None], neighbors, eps, norm[at])
    return near


def _search(points: Array, wanted: int) -> tuple[NDArray[np.int64], float]:
    """Roughly the nearest points of each point, and the largest error of the squared distances behind them."""
    # Measured for 10,000 points in 10 and 50 dimensions on two cores: 1.1 and 1.0 s, compared with 2.6 and 5.5 s with
    # differences of all pairs and 2.0 and 12.7 s with a k-d tree. Memory does not grow with the square of the points.
    from sklearn.neighbors import NearestNeighbors

    centred = points - points.mean(axis=0)
    index = NearestNeighbors(n_neighbors=wanted, algorithm="brute").fit(centred)
    candidates = index.kneighbors(centred, return_distance=False)
    largest = float((centred**2).sum(axis=1).max())
    return candidates, 8 * (points.shape[1] + _ROUNDING) * float(np.finfo(np.float64).eps) * largest


def _count(distance: Array, times: Array, neighbors: int, eps: float, norm: Array) -> tuple[Array, Array]:
    """The number of neighbours in P and in Q (2, rows), and the distance up to which points were counted (rows,).

    distance (rows, columns); times (2, rows or 1, columns). Points tied at the k-th distance share the places left.
    """
    last = min(neighbors, distance.shape[1]) - 1  # every column counts at least once
    nearest = np.argpartition(distance, last, axis=1)[:, : last + 1]
    reached = np.take_along_axis(distance, nearest, axis=1)
    order = np.argsort(reached, axis=1)
    weight = np.take_along_axis(np.broadcast_to(times.sum(axis=0), distance.shape), nearest, axis=1)
    filled = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1) >= neighbors
    farthest = np.take_along_axis(order, filled.argmax(axis=1)[:, None], axis=1)
    reach = np.take_along_axis(reached, farthest, axis=1)[:, 0]
    slack = _ROUNDING * eps * (reach + norm)
    within = distance <= (reach + slack)[:, None]
    closer = distance < (reach - slack)[:, None]
    inner, outer = (closer * times).sum(axis=-1), ((within & ~closer) * times).sum(axis=-1)
    return inner + (neighbors - inner.sum(axis=0)) * outer / outer.sum(axis=0), reach + slack


def checked_distances(distances: Any, n: int) -> tuple[Features, int]:
    """A symmetric matrix of finite distances in float32 or float64, and the number of reference samples."""
    matrix = np.asarray(distances)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"`distances` must be an array of numbers; got dtype {matrix.dtype}.")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"`distances` must be a square matrix, from each of the n + m samples to each; got shape {matrix.shape}."
        )
    n = whole("n", n, least=2)
    if len(matrix) - n < 2:
        raise InputError(
            f"`n` must leave at least 2 of the {len(matrix)} samples for the model; got {n}. "
            "It is the number of reference samples, which come first."
        )
    matrix = matrix.astype(np.result_type(matrix.dtype, np.float32), copy=False)
    if not np.isfinite(matrix).all():
        index = first_place(~np.isfinite(matrix))
        raise InputError(f"`distances` must be finite; got {matrix[index]} at index {index}.")
    if (matrix < 0).any():
        index = first_place(matrix < 0)
        raise InputError(f"`distances` must not be negative; got {matrix[index]} at index {index}. Are these kernels?")
    if np.diagonal(matrix).any():
        index = first_place(np.diagonal(matrix) != 0)
        raise InputError(
            f"`distances` must be 0 from each sample to itself; got {matrix[index, index]} for sample {index}. "
            "Are these kernels? A kernel k becomes a distance by √(k(u, u) + k(v, v) − 2k(u, v))."
        )
    off = np.abs(matrix - matrix.T)
    if off.max() > _ASYMMETRY * matrix.max():
        index = first_place(off == off.max())
        raise InputError(f"`distances` must be symmetric; entry {index} and its mirror differ by {off.max():.3g}.")
    return matrix, n


def to_unit_range(points: Features) -> tuple[Array, int]:
    """Points divided by 2**exponent, so that no square overflows, and the exponent. The division is exact."""
    exponent = math.frexp(float(np.abs(points).max()))[1]
    return np.ldexp(points.astype(np.float64), -exponent), exponent


def blocks(rows: int, width: int) -> list[slice]:
    """Ranges of rows whose distances to `width` points fit into one block."""
    step = max(1, ENTRIES // width)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
