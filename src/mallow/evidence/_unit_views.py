"""Scores of samples by rules that were learned without their own unit alone: what they are judged by.

They are what folds would give in the mean over all ways to deal them out, in closed form: nothing is left to chance, and
the rules see all other samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mallow.evidence._blocks import Values, add_up, multiply
from mallow.evidence._pooled import Pooled
from mallow.evidence._space import Space
from mallow.evidence._units import Indices
from mallow.theory import Array

RADIUS = 0.1  # chosen: strength of the metric in which distances from the centre are compared
_PRIOR_UNITS = 20.0  # chosen: units that the common variance counts as
PRIOR_SHARE = 0.5  # units added to every bin, as in the published score

_ROWS = 128  # chosen: rows per task; they stay in the cache


@dataclass(frozen=True)
class ClosedForms:
    """Which views there are whose rules follow from sums: discriminants of means at some strengths, variances, bins."""

    strengths: tuple[float, ...]
    variances: bool
    bins: bool

    def count(self, space: Space) -> int:
        """The number of views."""
        return len(self.strengths) + 2 * self.variances + (len(space.bins) if self.bins else 0)


def score_by_units(pooled: Pooled, forms: ClosedForms) -> Values:
    """The scores of all views in closed form, (views, rows), in the order of `score_by_folds`."""
    others = _Others(pooled)

    def every_view() -> Iterator[Values]:
        if forms.variances:
            yield _score_variances(others)  # first: it needs no axes, which may still be on their way
        if forms.strengths:
            yield from _score_means(others, forms.strengths)
        if forms.variances:
            yield _score_radius(others, len(forms.strengths))
        if forms.bins:
            for partitions in pooled.space.bins:
                yield np.mean([_score_bins(others, labels) for labels in pooled.take(partitions.T).T], axis=0)

    return np.array(list(every_view()), dtype=pooled.space.points.dtype).reshape(-1, len(pooled.rows))


class _Others:
    """Sums over the rows of all units but one, for each side."""

    def __init__(self, pooled: Pooled) -> None:
        self.pooled = pooled
        self.unit, self.count = pooled.unit, len(pooled.space.keys)
        self.weights = np.where(np.stack(pooled.sides), pooled.weight, 0.0)  # (sides, rows)
        self.one_over_mass = 1.0 / (
            0.5 - self.per_unit(self.weights)
        )  # (sides, units): of all others; half is on a side

    def per_unit(self, values: Array) -> Array:
        """Sums over the rows of each unit, (sides, units), of values (sides, rows)."""
        return np.stack([np.bincount(self.unit, own, self.count) for own in values])

    def means(self, values: Array) -> Array:
        """The mean of values (rows,) over the rows of all other units, (sides, units)."""
        weighted = self.weights * values
        means: Array = (weighted.sum(axis=1, keepdims=True) - self.per_unit(weighted)) * self.one_over_mass
        return means

    def units(self) -> Array:
        """How many other units have samples of each side, (sides, units)."""
        present = self.per_unit(self.weights) > 0
        return np.asarray(present.sum(axis=1, keepdims=True) - present, dtype=np.float64)


def _score_means(others: _Others, strengths: Sequence[float]) -> Iterator[Values]:
    """Shrinkage discriminants: w = (C + ridge)⁻¹(mean of P − mean of Q), at several ridges."""
    pooled, space = others.pooled, others.pooled.space
    size, unit = len(space.points), space.unit
    weights = np.zeros((2, size))  # of all rows of the space: a unit may have some in any set
    weights[:, pooled.rows] = others.weights
    sums = add_up(space.points, weights)
    rules = np.stack([sums * space.metric(strength) for strength in strengths])
    every = multiply(rules.reshape(-1, rules.shape[-1]), space.points).reshape(len(rules), 2, size)
    left = others.one_over_mass

    def per_unit(values: Array) -> Array:
        return np.stack([np.bincount(unit, one, others.count) for one in values])

    for place, (rule, products) in enumerate(zip(rules, every.astype(np.float64), strict=True)):
        own = pooled.leave_out.own(weights, place) * size
        means = left[:, unit] * (products - own)  # z·M·mean, the mean without the own unit
        squares = (rule * sums).sum(axis=1, keepdims=True) - per_unit(weights * (2.0 * products - own))
        corrected = pooled.leave_out.correct(means, place)  # and M without it too
        lengths = left**2 * squares + per_unit(means * corrected) / size  # mean·M·mean
        yield pooled.take(corrected[0] - corrected[1] - ((lengths[0] - lengths[1]) / 2.0)[unit])


def _score_variances(others: _Others) -> Values:
    """The log-ratio of Gaussians with a common centre, from the mean squares of each side in every column."""
    pooled = others.pooled
    columns = pooled.take(pooled.space.columns)
    dtype = columns.dtype
    totals = add_up(columns, others.weights, squares=True).astype(dtype)
    counts = others.units().astype(dtype)
    weights, one_over_mass = others.weights.astype(dtype), others.one_over_mass.astype(dtype)
    scores = np.empty(len(columns), dtype)

    def task(rows: slice) -> None:
        squares = np.square(columns[rows])
        unit, place = np.unique(others.unit[rows], return_inverse=True)
        member = (np.arange(len(unit))[:, None] == place).astype(dtype)
        means = [
            (total - (member * weights[side, rows]) @ squares) * one_over_mass[side, unit, None]
            for side, total in enumerate(totals)
        ]
        of_p, of_q = shrink_variances(*means, *counts[:, unit, None])
        rule = 0.5 / of_q - 0.5 / of_p
        level = 0.5 * np.log(of_q / of_p).sum(axis=1)
        scores[rows] = np.einsum("ij,ij->i", squares, rule[place]) + level[place]

    for rows in whole_units(others.unit, _ROWS):  # on one thread: other views are computed beside this one
        task(rows)
    return scores


def whole_units(unit: Indices, rows: int) -> list[slice]:
    """Blocks of about so many rows that cut no unit; units rise."""
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    cuts = starts[np.searchsorted(starts, np.arange(rows, len(unit), rows), side="right") - 1]
    ends = np.unique([0, *cuts, len(unit)]).tolist()
    return [slice(low, high) for low, high in pairwise(ends)]


def shrink_variances(of_p: Values, of_q: Values, n: Values, m: Values) -> tuple[Values, Values]:
    """Variances of either side, learned from n and m units, drawn towards their common value."""
    common = (n * of_p + m * of_q) / (n + m) + 1e-9  # columns have variances around 1
    shrunk_p, shrunk_q = ((k * v + _PRIOR_UNITS * common) / (k + _PRIOR_UNITS) for k, v in ((n, of_p), (m, of_q)))
    return shrunk_p, shrunk_q


def _score_radius(others: _Others, place: int) -> Values:
    """A linear discriminant in the distance from the common centre."""
    values = others.pooled.take(others.pooled.leave_out.radius(place))
    of_p, of_q = others.means(values)
    square_p, square_q = others.means(values**2)
    slope, middle = discriminant(of_p, of_q, square_p, square_q)
    return (values - middle[others.unit]) * slope[others.unit]


def discriminant(of_p: Array, of_q: Array, square_p: Array, square_q: Array) -> tuple[Array, Array]:
    """Slope and zero of a linear discriminant of one variable, from its means and mean squares on either side."""
    variance = (square_p - of_p**2 + square_q - of_q**2) / 2.0
    return np.where(variance > 0, (of_p - of_q) / np.maximum(variance, 1e-300), 0.0), (of_p + of_q) / 2.0


def _score_bins(others: _Others, labels: Indices) -> Values:
    """The log-ratio of the shares of a sample's bin."""
    bins = int(labels.max()) + 1
    _, cell = np.unique(others.unit * bins + labels, return_inverse=True)
    mass = others.one_over_mass[:, others.unit]
    units = others.units()[:, others.unit]
    logs = []
    for weight, inverse, count in zip(others.weights, mass, units, strict=True):
        share = (np.bincount(labels, weight)[labels] - np.bincount(cell, weight)[cell]) * inverse
        logs.append(np.log((np.maximum(share, 0.0) * count + PRIOR_SHARE) / (count + PRIOR_SHARE * bins)))
    ratio: Array = logs[0] - logs[1]
    return ratio
