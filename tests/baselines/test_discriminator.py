"""Discriminator accuracy: the best that is possible, both ends, duplicates, the split, the penalty."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from baselines.feature_samples import clouds, normal
from mallow.baselines import discriminator_accuracy
from mallow.baselines._discriminator import _best_penalty, _split_parts
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


@given(pair=clouds(), seed=st.integers(0, 9))
def test_the_split_tests_a_quarter_of_each_side_and_keeps_duplicates_together(pair, seed):
    x, y = pair
    parts = _split_parts(x, y, np.random.default_rng(seed))
    assert set(parts) <= {-1, 0, 1, 2, 3, 4}
    shared = 0
    for part in range(-1, 5):
        rows = [sorted(map(tuple, side[of == part])) for side, of in ((x, parts[: len(x)]), (y, parts[len(x) :]))]
        shared += sum(min(rows[0].count(row), rows[1].count(row)) for row in set(rows[0]))
    everything = [sorted(map(tuple, side)) for side in (x, y)]
    pairs = sum(min(everything[0].count(row), everything[1].count(row)) for row in set(everything[0]))
    assert shared >= pairs
    for of in (parts[: len(x)], parts[len(x) :]):
        assert abs((of == -1).sum() - len(of) / 4) < 2
        counts = [(of == part).sum() for part in range(5)]
        assert max(counts) - min(counts) <= 2


def test_the_data_choose_the_penalty():
    # With 40 features of noise, weak penalties overfit; with one strong feature, they do not.
    rng = np.random.default_rng(0)
    label, fold = np.arange(200) % 2 == 0, np.arange(200) // 2 % 5
    noise = rng.normal(size=(200, 40))
    assert _best_penalty(noise, label, fold) >= 1e3
    clear = rng.normal(size=(200, 1)) + 6.0 * label[:, None] - 3.0
    assert _best_penalty(clear, label, fold) < 10.0


def test_too_few_samples_are_refused():
    with pytest.raises(
        InputError, match="`model` must hold at least 8 samples, to be split into a test and 5 folds; got 7"
    ):
        discriminator_accuracy(normal(20, 2), normal(7, 2))
