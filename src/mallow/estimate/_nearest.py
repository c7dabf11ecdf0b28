"""The nearest centre of each point, by matrix products of fixed shape.

`nearest_centres` labels points with frozen centres; k-means (`_kmeans.py`) calls `assign_points` in each round, which
also uses what the last round left. Both compare the scores <x, c> − |c|²/2, the larger the nearer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import cores, single_threaded_blas
from mallow.estimate._row_order import canonical_order

__all__ = [
    "Assignment",
    "Data",
    "Labels",
    "Workers",
    "assign_points",
    "frame",
    "into_frame",
    "nearest_centres",
    "precision",
]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

# Rows of one matrix product. A BLAS may round a row differently in products of different shapes, and the last bit decides
# between two centres that are equally near: these numbers are part of the algorithm.
TILE = 1024
SMALL_TILE = 64  # for labels that do not depend on the batch: the last tile is filled up with zeros

ORDINARY = 20  # chosen: values between 2^-20 and 2^20 are not rescaled, as their squares neither overflow nor vanish
MOST = 0.8  # chosen: if a larger share of the centres moved, comparing with all of them is as fast as with those that moved


def nearest_centres(points: Array, centres: Array, *, any_batch: bool = False) -> Labels:
    """The label of the nearest centre of each point, the lowest of equally near ones.

    Bit-equal for any number of threads and any order of the rows; equal rows have equal labels.

    Parameters
    ----------
    points : float array (n, d)
    centres : float array (bins, d)
    any_batch : bool
        False: products of up to 1,024 rows in the precision of the points, exactly as inside k-means, so that the points
        that k-means clustered get their labels again. A point half-way between two centres may get another label among
        more or fewer points. True: products of exactly 64 rows in float64, so that the label of a point never depends on
        the other points; slower.
    """
    tile, dtype = (SMALL_TILE, np.dtype(np.float64)) if any_batch else (TILE, precision(points))
    pooled = canonical_order(points, points[:0])
    workers = Workers(4 * tile, cores(), tile=tile)
    every = np.arange(len(centres))
    with single_threaded_blas(), workers:
        exponent, origin = frame(centres, every)
        rows = into_frame(points, pooled.distinct, exponent, origin, dtype)
        if any_batch:
            rows = np.pad(rows, ((0, -len(rows) % tile), (0, 0)))
        data = Data(rows, np.ones(len(rows)))
        inner = into_frame(centres, every, exponent, origin, dtype)[:, :-1]
        assignment = Assignment(len(rows), dtype)
        assign_points(data, inner, np.ones(len(centres), np.bool_), assignment, workers)
    return assignment.labels[pooled.group]


# --- shared with k-means: trusted input


class Workers:
    """Run a function over ranges of rows; a range is a whole number of tiles, whatever the chunk."""

    def __init__(self, chunk: int, threads: int, *, tile: int = TILE) -> None:
        self.tile = tile
        self.rows = -(-max(chunk, 1) // tile) * tile
        self.threads = max(threads, 1)

    def __enter__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def tiles(self, function: Callable[[slice], None], size: int) -> None:
        """Call ``function`` once for each tile of ``size`` rows."""
        fair = -(-size // (self.threads * self.tile)) * self.tile  # no thread is idle because the chunk is large
        step = min(self.rows, max(fair, self.tile))

        def task(start: int) -> None:
            for low in range(start, min(start + step, size), self.tile):
                function(slice(low, min(low + self.tile, size)))

        self.each(task, range(0, size, step))

    def each(self, function: Callable[[int], None], tasks: Sequence[int]) -> None:
        """Call ``function`` once for each task."""
        if self._pool is None or len(tasks) == 1:
            for task in tasks:
                function(task)
        else:
            list(self._pool.map(function, tasks))


class Data:
    """Points in the frame of the computation."""

    def __init__(self, rows: Array, mass: Doubles) -> None:
        self.rows = rows  # (n, d + 1), the last column is 1: one product gives <x, c> − |c|²/2
        self.mass = mass  # (n,)
        self.square = np.einsum("ij,ij->i", rows[:, :-1], rows[:, :-1], dtype=np.float64)  # |x|²
        self.scatter = float(mass @ self.square)


class Assignment:
    """Labels, with the scores that prove them right: that of the own centre, and a bound for all others."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.labels = np.full(size, -1, np.int64)
        self.score = np.full(size, -np.inf, dtype)  # of the own centre
        self.rival = np.full(size, np.inf, dtype)  # no other centre has a higher score


def precision(points: Array) -> np.dtype[Any]:
    """The precision in which these points are multiplied."""
    return np.dtype(np.float64) if points.dtype.itemsize >= 8 else np.dtype(np.float32)


def frame(points: Array, chosen: Labels) -> tuple[int, Array]:
    """A power of two and an origin for the computation: squares neither overflow nor vanish, and little cancels.

    In exact arithmetic any scale and origin would do; ordinary values keep their scale.
    """
    largest = max(float(points.max()), -float(points.min()))
    exponent = int(np.frexp(largest)[1])
    if largest == 0 or -ORDINARY < exponent < ORDINARY:
        exponent = 0
    middle = np.zeros(points.shape[1])
    for low in range(0, len(chosen), TILE):
        middle += np.ldexp(points[chosen[low : low + TILE]].astype(np.float64), -exponent).sum(axis=0)
    return exponent, (middle / len(chosen)).astype(precision(points))


def into_frame(points: Array, chosen: Labels, exponent: int, origin: Array, dtype: np.dtype[Any]) -> Array:
    """A scaled and centred copy of the chosen points, with a column of ones."""
    rows = np.ones((len(chosen), points.shape[1] + 1), dtype)
    for low in range(0, len(chosen), TILE):
        part = points[chosen[low : low + TILE]].astype(dtype, copy=False)
        np.subtract(np.ldexp(part, -exponent) if exponent else part, origin, out=rows[low : low + TILE, :-1])
    return rows


def assign_points(
    data: Data, centres: Array, moved: npt.NDArray[np.bool_], assignment: Assignment, workers: Workers
) -> None:
    """Move every point to its nearest centre, the lowest of equally near ones, in place.

    Only the centres that `moved` have changed since the assignment was made. A point can only go to one of these, unless
    its own centre moved so far away that another one, which stayed, is nearer.
    """
    labels, score, rival = assignment.labels, assignment.score, assignment.rival
    half = np.einsum("ij,ij->i", centres, centres, dtype=np.float64) / 2
    table = np.vstack([centres.T, -half.astype(centres.dtype)])  # (d + 1, k)
    movers = np.flatnonzero(moved)
    column = np.cumsum(moved) - 1  # of a mover among the movers
    part = np.ascontiguousarray(table[:, movers])

    most_moved = movers.size > MOST * moved.size  # the next round will compare with all centres: no rival is needed

    def compare_with_all(rows: Array) -> tuple[Labels, Array, Array]:
        products = rows @ table
        row = np.arange(len(rows))
        best = products.argmax(axis=1)
        first = products[row, best]
        if most_moved:
            return best, first, np.full_like(first, np.inf)
        products[row, best] = -np.inf
        return best, first, products[row, products.argmax(axis=1)]  # argmax is faster than max here

    def assign_tile(at: slice) -> None:
        rows = data.rows[at]
        if most_moved:
            labels[at], score[at], rival[at] = compare_with_all(rows)
            return
        products = rows @ part
        row = np.arange(len(rows))
        own, held, others = labels[at], score[at], rival[at]
        adrift = np.flatnonzero(moved[own])  # points whose own centre moved
        held[adrift] = products[adrift, column[own[adrift]]]
        products[adrift, column[own[adrift]]] = -np.inf
        best = products.argmax(axis=1)
        challenge, challenger = products[row, best], movers[best]
        wins = np.flatnonzero((challenge > held) | ((challenge == held) & (challenger < own)))
        own[wins], held[wins] = challenger[wins], challenge[wins]
        lost = adrift[held[adrift] <= others[adrift]]  # a centre that stayed may now be nearer
        np.maximum(others, challenge, out=others)
        if lost.size:
            own[lost], held[lost], others[lost] = compare_with_all(rows[lost])

    workers.tiles(assign_tile, len(data.rows))
