"""Principal components of rows that are never all in memory: the same bits as `pca_joint` of one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import Passes, unit_rows
from mallow.estimate._pca import (
    ROW_BITS,
    ROWS,
    Projection,
    Reduction,
    choose_axes,
    exponent_for,
    is_enough,
    scale_rows,
    spectrum_from_sums,
)
from mallow.estimate._reduce import Reduce
from mallow.estimate._row_order import BLOCK, CanonicalOrder
from mallow.estimate._survey import Survey, chunk_rows, fetch_rows
from mallow.samples import Chunk, Shards

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_LOW_BITS = 31  # sums of integers are kept in two words, of which the lower has so many bits


@dataclass(frozen=True, eq=False)
class View:
    """Some of the sides, pooled, with the reduction of their rows.

    Attributes
    ----------
    sides : tuple of int
        Which sides.
    dtype : numpy dtype
        The common precision of their rows, which that of the points is too.
    keys : uint64 array
        Of all rows, in this precision.
    reduction : Reduction or None
        Without points. None where rows are not reduced.
    flat : bool
        Whether the rows have no variance: all points are 0.
    """

    sides: tuple[int, ...]
    dtype: np.dtype[Any]
    keys: npt.NDArray[np.uint64]
    reduction: Reduction | None
    flat: bool


def reduce_views(
    passes: Passes,
    reduce: Reduce | None,
    shards: Sequence[Shards],
    surveys: Sequence[Survey],
    views: Sequence[tuple[int, ...]],
) -> list[View]:
    """The reduction of each view; a side that is in several of them is read once for all."""
    dtypes = [np.result_type(*(shards[side].dtype for side in sides)) for sides in views]
    keys = [
        np.concatenate([surveys[side].keys[dtype.name] for side in sides])
        for sides, dtype in zip(views, dtypes, strict=True)
    ]
    if reduce is None:
        return [View(*view, None, False) for view in zip(views, dtypes, keys, strict=True)]
    frames = [
        _find_frame(
            passes, place, reduce, [shards[side] for side in sides], [surveys[side] for side in sides], own, dtype
        )
        for place, (sides, dtype, own) in enumerate(zip(views, dtypes, keys, strict=True))
    ]
    sums = _sum_products(passes, shards, views, frames)
    reduced = []
    for view, dtype, own, frame, (scatter, total) in zip(views, dtypes, keys, frames, sums, strict=True):
        variance = 1.0 if reduce.variance is None else reduce.variance
        spectrum = spectrum_from_sums(scatter, total, len(own), is_enough(variance, reduce.dimension))
        one_row = bool((own == own[0]).all())
        axes = choose_axes(frame, spectrum, len(own), dtype, one_row, variance, reduce.dimension)
        nothing = np.empty(0, np.int64)
        pooled = CanonicalOrder(nothing, nothing, nothing, nothing)
        points = np.empty((0, len(axes.projection.axes)), dtype)
        reduction = Reduction(points, pooled, axes.projection, axes.variances, axes.explained)
        reduced.append(View(view, dtype, own, reduction, axes.flat))
    return reduced


def project_rows(projection: Projection | None, dtype: np.dtype[Any], rows: Array) -> Array:
    """Rows as points: reduced, in this precision."""
    if projection is None:
        return rows.astype(dtype, copy=False)
    points = np.empty((len(rows), len(projection.axes)), dtype)
    for low in range(0, len(rows), BLOCK):
        points[low : low + BLOCK] = projection(rows[low : low + BLOCK])
    return points


def _find_frame(
    passes: Passes,
    place: int,
    reduce: Reduce,
    shards: Sequence[Shards],
    surveys: Sequence[Survey],
    keys: npt.NDArray[np.uint64],
    dtype: np.dtype[Any],
) -> Projection:
    """An origin near the mean of all rows, and a power of two above what is left of the largest of them."""
    size, width = len(keys), shards[0].width
    at = np.linspace(0, size - 1, min(size, BLOCK)).astype(np.int64)
    rows = fetch_rows(passes, shards, _places_in_order(keys, at), dtype)
    none = np.zeros((0, width))
    if reduce.normalise:
        return Projection(none, unit_rows(rows).mean(axis=0), True, 0, -ROW_BITS)
    exponent = exponent_for(max(survey.largest for survey in surveys))
    origin = scale_rows(rows, exponent).mean(axis=0)
    tasks = [chunk for own in shards for chunk in own.chunks(chunk_rows(width))]
    state = {"largest": np.zeros(1)}
    state = passes.run(f"range-{place}", partial(_largest_rest, origin, exponent), tasks, state, _keep_largest)
    above = int(np.frexp(float(state["largest"][0]))[1])
    return Projection(none, origin, False, exponent, above - ROW_BITS)


def _places_in_order(keys: npt.NDArray[np.uint64], at: Integers) -> Integers:
    """The places of the keys that would be at these positions if all were sorted."""
    wanted = np.partition(keys, np.unique(at))[at]
    distinct = np.unique(wanted)
    place = np.zeros(len(distinct), np.int64)
    for low in range(0, len(keys), 1 << 20):
        part = keys[low : low + (1 << 20)]
        position = np.minimum(np.searchsorted(distinct, part), len(distinct) - 1)
        hits = np.flatnonzero(distinct[position] == part)
        place[position[hits]] = low + hits  # rows with equal keys are equal: any of them will do
    return place[np.searchsorted(distinct, wanted)]


def _largest_rest(origin: Doubles, exponent: int, chunk: Chunk) -> float:
    rows = chunk.read()
    largest = 0.0
    for low in range(0, len(rows), BLOCK):
        rest = scale_rows(rows[low : low + BLOCK], exponent) - origin
        largest = max(largest, float(rest.max()), -float(rest.min()))
    return largest


def _keep_largest(state: dict[str, Array], chunk: Chunk, result: float) -> None:
    state["largest"][0] = max(float(state["largest"][0]), result)


def _sum_products(
    passes: Passes, shards: Sequence[Shards], views: Sequence[tuple[int, ...]], frames: Sequence[Projection]
) -> list[tuple[Doubles, Doubles]]:
    """For each view: the sums of products of its integers, and of the integers."""
    width = shards[0].width
    sums: list[dict[str, Array]] = [_no_sums(width) for _ in views]
    for side in sorted({side for sides in views for side in sides}):
        members = [place for place, sides in enumerate(views) if side in sides]
        state = {f"{name}-{place}": own for place in members for name, own in _no_sums(width).items()}
        tasks = list(shards[side].chunks(chunk_rows(width)))
        own_frames = [frames[place] for place in members]
        state = passes.run(
            f"products-{side}", partial(_products, own_frames), tasks, state, partial(_add_products, members)
        )
        for place in members:
            for name, total in sums[place].items():
                total += state[f"{name}-{place}"]
    return [(_join(own["high"], own["low"]), _join(own["high_total"], own["low_total"])) for own in sums]


def _no_sums(width: int) -> dict[str, Array]:
    names = {"high": (width, width), "low": (width, width), "high_total": (width,), "low_total": (width,)}
    return {name: np.zeros(shape, np.int64) for name, shape in names.items()}


def _products(frames: Sequence[Projection], chunk: Chunk) -> list[tuple[Integers, Integers]]:
    """The sums of a chunk: below 2^63, since it has fewer than a thousand blocks."""
    rows = chunk.read()
    width = rows.shape[1]
    sums = [(np.zeros((width, width), np.int64), np.zeros(width, np.int64)) for _ in frames]
    for low in range(0, len(rows), ROWS):
        for frame, (scatter, total) in zip(frames, sums, strict=True):
            integers = frame.integers(rows[low : low + ROWS])
            scatter += (integers.T @ integers).astype(np.int64)
            total += integers.sum(axis=0).astype(np.int64)
    return sums


def _add_products(
    members: Sequence[int], state: dict[str, Array], chunk: Chunk, result: list[tuple[Integers, Integers]]
) -> None:
    for place, (scatter, total) in zip(members, result, strict=True):
        for values, high, low in ((scatter, "high", "low"), (total, "high_total", "low_total")):
            state[f"{high}-{place}"] += values >> _LOW_BITS
            state[f"{low}-{place}"] += values & ((1 << _LOW_BITS) - 1)


def _join(high: Integers, low: Integers) -> Doubles:
    """Both words as one number, rounded once."""
    carry = low >> _LOW_BITS
    return (high + carry).astype(np.float64) * 2.0**_LOW_BITS + (low & ((1 << _LOW_BITS) - 1)).astype(np.float64)
