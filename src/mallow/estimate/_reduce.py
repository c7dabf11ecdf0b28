"""Reduction of both samples to their leading common principal components, in memory or chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow._checks import whole
from mallow.engine import Passes, cores, ordered_map, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate._features import Features, checked_pair
from mallow.estimate._pca import (
    Projection,
    Reduction,
    RowSource,
    evenly_spaced,
    find_axes,
    is_enough,
    largest_rest,
    pca_joint,
)
from mallow.estimate._row_order import BLOCK, CanonicalOrder, canonical_order
from mallow.estimate._spectrum import ROWS, ProductSums, Spectrum, spectrum_from_sums
from mallow.estimate._survey import Survey, chunk_rows, fetch_rows
from mallow.samples import Chunk, Shards

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_LOW_BITS = 31  # bits of the lower of the two words in which sums of integers are kept


@dataclass(frozen=True)
class Reduce:
    """Joint PCA of the reference and the model sample, optionally after scaling each row to length 1.

    The published pipeline is ``Reduce(variance=0.9, normalise=True)``.

    Parameters
    ----------
    variance : float or None
        Keep the fewest axes that explain this share of the variance, in (0, 1].
    dimension : int or None
        Keep this many axes instead (fewer if the data have fewer); `variance` is then ignored.
    normalise : bool
        Divide each row by its Euclidean norm first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 50, 8))
    >>> Reduce(dimension=3)(x, y)[0].shape
    (50, 3)
    """

    variance: float | None = 0.9
    dimension: int | None = None
    normalise: bool = True

    def __post_init__(self) -> None:
        if self.dimension is not None:
            whole("dimension", self.dimension, least=1)
        elif self.variance is None:
            raise InputError(
                "`variance` or `dimension` must be a number, but both are None. Pass reduce=None to the estimator "
                "for no PCA."
            )
        if self.variance is not None and not 0 < self.variance <= 1:
            raise InputError(f"`variance` must be above 0 and at most 1; got {self.variance!r}.")

    def __repr__(self) -> str:
        kept = f"variance={self.variance:g}" if self.dimension is None else f"dimension={self.dimension}"
        return f"Reduce({kept}, normalise={self.normalise})"

    def __call__(self, x: Any, y: Any) -> tuple[Features, Features]:
        """Both samples on their leading common axes: (n, d′) and (m, d′)."""
        x, y = checked_pair(x, y)
        return self.fit(x, y).split(len(x))

    def fit(self, x: Features, y: Features) -> Reduction:
        """The reduction itself, with axes and mean; x and y as `checked_pair` returns them."""
        return pca_joint(
            x,
            y,
            variance=1.0 if self.variance is None else self.variance,
            dimension=self.dimension,
            normalize=self.normalise,
        )


def distinct_points(
    reduce: Reduce | None, x: Features, y: Features
) -> tuple[Features, CanonicalOrder, Reduction | None]:
    """The distinct rows of x and y in canonical order, after the reduction if there is one."""
    if reduce is None:
        pooled = canonical_order(x, y)
        return np.concatenate([x, y])[pooled.distinct], pooled, None
    reduction = reduce.fit(x, y)
    return reduction.points, reduction.pooled, reduction


@dataclass(frozen=True, eq=False)
class View:
    """Several sides, pooled, with the reduction of their rows.

    Attributes
    ----------
    sides : tuple of int
        The indices of the sides.
    dtype : numpy dtype
        The common precision of their rows and of the points.
    keys : uint64 array
        Keys of all rows, in this precision.
    reduction : Reduction or None
        Without points. None if rows are not reduced.
    """

    sides: tuple[int, ...]
    dtype: np.dtype[Any]
    keys: npt.NDArray[np.uint64]
    reduction: Reduction | None


def reduce_views(
    passes: Passes,
    reduce: Reduce | None,
    shards: Sequence[Shards],
    surveys: Sequence[Survey],
    views: Sequence[tuple[int, ...]],
) -> list[View]:
    """The reduction of each view. A side in several views is read only once."""
    dtypes = [np.result_type(*(shards[side].dtype for side in sides)) for sides in views]
    keys = [
        np.concatenate([surveys[side].keys[dtype.name] for side in sides])
        for sides, dtype in zip(views, dtypes, strict=True)
    ]
    if reduce is None:
        return [View(*view, None) for view in zip(views, dtypes, keys, strict=True)]
    variance = 1.0 if reduce.variance is None else reduce.variance
    sources = [
        _view_source(passes, number, [shards[i] for i in sides], [surveys[i] for i in sides], view_keys, dtype)
        for number, (sides, dtype, view_keys) in enumerate(zip(views, dtypes, keys, strict=True))
    ]

    def spectra(frames: Sequence[Projection]) -> list[Spectrum]:
        sums = _sum_products(passes, shards, views, frames)
        enough = is_enough(variance, reduce.dimension)
        return [spectrum_from_sums(*total, source.size, enough) for total, source in zip(sums, sources, strict=True)]

    reductions = find_axes(sources, spectra, reduce.normalise, variance, reduce.dimension)
    return [View(*view) for view in zip(views, dtypes, keys, reductions, strict=True)]


def project_rows(projection: Projection | None, dtype: np.dtype[Any], rows: Array) -> Array:
    """Rows as points: reduced, in this precision."""
    if projection is None:
        return rows.astype(dtype, copy=False)
    points = np.empty((len(rows), len(projection.axes)), dtype)

    def project(low: int) -> None:
        points[low : low + BLOCK] = projection(rows[low : low + BLOCK])

    with single_threaded_blas():
        for _ in ordered_map(project, range(0, len(rows), BLOCK), cores()):
            pass
    return points


def _view_source(
    passes: Passes,
    number: int,
    shards: Sequence[Shards],
    surveys: Sequence[Survey],
    keys: npt.NDArray[np.uint64],
    dtype: np.dtype[Any],
) -> RowSource:
    """The rows of a view. A few are fetched, and the others are read chunk by chunk."""
    spread = fetch_rows(passes, shards, _places_in_order(keys, evenly_spaced(len(keys))), dtype)
    largest = max(survey.largest for survey in surveys)

    def farthest(exponent: int, origin: Doubles) -> float:
        tasks = [chunk for side in shards for chunk in side.chunks(chunk_rows(side.width))]
        function = partial(_largest_of_chunk, exponent, origin)
        state = passes.run(f"range-{number}", function, tasks, {"largest": np.zeros(1)}, _keep_largest)
        return float(state["largest"][0])

    return RowSource(len(keys), dtype, bool((keys == keys[0]).all()), largest, spread, farthest)


def _places_in_order(keys: npt.NDArray[np.uint64], at: Integers) -> Integers:
    """The indices of the keys that would be at these positions, including the last, if all were sorted."""
    wanted = np.partition(keys, np.unique(at))[at]
    distinct = np.unique(wanted)
    rows = np.zeros(len(distinct), np.int64)
    for low in range(0, len(keys), 1 << 20):
        part = keys[low : low + (1 << 20)]
        position = np.searchsorted(distinct, part)  # never past the end: the positions include the largest key
        hits = np.flatnonzero(distinct[position] == part)
        rows[position[hits]] = low + hits  # rows with equal keys are equal: any of them will do
    return rows[np.searchsorted(distinct, wanted)]


def _largest_of_chunk(exponent: int, origin: Doubles, chunk: Chunk) -> float:
    rows = chunk.read()
    return max(largest_rest(rows[low : low + BLOCK], exponent, origin) for low in range(0, len(rows), BLOCK))


def _keep_largest(state: dict[str, Array], chunk: Chunk, result: float) -> None:
    state["largest"][0] = max(float(state["largest"][0]), result)


def _sum_products(
    passes: Passes, shards: Sequence[Shards], views: Sequence[tuple[int, ...]], frames: Sequence[Projection]
) -> list[tuple[Doubles, Doubles]]:
    """For each view: the sums of products of its integers, and of the integers."""
    width = shards[0].width
    sums: list[dict[str, Array]] = [_no_sums(width) for _ in views]
    for side in sorted({side for sides in views for side in sides}):
        members = [view for view, sides in enumerate(views) if side in sides]
        state = {f"{name}-{view}": zeros for view in members for name, zeros in _no_sums(width).items()}
        tasks = list(shards[side].chunks(chunk_rows(width)))
        own_frames = [frames[view] for view in members]
        state = passes.run(
            f"products-{side}", partial(_products, own_frames), tasks, state, partial(_add_products, members)
        )
        for view in members:
            for name, total in sums[view].items():
                total += state[f"{name}-{view}"]
    return [
        (_join(view_sums["high"], view_sums["low"]), _join(view_sums["high_total"], view_sums["low_total"]))
        for view_sums in sums
    ]


def _no_sums(width: int) -> dict[str, Array]:
    names = {"high": (width, width), "low": (width, width), "high_total": (width,), "low_total": (width,)}
    return {name: np.zeros(shape, np.int64) for name, shape in names.items()}


def _products(frames: Sequence[Projection], chunk: Chunk) -> list[list[Integers]]:
    """The sums of a chunk for each frame: below 2^63, since it has fewer than a thousand blocks."""
    rows, sums = chunk.read(), [ProductSums() for _ in frames]
    for low in range(0, len(rows), ROWS):
        for frame, frame_sums in zip(frames, sums, strict=True):
            frame_sums.add(frame.integers(rows[low : low + ROWS]))
    return [frame_sums.integers() for frame_sums in sums]


def _add_products(members: Sequence[int], state: dict[str, Array], chunk: Chunk, result: list[list[Integers]]) -> None:
    for view, (scatter, total) in zip(members, result, strict=True):
        for values, high, low in ((scatter, "high", "low"), (total, "high_total", "low_total")):
            state[f"{high}-{view}"] += values >> _LOW_BITS
            state[f"{low}-{view}"] += values & ((1 << _LOW_BITS) - 1)


def _join(high: Integers, low: Integers) -> Doubles:
    """Both words as one number, rounded once."""
    carry = low >> _LOW_BITS
    return (high + carry).astype(np.float64) * 2.0**_LOW_BITS + (low & ((1 << _LOW_BITS) - 1)).astype(np.float64)
