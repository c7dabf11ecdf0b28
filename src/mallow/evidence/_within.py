"""Statistics that exchange samples within units, so that each prompt may change in a different direction.

If both sides have several samples of a prompt, and these are independent given the prompt, the sides of its samples can
be exchanged one by one. For each prompt, Δ is the difference of the means (reference minus model). Most statistics add
up ‖Δ‖² over prompts, so that opposite changes do not cancel: regularised means, and Gaussian kernels of three widths.
Others measure common changes: the mean of Δ, and the distance between answers to one prompt.

`run_test` combines the test of identity with this test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mallow.engine import single_threaded_blas
from mallow.estimate import row_keys
from mallow.evidence._blocks import Values, at_once
from mallow.evidence._exchange import Flags, generator_of_sides
from mallow.evidence._identity import (
    Draws,
    IdentityTest,
    draw_until_clear,
    p_value_of_each,
    rows_of_pair,
    run_identity_test,
    share_as_large,
    standardise,
)
from mallow.evidence._space import Space, find_spaces, regularised_inverse
from mallow.evidence._systems import pair_spaces
from mallow.evidence._units import Indices, Units, find_units
from mallow.samples import Samples
from mallow.theory import Array

_FEWEST_UNITS = 5  # chosen: fewest units with several samples of both sides for an exchange within units
_FEWEST_KINDS = 20  # chosen: as in `_units.py`, where fewer kinds of samples may be equal by chance
_MOST_SAMPLES = 100  # chosen: per unit and side; more take time
_MOST_AXES = 64  # chosen: leading axes of the change that all units share
_STRENGTHS = (0.01, 1.0)  # of the regularisation of means, in units of the mean variance within units
_WIDTHS = (0.25, 0.5, 1.0)  # chosen: of kernels, times the median distance of two samples of a unit
_NUMBERS = 1 << 22  # chosen: signs that are drawn at once
_EFFORT = 1 << 33  # chosen: multiplications that permutations may take


def run_test(spaces: Mapping[str, Space], units: Units, system: int, draws: Draws, *, within: bool) -> IdentityTest:
    """The test of identity for the reference and one system, with the units of the two.

    With `within`, a second test exchanges samples within units if enough units have several samples of both sides.
    """
    test = run_identity_test(spaces, units, system, draws)
    exchanges = _find_within(spaces, units, system) if within else None
    return test if exchanges is None else _add_within(test, exchanges, draws)


@dataclass(frozen=True)
class PromptTest:
    """The test of two sets of answers to the same prompts.

    Attributes
    ----------
    p_value : float
    by_prompt : dict
        The p-value of each prompt with several samples of both sides.
    strength : float
        How large the difference is, in standard errors without a difference. It is computed from the p-value. If no
        permutation reached the observed value, it is computed from the sum over prompts, if that gives more.
    spread : float
        The standard error of `strength`, since prompts differ in their differences; at least 1.
    """

    p_value: float
    by_prompt: dict[str, float]
    strength: float
    spread: float


def judge_prompts(reference: Samples, model: Samples, draws: Draws) -> PromptTest:
    """The test of two sets of samples with features and prompts, and the test of each prompt."""
    prompts = tuple(reference.prompts or ())
    reference, model = reference.without_ids(), model.without_ids()
    *points, widths = pair_spaces(reference, model)
    units = find_units(reference, model)
    spaces = find_spaces(points, units, widths)
    test = run_identity_test(spaces, units, 1, draws)
    within = _find_within(spaces, units, 1)
    if within is None:
        return PromptTest(test.p_value, {}, _strength(test.p_value), 1.0)
    test = _add_within(test, within, draws)
    space = next(iter(spaces.values()))
    sample = np.empty(len(space.columns), np.int64)  # of the reference, by row
    sample[space.places[0]] = np.arange(len(space.places[0]))
    rows, unit, is_reference = rows_of_pair(space, units, 1)
    prompt_of = {
        int(number): prompts[sample[row]] for row, number in zip(rows[is_reference], unit[is_reference], strict=True)
    }
    of_units = within.by_unit(draws.permutations, draws.generator(8))
    sums = {number: standardise(np.cbrt(values)).sum(axis=1, keepdims=True) for number, values in of_units.items()}
    by_prompt = {prompt_of[number]: share_as_large(values) for number, values in sums.items()}
    observed = np.array([values[0, 0] for values in sums.values()])
    error = math.sqrt(sum(float(values.var()) for values in sums.values()))
    strength = _strength(test.p_value)
    if test.tail:
        strength = max(strength, float(observed.sum()) / max(error, 1e-300))
    spread = max(1.0, math.sqrt(len(observed)) * float(observed.std(ddof=1)) / max(error, 1e-300))
    return PromptTest(test.p_value, by_prompt, strength, spread)


def _strength(p_value: float) -> float:
    """The standard normal value with this probability above it."""
    return -NormalDist().inv_cdf(min(p_value, 1.0 - 1e-6))


def _find_within(spaces: Mapping[str, Space], units: Units, system: int) -> Within | None:
    """The samples that can be exchanged within units; None if too few units have several of both sides."""
    rows, unit, is_reference = rows_of_pair(next(iter(spaces.values())), units, system)
    several = np.minimum(*(np.bincount(unit[side], minlength=unit[-1] + 1) for side in (is_reference, ~is_reference)))
    if np.count_nonzero(several >= 2) < _FEWEST_UNITS:
        return None
    within = Within(spaces, rows, unit, is_reference)
    return within if len(within.units) >= _FEWEST_UNITS else None


def _add_within(test: IdentityTest, within: Within, draws: Draws) -> IdentityTest:
    """The test together with the one that exchanges samples within units."""
    values = within.statistics(draws.permutations, draws.generator(7))

    def draw(count: int) -> Array:
        return within.statistics(count, draws.generator(7, count))

    p_value, drawn = draw_until_clear(within.names, values, draw, draws.more)
    deciding, count = (test.p_value, test.permutations) if test.p_value < p_value else (p_value, drawn)
    tail = test.tail if test.p_value < p_value else p_value * (drawn + 1) < 1.5
    alone = test.statistics | p_value_of_each(within.names, values)
    return IdentityTest(min(1.0, 2.0 * deciding), count, test.exact, tail, alone, p_value)


@dataclass(frozen=True, eq=False)
class _Group:
    """Units with n samples of the reference and m of the model; products are (statistics, units, n + m, n + m)."""

    rows: Indices
    observed: Array
    products: Array


class Within:
    """Samples whose sides can be exchanged within units, and the statistics of such exchanges.

    Attributes
    ----------
    names : list of str
        The names of the statistics.
    units : int64 array
        The units that take part.
    """

    def __init__(self, spaces: Mapping[str, Space], rows: Indices, unit: Indices, is_reference: Flags) -> None:
        first = next(iter(spaces.values()))
        kept = _several(first.columns[rows], unit, is_reference)
        rows, unit, is_reference = rows[kept], unit[kept], is_reference[kept]
        self.units = np.unique(unit)
        self.names: list[str] = []
        self._groups: list[_Group] = []
        if not self.units.size:
            return
        number = np.searchsorted(self.units, unit)
        sides = [np.bincount(number[side], minlength=len(self.units)) for side in (is_reference, ~is_reference)]
        starts = np.searchsorted(number, np.arange(len(self.units)))
        with single_threaded_blas():
            coordinates = {name: _Coordinates(space, rows, number) for name, space in spaces.items()}
        self.names = [f"{title}: {name}" for title, space in _titled(coordinates) for name in space.names]
        alike = []
        for title, space in _titled(coordinates):
            for name, values in space.alike.items():
                self.names.append(f"{title}, alike: {name}")
                alike.append(values)
        self._alike = np.concatenate(alike, axis=1)
        self._ends = np.cumsum([values.shape[1] for values in alike]).tolist()
        for n, m in sorted(set(zip(*(counts.tolist() for counts in sides), strict=True))):
            members = np.flatnonzero((sides[0] == n) & (sides[1] == m))
            table = starts[members][:, None] + np.arange(n + m)
            weight = np.sqrt(n * m / (n + m))
            signs = np.where(is_reference[table], weight / n, -weight / m)
            products = np.concatenate([space.products(table) for space in coordinates.values()])
            self._groups.append(_Group(table, signs, products))

    def statistics(self, most: int, rng: np.random.Generator) -> Array:
        """The observed and exchanged statistics, (1 + exchanges, statistics), with at most this many exchanges."""
        effort = sum(group.products.size for group in self._groups) + self._alike.size
        count = max(1, min(most, at_once(_EFFORT, effort)))
        step = at_once(_NUMBERS, sum(group.rows.size for group in self._groups) * (1 + len(self.names) // 4))
        parts = [self._evaluate([group.observed[None] for group in self._groups])]
        for low in range(0, count, step):
            size = min(step, count - low)
            parts.append(self._evaluate([_exchange(group.observed, size, rng) for group in self._groups]))
        return np.concatenate(parts)

    def _evaluate(self, signs: list[Array]) -> Array:
        """The statistics for signs (exchanges, units, n + m) of each group."""
        sums = np.zeros((len(signs[0]), len(self.names) - len(self._ends)))
        alike = np.zeros((len(signs[0]), self._alike.shape[1]))
        with single_threaded_blas():
            for group, of_group in zip(self._groups, signs, strict=True):
                turned = of_group.transpose(1, 2, 0)  # (units, n + m, exchanges)
                for number, products in enumerate(group.products):
                    sums[:, number] += np.einsum("usp,usp->p", products @ turned, turned)
                alike += of_group.reshape(len(of_group), -1) @ self._alike[group.rows.ravel()]
        squares = [(part**2).sum(axis=1) for part in np.split(alike, self._ends[:-1], axis=1)]
        return _without_rounding(np.concatenate([sums, np.stack(squares, axis=1)], axis=1))

    def by_unit(self, exchanges: int, rng: np.random.Generator) -> dict[int, Array]:
        """The observed and exchanged statistics of each unit by itself, (1 + exchanges, statistics)."""
        by_first_row = {}
        with single_threaded_blas():
            for group in self._groups:
                for number, rows in enumerate(group.rows):
                    observed, tables = group.observed[number][None], group.products[:, number]
                    signs = np.concatenate([observed[None], _exchange(observed, exchanges, rng)])[:, 0]
                    values = np.stack([((signs @ table) * signs).sum(axis=1) for table in tables], axis=1)
                    by_first_row[int(rows[0])] = _without_rounding(values)
        rows_in_order = sorted(by_first_row)
        return {int(unit): by_first_row[row] for unit, row in zip(self.units, rows_in_order, strict=True)}


def _without_rounding(statistics: Array) -> Array:
    """Statistics of order 1, in which rounding differences of equal samples are set to 0."""
    return np.where(statistics > 1e-12, statistics, 0.0)


def _exchange(observed: Array, count: int, rng: np.random.Generator) -> Array:
    """Signs (units, n + m) shuffled within units, this many times."""
    return rng.permuted(np.broadcast_to(observed, (count, *observed.shape)), axis=-1)


def _titled(coordinates: Mapping[str, _Coordinates]) -> list[tuple[str, _Coordinates]]:
    return [(f"within units, {name}" if name else "within units", space) for name, space in coordinates.items()]


def _several(columns: Values, unit: Indices, is_reference: Flags) -> Flags:
    """Which rows take part: rows of units with at least two samples of both sides, at most 100 of each.

    If all samples of a side are copies, equally often, one of each takes part.
    """
    kept = np.ones(len(unit), np.bool_)
    keys = row_keys(columns)
    for side in (is_reference, ~is_reference):
        rows = np.flatnonzero(side)
        names = np.stack([unit[rows].astype(np.uint64), keys[rows]])
        _, first, times = np.unique(names, axis=1, return_index=True, return_counts=True)
        if len(times) >= _FEWEST_KINDS and 1 < times.min() == times.max():
            kept[rows] = False
            kept[rows[first]] = True
    for side in (is_reference, ~is_reference):
        rows = np.flatnonzero(side & kept)
        rows = rows[np.lexsort((generator_of_sides(is_reference, 6).random(len(rows)), unit[rows]))]
        rank = np.arange(len(rows)) - np.searchsorted(unit[rows], unit[rows])
        kept[rows[rank >= _MOST_SAMPLES]] = False
    count = int(unit.max()) + 1
    sizes = [np.bincount(unit[side & kept], minlength=count) for side in (is_reference, ~is_reference)]
    enough: Flags = np.minimum(*sizes) >= 2
    return kept & enough[unit]


class _Coordinates:
    """The rows of one space that take part, without the means of their units."""

    def __init__(self, space: Space, rows: Indices, unit: Indices) -> None:
        counts = np.bincount(unit).astype(np.float64)
        self._columns = _without_means(space.columns[rows], unit, counts)
        self._points = _without_means(space.points[rows], unit, counts)
        variances = np.einsum("ij,ij->j", self._points, self._points) / len(unit)
        variances[variances <= 1e-12 * variances.max(initial=0.0)] = 0.0
        self._metrics = [regularised_inverse(variances, strength) for strength in _STRENGTHS]
        lengths = np.einsum("ij,ij->i", self._columns, self._columns)
        self._lengths = lengths
        self._widths = _find_widths(self._columns, unit)
        self.names = [f"means, strength {strength:g}" for strength in _STRENGTHS]
        self.names += [f"kernel, width {number} of {len(_WIDTHS)}" for number in range(1, len(_WIDTHS) + 1)]
        total = lengths.sum() / len(unit)
        spread = np.cbrt(lengths / max(total, 1e-300))[:, None]
        self.alike = {
            f"means, strength {_STRENGTHS[-1]:g}": (self._points * np.sqrt(self._metrics[-1]))[:, :_MOST_AXES],
            "variance": _without_means(spread, unit, counts),
        }

    def products(self, table: Indices) -> Array:
        """The products of rows (units, s) in the metric of each statistic, (statistics, units, s, s)."""
        points, columns, lengths = self._points[table], self._columns[table], self._lengths[table]
        means = [(points * metric) @ points.swapaxes(1, 2) for metric in self._metrics]
        squares = lengths[:, :, None] + lengths[:, None, :] - 2.0 * (columns @ columns.swapaxes(1, 2))
        squares = np.maximum(squares, 0.0)
        kernels = [np.exp(squares / (-2.0 * width**2)) for width in self._widths]
        return np.stack([*means, *kernels])


def _without_means(values: Values, unit: Indices, counts: Array) -> Array:
    """Rows minus the mean of their unit, with rounding differences of equal rows set to 0."""
    values = values.astype(np.float64)
    starts = np.cumsum(counts.astype(np.int64)) - counts.astype(np.int64)
    means = np.add.reduceat(values, starts, axis=0) / counts[:, None]
    rest: Array = values - means[unit]
    rest[np.abs(rest) < 1e-10 * max(float(np.abs(values).max()), 1e-300)] = 0.0
    return rest


def _find_widths(columns: Array, unit: Indices) -> Array:
    """Widths of kernels: multiples of the median distance of neighbouring samples of a unit; 1 if all are equal."""
    gaps = [columns[step:] - columns[:-step] for step in (1, 2, 3)]
    same = [unit[step:] == unit[:-step] for step in (1, 2, 3)]
    distances = np.sqrt(np.concatenate([(gap[kept] ** 2).sum(axis=1) for gap, kept in zip(gaps, same, strict=True)]))
    distances = distances[distances > 0]
    median = float(np.median(distances)) if distances.size else 1.0
    return median * np.array(_WIDTHS)
