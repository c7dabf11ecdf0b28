"""Held-out scores of rows in memory: each space has its views, corrected for the unit of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, start
from mallow.estimate import Features
from mallow.evidence._blocks import Numbers, Values
from mallow.evidence._folds import Cells, deal_cells
from mallow.evidence._identity import Draws, IdentityTest
from mallow.evidence._learner import STEP, Learner, Options, Part
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
from mallow.evidence._units import Indices, Units, have_several
from mallow.evidence._within import run_test
from mallow.theory import Array

Flags = NDArray[np.bool_]


class SpaceViews:
    """The views of one space of rows in memory.

    Axes and bins follow units with several rows of one side: its rows lie farther out along the leading axes than rows
    of units that were not used to find the axes, and in bins of their own. Rules about products and bins would tell the
    sides apart by this. With `half`, rows of one half of the units therefore get the products and bins that the other
    half determined. Principal axes of all rows only serve linear rules, which are corrected for the unit of each row.
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
        half = self._cell_of_row % 2 == 0 if self._cells is not None and have_several(units) else None
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
