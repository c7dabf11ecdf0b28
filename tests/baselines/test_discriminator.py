"""Discriminator accuracy: the best that is possible, both ends, duplicates, the split, the penalty."""

import math

import numpy as np
import pytest
from pytest import approx

from baselines.feature_samples import normal
from mallow.baselines import discriminator_accuracy
from mallow.errors import InputError


def test_it_reaches_the_best_accuracy():
    # Two Gaussians at distance 2δ: the best accuracy of any classifier is Φ(δ).
    x, y = normal(4000, 5), normal(4000, 5, seed=1)
    y[:, 2] += 1.0
    assert discriminator_accuracy(x, y) == approx(0.6915, abs=4 * math.sqrt(0.21 / 2000))


def test_separable_and_equal_distributions():
    x = normal(400, 6)
    assert discriminator_accuracy(x, normal(300, 6, mean=20.0, seed=1)) == 1.0
    accuracies = [discriminator_accuracy(x, normal(400, 6, seed=seed)) for seed in range(1, 9)]
    assert np.mean(accuracies) == approx(0.5, abs=4 * 0.5 / math.sqrt(200 * 8))
    assert discriminator_accuracy(x, x + 1e-3 * normal(400, 6, seed=1)) < 0.6


@pytest.mark.parametrize("d", [3, 200])
def test_duplicates_of_the_reference_do_not_lower_it(d):
    # With a random split, duplicates would be learnt with the other label: far below 0.5 with more features than samples.
    x = normal(120, d)
    assert discriminator_accuracy(x, x[::-1]) == 0.5
    twice = np.repeat(x, 2, axis=0)
    assert discriminator_accuracy(twice, twice.copy()) == 0.5
    half = np.concatenate([x[:60], normal(60, d, seed=1)])
    assert discriminator_accuracy(x, half) > 0.35


def test_guessing_the_majority_scores_a_half():
    # Always answering "reference" is right 20 times out of 21 and scores 0.5 here; two Gaussians at distance 2 allow 0.84.
    x, y = normal(2000, 3), normal(100, 3, seed=1)
    assert discriminator_accuracy(x, y) == approx(0.5, abs=4 * 0.5 / math.sqrt(50))
    y[:, 0] += 2.0
    assert discriminator_accuracy(x, y) == approx(0.84, abs=4 * 0.37 / math.sqrt(50))
    assert discriminator_accuracy(x, y) > 0.7


@pytest.mark.parametrize("seed", range(3))
def test_it_ignores_the_order_of_rows_and_depends_on_rng(seed):
    x, y, rng = normal(90, 3), normal(80, 3, mean=0.5, seed=1), np.random.default_rng(seed)
    accuracy = discriminator_accuracy(x, y, rng=seed)
    assert discriminator_accuracy(rng.permutation(x), rng.permutation(y), rng=seed) == approx(accuracy, abs=1e-12)
    assert discriminator_accuracy(x, y, rng=np.random.default_rng(seed)) == accuracy
    assert len({discriminator_accuracy(x, y, rng=other) for other in range(4)}) > 1


def test_too_few_samples_are_refused():
    with pytest.raises(
        InputError, match="`model` must hold at least 8 samples, to be split into a test and 5 folds; got 7"
    ):
        discriminator_accuracy(normal(20, 2), normal(7, 2))
