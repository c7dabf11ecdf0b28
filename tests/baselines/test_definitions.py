"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from baselines.feature_samples import clouds, normal
from mallow.baselines import (
    frechet_distance,
    precision_recall,
    table,
)
from mallow.baselines._discriminator import _best_penalty, _split_parts, _standardise
from mallow.baselines._groups import GROUPS, _half, accuracy_noise, main_measures, sampling_noise
from mallow.baselines._precision_recall import approximate_distances, exact_distances, make_cloud
from mallow.errors import InputError
from mallow.samples import Samples

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_of_the_discriminator_have_mean_0_and_deviation_1_where_it_learns(dtype):
    units = np.array([1e3, 1.0, 1e-3])
    x, y = (normal(60, 3, seed=1) * units + units).astype(dtype), (normal(50, 3, seed=2) * units).astype(dtype)
    train = np.arange(110) % 4 > 0
    scaled, pooled = _standardise(x, y, train), np.concatenate([x, y]).astype(np.float64)
    expected = (pooled - pooled[train].mean(axis=0)) / pooled[train].std(axis=0)
    assert scaled == approx(expected, rel=1e-4, abs=1e-4)
    assert scaled.dtype == dtype


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


# --- noise


def test_leaving_out_groups_gives_the_error_of_a_mean():
    values = np.random.default_rng(0).normal(size=GROUPS * 50)
    groups = values.reshape(GROUPS, -1)
    replicates = [np.delete(groups, place, axis=0).mean() for place in range(GROUPS)]
    error = groups.mean(axis=1).std(ddof=1) / math.sqrt(GROUPS)
    assert _half(replicates) == pytest.approx(2.3646 * error)


def test_noise_falls_with_the_number_of_samples():
    rng = np.random.default_rng(0)
    half = []
    for size in (80, 1280):
        x, y = (Samples(features=rng.normal(size=(size, 2))) for _ in range(2))
        half.append(sampling_noise(x, y, ["Fréchet distance"], {"Fréchet distance": 0.0}, "whitespace", 0))
    assert half[1]["Fréchet distance"][0] < half[0]["Fréchet distance"][0] / 2


def test_the_noise_of_an_accuracy_is_that_of_its_tests():
    x, y = (
        Samples(features=np.random.default_rng(seed).normal(size=(400, 2)), ids=[f"{seed}-{i}" for i in range(400)])
        for seed in (1, 2)
    )
    assert accuracy_noise(x, y, 0.5)[0] == pytest.approx(1.96 * math.sqrt(0.25 / 200), rel=1e-6)
    assert 0 < accuracy_noise(x, y, 1.0)[0] < 0.03


def test_eight_rows(monkeypatch):
    rng = np.random.default_rng(0)
    human, near, far = (rng.normal(shift, 1, size=(120, 3)) for shift in (0, 0, 2))
    made = table(human, {"near": near, "far": far}, repeats=1, rows="main")
    assert [row.name for row in made.rows] == list(main_measures("features"))
    assert len(made.rows) == len(main_measures("text")) == 8
    assert all(set(own) == {row.name for row in made.rows} for own in made.noise.values())
    assert made.leader("Fréchet distance") == ("near",)
    with pytest.raises(InputError, match=r"^`rows` must be 'all', 'main' or 'all with noise'; got 'few'\.$"):
        table(human, {"near": near}, rows="few")
