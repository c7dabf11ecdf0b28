"""The derivatives of the summaries by the costs of a frontier, against differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import KL, Frontier, Masses, area, integral, midpoint
from mallow.evidence._certificate import NAMES, summary_slopes
from mallow.theory import frontier
from strategies import SMOOTH, scales, simplex_pairs


def summaries(curve, scale):
    return np.array([area(curve, scale=scale), integral(curve), midpoint(curve)])


def test_the_order_is_that_of_the_names():
    assert NAMES == ("mauve", "frontier_integral", "midpoint")


@settings(max_examples=30)
@given(simplex_pairs(least=1e-3), st.sampled_from(SMOOTH), scales)
def test_slopes_are_differences(pair, divergence, scale):
    curve = frontier.quiet(Masses.from_histograms(*pair), divergence)
    slopes = summary_slopes(curve, scale)
    assert slopes.shape == (2, len(curve.lam), 3)
    costs = np.stack([curve.p_to_mix, curve.q_to_mix])
    towards = np.random.default_rng(0).normal(size=costs.shape)
    step = 1e-4 * np.minimum(np.maximum(costs, 1e-3), 1.0)  # relative where costs are large
    ends = [Frontier(curve.lam, *(costs + sign * step * towards), exact=True) for sign in (1.0, -1.0)]
    change = (summaries(ends[0], scale) - summaries(ends[1], scale)) / 2.0
    assert (slopes * (step * towards)[..., None]).sum(axis=(0, 1)) == approx(change, rel=1e-4, abs=1e-9)


def test_integral_and_midpoint_are_linear_in_the_costs():
    curve = frontier.quiet(Masses.from_histograms([0.9, 0.1, 0.0], [0.1, 0.3, 0.6]))
    slopes = summary_slopes(curve, 5.0)
    total = slopes[0].T @ curve.p_to_mix + slopes[1].T @ curve.q_to_mix
    assert total[1:] == approx([float(integral(curve)), float(midpoint(curve))], rel=1e-12)


def test_equal_distributions_have_no_slope_of_the_area():
    curve = frontier.quiet(Masses.from_histograms([0.5, 0.5], [0.5, 0.5]))
    assert summary_slopes(curve, 5.0)[..., 0] == approx(np.zeros((2, len(curve.lam))), abs=1e-14)


@pytest.mark.parametrize("gap", [1e-2, 1e-4])
def test_slopes_of_the_area_stay_exact_near_identity(gap):
    # Near identity costs are gap²·(1−λ)² and gap²·λ², so the area loses a multiple of gap⁴ and its slopes of gap²:
    # by Euler's theorem, slopes·costs is twice the loss.
    curve = frontier.quiet(Masses.from_histograms([0.5 + gap, 0.5 - gap], [0.5, 0.5]))
    slopes = summary_slopes(curve, 5.0)[..., 0]
    loss = 1.0 - area(curve, scale=5.0)
    assert slopes[0] @ curve.p_to_mix + slopes[1] @ curve.q_to_mix == approx(-2.0 * loss, rel=0.05, abs=1e-15)


def test_infinite_costs_have_no_slope():
    curve = frontier.quiet(Masses.from_histograms([0.5, 0.5], [0.25, 0.75]), KL)
    costs = curve.p_to_mix.copy()
    costs[:5] = np.inf
    slopes = summary_slopes(Frontier(curve.lam, costs, curve.q_to_mix, exact=True), 5.0)
    assert np.isfinite(slopes).all()
    assert (slopes[0, :5, 0] == 0).all()
