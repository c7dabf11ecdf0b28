"""What all feature metrics do in the same way: bad and borderline input, types, scales, processors."""

import math

import numpy as np
import pytest
from pytest import approx

from baselines.feature_samples import kernel_by_all_pairs, normal
from mallow.baselines import (
    PrecisionRecall,
    discriminator_accuracy,
    frechet_distance,
    kernel_distance,
    precision_recall,
)
from mallow.errors import InputError

METRICS = [frechet_distance, kernel_distance, precision_recall, discriminator_accuracy]


METRIC_IDS = [metric.__name__ for metric in METRICS]


@pytest.mark.parametrize("metric", METRICS, ids=METRIC_IDS)
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (normal(1, 3), normal(20, 3), "`reference` must hold at least 2 samples; got 1"),
        (normal(20, 3), normal(1, 3), "`model` must hold at least 2 samples; got 1"),
        (normal(20, 3), normal(20, 4), "same width; got 3 and 4"),
        (normal(20, 3), np.full((20, 3), np.nan), "`model` must be finite; got 60 NaN or infinite entries"),
        (np.full((20, 3), -np.inf), normal(20, 3), "`reference` must be finite"),
        (
            normal(20, 3),
            np.full((20, 3), -1e41),
            r"`model` must not exceed 1e\+40 in absolute value, .* overflow; got -1e\+41 at index \(0, 0\)\. Divide both",
        ),
        (["a text"] * 20, normal(20, 3), "`reference` must be an array of numbers"),
        (normal(20, 3), np.empty((0, 3)), "`model` must hold at least 2 samples; got 0"),
    ],
)
def test_bad_input_is_refused(metric, x, y, message):
    with pytest.raises(InputError, match=message):
        metric(x, y)


def test_limits_of_constant_features():
    x, y = np.full((30, 4), 0.1, np.float32), np.full((20, 4), 0.3)
    squared = float(((x[0] - y[0]) ** 2).sum())
    assert frechet_distance(x, y) == approx(squared, rel=1e-12)
    assert frechet_distance(x, x) == 0.0
    assert kernel_distance(x, y) == approx(kernel_by_all_pairs(x.astype(float), y))
    assert kernel_distance(x, x) == approx(0.0, abs=1e-12)
    assert precision_recall(x, y) == PrecisionRecall(0.0, 0.0, 0.0, 0.0, 5)
    assert precision_recall(x, x[:20]) == PrecisionRecall(1.0, 1.0, 30 / 5, 1.0, 5)
    assert discriminator_accuracy(x, y) == 1.0
    assert discriminator_accuracy(x, x[:20]) == 0.5


@pytest.mark.parametrize("metric", METRICS[:3], ids=METRIC_IDS[:3])
def test_small_and_mixed_types_give_the_same_values(metric):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-50, 50, size=(40, 3)), rng.integers(-40, 60, size=(35, 3))
    expected = metric(x.astype(float), y.astype(float))
    for dtypes in ((np.int8, np.int64), (np.float16, np.float32), (np.float32, np.float64)):
        result = metric(x.astype(dtypes[0]), y.astype(dtypes[1]))
        if metric is precision_recall:
            assert result == expected
        else:
            assert result == approx(expected, rel=1e-5)


def test_extreme_scales_do_not_overflow():
    x, y = normal(40, 3), normal(40, 3, mean=1.0, seed=1)
    for unit in (1e-30, 1e37):
        assert frechet_distance(x * unit, y * unit) == approx(frechet_distance(x, y) * unit**2, rel=1e-9)
    big = kernel_distance((x * 1e36).astype(np.float32), (y * 1e36).astype(np.float32))
    assert math.isfinite(big)
    for unit in (1e-200, 1e37):
        assert discriminator_accuracy(x * unit, (y + 20.0) * unit) == 1.0
    assert big == approx(kernel_by_all_pairs(x * 1e36, y * 1e36), rel=1e-4)


@pytest.mark.parametrize("metric", METRICS, ids=METRIC_IDS)
def test_the_input_is_not_changed(metric):
    x, y = normal(40, 3).astype(np.float32), normal(40, 3, seed=1).astype(np.float32)
    before = x.copy(), y.copy()
    for side in (x, y):
        side.flags.writeable = False
    metric(x, y)
    assert (x == before[0]).all()
    assert (y == before[1]).all()


@pytest.mark.parametrize("metric", METRICS, ids=METRIC_IDS)
def test_the_number_of_processors_does_not_change_a_bit(monkeypatch, metric):
    x, y = normal(3000, 6).astype(np.float32), normal(2500, 6, mean=0.1, seed=1).astype(np.float32)
    if metric is discriminator_accuracy:
        x, y = x[:300], y[:300]
    results = []
    for count in (1, 2, 5):
        monkeypatch.setattr("mallow.baselines._points.cores", lambda count=count: count)
        results.append(metric(x, y))
    assert results[0] == results[1] == results[2]
