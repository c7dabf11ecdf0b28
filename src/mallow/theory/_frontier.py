"""Divergence frontiers.

The frontier of P and Q is the curve (D_f(P‖R_λ), D_f(Q‖R_λ)) over the mixtures R_λ = λP + (1−λ)Q, 0 < λ < 1
(paper: def:fdiv-frontier). The first coordinate is the cost of what the model misses (type II), the second the cost of
what it invents (type I).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mallow._checks import real_array, whole
from mallow.engine import settle
from mallow.errors import Caveat, InputError, warns
from mallow.theory._arrays import Array
from mallow.theory._divergence import KL, Divergence
from mallow.theory._masses import Masses
from mallow.theory._panels import EDGES, panel_errors, panel_nodes

_TOLERANCE = 1e-9  # chosen: a tenth of the 1e-8 that `area` promises
_MOST_PANELS = 512  # chosen: each costs 12 points; kinks on many atoms need a few dozen
_USUAL_SCALE = 5.0  # the paper's c for quantised samples, at which the error of the area is estimated

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
        Whether the points are those of the exact rule, so that `area` is exact to 1e-8. Otherwise
        `area` is the trapezoid rule on the points, with (1, 0) and (0, 1) added.
    caveats : tuple of Caveat
        Doubts about this curve. Those about the samples or the estimate stay in `Masses.caveats`.
    """

    lam: Array
    p_to_mix: Array
    q_to_mix: Array
    exact: bool = False
    caveats: tuple[Caveat, ...] = ()

    def settle(self) -> Frontier:
        """The curve without the last digits of its costs, in which processors may differ."""
        return replace(self, p_to_mix=settle(self.p_to_mix), q_to_mix=settle(self.q_to_mix))


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
            return replace(curve, caveats=(_rough_caveat(divergence, float(error.sum())),))
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
    # An extrapolation may wiggle, or leave the range of a cost, whose largest value is that of disjoint supports
    # (paper: prop:lerror-max).
    one, zero = np.ones_like(lam), divergence.at_zero
    most_p = divergence.terms(one, lam, rest) + rest * zero
    most_q = divergence.terms(one, rest, lam) + lam * zero
    falling = _falling(np.clip(to_p, 0.0, most_p))
    return falling, _falling(np.clip(to_q, 0.0, most_q)[..., ::-1])[..., ::-1]


def _rough_caveat(divergence: Divergence, error: float) -> Caveat:
    message = (
        f"the frontier of {divergence} is not smooth: the error of its area is about {error:.0e}. "
        "Pass a generator with fewer kinks, or check the area on a fine `grid`."
    )
    return Caveat("rough frontier", message, values={"error": error})


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
