"""The witness: a function that distinguishes model and reference, learned and judged on different samples.

h(x) estimates log p(x)/q(x). It is a weighted sum of cheap views of the samples: linear discriminants in the full
width at several strengths of regularisation, products of leading components, differences of variances, bins, and a
user's own views. No sample is judged by rules that were learned from it (`_learner.py`).
Here the rows are in memory: each space has its views, corrected for the unit of each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.embed import embed_all
from mallow.engine import cores, ordered_map, start
from mallow.errors import InputError
from mallow.estimate import Features, checked_pair
from mallow.evidence._blocks import Rows, Values
from mallow.evidence._identity import Draws, IdentityTest
from mallow.evidence._learner import STEP, Learner, Options, Part
from mallow.evidence._pass_learner import PassLearner
from mallow.evidence._rules import (
    PRODUCT_STRENGTHS,
    CellSums,
    Coordinates,
    Rules,
    Teacher,
    count_product_axes,
    multiply_axes,
    sum_cells,
)
from mallow.evidence._space import (
    LeaveUnitOut,
    Space,
    find_leading,
    find_space_beside,
    find_spaces,
    principal_axes,
    regularised_inverse,
)
from mallow.evidence._units import Cells, Indices, Numbers, Units, are_copies, are_uneven, deal_cells, find_units
from mallow.evidence._within import run_test
from mallow.samples import Samples
from mallow.theory import Array, Masses

_MANY_ROWS = 2**15  # chosen: beyond this many samples and units, rows are read in passes
_MANY_UNITS = 2**13

Flags = NDArray[np.bool_]


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


class SpaceViews:
    """The views of one space of rows in memory.

    Axes and bins follow units with several rows: these lie farther out along the leading axes than rows of units that
    were not used to find the axes, and in bins of their own. If such units are not alike on both sides, rules about
    products and bins tell the sides apart by this. With `half`, rows of one half of the units therefore get the
    products and bins that the other half determined. Principal axes of all rows only serve linear rules, which are
    corrected for the unit of each row.
    """

    def __init__(
        self, witness: Options, space: Space, half: Flags | None = None, *, fitted: Flags | None = None
    ) -> None:
        self._witness, self._space, self._fitted = witness, space, fitted
        self._other: SpaceViews | None = None
        if half is not None:
            self._fitted, self._other = ~half, SpaceViews(witness, space, fitted=half)
            self._of_other = np.flatnonzero(~half)
        self._leading = start(self._find_leading)
        self._products = start(self._find_products)
        self._corrections = start(self._leave_units_out)

    def _find_leading(self) -> tuple[Values, Array, tuple[Indices, ...]]:
        """The rows on leading axes, the variances along these, and the bins."""
        if self._fitted is None:
            return self._space.points, self._space.variances, self._space.bins
        return find_leading(self._space, self._fitted)

    def _find_products(self) -> tuple[Values, Array]:
        """The products of leading components on their principal axes, and the variance along each."""
        points, variances, _ = self._leading.result()
        axes = count_product_axes(points.shape[1], self._space.pair) if self._witness.products else 0
        if not axes:
            return points[:, :0], np.empty(0)
        deviations = np.sqrt(np.maximum(variances[:axes], np.finfo(np.float32).tiny))
        products = multiply_axes(points[:, :axes] / deviations.astype(points.dtype))
        products -= products.mean(axis=0)
        products /= np.maximum(products.std(axis=0), np.finfo(np.float32).tiny)
        return principal_axes(products)

    def _leave_units_out(self) -> tuple[LeaveUnitOut, LeaveUnitOut]:
        """The corrections for the points and for the products."""
        (products, variances), space = self._products.result(), self._space
        strengths = PRODUCT_STRENGTHS if len(variances) else ()
        return (
            LeaveUnitOut(space.points, space.variances, space.unit, self._witness.strengths),
            LeaveUnitOut(products, variances, space.unit, strengths),
        )

    def correct(self, products: Values, number: int) -> Values:
        """See `Correct`."""
        of_points, of_products = self._corrections.result()
        first = len(self._witness.strengths)
        return of_points.correct(products, number) if number < first else of_products.correct(products, number - first)

    @cached_property
    def rows(self) -> Coordinates:
        """All rows of the space."""
        space = self._space
        labels = self._leading.result()[2] if self._witness.bins else ()
        return Coordinates(space.points, self._products.result()[0], space.columns, labels)

    def teacher(self, cells: Cells, cell_of_row: Numbers) -> Teacher:
        """The basis from which rules are learned."""
        rows, witness, space = self.rows, self._witness, self._space
        bins = [int(labels.max()) + 1 for labels in rows.labels]

        def sums(of_set: Indices) -> CellSums:
            return sum_cells(rows.part(of_set), bins, cell_of_row[of_set], len(cells))

        variances = space.variances, self._products.result()[1]
        solvers = partial(_scale, variances[0]), partial(_scale, variances[1])
        strengths = witness.strengths, PRODUCT_STRENGTHS if len(variances[1]) else ()
        sums_of_sets = list(ordered_map(sums, [np.sort(of_set) for of_set in space.places], cores()))
        other = None if self._other is None else self._other.teacher(cells, cell_of_row)
        return Teacher(sums_of_sets, cells.units, solvers, strengths, witness.variances, other)

    def score(self, rules: Rules) -> NDArray[np.floating[Any]]:
        """The score of each row by each rule, (views, rules, rows)."""
        scores = rules.score(self.rows, self.correct)
        if self._other is not None and rules.other is not None:
            scores[:, :, self._of_other] = self._other.score(rules.other)[:, :, self._of_other]
        return scores

    def judge(self, rules: Rules, cell_of_row: Numbers) -> Array:
        """The scores of each row by the rules that were learned without its cell, (views, rows)."""
        scores = rules.judge(self.rows, cell_of_row, self.correct)
        if self._other is not None and rules.other is not None:
            scores[:, self._of_other] = self._other.judge(rules.other, cell_of_row)[:, self._of_other]
        return scores


class MemoryLearner(Learner):
    """A learner of arrays, with the columns of one space, or of several, one after the other.

    With `texts`, the widths of the spaces that do not use prompts, there are scores by texts alone, too. Their features
    are the first columns of the first space.
    """

    def __init__(
        self,
        witness: Options,
        sets: Sequence[Features],
        units: Units,
        widths: Mapping[str, int] | None = None,
        texts: Mapping[str, int] | None = None,
    ) -> None:
        widths = widths or {"": sets[0].shape[1]}
        self.spaces = find_spaces(sets, units, widths)
        self.space = next(iter(self.spaces.values()))
        keys = np.zeros(units.count, np.uint64)  # by the order of the space: independent of units of measurement
        for numbers, rows in zip(units.sets, self.space.places, strict=True):
            keys[numbers] = self.space.unit[rows]
        super().__init__(witness, units, deal_cells(Units(units.sets, keys), witness.folds))
        self._features = [rows[:, : self.space.columns.shape[1]] for rows in sets]
        self.tolerance = 0.0 if all(space.columns.dtype == np.float64 for space in self.spaces.values()) else STEP
        crossed = self._cells is not None and are_uneven(units) and not are_copies(sets, units)
        half = self._cell_of_row % 2 == 0 if crossed else None
        self._views = [SpaceViews(witness, space, half) for space in self.spaces.values()]
        self.choices = [range(len(self._views))]
        if texts is not None:
            of_texts = [number for number, name in enumerate(self.spaces) if name in texts]
            if texts[""] < widths[""]:
                of_texts[0] = len(self._views)
                beside = find_space_beside(self.space, [rows[:, : texts[""]] for rows in sets])
                self._views.append(SpaceViews(witness, beside, half))
            self.choices.append(of_texts)

    def test(self, system: int, draws: Draws) -> IdentityTest:
        """The test of identity of the reference and one system."""
        within = self.witness.independent_samples
        return run_test(self.spaces, self.units.pair(system), system, draws, within=within)

    @cached_property
    def _cell_of_row(self) -> Numbers:
        cell = np.zeros(len(self.space.unit), np.int64)
        for of_set, rows in zip(self._cells.of_set if self._cells else (), self.space.places, strict=True):
            cell[rows] = of_set
        return cell

    def _teachers(self, cells: Cells) -> Sequence[Teacher]:
        return [views.teacher(cells, self._cell_of_row) for views in self._views]

    def _part(self, cells: Cells, systems: Sequence[int]) -> Part:
        places = self.space.places
        weight = np.zeros(len(self.space.unit))
        for number in (0, *systems):
            weight[places[number]] = 0.5 / len(places[number]) / (len(systems) if number else 1)
        is_reference = np.zeros(len(weight), np.bool_)
        is_reference[places[0]] = True
        used = np.flatnonzero(weight)
        features = None
        if self.witness.views:
            every = np.concatenate(self._features)
            ordered = np.empty_like(every)
            ordered[np.concatenate(places)] = every
            features = ordered[used]

        def score(rules: Sequence[Rules]) -> NDArray[np.floating[Any]]:
            parts = [views.score(learned) for learned, views in zip(rules, self._views, strict=True)]
            scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
            return scores if len(used) == len(weight) else scores[..., used]

        return Part(score, self._cell_of_row[used], self.space.unit[used], is_reference[used], weight[used], features)

    def _judge(
        self, rules: Sequence[Rules], weights: Sequence[Array], cells: Cells, systems: Sequence[int]
    ) -> list[list[Array]]:
        parts = [views.judge(learned, self._cell_of_row) for learned, views in zip(rules, self._views, strict=True)]
        judged = np.concatenate(parts)
        by_choice = [np.einsum("rv,vr->r", chosen[self._cell_of_row], judged) for chosen in weights]
        return [[h[self.space.places[number]] for number in (0, *systems)] for h in by_choice]

    def _add(self, h: list[Array], added: Array, systems: Sequence[int]) -> list[Array]:
        places = [self.space.places[number] for number in (0, *systems)]
        used = np.sort(np.concatenate(places))
        return [scores + added[np.searchsorted(used, rows)] for scores, rows in zip(h, places, strict=True)]


def _scale(variances: Array, vectors: Array, strength: float, _: Array) -> Array:
    """Vectors along principal axes times the regularised inverse of the variances."""
    return vectors * regularised_inverse(variances, strength)
