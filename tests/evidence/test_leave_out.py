"""Without the own unit: closed forms equal what is learned from scratch on all other units."""

import numpy as np
import pytest
from pytest import approx

from held_out import learn
from mallow.evidence import Witness
from mallow.evidence._space import LeaveUnitOut

STRENGTHS = (0.01, 1.0)


def draw(sizes, width=5, seed=0):
    """Reference, model and another system; `sizes`: how many rows of the reference each unit has."""
    rng = np.random.default_rng(seed)
    ids = [name for name, size in enumerate(sizes) for _ in range(size)]
    others = [int(name) for name in rng.integers(0, len(sizes) + 5, 37)]
    third = [int(name) for name in rng.integers(0, len(sizes), 20)]
    return [(rng.normal(size=(len(own), width)), own) for own in (ids, others, third)]


CASES = {
    "single rows": [1] * 40,
    "several rows": [1, 2, 3, 4, 5, 1, 1, 2, 6] * 3,  # more than the small forms, up to more than the width
    "a large unit": [60, *[1] * 30],  # more rows than axes
}


@pytest.fixture(params=CASES, scope="module")
def learner(request):
    return learn(*draw(CASES[request.param]), witness=Witness(strengths=STRENGTHS, folds=3))


def test_products_with_a_metric_that_was_made_without_the_own_unit(learner):
    space = learner.space
    leave_out = LeaveUnitOut(space.points, space.variances, space.unit, STRENGTHS)
    rules = np.random.default_rng(1).normal(size=(3, space.points.shape[1]))
    size = len(space.points)
    for place, strength in enumerate(STRENGTHS):
        ridge = strength * space.variances.mean() * np.eye(len(space.variances))
        corrected = leave_out.correct(
            rules / (space.variances + strength * space.variances.mean()) @ space.points.T, place
        )
        for unit in range(int(space.unit.max()) + 1):
            rows = np.flatnonzero(space.unit == unit)
            others = space.points[space.unit != unit]
            inverse = np.linalg.inv(others.T @ others / size + ridge)
            mine = space.points[rows]
            assert corrected[:, rows] == approx(rules @ inverse @ mine.T, abs=1e-6)


def test_rules_from_sums_are_those_of_the_rows_they_keep(learner):
    """Means, variances and bins of the reference and of two systems, in the cells that a rule is learned from."""
    space, cells, rows = learner.space, learner._cells, learner._views[0].rows
    kept = np.random.default_rng(2).random((4, len(cells))) < 0.7
    rules = learner._teachers(cells)[0].learn(kept.astype(float), (1,))
    for number, own in enumerate(kept):
        p, q = (place[own[learner._cell_of_row[place]]] for place in space.places[:2])
        for points, variances, found in (
            (rows.points, space.variances, rules.points[0, number]),
            (rows.products, learner._views[0]._products.result()[1], rules.products[0, number]),
        ):
            strength = STRENGTHS[0] if points is rows.points else 0.1
            apart = points[p].mean(axis=0) - points[q].mean(axis=0)
            assert found == approx(apart / (variances + strength * variances.mean()), abs=1e-8)
        n, m = (len(np.unique(space.unit[side])) for side in (p, q))
        a, b = ((rows.columns[side] ** 2).mean(axis=0) for side in (p, q))
        common = (n * a + m * b) / (n + m)
        a, b = (n * a + 20 * common) / (n + 20), (m * b + 20 * common) / (m + 20)
        assert rules.quadratic[number] == approx(0.5 / b - 0.5 / a, rel=1e-6, abs=1e-8)
        labels, tables = rows.labels[0], rules.bins[0]
        count = tables.shape[-1]
        shares = [
            (np.bincount(labels[0, side], minlength=count) / len(side) * k + 0.5) / (k + count / 2)
            for side, k in ((p, n), (q, m))
        ]
        assert tables[0, number] * len(labels) == approx(np.log(shares[0] / shares[1]), abs=1e-8)
