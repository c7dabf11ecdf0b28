"""Held-out scores: a sample is scored by rules that were learned without its unit.

Units are assigned to up to 100 cells (`_units.py`). A row is judged by rules that were learned without its cell, from
sums over all other cells (`_rules.py`). The weights of the views, which also calibrate them, come from folds of whole
cells. They are fitted outside the fold of the row, on scores by rules that were learned without this fold and without
the fold of the scored row. Several groupings of cells into folds are averaged.

Rows are in memory (`_witness.py`), or there are so many that they are read in passes and become small integers
(`_pass_learner.py`). No result depends on a seed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import Features, calibrate_scores
from mallow.evidence._blocks import Values
from mallow.evidence._identity import Draws, IdentityTest
from mallow.evidence._rules import Rules, Teacher
from mallow.evidence._units import Cells, Folds, Indices, Numbers, Units, group_cells
from mallow.theory import Array

STEP = 2.0**-10  # of held-out scores; chosen: far above rounding differences between processors, far below what matters
_GATE = 0.5  # chosen: standard errors of the inner gain up to which nothing counts as learned; one more, and all does
_RIDGE = 1.0  # chosen: in units of one unit of samples
_SAME = 1e-9  # chosen: relative spread of a view up to which it is the same for all samples
_GROUPINGS = ((8000, 16), (math.inf, 8))  # chosen: (number of samples up to which, groupings of cells into folds)

View = Callable[[Features, Features, Features], Any]
"""(reference samples, model samples, other samples) → one number for each of the others, larger if it looks more like
the reference; learned only from the first two."""


@dataclass(frozen=True)
class Options:
    """The views and the folds of a `Witness`, which documents and checks them."""

    strengths: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)  # chosen: on text and Gaussians, each is sometimes the best
    variances: bool = True
    products: bool = True
    bins: bool = True
    views: tuple[View, ...] = ()
    folds: int = 5
    assignments: int | None = None
    independent_samples: bool = True


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of the reference and of some systems, on which the weights of the views are fitted.

    Attributes
    ----------
    score : function
        The rules of each space → the score of each row by each of them, (views, rules, rows).
    cell, unit : array (rows,)
    is_reference : bool array (rows,)
    weight : array (rows,)
        All systems have the same weight.
    features : array (rows, d) or None
        The original features, for a user's own views.
    """

    score: Callable[[Sequence[Rules]], NDArray[np.floating[Any]]]
    cell: Numbers
    unit: Indices
    is_reference: NDArray[np.bool_]
    weight: Array
    features: Features | None = None


class Learner(ABC):
    """The reference and its systems, ready for witnesses of any pair: coordinates, bins and cells are shared."""

    together = True  # whether its test and its scores may be computed at the same time
    tolerance = 0.0  # the largest difference of a score between processors
    choices: Sequence[Sequence[int]] = ((0,),)  # of spaces, by number: for its scores, and for only the texts if asked

    def __init__(self, witness: Options, units: Units, cells: Cells | None) -> None:
        self.witness, self.units, self._cells = witness, units, cells

    @abstractmethod
    def test(self, system: int, draws: Draws) -> IdentityTest:
        """The test of identity of the reference and one system."""

    @abstractmethod
    def _teachers(self, cells: Cells) -> Sequence[Teacher]:
        """The basis from which the rules of each space are learned."""

    @abstractmethod
    def _part(self, cells: Cells, systems: Sequence[int]) -> Part:
        """The rows that weights are fitted on."""

    @abstractmethod
    def _judge(
        self, rules: Sequence[Rules], weights: Sequence[Array], cells: Cells, systems: Sequence[int]
    ) -> list[list[Array]]:
        """h of the rows of the reference and of the systems for each of the weights, (cells, views) of all views."""

    def scores(self, *systems: int, judged: Sequence[int] = ()) -> tuple[Array, ...]:
        """h of every sample of the reference and of the systems by all spaces: the first of `scores_by_choice`."""
        return self.scores_by_choice(*systems, judged=judged)[0]

    def scores_by_choice(self, *systems: int, judged: Sequence[int] = ()) -> list[tuple[Array, ...]]:
        """h of every sample of the reference and of the systems, one array each, for each choice of spaces.

        Several systems count as one model. The rules of a space are applied once for all choices. Nothing is learned
        from other systems that are only `judged`; their scores come last.

        All are 0 if nothing was learned, or if a side has fewer units than there are folds. No score exceeds the
        logarithm of the number of units, so that no sample counts more than all others together. They are rounded to
        multiples of 2⁻¹⁰, so that they are the same on every processor.
        """
        if self._cells is None:
            every = [self.units.sets[number] for number in (0, *systems, *judged)]
            return [tuple(np.zeros(len(unit)) for unit in every) for _ in self.choices]
        with single_threaded_blas():
            by_choice = self._learn(self._cells, systems, judged)
        count = sum(len(np.unique(self.units.sets[number])) for number in (0, *systems))
        return [tuple(round_scores(h, count) for h in scores) for scores in by_choice]

    def _learn(self, cells: Cells, systems: Sequence[int], judged: Sequence[int]) -> list[list[Array]]:
        teachers, part = self._teachers(cells), self._part(cells, systems)

        def learn(kept: Array) -> list[Rules]:
            return [teacher.learn(kept, systems) for teacher in teachers]

        without = learn(1.0 - np.eye(len(cells)))
        folds, space = Folds(self.witness.folds), np.repeat(np.arange(len(without)), [len(r.constant) for r in without])
        closed, users = len(space), np.ones(len(self.witness.views), np.bool_)
        members = [np.append(np.isin(space, choice), users) for choice in self.choices]
        size = sum(len(self.units.sets[number]) for number in (0, *systems))
        count = self.witness.assignments or next(number for most, number in _GROUPINGS if size <= most)
        stack = partial(stack_weights, is_reference=part.is_reference, weight=part.weight, unit=part.unit)
        groupings, pairs = group_cells(len(cells), folds.count, count), len(folds.pairs)
        # The rules of all groupings at once: each metric is factorised once.
        every = learn(np.concatenate([folds.kept[:, grouping] for grouping in groupings]))

        def fit(number: int) -> list[tuple[Array, Array | None]]:
            """The weights of the views by cell, and the part of a user's own views in h of each row, by choice."""
            grouping = groupings[number]
            fold = grouping[part.cell]
            views = part.score([rules.part(slice(number * pairs, (number + 1) * pairs)) for rules in every])
            if self.witness.views:
                views = np.concatenate(
                    [views, [_score_by_view(view, part, fold, folds) for view in self.witness.views]]
                )
            fitted = []
            for member in members:
                chosen, weights = views if member.all() else views[member], np.zeros((folds.count, len(member)))
                for k in range(folds.count):
                    weights[k, member] = stack(chosen, k, fold, folds)
                added = _mean_over_rules(views[closed:], weights[:, closed:], fold, folds) if len(users) else None
                fitted.append((weights[grouping, :closed], added))
            return fitted

        weights = [np.zeros((len(cells), closed)) for _ in members]
        added = [np.zeros(len(part.unit)) for _ in members]
        for fitted in ordered_map(fit, range(len(groupings)), 1 if len(users) else cores()):
            for number, (of_cells, of_views) in enumerate(fitted):
                weights[number] += of_cells / len(groupings)
                if of_views is not None:
                    added[number] += of_views / len(groupings)
        by_choice = self._judge(without, weights, cells, (*systems, *judged))
        if not len(users):
            return by_choice
        return [self._add(h, of_views, systems) for h, of_views in zip(by_choice, added, strict=True)]

    def _add(self, h: list[Array], added: Array, systems: Sequence[int]) -> list[Array]:
        """h plus the part of a user's own views, in the order of the part; rows that are read in passes have none."""
        return h


def _score_by_view(view: View, part: Part, fold: Indices, folds: Folds) -> Array:
    """The scores of a user's function, learned without both folds of each pair, for their samples, (pairs, rows)."""
    features = part.features
    if features is None:
        raise InputError("`views` need features in memory.")
    scores = np.zeros((len(folds.pairs), len(fold)))
    for number, pair in enumerate(folds.pairs):
        others = np.isin(fold, pair)
        reference, model = (features[~others & side] for side in (part.is_reference, ~part.is_reference))
        values = np.asarray(view(reference, model, features[others]), dtype=np.float64)
        if values.shape != (int(others.sum()),) or not np.isfinite(values).all():
            raise InputError(
                f"`views` must return one finite number for each of {int(others.sum())} samples; "
                f"{getattr(view, '__name__', repr(view))} returned an array of shape {values.shape}."
            )
        scores[number, others] = values
    return scores


def _mean_over_rules(views: Values, weights: Array, fold: Indices, folds: Folds) -> Array:
    """The weighted sum of views for each row, by the mean of the rules that were learned without its fold."""
    total = np.zeros(len(fold))
    for k in range(folds.count):
        test = np.flatnonzero(fold == k)
        pairs = [folds.pair_without[other, k] for other in range(folds.count) if other != k]
        total[test] = weights[k] @ views[:, pairs][:, :, test].mean(axis=1)
    return total


def stack_weights(
    views: Values,
    k: int,
    fold: Indices,
    folds: Folds,
    *,
    is_reference: NDArray[np.bool_],
    weight: Array,
    unit: Indices,
) -> Array:
    """The weights of the views for fold k, (views,), fitted on the rows of the other folds.

    They are 0 if nothing was learned.

    Parameters
    ----------
    views : array (views, pairs, rows)
        Scores by rules that were learned without both folds of a pair.
    fold : int64 array (rows,)
    """
    rows = {other: np.flatnonzero(fold == other) for other in range(folds.count) if other != k}
    train = np.concatenate(list(rows.values()))
    parts = [views[:, folds.pair_without[other, k], of_fold] for other, of_fold in rows.items()]
    inner = np.concatenate(parts, axis=1).astype(np.float64)
    spread = inner.std(axis=1)
    spread[spread <= _SAME * np.abs(inner).max(axis=1)] = np.inf
    inner /= spread[:, None]
    share = _half_on_each_side(weight[train], is_reference[train])
    units = np.count_nonzero(np.bincount(unit[train]))
    weights = calibrate_scores(inner, is_reference[train], share, ridge=_RIDGE / units)
    gain = stack_gain(weights @ inner, is_reference[train], share, unit[train])
    trust = min(1.0, max(0.0, gain - _GATE))  # no jump, at which seeds would differ
    factor: Array = trust * weights / spread
    return factor


def _half_on_each_side(weight: Array, is_reference: NDArray[np.bool_]) -> Array:
    halved: Array = weight / (2.0 * np.where(is_reference, weight[is_reference].sum(), weight[~is_reference].sum()))
    return halved


def round_scores(h: Array, units: int) -> Array:
    """Scores as multiples of 2⁻¹⁰, none beyond the logarithm of the number of units."""
    limit = np.log(units)
    rounded: Array = np.rint(np.clip(h, -limit, limit) / STEP) * STEP
    return rounded


def stack_gain(h: Array, is_reference: NDArray[np.bool_], weight: Array, unit: Indices) -> float:
    """The distance of the mid-point bound of h from 0 in standard errors over units."""
    terms = weight * (np.log(2.0) + log_expit(np.where(is_reference, h, -h)))
    totals = np.bincount(unit, terms)[np.bincount(unit) > 0]
    error = float(np.sqrt(np.sum((totals - totals.mean()) ** 2)))
    gain = float(totals.sum())
    return gain / error if error > 0 else 0.0 if gain <= 0 else np.inf
