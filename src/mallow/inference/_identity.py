"""A test of identity: is there any gap? Permutations of units, with several statistics at once.

Under the hypothesis that model and reference are one distribution, sides can be exchanged: within a unit that has as many
samples of both, whole units of equal size between the sides, and single samples within a unit that has different numbers
of both. All statistics are quadratic in Δ, the mean of the reference minus that of the model, of some features of the
samples: a permutation costs one row of a matrix product. Each statistic is standardised by its own permutations and the
largest is taken; its p-value comes from the same permutations. Whatever the data, this is exact where units are
exchangeable.

Units that have no counterpart of their size cannot be exchanged. A few of them are left out; where they are many (400
texts against 100 prompts with 4 texts each), the deviations of units from the common mean change sign instead, which keeps
what their samples share. The test is then approximate, and looks at means alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from mallow._checks import whole
from mallow.engine import single_threaded_blas
from mallow.inference._space import Space
from mallow.inference._units import Units
from mallow.theory import Array

__all__ = ["IdentityTest", "run_identity_test"]

_STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # of the regularisation of means, in units of the mean variance
_FLOOR = 0.01  # the same for squares; chosen
_TIE = 1.0 - 1e-9  # chosen: rounding must not make a permutation that equals the observed one smaller
_LEFT_OUT = 0.1  # chosen: share of the samples of a side up to which units without counterpart are left out
_LEAST = 1e-16  # the smallest p-value that the tail approximation gives
_ROUNDINGS = 64.0  # chosen: roundings of a typical entry up to which a difference of means counts as none

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class IdentityTest:
    """Whether model and reference are one distribution.

    Attributes
    ----------
    p_value : float
        Of all statistics together.
    permutations : int
    exact : bool
        Whether all units could be exchanged; if not, some only changed sign.
    tail : bool
        Whether no permutation came near the observed value, so that the p-value is that of a normal tail: an
        approximation, below 1/(permutations + 1).
    statistics : dict
        The p-value of each statistic alone, without any correction: what shows the gap.
    """

    p_value: float
    permutations: int
    exact: bool
    tail: bool
    statistics: dict[str, float]


def run_identity_test(space: Space, units: Units, system: int, *, permutations: int, seed: int) -> IdentityTest:
    """The test for the reference and one system of a space; `units` are those of the two alone."""
    whole("permutations", permutations, least=1)
    units, kept = _exchangeable(units)
    sides = space.rows(0), space.rows(system)
    rows = np.concatenate([np.arange(side.start, side.stop) for side in sides])[kept]
    weights, exact = permute_sides(units, permutations, np.random.default_rng([seed, 2]))
    with single_threaded_blas():
        groups = _quadratic_forms(space, rows, weights, _unit_spread(units), exact)
    names = list(groups)
    every = np.stack([groups[name] for name in names], axis=1)  # (1 + permutations, statistics); the observed first
    # Cube roots of quadratic forms are nearly normal (Wilson and Hilferty), so that each counts in its tail alike.
    roots = np.cbrt(every)
    standard = (roots - roots.mean(axis=0)) / np.maximum(roots.std(axis=0), 1e-300)
    largest = standard.max(axis=1)
    p_value = float(np.mean(largest >= largest[0] - 1e-9))
    tail = p_value * (permutations + 1) < 1.5
    if tail:
        p_value = min(p_value, _tail_probability(roots))
    alone = {name: float(np.mean(groups[name] >= groups[name][0] * _TIE)) for name in names}
    return IdentityTest(p_value, permutations, exact, tail, alone)


def _exchangeable(units: Units) -> tuple[Units, NDArray[np.int64]]:
    """The units without those that have no counterpart, if these are few; and the places of the samples that are left."""
    of_p, of_q = units.sizes(0), units.sizes(1)
    sizes = [set(own[other == 0].tolist()) for own, other in ((of_p, of_q), (of_q, of_p))]
    single = [(of_q == 0) & ~np.isin(of_p, list(sizes[1])), (of_p == 0) & ~np.isin(of_q, list(sizes[0]))]
    keep = [~(single[0] | single[1])[part] for part in units.sets]
    if all(own.all() for own in keep) or any(own.mean() < 1.0 - _LEFT_OUT for own in keep):
        return units, np.arange(sum(len(own) for own in keep))
    left = tuple(part[own] for part, own in zip(units.sets, keep, strict=True))
    return Units(left, units.keys), np.flatnonzero(np.concatenate(keep))


def _tail_probability(roots: Array) -> float:
    """The normal tail beyond the observed value of the clearest statistic, times the number of statistics."""
    others = roots[1:]
    deviation = others.std(axis=0, ddof=1) if len(others) > 1 else np.zeros(roots.shape[1])
    z = np.where(deviation > 0, (roots[0] - others.mean(axis=0)) / np.maximum(deviation, 1e-300), 0.0)
    return float(np.clip(roots.shape[1] * math.exp(float(log_ndtr(-z.max()))), _LEAST, 1.0))


def permute_sides(units: Units, permutations: int, rng: np.random.Generator) -> tuple[Weights, bool]:
    """Weights (1 + permutations, n + m) whose products with the samples are means of one side minus the other.

    The first row is the observed one. The second value says whether every unit could be exchanged.
    """
    n, m = (len(part) for part in units.sets)
    unit = np.concatenate(units.sets)
    of_p, of_q = units.sizes(0), units.sizes(1)
    first = np.broadcast_to(np.arange(n + m) < n, (1 + permutations, n + m)).copy()  # whether a row counts as P
    sign = np.ones((1 + permutations, n + m))
    exact = True
    equal = (of_p == of_q) & (of_p > 0)
    swapped = np.zeros((1 + permutations, units.count), np.bool_)
    swapped[1:, equal] = rng.random((permutations, int(equal.sum()))) < 0.5
    first ^= swapped[:, unit]
    alone = (of_p == 0) != (of_q == 0)
    for size in np.unique((of_p + of_q)[alone]):
        members = np.flatnonzero(alone & (of_p + of_q == size))
        count = int(np.count_nonzero(of_p[members]))
        place = np.full(units.count, -1)
        place[members] = np.arange(len(members))
        rows = np.flatnonzero(place[unit] >= 0)
        if 0 < count < len(members):
            drawn = np.broadcast_to(np.arange(len(members)) < count, (permutations, len(members)))
            first[1:, rows] = rng.permuted(drawn, axis=1)[:, place[unit[rows]]]
        else:
            signs = 1.0 - 2.0 * (rng.random((permutations, len(members))) < 0.5)
            sign[1:, rows] = signs[:, place[unit[rows]]]
            exact = False
    mixed = (of_p != of_q) & (of_p > 0) & (of_q > 0)
    order = np.argsort(unit, kind="stable")
    starts = np.cumsum(of_p + of_q) - (of_p + of_q)
    for a, b in {(int(of_p[u]), int(of_q[u])) for u in np.flatnonzero(mixed)}:
        members = np.flatnonzero(mixed & (of_p == a) & (of_q == b))
        rows = order[starts[members][:, None] + np.arange(a + b)]  # (units, a + b)
        drawn = rng.random((permutations, *rows.shape)).argsort(axis=-1) < a
        first[1:, rows] = drawn
    return np.where(first, 1.0 / n, -1.0 / m) * sign, exact


@dataclass(frozen=True, eq=False)
class _Spread:
    """How the variance of Δ follows from samples, the same for all permutations: differences within units that have both
    sides, whole units otherwise."""

    weights: Array  # (units, rows) is never built: the unit, the sign and the centring of each row
    unit: NDArray[np.int64]
    centred: NDArray[np.bool_]

    def variances(self, values: Array, count: int) -> Array:
        """The sum of squares over units, (columns,), of values (rows, columns)."""
        total = np.stack([np.bincount(self.unit, column * self.weights, count) for column in values.T], axis=1)
        squares: Array = (total**2).sum(axis=0)
        inside = self.centred
        if inside.any():
            rows, unit = values[inside], self.unit[inside]
            size = np.maximum(np.bincount(unit, minlength=count), 1)
            mean = np.stack([np.bincount(unit, column, count) for column in rows.T], axis=1) / size[:, None]
            squares = squares + ((rows - mean[unit]) ** 2).sum(axis=0)
        return squares


def _unit_spread(units: Units) -> _Spread:
    unit = np.concatenate(units.sets)
    of_p, of_q = units.sizes(0), units.sizes(1)
    n = len(units.sets[0])
    sign = np.where(np.arange(len(unit)) < n, 1.0, -1.0)
    paired, alone = (of_p == of_q)[unit], ((of_p == 0) | (of_q == 0))[unit]
    weights = np.where(paired, sign, np.where(alone, 1.0, 0.0))
    return _Spread(weights, unit, ~paired & ~alone)


def _quadratic_forms(
    space: Space, rows: NDArray[np.int64], weights: Weights, spread: _Spread, exact: bool
) -> dict[str, Array]:
    """Every statistic of every permutation."""
    count = int(spread.unit.max()) + 1
    every = np.zeros((len(weights), len(space.points)), space.points.dtype)
    every[:, rows] = weights
    forms: dict[str, Array] = {}
    points = space.points[rows]
    means, variances = _without_rounding(space.sums(every), points), spread.variances(points, count)
    for strength in _STRENGTHS:
        forms[f"means, strength {strength:g}"] = (means**2 * _inverse(variances, strength)).sum(axis=1)
    if not exact:  # axes, columns and bins follow the side with fewer units: only means are safe
        return forms
    squares = np.square(space.columns[rows].astype(np.float64))
    precision = space.columns.dtype
    means = _without_rounding(space.sums(every, squares=True), squares.astype(precision))
    variances = spread.variances(squares - squares.mean(axis=0), count)
    forms["variances by column"] = (means**2 * _inverse(variances, _FLOOR)).sum(axis=1)
    total = squares.sum(axis=1, keepdims=True).astype(precision)
    forms["total variance"] = _without_rounding(means.sum(axis=1, keepdims=True), total)[:, 0] ** 2
    for labels in space.bins:
        own = labels[rows]
        sizes = np.bincount(own)
        drawn = _without_rounding(np.stack([np.bincount(own, row, len(sizes)) for row in weights]), np.ones((1, 1)))
        forms[f"{len(sizes)} bins"] = (drawn**2 / np.maximum(sizes, 1)).sum(axis=1)
    return forms


def _without_rounding(means: Array, values: NDArray[Any]) -> Array:
    """Differences of means (permutations, columns) of values (rows, columns), 0 where only rounding makes them differ.

    Without it, rounding decides where both sides of every pair are equal.
    """
    typical = np.sqrt(np.mean(np.square(values, dtype=np.float64), axis=0))
    return np.where(np.abs(means) > _ROUNDINGS * float(np.finfo(values.dtype).eps) * typical, means, 0.0)


def _inverse(variances: Array, strength: float) -> Array:
    floor = strength * float(variances.mean())
    return np.where(variances > 0, 1.0 / np.maximum(variances + floor, 1e-300), 0.0)
