"""Exact transport plans: by sorting on a line, by the network simplex elsewhere."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mallow._optional import optional
from mallow.engine import bar, single_threaded_blas
from mallow.errors import Caveat
from mallow.theory._arrays import Array
from mallow.theory._transport_inputs import drop_empty

_PIVOTS = 100_000  # chosen: of the network simplex between two updates of the bar, a few seconds for 5,000 points
_OUT_OF_PIVOTS = 3  # POT's result code
_MOST_GAP = 1e-6  # chosen: relative gap to the dual bound, above which a plan is reported as doubtful


def exact_cost(
    x: Array, y: Array, p: Array, q: Array, *, show_bar: bool | None = None
) -> tuple[float, tuple[Caveat, ...]]:
    """The cost of the best plan, and a caveat if the plan is not proven to be the best."""
    x, y, p, q = drop_empty(x, y, p, q)
    caveats: tuple[Caveat, ...] = ()
    if x.shape[1] == 1:
        i, j, mass = _sorted_plan(x[:, 0], y[:, 0], p, q)
    else:
        with single_threaded_blas():
            cost = squared_distances(x, y)
        plan, caveats = _simplex_plan(cost, p, q, show_bar=show_bar)
        i, j = plan.nonzero()
        mass = plan[i, j]
    # Distances are taken again for the few pairs of the plan: those in `cost` are rounded in units of the largest.
    return float(mass @ ((x[i] - y[j]) ** 2).sum(axis=1)), caveats


def optimal_plan(cost: Array, p: Array, q: Array) -> tuple[Any, Any, Array, tuple[Caveat, ...]]:
    """The plan of least cost as pairs (i, j) with their mass, and a caveat if it is not proven; `cost` is overwritten."""
    plan, caveats = _simplex_plan(cost, p, q, show_bar=False)
    i, j = plan.nonzero()
    return i, j, plan[i, j], caveats


def squared_distances(x: Array, y: Array) -> Array:
    """‖x_i − y_j‖² for all pairs, by one matrix product around a common middle."""
    middle = (x.mean(axis=0) + y.mean(axis=0)) / 2
    x, y = x - middle, y - middle
    squares = x @ y.T
    squares *= -2.0
    squares += (x**2).sum(axis=1)[:, None]
    squares += (y**2).sum(axis=1)
    np.maximum(squares, 0.0, out=squares)
    return squares


def _sorted_plan(x: Array, y: Array, p: Array, q: Array) -> tuple[Any, Any, Array]:
    """The plan on a line, as pairs (i, j) with their mass: the smallest of x goes to the smallest of y, and so on."""
    order_x, order_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    up_to_x, up_to_y = (np.minimum(np.cumsum(mass), 1.0) for mass in (p[order_x], q[order_y]))
    up_to_x[-1] = up_to_y[-1] = 1.0
    ends = np.union1d(up_to_x, up_to_y)
    i = order_x[np.searchsorted(up_to_x, ends)]
    j = order_y[np.searchsorted(up_to_y, ends)]
    return i, j, np.diff(ends, prepend=0.0)


def _simplex_plan(cost: Array, p: Array, q: Array, *, show_bar: bool | None) -> tuple[Array, tuple[Caveat, ...]]:
    """The plan (n, m) of least cost; `cost` is overwritten."""
    ot = optional("ot", extra="transport")
    largest = float(cost.max())
    if largest > 0.0:
        cost /= largest  # with costs near 1e-15, POT silently accepts any plan as the best
    duals, pivots = None, 0
    with bar("transport", 1000, wanted=show_bar) as show:
        while True:
            pivots += _PIVOTS  # more each time: whatever a restart loses, the last search is long enough
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # POT's warning that it ran out of pivots
                plan, log = ot.emd(p, q, cost, numItermax=pivots, log=True, potentials_init=duals)
            duals = log["u"], log["v"]
            # A lower bound from the dual problem: any prices of y, with the best prices of x for them.
            least = float(p @ (cost - duals[1]).min(axis=1) + q @ duals[1])
            proven = min(max(least / log["cost"], 0.0), 1.0) if log["cost"] > 0 else 1.0
            show(round(1000 * proven), f"{proven:.1%} of the cost proven")
            if log["result_code"] != _OUT_OF_PIVOTS:
                break
    doubtful = log["cost"] - least > _MOST_GAP * log["cost"] + 1e-12
    return plan, (_gap_caveat(1 - proven),) if doubtful else ()


def _gap_caveat(gap: float) -> Caveat:
    message = f"the transport plan may not be the best: its cost is only proven to be within {gap:.1%} of the least."
    return Caveat("transport plan", message, values={"gap": gap})
