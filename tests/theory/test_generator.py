"""Generators of users: what is not convex is refused, wherever it is."""

import numpy as np
import pytest
from pytest import approx

from mallow import InputError
from mallow.theory._divergence import checked_generator, limit_towards


def test_a_slope_that_falls_but_stays_above_the_first_is_not_convex():
    def bent(t):
        return np.where(t <= 2, (t - 1) ** 2, t - 1.0)  # its slope falls from 2 to 1 at t = 2

    with pytest.raises(InputError, match=r"`f` of 'bent' must be convex, but its slope falls near t = "):
        checked_generator("bent", bent)


def test_a_generator_that_is_not_negative_stays_as_it_is_and_others_are_tilted():
    def square(t):
        return (t - 1) ** 2

    assert checked_generator("square", square) is square
    for slope in (-3.0, 0.5):
        tilted = checked_generator("tilted", lambda t, slope=slope: (t - 1) ** 2 + slope * (t - 1))
        t = np.array([0.1, 0.5, 1.0, 2.0, 30.0])
        assert tilted(t) == approx(square(t), abs=1e-9)
        assert tilted.slope == approx(slope, abs=1e-9)
    # Nearly straight: the slope at 1 is known to many digits, whatever the higher derivatives are.
    steep = checked_generator("steep", lambda t: t**4 - 1.0)
    assert steep.slope == approx(4.0, rel=1e-9)
    assert checked_generator("log", lambda t: -np.log(t)).slope == approx(-1.0, rel=1e-9)


@pytest.mark.parametrize(("at_one", "fine"), [(9e-10, True), (-9e-10, True), (2e-9, False), (-2e-9, False)])
def test_the_value_at_one_may_be_rounded(at_one, fine):
    def f(t):
        return np.abs(t - 1) ** 1.5 + at_one

    if fine:
        checked_generator("f", f)
    else:
        with pytest.raises(InputError, match=r"`f` of 'f' must have f\(1\) = 0; got f\(1\) = -?2e-09\. Subtract"):
            checked_generator("f", f)


@pytest.mark.parametrize("place", [-4.0, 0.3, 4.0])
def test_a_value_that_is_missing_anywhere_on_the_axis_is_named(place):
    at = 10.0**place

    def f(t):
        return np.where(np.isclose(t, at, rtol=0.02), np.nan, (t - 1) ** 2)

    with pytest.raises(InputError, match=r"`f` of 'f' must be finite on \(0, ∞\), but it is not at t = ") as raised:
        checked_generator("f", f)
    assert float(str(raised.value).split("t = ")[1].rstrip(".")) == approx(at, rel=0.05)


@pytest.mark.parametrize("place", [1e-3, 2.0, 1e3])
def test_a_dent_is_named_where_it_is(place):
    def f(t):
        return np.where(t < place, 0.0, -0.01 * (t - place))

    def dented(t):
        return f(t) - f(np.array([1.0]))[0]

    with pytest.raises(InputError, match=r"`f` of 'dented' must be convex, but its slope falls near t = ") as raised:
        checked_generator("dented", dented)
    assert float(str(raised.value).split("t = ")[1].rstrip(".")) == approx(place, rel=0.06)


def test_straight_lines_are_convex_up_to_rounding():
    checked_generator("abs", lambda t: np.abs(t - 1) / 2)
    checked_generator("line", lambda t: 3.0 * (t - 1.0))
    with pytest.raises(InputError, match=r"it returned shape \(321,\) and dtype int64"):
        checked_generator("whole", lambda t: np.zeros(t.shape, int))


@pytest.mark.parametrize(
    ("function", "limit"),
    [
        (lambda t: t + 2.0, 2.0),  # known at the end itself
        (lambda t: np.where(t == 0, np.nan, 2.0 + t), 2.0),  # the same on both sides of a hole
        (lambda t: -np.log(t), np.inf),
        (lambda t: 1.0 / t, np.inf),
        (lambda t: np.where(t == 0, np.nan, 3e9 + 1e-3 * (t > 1e-70)), 3e9),  # relative to a large value
        (lambda t: np.where(t == 0, np.nan, 1.0 + 1e-8 * (t > 1e-70)), np.inf),
        (lambda t: np.where(t == 0, np.nan, 1e-4 + 5e-10 * (t > 1e-70)), 1e-4),  # and absolute for a small one
    ],
)
def test_limits_are_those_of_values_that_have_settled(function, limit):
    assert limit_towards(0.0, function, 1e-60, 1e-75) == approx(limit)


@pytest.mark.parametrize("slope", [1e9, -1e9])
def test_the_rounding_of_steep_slopes_is_no_dent(slope):
    checked_generator("steep", lambda t: slope * t - slope)
