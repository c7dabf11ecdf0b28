"""Optimal transport frontiers: linear, barycentric (on the bins, as in the paper, or anywhere) and entropic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from mallow._checks import open_unit, positive, whole
from mallow.engine import bar, single_threaded_blas
from mallow.errors import Caveat, InputError, warns
from mallow.theory._frontier import Frontier
from mallow.theory._masses import Array, Masses
from mallow.theory._transport_plans import checked_atoms, exact_cost, optimal_plan, squared_distances

_DEPTH = 10  # chosen: the linear frontier is halved at most this often. Its λ are multiples of 2**-_DEPTH
_LAM = np.arange(2**_DEPTH + 1) / 2**_DEPTH

_POINTS = 1024  # chosen: points of a curve, so that the area of its exponential is right to about 1e-6
_MOST_VERTICES = 1024  # chosen: a frontier with more corners than this has been resolved to its tolerance long before
_ROUNDING = 1e-9  # chosen: in units of the cost between P and Q. A corner this near to the line may be rounding

Corner = tuple[float, float]

_LARGEST_EXPONENT = 500.0  # chosen: exp(−500) and its products with scalings are far from the least float64
_MARGINAL_ERROR = 1e-9  # chosen: of the masses of each plan, in total, at which the iteration stops
_MOST_ROUNDS = 20_000  # chosen: far more than a median entropy needs
_BETWEEN = 20  # chosen: rounds between two looks at the error


@warns
def linear_frontier(masses: Masses, *, tolerance: float = 1e-3) -> Frontier:
    """The optimal transport frontier with linear interpolation: costs of P and of Q to R_λ = λP + (1−λ)Q.

    Its area is MAUVE_OT. With W the cost between P and Q, the costs run from (W, 0) at λ = 0 to (0, W) at λ = 1, and
    are at most ((1−λ)W, λW), by leaving λP in place and moving the rest. In many dimensions this bound is attained, and
    the area is e^{−cW}(1 + cW). In few dimensions, a chain of short moves is cheaper than one long move.

    The paper proposes an entropy to make this fast (`entropic_linear_frontier`). It is not needed: a cost is convex and
    piecewise linear in λ (the value of a linear programme), so an interval of λ is halved until its middle lies on the
    line between its ends. 500 bins need one mixture in many dimensions and about forty in two: 0.1 and 3 s.

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize`, as in the paper, or from `point_masses`, for which each λ takes as long as
        `transport_cost` of n and n + m points.
    tolerance : float
        How far a middle may lie below the line, in units of W. The error of the costs is at most twice as large, and
        the error of the area (c = 5) was at most 2e-4 in trials with the default.

    Returns
    -------
    Frontier
        At 1,025 values of λ from 0 to 1, both included, for `mallow.area`.

    Examples
    --------
    >>> from mallow.theory.transport import point_masses
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
    computed = sorted(costs)
    to_p, to_q = (np.interp(_LAM, computed, [costs[lam][side] for lam in computed]) for side in (0, 1))
    return Frontier(_LAM.copy(), to_p, to_q, caveats=worst_caveat(doubts))


@warns
def barycentric_frontier(masses: Masses, *, tolerance: float = 1e-3) -> Frontier:
    """The optimal transport frontier with barycentric interpolation: costs of P and Q to their barycentres on the bins.

    The barycentre of weight λ is the histogram R over the *same bins* that minimises λ·cost(P, R) + (1−λ)·cost(Q, R)
    (paper: eq:bary-frontier-def, with the cost ρ_k between cluster indices). `free_barycentric_frontier` lets R put its
    mass anywhere.

    A unit of mass goes from bin i of P to some bin r and on to bin j of Q, and should take the r with the smallest
    λρ(i, r) + (1−λ)ρ(r, j). Therefore one transport problem between P and Q with this smallest cost solves the linear
    programme of the barycentre, exactly and for any number of bins. The best value is concave and piecewise linear in
    λ. Between two known barycentres, the λ at which both are equally good shows whether there is a better one. In many
    dimensions there is often none except Q (λ below ½) and P (λ above ½).

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize`, as in the paper, or from `point_masses`.
    tolerance : float
        How far a missed barycentre may lie below the line between two others, in units of the cost W between P and Q.

    Returns
    -------
    Frontier
        From λ = 0 to 1, both included. If several barycentres are equally good at a λ, the points between them are also
        barycentres, and all have this λ.

    Examples
    --------
    >>> from mallow.theory.transport import point_masses
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
        np.fill_diagonal(cost, 0.0)  # exactly, despite rounding, since mass may stay in place
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
                todo += [(corner, right), (left, corner)]  # the left part first, so that corners come in order
            else:  # a corner that is hardly below the line is kept, but its sides are not searched
                corners += [corner, right] if below > _ROUNDING * whole else [right]
            show(round(1000 * (1.0 - corners[-1][0] / whole)), f"{solved} barycentres")
    return _along_corners(corners, whole, worst_caveat(doubts))


@warns
def free_barycentric_frontier(masses: Masses) -> Frontier:
    """The barycentric frontier with barycentres that may put mass anywhere in space, not only on the bins.

    The barycentre is then P moved the fraction 1−λ of its way to Q, and the costs are ((1−λ)²W, λ²W) with the cost W
    between P and Q: one transport problem yields the whole curve. Its area depends only on W, and orders models like W.
    It lies below `barycentric_frontier`, the frontier of the paper.

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
    >>> from mallow.theory.transport import point_masses
    >>> curve = free_barycentric_frontier(point_masses([[0.0]], [[2.0]]))
    >>> curve.lam[[0, 512, 1024]], curve.p_to_mix[[0, 512, 1024]]  # half-way, both are at distance 1
    (array([0. , 0.5, 1. ]), array([4., 1., 0.]))
    """
    centres, p, q = checked_atoms(masses)
    whole, caveats = exact_cost(centres, centres, p, q)
    lam = np.arange(_POINTS + 1) / _POINTS
    return Frontier(lam, (1.0 - lam) ** 2 * whole, lam**2 * whole, caveats=caveats)


def worst_caveat(caveats: tuple[Caveat, ...]) -> tuple[Caveat, ...]:
    """The caveat with the largest gap, since one frontier solves many transport problems."""
    return (max(caveats, key=lambda caveat: caveat.values["gap"]),) if caveats else ()


def _barycentre_costs(cost: Array, p: Array, q: Array, lam: float) -> tuple[Corner, tuple[Caveat, ...]]:
    """The costs of P and of Q to a barycentre of weight λ on the bins."""
    of_p, of_q = np.flatnonzero(p), np.flatnonzero(q)
    before, after = lam * cost[of_p], (1.0 - lam) * cost[:, of_q]  # (i, r), (r, j)
    least = np.full((len(of_p), len(of_q)), np.inf)
    for stop in range(len(cost)):  # the smallest over r, without an array of all three
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


@warns
def entropic_linear_frontier(masses: Masses, *, regulariser: float | None = None, points: int = 63) -> Frontier:
    """The optimal transport frontier with linear interpolation and the costs of entropic plans.

    At λ = 1/(points + 1), 2/(points + 1), … the costs Σ π_ij ρ(i, j) of the plans from P and from Q to λP + (1−λ)Q that
    minimise this cost plus ε Σ π_ij log π_ij, as in `entropic_cost`. The entropy blurs the plans, so that equal samples
    have costs above 0 and an area below 1: only compare areas of the same ε, and report it. `linear_frontier` is exact.

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize`, as in the paper, or from `point_masses`.
    regulariser : float or None
        The weight ε of the entropy, in units of the cost. None: the median of all pairwise costs between bins, as the
        paper advises.
    points : int
        Values of λ.

    Examples
    --------
    >>> from mallow.theory.transport import point_masses
    >>> curve = entropic_linear_frontier(point_masses([[0.0]], [[1.0]]), regulariser=0.01, points=3)
    >>> curve.lam, curve.p_to_mix.round(6)  # as good as exact
    (array([0.25, 0.5 , 0.75]), array([0.75, 0.5 , 0.25]))
    """

    def mixture(p: Array, q: Array, lam: Array, reached: Array) -> Array:
        mix: Array = (p[:, None] * lam + q[:, None] * (1.0 - lam))[..., None]  # (bins, λ, 1)
        return mix

    return _entropic_frontier(masses, regulariser, points, "linear_frontier", mixture)


@warns
def entropic_barycentric_frontier(masses: Masses, *, regulariser: float | None = None, points: int = 63) -> Frontier:
    """The optimal transport frontier with barycentric interpolation on the bins, with entropic plans.

    The barycentre R minimises λ·cost(P, R) + (1−λ)·cost(Q, R), where each cost includes ε Σ π_ij log π_ij. It is found
    by iterative Bregman projections (Benamou et al., 2015). The frontier holds the costs Σ π_ij ρ(i, j) of both plans.
    As in `entropic_linear_frontier`, equal samples have an area below 1. `barycentric_frontier` is exact.

    Parameters
    ----------
    masses :
        As in `entropic_linear_frontier`.
    regulariser :
        As in `entropic_linear_frontier`.
    points :
        As in `entropic_linear_frontier`.

    Examples
    --------
    >>> from mallow.theory.transport import point_masses
    >>> curve = entropic_barycentric_frontier(point_masses([[0.0]], [[1.0]]), regulariser=0.01, points=3)
    >>> curve.p_to_mix.round(6)  # as good as exact: Q below λ = ½, P above, half of each between
    array([1. , 0.5, 0. ])
    """

    def barycentre(p: Array, q: Array, lam: Array, reached: Array) -> Array:
        weight = np.stack([lam, 1.0 - lam], axis=-1)  # (λ, sides)
        mix: Array = np.exp((weight * np.log(reached)).sum(axis=-1, keepdims=True))
        return mix

    return _entropic_frontier(masses, regulariser, points, "barycentric_frontier", barycentre)


def _entropic_frontier(
    masses: Masses,
    regulariser: float | None,
    points: int,
    exact: str,
    middle: Callable[[Array, Array, Array, Array], Array],
) -> Frontier:
    """The costs of the plans diag(u) K diag(v) from P and from Q to R = middle(p, q, λ, K u), for all λ at once."""
    if regulariser is not None:
        regulariser = positive("regulariser", regulariser)
    lam = np.arange(1, whole("points", points, least=1) + 1) / (points + 1)
    centres, p, q = checked_atoms(masses)
    with single_threaded_blas():
        cost = squared_distances(centres, centres)
    np.fill_diagonal(cost, 0.0)
    if regulariser is None:
        regulariser = float(np.median(cost))
        if regulariser <= 0.0 < cost.max():
            raise InputError(
                "`regulariser` cannot be the median of the pairwise costs, which is 0: more than half of the bins "
                f"coincide. Pass a number, such as the mean cost, {float(cost.mean()):.3g}."
            )
    if cost.max() > _LARGEST_EXPONENT * regulariser:
        raise InputError(
            f"`regulariser` must be at least 1/{_LARGEST_EXPONENT:g} of the largest cost, {float(cost.max()):.3g}; got "
            f"{regulariser:.3g}. Pass a larger one, or use {exact}, which is exact."
        )
    kernel = np.exp(-cost / regulariser) if cost.any() else np.ones_like(cost)
    sides = np.stack([p, q], axis=-1)[:, None]  # (bins, 1, sides)
    u = np.ones((len(p), len(lam), 2))
    error = np.inf
    with single_threaded_blas(), bar("frontier", _MOST_ROUNDS) as show:
        reached = _times(kernel, u)
        for done in range(1, _MOST_ROUNDS + 1):
            mix = middle(p, q, lam, reached)
            v = mix / reached
            u = sides / _times(kernel, v)
            reached = _times(kernel, u)
            if done % _BETWEEN == 0:
                error = float(np.abs(v * reached - mix).sum(axis=0).max())
                show(done, f"masses off by {error:.1e}")
                if error <= _MARGINAL_ERROR:
                    break
        moved = (u * _times(kernel * cost, v)).sum(axis=0)  # (λ, sides)
    curve = Frontier(lam, moved[:, 0], moved[:, 1])
    if error <= _MARGINAL_ERROR:
        return curve
    message = (
        f"the entropic plans have not converged: their masses are off by {error:.1e} in total. "
        "Pass a larger `regulariser`, or use the exact frontier."
    )
    return replace(curve, caveats=(Caveat("transport plan", message, values={"error": error, "gap": error}),))


def _times(matrix: Array, scalings: Array) -> Array:
    """The matrix times each column of scalings (bins, λ, sides)."""
    product: Array = (matrix @ scalings.reshape(len(scalings), -1)).reshape(scalings.shape)
    return product
