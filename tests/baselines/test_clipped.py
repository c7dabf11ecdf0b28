"""Clipped density and coverage: the definition by all distances, the calibration, outliers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.stats import betabinom

from baselines.feature_samples import clouds, normal, ordinary
from mallow.baselines import clipped_shares
from mallow.errors import InputError


def by_definition(x, y, k):
    """Density and coverage before the calibration of the coverage."""
    real, other = (((x[:, None] - points) ** 2).sum(axis=2) for points in (x, y))
    radius = np.sort(real, axis=1)[:, k]
    clipped = np.minimum(radius, np.median(radius))[:, None]
    around, around_real = (other <= clipped).sum(axis=0), (real <= clipped).sum(axis=0) - 1
    density = np.minimum(around, k).mean() / np.minimum(around_real, k).mean()
    return min(1.0, density), np.minimum((other <= radius[:, None]).sum(axis=1), k).mean() / k


def expected_coverage(n, m, k):
    """The mean of min(count, k) / k, where 0 to m of m model samples are good: the count is a beta-binomial number."""
    counts = np.arange(m + 1)
    return betabinom.pmf(counts, counts[:, None], k, n - k) @ np.minimum(counts, k) / k


@given(pair=clouds(ordinary), k=st.integers(1, 7))
def test_it_equals_the_definition(pair, k):
    shares = clipped_shares(*pair, neighbors=k)
    density, covered = by_definition(*pair, k)
    expected = expected_coverage(len(pair[0]), len(pair[1]), k)
    assert shares.density == approx(density)
    assert np.interp(shares.coverage * len(pair[1]), np.arange(len(expected)), expected) == approx(
        min(covered, expected[-1])
    )


def test_both_fall_in_proportion_to_the_good_samples():
    x = normal(1000, 4)
    for good in (1000, 700, 300):
        model = normal(1000, 4, seed=1)
        model[good:] += 50.0
        shares = clipped_shares(x, model)
        assert shares.density == approx(good / 1000, abs=0.05)
        assert shares.coverage == approx(good / 1000, abs=0.05)


def test_an_outlier_of_the_reference_does_not_help_the_model():
    x = np.append(normal(300, 3), np.full((1, 3), 40.0), axis=0)
    model = np.append(normal(300, 3, seed=1), normal(300, 3, seed=2) + 20.0, axis=0)
    assert clipped_shares(x, model).density == approx(0.5, abs=0.05)


def test_too_few_samples():
    with pytest.raises(InputError, match=r"`neighbors` must be less than the size of the smaller sample, 5; got 5\."):
        clipped_shares(normal(5, 2), normal(8, 2))
