"""Optimal transport: entropic plans, exact ones, lines and barycentres, compared with their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import EstimateWarning, InputError
from mallow.theory import _transport_frontiers as _transport_barycentres
from mallow.theory import _transport_plans
from mallow.theory import _transport_plans as _sinkhorn
from mallow.theory.transport import (
    _merged_quantiles,
    entropic_cost,
    transport_cost,
)
from point_clouds import gaussian_points

pytest.importorskip("ot", reason="needs the extra 'transport'")


def test_two_points_have_a_closed_form():
    # Plan (s, t; t, s)/2 with t/s = e^(−1/ε): the cost is t.
    x = np.array([[0.0], [1.0]])
    for regulariser in (0.05, 0.5, 5.0):
        odds = np.exp(-1 / regulariser)
        assert entropic_cost(x, x, regulariser=regulariser) == approx(odds / (1 + odds), rel=1e-7)


def test_costs_of_a_million_with_a_tiny_regulariser_are_stable():
    x, y = np.array([[0.0], [1000.0]]), np.array([[1.0], [1001.0]])
    assert entropic_cost(x, y, regulariser=0.01) == approx(1.0, rel=1e-9)  # e^(−10⁸) underflows
    scattered = 1e3 * gaussian_points(12, 2)
    moved = scattered + 1e-2 * gaussian_points(12, 2, seed=1)
    assert entropic_cost(scattered, moved, regulariser=1.0) == approx(transport_cost(scattered, moved), rel=1e-6)


def test_an_entropic_plan_that_has_not_converged_is_reported(monkeypatch):
    x, y = gaussian_points(20, 3), gaussian_points(21, 3, seed=1)
    converged = entropic_cost(x, y, regulariser=0.3)
    monkeypatch.setattr(_sinkhorn, "_MOST_ROUNDS", 2)
    message = r"^the entropic plan has not converged: its masses are off by .* Pass a larger `regulariser`, or use tra"
    with pytest.warns(EstimateWarning, match=message) as raised:
        early = entropic_cost(x, y, regulariser=0.3)
    assert [warning.filename for warning in raised] == [__file__]
    assert early == approx(converged, rel=1e-3)
    result = entropic_cost.quiet(x, y, regulariser=0.3)  # any warning would be an error
    assert result.value == early
    assert [(caveat.kind, str(caveat)) for caveat in result.caveats] == [("transport plan", str(raised[0].message))]
    assert 1e-9 < result.caveats[0].values["error"] < 1e-3
    with pytest.raises(InputError, match=r"`regulariser` is too small: after 200 steps .* or use transport_cost"):
        entropic_cost(x, y, regulariser=1e-6)


def test_scalings_beyond_any_number_are_carried_over_as_logarithms():
    # Almost all mass must take the expensive way from 0 to 11, whose kernel is e^(−2/ε) = 1e-869 of the others'.
    x, y = np.array([[0.0], [1.0]]), np.array([[10.0], [11.0]])
    p, q = [1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]
    value = entropic_cost(x, y, p=p, q=q, regulariser=1e-3)
    assert value == approx(transport_cost(x, y, p=p, q=q), rel=1e-9)


# --- the parts


@pytest.mark.parametrize("axis", [0, 1])
def test_the_soft_maximum_is_that_of_its_definition(axis):
    values = np.array([[0.0, 1.0, 1000.0], [2.0, -5.0, 999.0]])
    width = 2.0
    expected = width * np.log(np.exp((values - 500) / width).sum(axis=axis)) + 500
    assert _sinkhorn._soft_maximum(values.copy(), width, axis=axis) == approx(expected)
    assert _sinkhorn._soft_maximum(np.full((2, 2), -1e9), 1e-3, axis=axis) == approx(
        np.full(2, -1e9 + 1e-3 * np.log(2))
    )


def test_scalings_give_the_columns_exactly_and_the_rows_nearly():
    rng = np.random.default_rng(0)
    kernel = rng.uniform(0.5, 1.5, size=(4, 3))
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(3))
    a, b, error = _sinkhorn._scalings(kernel, p, q)
    plan = a[:, None] * kernel * b
    assert plan.sum(axis=0) == approx(q)
    assert error == approx(np.abs(plan.sum(axis=1) - p).sum(), abs=1e-15)
    assert error <= 1e-9


def test_scalings_that_leave_all_bounds_are_not_taken():
    ones = np.ones(2), np.ones(2)
    for kernel in (np.full((2, 2), 1e-120), np.full((2, 2), 1e120), np.zeros((2, 2))):
        a, b, error = _sinkhorn._scalings(kernel, np.full(2, 0.5), np.full(2, 0.5))
        assert (a.tolist(), b.tolist()) == (ones[0].tolist(), ones[1].tolist())
        assert error > 1e-9


def test_rounds_are_shown_until_the_masses_are_right(monkeypatch):
    from contextlib import contextmanager

    shown = []

    @contextmanager
    def bar(verb, total):
        yield lambda done, text: shown.append((verb, total, done))

    monkeypatch.setattr(_sinkhorn, "bar", bar)
    monkeypatch.setattr(_sinkhorn, "_PRODUCTS", 1)
    x, y = gaussian_points(10, 2), gaussian_points(11, 2, seed=1)
    entropic_cost(x, y, regulariser=1.0)
    assert shown == [("transport", 100, place + 1) for place in range(len(shown))]
    assert 3 < len(shown) < 99


# --- plans


def test_distances_are_squared_never_negative_and_keep_their_digits_far_away():
    x, y = gaussian_points(6, 3), gaussian_points(5, 3, seed=1)
    expected = ((x[:, None] - y) ** 2).sum(axis=-1)
    for shift in (0.0, 1e6):
        found = _transport_plans.squared_distances(x + shift, y + shift)
        assert found == approx(expected, rel=1e-6)
        assert (found >= 0).all()
    same = _transport_plans.squared_distances(x, x)
    assert np.diag(same) == approx(np.zeros(6), abs=1e-12)
    assert (same >= 0).all()


def test_on_a_line_the_smallest_goes_to_the_smallest():
    x, y = np.array([3.0, 1.0]), np.array([20.0, 40.0, 10.0])
    p, q = np.array([0.25, 0.75]), np.array([0.5, 0.125, 0.375])
    i, j, mass = _transport_plans._sorted_plan(x, y, p, q)
    plan = {(int(a), int(b)): float(m) for a, b, m in zip(i, j, mass, strict=True)}
    assert plan == {(1, 2): 0.375, (1, 0): 0.375, (0, 0): 0.125, (0, 1): 0.125}
    # Masses whose sums are rounded to either side of 1.
    third = np.full(10, 0.1)
    i, j, mass = _transport_plans._sorted_plan(np.arange(10.0), np.arange(10.0) + 1, third, third[::-1])
    assert mass.sum() == 1.0
    assert i.tolist() == j.tolist() == list(range(10))
    over = np.array([0.5, 0.5 + 1e-9])
    _, _, mass = _transport_plans._sorted_plan(np.arange(2.0), np.arange(2.0), over, np.array([0.5, 0.5]))
    assert mass.sum() == 1.0
    assert (mass >= 0).all()


def test_costs_of_nothing_have_a_plan_without_doubts():
    *_, mass, caveats = _transport_plans.optimal_plan(np.zeros((2, 2)), np.full(2, 0.5), np.full(2, 0.5))
    assert mass.sum() == approx(1.0)
    assert caveats == ()
    tiny = 1e-15 * np.array([[0.0, 4.0], [4.0, 0.0]])
    i, j, mass, _ = _transport_plans.optimal_plan(tiny, np.full(2, 0.5), np.full(2, 0.5))
    assert (i.tolist(), j.tolist()) == ([0, 1], [0, 1])
    assert mass == approx([0.5, 0.5])


def test_pairs_of_a_plan_have_the_costs_of_their_points():
    i, j, mass, caveats = _transport_plans.optimal_plan(
        np.array([[0.0, 9.0], [9.0, 0.0]]), np.array([0.3, 0.7]), np.array([0.6, 0.4])
    )
    found = {(int(a), int(b)): float(m) for a, b, m in zip(i, j, mass, strict=True)}
    assert found == approx({(0, 0): 0.3, (1, 0): 0.3, (1, 1): 0.4})
    assert caveats == ()


# --- on a line


@given(n=st.integers(1, 12), m=st.integers(1, 12))
def test_points_of_both_sides_meet_with_their_share(n, m):
    (first, second), shares = _merged_quantiles(n, m)
    assert shares.sum() == approx(1.0)
    assert (shares > 0).all()
    for places, count in ((first, n), (second, m)):
        assert (np.diff(places) >= 0).all()
        assert np.bincount(places, shares) == approx(np.full(count, 1 / count))


# --- barycentres


def test_the_curve_goes_along_the_corners_with_the_slope_of_each_edge():
    corners = [(4.0, 0.0), (1.0, 1.0), (0.0, 4.0)]
    curve = _transport_barycentres._along_corners(corners, 4.0, ())
    assert (curve.lam[0], curve.lam[-1]) == (0.0, 1.0)
    assert set(curve.lam[1:-1]) == {0.25, 0.75}  # an edge of 3 by 1, and one of 1 by 3
    points = np.c_[curve.p_to_mix, curve.q_to_mix]
    assert [tuple(point) for point in points[[0, 1, -2, -1]]] == [(4, 0), (4, 0), (0, 4), (0, 4)]
    assert (1.0, 1.0) in [tuple(point) for point in points]
    assert (np.diff(curve.p_to_mix) <= 0).all()
    assert (np.diff(curve.q_to_mix) >= 0).all()
    # 1,024 points for a way of twice the whole cost.
    assert len(points) == 2 * (512 + 1) + 2
    lengths = np.abs(np.diff(points, axis=0)).sum(axis=1)
    assert lengths.max() == approx(8 / 1024)


def test_the_worst_of_several_doubts_is_told():
    from mallow.errors import Caveat

    doubts = tuple(Caveat("transport plan", "Doubt.", values={"gap": gap}) for gap in (0.1, 0.3, 0.2))
    assert _transport_barycentres.worst_caveat(doubts) == (doubts[1],)
    assert _transport_barycentres.worst_caveat(()) == ()
