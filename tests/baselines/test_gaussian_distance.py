"""The Gaussian kernel distance equals its definition, and is that of the published code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.baselines import gaussian_kernel_distance
from mallow.errors import InputError


def by_definition(x, y, bandwidth):
    """1000 (mean k(x, x) + mean k(y, y) − 2 mean k(x, y)) of rows of length 1, with all pairs, one at a time."""
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))

    def mean(a, b):
        return np.mean([[np.exp(-((u - v) ** 2).sum() / (2 * bandwidth**2)) for v in b] for u in a])

    return 1000 * (mean(x, x) + mean(y, y) - 2 * mean(x, y))


@given(seed=st.integers(0, 2**32 - 1), bandwidth=st.sampled_from([0.3, 1.0, 10.0]))
def test_the_distance_is_its_definition(seed, bandwidth):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(9, 4)), rng.normal(0.5, 1, size=(7, 4))
    assert gaussian_kernel_distance(x, y, bandwidth=bandwidth) == approx(by_definition(x, y, bandwidth), abs=1e-9)


def test_blocks_change_nothing(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(2, 50, 6)).astype(np.float32)
    whole = gaussian_kernel_distance(x, y)
    monkeypatch.setattr("mallow.baselines._kernel_distance.ROWS", 7)
    assert gaussian_kernel_distance(x, y) == approx(whole, rel=1e-12)


def test_equal_samples_are_at_distance_0_and_the_unit_does_not_matter():
    x, y = np.random.default_rng(0).normal(size=(2, 30, 5))
    assert gaussian_kernel_distance(x, x) == approx(0, abs=1e-9)
    assert gaussian_kernel_distance(1000 * x, y) == approx(gaussian_kernel_distance(x, y), rel=1e-12)


def test_the_bandwidth_must_be_positive():
    with pytest.raises(InputError, match="`bandwidth` must be a finite number above 0; got 0"):
        gaussian_kernel_distance(np.eye(3), np.eye(3), bandwidth=0)
