"""Without the own unit: closed forms equal what is learned from scratch on all other units."""

import numpy as np
import pytest
from pytest import approx

from held_out import learn
from mallow.evidence import Witness
from mallow.evidence._folds import deal_folds
from mallow.evidence._space import LeaveUnitOut
from mallow.evidence._views import (
    ClosedForms,
    discriminant,
    score_by_folds,
    score_by_units,
    shrink_variances,
    whole_units,
)

STRENGTHS = (0.01, 1.0)
FORMS = ClosedForms(STRENGTHS, True, True)


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


def side_of_rows(space):
    """The set that each row belongs to."""
    sets = np.empty(len(space.points), int)
    for number, own in enumerate(space.places):
        sets[own] = number
    return sets


def test_products_with_a_metric_that_was_made_without_the_own_unit(learner):
    space = learner.space
    leave_out = LeaveUnitOut(space, STRENGTHS)
    rules = np.random.default_rng(1).normal(size=(3, space.points.shape[1]))
    size = len(space.points)
    for place, strength in enumerate(STRENGTHS):
        ridge = strength * space.variances.mean() * np.eye(len(space.variances))
        corrected = leave_out.correct(rules * space.metric(strength) @ space.points.T, place)
        lengths, own = leave_out.radius(place), leave_out.own(rules @ space.points.T, place)
        for unit in range(len(space.keys)):
            rows = np.flatnonzero(space.unit == unit)
            others = space.points[space.unit != unit]
            inverse = np.linalg.inv(others.T @ others / size + ridge)
            mine = space.points[rows]
            assert corrected[:, rows] == approx(rules @ inverse @ mine.T, abs=1e-6)
            assert lengths[rows] * size == approx(np.einsum("ij,jk,ik->i", mine, inverse, mine), abs=1e-5)
            within = (mine * space.metric(strength)) @ mine.T / size
            assert own[:, rows] == approx(rules @ mine.T @ within, abs=1e-9)


def test_rules_learned_without_the_own_unit(learner):
    space, pooled = learner.space, learner._pool((1,))
    scores = score_by_units(pooled, FORMS)
    sets, columns = side_of_rows(space), space.columns
    for place, row in enumerate(pooled.rows):
        others = space.unit != space.unit[row]
        p, q = (others & (sets == side) for side in (0, 1))
        n, m = (len(np.unique(space.unit[side])) for side in (p, q))
        for number, strength in enumerate(STRENGTHS):
            ridge = strength * space.variances.mean() * np.eye(len(space.variances))
            inverse = np.linalg.inv(space.points[others].T @ space.points[others] / len(space.points) + ridge)
            a, b = space.points[p].mean(axis=0), space.points[q].mean(axis=0)
            assert scores[1 + number, place] == approx((a - b) @ inverse @ (space.points[row] - (a + b) / 2), abs=1e-6)
        a, b = shrink_variances((columns[p] ** 2).mean(axis=0), (columns[q] ** 2).mean(axis=0), n, m)
        squares = columns[row] ** 2
        assert scores[0, place] == approx((squares / 2 * (1 / b - 1 / a) + np.log(b / a) / 2).sum(), abs=1e-6)
        for number, partitions in enumerate(space.bins):
            ratios = []
            for labels in partitions:
                bins = labels.max() + 1
                share = [
                    ((labels[side] == labels[row]).mean() * k + 0.5) / (k + bins / 2) for side, k in ((p, n), (q, m))
                ]
                ratios.append(np.log(share[0] / share[1]))
            assert scores[4 + number, place] == approx(np.mean(ratios), abs=1e-6)


def test_the_rule_of_distances_learned_without_the_own_unit(learner):
    space, pooled = learner.space, learner._pool((1,))
    scores = score_by_units(pooled, FORMS)[len(STRENGTHS) + 1]
    sets, radius = side_of_rows(space), pooled.leave_out.radius(len(STRENGTHS))
    for place, row in enumerate(pooled.rows):
        others = space.unit != space.unit[row]
        p, q = (radius[others & (sets == side)] for side in (0, 1))
        slope = (p.mean() - q.mean()) / ((p.var() + q.var()) / 2)
        assert scores[place] == approx((radius[row] - (p.mean() + q.mean()) / 2) * slope, rel=1e-5, abs=1e-8)


def test_a_discriminant_by_hand():
    p, q = np.array([1.0, 2.0, 6.0]), np.array([0.0, 2.0])
    parts = [np.array([value]) for value in (p.mean(), q.mean(), (p**2).mean(), (q**2).mean())]
    slope, middle = discriminant(*parts)
    assert slope == approx((3 - 1) / ((p.var() + q.var()) / 2))
    assert middle == approx(2.0)
    slope, middle = discriminant(*(np.array([value]) for value in (2.0, 1.0, 4.0, 1.0)))  # both sides constant
    assert (slope.tolist(), middle.tolist()) == ([0.0], [1.5])


def test_variances_are_drawn_towards_the_common_one_as_by_twenty_units():
    of_p, of_q = shrink_variances(np.array([4.0]), np.array([1.0]), np.array([60.0]), np.array([30.0]))
    common = (60 * 4 + 30 * 1) / 90
    assert of_p == approx((60 * 4 + 20 * common) / 80)
    assert of_q == approx((30 * 1 + 20 * common) / 50)


def test_rules_learned_without_two_folds(learner):
    space, pooled = learner.space, learner._pool((1, 2))
    folds = deal_folds(pooled.unit, space.keys, pooled.is_reference, folds=3, assignments=2, seed=5)
    scores = score_by_folds(pooled, folds, FORMS, ())
    points, columns = space.points[pooled.rows], space.columns[pooled.rows]
    radius = pooled.leave_out.radius(len(STRENGTHS))[pooled.rows]
    weight = pooled.weight

    def mean(values, rows):
        return weight[rows] @ values[rows] / weight[rows].sum()

    for assignment, fold in enumerate(folds.of_row):
        for number, pair in enumerate(folds.pairs):
            train = ~np.isin(fold, pair)
            p, q = (train & side for side in pooled.sides)
            of_p, of_q = mean(points, p), mean(points, q)
            for place, strength in enumerate(STRENGTHS):
                rule = (of_p - of_q) * space.metric(strength)
                expected = pooled.leave_out.correct((space.points @ rule)[None], place)[0, pooled.rows]
                expected = expected - rule @ (of_p + of_q) / 2
                assert scores[1 + place, assignment, number] == approx(expected, abs=1e-6)
            counts = [len(np.unique(pooled.unit[side])) for side in (p, q)]
            a, b = shrink_variances(mean(columns**2, p), mean(columns**2, q), *counts)
            expected = columns**2 @ (0.5 / b - 0.5 / a) + 0.5 * np.log(b / a).sum()
            assert scores[0, assignment, number] == approx(expected, abs=1e-6)
            a, b = mean(radius, p), mean(radius, q)
            variance = (mean(radius**2, p) - a**2 + mean(radius**2, q) - b**2) / 2
            assert scores[3, assignment, number] == approx((radius - (a + b) / 2) * (a - b) / variance, abs=1e-5)


def test_folds_in_the_mean_over_many_assignments_are_the_closed_form():
    rng = np.random.default_rng(0)
    learner = learn(
        rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + 0.5, witness=Witness(strengths=(0.1,), folds=3)
    )
    pooled = learner._pool((1,))
    forms = ClosedForms((0.1,), False, False)
    folds = deal_folds(pooled.unit, learner.space.keys, pooled.is_reference, folds=3, assignments=400, seed=0)
    scores = score_by_folds(pooled, folds, forms, ())[0]
    rows = np.arange(len(pooled.rows))
    held_out = [
        np.mean([scores[a, folds.pair_without[own, (own + step) % 3], rows] for step in (1, 2)], axis=0)
        for a, own in enumerate(folds.of_row)
    ]
    alone = score_by_units(pooled, forms)[0]
    assert np.corrcoef(np.mean(held_out, axis=0), alone)[0, 1] > 0.999
    assert np.abs(np.mean(held_out, axis=0) - alone).mean() < 0.05 * alone.std()


@pytest.mark.parametrize("rows", [1, 3, 10, 100])
def test_blocks_cut_no_unit(rows):
    unit = np.repeat(np.arange(7), [1, 4, 2, 30, 1, 1, 5])
    blocks = whole_units(unit, rows)
    assert np.concatenate([np.arange(44)[block] for block in blocks]).tolist() == list(range(44))
    assert all(block.start == 0 or unit[block.start - 1] != unit[block.start] for block in blocks)
    assert all(block.stop > block.start for block in blocks)
