"""Units: which samples belong together. What is independent is a unit, not a sample.

Samples that share an id anywhere, in the reference or in any system, are one unit: the text of a person and the texts of
models for the same prompt, several generations for one prompt, duplicates. Learning never looks at a part of a unit whose
other part it is judged on, and the error of a mean is that of a mean over units.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import row_keys
from mallow.samples import Samples
from mallow.theory import Array

__all__ = ["Units", "find_units"]

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]

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
        values = np.asarray(values, dtype=np.float64)
        flat = values.reshape(len(values), -1)
        sums = np.stack([np.bincount(self.sets[place], column, self.count) for column in flat.T], axis=1)
        return sums.reshape(self.count, *values.shape[1:])

    def sizes(self, place: int) -> Indices:
        """How many samples of one set each unit has."""
        return np.bincount(self.sets[place], minlength=self.count)


def find_units(reference: Samples, *systems: Samples) -> Units:
    """The units of the reference and of systems that have features.

    Samples with the same id are one unit; without ids, those with the same prompt. A set that has neither is matched by
    row numbers with a set of the same size: row i of equally long arrays is one unit. Pairing rows that are in fact
    independent costs nothing. Where every sample of a set without ids occurs twice or more, equally often, its copies are
    one unit. All other samples are units of their own.

    Examples
    --------
    >>> human = Samples(features=np.zeros((3, 2)), ids=["a", "b", "c"])
    >>> model = Samples(features=np.ones((4, 2)), ids=["b", "b", "a", "z"])
    >>> units = find_units(human, model)
    >>> units.count, units.sets
    (4, (array([0, 1, 2]), array([1, 1, 0, 3])))
    """
    labels = _merge_copies((reference, *systems), _shared_labels((reference, *systems)))
    number: dict[object, int] = {}
    sets = tuple(np.array([number.setdefault(label, len(number)) for label in each], np.int64) for each in labels)
    keys = np.zeros(len(number), np.uint64)
    known = np.zeros(len(number), np.bool_)
    for label, place in number.items():
        if isinstance(label, str):
            keys[place] = int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "little")
            known[place] = True
    for samples, units in zip((reference, *systems), sets, strict=True):
        new = ~known[units]
        if new.any():
            rows = samples.require_features()[new]
            np.add.at(keys, units[new], row_keys(rows if rows.ndim == 2 else rows[:, None]))
            known[units] = True
    return Units(sets, keys)


def _shared_labels(sets: tuple[Samples, ...]) -> list[list[object]]:
    """A label for each sample of each set; samples with equal labels are one unit."""
    own = [samples.ids or samples.prompts for samples in sets]
    by_size: dict[int, list[object]] = {}  # the labels of the first set of each size, those with ids before the others
    for samples, names in zip(sets, own, strict=True):
        if names is not None and len(set(names)) == len(names):
            by_size.setdefault(len(samples), list(names))
    labels = []
    for place, (samples, names) in enumerate(zip(sets, own, strict=True)):
        rows: list[object] = [(place, row) for row in range(len(samples))] if names is None else list(names)
        labels.append(rows if names is not None else by_size.setdefault(len(samples), rows))
    return labels


def _merge_copies(sets: tuple[Samples, ...], labels: list[list[object]]) -> list[list[object]]:
    """The labels, with one label for all copies of a sample in sets that were repeated as a whole."""
    leader: dict[object, object] = {}

    def find(label: object) -> object:
        while label in leader:
            label = leader[label]
        return label

    for samples, own in zip(sets, labels, strict=True):
        if samples.ids or samples.prompts or samples.features is None:
            continue
        _, group, times = np.unique(row_keys(samples.features), return_inverse=True, return_counts=True)
        # Samples of few kinds repeat by nature, but hardly all of them equally often.
        if len(times) < _FEWEST_KINDS or times[0] == 1 or (times != times[0]).any():
            continue
        first: dict[int, object] = {}
        for label, kind in zip(own, group.tolist(), strict=True):
            one, other = find(first.setdefault(kind, label)), find(label)
            if one != other:
                leader[other] = one
    return [[find(label) for label in own] for own in labels] if leader else labels
