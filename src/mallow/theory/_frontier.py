"""Divergence frontiers and their three summaries: area (MAUVE), integral and mid-point (paper: ssec:scalar).

The frontier of P and Q is the curve (D_f(P‖R_λ), D_f(Q‖R_λ)) over the mixtures R_λ = λP + (1−λ)Q, 0 < λ < 1
(paper: def:fdiv-frontier). The first coordinate is the cost of what the model misses (type II), and the second the cost
of what it invents (type I). A summary takes a frontier, or masses whose frontier it builds. Only in the second case
does it raise the warnings of the frontier, since `frontier` itself also raises them.

Quadrature runs along panels in u = log(λ/(1−λ)), each with a polynomial through Chebyshev points. In u both costs are
analytic in a strip of half-width π (π/2 after exponentiation for χ²), for any masses. For example, an atom with p/q =
1e-300 only moves its feature along u. A few panels, wider towards the ends where dλ = λ(1−λ)du is small, therefore
resolve every smooth curve. The area of a curve that is piecewise polynomial in a parameter is a bilinear form of its
values, so no derivative of f is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from mallow._checks import open_unit, positive, real_array, whole
from mallow.engine import settle
from mallow.errors import Caveat, InputError, warn_about, warns
from mallow.theory._divergence import CHI2, CHI2_INTEGRAL, KL, KL_INTEGRAL, Divergence
from mallow.theory._masses import Array, Masses

# chosen: with these panels and this degree the area is within 1e-8 of quadrature in 30 digits, however near or far
# apart P and Q are (tests/paper/test_frontier.py: test_the_area_is_exact). e^-26 = 5e-12.
EDGES = np.array([-26.0, -8.0, -4.0, -1.75, 0.0, 1.75, 4.0, 8.0, 26.0])
_DEGREE = 12

_TOLERANCE = 1e-9  # chosen: a tenth of the 1e-8 that `area` promises
_MOST_PANELS = 512  # chosen: each costs 12 points; kinks on many atoms need a few dozen
_USUAL_SCALE = 5.0  # the paper's c for quantised samples, at which the error of the area is estimated

Grid = int | Literal["mauve-text"] | Array | None

_CLOSED_INTEGRALS = {KL: KL_INTEGRAL, CHI2: CHI2_INTEGRAL}

_TOO_LARGE = 2.0  # chosen: mean likelihood ratio, which should be 1, above which a few points dominate the estimate
_LARGEST = 1.0 + 1e-9  # of the frontier integral of KL. Its mid-point is at most log 2


@dataclass(frozen=True, eq=False)
class Frontier:
    """Points of a divergence frontier, in order of rising λ.

    Attributes
    ----------
    lam : array (points,)
        The mixing weight λ of P in R_λ.
    p_to_mix : array (..., points)
        D_f(P‖R_λ), which falls in λ.
    q_to_mix : array (..., points)
        D_f(Q‖R_λ), which rises in λ.
    exact : bool
        Whether the points belong to the exact rule, so that `area` is exact to 1e-8. Otherwise
        `area` is the trapezoid rule on the points, with (1, 0) and (0, 1) added.
    caveats : tuple of Caveat
        Caveats about this curve. Caveats about the samples or the estimate stay in `Masses.caveats`.
    """

    lam: Array
    p_to_mix: Array
    q_to_mix: Array
    exact: bool = False
    caveats: tuple[Caveat, ...] = ()

    def _repr_svg_(self) -> str | None:
        """The curve as a picture for a notebook, in the two costs; None for several curves."""
        inner = (self.lam >= 0.01) & (self.lam <= 0.99)  # nearer to the ends the costs may grow without bound
        if self.p_to_mix.ndim != 1 or not inner.any():
            return None
        x, y = self.p_to_mix[inner], self.q_to_mix[inner]
        reach = float(max(x.max(), y.max())) or 1.0
        points = " ".join(f"{40 + 220 * a / reach:.1f},{240 - 220 * b / reach:.1f}" for a, b in zip(x, y, strict=True))
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 280 280" width="280" height="280" '
            'font-family="sans-serif" font-size="11" fill="#333"><rect width="280" height="280" fill="white"/>'
            '<path d="M40 20V240H260" fill="none" stroke="#999"/>'
            f'<polyline points="{points}" fill="none" stroke="#5625a1" stroke-width="2"/>'
            f'<text x="150" y="270" text-anchor="middle">what Q misses: D(P‖R), up to {reach:.3g}</text>'
            '<text x="14" y="130" text-anchor="middle" transform="rotate(-90 14 130)">what Q invents: D(Q‖R)</text>'
            "</svg>"
        )

    def settle(self) -> Frontier:
        """The curve without the last digits of its costs, which may differ between processors."""
        return replace(self, p_to_mix=settle(self.p_to_mix), q_to_mix=settle(self.q_to_mix))

    def swap(self) -> Frontier:
        """The curve with P and Q exchanged."""
        lam = self.lam if self.exact else 1.0 - self.lam[::-1]  # the points of the exact rule are symmetric
        return replace(self, lam=lam, p_to_mix=self.q_to_mix[..., ::-1], q_to_mix=self.p_to_mix[..., ::-1])


@warns
def frontier(masses: Masses, divergence: Divergence = KL, *, grid: Grid = None) -> Frontier:
    """The divergence frontier of P and Q.

    An `EstimateWarning` is raised if the curve has too many kinks to be resolved.

    Parameters
    ----------
    masses : Masses
        May have leading axes, which stay in front of the axis of points.
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
        lam = _grid_points(grid)
        return Frontier(lam, *costs_to_mixtures(masses, divergence, lam, 1.0 - lam))
    edges = EDGES
    while True:
        nodes = panel_nodes(edges)
        lam, rest = 1.0 / (1.0 + np.exp(-nodes)), 1.0 / (1.0 + np.exp(nodes))
        curve = Frontier(lam, *costs_to_mixtures(masses, divergence, lam, rest), exact=True)
        if divergence.smooth or masses.weight is not None:
            return curve
        # A user's generator may have kinks: panels are halved until the curve is resolved.
        error = panel_errors(np.exp(-_USUAL_SCALE * curve.p_to_mix), np.exp(-_USUAL_SCALE * curve.q_to_mix))
        rough = np.maximum(error, error[::-1]) > _TOLERANCE / len(error)  # the nodes stay symmetric
        if not rough.any():
            return curve
        if len(edges) + rough.sum() > _MOST_PANELS:  # many kinks, on very few atoms
            message = (
                f"the frontier of {divergence} is not smooth: the error of its area is about {error.sum():.0e}. "
                "Pass a generator with fewer kinks, or check the area on a fine `grid`."
            )
            caveat = Caveat("rough frontier", message, values={"error": float(error.sum())})
            return replace(curve, caveats=(caveat,))
        edges = np.sort(np.concatenate([edges, (edges[:-1] + edges[1:])[rough] / 2]))


def costs_to_mixtures(masses: Masses, divergence: Divergence, lam: Array, rest: Array) -> tuple[Array, Array]:
    """D_f(P‖R_λ) and D_f(Q‖R_λ) at each λ; `rest` is 1 − λ, passed separately so that it keeps its digits."""

    def of_p(p: Array, q: Array) -> Array:
        p, q = p[:, None], q[:, None]
        return divergence.terms(p, lam * p + rest * q, rest * _difference(p, q))

    def of_q(p: Array, q: Array) -> Array:
        p, q = p[:, None], q[:, None]
        return divergence.terms(q, lam * p + rest * q, lam * _difference(q, p))

    to_p, to_q = masses.cost_of_p(of_p), masses.cost_of_q(of_q)
    if masses.weight is None:
        return to_p, to_q
    # An extrapolation may wiggle, or leave the range of a cost, whose largest value belongs to disjoint supports
    # (paper: prop:lerror-max).
    ones, zero = np.ones_like(lam), divergence.at_zero
    most_p = divergence.terms(ones, lam, rest) + rest * zero
    most_q = divergence.terms(ones, rest, lam) + lam * zero
    falling = _falling(np.clip(to_p, 0.0, most_p))
    return falling, _falling(np.clip(to_q, 0.0, most_q)[..., ::-1])[..., ::-1]


def _falling(values: Array) -> Array:
    """The curve nearest to `values`, by the largest difference, that does not rise along the last axis."""
    above = np.maximum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]
    below = np.minimum.accumulate(values, axis=-1)
    nearest: Array = (above + below) / 2.0
    return nearest


def _difference(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        difference: Array = a - b
    return difference


def _grid_points(grid: int | str | Array) -> Array:
    if isinstance(grid, str):
        if grid != "mauve-text":
            raise InputError(f"`grid` must be None, an integer, 'mauve-text' or an array of λ; got {grid!r}.")
        return np.linspace(1e-6, 1.0 - 1e-6, 25)
    if not isinstance(grid, np.ndarray | list | tuple):
        count = whole("grid", grid, least=2)
        return np.arange(1, count) / count
    lam = real_array("grid", grid)
    if lam.ndim != 1 or not ((lam > 0) & (lam < 1)).all() or (np.diff(lam) <= 0).any():
        raise InputError(
            f"`grid` must be one axis of rising λ, strictly between 0 and 1; got shape {lam.shape}, "
            f"from {lam.min():g} to {lam.max():g}."
        )
    return lam


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
        The constant c in exp(−c·cost). Report it with the value, because it changes the value and can change the order
        of models, although the paper claims that it cannot (docs/paper.md, erratum 4).
    divergence :
        For masses only; see `frontier`.
    grid :
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
    however near P and Q are, and the value for χ² is exactly twice as large. Otherwise it is quadrature on the exact
    frontier.

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
    """The divergence that equals the integral summary for masses of histograms, if known (for KL and χ²)."""
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


def range_caveats(masses: Masses, way_out: str) -> tuple[Caveat, ...]:
    """Caveats about masses of likelihood ratios: a mean ratio far above 1, or a summary out of range.

    In the published form (``pooled=False``) a cost of P is a mean over the points of Q, whose weights do not sum to 1.
    Pooled masses are two distributions, which do not have these problems. `way_out` is the recommendation, a sentence.
    """
    if masses.split is None:
        return ()
    split = masses.split
    mean = max(float(masses.p[:split].sum()), float(masses.q[split:].sum()))
    if math.isinf(mean):
        whole = middle = math.inf
    else:
        whole, middle = float(integral(masses)), float(midpoint(masses))
    if mean <= _TOO_LARGE and whole <= _LARGEST and middle <= _LARGEST * math.log(2.0):
        return ()
    message = (
        f"the mean likelihood ratio is {mean:.3g} where it should be 1, and the frontier integral {whole:.3g} where it "
        f"is at most 1: points far from their own sample dominate the estimate. {way_out}"
    )
    values = {"mean_ratio": float(f"{mean:.10g}"), "frontier_integral": float(f"{whole:.10g}")}
    return (Caveat("isolated points", message, values=values),)


def panel_nodes(edges: Array) -> Array:
    """The Chebyshev points of all panels in u, in rising order and symmetric; neighbouring panels share a point."""
    unit = -np.cos(np.pi * np.arange(_DEGREE) / _DEGREE)  # without the last point, the first of the next panel
    middle, half = (edges[:-1] + edges[1:]) / 2, np.diff(edges) / 2
    inner = (middle[:, None] + half[:, None] * unit).ravel()
    inner[::_DEGREE] = edges[:-1]
    nodes = np.append(inner, edges[-1])
    symmetric: Array = (nodes - nodes[::-1]) / 2
    return symmetric


def panel_integrals(y: Array, x: Array) -> Array:
    """∫ y dx over each panel, shape (..., panels), of curves known at the nodes."""
    form, _ = _forms()
    integrals: Array = ((_by_panel(y) @ form) * _by_panel(x)).sum(axis=-1)
    return integrals


def panel_errors(x: Array, y: Array) -> Array:
    """An estimate of the error of ∫ y dx over each panel, the largest in the batch: shape (panels,)."""
    _, to_coefficients = _forms()
    x, y = _by_panel(x), _by_panel(y)
    tail_x, tail_y = (np.abs(v @ to_coefficients[:, -2:]).sum(axis=-1) for v in (x, y))
    error: Array = tail_x * np.ptp(y, axis=-1) + tail_y * np.ptp(x, axis=-1)
    largest: Array = error.reshape(-1, error.shape[-1]).max(axis=0)
    return largest


def _by_panel(values: Array) -> Array:
    """(..., points) → (..., panels, degree + 1); shared points appear twice."""
    panels = (values.shape[-1] - 1) // _DEGREE
    index = _DEGREE * np.arange(panels)[:, None] + np.arange(_DEGREE + 1)
    return values[..., index]


@lru_cache(maxsize=1)
def _forms() -> tuple[Array, Array]:
    """∫ l_i l_j′ for the Lagrange polynomials l of a panel, and the matrix from values to Chebyshev coefficients."""
    unit = -np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)
    basis = np.polynomial.chebyshev.chebvander(unit, _DEGREE)
    to_coefficients = np.linalg.inv(basis).T.astype(np.float64)  # values @ this = coefficients
    at, weight = np.polynomial.legendre.leggauss(_DEGREE + 1)
    value = np.polynomial.chebyshev.chebvander(at, _DEGREE)
    slope = np.polynomial.chebyshev.chebval(at, np.polynomial.chebyshev.chebder(np.eye(_DEGREE + 1))).T
    form: Array = to_coefficients @ value.T @ (weight[:, None] * slope) @ to_coefficients.T
    return form, to_coefficients
