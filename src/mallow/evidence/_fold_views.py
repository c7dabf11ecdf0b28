"""Scores of samples by rules that were learned without their own fold and one other: what the stack is fitted on.

Most rules are learned in closed form, from sums over folds: one for each pair of folds costs no more than one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from mallow.errors import InputError
from mallow.estimate import Features
from mallow.evidence._blocks import Values, add_up, multiply
from mallow.evidence._folds import Folds
from mallow.evidence._pooled import Pooled
from mallow.evidence._unit_views import PRIOR_SHARE, ClosedForms, discriminant, shrink_variances
from mallow.evidence._units import Indices
from mallow.theory import Array

View = Callable[[Features, Features, Features], Any]
"""(reference samples, model samples, other samples) → one number for each of the others, larger for those that look more
like the reference; learned from the first two alone."""


def score_by_folds(pooled: Pooled, folds: Folds, forms: ClosedForms, views: Sequence[View]) -> Values:
    """The scores of all views, (views, assignments, pairs, rows): by rules that were learned without both folds of a pair.

    Only those of a row's own fold are of use: the others have seen it.
    """
    sums = _Sums(pooled, folds)

    def every_view() -> Iterator[Values]:
        if forms.variances:
            yield _score_variances(sums)
        if forms.strengths:
            yield from _score_means(sums, forms.strengths)
        if forms.variances:
            yield _score_radius(sums, len(forms.strengths))
        if forms.bins:
            for partitions in pooled.space.bins:
                yield _score_bins(sums, pooled.take(partitions.T).T)
        for view in views:
            yield _score_by(view, sums)

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


def _score_means(sums: _Sums, strengths: Sequence[float]) -> Iterator[Values]:
    """Shrinkage discriminants: w = (C + ridge)⁻¹(mean of P − mean of Q), at several ridges."""
    pooled, space = sums.pooled, sums.pooled.space
    of_p, of_q = sums.means_of(space.points)
    rules = np.stack([(of_p - of_q) * space.metric(strength) for strength in strengths])
    middle = (rules * ((of_p + of_q) / 2.0)).sum(axis=-1)  # (strengths, assignments, pairs)
    every = multiply(rules.reshape(-1, rules.shape[-1]), space.points)  # of all rows: a unit may have some anywhere
    for place, products in enumerate(np.split(every, len(rules))):
        corrected = pooled.leave_out.correct(products, place)
        yield sums.split(pooled.take(corrected.T).T) - middle[place, :, :, None].astype(corrected.dtype)


def _score_variances(sums: _Sums) -> Values:
    """The log-ratio of Gaussians with a common centre, from the mean squares of each side in every column."""
    columns = sums.pooled.space.columns
    of_p, of_q = shrink_variances(*sums.means_of(columns, squares=True), *sums.units())
    rules = (0.5 / of_q - 0.5 / of_p).reshape(-1, of_p.shape[-1])
    products = multiply(rules, sums.pooled.take(columns), squares=True)
    scores: Values = sums.split(products) + 0.5 * np.log(of_q / of_p).sum(axis=-1)[..., None]
    return scores


def _score_radius(sums: _Sums, place: int) -> Array:
    """A linear discriminant in the distance from the common centre."""
    values = sums.pooled.take(sums.pooled.leave_out.radius(place))
    of_p, of_q = sums.means((sums.parts @ values)[..., None])
    square_p, square_q = sums.means((sums.parts @ values**2)[..., None])
    slope, middle = discriminant(of_p, of_q, square_p, square_q)
    scores: Array = (values - middle) * slope
    return scores


def _score_bins(sums: _Sums, partitions: Indices) -> Array:
    """The log-ratio of the shares of a sample's bin, the mean over partitions (partitions, rows) with equally many bins."""
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


def _score_by(view: View, sums: _Sums) -> Array:
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
