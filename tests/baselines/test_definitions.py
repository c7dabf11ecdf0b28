"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from baselines.feature_samples import clouds, normal
from mallow.baselines import (
    frechet_distance,
    precision_recall,
)
from mallow.baselines._discriminator import _best_penalty, _split_parts, _standardise
from mallow.baselines._precision_recall import approximate_distances, exact_distances, make_cloud

# --- cloud


def test_approximate_distances_are_within_the_bound():
    x = np.random.default_rng(0).standard_t(2, size=(200, 300)) * np.logspace(-25, 0, 200)[:, None]
    x[::2] *= -1
    cloud = make_cloud(x, np.zeros(300))
    exact = exact_distances(cloud, np.repeat(np.arange(200), 200), cloud, np.tile(np.arange(200), 200))
    for dtype in (np.float32, np.float64):
        slack = cloud.slack(dtype).astype(float)
        about = approximate_distances(cloud, slice(0, 200), cloud, dtype)
        assert about.dtype == dtype
        assert (np.abs(about - exact.reshape(200, 200)) <= slack[:, None] + slack).all()


# --- discriminator


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


# --- points


@pytest.mark.parametrize("value", [0.0, 0.1, 12345.678])
def test_a_column_without_variance_has_no_effect(value):
    x, y = normal(60, 3), normal(50, 3, mean=0.3, seed=1)
    wide = [np.column_stack([side, np.full(len(side), value)]) for side in (x, y)]
    assert frechet_distance(*wide) == approx(frechet_distance(x, y), rel=1e-9)
    assert precision_recall(*wide) == precision_recall(x, y)
    scaled = _standardise(*wide, np.arange(110) % 4 > 0)
    assert (scaled[:, 3] == 0).all()
    assert scaled[:, :3] == approx(_standardise(x, y, np.arange(110) % 4 > 0), rel=1e-9)
