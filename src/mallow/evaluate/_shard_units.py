"""Units of rows in shards, from what one pass over them tells: the same as `find_units` finds for arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.estimate import Survey
from mallow.evidence import Units

Indices = NDArray[np.int64]
Keys = NDArray[np.uint64]

_FEWEST_KINDS = 20  # as in `find_units`: with fewer kinds of rows, equal frequencies may be chance


def units_of_surveys(surveys: Sequence[Survey]) -> Units:
    """The units of several sets: rows with the same id; without ids, row i of equally long sets; otherwise rows."""
    sets, names = _number_rows(surveys)
    sets, merged = _merge_copies(surveys, sets)
    count = max(int(own.max(initial=-1)) for own in sets) + 1
    keys, known = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
    named = np.arange(len(names)) if merged is None else merged[: len(names)]  # as find_units: names may share a unit
    np.add.at(keys, named, names)
    known[named] = True
    for survey, units in zip(surveys, sets, strict=True):
        new = ~known[units]
        np.add.at(keys, units[new], survey.keys["float64"][new])
        known[units] = True
    return Units(tuple(sets), keys)


def _number_rows(surveys: Sequence[Survey]) -> tuple[list[Indices], Keys]:
    """The unit of each row, and the keys of the units that have ids."""
    with_ids = [survey.ids for survey in surveys if survey.ids is not None]
    names = np.unique(np.concatenate(with_ids)) if with_ids else np.empty(0, np.uint64)
    by_size: dict[int, Indices] = {}
    named: list[Indices | None] = []
    for survey in surveys:
        own = None if survey.ids is None else np.searchsorted(names, survey.ids)
        named.append(own)
        if own is not None and len(np.unique(own)) == len(own):
            by_size.setdefault(len(own), own)
    count = len(names)
    sets = []
    for survey, numbered in zip(surveys, named, strict=True):
        size = len(survey.keys["float64"])
        if numbered is None and size not in by_size:
            by_size[size] = np.arange(count, count + size)
            count += size
        sets.append(by_size[size] if numbered is None else numbered)
    return sets, names


def _merge_copies(surveys: Sequence[Survey], sets: list[Indices]) -> tuple[list[Indices], Indices | None]:
    """The units, with one for all copies of a row in sets without ids that were repeated as a whole; and the new number of each."""
    links = []
    for survey, own in zip(surveys, sets, strict=True):
        if survey.ids is not None:
            continue
        _, first, group, times = np.unique(
            survey.keys["float64"], return_index=True, return_inverse=True, return_counts=True
        )
        if len(times) >= _FEWEST_KINDS and 1 < times.min() == times.max():
            links.append((own, own[first[group]]))
    if not links:
        return sets, None
    first, second = (np.concatenate(ends) for ends in zip(*links, strict=True))
    count = max(int(own.max()) for own in sets) + 1
    graph = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(count, count))
    _, merged = sparse.csgraph.connected_components(graph, directed=False)
    return [merged[own].astype(np.int64) for own in sets], merged


def choose_units(units: Units, most: int) -> NDArray[np.bool_]:
    """Some whole units with at most `most` rows in all sets together, chosen by their keys: (count,)."""
    rows = np.zeros(units.count, np.int64)
    for place in range(len(units.sets)):
        rows += units.sizes(place)
    mixed = units.keys * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    order = np.argsort(mixed, kind="stable")
    chosen = np.zeros(units.count, np.bool_)
    chosen[order[np.cumsum(rows[order]) <= most]] = True
    return chosen
