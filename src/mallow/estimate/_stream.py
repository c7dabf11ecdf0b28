"""Vector quantisation of rows that are never all in memory, with the same bins as `Quantize` finds for one array.

Passes over the rows give a number for each, the sums of their products, and the points that are clustered, at most
`Quantize.sample` of them, in memory. If not all rows were clustered, a last pass labels every row. All sums are of
integers, so neither chunks nor workers nor their order matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import Passes, memory_budget
from mallow.errors import Caveat, InputError
from mallow.estimate._device import open_device
from mallow.estimate._kmeans import lloyd
from mallow.estimate._nearest import Grid, nearest_centres
from mallow.estimate._pca import Projection, Reduction
from mallow.estimate._quantize import Codebook, Quantize, draw_against_itself, too_few_points
from mallow.estimate._reduce import View, project_rows, reduce_views
from mallow.estimate._row_order import CanonicalOrder, canonical_order, choose_rows
from mallow.estimate._survey import Survey, chunk_rows, fetch_rows
from mallow.samples import Chunk, Shards
from mallow.theory import Masses, Partition

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]
Split = tuple[Labels, Labels]

_MOST_WORK = 1e15  # multiplications of one round of k-means; chosen: about an hour of 16 processors
_COPIES = 3  # of the clustered rows in memory: the rows and the arrays of k-means; measured: 2.3 to 2.6 in float32


@dataclass(frozen=True, eq=False)
class StreamedQuantization:
    """The results of the passes.

    Attributes
    ----------
    masses : list of Masses
        One for each repeat, with the bin of each row.
    itself : list of Masses
        Masses of the reference against itself, one for each split.
    reduction : Reduction or None
        Without points. None if rows were not reduced, or were reduced by a codebook.
    """

    masses: list[Masses]
    itself: list[Masses]
    reduction: Reduction | None


def quantize_shards(
    passes: Passes,
    quantize: Quantize,
    shards: tuple[Shards, Shards],
    surveys: tuple[Survey, Survey],
    rngs: Sequence[np.random.Generator],
    splits: Sequence[Split],
    split_rngs: Sequence[np.random.Generator],
) -> StreamedQuantization:
    """The masses of the reference and the model in shards, and of the reference against itself.

    Parameters
    ----------
    rngs : sequence of Generator
        One for each repeat.
    splits : sequence of pairs of index arrays
        Rows of the reference and the other rows of it that they are scored against, one pair for each repeat.
    split_rngs : sequence of Generator
        One for each split.
    """
    n, m = map(len, shards)
    bins = quantize.bins_for(n, m)
    if isinstance(quantize.codebook, Codebook):
        return _with_codebook(passes, quantize, quantize.codebook, shards, rngs, split_rngs)
    smaller = quantize.for_halves(n, m)
    pair, alone = reduce_views(passes, quantize.reduce, shards, surveys, [(0, 1), (0,)])
    sample = quantize.sample_for(n, m)
    _check_work(pair, sample, bins, shards[0].width)
    quantize = replace(quantize, sample=sample)
    clusterings = _cluster_all(passes, "clusters", quantize, shards, pair, rngs)
    clusterings_alone = _cluster_all(passes, "own-clusters", smaller, shards, alone, split_rngs)
    jobs = [
        _make_job(view, chosen, quantize.device) for view, chosen in ((pair, clusterings), (alone, clusterings_alone))
    ]
    known = [[clustering.labels for clustering in chosen] for chosen in (clusterings, clusterings_alone)]
    labels = _label_rows(passes, shards, [(0, 1), (0,)], jobs, known)
    masses = [
        replace(
            quantize.count(Partition(row_labels[:n], row_labels[n:], clustering.centres)), caveats=clustering.caveats
        )
        for row_labels, clustering in zip(labels[0], clusterings, strict=True)
    ]
    itself = [
        smaller.count(Partition(row_labels[first], row_labels[second], clustering.centres))
        for row_labels, clustering, (first, second) in zip(labels[1], clusterings_alone, splits, strict=True)
    ]
    return StreamedQuantization(masses, itself, pair.reduction)


@dataclass(frozen=True, eq=False)
class _Clustering:
    """A clustering, with the labels of all rows if all were clustered."""

    centres: Array
    grid: Grid
    labels: Labels | None
    caveats: tuple[Caveat, ...]


def _check_work(view: View, sample: int, bins: int, columns: int) -> None:
    """Raise an InputError if k-means would take days, or if the rows to cluster do not fit into memory.

    `columns` counts the columns of rows that are not reduced.
    """
    rows = min(len(view.keys), sample)
    width = columns if view.reduction is None else len(view.reduction.axes)
    if float(rows) * bins * width > _MOST_WORK:
        raise InputError(
            f"`bins` must be fewer for this many samples: {bins:,} bins for {rows:,} rows of {width} columns take "
            f"{float(rows) * bins * width:.0e} multiplications in each round of k-means. Pass Quantize(bins=1000), or "
            "cluster fewer rows with Quantize(sample=200_000)."
        )
    per_row = _COPIES * width * view.dtype.itemsize
    if rows * per_row > memory_budget():
        fitting = max(2, memory_budget() // per_row)
        raise InputError(
            f"`sample` must be smaller: to cluster {rows:,} rows of {width:,} columns takes about "
            f"{rows * per_row / 1e9:.3g} GB, more than the memory allows ({memory_budget() / 1e9:.3g} GB). Pass "
            f"Quantize(sample={fitting:_}), reduce the rows with Quantize(reduce=Reduce()), or set MALLOW_MEMORY."
        )


# --- clusters


def _cluster_all(
    passes: Passes,
    name: str,
    quantize: Quantize,
    shards: tuple[Shards, Shards],
    view: View,
    rngs: Sequence[np.random.Generator],
) -> list[_Clustering]:
    """One clustering of the rows of a view for each generator, or the clusterings in the checkpoint."""
    n, m = map(len, shards)
    chosen = choose_rows(view.keys, quantize.sample)
    distinct = len(np.unique(view.keys if chosen is None else view.keys[chosen]))
    bins = quantize.bins_for(n, m)
    options: dict[str, Any] = {"max_iter": quantize.max_iter, "device": open_device(quantize.device)}
    options["threads"] = getattr(passes.engine, "threads", None)

    @cache
    def points() -> tuple[Array, CanonicalOrder]:
        sides, project = [shards[side] for side in view.sides], partial(_to_points, _make_job(view))
        places = np.arange(len(view.keys)) if chosen is None else chosen
        rows = fetch_rows(passes, sides, places, view.dtype, project)
        return rows, canonical_order(rows, rows[:0], threads=options["threads"])

    def make(rng: np.random.Generator) -> dict[str, Array]:
        rows, order = points()
        clustering = lloyd(rows, min(bins, distinct), rng=rng, order=order, **options)
        grid = clustering.grid
        arrays: dict[str, Array] = {"centres": clustering.centres, "origin": grid.origin}
        arrays["grid"] = np.array([grid.exponent, int(grid.fine)])
        arrays["objective"] = np.array(clustering.objective)
        if chosen is None:
            arrays["labels"] = clustering.labels
        return arrays

    clusterings = []
    for repeat, rng in enumerate(rngs):
        names = [f"{name}-{repeat}" + (f"-{restart}" if restart else "") for restart in range(quantize.restarts)]
        children = rng.spawn(quantize.restarts)
        runs = [passes.keep(run, partial(make, child)) for run, child in zip(names, children, strict=True)]
        best = min(runs, key=lambda run: float(run["objective"]))
        grid = Grid(best["origin"], int(best["grid"][0]), bool(best["grid"][1]))
        clusterings.append(_Clustering(best["centres"], grid, best.get("labels"), too_few_points(distinct, bins)))
    return clusterings


@dataclass(frozen=True, eq=False)
class _Job:
    """The map from rows to points and then to labels: a reduction, and the centres of several clusterings."""

    projection: Projection | None
    dtype: np.dtype[Any]
    flat: bool
    clusterings: tuple[tuple[Array, Grid | None], ...] = ()
    device: str | None = None


def _make_job(view: View, clusterings: Sequence[_Clustering] = (), device: str | None = None) -> _Job:
    """The map from the rows of a view to points and, with centres, to labels."""
    projection = None if view.reduction is None else view.reduction.projection
    centres = tuple((clustering.centres, clustering.grid) for clustering in clusterings)
    flat = view.reduction is not None and view.reduction.flat
    return _Job(projection, view.dtype, flat, centres, device)


def _to_points(job: _Job, rows: Array) -> Array:
    points = project_rows(job.projection, job.dtype, rows)
    return np.zeros_like(points) if job.flat else points


# --- labels of all rows


def _label_rows(
    passes: Passes,
    shards: Sequence[Shards],
    views: Sequence[tuple[int, ...]],
    jobs: Sequence[_Job],
    labels: list[list[Labels | None]],
) -> list[list[Labels]]:
    """For each view, the labels of all its rows in each clustering; labels that are in `labels` already stay."""
    todo = [number for number, of_view in enumerate(labels) if any(part is None for part in of_view)]
    for side in sorted({side for number in todo for side in views[number]}):
        members = [number for number in todo if side in views[number]]
        state = {
            str(number): np.zeros((len(jobs[number].clusterings), len(shards[side])), _compact(jobs[number]))
            for number in members
        }
        tasks = list(shards[side].chunks(chunk_rows(shards[side].width)))
        own_jobs = [jobs[number] for number in members]
        state = passes.run(
            f"labels-{side}", partial(_label_chunk, own_jobs), tasks, state, partial(_add_labels, members)
        )
        for number in members:
            for repeat, part in enumerate(state[str(number)]):
                before = labels[number][repeat]
                labels[number][repeat] = part if before is None else np.concatenate([before, part])
    return [[np.asarray(part, np.int64) for part in of_view] for of_view in labels]


def _compact(job: _Job) -> np.dtype[Any]:
    most = max((len(centres) for centres, _ in job.clusterings), default=1)
    return np.min_scalar_type(most - 1)


def _label_chunk(jobs: Sequence[_Job], chunk: Chunk) -> list[Array]:
    rows = chunk.read()
    result = []
    for job in jobs:
        points, device = _to_points(job, rows), open_device(job.device)
        labels = [nearest_centres(points, centres, grid, device=device) for centres, grid in job.clusterings]
        result.append(np.stack(labels).astype(_compact(job)))
    return result


def _add_labels(members: Sequence[int], state: dict[str, Array], chunk: Chunk, result: list[Array]) -> None:
    for number, labels in zip(members, result, strict=True):
        state[str(number)][:, chunk.start : chunk.start + len(chunk)] = labels


def _with_codebook(
    passes: Passes,
    quantize: Quantize,
    codebook: Codebook,
    shards: tuple[Shards, Shards],
    rngs: Sequence[np.random.Generator],
    split_rngs: Sequence[np.random.Generator],
) -> StreamedQuantization:
    """The masses with fixed bins: every row is labelled once."""
    n, m = map(len, shards)
    clusterings = ((codebook.centres, codebook.grid),)
    pair = np.result_type(shards[0].dtype, shards[1].dtype)
    jobs = [_Job(codebook.projection, dtype, False, clusterings, quantize.device) for dtype in (pair, shards[0].dtype)]
    labels, alone = _label_rows(passes, shards, [(0, 1), (0,)], jobs, [[None], [None]])
    masses = quantize.count(Partition(labels[0][:n], labels[0][n:], codebook.centres))
    counts = np.bincount(alone[0], minlength=len(codebook.centres))
    itself = draw_against_itself(quantize, counts, n, m, split_rngs)
    return StreamedQuantization([masses for _ in rngs], itself, None)
