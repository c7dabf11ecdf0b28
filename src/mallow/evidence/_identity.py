"""A test of identity (is there any gap?) by permutations of units, with several statistics at once.

All statistics are quadratic in Δ, the difference of the means (reference minus model) of some features of the samples,
so permutations only need a table of products of atoms (`_exchange.py`, `_atoms.py`). Each statistic is standardised by
its own permutations. A soft maximum is taken in each family (moments, bins, kernels), and then over all families. Its
p-value comes from the same permutations. This is exact for any data if units are exchangeable. If they are not, because
their sizes differ, larger units are cut at random to a common size, several times. The p-value is twice the median of
the p-values of the cuts, which is valid whatever they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpstrf

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.evidence._atoms import atom_products, merge_atoms
from mallow.evidence._blocks import Values, at_once
from mallow.evidence._exchange import Exchange, Flags, common_size, exchangeable_rows, find_exchange, generator_of_sides
from mallow.evidence._space import Space, find_spaces
from mallow.evidence._units import Indices, Units
from mallow.theory import Array

_FAMILIES = ("varianc", "means"), ("bins",), ("kernel",)  # words in the names of statistics
_WEIGHTS = np.array([0.7, 1.0, 1.0])  # chosen: of families; local differences show in bins and kernels alike
_SHARPNESS = 2.0  # chosen: of soft maxima of standardised statistics
_TIE = 1e-9  # chosen: rounding must not make a permutation equal to the observed one smaller
_NOTHING = 1e-20  # chosen: share of the largest possible value of a statistic; less is rounding
_FEW_ATOMS = 48  # chosen: atoms that are exchanged if the p-value is small and many permutations are needed
_ENOUGH = 10  # more are drawn if fewer permutations, with the observed one, are as large as the observed one
_EFFORT = 1 << 33  # chosen: multiplications that these may take, a fraction of a second
_SIGNS = 1 << 17  # signs drawn at once. The random numbers depend on it
_RANK = 1e-10  # chosen: remainders up to this share of the largest product of an atom with itself count as none
_ENTRIES = 1 << 22  # chosen: signs that are drawn at once
_DRAWS = 9  # chosen: number of random cuts of units to a common size
_FEWEST = 5  # units of a side that are cut; with fewer there is no answer


@dataclass(frozen=True)
class IdentityTest:
    """The result of the test whether model and reference have one distribution.

    Attributes
    ----------
    p_value : float
        The p-value of all statistics together.
    permutations : int
        The number of permutations. 0: there is no answer, and the p-value is 1, since units of different sizes must be
        cut to a common size and a side has fewer than five units.
    exact : bool
        Whether all units could be exchanged without a cut.
    tail : bool
        Whether no permutation reached the observed value, so that the p-value is an upper bound.
    statistics : dict
        The p-value of each statistic by itself, without correction, to find out which statistic shows the gap.
    within : float or None
        The p-value of the second test, which exchanges samples within units; `p_value` is then twice the smaller of the
        two. None without a second test.
    """

    p_value: float
    permutations: int
    exact: bool
    tail: bool
    statistics: dict[str, float]
    within: float | None = None


@dataclass(frozen=True)
class Draws:
    """The permutations of a test, the numbers that are drawn if few of them reach the observed values, and a seed."""

    permutations: int
    seed: int = 0
    more: tuple[int, ...] = (4_999, 99_999)

    def generator(self, *purpose: int) -> np.random.Generator:
        """Random numbers for one purpose."""
        return np.random.default_rng([self.seed, *purpose])


def run_identity_test(spaces: Mapping[str, Space], units: Units, system: int, draws: Draws) -> IdentityTest:
    """The test for the reference and one system, from the spaces of their rows, by name, and the units of the two.

    Each family of statistics of each space has the same weight.
    """
    first = next(iter(spaces.values()))
    rows, unit, is_reference = rows_of_pair(first, units, system)

    def test(kept: Flags, cut: bool) -> IdentityTest:
        sides = number_units(unit[kept]), is_reference[kept]
        if cut:  # axes and bins do not depend on rows that take no part
            values = {name: space.columns[rows[kept]] for name, space in spaces.items()}
            return judge_rows(values, *sides, draws)
        return _judge_spaces(spaces, rows[kept], *sides, draws)

    return judge_draws(unit, is_reference, test)


def judge_rows(columns: Mapping[str, Values], unit: Indices, is_reference: Flags, draws: Draws) -> IdentityTest:
    """The test of some rows, with columns for each space, on separate axes and bins; it is one of several."""
    sides = is_reference, ~is_reference
    units = Units((unit[sides[0]], unit[sides[1]]), np.arange(int(unit.max()) + 1, dtype=np.uint64))
    values = np.concatenate(list(columns.values()), axis=1)
    widths = {name: part.shape[1] for name, part in columns.items()}
    spaces = find_spaces([values[side] for side in sides], units, widths)
    rows = rows_of_pair(next(iter(spaces.values())), units, 1)
    return _judge_spaces(spaces, *rows, replace(draws, more=draws.more[:1]))


def _judge_spaces(
    spaces: Mapping[str, Space], rows: Indices, unit: Indices, is_reference: Flags, draws: Draws
) -> IdentityTest:
    exchange = find_exchange(unit, is_reference)
    with single_threaded_blas():
        merged, join = merge_atoms(exchange)
        products = {
            f"{name}: {statistic}" if name else statistic: table
            for name, space in spaces.items()
            for statistic, table in atom_products(space, rows, exchange, merged, join).items()
        }
        return judge_statistics(products, merged, draws)


def judge_draws(unit: Indices, is_reference: Flags, test: Callable[[Flags, bool], IdentityTest]) -> IdentityTest:
    """The test of exchangeable rows, or of several draws of them; ``test(kept, cut)`` runs one."""
    draws, cut = draw_rows(unit, is_reference)
    if not draws:
        return IdentityTest(1.0, 0, False, False, {})
    tests = [test(kept, cut) for kept in draws]
    if not cut:
        return tests[0]
    p_values = [drawn.p_value for drawn in tests]
    middle = tests[int(np.argsort(p_values, kind="stable")[len(tests) // 2])]
    alone = {name: float(np.median([drawn.statistics.get(name, 1.0) for drawn in tests])) for name in middle.statistics}
    return IdentityTest(combine_draws(p_values), middle.permutations, False, middle.tail, alone)


def draw_rows(unit: Indices, is_reference: Flags) -> tuple[list[Flags], bool]:
    """Which rows take part, and whether units were cut: then several draws, or none if there are too few units."""
    most, rng = common_size(unit, is_reference), generator_of_sides(is_reference, 1)
    if most is None:
        return [exchangeable_rows(unit, is_reference, None, rng)], False
    if min(len(np.unique(unit[side])) for side in (is_reference, ~is_reference)) < _FEWEST:
        return [], True
    return [exchangeable_rows(unit, is_reference, most, rng) for _ in range(_DRAWS)], True


def combine_draws(p_values: Sequence[float]) -> float:
    """Twice the median of p-values, which is valid whatever they share."""
    return min(1.0, 2.0 * float(np.median(p_values))) if len(p_values) > 1 else p_values[0]


def rows_of_pair(space: Space, units: Units, system: int) -> tuple[Indices, Indices, Flags]:
    """The rows of the space that take part, their units from 0, and whether they belong to the reference."""
    sides = space.places[0], space.places[system]
    rows = np.concatenate(sides)
    order = np.argsort(rows)
    return rows[order], number_units(np.concatenate(units.sets)[order]), order < len(sides[0])


def number_units(unit: Indices) -> Indices:
    """Units numbered from 0 in the order in which they appear; rows of one unit are neighbours."""
    return np.cumsum(np.diff(unit, prepend=-1) != 0) - 1


def compare_means(
    first: Array, second: Array, units: Units, *, permutations: int, rng: np.random.Generator
) -> tuple[float, bool]:
    """The p-value of "the means of the first side are not larger", and whether it is exact.

    Each column of `first` (n, statistics) and `second` (m, statistics) is one statistic, the difference of the means.
    It is standardised by its own permutations, and the largest is taken, so the p-value needs no further correction. It
    is exact if units of the two sides can be exchanged without a cut; see `IdentityTest` for others.
    """
    values = np.concatenate([first, second])
    rank = np.empty(units.count, np.int64)
    rank[np.argsort(units.keys, kind="stable")] = np.arange(units.count)  # whatever the order of the samples
    unit = rank[np.concatenate(units.sets)]
    order = np.argsort(unit, kind="stable")
    unit, is_first, values = number_units(unit[order]), order < len(first), values[order] - values.mean(axis=0)
    draws, cut = draw_rows(unit, is_first)
    if not draws:
        return 1.0, False
    p_values = []
    for kept in draws:
        exchange = find_exchange(number_units(unit[kept]), is_first[kept])
        of_atoms = exchange.atoms @ values[kept]
        step = at_once(_ENTRIES, len(of_atoms))
        parts = [exchange.draw(min(step, permutations - low), rng) @ of_atoms for low in range(0, permutations, step)]
        p_values.append(share_as_large(np.concatenate([exchange.as_observed() @ of_atoms, *parts])))
    return combine_draws(p_values), not cut


# The p-value of several statistics


def judge_statistics(products: Mapping[str, Array], exchange: Exchange, draws: Draws) -> IdentityTest:
    """The test by several statistics, each a table of products of atoms (atoms + 1, atoms + 1)."""
    values = _statistics(products, exchange, draws.permutations, draws.generator(2))
    alone = p_value_of_each(products, values)
    few, join = exchange.merge(_FEW_ATOMS, exchange.generator(3), least=_FEW_ATOMS // 3)

    def draw(count: int) -> Array:
        rng = draws.generator(2, count)
        if len(few.observed) == len(exchange.observed):
            return _statistics(products, exchange, count, rng)
        return _statistics({name: join @ (join @ table).T for name, table in products.items()}, few, count, rng)

    p_value, permutations = draw_until_clear(list(products), values, draw, draws.more)
    return IdentityTest(p_value, permutations, True, p_value * (permutations + 1) < 1.5, alone)


def p_value_of_each(names: Iterable[str], values: Array) -> dict[str, float]:
    """The p-value of each statistic by itself, from (1 + permutations, statistics)."""
    return dict(zip(names, np.mean(values >= values[0] * (1.0 - _TIE), axis=0).tolist(), strict=True))


def _statistics(products: Mapping[str, Array], exchange: Exchange, most: int, rng: np.random.Generator) -> Array:
    """The observed and permuted statistics, (1 + permutations, statistics), with at most this many permutations."""
    roots = [_root(table) for table in products.values()]
    factor = np.concatenate(roots, axis=1)
    ends = np.cumsum([root.shape[1] for root in roots])
    # Rounding that remains if nothing differs, because all samples are equal or in one bin.
    rounding = _NOTHING * np.array([np.linalg.norm(root, axis=1).sum() ** 2 for root in roots])
    count = min(most, 2 ** int(np.log2(at_once(_EFFORT, factor.size))))  # a rank changed by rounding does not matter
    step = at_once(_SIGNS, len(factor))
    parts = [min(step, count - low) for low in range(0, count, step)]

    def evaluate(signs: Array) -> Array:
        sums = np.split(signs @ factor, ends[:-1], axis=1)
        forms: Array = np.stack([np.einsum("ij,ij->i", part, part) for part in sums], axis=1)
        return np.where(forms > rounding, forms, 0.0)

    def task(part: tuple[int, np.random.Generator]) -> Array:
        return evaluate(exchange.draw(*part))

    drawn = ordered_map(task, zip(parts, rng.spawn(len(parts)), strict=True), cores())
    return np.concatenate([evaluate(exchange.as_observed()), *drawn])


def _root(products: Array) -> Array:
    """A table (atoms, rank) whose rows have these products."""
    largest = float(products.diagonal().max())
    if not largest > 0.0:
        return np.zeros((len(products), 1))
    lower, pivot, rank, _ = dpstrf(products / largest, tol=_RANK, lower=1)
    root = np.empty((len(products), max(int(rank), 1)))
    root[pivot - 1] = np.sqrt(largest) * np.tril(lower)[:, : root.shape[1]]
    return root


def fuse(names: Sequence[str], values: Array) -> Array:
    """One statistic, (rows, 1), of several (rows, statistics), by families."""
    # Cube roots of quadratic forms are nearly normal (Wilson and Hilferty), so all tails have the same weight.
    standard = standardise(np.cbrt(np.maximum(values, 0.0)))
    spaces = np.array([name.rpartition(": ")[0] for name in names])
    families, weights = [], []
    for space in dict.fromkeys(spaces.tolist()):
        for words, weight in zip(_FAMILIES, _WEIGHTS, strict=True):
            member = (spaces == space) & [any(word in name for word in words) for name in names]
            if member.any():
                families.append(_soft_maximum(standard[:, member]))
                weights.append(weight)
    weighted = standardise(np.stack(families, axis=1)) + np.log(weights) / _SHARPNESS
    return _soft_maximum(weighted)[:, None]


def _soft_maximum(values: Array) -> Array:
    largest = values.max(axis=1)
    total = np.exp(_SHARPNESS * (values - largest[:, None])).sum(axis=1)
    maximum: Array = _SHARPNESS * largest + np.log(total)
    return maximum


def standardise(values: Array) -> Array:
    """Statistics with mean 0 and standard deviation 1 over the rows, (rows, statistics)."""
    standard: Array = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-300)
    return standard


def share_as_large(statistics: Array) -> float:
    """The share of rows in which the clearest statistic, standardised by all rows, is as large as in the first row."""
    largest = standardise(statistics).max(axis=1)
    return float(np.mean(largest >= largest[0] - _TIE))


def draw_until_clear(
    names: Sequence[str], values: Array, draw: Callable[[int], Array], more: Sequence[int]
) -> tuple[float, int]:
    """The p-value of statistics and the number of permutations; more are drawn if few reach the observed value."""
    p_value, drawn = share_as_large(fuse(names, values)), len(values) - 1
    for count in more:
        most = _ENOUGH / (drawn + 1)
        if p_value > most * (1.0 + _TIE):
            break
        values = draw(count)
        if len(values) > drawn + 1:
            # Without a gap, at most a share `most` of tests comes here, so a p-value as large needs no further proof.
            p_value, drawn = min(share_as_large(fuse(names, values)), most), len(values) - 1
    return p_value, drawn
