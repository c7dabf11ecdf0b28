"""Exact plans: resumed searches, plans that are not proven to be the best, a missing solver."""

import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, InputError, area
from mallow.theory import _transport_plans
from mallow.theory.transport import (
    barycentric_frontier,
    entropic_cost,
    linear_frontier,
    point_masses,
    quantized_cost,
    transport_cost,
)
from point_clouds import gaussian_points

pytest.importorskip("ot", reason="needs the extra 'transport'")

X = np.zeros((3, 2))


def test_a_long_search_is_resumed_and_shows_its_progress(monkeypatch):
    updates = []

    @contextmanager
    def recorded(verb, total, *, wanted=None):
        yield lambda done, text: updates.append((verb, done / total, text))

    x, y = gaussian_points(120, 6), gaussian_points(120, 6, seed=1)
    at_once = transport_cost(x, y)
    monkeypatch.setattr(_transport_plans, "bar", recorded)
    monkeypatch.setattr(_transport_plans, "_PIVOTS", 100)
    assert transport_cost(x, y) == approx(at_once, rel=1e-12)
    assert 3 < len(updates) < 9  # 5; it would be 12 if each search began anew
    assert {verb for verb, _, _ in updates} == {"transport"}
    assert updates[0][1] < 0.9 < updates[-1][1] <= 1.0
    assert updates[-1][2] == "100.0% of the cost proven"


@pytest.fixture
def careless_solver(monkeypatch):
    """A solver that returns the product plan as if it were the best."""
    import ot

    def careless(p, q, cost, **options):
        plan, log = ot.lp.emd(p, q, cost, log=True)
        plan = np.outer(p, q)
        return plan, log | {"cost": float((plan * cost).sum())}

    monkeypatch.setattr(ot, "emd", careless)


DOUBT = r"^the transport plan may not be the best: its cost is only proven to be within \d+\.\d% of the least\.$"
PAIR = gaussian_points(20, 3), gaussian_points(20, 3, seed=1)
MASSES = point_masses(*PAIR)


@pytest.mark.parametrize(
    "call",
    [
        lambda: transport_cost(*PAIR),
        lambda: quantized_cost(MASSES),
        lambda: linear_frontier(MASSES),
        lambda: barycentric_frontier(MASSES),
    ],
)
@pytest.mark.usefixtures("careless_solver")
def test_a_plan_that_is_not_the_best_is_reported_once_at_the_line_of_the_caller(call):
    with pytest.warns(EstimateWarning, match=DOUBT) as raised:
        call()
    assert len(raised) == 1
    assert raised[0].filename == __file__


@pytest.mark.parametrize(
    "call",
    [
        lambda: transport_cost.quiet(*PAIR),
        lambda: quantized_cost.quiet(MASSES),
        lambda: linear_frontier.quiet(MASSES),
        lambda: barycentric_frontier.quiet(MASSES),
    ],
)
@pytest.mark.usefixtures("careless_solver")
def test_forms_without_warnings_carry_the_caveat(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (caveat,) = call().caveats
    assert caveat.kind == "transport plan"
    assert 0 < caveat.values["gap"] < 1


@pytest.mark.usefixtures("careless_solver")
def test_a_frontier_reports_its_worst_plan():
    curve = linear_frontier.quiet(MASSES)
    assert curve.caveats[0].values["gap"] >= quantized_cost.quiet(MASSES).caveats[0].values["gap"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 <= area(curve, scale=5) <= 1  # the curve carries the doubt; its area does not warn again


def test_without_the_solver_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(InputError, match=r"ot is needed .* pip install '.*\[transport\]'$"):
        transport_cost(X, X + 1.0)
    # On a line, for Gaussians and with an entropy it is not needed.
    assert transport_cost([[0.0]], [[2.0]]) == 4.0
    assert entropic_cost(X, X + 1.0) == approx(2.0)


# --- the parts


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


@pytest.mark.usefixtures("careless_solver")
def test_the_gap_is_the_share_of_the_cost_that_is_not_proven():
    x, y = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 1.0]])  # best: 1; the product plan: 1.5
    (caveat,) = transport_cost.quiet(x, y).caveats
    assert caveat.message.endswith("only proven to be within 33.3% of the least.")
    assert (caveat.kind, caveat.values) == ("transport plan", {"gap": approx(1 / 3)})
    assert transport_cost.quiet(x, y).value == approx(1.5)


def test_pairs_of_a_plan_have_the_costs_of_their_points():
    i, j, mass, caveats = _transport_plans.optimal_plan(
        np.array([[0.0, 9.0], [9.0, 0.0]]), np.array([0.3, 0.7]), np.array([0.6, 0.4])
    )
    found = {(int(a), int(b)): float(m) for a, b, m in zip(i, j, mass, strict=True)}
    assert found == approx({(0, 0): 0.3, (1, 0): 0.3, (1, 1): 0.4})
    assert caveats == ()
