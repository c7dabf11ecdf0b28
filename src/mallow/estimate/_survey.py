"""The results of one pass over the rows of a set: a number for each row, and the largest value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import Passes
from mallow.estimate._row_order import hash_names, hash_rows, unit_keys
from mallow.samples import Chunk, Shards

Array = npt.NDArray[Any]
Keys = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

_ENTRIES = 1 << 22  # of one chunk; chosen: 32 MB in float64, so that a few of them per processor fit anywhere


@dataclass(frozen=True, eq=False)
class Survey:
    """The results of one pass over the rows of a set.

    Attributes
    ----------
    keys : dict
        Name of a dtype → a 64-bit number for each row, which depends only on its values in this precision.
    unit_keys : uint64 array (n,)
        The same for rows in any unit of measurement.
    largest : float
        The largest absolute value.
    ids : uint64 array (n,) or None
        A number for the id of each row.
    """

    keys: dict[str, Keys]
    unit_keys: Keys
    largest: float
    ids: Keys | None


def chunk_rows(width: int) -> int:
    """Rows of one task: enough to be worth a task, and few enough to fit anywhere."""
    return max(_ENTRIES // width, 2 * width, 1)


def survey_rows(passes: Passes, name: str, shards: Shards, dtypes: Sequence[np.dtype[Any]]) -> Survey:
    """One pass over all rows; `dtypes` are the precisions in which rows are compared."""
    names = sorted({dtype.name for dtype in dtypes})
    state: dict[str, Array] = {key: np.zeros(len(shards), np.uint64) for key in names}
    state["largest"] = np.zeros(1)
    state["units"] = np.zeros(len(shards), np.uint64)
    if shards.has_ids:
        state["ids"] = np.zeros(len(shards), np.uint64)
    tasks = list(shards.chunks(chunk_rows(shards.width)))
    state = passes.run(name, partial(_survey_chunk, names, shards.has_ids), tasks, state, _add_survey)
    return Survey({key: state[key] for key in names}, state["units"], float(state["largest"][0]), state.get("ids"))


def _survey_chunk(dtypes: Sequence[str], with_ids: bool, chunk: Chunk) -> dict[str, Array]:
    rows = chunk.read()
    result: dict[str, Array] = {name: hash_rows(rows, np.dtype(name), 1) for name in dtypes}
    result["units"] = unit_keys(rows, 1)
    result["largest"] = np.array([max(float(rows.max()), -float(rows.min()))])
    if with_ids:
        result["ids"] = hash_names(chunk.ids() or ())
    return result


def _add_survey(state: dict[str, Array], chunk: Chunk, result: dict[str, Array]) -> None:
    for name, values in result.items():
        if name == "largest":
            np.maximum(state[name], values, out=state[name])
        else:
            state[name][chunk.start : chunk.start + len(values)] = values


def fetch_rows(
    passes: Passes,
    sides: Sequence[Shards],
    places: Indices,
    dtype: np.dtype[Any],
    project: Callable[[Array], Array] | None = None,
) -> Array:
    """Some rows of the pooled sides, in the order of `places`; with `project`, the projected rows."""
    starts = np.cumsum([0, *map(len, sides)])
    chosen, back = np.unique(places, return_inverse=True)
    tasks: list[tuple[Chunk, Indices]] = []
    targets: list[slice] = []
    low = 0
    for start, shards in zip(starts, sides, strict=False):
        for chunk in shards.chunks(chunk_rows(shards.width)):
            high = int(np.searchsorted(chosen, start + chunk.start + len(chunk)))
            if high > low:
                tasks.append((chunk, chosen[low:high] - (start + chunk.start)))
                targets.append(slice(low, high))
                low = high
    rows: Array | None = None
    for target, part in zip(targets, passes.engine.map(partial(_take_rows, project), tasks), strict=True):
        if rows is None:
            rows = np.empty((len(chosen), part.shape[1]), dtype)
        rows[target] = part
    if rows is None:
        return np.empty((0, sides[0].width), dtype)
    return rows if np.array_equal(chosen, places) else rows[back]


def _take_rows(project: Callable[[Array], Array] | None, task: tuple[Chunk, Indices]) -> Array:
    chunk, places = task
    return chunk.take(places) if project is None else project(chunk.read()[places])
