"""Units: which samples belong together, and their assignment to cells and folds.

Units are independent, samples need not be.

Samples that share an id anywhere, in the reference or in any system, are one unit: the text of a person and the texts
of models for the same prompt, several generations for one prompt, duplicates. Samples without ids and prompts are
independent, in any order. Rules are never learned from one part of a unit and judged on its other part, and the error
of a mean is the error of a mean over units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mallow.estimate import Features, Survey, hash_names, mix_keys, row_keys, unit_keys
from mallow.samples import Samples
from mallow.theory import Array

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]
Numbers = NDArray[np.integer[Any]]

_CELLS = 100  # chosen: more hardly improve the rules
_FEW_SAMPLES = 0.01  # chosen: a share of the samples that proves nothing worth mentioning, even if all are told apart
_FEW_COLUMNS = 16  # chosen: columns that are compared first
_FEWEST_KINDS = 20  # chosen: with fewer kinds of samples, equal frequencies may be chance
_NOT_BY_CHANCE = 4.0  # chosen: ratio of copies across sides to the number that copies within sides explain
_PLACES = np.uint64(1 << 32)  # smaller numbers are places of rows (`hash_names`)
_NOUNS = {"text": "texts", "image": "images", "audio": "recordings", "features": "samples"}


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of every sample.

    Attributes
    ----------
    sets : tuple of int64 arrays
        The number of the unit of each sample, from 0, for the reference and then for each system.
    keys : uint64 array (count,)
        A key of each unit that does not depend on the order of the samples. It comes from the id of the unit or,
        without ids, from the features of its reference samples (or of all its samples, if it has none of the
        reference). Runs against the same reference have the same keys.
    """

    sets: tuple[Indices, ...]
    keys: Keys

    @property
    def count(self) -> int:
        """The number of units."""
        return len(self.keys)

    def pair(self, system: int) -> Units:
        """Only the reference and one system (1 is the first). The units keep their numbers."""
        return Units((self.sets[0], self.sets[system]), self.keys)

    def totals(self, number: int, values: Array) -> Array:
        """The sum of `values` (samples, ...) of one set over the samples of each unit, (count, ...)."""
        rows = len(self.sets[number])
        member = sparse.csr_array((np.ones(rows), (self.sets[number], np.arange(rows))), shape=(self.count, rows))
        sums: Array = member @ np.asarray(values, dtype=np.float64).reshape(rows, -1)
        return sums.reshape(self.count, *values.shape[1:])

    def sizes(self, number: int) -> Indices:
        """The number of samples of one set in each unit."""
        counts: Indices = np.bincount(self.sets[number], minlength=self.count)
        return counts


def find_units(reference: Samples, *systems: Samples, keys: Sequence[Keys] = (), copies: bool = True) -> Units:
    """The units of the reference and of systems that have features; `keys` are the `row_keys` of each, if known.

    Samples with the same id are one unit. Without ids, samples with the same prompt are one unit, unless all samples of
    the set have it (`Samples.unit_names`). Samples of a set with neither are independent, except for copies: if a
    system was copied from the reference, a sample and its copy are one unit. If every sample of a set occurs equally
    often, twice or more, its copies are also one unit. If there are few kinds of samples, equal samples are normal and
    remain separate units. Without `copies`, samples are not linked with the reference by their content.

    Examples
    --------
    >>> human = Samples(features=np.zeros((3, 2)), ids=["a", "b", "c"])
    >>> model = Samples(features=np.ones((4, 2)), ids=["b", "b", "a", "z"])
    >>> units = find_units(human, model)
    >>> units.count, units.sets
    (4, (array([0, 1, 2]), array([1, 1, 0, 3])))
    """
    every = reference, *systems
    names = [None if (given := samples.unit_names) is None else hash_names(given) for samples in every]

    def contents() -> Sequence[Keys]:
        return keys or content_keys([samples.require_features() for samples in every])

    def identify(number: int) -> Keys:
        rows = every[number].require_features()
        return unit_keys(rows if rows.ndim == 2 else rows[:, None])

    return _unite([len(samples) for samples in every], names, contents, identify, copies=copies)


def are_uneven(units: Units) -> bool:
    """Whether samples of the sets differ in how many others belong to their unit, or may differ in how alike these are.

    They do not if (nearly) every unit has one sample in all, or one of each set. A unit with several samples of a set
    may have copies, and prompts that only some sets answer make larger units for these.
    """
    sizes = [units.sizes(number) for number in range(len(units.sets))]
    totals = np.sum(sizes, axis=0)
    common = np.bincount(np.concatenate([totals[numbers] for numbers in units.sets])).argmax()
    uneven = ((of_set > 1) | (totals != common) for of_set in sizes)
    return any(
        np.count_nonzero(odd[numbers]) > _FEW_SAMPLES * len(numbers)
        for odd, numbers in zip(uneven, units.sets, strict=True)
    )


def are_copies(sets: Sequence[Features], units: Units) -> bool:
    """Whether every sample occurs equally often, and its copies are its unit: the same as without the copies."""
    sizes = [units.sizes(number) for number in range(len(sets))]
    times = np.unique(np.concatenate([counts[counts > 0] for counts in sizes]))
    if len(times) > 1 or times[0] == 1:
        return False
    kinds = (
        np.unique(np.stack([numbers.astype(np.uint64), keys]), axis=1).shape[1]
        for numbers, keys in zip(units.sets, content_keys(sets), strict=True)
    )
    return all(kind == np.count_nonzero(counts) for kind, counts in zip(kinds, sizes, strict=True))


def units_of_surveys(surveys: Sequence[Survey]) -> Units:
    """The units of sets in shards, from one pass over them, the same as from `find_units` for arrays."""
    rows, keys = [survey.keys["float64"] for survey in surveys], [survey.unit_keys for survey in surveys]
    return _unite(
        [len(keys_of_set) for keys_of_set in rows], [survey.ids for survey in surveys], lambda: rows, keys.__getitem__
    )


def describe_units(units: Units, reference: Samples, model: Samples) -> str:
    """A short description of the units of a reference and a model.

    Examples
    --------
    >>> human = Samples(texts=["One.", "Two."], prompts=["a", "b"])
    >>> model = Samples(texts=["Three.", "Four."], prompts=["b", "a"])
    >>> describe_units(Units((np.array([0, 1]), np.array([1, 0])), np.zeros(2, np.uint64)), human, model)
    '2 pairs by prompt'
    >>> describe_units(Units((np.array([0, 1]), np.array([2, 3])), np.zeros(4, np.uint64)), human, model)
    '4 independent texts'
    """
    n, m = map(len, units.sets)
    of_n, of_m = units.sizes(0), units.sizes(1)
    count, shared = int(np.count_nonzero(of_n + of_m)), int(np.count_nonzero(of_n * of_m))
    noun, kinds = _NOUNS[reference.kind], {reference.unit_kind, model.unit_kind}
    some = "all" if shared == count else str(shared) if shared else "none"
    both = f", {some} of them on both sides"
    if count == n + m or kinds == {None}:
        return f"{count} independent {noun}{both if shared else ''}"
    by = kinds.pop() if len(kinds) == 1 else "unit"
    if count == shared == n == m:
        return f"{count} pairs by {by}"
    sizes = f"{n} {noun} each side" if n == m else f"{n} and {m} {noun}"
    return f"{count} {by}s{'' if shared == count else f'{both},'} with {sizes}"


def choose_units(units: Units, most: int) -> NDArray[np.bool_]:
    """Some whole units with at most `most` rows in all sets together, chosen by their keys: (count,)."""
    rows = np.zeros(units.count, np.int64)
    for number in range(len(units.sets)):
        rows += units.sizes(number)
    mixed = units.keys * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    order = np.argsort(mixed, kind="stable")
    chosen = np.zeros(units.count, np.bool_)
    chosen[order[np.cumsum(rows[order]) <= most]] = True
    return chosen


def content_keys(sets: Sequence[Features]) -> list[Keys]:
    """A number for each row of features that depends only on its values. A few columns usually distinguish all rows."""
    tables = [rows if rows.ndim == 2 else rows[:, None] for rows in sets]
    few = [row_keys(rows[:, :_FEW_COLUMNS]) for rows in tables]
    if len(np.unique(np.concatenate(few))) == sum(len(values) for values in few):
        return few
    return [row_keys(rows) for rows in tables]


def _unite(
    sizes: Sequence[int],
    names: Sequence[Keys | None],
    contents: Callable[[], Sequence[Keys]],
    keys: Callable[[int], Keys],
    *,
    copies: bool = True,
) -> Units:
    """The units of sets of these sizes, from a number for the name of each row, for sets that have names.

    The reference is the first set. `contents` distinguishes the rows of all sets, and `keys` identifies the rows of a
    set in any run.
    """
    sets, hashes = _number_rows(sizes, names)
    sets, merged = _merge_copies(names, contents, sets, copies=copies)
    count = max(int(units.max(initial=-1)) for units in sets) + 1
    total, reached = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
    named = np.arange(len(hashes))
    named = named if merged is None else merged[named]
    told = hashes >= _PLACES  # the place of a row is not a name, so its unit has the key of its reference sample
    np.add.at(total, named[told], hashes[told])
    reached[named[told]] = True
    for number, units in enumerate(sets):
        new = ~reached[units]
        if new.any():
            np.add.at(total, units[new], keys(number)[new])
            reached[units] = True
    return Units(tuple(sets), total)


def _number_rows(sizes: Sequence[int], names: Sequence[Keys | None]) -> tuple[list[Indices], Keys]:
    """The unit of each row, and the names of named units, in the order in which they occur."""
    with_names = [hashes for hashes in names if hashes is not None]
    every = np.concatenate([np.empty(0, np.uint64), *with_names])
    _, first, group = np.unique(every, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))
    parts = iter(np.split(number[group], np.cumsum([len(hashes) for hashes in with_names])))
    count, sets = len(first), []
    for size, hashes in zip(sizes, names, strict=True):
        sets.append(np.arange(count, count + size) if hashes is None else next(parts))
        count += size if hashes is None else 0
    return sets, every[np.sort(first)]


def _merge_copies(
    names: Sequence[Keys | None], contents: Callable[[], Sequence[Keys]], sets: list[Indices], *, copies: bool
) -> tuple[list[Indices], Indices | None]:
    """The units, with one for all copies of a row in sets without names, and the new number of each unit.

    Copies count in sets that were repeated as a whole, and between the reference and systems that were copied from it.
    The numbers are None if none has changed. Systems are not linked with each other, so the units of one do not depend
    on the others.
    """
    if all(hashes is not None for hashes in names):
        return sets, None
    keys, places, links = contents(), [], []
    for keys_of_set, units, named in zip(keys, sets, names, strict=True):
        _, first, group, times = np.unique(keys_of_set, return_index=True, return_inverse=True, return_counts=True)
        # Rows of few kinds naturally repeat, but hardly all of them equally often.
        repeated = named is None and len(times) >= _FEWEST_KINDS and 1 < times.min() == times.max()
        places.append(first if repeated else np.arange(len(keys_of_set)))
        if repeated:
            links.append((units, units[first[group]]))
    for number, units in enumerate(sets[1:], start=1):
        if copies and names[number] is None:
            both = np.concatenate([sets[0][places[0]], units[places[number]]])
            rows, first = _find_copies(keys[0][places[0]], keys[number][places[number]])
            links.append((both[rows], both[first]))
    first, second = np.concatenate([np.empty((2, 0), np.int64), *map(np.array, links)], axis=1)
    if not len(first):
        return sets, None
    count = max(int(units.max()) for units in sets) + 1
    graph = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(count, count))
    _, merged = sparse.csgraph.connected_components(graph, directed=False)
    return [merged[units].astype(np.int64) for units in sets], merged


def _find_copies(reference: Keys, model: Keys) -> tuple[Indices, Indices]:
    """The rows that either side has once, the reference before the model, and where each comes first.

    None of them count if equal rows are normal, such as answers of one word. Such rows are about as often equal within
    a side: of kinds with two rows in all, the share with one row on each side is 2f(1 − f), where f is the share of the
    reference. Rows that are equal by chance must not form a unit, since the remaining rows would not be exchangeable.
    """
    _, first, group = np.unique(np.concatenate([reference, model]), return_index=True, return_inverse=True)
    of_reference, of_model = (
        np.bincount(numbers, minlength=len(first)) for numbers in (group[: len(reference)], group[len(reference) :])
    )
    share = len(reference) / len(group)
    across = 2.0 * share * (1.0 - share)
    by_chance = np.count_nonzero(np.maximum(of_reference, of_model) > 1) * across / (1.0 - across)
    shared = (of_reference == 1) & (of_model == 1)
    if np.count_nonzero(shared) <= _NOT_BY_CHANCE * by_chance:
        shared[:] = False
    rows = np.flatnonzero(shared[group])
    return rows, first[group[rows]]


@dataclass(frozen=True, eq=False)
class Cells:
    """The assignment of the units of some sets to cells.

    Attributes
    ----------
    of_set : sequence of int arrays
        The cell of each row of each set.
    units : array (cells, sets)
        The number of units of each set in each cell.
    """

    of_set: Sequence[Numbers]
    units: Array

    def __len__(self) -> int:
        return len(self.units)


def deal_cells(units: Units, folds: int) -> Cells | None:
    """Units assigned to cells by their keys; None if a set has fewer units than there are folds."""
    first_rows = [np.unique(numbers, return_index=True)[1] for numbers in units.sets]
    least = min(map(len, first_rows))
    if least < folds:
        return None
    cells = folds * min(max(_CELLS // folds, 1), least // folds)
    unit = np.concatenate(units.sets)
    is_reference = np.arange(len(unit)) < len(units.sets[0])
    dealt = deal_folds(unit, units.keys, is_reference, folds=cells).astype(np.min_scalar_type(cells))
    of_set = np.split(dealt, np.cumsum([len(numbers) for numbers in units.sets])[:-1])
    counts = [np.bincount(cell[first], minlength=cells) for cell, first in zip(of_set, first_rows, strict=True)]
    return Cells(of_set, np.stack(counts, axis=1).astype(np.float64))


def group_cells(cells: int, folds: int, count: int) -> list[Indices]:
    """The fold of each cell, in several groupings of cells into folds. The same groupings for all samples."""
    if cells == folds:
        return [np.arange(cells)]
    dealt = np.repeat(np.arange(folds), cells // folds)
    return [np.random.default_rng([0, 4, number]).permutation(dealt) for number in range(count)]


@dataclass(frozen=True, eq=False)
class Folds:
    """A number of folds, and their pairs."""

    count: int

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of folds. Rules are learned without both folds of a pair."""
        return list(combinations(range(self.count), 2))

    @cached_property
    def kept(self) -> Array:
        """The folds from which the rules of each pair are learned, (pairs, folds): 1 or 0."""
        return np.array([[float(fold not in pair) for fold in range(self.count)] for pair in self.pairs])

    @cached_property
    def pair_without(self) -> Indices:
        """The number of the pair of two folds, (folds, folds); −1 for a fold with itself."""
        table = np.full((self.count, self.count), -1)
        for number, (first, second) in enumerate(self.pairs):
            table[first, second] = table[second, first] = number
        return table


def deal_folds(unit: Indices, keys: Keys, is_reference: NDArray[np.bool_], *, folds: int) -> Indices:
    """The fold of each row: units, in an order that depends only on their keys, are dealt out in turn.

    The numbers of units of a side in two folds differ by at most one.

    Parameters
    ----------
    unit : int64 array (rows,)
    keys : uint64 array (units,)
        The keys of all units.
    is_reference : bool array (rows,)
        The side of each row.
    """
    of_p, of_q = (np.bincount(unit[side], minlength=len(keys)) > 0 for side in (is_reference, ~is_reference))
    kinds = [np.flatnonzero(kind) for kind in (of_p & ~of_q, of_p & of_q, of_q & ~of_p)]
    # Units with both sides lie between the others, so that the units of each side are dealt one after the other. Which
    # side comes first does not depend on which one is called the reference.
    if (len(kinds[0]), *np.sort(keys[kinds[0]])[:1]) > (len(kinds[2]), *np.sort(keys[kinds[2]])[:1]):
        kinds.reverse()
    shuffled = scatter(keys, 0)
    order = np.concatenate([kind[np.argsort(shuffled[kind], kind="stable")] for kind in kinds])
    fold = np.zeros(len(keys), np.int64)
    fold[order] = np.arange(len(order)) % folds
    return fold[unit]


def scatter(keys: Keys, step: int) -> Keys:
    """Keys in a random order that differs from step to step."""
    return mix_keys(keys + np.uint64((step + 1) * 0x9E3779B97F4A7C15 % 2**64))
