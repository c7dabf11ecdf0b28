"""Exact plans: resumed searches, plans that are not proven to be the best, a missing solver."""

import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, InputError, area
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
    monkeypatch.setattr("mallow.theory._transport_plans.bar", recorded)
    monkeypatch.setattr("mallow.theory._transport_plans._PIVOTS", 100)
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


@pytest.mark.usefixtures("careless_solver")
def test_the_gap_is_the_share_of_the_cost_that_is_not_proven():
    x, y = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 1.0]])  # best: 1; the product plan: 1.5
    (caveat,) = transport_cost.quiet(x, y).caveats
    assert caveat.message.endswith("only proven to be within 33.3% of the least.")
    assert (caveat.kind, caveat.values) == ("transport plan", {"gap": approx(1 / 3)})
    assert transport_cost.quiet(x, y).value == approx(1.5)
