"""Lloyd's k-means on blocks of fixed shape: the same bits for any number of threads and any chunk size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mallow.engine import cores, single_threaded_blas
from mallow.estimate._row_order import canonical_order

__all__ = ["Clustering", "assign", "lloyd"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

TILE = 1024  # rows of one matrix product. It decides last bits, hence labels: it is part of the algorithm.
SEEDS_PER_BIN = 4  # k-means++ runs on a sample of this many points per bin
CANDIDATES = 4  # draws per greedy k-means++ step
BATCH = 32  # bins summed by one product
ORDINARY = 20  # values between 2^-20 and 2^20 are not rescaled
SINGLE_IS_ENOUGH = 1e-5  # share of the variance inside clusters below which float32 products are not trusted


class Clustering(NamedTuple):
    """Centres, labels and what it took to find them.

    Attributes
    ----------
    centres : array (bins, d), in the dtype of the points
    labels : int64 array (n,)
    objective : float
        Weighted sum of squared distances to the own centre, evaluated in float64 (inf if that is too small
        for it: points of 1e200).
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

    Seeds come from greedy k-means++ on a sample. The result is bit-equal for every ``chunk`` and ``threads``
    (products have shapes fixed by `TILE` and run on a single-threaded BLAS, sums have a fixed order) and for
    every order of the rows (equal rows are merged and sorted canonically first, so they also share a label).
    With at least as many bins as distinct rows each distinct row has a bin of its own; spare bins stay empty
    and repeat a centre. Otherwise no bin is empty.

    Parameters
    ----------
    points : float array (n, d)
        Finite. float32 is multiplied in float32, unless the clusters are so tight that this loses digits.
    bins : int
        Number of clusters k, at least 1.
    rng : numpy.random.Generator
    weights : int array (n,), optional
        Multiplicity of each row, 1 by default. It acts as if the row were repeated.
    chunk : int
        Rows given to a thread at once, rounded up to whole tiles. Changes speed only.
    threads : int, optional
        By default all processors available to the process.
    max_iter : int
        Rounds at most. The objective falls strictly, so the loop ends by itself; the last rounds move few points.

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
        return Clustering(points[pooled.distinct[spare]].astype(_precision(points)), pooled.group, 0.0, 0)

    mass = np.bincount(pooled.group, weights).astype(np.float64)  # of each distinct row
    workers = _Workers(chunk, threads or cores())
    with single_threaded_blas(), workers:
        exponent, origin = _frame(points, pooled.distinct)
        data = _Data(_inside(points, pooled.distinct, exponent, origin, _precision(points)), mass)
        state = _descend(data, _seed(data, bins, rng, workers), workers, max_iter)
        if data.rows.dtype == np.float32 and state.objective < SINGLE_IS_ENOUGH * data.scatter:
            data = _Data(_inside(points, pooled.distinct, exponent, origin, np.dtype(np.float64)), mass)
            state = _descend(data, _seed(data, bins, rng, workers), workers, max_iter)
    centres = np.ldexp(state.centres.astype(np.float64) + origin, exponent).astype(_precision(points))
    with np.errstate(over="ignore"):
        objective = float(np.ldexp(state.objective, 2 * exponent))
    return Clustering(centres, state.labels[pooled.group], objective, state.iterations)


def assign(points: Array, centres: Array, *, chunk: int = 4 * TILE, threads: int | None = None) -> Labels:
    """Label of the nearest centre of each point, the lowest of equals: a frozen codebook at work.

    Bit-equal for any chunk, threads and order of the rows, and equal rows share a label.
    """
    pooled = canonical_order(points, points[:0], threads=threads)
    workers = _Workers(chunk, threads or cores())
    everything = np.arange(len(centres))
    with single_threaded_blas(), workers:
        exponent, origin = _frame(centres, everything)
        data = _Data(
            _inside(points, pooled.distinct, exponent, origin, _precision(points)),
            np.ones(pooled.distinct.size),
        )
        inner = _inside(centres, everything, exponent, origin, _precision(points))[:, :-1]
        now = _Assignment(len(data.rows), data.rows.dtype)
        _assign(data, inner, np.ones(len(centres), np.bool_), now, workers)
    return now.labels[pooled.group]


# ─ inside: trusted input, rows distinct, more rows than bins


class _Workers:
    """Runs a function over ranges of rows; a range is a whole number of tiles, whatever the chunk."""

    def __init__(self, chunk: int, threads: int) -> None:
        self.rows = -(-max(chunk, 1) // TILE) * TILE
        self.threads = max(threads, 1)

    def __enter__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def tiles(self, function: Callable[[slice], None], size: int) -> None:
        """Call ``function`` once for each tile of ``size`` rows."""
        fair = -(-size // (self.threads * TILE)) * TILE  # no thread goes idle because the chunk is large
        step = min(self.rows, max(fair, TILE))

        def task(start: int) -> None:
            for low in range(start, min(start + step, size), TILE):
                function(slice(low, min(low + TILE, size)))

        self.each(task, range(0, size, step))

    def each(self, function: Callable[[int], None], tasks: Sequence[int]) -> None:
        """Call ``function`` once for each task."""
        if self._pool is None or len(tasks) == 1:
            for task in tasks:
                function(task)
        else:
            list(self._pool.map(function, tasks))


class _Data:
    """Points in the frame of the computation."""

    def __init__(self, rows: Array, mass: Doubles) -> None:
        self.rows = rows  # (n, d + 1), the last column is 1: one product gives <x, c> - |c|²/2
        self.mass = mass  # (n,)
        self.square = np.einsum("ij,ij->i", rows[:, :-1], rows[:, :-1], dtype=np.float64)  # |x|²
        self.scatter = float(mass @ self.square)


@dataclass
class _State:
    centres: Array  # (k, d)
    labels: Labels
    objective: float
    iterations: int


class _Assignment:
    """Labels with what proves them right: own and others' scores <x, c> - |c|²/2, the larger the nearer."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.labels = np.full(size, -1, np.int64)
        self.score = np.full(size, -np.inf, dtype)  # of the own centre
        self.rival = np.full(size, np.inf, dtype)  # no other centre has more


def _precision(points: Array) -> np.dtype[Any]:
    return np.dtype(np.float64) if points.dtype.itemsize >= 8 else np.dtype(np.float32)


def _frame(points: Array, chosen: Labels) -> tuple[int, Array]:
    """Power of two and origin for the computation: squares neither overflow nor vanish, and little cancels.

    Any scale and origin would do in exact arithmetic; ordinary values keep their scale.
    """
    largest = max(float(points.max()), -float(points.min()))
    exponent = int(np.frexp(largest)[1])
    if largest == 0 or -ORDINARY < exponent < ORDINARY:
        exponent = 0
    middle = np.zeros(points.shape[1])
    for low in range(0, len(chosen), TILE):
        middle += np.ldexp(points[chosen[low : low + TILE]].astype(np.float64), -exponent).sum(axis=0)
    return exponent, (middle / len(chosen)).astype(_precision(points))


def _inside(points: Array, chosen: Labels, exponent: int, origin: Array, dtype: np.dtype[Any]) -> Array:
    """Scaled and centred copy of the chosen points with a column of ones."""
    rows = np.ones((len(chosen), points.shape[1] + 1), dtype)
    for low in range(0, len(chosen), TILE):
        part = points[chosen[low : low + TILE]].astype(dtype, copy=False)
        np.subtract(np.ldexp(part, -exponent) if exponent else part, origin, out=rows[low : low + TILE, :-1])
    return rows


def _seed(data: _Data, bins: int, rng: np.random.Generator, workers: _Workers) -> Array:
    """Centres from greedy k-means++ on a random sample of rows.

    Every step draws `CANDIDATES` rows with probability proportional to weight × squared distance to the
    centres so far, and keeps the one that lowers the objective most. The distances inside the sample are one
    matrix product, so a step costs a few vector operations.
    """
    size = min(len(data.rows), max(SEEDS_PER_BIN * bins, TILE))
    sample = np.sort(rng.choice(len(data.rows), size, replace=False))
    rows = data.rows[sample, :-1]
    mass = data.mass[sample].astype(rows.dtype)
    square = data.square[sample].astype(rows.dtype)[:, None]
    one = np.ones_like(square)
    left, right = (
        np.hstack([rows * -2, square, one]),
        np.hstack([rows, one, square]).T.copy(),
    )  # |a|² - 2<a,b> + |b|²
    uneven = bool((mass != 1).any())

    whole = size <= 8 * TILE
    table = np.empty((size, size) if whole else (0, 0), rows.dtype)

    def fill(at: slice) -> None:
        np.maximum(np.matmul(left[at], right, out=table[at]), 0, out=table[at])

    if whole:
        workers.tiles(fill, size)

    def distances(drawn: Labels) -> Array:
        return table[drawn] if whole else np.maximum(left[drawn] @ right, 0)

    chosen = np.empty(bins, np.int64)
    chosen[0] = rng.choice(size, p=data.mass[sample] / data.mass[sample].sum())
    nearest = distances(chosen[:1])[0]
    draws = rng.random((bins, CANDIDATES))
    for step in range(1, bins):
        ladder = (nearest * mass if uneven else nearest).cumsum()
        drawn = np.minimum(ladder.searchsorted(draws[step] * ladder[-1], side="right"), size - 1)
        after = np.minimum(distances(drawn), nearest)
        best = int((after @ mass if uneven else after.sum(axis=1)).argmin())
        chosen[step] = drawn[best]
        nearest = after[best]
        nearest[drawn[best]] = 0
    return rows[chosen]


def _descend(data: _Data, centres: Array, workers: _Workers, max_iter: int) -> _State:
    """Alternate assignments and means until an assignment of all points to all centres changes no label.

    Between full assignments only what can have changed is computed: a centre moves when a point joined or
    left it, and a point can only go to a centre that moved, unless its own centre moved so far away that
    another one, which stayed, is nearer. Nothing is lost: a centre that stayed keeps the score it had.
    """
    bins = len(centres)
    now = _Assignment(len(data.rows), data.rows.dtype)
    labels = now.labels
    moved = np.ones(bins, np.bool_)
    sums = np.zeros((bins, data.rows.shape[1]))
    objective, iterations = np.inf, 0
    while True:
        iterations += 1
        full = bool(moved.all())
        before = labels.copy()
        _assign(data, centres, moved, now, workers)
        _fill_empty(data, now, bins)
        different = labels != before
        if not different.any():
            if full:
                break
            moved[:] = True  # confirm with all centres, free of what pruned products may round differently
            continue
        _update(data, before, labels, sums, workers)
        means, totals = sums[:, :-1] / sums[:, -1:], sums[:, -1]
        reached = data.scatter - float(totals @ np.einsum("ij,ij->i", means, means))
        fresh = means.astype(centres.dtype)
        moved = (fresh != centres).any(axis=1)
        centres = fresh
        # rounding may pass equidistant points round for ever; then the objective stops falling
        if not reached < objective:
            break
        if iterations >= max_iter:
            _assign(data, centres, np.ones(bins, np.bool_), now, workers)  # labels of the centres that are returned
            _fill_empty(data, now, bins)
            break
        objective = reached
        if not moved.any():
            moved[:] = True
    return _State(centres, labels, _objective(data, centres, labels, workers), iterations)


def _assign(
    data: _Data, centres: Array, moved: npt.NDArray[np.bool_], at_present: _Assignment, workers: _Workers
) -> None:
    """Move every point to its nearest centre, the lowest of equals, given that only some centres moved."""
    labels, score, rival = at_present.labels, at_present.score, at_present.rival
    half = np.einsum("ij,ij->i", centres, centres, dtype=np.float64) / 2
    table = np.vstack([centres.T, -half.astype(centres.dtype)])  # (d + 1, k)
    movers = np.flatnonzero(moved)
    column = np.cumsum(moved) - 1  # of a mover among the movers
    part = np.ascontiguousarray(table[:, movers])

    early = movers.size > 0.8 * moved.size  # the next round will look at all centres again: no rival is needed

    def all_centres(rows: Array) -> tuple[Labels, Array, Array]:
        products = rows @ table
        each = np.arange(len(rows))
        best = products.argmax(axis=1)
        first = products[each, best]
        if early:
            return best, first, np.full_like(first, np.inf)
        products[each, best] = -np.inf
        return best, first, products[each, products.argmax(axis=1)]  # argmax is faster than max here

    def tile(at: slice) -> None:
        rows = data.rows[at]
        if movers.size > 0.8 * moved.size:
            labels[at], score[at], rival[at] = all_centres(rows)
            return
        products = rows @ part
        each = np.arange(len(rows))
        own, held, others = labels[at], score[at], rival[at]
        adrift = np.flatnonzero(moved[own])  # points whose own centre moved
        held[adrift] = products[adrift, column[own[adrift]]]
        products[adrift, column[own[adrift]]] = -np.inf
        best = products.argmax(axis=1)
        challenge, challenger = products[each, best], movers[best]
        wins = np.flatnonzero((challenge > held) | ((challenge == held) & (challenger < own)))
        own[wins], held[wins] = challenger[wins], challenge[wins]
        lost = adrift[held[adrift] <= others[adrift]]  # a centre that stayed may now be nearer
        np.maximum(others, challenge, out=others)
        if lost.size:
            own[lost], held[lost], others[lost] = all_centres(rows[lost])

    workers.tiles(tile, len(data.rows))


def _fill_empty(data: _Data, now: _Assignment, bins: int) -> None:
    """Give each empty bin the point farthest from its centre, without emptying another bin."""
    labels = now.labels
    members = np.bincount(labels, minlength=bins)
    empty = np.flatnonzero(members == 0)
    if not empty.size:
        return
    farthest = iter(np.argsort(2 * now.score.astype(np.float64) - data.square, kind="stable"))
    for bin_ in empty:
        point = next(point for point in farthest if members[labels[point]] > 1)
        members[labels[point]] -= 1
        members[bin_] = 1
        labels[point] = bin_
        now.rival[point] = np.inf


def _update(data: _Data, before: Labels, after: Labels, sums: Doubles, workers: _Workers) -> None:
    """Add the points that joined a bin to its sum, subtract those that left; column d sums the weights."""
    joined = np.flatnonzero(after != before)
    left = joined[before[joined] >= 0]
    rows = np.concatenate([joined, left])
    bins = np.concatenate([after[joined], before[left]])
    mass = np.concatenate([data.mass[joined], -data.mass[left]])
    order = np.argsort(bins, kind="stable")
    rows, bins, mass = rows[order], bins[order], mass[order]
    ends = np.searchsorted(bins, np.arange(0, len(sums) + BATCH, BATCH))

    def some(batch: int) -> None:
        first, stop = batch * BATCH, ends[batch + 1]
        for low in range(ends[batch], stop, TILE):
            at = slice(low, min(low + TILE, stop))
            # a dense product with a few dozen bins at a time is faster than np.add.at or reduceat
            member = np.zeros((min(BATCH, len(sums) - first), at.stop - low))
            member[bins[at] - first, np.arange(at.stop - low)] = mass[at]
            sums[first : first + BATCH] += member @ data.rows[rows[at]].astype(np.float64)

    workers.each(some, [batch for batch in range(len(ends) - 1) if ends[batch] < ends[batch + 1]])


def _objective(data: _Data, centres: Array, labels: Labels, workers: _Workers) -> float:
    """Weighted sum of squared distances, from differences in float64."""
    exact = centres.astype(np.float64)
    square = np.empty(len(labels))

    def tile(at: slice) -> None:
        gap = data.rows[at, :-1] - exact[labels[at]]
        square[at] = np.einsum("ij,ij->i", gap, gap)

    workers.tiles(tile, len(labels))
    return float((data.mass * square).sum())
