"""Summaries: settings that are refused, closed forms, and the silence of NumPy at the edges."""

import warnings

import numpy as np
import pytest

from mallow import (
    CHI2,
    CHI2_INTEGRAL,
    JS,
    KL,
    KL_INTEGRAL,
    InputError,
    Masses,
    area,
    conjugate,
    frontier,
    integral,
    midpoint,
)
from mallow.theory import closed_integral
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
