"""The witness: a function that tells model from reference, learned on other samples than those it is judged on.

h(x) estimates log p(x)/q(x). It is a weighted sum of cheap views of the samples: linear discriminants in the full
width at several strengths of regularisation, differences of variances, bins, and whatever a user adds. Nothing is
judged by what it was learned from:

- The rules of the views are learned without the unit that they judge; in closed form, so that all other units count
  (`_unit_views.py`). Only a user's own views go by folds.
- Their weights, which also calibrate them, come from folds that never cut a unit (`_stack.py`): fitted outside the
  fold of the unit, on scores by rules that were learned without both this fold and that of the sample scored
  (`_fold_views.py`). A few assignments to folds are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from mallow._checks import positive, seed_from, whole
from mallow.embed import embed_all
from mallow.engine import cores, ordered_map, single_threaded_blas, start
from mallow.errors import InputError
from mallow.estimate import Features, checked_pair
from mallow.evidence._blocks import Rows, at_once
from mallow.evidence._folds import Pooled, deal_folds
from mallow.evidence._identity import IdentityTest, run_identity_test
from mallow.evidence._many import ManyLearner
from mallow.evidence._space import LeaveUnitOut, Space, find_space
from mallow.evidence._stack import STEP, round_scores, stack_views
from mallow.evidence._units import Units, find_units
from mallow.evidence._views import RADIUS, ClosedForms, View, score_by_folds, score_by_units
from mallow.samples import Samples
from mallow.theory import Array, Masses

_STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # chosen: on text and Gaussians each of them is the best somewhere
_ASSIGNMENTS = ((8000, 16), (math.inf, 8))  # chosen: up to so many samples, so many assignments
_MANY_ROWS = 2**15  # chosen: beyond so many samples, and so many units, rules are learned without a fold, not a unit
_MANY_UNITS = 2**13
_NUMBERS = 2**25  # chosen: numbers held at once, 256 MB


@dataclass(frozen=True)
class Witness:
    """How held-out evidence is learned: the views, and the folds.

    Called on two samples like an estimator, it returns the masses of its likelihood ratio.

    Parameters
    ----------
    strengths : tuple of float
        Of the regularisation of the linear discriminants, in units of the mean variance along an axis.
    variances : bool
        Whether to look at variances: of each column, and of the distance from the centre.
    bins : bool
        Whether to look at bins: partitions by k-means, with few bins and with many.
    views : tuple of functions
        More views: ``view(reference, model, others) -> scores of the others``, larger for samples that look more like
        the reference. It is called for each pair of folds and each assignment, with rows of features.
    folds : int
        At least 3. Where a side has fewer units, nothing is learned.
    assignments : int or None
        Assignments of units to folds that are averaged. None: 16, or 8 with more than 8,000 samples. The z of the
        mid-point then varies by 0.05 to 0.3 from seed to seed (decoders of GPT-2 and Gaussians).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(300, 5)), rng.normal(0.8, 1.0, size=(300, 5))
    >>> Witness()(x, y).p.shape
    (600,)
    """

    strengths: tuple[float, ...] = _STRENGTHS
    variances: bool = True
    bins: bool = True
    views: tuple[View, ...] = ()
    folds: int = 5
    assignments: int | None = None

    scale: ClassVar[float] = 5.0

    def __post_init__(self) -> None:
        for name, values in (("strengths", self.strengths), ("views", self.views)):
            if not isinstance(values, tuple):
                raise InputError(f"`{name}` must be a tuple; got {values!r}.")
        for strength in self.strengths:
            positive("strengths", strength, why=" It keeps directions of little variance from deciding alone.")
        for view in self.views:
            if not callable(view):
                raise InputError(f"`views` must be functions (reference, model, others) -> scores; got {view!r}.")
        if not (self.strengths or self.variances or self.bins or self.views):
            raise InputError("`Witness` needs at least one view; strengths, variances, bins and views are all empty.")
        whole("folds", self.folds, least=3)
        if self.assignments is not None:
            whole("assignments", self.assignments, least=1)

    def __call__(self, x: Any, y: Any, *, paired: bool = False, rng: int | np.random.Generator | None = 0) -> Masses:
        """The masses of both samples by the likelihood ratio that was learned without each of them.

        With `paired`, it was learned without row i of the other side, too.
        """
        return self._learn(*checked_pair(x, y), rng, paired=paired)

    def prepare(self, x: Features, y: Features) -> tuple[Features, Features]:
        """Nothing needs to be prepared for repeats."""
        return x, y

    def masses(self, prepared: tuple[Features, Features], rng: int | np.random.Generator | None) -> Masses:
        """Learn once; all samples are independent."""
        return self._learn(*prepared, rng)

    def _learn(
        self, x: Features, y: Features, rng: int | np.random.Generator | None, *, paired: bool = False
    ) -> Masses:
        sides = embed_all({"x": Samples.trusted(features=x), "y": Samples.trusted(features=y)}, paired=paired)
        units = find_units(*sides.values())
        at_x, at_y = make_learner(self, [x, y], units, seed_from(rng)).scores(1)
        return pooled_masses(at_x, at_y)


def pooled_masses(at_p: Array, at_q: Array) -> Masses:
    """The masses that log-ratios give to all samples, as two distributions: every cost stays in its range."""
    return Masses.from_log_ratio(at_p, at_q, pooled=True)


def make_learner(witness: Witness, sets: Sequence[Features | Rows], units: Units, seed: int) -> AnyLearner:
    """The reference and its systems, ready for witnesses; many samples are learned from in another way.

    Rows that are not in memory must be many (`are_many`).
    """
    arrays = [own for own in sets if isinstance(own, np.ndarray)]
    if are_many(witness, units) or len(arrays) < len(sets):
        return ManyLearner(witness, sets, units, seed)
    return Learner(witness, arrays, units, seed)


def are_many(witness: Witness, units: Units) -> bool:
    """Whether there are so many samples, and units, that they are learned from by sums over folds."""
    if sum(map(len, units.sets)) <= _MANY_ROWS or witness.views:
        return False
    return int(np.count_nonzero(np.bincount(np.concatenate(units.sets)))) >= _MANY_UNITS


class Learner:
    """The reference and its systems, ready for witnesses of any pair: coordinates, bins and folds are shared."""

    together = True  # whether its test and its scores may be computed at the same time

    def __init__(self, witness: Witness, sets: Sequence[Features], units: Units, seed: int) -> None:
        self.witness, self.sets, self.units = witness, sets, units
        self.space: Space = find_space(sets, units, seed)
        self._seed = seed

    def scores(self, *systems: int) -> tuple[Array, ...]:
        """h of every sample of the reference and of the systems, one array each; several systems count as one model.

        All are 0 where nothing was learned, or where a side has fewer units than there are folds. No score exceeds the
        logarithm of the number of units: no sample is worth more than all others together. They are rounded to
        multiples of 2⁻¹⁰, so that they are the same on every processor.
        """
        pooled = self._pool(systems)
        total = np.zeros(len(self.space.unit))
        if min(pooled.units_of_sides) >= self.witness.folds:
            total[pooled.rows] = round_scores(self._learn(pooled), sum(pooled.units_of_sides))
        return tuple(total[self.space.places[place]] for place in (0, *systems))

    def test(self, system: int, *, permutations: int, seed: int) -> IdentityTest:
        """The test of identity of the reference and one system."""
        units = self.units.pair(system)
        return run_identity_test(self.space, units, system, permutations=permutations, seed=seed)

    @property
    def tolerance(self) -> float:
        """By how much a score may differ on another processor."""
        return 0.0 if self.space.columns.dtype == np.float64 else STEP

    def _pool(self, systems: Sequence[int]) -> Pooled:
        weight = np.zeros(len(self.space.unit))
        for place in (0, *systems):
            own = self.space.places[place]
            weight[own] = 0.5 / len(own) / (len(systems) if place else 1)
        is_reference = np.zeros(len(weight), np.bool_)
        is_reference[self.space.places[0]] = True
        rows = np.flatnonzero(weight)
        return Pooled(self.space, rows, is_reference[rows], weight[rows], self._leave_out, self.sets)

    def _learn(self, pooled: Pooled) -> Array:
        """h of every row: the mean over assignments."""
        witness = self.witness
        is_reference, unit = pooled.is_reference, pooled.unit
        assignments = witness.assignments or next(count for rows, count in _ASSIGNMENTS if len(unit) <= rows)
        folds = deal_folds(
            unit,
            self.space.keys,
            is_reference,
            folds=witness.folds,
            assignments=assignments,
            seed=self._seed,
        )
        forms = ClosedForms(witness.strengths, witness.variances, witness.bins)
        number = len(witness.strengths) + 2 * witness.variances + 2 * witness.bins + len(witness.views)
        step = at_once(_NUMBERS, len(unit) * len(folds.pairs) * number)
        total = np.zeros(len(unit))
        with single_threaded_blas():
            judged = start(partial(score_by_units, pooled, forms))
            for low in range(0, assignments, step):
                some = folds.some(slice(low, low + step))
                views = score_by_folds(pooled, some, forms, witness.views)
                stack = partial(stack_views, is_reference=is_reference, weight=pooled.weight, unit=unit)
                tasks = [
                    partial(stack, views[:, at], judged.result(), own, folds) for at, own in enumerate(some.of_row)
                ]
                for h in ordered_map(lambda task: task(), tasks, cores()):
                    total += h
        return total / assignments

    @cached_property
    def _leave_out(self) -> Future[LeaveUnitOut]:
        """Corrections for the own unit, made once for all pairs."""
        return start(partial(LeaveUnitOut, self.space, (*self.witness.strengths, RADIUS)))


AnyLearner = Learner | ManyLearner
