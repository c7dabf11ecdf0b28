"""Frontier and summaries: bad input, a user's own divergence, kinks, pickling, silence of NumPy."""

import pickle
import warnings

import numpy as np
import pytest
from pytest import approx

from mallow import (
    CHI2,
    HELLINGER2,
    JS,
    KL,
    TV,
    Divergence,
    EstimateWarning,
    InputError,
    Masses,
    area,
    conjugate,
    frontier,
    integral,
    interpolated,
    linear_cost,
    midpoint,
    skew_js,
)
from strategies import NAMED

PAIR = Masses.from_histograms([0.2, 0.3, 0.5], [0.5, 0.25, 0.25])


@pytest.mark.parametrize("lam", [0, 1, -0.1, 1.5, np.nan, np.inf, None, "half"])
def test_a_mixing_weight_outside_the_open_interval_is_refused(lam):
    for call in (lambda: interpolated(KL, lam), lambda: skew_js(lam), lambda: linear_cost(PAIR, lam)):
        with pytest.raises(InputError, match=r"`lam` must lie strictly between 0 and 1; got"):
            call()


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, True, None])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(InputError, match=r"`scale` must be a finite number above 0; got"):
        area(PAIR, scale=scale)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (1, r"`grid` must be an integer of at least 2; got 1"),
        (2.5, r"`grid` must be an integer of at least 2; got 2.5"),
        ("fine", r"`grid` must be None, an integer, 'mauve-text' or an array of λ; got 'fine'"),
        ([0.0, 0.5], r"`grid` must be one axis of λ, rising, strictly between 0 and 1"),
        ([0.5, 0.4], r"`grid` must be one axis of λ, rising"),
    ],
)
def test_a_bad_grid_is_refused(grid, message):
    with pytest.raises(InputError, match=message):
        frontier(PAIR, grid=grid)


def test_settings_of_the_frontier_are_refused_for_a_frontier():
    with pytest.raises(InputError, match=r"settings of the frontier; pass them to `frontier`"):
        area(frontier(PAIR), scale=5, divergence=CHI2)


def square_root(t):
    return (np.sqrt(t) - 1) ** 2


def t_log_t(t):
    return t * np.log(t)


@pytest.mark.parametrize(
    ("f", "same"),
    [
        (square_root, HELLINGER2),
        (t_log_t, KL),
        (lambda t: -np.log(t), conjugate(KL)),
        (lambda t: np.abs(t - 1) / 2, TV),
        (lambda t: (t - 1) ** 2, CHI2),
        (lambda t: t * np.log(2 * t / (1 + t)) / 2 + np.log(2 / (1 + t)) / 2, JS),
    ],
)
def test_a_users_generator_gives_what_the_named_divergence_gives(f, same):
    own = Divergence("own", f)
    assert own.at_zero == approx(same.at_zero)
    assert own.conjugate_at_zero == approx(same.conjugate_at_zero)
    assert (own.f(np.logspace(-3, 3)) >= -1e-12).all()
    assert own(PAIR) == approx(same(PAIR))
    assert area(PAIR, scale=5, divergence=own) == approx(area(PAIR, scale=5, divergence=same), abs=1e-8)
    assert integral(PAIR, own) == approx(integral(PAIR, same), rel=1e-8)
    assert midpoint(PAIR, own) == approx(midpoint(PAIR, same))
    assert interpolated(own, 0.3)(PAIR) == approx(interpolated(same, 0.3)(PAIR))
    assert conjugate(own)(PAIR) == approx(conjugate(same)(PAIR))
    assert conjugate(own).at_zero == own.conjugate_at_zero


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda t: t - 2.0, r"`f` of 'own' must have f\(1\) = 0; got f\(1\) = -1"),
        (lambda t: np.log(t), r"`f` of 'own' must be convex; near t = "),
        (lambda t: np.sin(t - 1), r"`f` of 'own' must be convex"),
        (lambda t: np.log(t - 0.5), r"`f` of 'own' must be finite on \(0, ∞\); at t = 0.0001"),
        (lambda t: float(t.sum()), r"`f` of 'own' must map an array to a real array of the same shape"),
    ],
)
def test_a_bad_generator_is_refused(f, message):
    with pytest.raises(InputError, match=message):
        Divergence("own", f)


def kinked(t):
    return np.maximum(np.abs(t - 1) - 0.3, 0)


def test_a_generator_with_kinks_is_integrated_by_refining():
    own = Divergence("kinked", kinked)
    curve = frontier(PAIR, own)
    assert len(curve.lam) > len(frontier(PAIR).lam)
    lam = np.unique(1 / (1 + np.exp(-np.linspace(-26, 26, 200_001))))
    assert area(curve, scale=5) == approx(area(frontier(PAIR, own, grid=lam), scale=5), abs=1e-7)


def test_a_frontier_that_cannot_be_resolved_says_so():
    at = np.logspace(-6, 6, 601)  # (t − 1)² drawn with 600 straight lines
    rough = Divergence("polygon", lambda t: np.interp(t, at, (at - 1) ** 2), 1.0, np.inf)
    with pytest.warns(EstimateWarning, match=r"frontier of polygon is not smooth: its area is known to"):
        found = area(PAIR, scale=5, divergence=rough)
    assert found == approx(area(PAIR, scale=5, divergence=CHI2), abs=5e-3)


def test_a_generator_that_returns_nan_is_named():
    own = Divergence("own", lambda t: np.where(t > 1e5, np.nan, (t - 1) ** 2), 1.0, np.inf)
    with pytest.raises(InputError, match=r"generator `f` returned NaN"):
        own(Masses.from_histograms([1e-9, 1 - 1e-9], [1 - 1e-9, 1e-9]))


@pytest.mark.parametrize("divergence", [*NAMED, Divergence("own", square_root)], ids=repr)
def test_divergences_pickle_compare_and_print(divergence):
    again = pickle.loads(pickle.dumps(divergence))
    assert again == divergence
    assert hash(again) == hash(divergence)
    assert repr(again) == divergence.name
    assert again(PAIR) == divergence(PAIR)


def test_equal_settings_make_equal_divergences():
    assert interpolated(KL, 0.3) == interpolated(KL, 0.3) != interpolated(KL, 0.4)
    assert conjugate(conjugate(KL)) == KL
    assert repr(interpolated(KL, 0.3)) == "interpolated(KL, 0.3)"
    assert repr(conjugate(skew_js(0.25))) == "conjugate(skew_js(0.25))"


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
