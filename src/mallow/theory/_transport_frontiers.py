"""Optimal transport frontiers by linear interpolation."""

from __future__ import annotations

import numpy as np

from mallow._checks import open_unit
from mallow.engine import bar, single_threaded_blas
from mallow.errors import warns
from mallow.theory._arrays import Array
from mallow.theory._frontier import Frontier
from mallow.theory._masses import Masses
from mallow.theory._transport_barycentres import worst_caveat
from mallow.theory._transport_inputs import checked_atoms
from mallow.theory._transport_plans import exact_cost

_DEPTH = 10  # chosen: the linear frontier is halved at most this often; its λ are multiples of 2**-_DEPTH
_LAM = np.arange(2**_DEPTH + 1) / 2**_DEPTH


@warns
def linear_frontier(masses: Masses, *, tolerance: float = 1e-3) -> Frontier:
    """The optimal transport frontier with linear interpolation: costs of P and of Q to R_λ = λP + (1−λ)Q.

    Its area is MAUVE_OT. With W the cost between P and Q, the costs run from (W, 0) at λ = 0 to (0, W) at λ = 1, and
    are at most ((1−λ)W, λW): leave λP in place and move the rest. In many dimensions this bound is attained,
    and the area is e^{−cW}(1 + cW). In few dimensions, a chain of short moves is cheaper than one long move.

    The paper proposes an entropy to make this fast (`entropic_linear_frontier`). It is not needed: a cost is convex and piecewise linear in λ
    (the value of a linear programme), so that an interval of λ is halved until its middle lies on the line between
    its ends. 500 bins need one mixture in many dimensions and about forty in two: 0.1 and 3 s.

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize`, as in the paper, or from `point_masses`, for which each λ takes as long as
        `transport_cost` of n and n + m points.
    tolerance : float
        How far a middle may lie below the line, in units of W. The error of the costs is at most twice that, and that
        of the area (c = 5) was at most 2e-4 in trials with the default.

    Returns
    -------
    Frontier
        At 1,025 values of λ from 0 to 1, both included, as `mallow.area` takes it.

    Examples
    --------
    >>> from mallow.transport import point_masses
    >>> curve = linear_frontier(point_masses([[0.0]], [[1.0]]))
    >>> curve.lam[[0, 256, -1]], curve.p_to_mix[[0, 256, -1]]
    (array([0.  , 0.25, 1.  ]), array([1.  , 0.75, 0.  ]))
    """
    tolerance = open_unit("tolerance", tolerance)
    centres, p, q = checked_atoms(masses)
    whole, doubts = exact_cost(centres, centres, p, q)
    costs = {0.0: np.array([whole, 0.0]), 1.0: np.array([0.0, whole])}
    open_intervals, closed = [(0.0, 1.0)] if whole > 0.0 else [], 0.0
    with single_threaded_blas(), bar("frontier", 1000) as show:
        while open_intervals:
            low, high = open_intervals.pop()
            lam = (low + high) / 2
            mix = lam * p + (1.0 - lam) * q
            (to_p, doubts_p), (to_q, doubts_q) = (
                exact_cost(centres, centres, side, mix, show_bar=False) for side in (p, q)
            )
            costs[lam] = np.array([to_p, to_q])
            doubts += doubts_p + doubts_q
            below = (costs[low] + costs[high]) / 2 - costs[lam]
            if below.max() > tolerance * whole and high - low > 2.0 ** (1 - _DEPTH):
                open_intervals += [(low, lam), (lam, high)]
            else:
                closed += high - low
            show(round(1000 * closed), f"{len(costs) - 2} mixtures")
    return Frontier(_LAM.copy(), _polyline(costs, 0), _polyline(costs, 1), caveats=worst_caveat(doubts))


def _polyline(costs: dict[float, Array], side: int) -> Array:
    """One cost at all λ, on straight lines between the computed ones."""
    computed = sorted(costs)
    values: Array = np.interp(_LAM, computed, [costs[lam][side] for lam in computed])
    return values
