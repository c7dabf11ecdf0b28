"""Kernel distance: the sum over all pairs, its expectation, subsets."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from baselines.feature_samples import clouds, kernel_by_all_pairs, normal
from mallow.baselines import kernel_distance, kernel_distances
from mallow.errors import InputError


@given(pair=clouds(st.floats(-3, 3, width=32)))
def test_it_is_the_sum_over_all_pairs(pair):
    x, y = pair
    expected = kernel_by_all_pairs(x, y)
    assert kernel_distance(x, y) == approx(expected, rel=1e-9, abs=1e-9)
    assert kernel_distance(y, x) == approx(expected, rel=1e-9, abs=1e-9)
    assert kernel_distance(x, x) == approx(kernel_by_all_pairs(x, x), rel=1e-9, abs=1e-9)  # the same array twice


@given(rows=st.integers(1, 40))
@settings(max_examples=15)
def test_it_does_not_depend_on_the_size_of_blocks(rows):
    x, y = normal(37, 5), normal(23, 5, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mallow.baselines._kernel_distance.ROWS", rows)
        assert kernel_distance(x, y) == approx(kernel_by_all_pairs(x, y), rel=1e-9)


def test_it_is_unbiased():
    # The mean over samples of the same distribution is 0, even for samples of 4 and 6 points.
    distances = [kernel_distance(normal(4, 2, seed=2 * i), normal(6, 2, seed=2 * i + 1)) for i in range(600)]
    assert abs(np.mean(distances)) < 4 * np.std(distances) / math.sqrt(len(distances))
    assert min(distances) < 0


def test_float32_features():
    x, y = np.abs(normal(900, 64)).astype(np.float32), np.abs(normal(800, 64, scale=1.1, seed=1)).astype(np.float32)
    assert kernel_distance(x, y) == approx(kernel_by_all_pairs(x.astype(float), y.astype(float)), abs=1e-7)
    # Rows of length 1, as text embeddings have: κ is hardly more than 1 and must not be rounded to it.
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    assert kernel_distance(x, y) == approx(kernel_by_all_pairs(x.astype(float), y.astype(float)), rel=2e-3)
    # Products of 1e30, whose cubes are beyond float32.
    x, y = x * np.float32(1e16), y * np.float32(1e16)
    assert kernel_distance(x, y) == approx(kernel_by_all_pairs(x.astype(float), y.astype(float)), rel=1e-3)


def test_distances_of_subsets():
    x, y = normal(60, 3), normal(50, 3, mean=0.5, seed=1)
    summary = kernel_distances(x, y, subsets=200, size=20, rng=3)
    assert (summary.subsets, summary.size) == (200, 20)
    assert summary == kernel_distances(x, y, subsets=200, size=20, rng=np.random.default_rng(3))
    assert summary != kernel_distances(x, y, subsets=200, size=20, rng=4)
    with pytest.MonkeyPatch.context() as patch:  # a machine with one processor
        patch.setattr("mallow.baselines._kernel_distance.thread_count", lambda: 1)
        assert summary == kernel_distances(x, y, subsets=200, size=20, rng=3)
    assert summary.mean == approx(kernel_distance(x, y), abs=4 * summary.std / math.sqrt(200))
    assert summary != kernel_distances(x, y, subsets=200, size=20, rng=None)
    whole_sample = kernel_distances(x[:50], y, subsets=3, size=50)
    assert whole_sample.mean == approx(kernel_distance(x[:50], y), rel=1e-9)
    assert whole_sample.std == approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subsets": 0}, "`subsets` must be an integer of at least 1; got 0"),
        ({"size": 1}, "`size` must be an integer of at least 2; got 1"),
        (
            {"size": 11},
            "`size` must be at most the size of the smaller sample, 10; got 11. kernel_distance uses all samples at once.",
        ),
        ({"size": 5, "rng": -1}, "`rng` must be an integer of at least 0, a numpy Generator or None; got -1."),
    ],
)
def test_bad_options_of_subsets_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        kernel_distances(normal(10, 2), normal(12, 2), **options)
