"""Optimal transport frontiers by barycentric interpolation: barycentres on the bins, as in the paper, or anywhere."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from mallow._checks import open_unit
from mallow.engine import bar, single_threaded_blas
from mallow.errors import Caveat, warns
from mallow.theory._arrays import Array
from mallow.theory._frontier import Frontier
from mallow.theory._masses import Masses
from mallow.theory._transport_costs import quantized_cost
from mallow.theory._transport_inputs import checked_atoms
from mallow.theory._transport_plans import exact_cost, optimal_plan, squared_distances

_POINTS = 1024  # chosen: points of a curve, so that the area of its exponential is right to about 1e-6
_MOST_VERTICES = 1024  # chosen: a frontier with more corners than this has been resolved to its tolerance long before
_ROUNDING = 1e-9  # chosen: in units of the cost between P and Q; a corner this near to the line may be rounding

Corner = tuple[float, float]


@warns
def barycentric_frontier(masses: Masses, *, tolerance: float = 1e-3) -> Frontier:
    """The optimal transport frontier with barycentric interpolation: costs of P and of Q to their barycentres on the bins.

    The barycentre of weight λ is the histogram R over the *same bins* that minimises λ·cost(P, R) + (1−λ)·cost(Q, R) (paper:
    eq:bary-frontier-def, with the cost ρ_k between cluster indices). `free_barycentric_frontier` lets R put its mass
    anywhere.

    A unit of mass goes from bin i of P to some bin r and on to bin j of Q, and should take the r with the least
    λρ(i, r) + (1−λ)ρ(r, j). Therefore one transport problem between P and Q with this least cost solves the linear
    programme of the barycentre, exactly and for any number of bins. The best value is concave and piecewise linear
    in λ: between two barycentres that are known, the λ at which both are equally good shows whether there is a better
    one. In many dimensions there is often none beside Q (λ below ½) and P (λ above ½).

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize`, as in the paper, or from `point_masses`.
    tolerance : float
        How far a missed barycentre may lie below the line between two others, in units of the cost W between P and Q.

    Returns
    -------
    Frontier
        From λ = 0 to 1, both included. At a λ where several barycentres are equally good, the points between them are
        barycentres too, and all have this λ.

    Examples
    --------
    >>> from mallow.transport import point_masses
    >>> curve = barycentric_frontier(point_masses([[0.0]], [[2.0]]))  # R has its mass on 0 and 2, at no cost there
    >>> curve.lam[[0, 1, -2, -1]], curve.p_to_mix[[0, 1, -2, -1]]
    (array([0. , 0.5, 0.5, 1. ]), array([4., 4., 0., 0.]))
    """
    tolerance = open_unit("tolerance", tolerance)
    centres, p, q = checked_atoms(masses)
    whole, doubts = exact_cost(centres, centres, p, q)
    if whole == 0.0:
        return Frontier(np.array([0.0, 1.0]), np.zeros(2), np.zeros(2), caveats=doubts)
    with single_threaded_blas(), bar("frontier", 1000) as show:
        cost = squared_distances(centres, centres)
        np.fill_diagonal(cost, 0.0)  # exactly, whatever rounding: mass may stay where it is
        corners: list[Corner] = [(whole, 0.0)]
        todo: list[tuple[Corner, Corner]] = [((whole, 0.0), (0.0, whole))]
        solved = 0
        while todo:
            (high_p, low_q), (low_p, high_q) = left, right = todo.pop()
            lam = (high_q - low_q) / (high_p - low_p + high_q - low_q)
            corner, caveats = _barycentre_costs(cost, p, q, lam)
            doubts, solved = doubts + caveats, solved + 1
            line, value = (lam * a + (1.0 - lam) * b for a, b in (left, corner))
            inside = low_p < corner[0] < high_p and low_q < corner[1] < high_q
            below = line - value if inside else 0.0
            if below > tolerance * whole and solved < _MOST_VERTICES:
                todo += [(corner, right), (left, corner)]  # the left part first: corners come in order
            else:  # a corner that is hardly below the line is known now, and kept, but none is looked for beside it
                corners += [corner, right] if below > _ROUNDING * whole else [right]
            show(round(1000 * (1.0 - corners[-1][0] / whole)), f"{solved} barycentres")
    return _along_corners(corners, whole, worst_caveat(doubts))


@warns
def free_barycentric_frontier(masses: Masses) -> Frontier:
    """The barycentric frontier where the barycentre may put its mass anywhere in space, not only on the bins.

    The barycentre is then P moved the fraction 1−λ of its way to Q, and the costs are ((1−λ)²W, λ²W) with the cost W
    between P and Q: one transport problem yields the whole curve. Its area is a function of W alone, and orders models as
    W does. It lies below `barycentric_frontier`, the one of the paper.

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize` or from `point_masses`.

    Returns
    -------
    Frontier
        At 1,025 values of λ from 0 to 1, both included.

    Examples
    --------
    >>> from mallow.transport import point_masses
    >>> curve = free_barycentric_frontier(point_masses([[0.0]], [[2.0]]))
    >>> curve.lam[[0, 512, 1024]], curve.p_to_mix[[0, 512, 1024]]  # half-way, both are at distance 1
    (array([0. , 0.5, 1. ]), array([4., 1., 0.]))
    """
    whole = quantized_cost.quiet(masses)
    lam = np.arange(_POINTS + 1) / _POINTS
    return Frontier(lam, (1.0 - lam) ** 2 * whole.value, lam**2 * whole.value, caveats=whole.caveats)


def worst_caveat(caveats: tuple[Caveat, ...]) -> tuple[Caveat, ...]:
    """The caveat with the largest gap: one frontier solves many transport problems."""
    return (max(caveats, key=lambda caveat: caveat.values["gap"]),) if caveats else ()


def _barycentre_costs(cost: Array, p: Array, q: Array, lam: float) -> tuple[Corner, tuple[Caveat, ...]]:
    """The costs of P and of Q to a barycentre of weight λ on the bins."""
    of_p, of_q = np.flatnonzero(p), np.flatnonzero(q)
    before, after = lam * cost[of_p], (1.0 - lam) * cost[:, of_q]  # (i, r), (r, j)
    least = np.full((len(of_p), len(of_q)), np.inf)
    for stop in range(len(cost)):  # the least over r, without an array of all three
        np.minimum(least, before[:, stop, None] + after[stop], out=least)
    i, j, mass, caveats = optimal_plan(least, p[of_p], q[of_q])
    by_way_of = (before[i] + after[:, j].T).argmin(axis=1)
    return (float(mass @ cost[of_p[i], by_way_of]), float(mass @ cost[by_way_of, of_q[j]])), caveats


def _along_corners(corners: list[Corner], whole: float, caveats: tuple[Caveat, ...]) -> Frontier:
    """The curve through the corners of the frontier: each edge belongs to one λ."""
    lam, costs = [0.0], [np.array([corners[0]])]
    for (high_p, low_q), (low_p, high_q) in pairwise(corners):
        across, up = high_p - low_p, high_q - low_q
        steps = max(1, math.ceil(_POINTS * (across + up) / (2.0 * whole)))
        share = np.arange(steps + 1)[:, None] / steps
        costs.append((1.0 - share) * [high_p, low_q] + share * [low_p, high_q])
        lam += [up / (across + up)] * (steps + 1)
    points = np.concatenate([*costs, [corners[-1]]])
    return Frontier(np.array([*lam, 1.0]), points[:, 0], points[:, 1], caveats=caveats)
