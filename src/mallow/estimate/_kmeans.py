"""Lloyd's k-means on integers: the same bits for any processor, number of threads and chunk size.

Centres start from greedy k-means++ on a sample of the points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mallow.engine import cores, single_threaded_blas
from mallow.estimate._device import Device
from mallow.estimate._nearest import (
    TILE,
    Array,
    Assignment,
    Data,
    Doubles,
    Grid,
    Labels,
    Workers,
    assign_points,
    find_grid,
)
from mallow.estimate._row_order import CanonicalOrder, canonical_order

BATCH = 32  # chosen: bins summed by one product
SMALL = 2**25  # chosen: up to this many multiplications per round a fine grid costs no noticeable time
STEPS = 4.0  # chosen: a coarse grid is too coarse if the variance inside clusters is less than this many squared steps
SEEDS_PER_BIN = 4  # chosen: k-means++ runs on a sample of this many points per bin
CANDIDATES = 4  # chosen: draws per greedy step
LARGEST_TABLE = 8 * TILE  # chosen: for this many sampled points, all distances are kept (256 MB in float32)


class Clustering(NamedTuple):
    """The centres, the labels, and the number of rounds of k-means.

    Attributes
    ----------
    centres : array (bins, d), in the dtype of the points
    labels : int64 array (n,)
    objective : float
        Weighted sum of squared distances of points to their centres, evaluated in float64; inf on overflow, as for
        points of size 1e200.
    iterations : int
        Rounds of assignment, the last of which changed no label.
    grid : Grid
        The grid on which points and centres were compared.
    """

    centres: Array
    labels: Labels
    objective: float
    iterations: int
    grid: Grid


def lloyd(
    points: Array,
    bins: int,
    *,
    rng: np.random.Generator,
    weights: npt.NDArray[np.integer[Any]] | None = None,
    chunk: int = 4 * TILE,
    threads: int | None = None,
    max_iter: int = 1000,
    device: Device | None = None,
    order: CanonicalOrder | None = None,
) -> Clustering:
    """k-means clustering of the points, run until no label changes.

    Seeds come from greedy k-means++ on a sample. Points and centres lie on a grid on which all sums are exact. The
    result is therefore bit-equal on any processor, for every ``chunk`` and ``threads``, and for every order of the rows
    (equal rows are merged and sorted canonically first, so that they also share a label). With at least as many bins as
    distinct rows, each distinct row has its own bin, and spare bins stay empty and repeat a centre. Otherwise no bin is
    empty.

    Parameters
    ----------
    points : float array (n, d)
        Finite. They are multiplied in float32, unless there are few of them or the clusters are so tight that this
        loses digits.
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
        The largest number of rounds. The objective falls strictly, so the loop always ends; the last rounds move few
        points.
    device : Device, optional
        Where products are computed; by default on this processor.
    order : CanonicalOrder, optional
        The order of the points, `canonical_order(points, points[:0])`, if the caller clusters them several times.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[0.0], [0.1], [9.0], [9.1]])
    >>> round(lloyd(points, 2, rng=np.random.default_rng(0)).objective, 6)
    0.01
    """
    pooled = order or canonical_order(points, points[:0], threads=threads)
    distinct = pooled.distinct
    dtype = np.result_type(np.float32, points.dtype)
    small = len(distinct) * bins * points.shape[1] <= SMALL
    grid = find_grid(points, distinct, fine=small or bins >= len(distinct))
    if bins >= len(distinct):
        spare = np.minimum(np.arange(bins), len(distinct) - 1)
        return Clustering(points[distinct[spare]].astype(dtype), pooled.group, 0.0, 0, grid)

    mass = np.bincount(pooled.group, weights).astype(np.float64)  # of each distinct row
    workers = Workers(chunk, threads or cores())
    with single_threaded_blas(), workers:
        data = Data(points, distinct, grid, mass, device)
        state = _descend(data, seed_centres(data, bins, rng, workers), workers, max_iter)
        if not grid.fine and state.objective < STEPS * float(mass.sum()) * points.shape[1]:
            grid = find_grid(points, distinct, fine=True)
            data = Data(points, distinct, grid, mass, device)
            state = _descend(data, seed_centres(data, bins, rng, workers), workers, max_iter)
    with np.errstate(over="ignore"):
        objective = float(np.ldexp(state.objective, 2 * grid.exponent))
    return Clustering(
        grid.values(state.centres).astype(dtype), state.labels[pooled.group], objective, state.iterations, grid
    )


# --- inside: trusted input, rows distinct, more rows than bins


@dataclass
class _State:
    centres: Array  # (k, d)
    labels: Labels
    objective: float
    iterations: int


def _descend(data: Data, centres: Array, workers: Workers, max_iter: int) -> _State:
    """Alternate assignments and means until an assignment of all points to all centres changes no label.

    Between full assignments only changes are computed (see `assign_points`): a centre moves when a point joined or left
    it, and a centre that stayed keeps its scores.
    """
    bins = len(centres)
    assignment = Assignment(len(data.rows), data.rows.dtype)
    labels = assignment.labels
    moved = np.ones(bins, np.bool_)
    sums = np.zeros((bins, data.rows.shape[1]))
    scatter = float((data.mass * data.square).sum())
    objective, iterations = np.inf, 0
    while True:
        iterations += 1
        before = labels.copy()
        assign_points(data, centres, moved, assignment, workers)
        _fill_empty_bins(data.square, assignment, bins)
        if np.array_equal(labels, before):
            break
        _update_sums(data, before, labels, sums, workers)
        means, totals = sums[:, :-1] / sums[:, -1:], sums[:, -1]
        reached = scatter - float((totals * np.square(means).sum(axis=1)).sum())
        fresh = np.rint(means).astype(centres.dtype)
        moved = (fresh != centres).any(axis=1)
        centres = fresh
        if not moved.any():
            break
        # Since centres are rounded, points half-way between two of them may alternate forever.
        if iterations >= max_iter or not reached < objective:
            # The labels must belong to the centres that are returned.
            assign_points(data, centres, np.ones(bins, np.bool_), assignment, workers)
            _fill_empty_bins(data.square, assignment, bins)
            break
        objective = reached
    return _State(centres, labels, _objective(data, centres, labels, workers), iterations)


def _fill_empty_bins(squares: Doubles, assignment: Assignment, bins: int) -> None:
    """Give each empty bin the point farthest from its centre, without emptying a bin. `squares` are |x|²."""
    labels = assignment.labels
    members = np.bincount(labels, minlength=bins)
    empty = np.flatnonzero(members == 0)
    if not empty.size:
        return
    farthest = iter(np.argsort(2 * assignment.score.astype(np.float64) - squares, kind="stable"))
    for bin_ in empty:
        point = next(point for point in farthest if members[labels[point]] > 1)
        members[labels[point]] -= 1
        members[bin_] = 1
        labels[point] = bin_
        assignment.rival[point] = np.inf
        assignment.score[point] = np.nan


def _update_sums(data: Data, before: Labels, after: Labels, sums: Doubles, workers: Workers) -> None:
    """Add the points that joined a bin to its sum, subtract those that left. The last column sums the weights."""
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
            if data.device is not None and "float64" in data.device.exact:
                sums[first : first + BATCH] += data.device.sums(
                    data.sent, rows[at], bins[at] - first, mass[at], min(BATCH, len(sums) - first)
                )
                continue
            # A dense product with a few dozen bins at a time is faster than np.add.at or reduceat.
            member = np.zeros((min(BATCH, len(sums) - first), at.stop - low))
            member[bins[at] - first, np.arange(at.stop - low)] = mass[at]
            sums[first : first + BATCH] += member @ data.rows[rows[at]].astype(np.float64)

    workers.run_each(sum_batch, [batch for batch in range(len(ends) - 1) if ends[batch] < ends[batch + 1]])


def _objective(data: Data, centres: Array, labels: Labels, workers: Workers) -> float:
    """The weighted sum of squared distances, in units of the grid."""
    exact = centres.astype(np.float64)
    square = np.empty(len(labels))

    def square_tile(at: slice) -> None:
        gap = data.rows[at, :-1] - exact[labels[at]]
        square[at] = np.square(gap).sum(axis=1)

    workers.tiles(square_tile, len(labels))
    return float((data.mass * square).sum())


def seed_centres(data: Data, bins: int, rng: np.random.Generator, workers: Workers) -> Array:
    """Some of the rows, chosen by greedy k-means++ on a random sample of them.

    Each step draws `CANDIDATES` rows with probability proportional to weight × squared distance to the nearest centre
    so far, and keeps the one that lowers the objective most. All distances within the sample come from one matrix
    product, so that a step costs a few vector operations.
    """
    size = min(len(data.rows), max(SEEDS_PER_BIN * bins, TILE))
    sample = np.sort(rng.choice(len(data.rows), size, replace=False))
    rows, masses = data.rows[sample, :-1], data.mass[sample]
    mass = masses.astype(rows.dtype)
    square = data.square[sample].astype(rows.dtype)[:, None]
    ones = np.ones_like(square)
    left = np.hstack([rows * -2, square, ones])  # |a|² - 2<a,b> + |b|² is a product of these
    right = np.hstack([rows, ones, square]).T.copy()
    uneven = bool((mass != 1).any())

    keep_all = size <= LARGEST_TABLE
    table = np.empty((size, size) if keep_all else (0, 0), rows.dtype)

    def fill(at: slice) -> None:
        np.maximum(np.matmul(left[at], right, out=table[at]), 0, out=table[at])

    if keep_all:
        workers.tiles(fill, size)

    def distances(drawn: Labels) -> Array:
        return table[drawn] if keep_all else np.maximum(left[drawn] @ right, 0)

    chosen = np.empty(bins, np.int64)
    chosen[0] = rng.choice(size, p=masses / masses.sum())
    nearest = distances(chosen[:1])[0]
    draws = rng.random((bins, CANDIDATES))
    for step in range(1, bins):
        ladder = (nearest * mass if uneven else nearest).cumsum()
        drawn = np.minimum(ladder.searchsorted(draws[step] * ladder[-1], side="right"), size - 1)
        after = np.minimum(distances(drawn), nearest)
        best = int((after * mass if uneven else after).sum(axis=1).argmin())
        chosen[step] = drawn[best]
        nearest = after[best]
        nearest[drawn[best]] = 0
    return rows[chosen]
