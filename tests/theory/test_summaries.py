"""Summaries: settings that are refused, closed forms, and the silence of NumPy at the edges."""

import warnings

import numpy as np
import pytest

from mallow import CHI2, JS, KL, InputError, Masses, area, conjugate, frontier, integral, midpoint
from mallow.theory import CHI2_INTEGRAL, KL_INTEGRAL, closed_integral, linear_cost
from strategies import NAMED

PAIR = Masses.from_histograms([0.2, 0.3, 0.5], [0.5, 0.25, 0.25])


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, True, None])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(InputError, match=r"`scale` must be a finite number above 0; got"):
        area(PAIR, scale=scale)


def test_settings_of_the_frontier_are_refused_for_a_frontier():
    with pytest.raises(InputError, match=r"settings of the frontier; pass them to `frontier`"):
        area(frontier(PAIR), scale=5, divergence=CHI2)


@pytest.mark.parametrize("summary", [integral, midpoint])
def test_a_frontier_on_a_grid_is_refused_where_the_exact_one_is_needed(summary):
    with pytest.raises(
        InputError, match=r"must be exact for this summary; got one on a grid\. Build it with grid=None"
    ):
        summary(frontier(PAIR, grid=10))


def test_the_closed_integrals_are_those_of_kl_and_chi2():
    assert closed_integral(KL) == KL_INTEGRAL
    assert closed_integral(CHI2) == CHI2_INTEGRAL
    assert closed_integral(JS) is None


def test_numpy_stays_silent_at_the_edges():
    edges = [
        ([1.0, 0.0], [0.0, 1.0]),
        ([1.0, 0.0, 0.0], [0.5, 0.0, 0.5]),
        ([1e-300, 1 - 1e-300], [1.0, 0.0]),
        ([5e-324, 1.0], [1.0, 5e-324]),
    ]
    with warnings.catch_warnings(), np.errstate(divide="raise", over="raise", invalid="raise"):
        warnings.simplefilter("error")
        for p, q in edges:
            masses = Masses.from_histograms(p, q)
            for divergence in [*NAMED, conjugate(CHI2)]:
                assert divergence(masses) >= 0
                assert 0 <= area(masses, scale=5, divergence=divergence) <= 1
                assert integral(masses, divergence) >= 0
                assert midpoint(masses, divergence) >= 0


def test_the_area_on_a_grid_is_the_trapezoid_rule_with_both_ends():
    curve = frontier(PAIR, grid=4)
    x, y = (np.exp(-5 * cost) for cost in (curve.p_to_mix, curve.q_to_mix))
    x, y = np.r_[0.0, x, 1.0], np.r_[1.0, y, 0.0]
    expected = sum((x[i + 1] - x[i]) * (y[i + 1] + y[i]) / 2 for i in range(4))
    assert area(curve, scale=5) == pytest.approx(expected)
    assert area(PAIR, scale=5, grid=4) == area(curve, scale=5)
    batch = Masses.from_histograms(np.stack([PAIR.p, PAIR.q]), np.stack([PAIR.q, PAIR.q]))
    assert area(batch, scale=5, grid=4) == pytest.approx([expected, 1.0])
    twice = Masses.from_histograms(batch.p[None], batch.q[None])
    assert area(twice, scale=5, grid=4) == pytest.approx(np.array([[expected, 1.0]]))


def test_a_curve_that_is_not_monotone_counts_from_both_sides():
    from mallow.theory import Frontier

    curve = Frontier(np.array([0.3, 0.6]), np.array([0.1, 0.2]), np.array([0.2, 0.1]))
    x, y = np.r_[0, np.exp(-curve.p_to_mix), 1], np.r_[1, np.exp(-curve.q_to_mix), 0]
    expected = np.trapezoid(y, x) / 2 - np.trapezoid(x, y) / 2
    assert area(curve, scale=1.0) == pytest.approx(expected)
    assert 0 <= area(curve, scale=1.0) <= 1
    with pytest.raises(InputError, match="settings of the frontier; pass them to `frontier`"):
        area(curve, scale=5, grid=4)


@pytest.mark.parametrize("lam", [0.1, 0.5, 0.8])
def test_the_linear_cost_weighs_both_costs(lam):
    p, q = PAIR.p, PAIR.q
    mix = lam * p + (1 - lam) * q
    expected = lam * (p * np.log(p / mix)).sum() + (1 - lam) * (q * np.log(q / mix)).sum()
    assert linear_cost(PAIR, lam) == pytest.approx(expected)
    assert midpoint(PAIR) == linear_cost(PAIR, 0.5) == pytest.approx(midpoint(frontier(PAIR)))
    chi2 = lam * ((p - mix) ** 2 / mix).sum() + (1 - lam) * ((q - mix) ** 2 / mix).sum()
    assert linear_cost(PAIR, lam, CHI2) == pytest.approx(chi2)


def test_an_infinite_cost_makes_an_infinite_integral_of_its_row_alone():
    masses = Masses.from_log_ratio(np.zeros((2, 1)), np.array([[800.0], [0.0]]))
    assert integral(masses).tolist() == [np.inf, 0.0]
    assert integral(frontier(PAIR)) == pytest.approx(integral(PAIR), rel=1e-9)
