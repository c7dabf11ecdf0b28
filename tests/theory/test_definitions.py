"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import CHI2, KL, InputError, Masses
from mallow.theory._divergence import checked_generator, limit_towards
from mallow.theory._extrapolate import _halves, _step
from mallow.theory._frontier import (
    EDGES,
    _falling,
    costs_to_mixtures,
    panel_errors,
    panel_integrals,
    panel_nodes,
)

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


# --- panels


SOME = np.array([-3.0, -1.0, 1.0, 3.0])


def test_nodes_rise_are_symmetric_and_contain_the_edges():
    for edges in (EDGES, SOME):
        nodes = panel_nodes(edges)
        assert len(nodes) == 12 * (len(edges) - 1) + 1
        assert (np.diff(nodes) > 0).all()
        assert (nodes == -nodes[::-1]).all()
        assert (nodes[::12] == edges).all()
        inside = (nodes[:13] - (nodes[0] + nodes[12]) / 2) / ((nodes[12] - nodes[0]) / 2)
        assert inside == approx(-np.cos(np.pi * np.arange(13) / 12))


@pytest.mark.parametrize(("a", "b"), [(0, 1), (3, 2), (12, 1), (5, 12), (12, 12)])
def test_polynomials_of_degree_twelve_are_integrated_exactly(a, b):
    """∫ y dx with y = u^a and x = u^b is b/(a + b)·u^(a + b)."""
    u = panel_nodes(SOME)
    found = panel_integrals(u**a, u**b)
    expected = np.diff(SOME ** float(a + b)) * b / (a + b)
    assert found == approx(expected, rel=1e-10, abs=1e-8 * 3.0 ** (a + b))


def test_panels_keep_leading_axes():
    u = panel_nodes(SOME)
    y = np.stack([np.ones_like(u), u, np.sin(u)])
    found = panel_integrals(y, np.broadcast_to(u, y.shape))
    assert found.shape == (3, 3)
    assert found[0] == approx(np.diff(SOME))
    assert found[1] == approx(np.diff(SOME**2) / 2)
    assert found[2] == approx(-np.diff(np.cos(SOME)))


def test_errors_are_small_for_smooth_curves_and_large_at_kinks():
    u = panel_nodes(SOME)
    smooth, kink = np.exp(u), np.abs(u - 2.0)
    assert (panel_errors(smooth, smooth) < 1e-7).all()
    assert (panel_errors(u, kink)[:2] < 1e-12).all()
    assert panel_errors(u, kink)[2] > 1e-3
    assert panel_errors(kink, u)[2] == approx(panel_errors(u, kink)[2])
    batch = np.stack([u, kink])
    assert panel_errors(batch, np.stack([u, u])) == approx(panel_errors(kink, u))  # the largest of the batch
    # Twice as far along x, twice the error.
    assert panel_errors(2 * u, kink) == approx(2 * panel_errors(u, kink))


def test_the_last_two_coefficients_are_the_error():
    """Of a Chebyshev polynomial of degree 12 or 11 on one panel, with amplitude 1, against a line of length 2."""
    u = panel_nodes(SOME)
    middle = u[12:25]  # from −1 to 1
    for degree, size in ((12, 1.0), (11, 1.0), (10, 0.0)):
        y = np.zeros_like(u)
        y[12:25] = np.cos(degree * np.arccos(np.clip(middle, -1, 1)))
        assert panel_errors(u, y)[1] == approx(2.0 * size, abs=1e-12)


# --- generator


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
    straight = checked_generator("steep", lambda t: slope * t - slope)
    assert straight(np.array([0.5, 1.0, 3.0])) == approx([0.0] * 3, abs=1e-9 * abs(slope))  # a line is no divergence
