"""Divergence frontiers and their three summaries: area (MAUVE), integral and mid-point.

The frontier of P and Q is the curve (D_f(P‖R_λ), D_f(Q‖R_λ)) over the mixtures R_λ = λP + (1−λ)Q,
0 < λ < 1 (paper: def:fdiv-frontier). The first coordinate is the cost of what the model misses
(type II), the second the cost of what it invents (type I).

How the exact area is computed. In u = log(λ/(1−λ)) both costs are analytic in a strip of half-width π
(π/2 after exponentiation for χ²), whatever the masses: an atom with p/q = 1e-300 only moves its
feature along u. A few panels in u, wider towards the ends where dλ = λ(1−λ)du is small, each with a
polynomial through Chebyshev points, therefore resolve every curve. The area of a curve that
is piecewise polynomial in a parameter is a bilinear form of its values, so no derivative of f is needed.
A user's own generator may have kinks: there the panels are halved until the curve is resolved.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from mallow._checks import open_unit, positive, real_array, whole
from mallow.errors import EstimateWarning, InputError
from mallow.theory._divergence import CHI2, CHI2_INTEGRAL, KL, KL_INTEGRAL, Divergence
from mallow.theory._masses import Array, Masses

__all__ = ["Frontier", "area", "frontier", "integral", "linear_cost", "midpoint"]

_DEGREE = 12
_EDGES = np.array([-26.0, -8.0, -4.0, -1.75, 0.0, 1.75, 4.0, 8.0, 26.0])  # panels in u; e^-26 = 5e-12
_TOLERANCE = 1e-9
_MOST_PANELS = 512
_USUAL_SCALE = 5.0
_CLOSED_INTEGRALS = {KL: KL_INTEGRAL, CHI2: CHI2_INTEGRAL}

Grid = int | Literal["mauve-text"] | Array | None


@dataclass(frozen=True, eq=False)
class Frontier:
    """Points of a divergence frontier, in order of rising λ.

    Attributes
    ----------
    lam : array (points,)
        The mixing weight λ of P in R_λ.
    p_to_mix, q_to_mix : array (..., points)
        D_f(P‖R_λ), which falls in λ, and D_f(Q‖R_λ), which rises.
    exact : bool
        Whether the points are those of the exact rule, so that `area` integrates to 1e-8; otherwise
        `area` is the trapezoid rule on the points, with (1, 0) and (0, 1) added.
    """

    lam: Array
    p_to_mix: Array
    q_to_mix: Array
    exact: bool = False


def frontier(masses: Masses, divergence: Divergence = KL, *, grid: Grid = None) -> Frontier:
    """The divergence frontier of P and Q.

    Parameters
    ----------
    masses : Masses
        May have leading axes; they stay in front of the points.
    divergence : Divergence
        KL as published, or any other.
    grid : None, int, "mauve-text" or array of λ
        None: points from which `area` is exact to 1e-8. An integer N: the uniform grid
        1/N, …, (N−1)/N of the paper (eq:divf:discretized). "mauve-text": 25 points on
        [1e-6, 1 − 1e-6], as in the published numbers. An array: these λ.

    Examples
    --------
    >>> curve = frontier(Masses.from_histograms([0.5, 0.5], [0.25, 0.75]), grid=4)
    >>> curve.lam
    array([0.25, 0.5 , 0.75])
    >>> curve.p_to_mix.round(4)
    array([0.0758, 0.0323, 0.0079])
    """
    if grid is not None:
        lam = _grid(grid)
        return Frontier(lam, *_costs(masses, divergence, lam, 1.0 - lam))
    edges = _EDGES
    while True:
        nodes = _nodes(edges)
        lam, rest = 1.0 / (1.0 + np.exp(-nodes)), 1.0 / (1.0 + np.exp(nodes))
        curve = Frontier(lam, *_costs(masses, divergence, lam, rest), exact=True)
        if divergence.smooth or masses.weight is not None:
            return curve
        error = _panel_errors(curve)
        rough = np.maximum(error, error[::-1]) > _TOLERANCE / len(error)  # the nodes stay symmetric
        if not rough.any():
            return curve
        if len(edges) + rough.sum() > _MOST_PANELS:  # a generator with kinks, on very few atoms
            warnings.warn(
                f"the frontier of {divergence} is not smooth: its area is known to about {error.sum():.0e}.",
                EstimateWarning,
                stacklevel=2,
            )
            return curve
        edges = np.sort(np.concatenate([edges, (edges[:-1] + edges[1:])[rough] / 2]))


def area(
    frontier_or_masses: Frontier | Masses, *, scale: float, divergence: Divergence = KL, grid: Grid = None
) -> float | Array:
    """The area under the exponentiated frontier: MAUVE (paper: eq:mauve:area-def).

    1 means indistinguishable, 0 means disjoint (nearly: for KL and disjoint supports it is c·B(c, c+1)).

    Parameters
    ----------
    frontier_or_masses : Frontier or Masses
        For masses, the frontier of `divergence` is built with `grid` first.
    scale : float
        The constant c in exp(−c·cost). It belongs to the reported settings: it changes the value and can
        change the order of models, although the paper says that it cannot (docs/paper.md, erratum 4).
    divergence, grid :
        Used for masses only; see `frontier`.

    Examples
    --------
    >>> float(area(Masses.from_histograms([1.0, 0.0], [0.0, 1.0]), scale=5).round(12))
    0.003968253968
    """
    scale = positive("scale", scale)
    curve = frontier_or_masses
    if isinstance(curve, Masses):
        curve = frontier(curve, divergence, grid=grid)
    elif divergence is not KL or grid is not None:
        raise InputError("`divergence` and `grid` are settings of the frontier; pass them to `frontier`.")
    lost_x, lost_y = -np.expm1(-scale * curve.p_to_mix), -np.expm1(-scale * curve.q_to_mix)
    if curve.exact:
        # 1 minus the area lost above the curve, so that P = Q gives exactly 1.
        lost = _stieltjes(lost_y, -lost_x).sum(axis=-1) + lost_x[..., -1] * lost_y[..., -1]
        found = 1.0 - lost
    else:
        pad = [(0, 0)] * (lost_x.ndim - 1) + [(1, 1)]
        x = np.pad(1.0 - lost_x, pad, constant_values=[(0.0, 0.0)] * (lost_x.ndim - 1) + [(0.0, 1.0)])
        y = np.pad(1.0 - lost_y, pad, constant_values=[(0.0, 0.0)] * (lost_y.ndim - 1) + [(1.0, 0.0)])
        # The mean of the integrals along x and along y; for a monotone curve they are equal.
        found = np.trapezoid(y, x, axis=-1) / 2 - np.trapezoid(x, y, axis=-1) / 2
    clipped: float | Array = np.clip(found, 0.0, 1.0)[()]
    return clipped


def integral(frontier_or_masses: Frontier | Masses, divergence: Divergence = KL) -> float | Array:
    """The integral summary 2∫(λ D_f(P‖R_λ) + (1−λ) D_f(Q‖R_λ))dλ; 0 means equal (paper: ssec:scalar).

    Closed form for KL (at most 1; relative error below 1e-10 however near P and Q are) and for χ²
    (exactly twice the KL one, at most 2); quadrature on the exact frontier otherwise, or where a frontier is given.

    Examples
    --------
    >>> float(integral(Masses.from_histograms([1.0, 0.0], [0.0, 1.0])))
    1.0
    """
    curve = frontier_or_masses
    if isinstance(curve, Masses):
        closed = _CLOSED_INTEGRALS.get(divergence)
        if closed is not None and curve.plain:
            return closed(curve)
        curve = frontier(curve, divergence)
    cost = _linear_costs(curve)
    with np.errstate(invalid="ignore"):
        found = 2.0 * _stieltjes(cost, np.broadcast_to(curve.lam, cost.shape)).sum(axis=-1)
    total: float | Array = np.where(np.isinf(cost).any(axis=-1), np.inf, found)[()]
    return total


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
    middle: float | Array = costs[..., costs.shape[-1] // 2]  # the nodes are symmetric: it is λ = ½
    return middle


def linear_cost(masses: Masses, lam: float, divergence: Divergence = KL) -> float | Array:
    """λ D_f(P‖R_λ) + (1−λ) D_f(Q‖R_λ) at one λ in (0, 1) (paper: eq:linear_cost)."""
    lam = open_unit("lam", lam)
    to_p, to_q = _costs(masses, divergence, np.array([lam]), np.array([1.0 - lam]))
    total: float | Array = (lam * to_p + (1.0 - lam) * to_q)[..., 0]
    return total


def _linear_costs(curve: Frontier) -> Array:
    """λ D_f(P‖R_λ) + (1−λ) D_f(Q‖R_λ) at the nodes of an exact frontier."""
    if not curve.exact:
        raise InputError("`frontier` must be exact for this summary: build it with grid=None.")
    rest = curve.lam[::-1]  # 1 − λ without cancellation: the nodes are symmetric
    with np.errstate(invalid="ignore"):
        found: Array = curve.lam * curve.p_to_mix + rest * curve.q_to_mix
    return found


def _costs(masses: Masses, divergence: Divergence, lam: Array, rest: Array) -> tuple[Array, Array]:
    """D_f(P‖R_λ) and D_f(Q‖R_λ) at each λ, with `rest` = 1 − λ known apart so that it keeps its digits."""

    def of_p(p: Array, q: Array) -> Array:
        p, q = p[:, None], q[:, None]
        return divergence.terms(p, lam * p + rest * q, rest * _difference(p, q))

    def of_q(p: Array, q: Array) -> Array:
        p, q = p[:, None], q[:, None]
        return divergence.terms(q, lam * p + rest * q, lam * _difference(q, p))

    to_p, to_q = masses.cost_of_p(of_p), masses.cost_of_q(of_q)
    if masses.weight is None:
        return to_p, to_q
    # An extrapolation may leave the range of a cost, whose largest value is that of disjoint supports
    # (paper: prop:lerror-max), or wiggle.
    one, zero = np.ones_like(lam), divergence.at_zero
    most_p = divergence.terms(one, lam, rest) + rest * zero
    most_q = divergence.terms(one, rest, lam) + lam * zero
    falling = _monotone(np.clip(to_p, 0.0, most_p))
    return falling, _monotone(np.clip(to_q, 0.0, most_q)[..., ::-1])[..., ::-1]


def _monotone(values: Array) -> Array:
    """The nearest curve, in the largest difference, that does not rise along the last axis."""
    above = np.maximum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]
    below = np.minimum.accumulate(values, axis=-1)
    found: Array = (above + below) / 2.0
    return found


def _difference(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore"):
        found: Array = a - b
    return found


def _grid(grid: int | str | Array) -> Array:
    if isinstance(grid, str):
        if grid != "mauve-text":
            raise InputError(f"`grid` must be None, an integer, 'mauve-text' or an array of λ; got {grid!r}.")
        return np.linspace(1e-6, 1.0 - 1e-6, 25)
    if not isinstance(grid, np.ndarray | list | tuple):
        count = whole("grid", grid, least=2)
        return np.arange(1, count) / count
    lam = real_array("grid", grid)
    if lam.ndim != 1 or not ((lam > 0) & (lam < 1)).all() or (np.diff(lam) <= 0).any():
        raise InputError("`grid` must be one axis of λ, rising, strictly between 0 and 1.")
    return lam


def _nodes(edges: Array) -> Array:
    """The Chebyshev points of each panel; neighbours share the point between them."""
    unit = -np.cos(np.pi * np.arange(_DEGREE) / _DEGREE)  # without the last, which is the next panel's first
    middle, half = (edges[:-1] + edges[1:]) / 2, np.diff(edges) / 2
    inner = (middle[:, None] + half[:, None] * unit).ravel()
    inner[::_DEGREE] = edges[:-1]
    upper = np.append(inner, edges[-1])
    symmetric: Array = (upper - upper[::-1]) / 2
    return symmetric


def _panels(values: Array) -> Array:
    """(..., points) → (..., panels, degree + 1), the shared points standing twice."""
    panels = (values.shape[-1] - 1) // _DEGREE
    index = _DEGREE * np.arange(panels)[:, None] + np.arange(_DEGREE + 1)
    return values[..., index]


def _stieltjes(y: Array, x: Array) -> Array:
    """∫ y dx over each panel, shape (..., panels), for curves given at the nodes."""
    form, _ = _forms()
    found: Array = ((_panels(y) @ form) * _panels(x)).sum(axis=-1)
    return found


def _panel_errors(curve: Frontier) -> Array:
    """An estimate of each panel's error in the area at the usual scale, the largest over the batch."""
    _, to_coefficients = _forms()
    x, y = _panels(np.exp(-_USUAL_SCALE * curve.p_to_mix)), _panels(np.exp(-_USUAL_SCALE * curve.q_to_mix))
    tail_x, tail_y = (np.abs(v @ to_coefficients[:, -2:]).sum(axis=-1) for v in (x, y))
    error: Array = tail_x * np.ptp(y, axis=-1) + tail_y * np.ptp(x, axis=-1)
    largest: Array = error.reshape(-1, error.shape[-1]).max(axis=0)
    return largest


@lru_cache(maxsize=1)
def _forms() -> tuple[Array, Array]:
    """∫ l_i l_j′ for the Lagrange polynomials l of a panel; the matrix values → Chebyshev coefficients."""
    unit = -np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)
    basis = np.polynomial.chebyshev.chebvander(unit, _DEGREE)
    to_coefficients = np.linalg.inv(basis).T.astype(np.float64)  # values @ this = coefficients
    at, weight = np.polynomial.legendre.leggauss(_DEGREE + 1)
    value = np.polynomial.chebyshev.chebvander(at, _DEGREE)
    slope = np.polynomial.chebyshev.chebval(at, np.polynomial.chebyshev.chebder(np.eye(_DEGREE + 1))).T
    form: Array = to_coefficients @ value.T @ (weight[:, None] * slope) @ to_coefficients.T
    return form, to_coefficients
