"""Lloyd's k-means on points that are never all in one place: each round is a pass, with the bits of `lloyd`.

The label of a point depends on the centres alone, and the sums of the points of each bin are sums of integers, so that neither
chunks nor workers nor their order matter. Of each row the calling process has its label, its group and its squared norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import Held, Passes, Progress, cores, round_to, single_threaded_blas
from mallow.estimate._device import Device, open_device
from mallow.estimate._kmeans import SMALL, STEPS, Clustering, draw_seeds, fill_empty_bins, spread_centres, update_sums
from mallow.estimate._nearest import (
    COARSE,
    FINE,
    TILE,
    Assignment,
    Data,
    Grid,
    Workers,
    assign_points,
    finest_exponent,
    grid_around,
    longest_square,
)
from mallow.estimate._stream_points import PointChunks

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Points as integers on a grid, in chunks; the last column is 1."""

    grid: Grid
    held: Held
    square: Doubles  # (g,) of each distinct point


class ChunkedPoints:
    """Points in chunks, to be clustered several times."""

    def __init__(self, chunks: PointChunks, device: str | None) -> None:
        self.chunks = chunks
        self.device = device
        self._made: dict[bool, _Rows] = {}

    def cluster(self, passes: Passes, name: str, bins: int, *, rng: np.random.Generator, max_iter: int) -> Clustering:
        """What `lloyd` gives for these points, to the last bit; the labels are those of all rows."""
        chunks = self.chunks
        distinct = len(chunks.first)
        dtype = np.result_type(np.float32, chunks.dtype)
        fine = bins >= distinct or distinct * bins * chunks.width <= SMALL
        if bins >= distinct:
            spare = np.minimum(np.arange(bins), distinct - 1)
            centres = _take(chunks, chunks.held, chunks.first)[spare]
            return Clustering(centres.astype(dtype), chunks.group, 0.0, 0, self._grid(fine=True))
        with passes.progress(name) as progress:
            state = self._descend(progress, self._rows(fine), bins, rng, max_iter)
            if not fine and state.objective < STEPS * float(chunks.mass.sum()) * chunks.width:
                state = self._descend(progress, self._rows(True), bins, rng, max_iter)
        grid = state.grid
        with np.errstate(over="ignore"):
            objective = float(np.ldexp(state.objective, 2 * grid.exponent))
        return Clustering(
            grid.values(state.centres).astype(dtype), state.labels.astype(np.int64), objective, state.iterations, grid
        )

    # --- points as integers

    @cached_property
    def _frame(self) -> tuple[Doubles, float]:
        """The middle of the distinct points in steps of the finest grid, and the square of the farthest from it."""
        chunks = self.chunks
        finest = finest_exponent(chunks.largest)
        total = np.zeros(chunks.width, np.int64)
        tasks = chunks.parts(np.sort(chunks.first))
        for part in chunks.held.map(partial(_sum_points, finest), tasks):
            total += part
        middle = np.rint(total.astype(np.float64) / len(chunks.first))
        every = ((place, None) for place in range(len(chunks.held)))
        return middle, max(chunks.held.map(partial(_longest, finest, middle), every))

    def _grid(self, *, fine: bool) -> Grid:
        middle, square = self._frame
        return grid_around(middle, square, finest_exponent(self.chunks.largest), fine=fine)

    def _rows(self, fine: bool) -> _Rows:
        """The points on the grid, made once."""
        if fine not in self._made:
            chunks, grid = self.chunks, self._grid(fine=fine)
            size = len(chunks.group) * (chunks.width + 1) * (8 if fine else 4)
            held = chunks.held.hold(partial(_to_rows, grid), size=size)
            every = ((place, None) for place in range(len(held)))
            square = np.concatenate(list(held.map(_squares, every)))[chunks.first]
            if square.max() > (FINE if fine else COARSE) ** 2:
                raise AssertionError("the points are too long for exact distances")
            self._made = {fine: _Rows(grid, held, square)}  # those on the other grid are not needed any longer
        return self._made[fine]

    # --- rounds; see `_descend` in _kmeans.py, whose results these are

    def _descend(self, progress: Progress, rows: _Rows, bins: int, rng: np.random.Generator, max_iter: int) -> _State:
        mass, fine = self.chunks.mass, rows.grid.fine
        centres = self._seeds(rows, bins, rng)  # after an interruption too: `rng` is used again on the fine grid
        labels: Array | None = None
        sums = np.zeros((bins, self.chunks.width + 1), np.int64)
        objective, iterations = np.inf, 0
        before = progress.before
        if before is not None and bool(before["fine"]) >= fine:
            if bool(before["fine"]) > fine:  # the coarse grid was too coarse
                return _State(centres, np.empty(0, np.int64), -np.inf, 0, rows.grid)
            centres, labels, sums = before["centres"], before["labels"], before["sums"]
            objective, iterations = float(before["objective"]), int(before["round"])
        scatter = float((mass * rows.square).sum())
        while True:
            iterations += 1
            own, change = self._assign(rows, centres, labels)
            if labels is not None and np.array_equal(own, labels):
                break
            labels = own
            sums = sums + change
            values = sums.astype(np.float64)
            means, totals = values[:, :-1] / values[:, -1:], values[:, -1]
            reached = scatter - float((totals * np.square(means).sum(axis=1)).sum())
            fresh = np.rint(means).astype(centres.dtype)
            moved = bool((fresh != centres).any())
            centres = fresh
            if not moved:
                break
            if iterations >= max_iter or not reached < objective:
                labels, _ = self._assign(rows, centres, labels)
                break
            objective = reached
            numbers = {"objective": np.array(objective), "fine": np.array(fine)}
            progress.done(iterations, {"centres": centres, "labels": labels, "sums": sums, **numbers})
        return _State(centres, labels, self._objective(rows, centres, labels), iterations, rows.grid)

    def _seeds(self, rows: _Rows, bins: int, rng: np.random.Generator) -> Array:
        chunks = self.chunks
        sample = draw_seeds(len(chunks.first), bins, rng)
        workers = Workers(4 * TILE, cores())
        points = np.ascontiguousarray(_take(chunks, rows.held, chunks.first[sample])[:, :-1])
        with single_threaded_blas(), workers:
            return spread_centres(points, chunks.mass[sample], rows.square[sample], bins, rng, workers)

    def _assign(self, rows: _Rows, centres: Array, before: Array | None) -> tuple[Array, npt.NDArray[np.int64]]:
        """The bin of each row, none empty, and how the sums of the bins differ from those of the labels before."""
        chunks, bins = self.chunks, len(centres)
        function = partial(_assign_chunk, centres, self.device)
        labels = np.empty(len(chunks.group), np.min_scalar_type(bins - 1))
        change = np.zeros((bins, chunks.width + 1), np.int64)
        slices = [slice(*ends) for ends in zip(chunks.starts[:-1].tolist(), chunks.starts[1:].tolist(), strict=True)]
        tasks = ((place, None if before is None else before[at]) for place, at in enumerate(slices))
        for at, (own, part) in zip(slices, rows.held.map(function, tasks), strict=True):
            labels[at] = own
            change += part
        if np.bincount(labels, minlength=bins).min() == 0:
            self._fill(rows, centres, labels, change)
        return labels, change

    def _fill(self, rows: _Rows, centres: Array, labels: Array, change: npt.NDArray[np.int64]) -> None:
        """Give empty bins the points farthest from their centres, in place."""
        chunks, bins = self.chunks, len(centres)
        tasks = ((place, None) for place in range(len(rows.held)))
        scores = np.concatenate(list(rows.held.map(partial(_own_scores, centres, self.device), tasks)))
        assignment = Assignment(len(chunks.first), scores.dtype)
        assignment.labels[:], assignment.score[:] = labels[chunks.first], scores[chunks.first]
        fill_empty_bins(rows.square, assignment, bins)
        given = np.flatnonzero(assignment.labels != labels[chunks.first])
        points = _take(chunks, rows.held, chunks.first[given]).astype(np.int64)
        points *= chunks.mass[given].astype(np.int64)[:, None]
        np.subtract.at(change, labels[chunks.first[given]].astype(np.int64), points)
        np.add.at(change, assignment.labels[given], points)
        labels[:] = assignment.labels[chunks.group]

    def _objective(self, rows: _Rows, centres: Array, labels: Array) -> float:
        """The weighted sum of squared distances, in units of the grid."""
        chunks = self.chunks
        tasks = ((place, labels[chunks.starts[place] : chunks.starts[place + 1]]) for place in range(len(rows.held)))
        square = np.concatenate(list(rows.held.map(partial(_own_distances, centres), tasks)))
        return float((chunks.mass * square[chunks.first]).sum())


@dataclass(frozen=True, eq=False)
class _State:
    centres: Array
    labels: Array  # of all rows
    objective: float
    iterations: int
    grid: Grid


def _take(chunks: PointChunks, held: Held, rows: Labels) -> Array:
    """Some rows of arrays that are held, in this order."""
    order = np.argsort(rows, kind="stable")
    parts = np.concatenate(list(held.map(_take_places, chunks.parts(rows[order]))))
    result = np.empty_like(parts)
    result[order] = parts
    return result


# --- what is computed of one chunk


class _ChunkData(Data):
    """Integer points of one chunk, one row each."""

    def __init__(self, rows: Array, device: Device | None) -> None:
        self.rows = rows
        self.mass = np.ones(len(rows))
        self.precision = None if device is None else device.precision(rows.dtype)
        self.device = None if self.precision is None else device
        self.sent = None if self.device is None else self.device.send(rows.astype(self.precision))


_open = cache(open_device)


def _take_places(array: Array, places: Labels) -> Array:
    return np.ascontiguousarray(array[places])


def _tiles(array: Array) -> list[Array]:
    return [array[low : low + TILE] for low in range(0, len(array), TILE)]


def _sum_points(finest: int, points: Array, places: Labels) -> npt.NDArray[np.int64]:
    total = np.zeros(points.shape[1])  # fewer than 2^24 rows of numbers up to 2^26: exact
    for at in _tiles(places):
        total += round_to(points[at], finest).sum(axis=0)
    return total.astype(np.int64)


def _longest(finest: int, middle: Doubles, points: Array, _: None) -> float:
    return max(longest_square(round_to(part, finest), middle) for part in _tiles(points))


def _to_rows(grid: Grid, points: Array) -> Array:
    rows = np.ones((len(points), points.shape[1] + 1), np.float64 if grid.fine else np.float32)
    for low in range(0, len(points), TILE):
        rows[low : low + TILE, :-1] = grid.integers(points[low : low + TILE])
    return rows


def _squares(rows: Array, _: None) -> Doubles:
    return np.concatenate([np.square(part[:, :-1].astype(np.float64)).sum(axis=1) for part in _tiles(rows)])


def _assigned(centres: Array, device: str | None, rows: Array) -> tuple[_ChunkData, Assignment, Workers]:
    """The nearest centre of each row of a chunk."""
    data, workers = _ChunkData(rows, _open(device)), Workers(len(rows), 1)
    assignment = Assignment(len(rows), rows.dtype)
    with workers:
        assign_points(data, centres, np.ones(len(centres), np.bool_), assignment, workers)
    return data, assignment, workers


def _assign_chunk(
    centres: Array, device: str | None, rows: Array, before: Array | None
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Labels of a chunk, and the sums of the rows that joined each bin less those that left it."""
    data, assignment, workers = _assigned(centres, device, rows)
    sums = np.zeros((len(centres), rows.shape[1]))
    former = np.full(len(rows), -1, np.int64) if before is None else before.astype(np.int64)
    with workers:
        update_sums(data, former, assignment.labels, sums, workers)
    return assignment.labels.astype(np.min_scalar_type(len(centres) - 1)), sums.astype(np.int64)


def _own_scores(centres: Array, device: str | None, rows: Array, _: None) -> Array:
    return _assigned(centres, device, rows)[1].score


def _own_distances(centres: Array, rows: Array, labels: Array) -> Doubles:
    exact = centres.astype(np.float64)
    parts = zip(_tiles(rows), _tiles(labels), strict=True)
    return np.concatenate([np.square(part[:, :-1] - exact[own]).sum(axis=1) for part, own in parts])
