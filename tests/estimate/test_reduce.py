"""Reduce: it keeps what it should keep, and refuses bad options."""

import numpy as np
import pytest
from pytest import approx

from estimate_truths import eight_clusters
from mallow import InputError
from mallow.estimate import Reduce

X, Y = eight_clusters(600), eight_clusters(600, shift=0.3, seed=1)


def test_all_the_variance_may_be_kept():
    assert Reduce(variance=1.0)(X, Y)[0].shape == (600, 6)


def test_reduction_keeps_distances_when_it_keeps_all_axes():
    x, y = Reduce(variance=1.0, normalise=False)(X, Y)
    gaps = np.linalg.norm(X[:50, None] - Y[:50], axis=2)
    assert np.linalg.norm(x[:50, None] - y[:50], axis=2) == approx(gaps, rel=1e-5)  # rows lie on a grid of 20 bits
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    x, _ = Reduce(variance=1.0)(X, Y)
    assert np.linalg.norm(x[0] - x[1]) == approx(np.linalg.norm(unit[0] - unit[1]), rel=1e-5)


@pytest.mark.parametrize(("dtype", "points"), [(np.float32, 1), (np.float64, 600)])
def test_differences_that_are_only_rounding_are_no_variance(dtype, points):
    """1e-3 beside 10,000 is what float32 rounds away, and a thousand times what float64 can hold."""
    x, y = (1e4 + 1e-3 * np.random.default_rng(seed).normal(size=(300, 8)) for seed in (0, 1))
    reduced = Reduce(normalise=False)(x.astype(dtype), y.astype(dtype))
    assert len(np.unique(np.concatenate(reduced), axis=0)) == points


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Reduce(variance=0), r"`variance` must be above 0 and at most 1; got 0"),
        (lambda: Reduce(variance=1.5), r"`variance` must be above 0 and at most 1; got 1.5"),
        (
            lambda: Reduce(variance=None),
            r"`variance` or `dimension` must be a number, but both are None. Pass reduce=None",
        ),
        (lambda: Reduce(dimension=0), r"`dimension` must be an integer of at least 1; got 0"),
        (lambda: Reduce()(X, Y[:, :3]), r"features of the same width; got 6 and 3"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
