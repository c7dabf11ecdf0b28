"""Calibration: the best weights that are not negative, found exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mallow.estimate import calibrate_scores


def problem(seed, rows=200, scores=4, gap=0.5):
    rng = np.random.default_rng(seed)
    is_reference = rng.random(rows) < 0.4
    is_reference[:2] = True, False
    base = rng.normal(size=rows) + np.where(is_reference, gap, -gap)
    views = np.stack([base + rng.normal(size=rows) * noise for noise in np.linspace(0.0, 3.0, scores)])
    weight = np.where(is_reference, 0.5 / is_reference.sum(), 0.5 / (~is_reference).sum())
    return views, is_reference, weight


def loss(weights, views, is_reference, weight, ridge):
    return -weight @ log_expit(np.where(is_reference, 1, -1) * (weights @ views)) + ridge / 2 * weights @ weights


@given(st.integers(0, 50), st.sampled_from([0.0, 0.2, 1.0, 10.0]), st.sampled_from([1e-4, 1e-2]))
def test_no_other_weights_have_a_smaller_loss(seed, gap, ridge):
    views, is_reference, weight = problem(seed, gap=gap)
    weights = calibrate_scores(views, is_reference, weight, ridge=ridge)
    assert (weights >= 0).all()
    signed = np.where(is_reference, views, -views)
    slope = ridge * weights - signed @ (weight * expit(-(weights @ signed)))
    assert (slope[weights == 0] >= -1e-7).all()  # Karush, Kuhn and Tucker: it would fall only below 0
    assert slope[weights > 0] == approx(0.0, abs=1e-6)


def test_it_agrees_with_a_general_optimiser():
    views, is_reference, weight = problem(3)
    found = calibrate_scores(views, is_reference, weight, ridge=1e-3)
    other = minimize(
        loss, np.ones(4), (views, is_reference, weight, 1e-3), bounds=[(0, None)] * 4, options={"ftol": 1e-15}
    )
    assert found == approx(other.x, abs=1e-3)
    assert loss(found, views, is_reference, weight, 1e-3) <= other.fun + 1e-12


def test_a_score_that_is_the_log_ratio_keeps_its_scale():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0.5, 1.0, 40000), rng.normal(-0.5, 1.0, 20000)])
    is_reference = np.arange(60000) < 40000
    weight = np.where(is_reference, 0.5 / 40000, 0.5 / 20000)
    for scale in (0.1, 1.0, 7.0):  # the log-ratio is x
        assert calibrate_scores(scale * x[None], is_reference, weight, ridge=1e-6) * scale == approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    "scores", [np.zeros((2, 6)), np.array([[-1.0, -1, -1, 1, 1, 1]])], ids=["constant", "reversed"]
)
def test_scores_that_say_nothing_count_nothing(scores):
    weights = calibrate_scores(scores, np.arange(6) < 3, np.full(6, 1 / 6), ridge=0.1)
    assert (weights == 0).all()


def test_scores_that_separate_have_finite_weights():
    with np.errstate(all="raise"):
        weights = calibrate_scores(np.array([[9.0, 8, -7, -9]]) * 1e6, np.arange(4) < 2, np.full(4, 0.25), ridge=1e-9)
    assert np.isfinite(weights).all()
    assert weights[0] > 0
