"""Generative precision and recall, density and coverage of two samples of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.baselines._points import ROWS, Doubles, Flags, Indices, check_pair, rescale, row_blocks, thread_count
from mallow.engine import ordered_map, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import Features, canonical_order

_TILE = 1 << 23  # entries of a block of distances; chosen: 32 MB in float32
# chosen: float32 products are replaced by float64 ones if they leave more than one distance in 64 undecided
_DENSE = 64

_PAIRS = 1 << 20  # entries of a block of differences; chosen: 8 MB in float64


@dataclass(frozen=True)
class PrecisionRecall:
    """How much of the model's sample lies within the manifold of the reference, and vice versa.

    Attributes
    ----------
    precision : float
        Share of model points within the manifold of the reference, from 0 to 1: is the output realistic?
    recall : float
        Share of reference points within the manifold of the model, from 0 to 1: does the output cover the real data?
    density : float
        Mean number of reference balls that contain a model point, divided by `neighbors`. At least 0. The expected
        value is 1 if the distributions are the same, and larger if the model prefers crowded regions.
    coverage : float
        Share of reference balls that contain a model point, from 0 to 1. If the distributions are the same and n = m is
        large, the expected value is 1 − 2^−neighbors.
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

    Around every point z of a sample Z there is a ball that reaches to the k-th nearest neighbour of z in Z. The point
    itself does not count as a neighbour. Its duplicates do, at distance 0. The union of the balls is the manifold of Z.
    A point is within it if its distance to some z is **at most** (≤) the radius, as in the paper and in Kynkäänniemi et
    al. (2019). Density and coverage (Naeem et al. 2020) use the same balls of the reference, also with ≤. Code that
    uses < (prdc 0.2) differs where distances are tied, as they are for duplicates: if every reference point occurs k +
    1 times, a model that repeats these points has precision 1 here and 0 there.

    Which points are within a ball is decided exactly: by float32 products where their error bound allows it, otherwise
    by differences in float64. Duplicates therefore have distance 0, and the result depends neither on the order of the
    samples nor on the number of processors.

    Limits: constant samples have balls of radius 0. If both samples are the same point, precision, recall and coverage
    are 1 and the density is n/k; otherwise all four are 0. Features without variance have no effect.

    Known failure: for text, the trends are reversed (paper: fig:kynka-pr-nlp). A single
    outlier of the reference has a ball that may contain anything; density and coverage are less sensitive to it.

    Parameters
    ----------
    reference : array (n, d)
        The features of more than `neighbors` real samples.
    model : array (n, d)
        The features of more than `neighbors` samples of the model.
    neighbors : int
        k. The paper shows 5 and reports the same trends from 1 to 25; Kynkäänniemi et al. use 3.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[0.5], [3.0], [9.0]])
    >>> shares = precision_recall(x, y, neighbors=1)  # balls of radius 1 around x, of 2.5, 2.5 and 6 around y
    >>> round(shares.precision, 3), shares.recall, round(shares.density, 3), shares.coverage
    (0.667, 1.0, 1.0, 1.0)
    """
    x, y = check_neighbors(reference, model, neighbors)
    with single_threaded_blas():
        centre = (x.mean(axis=0, dtype=np.float64) + y.mean(axis=0, dtype=np.float64)) / 2
        p, q = make_cloud(x, centre), make_cloud(y, centre)
        radius_p, radius_q = squared_radii(p, neighbors), squared_radii(q, neighbors)
        balls, inside, recalled = count_balls(p, radius_p, q, radius_q)
    return PrecisionRecall(
        precision=float(q.times[balls > 0].sum() / len(y)),
        recall=float(p.times[recalled].sum() / len(x)),
        density=float(q.times @ balls / (len(y) * neighbors)),
        coverage=float(p.times[inside > 0].sum() / len(x)),
        neighbors=neighbors,
    )


def check_neighbors(reference: Any, model: Any, neighbors: int) -> tuple[Features, Features]:
    """Both samples, which must be larger than the number of neighbours, in the same unit."""
    x, y = check_pair(reference, model)
    whole("neighbors", neighbors, least=1)
    if neighbors >= min(len(x), len(y)):
        raise InputError(
            f"`neighbors` must be less than the size of the smaller sample, {min(len(x), len(y))}; got {neighbors}. "
            "Pass fewer neighbours or more samples."
        )
    return rescale(x, y)


def squared_radii(cloud: Cloud, neighbors: int) -> Doubles:
    """The squared distance (g,) of each distinct point to its k-th neighbour in the sample."""
    count = len(cloud.distinct)
    last = min(neighbors, count - 1)

    def block_radii(rows: slice) -> Doubles:
        for dtype in (np.float32, np.float64):
            slack = cloud.slack(dtype)
            about = approximate_distances(cloud, rows, cloud, dtype)
            # k + 1 points, including the point itself, are certainly no further away than this.
            certain = np.partition(about, last, axis=1)[:, last] + slack[rows] + slack.max()
            about -= slack
            near = about <= (certain + slack[rows])[:, None]
            if np.count_nonzero(near) <= near.size // _DENSE:
                break
        i, j = _true_places(near)
        squared = exact_distances(cloud, i + rows.start, cloud, j)
        return _weighted_order_statistic(i, squared, cloud.times[j], neighbors + 1, len(near))

    tiles = row_blocks(count, max(1, _TILE // count))
    return np.concatenate(list(ordered_map(block_radii, tiles, thread_count())))


def _weighted_order_statistic(row: Indices, values: Doubles, times: Indices, rank: int, rows: int) -> Doubles:
    """The value of a given rank in each row, where each value counts `times` times."""
    order = np.lexsort((values, row))
    filled = np.cumsum(times[order])
    before = np.append(0, filled)[np.searchsorted(row[order], np.arange(rows))]
    return values[order][np.searchsorted(filled, before + rank)]


def count_balls(p: Cloud, radius_p: Doubles, q: Cloud, radius_q: Doubles) -> tuple[Indices, Indices, Flags]:
    """Which points lie in which balls.

    The number of balls of p around each point of q, the number of points of q in the ball of each point of p, and
    whether each point of p lies in a ball of q.
    """

    def block_counts(rows: slice) -> tuple[Indices, Indices, Flags]:
        for dtype in (np.float32, np.float64):
            about = approximate_distances(q, rows, p, dtype)
            by_p = _compare(about, radius_p[None, :], q.slack(dtype)[rows], p.slack(dtype))
            by_q = _compare(about, radius_q[rows, None], q.slack(dtype)[rows], p.slack(dtype))
            if max(np.count_nonzero(by_p[1]), np.count_nonzero(by_q[1])) <= about.size // _DENSE:
                break
        for (within, undecided), radius in ((by_p, radius_p[None, :]), (by_q, radius_q[rows, None])):
            i, j = _true_places(undecided)
            within[i, j] = exact_distances(q, i + rows.start, p, j) <= np.broadcast_to(radius, within.shape)[i, j]
        inside = _weighted_count(by_p[0].T, q.times[rows])
        return _weighted_count(by_p[0], p.times), inside, np.any(by_q[0], axis=0)

    counts: list[Indices] = []
    inside, recalled = np.zeros(len(p.distinct), np.int64), np.zeros(len(p.distinct), np.bool_)
    tiles = row_blocks(len(q.distinct), max(1, _TILE // len(p.distinct)))
    for around, inside_here, recalled_here in ordered_map(block_counts, tiles, thread_count()):
        counts.append(around)
        inside += inside_here
        recalled |= recalled_here
    return np.concatenate(counts), inside, recalled


def _true_places(flags: Flags) -> tuple[Indices, Indices]:
    """Rows and columns of the true entries; faster than `nonzero` if there are few."""
    i, j = np.divmod(np.flatnonzero(flags), flags.shape[1])
    return i, j


def _weighted_count(flags: Flags, times: Indices) -> Indices:
    """The number of true entries in each row, where each column counts `times` times; most columns count once."""
    repeated = np.flatnonzero(times > 1)
    counts: Indices = np.count_nonzero(flags, axis=1) + flags[:, repeated] @ (times[repeated] - 1)
    return counts


def _compare(about: NDArray[Any], limit: Doubles, slack_row: NDArray[Any], slack: NDArray[Any]) -> tuple[Flags, Flags]:
    """Where a squared distance is certainly at most the limit, and where that is undecided."""
    excess = about - limit.astype(about.dtype)
    excess -= slack
    perhaps = excess <= slack_row[:, None]
    excess += 2 * slack
    certain = excess < -slack_row[:, None]
    return certain, perhaps & ~certain


@dataclass(frozen=True, eq=False)
class Cloud:
    """The distinct rows of a sample; without removing duplicates, a model that repeats itself would be full of ties."""

    rows: Features  # (n, d): the sample itself
    distinct: Indices  # (g,): the places of the distinct rows
    times: Indices  # (g,): how often each of them occurs
    centre: Doubles  # (d,)
    single: NDArray[np.float32]  # (g, d): the distinct rows minus `centre`
    norms: Doubles  # (g,): their squared lengths

    def centred(self, block: slice) -> Doubles:
        """Some of the distinct rows minus `centre`, in float64."""
        return self.rows[self.distinct[block]] - self.centre

    def slack(self, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        """Bounds (g,) whose sum over two points bounds the error of their approximate squared distance.

        A product of d terms is off by at most d/2 units of rounding times |u||v| ≤ (|u|² + |v|²)/2, in any order of
        summation. All other rounding, including the rounding of the points, adds a few units. `tiny` covers products
        that underflow.
        """
        info = np.finfo(dtype)
        return ((len(self.centre) + 32) * (float(info.eps) / 2 * self.norms + float(info.tiny))).astype(dtype)


def make_cloud(points: Features, centre: Doubles) -> Cloud:
    """The cloud of a sample."""
    order = canonical_order(points, points[:0])
    single = np.empty((len(order.distinct), points.shape[1]), np.float32)
    norms = np.empty(len(single))
    for block in row_blocks(len(single), ROWS):
        centred = points[order.distinct[block]] - centre
        norms[block] = (centred**2).sum(axis=1)
        single[block] = centred
    return Cloud(points, order.distinct, order.counts, centre, single, norms)


def approximate_distances(a: Cloud, rows: slice, b: Cloud, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """The squared distances (rows, g) of some points of `a` to all of `b`, by matrix products. `slack` bounds their
    error."""
    squared: NDArray[Any]
    if dtype is np.float32:
        squared = (a.single[rows] * np.float32(-2)) @ b.single.T
    else:
        left = a.centred(rows) * -2.0
        squared = np.concatenate([left @ b.centred(block).T for block in row_blocks(len(b.distinct), ROWS)], axis=1)
    squared += b.norms.astype(dtype)
    squared += a.norms[rows].astype(dtype)[:, None]
    return squared


def exact_distances(a: Cloud, i: Indices, b: Cloud, j: Indices) -> Doubles:
    """The squared distance of each pair (i, j), by differences in float64.

    It depends only on the two rows, is symmetric, and is 0 for duplicates.
    """
    squared = np.empty(len(i))
    for block in row_blocks(len(i), max(1, _PAIRS // a.rows.shape[1])):
        difference = a.rows[a.distinct[i[block]]].astype(np.float64)
        difference -= b.rows[b.distinct[j[block]]]
        difference *= difference
        squared[block] = difference.sum(axis=1)
    return squared
