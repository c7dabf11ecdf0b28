"""Sinkhorn's iteration: closed forms, extreme regularisers, plans that have not converged."""

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, InputError
from mallow.theory import _transport_plans as _sinkhorn
from mallow.theory.transport import entropic_cost, transport_cost
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
