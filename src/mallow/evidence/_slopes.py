"""The derivatives of the three summaries by the costs of a frontier: how errors of costs become errors of summaries."""

from __future__ import annotations

import numpy as np

from mallow.theory import Array, Frontier, area, integral, midpoint

NAMES = ("mauve", "frontier_integral", "midpoint")
_LEVEL, _STEP = 0.5, 0.25  # chosen: far from 0 and 1, where `area` clips; no step is too large for a linear function


def summary_slopes(curve: Frontier, scale: float) -> Array:
    """The derivatives of area, integral and mid-point by D_f(P‖R_λ) and by D_f(Q‖R_λ) at each λ, (2, points, 3).

    Integral and mid-point are linear in the costs. The area is 1 − B(x, y), linear in x = 1 − exp(−c D_f(P‖R_λ)) and in
    y = 1 − exp(−c D_f(Q‖R_λ)), so that a difference is a derivative without error, however near P and Q are.

    Parameters
    ----------
    curve : Frontier
        One exact frontier (`grid=None`).
    scale : float
        The constant c of the area.

    Examples
    --------
    >>> from mallow.theory import Masses, frontier
    >>> curve = frontier.quiet(Masses.from_histograms([0.5, 0.5], [0.25, 0.75]))
    >>> to_p, to_q = summary_slopes(curve, 5.0)[..., 1]  # of the integral, which is linear
    >>> float((to_p @ curve.p_to_mix + to_q @ curve.q_to_mix).round(6)), float(integral(curve).round(6))
    (0.045229, 0.045229)
    """
    points = len(curve.lam)
    unit, nothing = np.eye(points), np.zeros((points, points))
    slopes = np.empty((2, points, 3))
    for side, costs in enumerate(((unit, nothing), (nothing, unit))):
        moved = Frontier(curve.lam, costs[0], costs[1], exact=True)
        slopes[side, :, 1], slopes[side, :, 2] = integral(moved), midpoint(moved)
    lost = np.concatenate([np.full((1, points), _LEVEL), _LEVEL + _STEP * unit])
    moved_cost = -np.log1p(-lost) / scale
    for side, (own, other) in enumerate(((curve.p_to_mix, curve.q_to_mix), (curve.q_to_mix, curve.p_to_mix))):
        fixed = np.broadcast_to(other, moved_cost.shape)
        x, y = (moved_cost, fixed) if side == 0 else (fixed, moved_cost)
        total = np.asarray(area(Frontier(curve.lam, x, y, exact=True), scale=scale))
        slopes[side, :, 0] = (total[1:] - total[0]) / _STEP * scale * np.exp(-scale * own)
    return slopes
