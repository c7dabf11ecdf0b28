"""The witness: a function that distinguishes model and reference, learned and judged on different samples.

h(x) estimates log p(x)/q(x). It is a weighted sum of cheap views of the samples: linear discriminants in the full
width at several strengths of regularisation, products of leading components, differences of variances, bins, and a
user's own views. No sample is judged by rules that were learned from it (`_learner.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mallow._checks import positive, whole
from mallow.embed import embed_all
from mallow.errors import InputError
from mallow.estimate import Features, checked_pair
from mallow.evidence._blocks import Rows
from mallow.evidence._learner import Learner, Options
from mallow.evidence._memory_learner import MemoryLearner
from mallow.evidence._pass_learner import PassLearner
from mallow.evidence._units import Units, find_units
from mallow.samples import Samples
from mallow.theory import Array, Masses

_MANY_ROWS = 2**15  # chosen: beyond this many samples and units, rows are read in passes
_MANY_UNITS = 2**13


@dataclass(frozen=True)
class Witness(Options):
    """How held-out evidence is learned: the views, and the folds.

    When called on two samples, like an estimator, it returns the masses of its likelihood ratio.

    Parameters
    ----------
    strengths : tuple of float
        Strengths of the regularisation of the linear discriminants, in units of the mean variance along an axis.
    variances : bool
        Whether to use variances: of each column, and of all columns together.
    products : bool
        Whether to use products of two leading components, which show their correlation.
    bins : bool
        Whether to use bins: partitions by k-means, with few bins and with many.
    views : tuple of functions
        More views: ``view(reference, model, others) -> scores of the others``, larger for samples that look more like
        the reference. It is called for each pair of folds and each assignment, with rows of features.
    folds : int
        At least 3. If a side has fewer units, nothing is learned.
    assignments : int or None
        Assignments of units to folds that are averaged. None: 16, or 8 with more than 8,000 samples.
    independent_samples : bool
        Whether several samples of a prompt are independent given the prompt, so that the test may also exchange them
        within prompts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(300, 5)), rng.normal(0.8, 1.0, size=(300, 5))
    >>> Witness()(x, y).p.shape
    (600,)
    """

    scale: ClassVar[float] = 5.0

    def __post_init__(self) -> None:
        for name, values in (("strengths", self.strengths), ("views", self.views)):
            if not isinstance(values, tuple):
                raise InputError(f"`{name}` must be a tuple; got {values!r}.")
        for strength in self.strengths:
            positive("strengths", strength, why=" It keeps directions of little variance from deciding everything.")
        for view in self.views:
            if not callable(view):
                raise InputError(f"`views` must be functions (reference, model, others) -> scores; got {view!r}.")
        if not (self.strengths or self.variances or self.products or self.bins or self.views):
            raise InputError(
                "`Witness` needs at least one view; strengths, variances, products, bins and views are all empty."
            )
        whole("folds", self.folds, least=3)
        if self.assignments is not None:
            whole("assignments", self.assignments, least=1)

    def __call__(self, x: Any, y: Any, *, paired: bool = False, rng: int | np.random.Generator | None = 0) -> Masses:
        """The masses of both samples by the likelihood ratio that was learned without each of them.

        With `paired`, it was also learned without row i of the other side.
        """
        return self._learn(*checked_pair(x, y), paired=paired)

    def prepare(self, x: Features, y: Features) -> tuple[Features, Features]:
        """Prepare nothing, since repeats need nothing."""
        return x, y

    def masses(self, prepared: tuple[Features, Features], rng: int | np.random.Generator | None) -> Masses:
        """Learn once. All samples are independent."""
        return self._learn(*prepared)

    def _learn(self, x: Features, y: Features, *, paired: bool = False) -> Masses:
        sides = embed_all({"x": Samples.trusted(features=x), "y": Samples.trusted(features=y)}, paired=paired)
        units = find_units(*sides.values())
        at_x, at_y = make_learner(self, [x, y], units).scores(1)
        return pooled_masses(at_x, at_y)


def pooled_masses(at_p: Array, at_q: Array) -> Masses:
    """The masses that log-ratios give to all samples, as two distributions, so that every cost stays in its range."""
    return Masses.from_log_ratio(at_p, at_q, pooled=True)


def make_learner(
    witness: Witness,
    sets: Sequence[Features | Rows],
    units: Units,
    widths: Mapping[str, int] | None = None,
    texts: Mapping[str, int] | None = None,
) -> Learner:
    """The reference and its systems, ready for witnesses; many samples are read in passes.

    Rows that are not in memory must be many (`are_many`). `widths` has the number of columns of each space, by name.
    With many samples the spaces are not distinguished, since few columns then cost nothing. With `texts`, the widths of
    the spaces that do not use prompts, rows in memory have scores by texts alone, too (`Learner.choices`), unless there
    are a user's own views, which see all columns.
    """
    arrays = [rows for rows in sets if isinstance(rows, np.ndarray)]
    if are_many(witness, units) or len(arrays) < len(sets):
        return PassLearner(witness, sets, units)
    return MemoryLearner(witness, arrays, units, widths, None if witness.views else texts)


def are_many(witness: Witness, units: Units) -> bool:
    """Whether there are so many samples and units that rules are learned by sums over folds."""
    if sum(map(len, units.sets)) <= _MANY_ROWS or witness.views:
        return False
    return int(np.count_nonzero(np.bincount(np.concatenate(units.sets)))) >= _MANY_UNITS
