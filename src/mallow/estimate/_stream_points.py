"""The points that are clustered: some rows of shards, or all of them, reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import Passes, memory_budget
from mallow.errors import InputError
from mallow.estimate._nearest import Grid
from mallow.estimate._pca import Projection
from mallow.estimate._stream_pca import View, project_rows
from mallow.estimate._survey import chunk_rows
from mallow.samples import Chunk, Shards

__all__ = ["Job", "gather_points", "make_job"]

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]

_COPIES = 3  # of the points that k-means takes, itself included; measured


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


def gather_points(
    passes: Passes, shards: Sequence[Shards], views: Sequence[View], sample: int
) -> list[tuple[Array, npt.NDArray[np.uint64], bool]]:
    """For each view: the points of the chosen rows, their keys, and whether all rows were chosen."""
    chosen = [_choose_rows(view.keys, sample) for view in views]
    counts = [len(view.keys) if rows is None else len(rows) for view, rows in zip(views, chosen, strict=True)]
    widths = [shards[0].width if view.reduction is None else len(view.reduction.axes) for view in views]
    needed = sum(_COPIES * a * b * view.dtype.itemsize for a, b, view in zip(counts, widths, views, strict=True))
    if needed > memory_budget():
        raise InputError(
            f"k-means on {max(counts):,} rows of {max(widths)} columns takes {needed / 1e9:.3g} GB, more than the "
            f"{memory_budget() / 1e9:.3g} GB allowed. Cluster fewer rows, such as Quantize(sample=1_000_000), or set MALLOW_MEMORY."
        )
    arrays = [np.zeros(shape, view.dtype) for *shape, view in zip(counts, widths, views, strict=True)]
    for side in sorted({side for view in views for side in view.sides}):
        members = [place for place, view in enumerate(views) if side in view.sides and not view.flat]
        begins = {place: _begin(shards, views[place].sides, side) for place in members}
        tasks, targets = [], []
        for chunk in shards[side].chunks(chunk_rows(shards[side].width)):
            wanted: list[Labels | None] = []
            target: list[slice] = []
            for place in members:
                low = begins[place] + chunk.start
                rows, high = chosen[place], low + len(chunk)
                if rows is None:
                    wanted.append(None)
                    target.append(slice(low, high))
                else:
                    at = slice(*np.searchsorted(rows, [low, high]).tolist())
                    wanted.append(rows[at] - low)
                    target.append(at)
            tasks.append((chunk, wanted))
            targets.append(target)
        jobs = [make_job(views[place]) for place in members]
        own = {str(place): arrays[place] for place in members}
        where = dict(zip((chunk.start for chunk, _ in tasks), targets, strict=True))
        own = passes.run(
            f"points-{side}", partial(_chunk_points, jobs), tasks, own, partial(_add_points, members, where)
        )
        for place in members:
            arrays[place] = own[str(place)]
    keys = [view.keys if rows is None else view.keys[rows] for view, rows in zip(views, chosen, strict=True)]
    return [(array, own, rows is None) for array, own, rows in zip(arrays, keys, chosen, strict=True)]


def _begin(shards: Sequence[Shards], sides: tuple[int, ...], side: int) -> int:
    """Where the rows of a side begin among those of a view."""
    return sum(len(shards[other]) for other in sides[: sides.index(side)])


def _choose_rows(keys: npt.NDArray[np.uint64], sample: int) -> Labels | None:
    """The rows that are clustered, in order: those whose keys, mixed once more, are the smallest. None: all."""
    if len(keys) <= sample:
        return None
    mixed = keys.copy()  # the finaliser of splitmix64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    last = np.partition(mixed, sample - 1)[sample - 1]
    return np.flatnonzero(mixed <= last)  # copies of a row are all in, or all out


def _chunk_points(jobs: Sequence[Job], task: tuple[Chunk, Sequence[Labels | None]]) -> list[Array]:
    chunk, wanted = task
    rows = chunk.read()
    return [
        project_rows(job.projection, job.dtype, rows if places is None else rows[places])
        for job, places in zip(jobs, wanted, strict=True)
    ]


def _add_points(
    members: Sequence[int],
    where: dict[int, list[slice]],
    state: dict[str, Array],
    task: tuple[Chunk, Sequence[Labels | None]],
    result: list[Array],
) -> None:
    for place, target, points in zip(members, where[task[0].start], result, strict=True):
        state[str(place)][target] = points
