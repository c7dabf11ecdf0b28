"""Metrics of two clouds of features: Fréchet and kernel distances, precision and recall, discriminator accuracy.

Each takes the features of the reference (n, d) and of the model (m, d), row by row one sample, as `mallow.embed` makes
them. With the features of an Inception network the first two are the FID and the KID of the literature on images.

All but a copy of the features is done in blocks: 50,000 × 2,048 on either side needs about 2 GB beside the samples
themselves, and the same numbers come out for any number of processors.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place, whole
from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import PENALTIES, Features, canonical_order, checked_features, checked_pair

__all__ = [
    "KernelDistances",
    "Moments",
    "PrecisionRecall",
    "discriminator_accuracy",
    "frechet_distance",
    "kernel_distance",
    "kernel_distances",
    "precision_recall",
]

Doubles = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

_LARGEST = 1e40  # the cube of a product of two such numbers is still far from overflow
_ROWS = 2048  # rows of one product
_TILE = 1 << 23  # entries of a block of distances or kernels
_PAIRS = 1 << 20  # entries of a block of differences
_DENSE = 64  # float32 products are given up where they leave more than one distance in so many open
_ORDINARY = 20  # features between 2^-20 and 2^20 are not rescaled
_SINGLE_LIMIT = 1e4  # above, cubes of float32 products are not trusted
_PATIENCE = 2  # weaker penalties tried after the held-out loss began to rise
_MOST_STEPS = 1000


# --- Fréchet distance


@dataclass(frozen=True, eq=False)
class Moments:
    """Size, mean and scatter of a sample: all that the Fréchet distance needs, and it can be added up.

    Attributes
    ----------
    n : int
        The number of samples.
    mean : float64 array (d,)
    scatter : float64 array (d, d)
        Σ (x − mean)(x − mean)ᵀ over the sample.

    Examples
    --------
    >>> points = np.arange(12.0).reshape(6, 2) ** 2
    >>> streamed = Moments.of(points[:4]).merge(Moments.of(points[4:]))
    >>> bool(np.allclose(streamed.covariance, np.cov(points.T)))
    True
    """

    n: int
    mean: Doubles
    scatter: Doubles

    def __post_init__(self) -> None:
        whole("n", self.n, least=1)
        if self.mean.ndim != 1 or self.scatter.shape != (len(self.mean), len(self.mean)):
            raise InputError(
                f"`mean` and `scatter` must have shapes (d,) and (d, d); got {self.mean.shape} and {self.scatter.shape}."
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scatter).all()):
            raise InputError("`mean` and `scatter` must be finite; got NaN or infinite entries.")

    @classmethod
    def of(cls, points: Any) -> Moments:
        """The moments of points (n, d); one row is allowed, as the last of a stream."""
        return _moments(_checked_chunk(points))

    def merge(self, other: Moments) -> Moments:
        """The moments of both samples taken as one."""
        if len(self.mean) != len(other.mean):
            raise InputError(
                f"`other` must have features of the same width, {len(self.mean)}; got {len(other.mean)}. "
                "Were they embedded by the same model?"
            )
        n, gap = self.n + other.n, other.mean - self.mean
        scatter = self.scatter + other.scatter + (self.n * other.n / n) * np.outer(gap, gap)
        return Moments(n, self.mean + (other.n / n) * gap, scatter)

    @property
    def covariance(self) -> Doubles:
        """The unbiased covariance (d, d), divided by n − 1."""
        if self.n < 2:
            raise InputError(f"A covariance must come from at least 2 samples; got {self.n}.")
        return self.scatter / (self.n - 1)


def frechet_distance(reference: Any, model: Any) -> float:
    """The Fréchet distance ‖μ − μ′‖² + tr(Σ + Σ′ − 2(ΣΣ′)^½) of the Gaussians with the moments of both samples.

    The *square* of their 2-Wasserstein distance, as usual (paper: optimal transport, Fréchet; Heusel et al. 2017), with the
    unbiased covariances. 0 = the same mean and covariance; there is no upper end, and it grows with the square of the
    features' unit.

    tr (ΣΣ′)^½ is the sum of the singular values of A A′ᵀ, where Σ = AᵀA. So it is a real number for every sample, where the
    matrix root of the product may be complex, or fail; and with fewer samples than features the root A is the centred sample
    itself, and no d × d matrix is made. Where all columns vary it equals ``scipy.linalg.sqrtm`` (real part) to rounding.
    Features without variance only count in the means: two constant samples have ‖μ − μ′‖².

    Known failure: the distance of samples is larger than that of their distributions, and the more so the fewer samples
    there are. With no more samples than features an `EstimateWarning` says so. Only samples of one size compare.

    Parameters
    ----------
    reference, model : array (n, d) or Moments
        At least 2 samples each.

    Examples
    --------
    >>> x, y = np.array([[0.0], [2.0], [4.0]]), np.array([[1.0], [2.0], [3.0]])  # means 2 and 2, deviations 2 and 1
    >>> frechet_distance(x, y)
    1.0
    """
    x, y = _sample_or_moments("reference", reference), _sample_or_moments("model", model)
    _judge_sizes(x, y)
    with single_threaded_blas():  # the same bits on any number of processors
        mean_x, root_x = _mean_and_root(x)
        mean_y, root_y = _mean_and_root(y)
        shared = np.linalg.svd(root_x @ root_y.T, compute_uv=False)
    spread = float((root_x**2).sum()) + float((root_y**2).sum())
    return max(float(((mean_x - mean_y) ** 2).sum()) + spread - 2.0 * float(shared.sum()), 0.0)


def _sample_or_moments(name: str, side: Any) -> Moments | Features:
    return side if isinstance(side, Moments) else _bounded(name, checked_features(name, side))


def _judge_sizes(x: Moments | Features, y: Moments | Features) -> None:
    sizes = [side.n if isinstance(side, Moments) else len(side) for side in (x, y)]
    widths = [len(side.mean) if isinstance(side, Moments) else side.shape[1] for side in (x, y)]
    for name, size in zip(("reference", "model"), sizes, strict=True):
        if size < 2:
            raise InputError(f"`{name}` must hold at least 2 samples; got {size}. Aim for 1,000 or more.")
    if widths[0] != widths[1]:
        raise InputError(
            f"`reference` and `model` must have features of the same width; got {widths[0]} and {widths[1]}. "
            "Were they embedded by the same model?"
        )
    if min(sizes) <= widths[0]:
        warnings.warn(
            f"{min(sizes)} samples of {widths[0]} features have a singular covariance: the Fréchet distance is much larger "
            "than that of the distributions. Compare samples of the same size only, or use more samples.",
            EstimateWarning,
            stacklevel=3,
        )


def _mean_and_root(side: Moments | Features) -> tuple[Doubles, Doubles]:
    """The mean (d,) and a root A (r, d) of the covariance AᵀA, with r = min(n, d)."""
    if not isinstance(side, Moments):
        if len(side) < side.shape[1]:
            mean = side.mean(axis=0, dtype=np.float64)
            centred = side - mean
            return mean, centred / math.sqrt(len(side) - 1)
        side = _moments(side)
    values, vectors = np.linalg.eigh(side.covariance)
    values[: max(0, len(values) - side.n + 1)] = 0.0  # n points span n − 1 axes; the rest is rounding
    return side.mean, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def _moments(points: Features) -> Moments:
    """In float64 whatever the features: a root doubles the digits that an inexact covariance loses."""
    mean = points.mean(axis=0, dtype=np.float64)

    def block(start: int) -> tuple[Doubles, Doubles]:
        centred = points[start : start + _ROWS] - mean
        return centred.sum(axis=0), centred.T @ centred

    rest, scatter = np.zeros_like(mean), np.zeros((len(mean), len(mean)))
    with single_threaded_blas():
        for total, product in ordered_map(block, range(0, len(points), _ROWS), _threads(), ahead=1):
            rest += total
            scatter += product
    scatter -= np.outer(rest, rest) / len(points)  # the rounding of the mean
    return Moments(len(points), mean + rest / len(points), scatter)


# --- kernel distance


def kernel_distance(reference: Any, model: Any) -> float:
    """The unbiased squared maximum mean discrepancy of the kernel κ(u, v) = (u·v/d + 1)³ over all points.

    The kernel distance (KID) of Bińkowski et al. (2018):

        Σ_{i≠j} κ(x_i, x_j) / n(n − 1)  +  Σ_{i≠j} κ(y_i, y_j) / m(m − 1)  −  2 Σ_{i,j} κ(x_i, y_j) / nm.

    Its mean over samples is 0 when the distributions are the same, for samples of any size, and so it falls below 0 half of
    the time then; it is not cut there. There is no upper end. The kernel sees differences of the first three moments, and it
    knows the origin: features that are shifted together have another distance. Constant samples are fine.

    All pairs enter, which is less noisy than the mean over subsets of the literature: `kernel_distances`.

    Parameters
    ----------
    reference, model : array (n, d)
        At least 2 samples each. Of float32 features the products are float32 and the sums float64.

    Examples
    --------
    >>> kernel_distance([[0.0], [0.0]], [[1.0], [1.0]])  # κ = 1, 8 and 1
    7.0
    """
    with single_threaded_blas():
        return _squared_mmd(*_checked(reference, model), threads=_threads())


@dataclass(frozen=True)
class KernelDistances:
    """Kernel distances of random subsets, as in most publications.

    Attributes
    ----------
    mean : float
    std : float
        The spread over subsets (divided by their number). It is not the error of the mean: subsets overlap.
    subsets, size : int
        How many there were, and how many samples each took of either side.
    """

    mean: float
    std: float
    subsets: int
    size: int


def kernel_distances(
    reference: Any, model: Any, *, subsets: int = 100, size: int = 1000, rng: int | np.random.Generator = 0
) -> KernelDistances:
    """Mean and spread of `kernel_distance` over random subsets, drawn without replacement (Bińkowski et al. 2018).

    Parameters
    ----------
    reference, model : array (n, d)
        At least `size` samples each.
    subsets, size : int
        As published: 100 subsets of 1,000 samples of either side.
    rng : int or numpy.random.Generator

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    >>> kernel_distances(x, y, subsets=5, size=60).std < 1e-12  # all of them are the whole sample
    True
    """
    x, y = _checked(reference, model)
    whole("subsets", subsets, least=1)
    whole("size", size, least=2)
    if size > min(len(x), len(y)):
        raise InputError(
            f"`size` must be at most the size of the smaller sample, {min(len(x), len(y))}; got {size}. "
            "kernel_distance takes all samples at once."
        )
    rng = np.random.default_rng(rng)
    chosen = [[rng.choice(len(side), size, replace=False) for side in (x, y)] for _ in range(subsets)]

    def one(rows: list[Indices]) -> float:
        return _squared_mmd(x[rows[0]], y[rows[1]], threads=1)

    with single_threaded_blas():
        found = np.array(list(ordered_map(one, chosen, _threads())))
    return KernelDistances(float(found.mean()), float(found.std()), subsets, size)


def _squared_mmd(x: Features, y: Features, *, threads: int) -> float:
    n, m = len(x), len(y)
    # The mean kernels minus 1 each: the ones cancel, and would only drown what differs.
    within = (
        _kernel_sum(x, x, threads, same=True) / (n * (n - 1)),
        _kernel_sum(y, y, threads, same=True) / (m * (m - 1)),
    )
    return within[0] + within[1] - 2.0 * _kernel_sum(x, y, threads, same=False) / (n * m)


def _kernel_sum(x: Features, y: Features, threads: int, *, same: bool) -> float:
    """Σ κ(x_i, y_j) − 1 over all pairs; of a sample with itself (`same`), over those with i ≠ j."""
    exact = np.float64 in (x.dtype, y.dtype) or max(_largest(x), _largest(y)) > _SINGLE_LIMIT
    dtype = np.dtype(np.float64 if exact else np.float32)
    starts = [(i, j) for i in range(0, len(x), _ROWS) for j in range(i if same else 0, len(y), _ROWS)]

    def tile(start: tuple[int, int]) -> float:
        i, j = start
        t = x[i : i + _ROWS].astype(dtype, copy=False) @ y[j : j + _ROWS].astype(dtype, copy=False).T
        t /= dtype.type(x.shape[1])
        power = t + dtype.type(3)
        power *= t
        power += dtype.type(3)
        power *= t  # (t + 1)³ − 1 = ((t + 3) t + 3) t
        total = float(power.sum(dtype=np.float64))
        if not same:
            return total
        return total - float(np.trace(power, dtype=np.float64)) if i == j else 2.0 * total

    return math.fsum(ordered_map(tile, starts, threads))


# --- precision, recall, density, coverage


@dataclass(frozen=True)
class PrecisionRecall:
    """How much of the model's sample lies within the reference's manifold, and the other way round.

    Attributes
    ----------
    precision : float
        Share of model points within the reference's manifold, from 0 to 1: is what it makes realistic?
    recall : float
        Share of reference points within the model's manifold, from 0 to 1: does it make all there is?
    density : float
        Mean number of reference balls around a model point, divided by `neighbors`: from 0, 1 expected of the same
        distribution, and above 1 where the model keeps to crowded places.
    coverage : float
        Share of reference balls with a model point in them, from 0 to 1. Of the same distribution and n = m large,
        1 − 2^−neighbors is expected.
    neighbors : int
        The k of the balls.
    """

    precision: float
    recall: float
    density: float
    coverage: float
    neighbors: int


def precision_recall(reference: Any, model: Any, *, neighbors: int = 5) -> PrecisionRecall:
    """Generative precision and recall (paper: sec:expt-kynka-pr), with density and coverage.

    Around every point z of a sample Z is a ball that reaches to its k-th nearest neighbour in Z, itself not counted; copies of
    z are neighbours at distance 0. The balls together are the manifold of Z. A point is within if its distance to some z is
    **at most** (≤) the radius, as in the paper and in Kynkäänniemi et al. (2019). Density and coverage (Naeem et al. 2020) take
    the same balls of the reference, also with ≤. Code that takes < instead (prdc 0.2) differs where distances are tied, as with
    copies: a model that repeats a reference of k + 1 copies a point has precision 1 here and 0 there.

    Which points are within is decided exactly: by products of float32 where these leave no doubt, else by differences in
    float64. So copies have distance 0, and neither the order of samples nor the number of processors matters.

    Limits: constant samples have balls of radius 0. If both are the same point, precision, recall and coverage are 1 and the
    density is n/k; else all four are 0. Features without variance change nothing.

    Known failure: for text the trends come out the wrong way round (paper: fig:kynka-pr-nlp). One outlier of the reference has
    a ball that holds anything; density and coverage are less moved by it.

    Parameters
    ----------
    reference, model : array (n, d)
        More than `neighbors` samples each.
    neighbors : int
        k. The paper shows 5 and finds the same trends from 1 to 25; Kynkäänniemi et al. take 3.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[0.5], [3.0], [9.0]])
    >>> found = precision_recall(x, y, neighbors=1)  # balls of radius 1 around x, of 2.5, 2.5 and 6 around y
    >>> round(found.precision, 3), found.recall, round(found.density, 3), found.coverage
    (0.667, 1.0, 1.0, 1.0)
    """
    x, y = _checked(reference, model)
    whole("neighbors", neighbors, least=1)
    if neighbors >= min(len(x), len(y)):
        raise InputError(
            f"`neighbors` must be less than the size of the smaller sample, {min(len(x), len(y))}; got {neighbors}. "
            "Pass fewer neighbours or more samples."
        )
    x, y = _ordinary(x, y)
    with single_threaded_blas():
        centre = (x.mean(axis=0, dtype=np.float64) + y.mean(axis=0, dtype=np.float64)) / 2
        p, q = _cloud(x, centre), _cloud(y, centre)
        radius_p, radius_q = _squared_radii(p, neighbors), _squared_radii(q, neighbors)
        balls, covered, recalled = _inside(p, radius_p, q, radius_q)
    return PrecisionRecall(
        precision=float(q.times[balls > 0].sum() / len(y)),
        recall=float(p.times[recalled].sum() / len(x)),
        density=float(q.times @ balls / (len(y) * neighbors)),
        coverage=float(p.times[covered].sum() / len(x)),
        neighbors=neighbors,
    )


def _ordinary(x: Features, y: Features) -> tuple[Features, Features]:
    """The samples, divided by a power of two if their squares could overflow or vanish: nothing here has a unit."""
    exponent = math.frexp(max(_largest(x), _largest(y)))[1]
    if abs(exponent) < _ORDINARY:
        return x, y
    return np.ldexp(x.astype(np.float64), -exponent), np.ldexp(y.astype(np.float64), -exponent)


@dataclass(frozen=True, eq=False)
class _Cloud:
    """The distinct rows of a sample; a model that repeats itself would else be full of ties."""

    rows: Features  # (n, d), the sample itself
    at: Indices  # (g,) where the distinct rows stand
    times: Indices  # (g,) how often each occurs
    centre: Doubles  # (d,)
    single: NDArray[np.float32]  # (g, d), centred
    norms: Doubles  # (g,) squared, of the centred rows

    def centred(self, some: slice) -> Doubles:
        """In float64."""
        return self.rows[self.at[some]] - self.centre

    def slack(self, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        """A squared distance by products is off by at most the sum of these of both points.

        A product of d terms is off by d/2 units of rounding times |u||v| ≤ (|u|² + |v|²)/2, in any order of summation; what
        else is rounded, the points among it, is some units more. `tiny` is for products that vanish.
        """
        info = np.finfo(dtype)
        return ((len(self.centre) + 32) * (float(info.eps) / 2 * self.norms + float(info.tiny))).astype(dtype)


def _cloud(points: Features, centre: Doubles) -> _Cloud:
    found = canonical_order(points, points[:0])
    single = np.empty((len(found.distinct), points.shape[1]), np.float32)
    norms = np.empty(len(single))
    for some in _blocks(len(single), _ROWS):
        centred = points[found.distinct[some]] - centre
        norms[some] = (centred**2).sum(axis=1)
        single[some] = centred
    return _Cloud(points, found.distinct, found.counts, centre, single, norms)


def _by_products(a: _Cloud, rows: slice, b: _Cloud, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """About the squared distances (rows, g) of some points of `a` to all of `b`."""
    found: NDArray[Any]
    if dtype is np.float32:
        found = (a.single[rows] * np.float32(-2)) @ b.single.T
    else:
        left = a.centred(rows) * -2.0
        found = np.concatenate([left @ b.centred(some).T for some in _blocks(len(b.at), _ROWS)], axis=1)
    found += b.norms.astype(dtype)
    found += a.norms[rows].astype(dtype)[:, None]
    return found


def _by_differences(a: _Cloud, i: Indices, b: _Cloud, j: Indices) -> Doubles:
    """The squared distance of each pair: a number of the two rows alone, the same from either side, 0 for copies."""
    found = np.empty(len(i))
    for some in _blocks(len(i), max(1, _PAIRS // a.rows.shape[1])):
        gap = a.rows[a.at[i[some]]].astype(np.float64)
        gap -= b.rows[b.at[j[some]]]
        gap *= gap
        found[some] = gap.sum(axis=1)
    return found


def _squared_radii(cloud: _Cloud, neighbors: int) -> Doubles:
    """The squared distance (g,) of each distinct point to its k-th neighbour in the sample."""
    count = len(cloud.at)
    last = min(neighbors, count - 1)

    def block(rows: slice) -> Doubles:
        for dtype in (np.float32, np.float64):
            slack = cloud.slack(dtype)
            about = _by_products(cloud, rows, cloud, dtype)
            # k + 1 points are surely no further than this, the point itself among them.
            surely = np.partition(about, last, axis=1)[:, last] + slack[rows] + slack.max()
            about -= slack
            near = about <= (surely + slack[rows])[:, None]
            if np.count_nonzero(near) <= near.size // _DENSE:
                break
        i, j = _places(near)
        squared = _by_differences(cloud, i + rows.start, cloud, j)
        return _weighted_smallest(i, squared, cloud.times[j], neighbors + 1, len(near))

    tiles = _blocks(count, max(1, _TILE // count))
    return np.concatenate(list(ordered_map(block, tiles, _threads())))


def _weighted_smallest(row: Indices, values: Doubles, times: Indices, rank: int, rows: int) -> Doubles:
    """In each row the value of this rank, where a value counts as often as `times` says."""
    order = np.lexsort((values, row))
    filled = np.cumsum(times[order])
    before = np.append(0, filled)[np.searchsorted(row[order], np.arange(rows))]
    return values[order][np.searchsorted(filled, before + rank)]


def _inside(p: _Cloud, radius_p: Doubles, q: _Cloud, radius_q: Doubles) -> tuple[Indices, Flags, Flags]:
    """The balls of p around each point of q, and which points of p have in their ball, or are in the ball of, one of q."""

    def block(rows: slice) -> tuple[Indices, Flags, Flags]:
        for dtype in (np.float32, np.float64):
            about = _by_products(q, rows, p, dtype)
            by_p = _compared(about, radius_p[None, :], q.slack(dtype)[rows], p.slack(dtype))
            by_q = _compared(about, radius_q[rows, None], q.slack(dtype)[rows], p.slack(dtype))
            if max(np.count_nonzero(by_p[1]), np.count_nonzero(by_q[1])) <= about.size // _DENSE:
                break
        for (within, open_), radius in ((by_p, radius_p[None, :]), (by_q, radius_q[rows, None])):
            i, j = _places(open_)
            within[i, j] = _by_differences(q, i + rows.start, p, j) <= np.broadcast_to(radius, within.shape)[i, j]
        return _weighted_count(by_p[0], p.times), np.any(by_p[0], axis=0), np.any(by_q[0], axis=0)

    balls: list[Indices] = []
    covered, recalled = np.zeros(len(p.at), np.bool_), np.zeros(len(p.at), np.bool_)
    for around, has, within in ordered_map(block, _blocks(len(q.at), max(1, _TILE // len(p.at))), _threads()):
        balls.append(around)
        covered |= has
        recalled |= within
    return np.concatenate(balls), covered, recalled


def _places(flags: Flags) -> tuple[Indices, Indices]:
    """Rows and columns of what is true; faster than `nonzero` where little is."""
    i, j = np.divmod(np.flatnonzero(flags), flags.shape[1])
    return i, j


def _weighted_count(flags: Flags, times: Indices) -> Indices:
    """Of each row, how many flags are up, each as often as `times` says; most columns count once."""
    repeated = np.flatnonzero(times > 1)
    found: Indices = np.count_nonzero(flags, axis=1) + flags[:, repeated] @ (times[repeated] - 1)
    return found


def _compared(about: NDArray[Any], limit: Doubles, slack_row: NDArray[Any], slack: NDArray[Any]) -> tuple[Flags, Flags]:
    """Where a squared distance is surely at most the limit, and where that is open."""
    gap = about - limit.astype(about.dtype)
    gap -= slack
    perhaps = gap <= slack_row[:, None]
    gap += 2 * slack
    surely = gap < -slack_row[:, None]
    return surely, perhaps & ~surely


# --- discriminator


def discriminator_accuracy(reference: Any, model: Any, *, rng: int | np.random.Generator = 0) -> float:
    """The accuracy of a logistic regression that tells the samples apart, on held-out points (paper: baseline metrics).

    1 = fully separable, 0.5 = indistinguishable, and the smaller the better. A quarter of the points is for the test; on the
    rest the weight of the L2 penalty is chosen by the logistic loss in 5-fold cross-validation, from 10⁴ to 10⁻³ divided by
    the number of points, and the classifier is then fitted to all of it. Features are scaled to standard deviation 1.

    The accuracy is the mean of that on either side, each with half of the weight in training: for n = m the plain accuracy, for
    n ≠ m the guess is still 0.5. A sample of one side that is a copy of one of the other goes with it to the same part: else
    a model that repeats the reference would be *below* 0.5, since the classifier has seen the copies with the other label.

    Its standard error over test points is √(a(1 − a)/t) for t of them, 0.01 at 5,000 samples a side; constant features give 0.5.

    Parameters
    ----------
    reference, model : array (n, d)
        At least 8 samples each.
    rng : int or numpy.random.Generator
        For the split.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(200, 2)), rng.normal(9.0, 1.0, size=(200, 2))
    >>> discriminator_accuracy(x, y), discriminator_accuracy(x, x)
    (1.0, 0.5)
    """
    x, y = _ordinary(*_checked(reference, model))
    for name, side in (("reference", x), ("model", y)):
        if len(side) < 8:
            raise InputError(
                f"`{name}` must hold at least 8 samples, to be cut into a test and 5 folds; got {len(side)}."
            )
    parts = _dealt(x, y, np.random.default_rng(rng))
    label = np.repeat([True, False], [len(x), len(y)])
    train, test = parts >= 0, parts < 0
    with single_threaded_blas():
        scaled = _scaled(x, y, train)
        points, truth = scaled[train], label[train]
        held, answer = scaled[test], label[test]
        del scaled
        penalty = _best_penalty(points, truth, parts[train])
        odds = _regression(penalty).fit(points, truth).decision_function(held)
    right = (odds > 0) == answer
    return float((right[answer].mean() + right[~answer].mean()) / 2)


def _dealt(x: Features, y: Features, rng: np.random.Generator) -> NDArray[np.int64]:
    """For every pooled sample −1, the test, or the fold 0 to 4 in which it is held out."""
    group = canonical_order(x, y).group
    side = np.repeat([0, 1], [len(x), len(y)])
    order = np.lexsort((side, group))
    # The first copy of a row in x goes with the first one in y, the second with the second …
    run = np.append(True, (np.diff(group[order]) != 0) | (np.diff(side[order]) != 0))
    copy = np.empty(len(group), np.int64)
    copy[order] = np.arange(len(group)) - np.flatnonzero(run)[np.cumsum(run) - 1]
    _, unit = np.unique(group * len(group) + copy, return_inverse=True)
    kind = np.bincount(unit, weights=side + 1).astype(np.int64)  # 1: of x, 2: of y, 3: of both
    cards = rng.permutation(len(kind))
    cards = cards[np.argsort(kind[cards], kind="stable")]  # dealt kind by kind, every part gets its share of each
    part = np.full(len(kind), -1, np.int64)
    rest = np.delete(cards, np.s_[::4])
    part[rest] = np.arange(len(rest)) % 5
    return part[unit]


def _scaled(x: Features, y: Features, train: Flags) -> Features:
    """The pooled samples, each feature with mean 0 and standard deviation 1 over those to train on."""
    points = np.concatenate([x, y])
    size = int(train.sum())
    mean = np.zeros(points.shape[1])
    for some in _blocks(len(points), _ROWS):
        mean += points[some][train[some]].sum(axis=0, dtype=np.float64) / size
    variance = np.zeros_like(mean)
    for some in _blocks(len(points), _ROWS):
        variance += ((points[some][train[some]] - mean) ** 2).sum(axis=0) / size
    spread = np.sqrt(variance)
    # A constant feature is 0 but for rounding, which must not be blown up.
    varies = spread > 8 * np.finfo(points.dtype).eps * np.abs(mean)
    for some in _blocks(len(points), _ROWS):
        points[some] = np.where(varies, (points[some] - mean) / np.where(varies, spread, 1.0), 0.0)
    return points


def _regression(penalty: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(
        C=1.0 / penalty, class_weight="balanced", solver="lbfgs", tol=1e-4, max_iter=_MOST_STEPS, warm_start=True
    )


def _best_penalty(points: Features, label: Flags, fold: NDArray[np.int64]) -> float:
    """The penalty with the least held-out loss; from strong to weak, until it rises."""
    from sklearn.exceptions import ConvergenceWarning

    models = [_regression(1.0) for _ in range(5)]  # each is fitted again from where it was

    def loss(task: tuple[int, float]) -> float:
        k, penalty = task
        model, held = models[k], fold == k
        model.set_params(C=1.0 / penalty).fit(points[~held], label[~held])
        signed = np.where(label[held], 1.0, -1.0) * model.decision_function(points[held])
        weight = np.where(label[held], 1.0 / label.sum(), 1.0 / (~label).sum())
        return float(weight @ np.logaddexp(0.0, -signed))

    best, least, since = math.nan, math.inf, 0
    with warnings.catch_warnings():
        # A fit that has not converged is an early-stopped one; its held-out loss decides like any other's.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for penalty in sorted(PENALTIES, reverse=True):
            total = math.fsum(ordered_map(loss, [(k, penalty) for k in range(5)], _threads()))
            if total < least:
                best, least, since = penalty, total, 0
            else:
                since += 1
            if since == _PATIENCE:
                break
    return best


# --- the door, and blocks


def _checked(reference: Any, model: Any) -> tuple[Features, Features]:
    x, y = checked_pair(reference, model)
    return _bounded("reference", x), _bounded("model", y)


def _checked_chunk(points: Any) -> Features:
    array = np.asarray(points)
    if array.ndim == 2 and len(array) == 1:
        return _bounded("points", checked_features("points", np.repeat(array, 2, axis=0))[:1])
    return _bounded("points", checked_features("points", array))


def _bounded(name: str, points: Features) -> Features:
    if _largest(points) > _LARGEST:
        place = first_place(np.abs(points) > _LARGEST)
        raise InputError(
            f"`{name}` must be at most {_LARGEST:g} in size, so that its powers do not overflow; got {points[place]:g} at "
            f"index {place}. Divide both samples by the same number."
        )
    return points


def _largest(points: Features) -> float:
    return max(float(points.max()), -float(points.min()))


def _blocks(rows: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _threads() -> int:
    """Each thread holds a few blocks: more than 16 of them would need more memory than the features."""
    return min(cores(), 16)
