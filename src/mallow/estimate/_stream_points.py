"""The points that are clustered: some rows of shards, or all of them, reduced."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import Held, Passes, hold
from mallow.estimate._nearest import Grid
from mallow.estimate._pca import Projection
from mallow.estimate._row_order import hash_rows
from mallow.estimate._stream_pca import View, project_rows
from mallow.estimate._survey import chunk_rows
from mallow.samples import Chunk, Shards

_LOG = logging.getLogger("mallow")

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]

_CHUNKS = 64  # chosen: all processors of some machines are busy
_LEAST, _MOST = 2**20, 2**24  # numbers of a chunk; chosen: worth a task, and 64 MB in float32


@dataclass(frozen=True, eq=False)
class Job:
    """How rows become labels: a reduction, and the centres of several clusterings."""

    projection: Projection | None
    dtype: np.dtype[Any]
    flat: bool
    clusterings: tuple[tuple[Array, Grid | None], ...]
    device: str | None = None


def make_job(view: View, clusterings: Sequence[tuple[Array, Grid | None]] = (), device: str | None = None) -> Job:
    """How the rows of a view become points and, with centres, labels."""
    projection = None if view.reduction is None else view.reduction.projection
    return Job(projection, view.dtype, view.flat, tuple(clusterings), device)


@dataclass(frozen=True, eq=False)
class PointChunks:
    """The points that are clustered, in chunks that the engine holds; of each row only some numbers are here.

    Attributes
    ----------
    held : Held
        Points (rows, d), one array for each chunk.
    starts : int64 array (chunks + 1,)
        Where the rows of each chunk begin.
    dtype : numpy dtype
    width : int
        The number of columns d.
    largest : float
        The largest absolute value.
    first : int64 array (g,)
        A row of each distinct point, in an order that depends on the points alone.
    group : int64 array (rows,)
        The distinct point of each row.
    mass : float64 array (g,)
        How many rows each distinct point has.
    """

    held: Held
    starts: Labels
    dtype: np.dtype[Any]
    width: int
    largest: float
    first: Labels
    group: Labels
    mass: npt.NDArray[np.float64]

    def parts(self, rows: Labels) -> list[tuple[int, Labels]]:
        """For each chunk that has some of these rows, which are sorted: its number, and where they are in it."""
        ends = np.searchsorted(rows, self.starts)
        return [
            (place, rows[low:high] - self.starts[place])
            for place, (low, high) in enumerate(pairwise(ends.tolist()))
            if high > low
        ]


def choose_rows(view: View, sample: int) -> Labels | None:
    """The rows that are clustered, in order: those whose keys, mixed once more, are the smallest. None: all."""
    if len(view.keys) <= sample:
        return None
    mixed = view.keys.copy()  # the finaliser of splitmix64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    last = np.partition(mixed, sample - 1)[sample - 1]
    return np.flatnonzero(mixed <= last)  # copies of a row are all in, or all out


def hold_points(passes: Passes, name: str, shards: Sequence[Shards], view: View, chosen: Labels | None) -> PointChunks:
    """The points of the chosen rows of a view, or of all rows, in chunks; one pass over the rows, and one over the points."""
    began = time.monotonic()
    width = shards[0].width if view.reduction is None else len(view.reduction.axes)
    count = len(view.keys) if chosen is None else len(chosen)
    wanted = min(max(count * width // _CHUNKS, _LEAST), _MOST)
    tasks, sizes = _divide(shards, view, chosen, max(1, wanted // width))
    size = count * width * view.dtype.itemsize
    held = hold(passes.engine, partial(_chunk_points, make_job(view)), tasks, size=size)
    told = list(held.map(_tell_points, ((place, None) for place in range(len(held)))))
    keys = np.concatenate([own for own, _ in told])
    _, first, group, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    _LOG.info("%s: %d tasks in %.1f s", name, len(tasks), time.monotonic() - began)
    return PointChunks(
        held,
        np.cumsum([0, *sizes]),
        view.dtype,
        width,
        max(largest for _, largest in told),
        first,
        group.astype(np.int64),
        times.astype(np.float64),
    )


_Part = tuple[Chunk, Labels | None]  # rows of a chunk; None: all


def _divide(
    shards: Sequence[Shards], view: View, chosen: Labels | None, rows: int
) -> tuple[list[tuple[_Part, ...]], list[int]]:
    """Tasks with about so many chosen rows each, and how many they have; those of a task may be in several chunks of shards."""
    tasks: list[tuple[_Part, ...]] = []
    sizes: list[int] = []
    parts: list[_Part] = []
    size = begin = 0
    for side in view.sides:
        read = chunk_rows(shards[side].width)
        for chunk in shards[side].chunks(read if chosen is not None else min(rows, read)):
            places: Labels | None = None
            if chosen is not None:
                low = begin + chunk.start
                places = chosen[slice(*np.searchsorted(chosen, [low, low + len(chunk)]).tolist())] - low
                if not len(places):
                    continue
            parts.append((chunk, places))
            size += len(chunk) if places is None else len(places)
            if size >= rows:
                tasks.append(tuple(parts))
                sizes.append(size)
                parts, size = [], 0
        begin += len(shards[side])
    if parts:
        tasks.append(tuple(parts))
        sizes.append(size)
    return tasks, sizes


def _chunk_points(job: Job, parts: Sequence[_Part]) -> Array:
    points = [
        project_rows(job.projection, job.dtype, chunk.read()[slice(None) if places is None else places])
        for chunk, places in parts
    ]
    joined = points[0] if len(points) == 1 else np.concatenate(points)
    return np.zeros_like(joined) if job.flat else joined


def _tell_points(points: Array, _: None) -> tuple[npt.NDArray[np.uint64], float]:
    return hash_rows(points, points.dtype, 1), max(float(points.max()), -float(points.min()))
