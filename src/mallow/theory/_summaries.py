"""The three summaries of a frontier: area (MAUVE), integral and mid-point (paper: ssec:scalar).

Each takes a frontier, or masses whose frontier it builds. Only then does it raise the warnings of the frontier: a
curve from `frontier` has raised them already.
"""

from __future__ import annotations

import numpy as np

from mallow._checks import open_unit, positive
from mallow.errors import InputError, warn_about
from mallow.theory._arrays import Array
from mallow.theory._divergence import CHI2, CHI2_INTEGRAL, KL, KL_INTEGRAL, Divergence
from mallow.theory._frontier import Frontier, Grid, costs_to_mixtures, frontier
from mallow.theory._masses import Masses
from mallow.theory._panels import panel_integrals

_CLOSED_INTEGRALS = {KL: KL_INTEGRAL, CHI2: CHI2_INTEGRAL}


def area(
    frontier_or_masses: Frontier | Masses, *, scale: float, divergence: Divergence = KL, grid: Grid = None
) -> float | Array:
    """The area under the exponentiated frontier: MAUVE (paper: eq:mauve:area-def).

    1 means indistinguishable, 0 means disjoint (nearly: for KL and disjoint supports it is c·B(c, c+1)).

    Parameters
    ----------
    frontier_or_masses : Frontier or Masses
        For masses, the frontier of `divergence` is built first, with `grid`.
    scale : float
        The constant c in exp(−c·cost). Report it with the value: it changes the value and can
        change the order of models, although the paper says that it cannot (docs/paper.md, erratum 4).
    divergence, grid :
        For masses only; see `frontier`.

    Examples
    --------
    >>> float(area(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]), scale=5).round(12))
    0.003968253968
    """
    scale = positive("scale", scale)
    curve = frontier_or_masses
    if isinstance(curve, Masses):
        curve = frontier.quiet(curve, divergence, grid=grid)
        warn_about(curve.caveats)
    elif divergence is not KL or grid is not None:
        raise InputError("`divergence` and `grid` are settings of the frontier; pass them to `frontier`.")
    lost_x, lost_y = -np.expm1(-scale * curve.p_to_mix), -np.expm1(-scale * curve.q_to_mix)
    if curve.exact:
        # 1 minus the area lost above the curve, so that P = Q gives exactly 1.
        lost = panel_integrals(lost_y, -lost_x).sum(axis=-1) + lost_x[..., -1] * lost_y[..., -1]
        total = 1.0 - lost
    else:
        pad = [(0, 0)] * (lost_x.ndim - 1) + [(1, 1)]
        x = np.pad(1.0 - lost_x, pad, constant_values=[(0.0, 0.0)] * (lost_x.ndim - 1) + [(0.0, 1.0)])
        y = np.pad(1.0 - lost_y, pad, constant_values=[(0.0, 0.0)] * (lost_y.ndim - 1) + [(1.0, 0.0)])
        # The mean of the integrals along x and along y; for a monotone curve they are equal.
        total = np.trapezoid(y, x, axis=-1) / 2 - np.trapezoid(x, y, axis=-1) / 2
    clipped: float | Array = np.clip(total, 0.0, 1.0)[()]
    return clipped


def integral(frontier_or_masses: Frontier | Masses, divergence: Divergence = KL) -> float | Array:
    """The integral summary 2∫(λ D_f(P‖R_λ) + (1−λ) D_f(Q‖R_λ))dλ; 0 means equal (paper: ssec:scalar).

    For masses of histograms, KL and χ² have a closed form: at most 1 for KL, with a relative error below 1e-10
    however near P and Q are, and exactly twice that for χ². Otherwise it is quadrature on the exact frontier.

    Examples
    --------
    >>> float(integral(Masses.from_histograms([1.0, 0.0], [0.0, 1.0])))
    1.0
    """
    curve = frontier_or_masses
    if isinstance(curve, Masses):
        closed = closed_integral(divergence)
        if closed is not None and curve.plain:
            return closed(curve)
        curve = frontier.quiet(curve, divergence)
        warn_about(curve.caveats)
    cost = _linear_costs(curve)
    with np.errstate(invalid="ignore"):
        quadrature = 2.0 * panel_integrals(cost, np.broadcast_to(curve.lam, cost.shape)).sum(axis=-1)
    total: float | Array = np.where(np.isinf(cost).any(axis=-1), np.inf, quadrature)[()]
    return total


def closed_integral(divergence: Divergence) -> Divergence | None:
    """The divergence that equals the integral summary of `divergence`, where one is known: for KL and χ².

    It holds for masses of histograms (`Masses.plain`).

    Examples
    --------
    >>> closed_integral(KL)
    KL_INTEGRAL
    """
    return _CLOSED_INTEGRALS.get(divergence)


def midpoint(frontier_or_masses: Frontier | Masses, divergence: Divergence = KL) -> float | Array:
    """The mid-point summary, the linear cost at λ = ½ (paper: eq:mid_point).

    Jensen–Shannon for KL, Le Cam for χ². It is the f-divergence of the generator (f_½ + (f_½)*)/2
    (the paper prints f_½: docs/paper.md, erratum 3).

    Examples
    --------
    >>> float(midpoint(Masses.from_histograms([1.0, 0.0], [0.0, 1.0])).round(6))
    0.693147
    """
    if isinstance(frontier_or_masses, Masses):
        return linear_cost(frontier_or_masses, 0.5, divergence)
    costs = _linear_costs(frontier_or_masses)
    middle: float | Array = costs[..., costs.shape[-1] // 2]  # λ = ½, since the nodes are symmetric
    return middle


def linear_cost(masses: Masses, lam: float, divergence: Divergence = KL) -> float | Array:
    """λ D_f(P‖R_λ) + (1−λ) D_f(Q‖R_λ) at one λ in (0, 1) (paper: eq:linear_cost)."""
    lam = open_unit("lam", lam)
    to_p, to_q = costs_to_mixtures(masses, divergence, np.array([lam]), np.array([1.0 - lam]))
    total: float | Array = (lam * to_p + (1.0 - lam) * to_q)[..., 0]
    return total


def _linear_costs(curve: Frontier) -> Array:
    """λ D_f(P‖R_λ) + (1−λ) D_f(Q‖R_λ) at the nodes of an exact frontier."""
    if not curve.exact:
        raise InputError("The frontier must be exact for this summary; got one on a grid. Build it with grid=None.")
    rest = curve.lam[::-1]  # 1 − λ without cancellation, since the nodes are symmetric
    with np.errstate(invalid="ignore"):  # 0·∞
        costs: Array = curve.lam * curve.p_to_mix + rest * curve.q_to_mix
    return costs
