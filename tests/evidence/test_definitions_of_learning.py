"""What held-out scores are learned from: folds, rules without the own unit, the stack; compared with their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from held_out import learn
from mallow.evidence import (
    Witness,
    _space,
)
from mallow.evidence._learner import _half_on_each_side, stack_gain, stack_weights
from mallow.evidence._space import LeaveUnitOut
from mallow.evidence._units import Folds, deal_folds, scatter

layouts = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(any), min_size=3, max_size=30)


def lay_out(sizes):
    """Units with so many rows of the reference and of the model: the unit and side of each row."""
    unit = [number for number, (p, q) in enumerate(sizes) for _ in range(p + q)]
    side = [flag for p, q in sizes for flag in [True] * p + [False] * q]
    return np.array(unit), np.array(side)


def keys_of(count, seed=0):
    return np.random.default_rng(seed).integers(2**63, size=count, dtype=np.uint64)


@given(layouts, st.integers(3, 5))
def test_folds_cut_no_unit_and_are_even(sizes, folds):
    unit, is_reference = lay_out(sizes)
    own = deal_folds(unit, keys_of(len(sizes)), is_reference, folds=folds)
    assert all(len(set(own[unit == number])) == 1 for number in range(len(sizes)))
    for side in (is_reference, ~is_reference):
        units = [len(set(unit[side & (own == fold)])) for fold in range(folds)]
        assert max(units) - min(units) <= 1


@given(layouts)
def test_neither_order_nor_the_names_of_the_sides_matter(sizes):
    unit, is_reference = lay_out(sizes)
    keys = keys_of(len(sizes))
    dealt = deal_folds(unit, keys, is_reference, folds=3)
    assert np.array_equal(deal_folds(unit, keys, ~is_reference, folds=3), dealt)
    order = np.random.default_rng(0).permutation(len(sizes))
    place = np.argsort(order)
    assert np.array_equal(deal_folds(place[unit], keys[order], is_reference, folds=3), dealt)


def test_other_keys_give_other_folds():
    unit, is_reference = lay_out([(1, 1)] * 50)
    every = [deal_folds(unit, keys_of(50, seed), is_reference, folds=5) for seed in range(8)]
    same = [(a == b).mean() for i, a in enumerate(every) for b in every[:i]]
    assert 0.0 < min(same) < max(same) < 0.5


def test_pairs_of_folds():
    folds = Folds(4)
    assert folds.pairs == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert folds.kept[1].tolist() == [0, 1, 0, 1]
    for first in range(4):
        for second in range(4):
            number = folds.pair_without[first, second]
            assert number == -1 if first == second else set(folds.pairs[number]) == {first, second}


@pytest.mark.parametrize("sizes", [[(1, 0)] * 2 + [(0, 1)] + [(1, 1)]], ids=["few of each kind"])
def test_every_fold_gets_a_unit_of_either_side_where_there_are_enough(sizes):
    # A unit of the reference alone, one of the model alone and one of both must not share a fold while another has none.
    unit, is_reference = lay_out([*sizes, (0, 1)])
    for seed in range(20):
        own = deal_folds(unit, keys_of(5, seed), is_reference, folds=3)
        assert set(own[is_reference]) == set(own[~is_reference]) == {0, 1, 2}


# --- the stack


def setting(pairs=100, views=2, seed=0, gap=1.0):
    """Scores by two views, the second one noise, of units with one row of each side."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(pairs), 2)
    is_reference = np.tile([True, False], pairs)
    keys = rng.integers(2**63, size=pairs, dtype=np.uint64)
    folds, fold = Folds(5), deal_folds(unit, keys, is_reference, folds=5)
    scores = rng.normal(size=(views, len(folds.pairs), 2 * pairs))
    scores[0] += np.where(is_reference, gap, -gap)
    options = {"is_reference": is_reference, "weight": np.full(2 * pairs, 0.5 / pairs), "unit": unit}
    return scores, folds, fold, options


def stack(scores, folds, fold, options):
    """h of each row: the weights for its fold times the mean of what rules without its fold say."""
    h = np.zeros(len(fold))
    for k in range(folds.count):
        own = fold == k
        pairs = [folds.pair_without[other, k] for other in range(folds.count) if other != k]
        h[own] = stack_weights(scores, k, fold, folds, **options) @ scores[:, pairs].mean(axis=1)[:, own]
    return h


def test_scores_are_calibrated_log_ratios():
    scores, folds, fold, options = setting(pairs=3000)
    h = stack(scores, folds, fold, options)
    # Each of four rules has noise of its own: their mean has the log-ratio 2x/(1/4) where each has 2x.
    mean = np.mean([scores[0, folds.pair_without[fold, k], np.arange(6000)] for k in range(5)], axis=0)
    assert np.corrcoef(h, mean)[0, 1] > 0.9
    slope = np.polyfit(scores[0].mean(axis=0), h, 1)[0]
    assert slope == approx(2.0, abs=0.3)


def test_what_the_rows_of_a_fold_are_does_not_change_what_they_are_judged_by():
    scores, folds, fold, options = setting()
    own = fold == 2
    h = stack(scores, folds, fold, options)
    assert (h[own] != 0).all()
    other = scores.copy()
    for k in range(5):  # scores of rows of fold 2 among those that weights are fitted on
        if k != 2:
            other[:, folds.pair_without[2, k]][:, own] *= -3.0
    sides = options | {"is_reference": options["is_reference"] ^ own}
    assert stack(scores, folds, fold, sides)[own] == approx(h[own], abs=1e-12)
    assert not np.allclose(stack(other, folds, fold, options)[~own], h[~own])


def test_where_nothing_is_found_scores_are_exactly_0():
    zero = sum((stack(*setting(pairs=40, seed=seed, gap=0.0)) == 0).mean() for seed in range(20)) / 20
    assert zero > 0.6
    scores, folds, fold, options = setting(gap=-1.0)  # reversed: weights are never negative
    assert (stack(scores[:1], folds, fold, options) == 0).all()


def test_trust_grows_without_a_jump():
    scores, folds, fold, options = setting(pairs=60, seed=1, gap=0.0)
    sizes = []
    for gap in np.linspace(0.0, 0.4, 161):
        moved = scores[:1] + np.where(options["is_reference"], gap, -gap)
        sizes.append(np.abs(stack(moved, folds, fold, options)[fold == 0]).mean())
    assert sizes[0] == 0.0
    assert sizes[-1] > 0.1
    assert np.abs(np.diff(sizes)).max() < 0.1 * max(sizes)


def test_a_view_that_says_the_same_of_all_counts_nothing():
    scores, folds, fold, options = setting()
    constant = np.concatenate([scores, np.full((1, *scores.shape[1:]), 5.0)])
    assert stack(constant, folds, fold, options) == approx(stack(scores, folds, fold, options), abs=1e-9)


@pytest.mark.parametrize("copies", [1, 3])
def test_gain_is_that_of_a_mean_over_units(copies):
    rng = np.random.default_rng(0)
    h = rng.normal(size=40)
    is_reference = np.tile([True, False], 20)
    unit = np.repeat(np.arange(20), 2)
    repeated = [np.repeat(values, copies) for values in (h, is_reference, np.full(40, 1 / 40) / copies, unit)]
    gain = stack_gain(*repeated)
    totals = np.log(2) - np.log1p(np.exp(np.where(is_reference, -h, h)))
    units = totals.reshape(20, 2).mean(axis=1)
    assert gain == approx(units.mean() / (units.std() / np.sqrt(20)))
    assert stack_gain(np.zeros(4), np.arange(4) < 2, np.full(4, 0.25), np.arange(4)) == 0.0
    assert stack_gain(np.array([9.0, 9, -9, -9]), np.arange(4) < 2, np.full(4, 0.25), np.arange(4)) == np.inf


# --- without the own unit


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


# --- keys, weights of sides, constant views


def test_keys_are_scattered_as_by_splitmix64():
    # The outputs of splitmix64 with the seed 1234567, as the tests of other implementations have them.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(scatter(np.array([1234567], np.uint64), step)[0]) for step in range(4)] == expected


def test_folds_do_not_depend_on_the_numbers_of_units_where_both_sides_have_equally_many():
    rng = np.random.default_rng(0)
    keys = rng.integers(2**63, size=8, dtype=np.uint64)
    is_reference = np.arange(8) < 4
    expected = deal_folds(np.arange(8), keys, is_reference, folds=3)
    for _ in range(10):
        order = rng.permutation(8)  # of the numbers; the rows stay
        assert np.array_equal(deal_folds(np.argsort(order), keys[order], is_reference, folds=3), expected)


def test_both_sides_count_half_whatever_their_weights():
    is_reference, weight = np.array([True, False, False, True, False]), np.array([1.0, 2.0, 3.0, 4.0, 15.0])
    assert _half_on_each_side(weight, is_reference) == approx([0.1, 0.05, 0.075, 0.4, 0.375])


@pytest.mark.parametrize("constant", [5.0, -5.0, 0.0])
def test_a_view_that_says_the_same_of_all_counts_nothing_whatever_it_says(constant):
    rng = np.random.default_rng(0)
    unit, is_reference = np.repeat(np.arange(60), 2), np.tile([True, False], 60)
    fold = deal_folds(unit, np.arange(60, dtype=np.uint64), is_reference, folds=3)
    scores = rng.normal(size=(1, 3, 120)) + np.where(is_reference, 1.0, -1.0)
    rounding = constant * (1.0 + 1e-15 * rng.normal(size=(1, 3, 120)))
    options = {"is_reference": is_reference, "weight": np.full(120, 1 / 120), "unit": unit}
    alone, both = (
        stack_weights(views, 0, fold, Folds(3), **options) for views in (scores, np.concatenate([scores, rounding]))
    )
    assert alone[0] > 0
    assert both == approx([alone[0], 0.0], abs=1e-9)


def test_units_are_left_out_alike_in_one_block_and_in_many(monkeypatch):
    rng = np.random.default_rng(0)
    ids = [name for name, size in enumerate([1, 2, 3, 6, 1, 2, 3, 6, 1, 1]) for _ in range(size)]
    space = learn((rng.normal(size=(26, 7)), ids), (rng.normal(size=(12, 7)), range(12))).space
    values = rng.normal(size=(2, len(space.points)))
    whole = LeaveUnitOut(space.points, space.variances, space.unit, (0.1, 1.0))
    monkeypatch.setattr(_space, "_NUMBERS", 1)  # each unit is a block
    blocks = LeaveUnitOut(space.points, space.variances, space.unit, (0.1, 1.0))
    for place in (0, 1):
        assert blocks.correct(values, place) == approx(whole.correct(values, place), rel=1e-9)
