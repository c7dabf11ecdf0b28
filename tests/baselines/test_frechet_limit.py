"""FD∞: the distance does not depend on the number of samples any more."""

import warnings

import numpy as np
import pytest
from pytest import approx

from mallow.baselines import Moments, frechet_distance, frechet_limit
from mallow.errors import EstimateWarning, InputError


def draws(rng, count, shift=0.0):
    return rng.normal(size=(count, 12)) + shift


def test_the_limit_removes_most_of_the_bias():
    rng = np.random.default_rng(0)
    plain, limits = [], []
    for _ in range(12):
        x, y = draws(rng, 240), draws(rng, 240, 0.2)  # the true distance is 12 × 0.04
        plain.append(frechet_distance(x, y) - 0.48)
        limits.append(frechet_limit(x, y, rng=rng) - 0.48)
    assert np.mean(plain) > 0.1
    assert abs(np.mean(limits)) < 0.3 * np.mean(plain)


def test_a_line_in_one_over_n_is_met_exactly():
    """A published reference: the moments stay, and the subsets of the model are varied."""
    rng = np.random.default_rng(1)
    reference, y = Moments.of(draws(rng, 5000)), draws(rng, 200)
    limit = frechet_limit(reference, y, sizes=4, smallest=50, rng=3)
    chosen = np.random.default_rng(3)
    sizes = [50, 100, 150, 200]
    distances = [frechet_distance(reference, y[chosen.choice(200, size, replace=False)]) for size in sizes]
    design = np.stack([np.ones(4), 1 / np.array(sizes)], axis=1)
    assert limit == approx(np.linalg.lstsq(design, np.array(distances), rcond=None)[0][0], rel=1e-9)


def test_few_samples_for_their_width_are_doubtful():
    x, y = np.random.default_rng(0).normal(size=(2, 40, 12))
    with pytest.warns(
        EstimateWarning,
        match="FD∞ draws parts of 40 samples, and in the smallest part 10 samples of 12 features have a singular covariance",
    ):
        frechet_limit(x, y)


def test_sizes_must_vary():
    x, y = np.random.default_rng(0).normal(size=(2, 40, 3))
    with pytest.raises(InputError, match="`smallest` must be less than the size of the smaller sample, 40; got 40"):
        frechet_limit(x, y, smallest=40)
    with pytest.raises(InputError, match="`sizes` must be an integer of at least 2; got 1"):
        frechet_limit(x, y, sizes=1)
    with warnings.catch_warnings(action="error"):
        frechet_limit(x, y, smallest=10)
