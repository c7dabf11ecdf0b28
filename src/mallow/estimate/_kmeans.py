"""Lloyd's k-means on blocks of fixed shape: the same bits for any number of threads and any chunk size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mallow.engine import cores, single_threaded_blas
from mallow.estimate._nearest import (
    TILE,
    Array,
    Assignment,
    Data,
    Doubles,
    Labels,
    Workers,
    assign_points,
    frame,
    into_frame,
    precision,
)
from mallow.estimate._row_order import canonical_order
from mallow.estimate._seeding import seed_centres

__all__ = ["Clustering", "lloyd"]

BATCH = 32  # chosen: bins summed by one product
SINGLE_IS_ENOUGH = 1e-5  # chosen: float32 products are not trusted if less of the variance than this is inside clusters


class Clustering(NamedTuple):
    """The centres, the labels, and the number of rounds that it took.

    Attributes
    ----------
    centres : array (bins, d), in the dtype of the points
    labels : int64 array (n,)
    objective : float
        Weighted sum of squared distances to the own centre, evaluated in float64; inf where that overflows, as for
        points of size 1e200.
    iterations : int
        Rounds of assignment, the last of which changed no label.
    """

    centres: Array
    labels: Labels
    objective: float
    iterations: int


def lloyd(
    points: Array,
    bins: int,
    *,
    rng: np.random.Generator,
    weights: npt.NDArray[np.integer[Any]] | None = None,
    chunk: int = 4 * TILE,
    threads: int | None = None,
    max_iter: int = 1000,
) -> Clustering:
    """k-means clustering of the points, run until no label changes.

    Seeds come from greedy k-means++ on a sample. The result is bit-equal for every ``chunk`` and ``threads`` (products
    have shapes fixed by `TILE` and run on a single-threaded BLAS, sums have a fixed order) and for every order of the
    rows (equal rows are merged and sorted canonically first, so that they also share a label). With at least as many
    bins as distinct rows, each distinct row has a bin of its own; spare bins stay empty and repeat a centre. Otherwise
    no bin is empty.

    Parameters
    ----------
    points : float array (n, d)
        Finite. float32 is multiplied in float32, unless the clusters are so tight that this loses digits.
    bins : int
        Number of clusters k, at least 1.
    rng : numpy.random.Generator
    weights : int array (n,), optional
        Multiplicity of each row, 1 by default: the same as repeating the row.
    chunk : int
        Rows passed to a thread at once, rounded up to whole tiles. It affects speed only.
    threads : int, optional
        By default all processors available to the process.
    max_iter : int
        The largest number of rounds. The objective falls strictly, so the loop ends by itself; the last rounds move few
        points.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[0.0], [0.1], [9.0], [9.1]])
    >>> round(lloyd(points, 2, rng=np.random.default_rng(0)).objective, 6)
    0.01
    """
    pooled = canonical_order(points, points[:0], threads=threads)
    if bins >= pooled.distinct.size:
        spare = np.minimum(np.arange(bins), pooled.distinct.size - 1)
        return Clustering(points[pooled.distinct[spare]].astype(precision(points)), pooled.group, 0.0, 0)

    mass = np.bincount(pooled.group, weights).astype(np.float64)  # of each distinct row
    workers = Workers(chunk, threads or cores())
    with single_threaded_blas(), workers:
        exponent, origin = frame(points, pooled.distinct)
        data = Data(into_frame(points, pooled.distinct, exponent, origin, precision(points)), mass)
        state = _descend(data, seed_centres(data, bins, rng, workers), workers, max_iter)
        if data.rows.dtype == np.float32 and state.objective < SINGLE_IS_ENOUGH * data.scatter:
            data = Data(into_frame(points, pooled.distinct, exponent, origin, np.dtype(np.float64)), mass)
            state = _descend(data, seed_centres(data, bins, rng, workers), workers, max_iter)
    centres = np.ldexp(state.centres.astype(np.float64) + origin, exponent).astype(precision(points))
    with np.errstate(over="ignore"):
        objective = float(np.ldexp(state.objective, 2 * exponent))
    return Clustering(centres, state.labels[pooled.group], objective, state.iterations)


# --- inside: trusted input, rows distinct, more rows than bins


@dataclass
class _State:
    centres: Array  # (k, d)
    labels: Labels
    objective: float
    iterations: int


def _descend(data: Data, centres: Array, workers: Workers, max_iter: int) -> _State:
    """Alternate assignments and means until an assignment of all points to all centres changes no label.

    Between full assignments only what can have changed is computed (see `assign_points`): a centre moves when a point
    joined or left it, and a centre that stayed keeps its scores.
    """
    bins = len(centres)
    assignment = Assignment(len(data.rows), data.rows.dtype)
    labels = assignment.labels
    moved = np.ones(bins, np.bool_)
    sums = np.zeros((bins, data.rows.shape[1]))
    objective, iterations = np.inf, 0
    while True:
        iterations += 1
        full = bool(moved.all())
        before = labels.copy()
        assign_points(data, centres, moved, assignment, workers)
        _fill_empty_bins(data, assignment, bins)
        different = labels != before
        if not different.any():
            if full:
                break
            moved[:] = True  # confirm with all centres, since products with some of them may round differently
            continue
        _update_sums(data, before, labels, sums, workers)
        means, totals = sums[:, :-1] / sums[:, -1:], sums[:, -1]
        reached = data.scatter - float(totals @ np.einsum("ij,ij->i", means, means))
        fresh = means.astype(centres.dtype)
        moved = (fresh != centres).any(axis=1)
        centres = fresh
        # Rounding may pass equidistant points round for ever; the objective then stops falling.
        if not reached < objective:
            break
        if iterations >= max_iter:
            # The labels must belong to the centres that are returned.
            assign_points(data, centres, np.ones(bins, np.bool_), assignment, workers)
            _fill_empty_bins(data, assignment, bins)
            break
        objective = reached
        if not moved.any():
            moved[:] = True
    return _State(centres, labels, _objective(data, centres, labels, workers), iterations)


def _fill_empty_bins(data: Data, assignment: Assignment, bins: int) -> None:
    """Give each empty bin the point farthest from its centre, without emptying another bin."""
    labels = assignment.labels
    members = np.bincount(labels, minlength=bins)
    empty = np.flatnonzero(members == 0)
    if not empty.size:
        return
    farthest = iter(np.argsort(2 * assignment.score.astype(np.float64) - data.square, kind="stable"))
    for bin_ in empty:
        point = next(point for point in farthest if members[labels[point]] > 1)
        members[labels[point]] -= 1
        members[bin_] = 1
        labels[point] = bin_
        assignment.rival[point] = np.inf


def _update_sums(data: Data, before: Labels, after: Labels, sums: Doubles, workers: Workers) -> None:
    """Add the points that joined a bin to its sum, subtract those that left; the last column sums the weights."""
    joined = np.flatnonzero(after != before)
    left = joined[before[joined] >= 0]
    rows = np.concatenate([joined, left])
    bins = np.concatenate([after[joined], before[left]])
    mass = np.concatenate([data.mass[joined], -data.mass[left]])
    order = np.argsort(bins, kind="stable")
    rows, bins, mass = rows[order], bins[order], mass[order]
    ends = np.searchsorted(bins, np.arange(0, len(sums) + BATCH, BATCH))

    def sum_batch(batch: int) -> None:
        first, stop = batch * BATCH, ends[batch + 1]
        for low in range(ends[batch], stop, TILE):
            at = slice(low, min(low + TILE, stop))
            # A dense product with a few dozen bins at a time is faster than np.add.at or reduceat.
            member = np.zeros((min(BATCH, len(sums) - first), at.stop - low))
            member[bins[at] - first, np.arange(at.stop - low)] = mass[at]
            sums[first : first + BATCH] += member @ data.rows[rows[at]].astype(np.float64)

    workers.each(sum_batch, [batch for batch in range(len(ends) - 1) if ends[batch] < ends[batch + 1]])


def _objective(data: Data, centres: Array, labels: Labels, workers: Workers) -> float:
    """The weighted sum of squared distances, from differences in float64."""
    exact = centres.astype(np.float64)
    square = np.empty(len(labels))

    def square_tile(at: slice) -> None:
        gap = data.rows[at, :-1] - exact[labels[at]]
        square[at] = np.einsum("ij,ij->i", gap, gap)

    workers.tiles(square_tile, len(labels))
    return float((data.mass * square).sum())
