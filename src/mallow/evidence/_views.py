"""Scores of samples by rules that were learned without their own unit alone: what they are judged by.

They are what folds would give in the mean over all ways to deal them out, in closed form: nothing is left to chance,
and the rules see all other samples.

Scores of samples by rules that were learned without their own fold and one other: what the stack is fitted on.

Most rules are learned in closed form, from sums over folds: one for each pair of folds costs no more than one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from mallow.errors import InputError
from mallow.estimate import Features
from mallow.evidence._blocks import Values, add_up, multiply
from mallow.evidence._folds import Folds, Pooled
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
            yield _unit_variances(others)  # first: it needs no axes, which may still be on their way
        if forms.strengths:
            yield from _unit_means(others, forms.strengths)
        if forms.variances:
            yield _unit_radius(others, len(forms.strengths))
        if forms.bins:
            for partitions in pooled.space.bins:
                yield np.mean([_unit_bins(others, labels) for labels in pooled.take(partitions.T).T], axis=0)

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


def _unit_means(others: _Others, strengths: Sequence[float]) -> Iterator[Values]:
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


def _unit_variances(others: _Others) -> Values:
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


def _unit_radius(others: _Others, place: int) -> Values:
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


def _unit_bins(others: _Others, labels: Indices) -> Values:
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


View = Callable[[Features, Features, Features], Any]
"""(reference samples, model samples, other samples) → one number for each of the others, larger for those that look
more like the reference; learned from the first two alone."""


def score_by_folds(pooled: Pooled, folds: Folds, forms: ClosedForms, views: Sequence[View]) -> Values:
    """The scores of all views, (views, assignments, pairs, rows).

    By rules that were learned without both folds of a pair.

    Only those of a row's own fold are of use: the others have seen it.
    """
    sums = _Sums(pooled, folds)

    def every_view() -> Iterator[Values]:
        if forms.variances:
            yield _fold_variances(sums)
        if forms.strengths:
            yield from _fold_means(sums, forms.strengths)
        if forms.variances:
            yield _fold_radius(sums, len(forms.strengths))
        if forms.bins:
            for partitions in pooled.space.bins:
                yield _fold_bins(sums, pooled.take(partitions.T).T)
        for view in views:
            yield _fold_view(view, sums)

    every = every_view()
    first = next(every, None)  # that of the variances needs no axes, which may still be on their way
    number = forms.count(pooled.space) + len(views)
    scores = np.empty((number, len(folds.of_row), len(folds.pairs), len(pooled.rows)), pooled.space.points.dtype)
    for place, values in enumerate(every if first is None else chain([first], every)):
        scores[place] = values
    return scores


class _Sums:
    """Sums over the rows of each assignment, fold and side, and what follows from them."""

    def __init__(self, pooled: Pooled, folds: Folds) -> None:
        self.pooled, self.folds = pooled, folds
        assignments, rows = folds.of_row.shape
        self.parts = np.zeros((assignments, folds.count, 2, rows))  # the weight of every row in its place
        side = (~pooled.is_reference).astype(np.int64)
        for place, own in enumerate(folds.of_row):
            self.parts[place, own, side, np.arange(rows)] = pooled.weight
        self.mass = np.einsum("pf,afs->aps", folds.kept, self.parts.sum(axis=-1))  # (assignments, pairs, sides)

    def means(self, sums: Array) -> tuple[Array, Array]:
        """Means of the reference and the model over the folds of each rule, (assignments, pairs, ...).

        `sums` are those of `parts`, (assignments, folds, sides, ...).
        """
        kept = np.einsum("pf,afsd->apsd", self.folds.kept, sums) / self.mass[..., None]
        return kept[:, :, 0], kept[:, :, 1]

    def means_of(self, values: Values, *, squares: bool = False) -> tuple[Array, Array]:
        """Means of the values (rows, d), or of their squares."""
        flat = self.parts.reshape(-1, self.parts.shape[-1])
        sums = add_up(self.pooled.take(values), flat, squares=squares)
        return self.means(sums.reshape(*self.parts.shape[:3], -1))

    def units(self) -> tuple[Array, Array]:
        """How many units of the reference and the model each rule is learned from, (assignments, pairs, 1)."""
        counts = []
        for side in self.pooled.sides:
            _, first = np.unique(self.pooled.unit[side], return_index=True)
            each = np.stack([np.bincount(own[side][first], minlength=self.folds.count) for own in self.folds.of_row])
            counts.append((each @ self.folds.kept.T)[..., None])
        return counts[0], counts[1]

    def split(self, scores: Values) -> Values:
        """Scores (assignments × pairs, rows) as (assignments, pairs, rows)."""
        return scores.reshape(len(self.folds.of_row), len(self.folds.pairs), -1)


def _fold_means(sums: _Sums, strengths: Sequence[float]) -> Iterator[Values]:
    """Shrinkage discriminants: w = (C + ridge)⁻¹(mean of P − mean of Q), at several ridges."""
    pooled, space = sums.pooled, sums.pooled.space
    of_p, of_q = sums.means_of(space.points)
    rules = np.stack([(of_p - of_q) * space.metric(strength) for strength in strengths])
    middle = (rules * ((of_p + of_q) / 2.0)).sum(axis=-1)  # (strengths, assignments, pairs)
    every = multiply(rules.reshape(-1, rules.shape[-1]), space.points)  # of all rows: a unit may have some anywhere
    for place, products in enumerate(np.split(every, len(rules))):
        corrected = pooled.leave_out.correct(products, place)
        yield sums.split(pooled.take(corrected.T).T) - middle[place, :, :, None].astype(corrected.dtype)


def _fold_variances(sums: _Sums) -> Values:
    """The log-ratio of Gaussians with a common centre, from the mean squares of each side in every column."""
    columns = sums.pooled.space.columns
    of_p, of_q = shrink_variances(*sums.means_of(columns, squares=True), *sums.units())
    rules = (0.5 / of_q - 0.5 / of_p).reshape(-1, of_p.shape[-1])
    products = multiply(rules, sums.pooled.take(columns), squares=True)
    scores: Values = sums.split(products) + 0.5 * np.log(of_q / of_p).sum(axis=-1)[..., None]
    return scores


def _fold_radius(sums: _Sums, place: int) -> Array:
    """A linear discriminant in the distance from the common centre."""
    values = sums.pooled.take(sums.pooled.leave_out.radius(place))
    of_p, of_q = sums.means((sums.parts @ values)[..., None])
    square_p, square_q = sums.means((sums.parts @ values**2)[..., None])
    slope, middle = discriminant(of_p, of_q, square_p, square_q)
    scores: Array = (values - middle) * slope
    return scores


def _fold_bins(sums: _Sums, partitions: Indices) -> Array:
    """The log-ratio of the shares of a sample's bin.

    The mean over `partitions` (partitions, rows) of equal bin counts.
    """
    pooled, folds = sums.pooled, sums.folds
    scores = np.zeros((len(folds.of_row), len(folds.pairs), len(pooled.rows)))
    here = np.empty_like(scores)
    for labels in partitions:
        bins, logs = int(labels.max()) + 1, []
        for side, units in zip(pooled.sides, pooled.units_of_sides, strict=True):
            weight = pooled.weight[side] * (units / pooled.weight[side].sum())
            counts = np.stack(
                [np.bincount(own[side] * bins + labels[side], weight, folds.count * bins) for own in folds.of_row]
            ).reshape(-1, folds.count, bins)
            share = folds.kept @ counts + PRIOR_SHARE
            logs.append(np.log(share / share.sum(axis=-1, keepdims=True)))
        scores += np.take((logs[0] - logs[1]) / len(partitions), labels, axis=-1, out=here, mode="clip")
    return scores


def _fold_view(view: View, sums: _Sums) -> Array:
    """What a user's function says of the samples of both folds of each pair."""
    pooled, folds = sums.pooled, sums.folds
    features = pooled.features
    scores = np.zeros((len(folds.of_row), len(folds.pairs), len(pooled.rows)))
    for assignment, own in enumerate(folds.of_row):
        for number, pair in enumerate(folds.pairs):
            others = np.isin(own, pair)
            reference, model = (features[~others & side] for side in pooled.sides)
            values = np.asarray(view(reference, model, features[others]), dtype=np.float64)
            if values.shape != (int(others.sum()),) or not np.isfinite(values).all():
                raise InputError(
                    f"`views` must return one finite number for each of {int(others.sum())} samples; "
                    f"{getattr(view, '__name__', repr(view))} returned an array of shape {values.shape}."
                )
            scores[assignment, number, others] = values
    return scores
