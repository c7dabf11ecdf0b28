"""Divergences: mixing weights that are refused, a user's own generator, pickling and equality."""

import pickle

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
    InputError,
    Masses,
    area,
    conjugate,
    integral,
    interpolated,
    midpoint,
    skew_js,
)
from mallow.theory import linear_cost
from strategies import NAMED

PAIR = Masses.from_histograms([0.2, 0.3, 0.5], [0.5, 0.25, 0.25])


@pytest.mark.parametrize("lam", [0, 1, -0.1, 1.5, np.nan, np.inf, None, "half"])
def test_a_mixing_weight_outside_the_open_interval_is_refused(lam):
    for call in (lambda: interpolated(KL, lam), lambda: skew_js(lam), lambda: linear_cost(PAIR, lam)):
        with pytest.raises(InputError, match=r"`lam` must lie strictly between 0 and 1; got"):
            call()


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
        (lambda t: t - 2.0, r"`f` of 'own' must have f\(1\) = 0; got f\(1\) = -1\. Subtract that constant\.$"),
        (lambda t: np.log(t), r"`f` of 'own' must be convex, but its slope falls near t = 0\.000\d+\.$"),
        (lambda t: np.sin(t - 1), r"`f` of 'own' must be convex, but its slope falls near t = "),
        (lambda t: np.log(t - 0.5), r"`f` of 'own' must be finite on \(0, ∞\), but it is not at t = 0\.0001\.$"),
        (
            lambda t: float(t.sum()),
            r"`f` of 'own' must map an array to a real array of the same shape; "
            r"for shape \(321,\) it returned shape \(\) and dtype float64\.$",
        ),
    ],
)
def test_a_bad_generator_is_refused(f, message):
    with pytest.raises(InputError, match=message):
        Divergence("own", f)


def test_a_generator_that_returns_nan_is_refused_where_it_does():
    own = Divergence("own", lambda t: np.where(t > 1e5, np.nan, (t - 1) ** 2), 1.0, np.inf)
    with pytest.raises(
        InputError, match=r"generator `f` of the divergence must not return NaN, but it did for legal masses"
    ):
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


@pytest.mark.parametrize("divergence", [*NAMED, Divergence("own", t_log_t), Divergence("root", square_root)], ids=repr)
def test_atoms_that_one_side_lacks_cost_the_limits(divergence):
    """0·f(p/0) = p·f*(0), q·f(0/q) = q·f(0), 0·f(0/0) = 0; for all atoms, for some, for one."""
    mass, nothing = np.array([0.5, 0.25]), np.zeros(2)
    assert divergence.terms(nothing, mass) == approx(mass * divergence.at_zero)
    assert divergence.terms(mass, nothing) == approx(mass * divergence.conjugate_at_zero)
    assert divergence.terms(nothing, nothing).tolist() == [0.0, 0.0]
    assert divergence.terms(mass, mass) == approx([0.0, 0.0], abs=1e-15)
    mixed = divergence.terms(np.array([0.0, 0.5, 0.0]), np.array([0.5, 0.0, 0.0]))
    assert mixed == approx([0.5 * divergence.at_zero, 0.5 * divergence.conjugate_at_zero, 0.0])
    infinite = divergence.terms(np.array([np.inf]), np.array([0.5]))
    assert infinite[0] == (np.inf if divergence.conjugate_at_zero > 0 else 0.0)
