"""The nearest centre of each point, exactly: points and centres are integers, and so are all products.

`nearest_centres` labels points with frozen centres; k-means (`_kmeans.py`) calls `assign_points` in each round, which
also uses the state of the last round. Both compare the scores <x, c> − |c|²/2, which are larger for nearer centres.
Since the scores are exact, the label of a point depends on no other point, block, thread or processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import (
    DOUBLE,
    SINGLE,
    bits_for_squares,
    cores,
    ordered_map,
    round_to,
    single_threaded_blas,
    worker_pool,
)
from mallow.estimate._device import BLOCK, Device

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

TILE = 1024  # chosen: rows of one matrix product

# The largest norm of a point: four times its square, which bounds squared distances, is exact.
COARSE = np.sqrt(SINGLE / 4)  # in float32
FINE = np.sqrt(DOUBLE / 4)  # in float64

BITS = 26  # of the largest number, on the finest grid; norms are up to 2^25.5
MOST = 0.8  # chosen: if a larger share of the centres moved, comparing with all of them is as fast


@dataclass(frozen=True, eq=False)
class Grid:
    """Where points lie: at the origin plus integers times ``2**exponent``."""

    origin: Doubles  # (d,)
    exponent: int
    fine: bool  # whether distances are exact in float64 only

    def integers(self, points: Array) -> Doubles:
        """The integers nearest to the points."""
        return round_to(points - self.origin, self.exponent)

    def values(self, integers: Array) -> Doubles:
        """The points at these integers."""
        return np.ldexp(integers.astype(np.float64), self.exponent) + self.origin


def find_grid(points: Array, chosen: Labels, *, fine: bool) -> Grid:
    """The finest grid around the chosen points on which squared distances are exact, in float32 or (`fine`) in float64.

    The origin is near their mean, at powers of two. It depends neither on the order of the points nor on how often a
    point occurs.
    """
    largest = max(float(points.max()), -float(points.min()))
    width = points.shape[1]
    finest = int(np.frexp(largest)[1]) - BITS
    shift = BITS + 1 - bits_for_squares(width)  # with this many bits dropped, sums of squares are exact

    def parts() -> Iterator[Doubles]:
        for low in range(0, len(chosen), TILE):
            yield round_to(points[chosen[low : low + TILE]], finest)

    middle = np.rint(sum((part.sum(axis=0) for part in parts()), np.zeros(width)) / len(chosen))
    rests = (np.ceil(np.ldexp(np.abs(part - middle), -shift)) for part in parts())
    length = np.ldexp(np.sqrt(max(float(np.square(rest).sum(axis=1).max()) for rest in rests)), shift)
    room = (FINE if fine else COARSE) - np.sqrt(width)  # rounding makes a norm longer by half of that at most
    steps = 0
    while length > np.ldexp(room, steps):
        steps += 1
    return Grid(np.ldexp(middle, finest), finest + steps, fine)


def nearest_centres(points: Array, centres: Array, grid: Grid | None = None, *, device: Device | None = None) -> Labels:
    """The label of the nearest centre of each point, the lowest label if several are equally near.

    Parameters
    ----------
    points : float array (n, d)
    centres : float array (bins, d)
    grid : Grid, optional
        The grid on which points and centres are compared. With the grid of a clustering, the clustered points get the
        same labels again. By default, the finest grid around the centres.
    device : Device, optional
        Where products are computed, by default on this processor. The labels are the same everywhere.
    """
    grid = find_grid(centres, np.arange(len(centres)), fine=True) if grid is None else grid
    labels = np.empty(len(points), np.int64)
    inner = grid.integers(centres)
    longest = float(np.square(inner).sum(axis=1).max())
    finders = {dtype: _finder(_table(inner.astype(dtype)), device) for dtype in (np.float32, np.float64)}
    size = TILE if device is None else BLOCK

    def label(low: int) -> None:
        rows = grid.integers(points[low : low + size])
        with np.errstate(over="ignore"):
            square = np.square(rows).sum(axis=1)
        far = np.flatnonzero(square > FINE**2)  # so far that their grid is coarser
        rows[far] = 0.0
        square[far] = 0.0
        dtype = np.float32 if max(longest, float(square.max())) <= COARSE**2 else np.float64
        labels[low : low + size] = finders[dtype](rows.astype(dtype))
        for row in low + far:
            labels[row] = _label_far(grid.integers(points[row]), inner)

    with single_threaded_blas():
        for _ in ordered_map(label, range(0, len(points), size), cores() if device is None else 1):
            pass
    return labels


def _finder(table: Array, device: Device | None) -> Callable[[Array], Labels]:
    """A function from integer rows, in the dtype of the table, to labels."""
    precision = None if device is None else device.precision(table.dtype)
    if device is None or precision is None:
        return lambda rows: (rows @ table[:-1] + table[-1]).argmax(axis=1)
    columns, offset = (device.send(part.astype(precision)) for part in (table[:-1], table[-1]))
    return lambda rows: device.nearest(device.send(rows.astype(precision)), columns, offset)[0]


def _label_far(point: Array, centres: Doubles) -> int:
    """The label of a point so far from integer centres that its products with them would not be exact."""
    largest = float(np.abs(point).max())
    scores = (centres * (point / largest)).sum(axis=1) - np.square(centres).sum(axis=1) / 2 / largest
    return int(scores.argmax())


def _table(centres: Array) -> Array:
    """Centres as columns, (d + 1, k): one product with points that end in a 1 gives <x, c> − |c|²/2."""
    half = np.square(centres.astype(np.float64)).sum(axis=1) / 2
    return np.vstack([centres.T, -half.astype(centres.dtype)])


# --- shared with k-means: trusted input


class Workers:
    """Run a function over ranges of rows."""

    def __init__(self, chunk: int, threads: int) -> None:
        self.tile = TILE
        self.rows = -(-max(chunk, 1) // TILE) * TILE
        self.threads = max(threads, 1)

    def __enter__(self) -> None:
        self._stack = ExitStack()
        self._pool = self._stack.enter_context(worker_pool(self.threads)) if self.threads > 1 else None

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tiles(self, function: Callable[[slice], None], size: int) -> None:
        """Call ``function`` once for each tile of ``size`` rows."""
        fair = -(-size // (self.threads * self.tile)) * self.tile  # no thread is idle because the chunk is large
        step = min(self.rows, max(fair, self.tile))

        def task(start: int) -> None:
            for low in range(start, min(start + step, size), self.tile):
                function(slice(low, min(low + self.tile, size)))

        self.run_each(task, range(0, size, step))

    def run_each(self, function: Callable[[int], None], tasks: Sequence[int]) -> None:
        """Call ``function`` once for each task."""
        if self._pool is None or len(tasks) == 1:
            for task in tasks:
                function(task)
        else:
            for _ in self._pool.map(function, tasks):
                pass


class Data:
    """Points as integers, in the cheapest precision in which their products are exact."""

    def __init__(self, points: Array, chosen: Labels, grid: Grid, mass: Doubles, device: Device | None = None) -> None:
        self.mass = mass  # (n,)
        dtype = np.float64 if grid.fine else np.float32
        self.rows: Array = np.ones((len(chosen), points.shape[1] + 1), dtype)  # the last column stays 1; see `_table`
        self.square = np.empty(len(chosen))  # |x|²
        for low in range(0, len(chosen), TILE):
            integers = grid.integers(points[chosen[low : low + TILE]])
            self.rows[low : low + TILE, :-1] = integers
            self.square[low : low + TILE] = np.square(integers).sum(axis=1)
        if self.square.max() > (FINE if grid.fine else COARSE) ** 2:
            raise AssertionError("the points are too long for exact distances")
        self.precision = None if device is None else device.precision(self.rows.dtype)
        self.device = None if self.precision is None else device
        self.sent = None if self.device is None else self.device.send(self.rows.astype(self.precision))


class Assignment:
    """Labels, with the scores that prove them right: the score of the point's centre, and a bound for all others."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.labels = np.full(size, -1, np.int64)
        self.score = np.full(size, -np.inf, dtype)  # of the point's centre; nan if a point was given to an empty bin
        self.rival = np.full(size, np.inf, dtype)  # no other centre has a higher score


def assign_points(
    data: Data, centres: Array, moved: npt.NDArray[np.bool_], assignment: Assignment, workers: Workers
) -> None:
    """Move every point to its nearest centre, the lowest label if several are equally near, in place.

    Only the centres that `moved` have changed since the assignment was made. A point can only go to one of these,
    unless its centre moved so far away that a centre that stayed is nearer. On other devices, all points are compared
    with all centres, and the labels are the same.
    """
    labels, score, rival = assignment.labels, assignment.score, assignment.rival
    table = _table(centres)
    if data.device is not None:
        columns = np.vstack([table[:-1], np.zeros_like(table[-1:])])  # rows end in a 1, but the offset is added
        labels[:], score[:] = data.device.nearest(
            data.sent, *(data.device.send(part.astype(data.precision)) for part in (columns, table[-1]))
        )
        return
    movers = np.flatnonzero(moved)
    column = np.cumsum(moved) - 1  # position of a moved centre among those that moved
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
        label, nearness, second = labels[at], score[at], rival[at]
        adrift = np.flatnonzero(moved[label])  # points whose centre moved
        nearness[adrift] = products[adrift, column[label[adrift]]]
        products[adrift, column[label[adrift]]] = -np.inf
        best = products.argmax(axis=1)
        challenge, challenger = products[row, best], movers[best]
        wins = np.flatnonzero((challenge > nearness) | ((challenge == nearness) & (challenger < label)))
        label[wins], nearness[wins] = challenger[wins], challenge[wins]
        # A centre that stayed may now be nearer, and points that were given to an empty bin have no score yet.
        lost = np.union1d(adrift[nearness[adrift] <= second[adrift]], np.flatnonzero(np.isnan(nearness)))
        np.maximum(second, challenge, out=second)
        if lost.size:
            label[lost], nearness[lost], second[lost] = compare_with_all(rows[lost])

    workers.tiles(assign_tile, len(data.rows))
