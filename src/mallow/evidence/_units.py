"""Units: which samples belong together. What is independent is a unit, not a sample.

Samples that share an id anywhere, in the reference or in any system, are one unit: the text of a person and the texts
of models for the same prompt, several generations for one prompt, duplicates. Learning never looks at a part of a
unit whose other part it is judged on, and the error of a mean is that of a mean over units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.estimate import Features, Survey, hash_names, row_keys
from mallow.samples import Samples
from mallow.theory import Array

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]

_FEW_COLUMNS = 16  # chosen: those that are looked at first
_FEWEST_KINDS = 20  # chosen: with fewer kinds of samples, equal frequencies may be chance


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of every sample.

    Attributes
    ----------
    sets : tuple of int64 arrays
        The number of the unit of each sample, from 0: of the reference first, then of each system.
    keys : uint64 array (count,)
        What identifies each unit, whatever the order of the samples: from its id or, without ids, from the features of
        its reference samples (of its own samples, if it has none of the reference). Runs against the same reference
        have the same keys.
    """

    sets: tuple[Indices, ...]
    keys: Keys

    @property
    def count(self) -> int:
        """The number of units."""
        return len(self.keys)

    def pair(self, system: int) -> Units:
        """The reference and one system (1 is the first) alone; the units keep their numbers."""
        return Units((self.sets[0], self.sets[system]), self.keys)

    def totals(self, place: int, values: Array) -> Array:
        """The sum of `values` (samples, ...) of one set over the samples of each unit, (count, ...)."""
        rows = len(self.sets[place])
        member = sparse.csr_array((np.ones(rows), (self.sets[place], np.arange(rows))), shape=(self.count, rows))
        sums: Array = member @ np.asarray(values, dtype=np.float64).reshape(rows, -1)
        return sums.reshape(self.count, *values.shape[1:])

    def sizes(self, place: int) -> Indices:
        """How many samples of one set each unit has."""
        counts: Indices = np.bincount(self.sets[place], minlength=self.count)
        return counts


def find_units(reference: Samples, *systems: Samples, keys: Sequence[Keys] = ()) -> Units:
    """The units of the reference and of systems that have features; `keys` are the `row_keys` of each, where known.

    Samples with the same id are one unit; without ids, those with the same prompt, unless all samples of the set have
    it (`Samples.unit_names`). A set that has neither is matched by row numbers with a set of the same size: row i of
    equally long arrays is one unit. Pairing rows that are in fact independent costs nothing. Where every sample of a
    set without ids occurs twice or more, equally often, its copies are one unit. All other samples are units of their
    own.

    Examples
    --------
    >>> human = Samples(features=np.zeros((3, 2)), ids=["a", "b", "c"])
    >>> model = Samples(features=np.ones((4, 2)), ids=["b", "b", "a", "z"])
    >>> units = find_units(human, model)
    >>> units.count, units.sets
    (4, (array([0, 1, 2]), array([1, 1, 0, 3])))
    """
    every = reference, *systems
    names = [None if (given := own.unit_names) is None else hash_names(given) for own in every]

    def contents(place: int) -> Keys | None:
        if keys:
            return keys[place]
        features = every[place].features
        return None if features is None else content_keys([features])[0]

    def identify(place: int) -> Keys:
        if keys:
            return keys[place]
        rows = every[place].require_features()
        return row_keys(rows if rows.ndim == 2 else rows[:, None])

    return _unite([len(own) for own in every], names, contents, identify)


def units_of_surveys(surveys: Sequence[Survey]) -> Units:
    """The units of sets in shards, from one pass over them: the same as `find_units` finds for arrays."""
    rows = [survey.keys["float64"] for survey in surveys]
    return _unite([len(own) for own in rows], [survey.ids for survey in surveys], rows.__getitem__, rows.__getitem__)


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


def content_keys(sets: Sequence[Features]) -> list[Keys]:
    """A number for each row of features that depends on its values alone; a few columns usually tell all rows apart."""
    tables = [rows if rows.ndim == 2 else rows[:, None] for rows in sets]
    few = [row_keys(rows[:, :_FEW_COLUMNS]) for rows in tables]
    if len(np.unique(np.concatenate(few))) == sum(len(own) for own in few):
        return few
    return [row_keys(rows) for rows in tables]


def _unite(
    sizes: Sequence[int],
    names: Sequence[Keys | None],
    contents: Callable[[int], Keys | None],
    keys: Callable[[int], Keys],
) -> Units:
    """The units of sets of these sizes, from a number for the name of each row, for sets that have names.

    Of a set, `contents` tells its rows apart (None: it cannot), and `keys` identifies its rows in any run.
    """
    sets, hashes = _number_rows(sizes, names)
    sets, merged = _merge_copies(names, contents, sets)
    count = max(int(units.max(initial=-1)) for units in sets) + 1
    total, known = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
    named = np.arange(len(hashes))
    named = named if merged is None else merged[named]  # a unit has several names where copies were paired with them
    np.add.at(total, named, hashes)
    known[named] = True
    for place, units in enumerate(sets):
        new = ~known[units]
        if new.any():
            np.add.at(total, units[new], keys(place)[new])
            known[units] = True
    return Units(tuple(sets), total)


def _number_rows(sizes: Sequence[int], names: Sequence[Keys | None]) -> tuple[list[Indices], Keys]:
    """The unit of each row, and the names of the units that have one, in the order in which they occur."""
    with_names = [own for own in names if own is not None]
    every = np.concatenate([np.empty(0, np.uint64), *with_names])
    _, first, group = np.unique(every, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))
    parts = iter(np.split(number[group], np.cumsum([len(own) for own in with_names])))
    numbered = [None if own is None else next(parts) for own in names]
    by_size: dict[int, Indices] = {}  # the units of the first set of each size, those with names before the others
    for size, units in zip(sizes, numbered, strict=True):
        if units is not None and len(np.unique(units)) == size:
            by_size.setdefault(size, units)
    count, sets = len(first), []
    for size, units in zip(sizes, numbered, strict=True):
        if units is None and size not in by_size:
            by_size[size] = np.arange(count, count + size)
            count += size
        sets.append(by_size[size] if units is None else units)
    return sets, every[np.sort(first)]


def _merge_copies(
    names: Sequence[Keys | None], contents: Callable[[int], Keys | None], sets: list[Indices]
) -> tuple[list[Indices], Indices | None]:
    """The units, with one for all copies of a row in sets without names that were repeated as a whole.

    And the new number of each unit; None if none has changed.
    """
    links = []
    for place, units in enumerate(sets):
        keys = contents(place) if names[place] is None else None
        if keys is None:
            continue
        _, first, group, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        # Rows of few kinds repeat by nature, but hardly all of them equally often.
        if len(times) >= _FEWEST_KINDS and 1 < times.min() == times.max():
            links.append((units, units[first[group]]))
    if not links:
        return sets, None
    first, second = (np.concatenate(ends) for ends in zip(*links, strict=True))
    count = max(int(units.max()) for units in sets) + 1
    graph = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(count, count))
    _, merged = sparse.csgraph.connected_components(graph, directed=False)
    return [merged[units].astype(np.int64) for units in sets], merged
