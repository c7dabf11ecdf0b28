"""The stack: weights that have not seen the fold they are used on, and trust that grows with the evidence."""

import numpy as np
import pytest
from pytest import approx

from mallow.evidence._folds import Folds, deal_folds
from mallow.evidence._learner import stack_gain, stack_weights


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
