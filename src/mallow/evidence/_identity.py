"""A test of identity: is there any gap? Permutations of units, with several statistics at once.

All statistics are quadratic in Δ, the mean of the reference minus that of the model, of some features of the samples:
a table of products of atoms (`_exchange.py`, `_atoms.py`) is all that permutations need, and `_p_values.py` makes one
p-value of all statistics. Whatever the data, this is exact where units are exchangeable. Where they are not, since
their sizes differ, larger units are cut at random to a common size, several times, and the p-value is twice the median
of those of the cuts, which holds whatever they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mallow.engine import single_threaded_blas
from mallow.evidence._atoms import atom_products, merge_atoms
from mallow.evidence._blocks import Values, at_once
from mallow.evidence._exchange import Flags, common_size, exchangeable_rows, find_exchange, generator_of_sides
from mallow.evidence._p_values import MORE, IdentityTest, judge_statistics, share_as_large
from mallow.evidence._space import Space, find_spaces
from mallow.evidence._units import Indices, Units
from mallow.theory import Array

_ENTRIES = 1 << 22  # chosen: signs that are drawn at once
_DRAWS = 9  # chosen: how often units are cut to a common size
_FEWEST = 5  # units of a side that are cut; with fewer there is no answer


def run_identity_test(
    spaces: Mapping[str, Space], units: Units, system: int, *, permutations: int, seed: int
) -> IdentityTest:
    """The test for the reference and one system, from the spaces of their rows, by name; `units` are of the two alone.

    Each family of statistics of each space counts alike.
    """
    first = next(iter(spaces.values()))
    rows, unit, is_reference = rows_of_pair(first, units, system)

    def test(kept: Flags, cut: bool) -> IdentityTest:
        sides = number_units(unit[kept]), is_reference[kept]
        if cut:  # axes and bins know nothing of rows that take no part
            values = {name: space.columns[rows[kept]] for name, space in spaces.items()}
            return judge_rows(values, *sides, permutations, seed)
        return _judge_spaces(spaces, rows[kept], *sides, permutations, seed)

    return judge_draws(unit, is_reference, test)


def judge_rows(
    columns: Mapping[str, Values], unit: Indices, is_reference: Flags, permutations: int, seed: int
) -> IdentityTest:
    """The test of some rows, whose columns are given for each space, on axes and bins of their own."""
    sides = is_reference, ~is_reference
    units = Units((unit[sides[0]], unit[sides[1]]), np.arange(int(unit.max()) + 1, dtype=np.uint64))
    values = np.concatenate(list(columns.values()), axis=1)
    widths = {name: part.shape[1] for name, part in columns.items()}
    spaces = find_spaces([values[side] for side in sides], units, widths)
    rows = rows_of_pair(next(iter(spaces.values())), units, 1)
    return _judge_spaces(spaces, *rows, permutations, seed, more=MORE[:1])


def _judge_spaces(
    spaces: Mapping[str, Space],
    rows: Indices,
    unit: Indices,
    is_reference: Flags,
    permutations: int,
    seed: int,
    *,
    more: Sequence[int] = MORE,
) -> IdentityTest:
    exchange = find_exchange(unit, is_reference)
    with single_threaded_blas():
        merged, join = merge_atoms(exchange)
        products = {
            f"{name}: {statistic}" if name else statistic: table
            for name, space in spaces.items()
            for statistic, table in atom_products(space, rows, exchange, merged, join).items()
        }
        return judge_statistics(products, merged, permutations, seed, more=more)


def judge_draws(unit: Indices, is_reference: Flags, test: Callable[[Flags, bool], IdentityTest]) -> IdentityTest:
    """The test of rows that can be exchanged, or of several draws of them; ``test(kept, cut)`` does one."""
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
    """Which rows take part in the test, and whether units were cut: then several draws, none if units are too few."""
    most, rng = common_size(unit, is_reference), generator_of_sides(is_reference, 1)
    if most is None:
        return [exchangeable_rows(unit, is_reference, None, rng)], False
    if min(len(np.unique(unit[side])) for side in (is_reference, ~is_reference)) < _FEWEST:
        return [], True
    return [exchangeable_rows(unit, is_reference, most, rng) for _ in range(_DRAWS)], True


def combine_draws(p_values: Sequence[float]) -> float:
    """Twice the median of p-values: it holds whatever they share."""
    return min(1.0, 2.0 * float(np.median(p_values))) if len(p_values) > 1 else p_values[0]


def rows_of_pair(space: Space, units: Units, system: int) -> tuple[Indices, Indices, Flags]:
    """The rows of the space that take part, their units from 0 on, and whether they are of the reference."""
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
    It is standardised by its own permutations, and the largest is taken, so that the p-value needs no further
    correction. Exact where units of the two sides can be exchanged as they are; see `IdentityTest` for others.
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
        each = exchange.atoms @ values[kept]
        step = at_once(_ENTRIES, len(each))
        parts = [exchange.draw(min(step, permutations - low), rng) @ each for low in range(0, permutations, step)]
        p_values.append(share_as_large(np.concatenate([exchange.as_observed() @ each, *parts])))
    return combine_draws(p_values), not cut
