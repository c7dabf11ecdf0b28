"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import CHI2, KL, Masses
from mallow.theory._extrapolate import _halves, _step
from mallow.theory._frontier import _falling, costs_to_mixtures

# --- extrapolate


@given(st.integers(0, 60))
def test_three_points_integrate_the_half_sample_of_a_bin(count):
    points, shares = _halves(np.array([float(count)]))
    halves = np.arange(count + 1)
    chance = np.array([np.prod([(count - i) / (i + 1) for i in range(h)]) for h in halves]) / 2.0**count
    for power in range(6):
        exact = (chance * (halves - count / 2.0) ** power).sum()
        assert (shares * (points - count / 2.0) ** power).sum() == approx(exact, rel=1e-9, abs=1e-9 * (1 + count) ** 3)
    if count <= 2:  # the distribution itself
        assert set(np.round(points[shares > 1e-12], 9)) <= set(halves)
    assert (points >= 0).all()


def test_the_step_is_that_of_its_definition():
    """Lengthened by 3·bins/n where the costs fall, and shortened beyond bins/n = 1/2 (1/4 where they rise)."""
    fall, rise = np.full(60, -1.0), np.full(60, 1.0)
    trust = 1.0 - 4.0 / 60  # four times the noise, 60, over the square of the total, 3600
    for samples in (600, 150, 120, 90, 60):
        n, m = np.array([float(samples)]), np.array([2.0 * samples])
        sparsity = 60 / samples
        longer = 1.0 + 3.0 * 60 * (1.0 / samples + 0.5 / samples) / 2.0
        assert _step(fall, n, m) == approx(trust * longer * min(1.0, 2.0 - 2.0 * sparsity))
        assert _step(rise, n, m) == approx(trust * max(0.0, min(1.0, 2.0 - 4.0 * sparsity)))
    noise = np.tile([1.0, -1.0], 30) + 0.01  # a change within its noise
    assert _step(noise, np.array([600.0]), np.array([600.0])) == 0.0
    n, m = np.array([600.0]), np.array([600.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _step(np.tile([1.0, -1.0], 30), n, m) == 0.0  # none in sum
        assert np.isfinite(_step(np.zeros(60), n, m))  # no change at all, of which any share is none


# --- frontier


@pytest.mark.parametrize(
    ("values", "nearest"),
    [([3.0, 2.0, 1.0], [3.0, 2.0, 1.0]), ([1.0, 3.0], [2.0, 2.0]), ([4.0, 1.0, 3.0, 0.0], [4.0, 2.0, 2.0, 0.0])],
)
def test_the_nearest_curve_that_does_not_rise(values, nearest):
    assert _falling(np.array(values)).tolist() == nearest
    assert _falling(np.array([values, values[::-1]])).tolist()[0] == nearest


def test_an_extrapolation_stays_between_zero_and_the_cost_of_disjoint_supports():
    lam = np.array([0.2, 0.5, 0.8])
    p, q = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    for weight in (3.0, -1.0):
        masses = Masses(p, q, weight=np.full(2, weight))
        to_p, to_q = costs_to_mixtures(masses, KL, lam, 1 - lam)
        assert to_p == approx(-np.log(lam) if weight > 0 else 0.0)
        assert to_q == approx(-np.log(1 - lam) if weight > 0 else 0.0)
    assert costs_to_mixtures(Masses(p, q), CHI2, lam, 1 - lam)[0] == approx(1 / lam - 1)
    clipped = costs_to_mixtures(Masses(p, q, weight=np.full(2, 3.0)), CHI2, lam, 1 - lam)
    assert clipped[0] == approx(1 / lam - 1)
    assert clipped[1] == approx(1 / (1 - lam) - 1)
