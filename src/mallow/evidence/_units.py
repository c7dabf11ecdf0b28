"""Units: which samples belong together. What is independent is a unit, not a sample.

Samples that share an id anywhere, in the reference or in any system, are one unit: the text of a person and the texts
of models for the same prompt, several generations for one prompt, duplicates. Learning never looks at a part of a
unit whose other part it is judged on, and the error of a mean is that of a mean over units.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.estimate import Features, row_keys
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


def find_units(reference: Samples, *systems: Samples) -> Units:
    """The units of the reference and of systems that have features.

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
    sets, names = _number_samples(every)
    sets, merged = _merge_copies(every, sets)
    count = max(int(own.max(initial=-1)) for own in sets) + 1
    keys, known = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
    named = np.array(list(names.values()), np.int64)
    named = named if merged is None else merged[named]  # a unit has several names where copies were paired with them
    hashes = [int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") for name in names]
    np.add.at(keys, named, np.array(hashes, np.uint64))
    known[named] = True
    for samples, units in zip(every, sets, strict=True):
        if not known[units].all():  # then all of them are new
            rows = samples.require_features()
            np.add.at(keys, units, row_keys(rows if rows.ndim == 2 else rows[:, None]))
            known[units] = True
    return Units(sets, keys)


def content_keys(sets: Sequence[Features]) -> list[Keys]:
    """A number for each row of features that depends on its values alone; a few columns usually tell all rows apart."""
    tables = [rows if rows.ndim == 2 else rows[:, None] for rows in sets]
    few = [row_keys(rows[:, :_FEW_COLUMNS]) for rows in tables]
    if len(np.unique(np.concatenate(few))) == sum(len(own) for own in few):
        return few
    return [row_keys(rows) for rows in tables]


def _number_samples(sets: tuple[Samples, ...]) -> tuple[tuple[Indices, ...], dict[str, int]]:
    """The unit of each sample, and the units that have names: ids or prompts."""
    number: dict[str, int] = {}
    by_size: dict[int, Indices] = {}  # the units of the first set of each size, those with names before the others
    units: list[Indices | None] = []
    for samples in sets:
        names = samples.unit_names
        if names is None:
            units.append(None)
            continue
        own = np.array([number.setdefault(name, len(number)) for name in names], np.int64)
        units.append(own)
        if len(set(names)) == len(names):
            by_size.setdefault(len(samples), own)
    count = len(number)
    numbered = []
    for samples, named in zip(sets, units, strict=True):
        if named is None and len(samples) not in by_size:
            by_size[len(samples)] = np.arange(count, count + len(samples))
            count += len(samples)
        numbered.append(by_size[len(samples)] if named is None else named)
    return tuple(numbered), number


def _merge_copies(sets: tuple[Samples, ...], units: tuple[Indices, ...]) -> tuple[tuple[Indices, ...], Indices | None]:
    """The units, with one for all copies of a sample in sets without names that were repeated as a whole.

    And the new number of each unit; None if none has changed.
    """
    links = []
    for samples, own in zip(sets, units, strict=True):
        if samples.unit_names or samples.features is None:
            continue
        keys = content_keys([samples.features])[0]
        _, first, group, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        # Samples of few kinds repeat by nature, but hardly all of them equally often.
        if len(times) >= _FEWEST_KINDS and times[0] > 1 and (times == times[0]).all():
            links.append((own, own[first[group]]))
    if not links:
        return units, None
    first, second = (np.concatenate(ends) for ends in zip(*links, strict=True))
    count = max(int(own.max()) for own in units) + 1
    graph = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(count, count))
    _, merged = sparse.csgraph.connected_components(graph, directed=False)
    return tuple(merged[own].astype(np.int64) for own in units), merged
