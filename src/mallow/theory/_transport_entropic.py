"""Optimal transport frontiers with an entropy, by Sinkhorn's iteration, as the paper computes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mallow._checks import positive, whole
from mallow.engine import bar, single_threaded_blas
from mallow.errors import Caveat, InputError, warns
from mallow.theory._arrays import Array
from mallow.theory._frontier import Frontier
from mallow.theory._masses import Masses
from mallow.theory._transport_inputs import checked_atoms
from mallow.theory._transport_plans import squared_distances

_LARGEST_EXPONENT = 500.0  # chosen: exp(−500) and its products with scalings are far from the least float64
_MARGINAL_ERROR = 1e-9  # chosen: of the masses of each plan, in total, at which the iteration stops
_MOST_ROUNDS = 20_000  # chosen: far more than a median entropy needs
_BETWEEN = 20  # chosen: rounds between two looks at the error


@warns
def entropic_linear_frontier(masses: Masses, *, regulariser: float | None = None, points: int = 63) -> Frontier:
    """The optimal transport frontier with linear interpolation, each cost that of the entropic plan.

    At λ = 1/(points + 1), 2/(points + 1), … the costs Σ π_ij ρ(i, j) of the plans from P and from Q to λP + (1−λ)Q that
    minimise this cost plus ε Σ π_ij log π_ij, as in `entropic_cost`. The entropy blurs the plans, so that equal samples have
    costs above 0 and an area below 1: compare areas of one ε only, and report it. `linear_frontier` is exact.

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
    >>> from mallow.transport import point_masses
    >>> curve = entropic_linear_frontier(point_masses([[0.0]], [[1.0]]), regulariser=0.01, points=3)
    >>> curve.lam, curve.p_to_mix.round(6)  # as good as exact
    (array([0.25, 0.5 , 0.75]), array([0.75, 0.5 , 0.25]))
    """
    p, q, cost, kernel, lam = _prepared(masses, regulariser, points, "linear_frontier")
    mix = (p[:, None] * lam + q[:, None] * (1.0 - lam))[..., None]  # (bins, λ, 1)
    return _curve(p, q, cost, kernel, lam, lambda reached: mix)


@warns
def entropic_barycentric_frontier(masses: Masses, *, regulariser: float | None = None, points: int = 63) -> Frontier:
    """The optimal transport frontier with barycentric interpolation on the bins, with entropic plans.

    The barycentre R minimises λ·cost(P, R) + (1−λ)·cost(Q, R), where each cost includes ε Σ π_ij log π_ij; it is found by
    iterative Bregman projections (Benamou et al., 2015). The frontier holds the costs Σ π_ij ρ(i, j) of both plans. As in
    `entropic_linear_frontier`, equal samples have an area below 1. `barycentric_frontier` is exact.

    Parameters
    ----------
    masses, regulariser, points :
        As in `entropic_linear_frontier`.

    Examples
    --------
    >>> from mallow.transport import point_masses
    >>> curve = entropic_barycentric_frontier(point_masses([[0.0]], [[1.0]]), regulariser=0.01, points=3)
    >>> curve.p_to_mix.round(6)  # as good as exact: Q below λ = ½, P above, half of each between
    array([1. , 0.5, 0. ])
    """
    p, q, cost, kernel, lam = _prepared(masses, regulariser, points, "barycentric_frontier")
    weight = np.stack([lam, 1.0 - lam], axis=-1)  # (λ, sides)

    def barycentre(reached: Array) -> Array:
        mix: Array = np.exp((weight * np.log(reached)).sum(axis=-1, keepdims=True))
        return mix

    return _curve(p, q, cost, kernel, lam, barycentre)


def _prepared(
    masses: Masses, regulariser: float | None, points: int, exact: str
) -> tuple[Array, Array, Array, Array, Array]:
    """The masses of the bins, their costs (at most 1, times the largest), Sinkhorn's kernel, and all λ."""
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
                "`regulariser` cannot be the median of the pairwise costs, which is 0: more than half of the bins coincide. "
                f"Pass a number, such as the mean cost, {float(cost.mean()):.3g}."
            )
    if cost.max() > _LARGEST_EXPONENT * regulariser:
        raise InputError(
            f"`regulariser` must be at least 1/{_LARGEST_EXPONENT:g} of the largest cost, {float(cost.max()):.3g}; got "
            f"{regulariser:.3g}. Pass a larger one, or use {exact}, which is exact."
        )
    kernel = np.exp(-cost / regulariser) if cost.any() else np.ones_like(cost)
    return p, q, cost, kernel, lam


def _curve(p: Array, q: Array, cost: Array, kernel: Array, lam: Array, middle: Callable[[Array], Array]) -> Frontier:
    """The costs of the plans diag(u) K diag(v) from P and from Q to R, with R = middle(K u), for all λ at once."""
    sides = np.stack([p, q], axis=-1)[:, None]  # (bins, 1, sides)
    u = np.ones((len(p), len(lam), 2))
    error = np.inf
    with single_threaded_blas(), bar("frontier", _MOST_ROUNDS) as show:
        reached = _times(kernel, u)
        for done in range(1, _MOST_ROUNDS + 1):
            mix = middle(reached)
            v = mix / reached
            u = sides / _times(kernel, v)
            reached = _times(kernel, u)
            if done % _BETWEEN == 0:
                error = float(np.abs(v * reached - mix).sum(axis=0).max())
                show(done, f"masses off by {error:.1e}")
                if error <= _MARGINAL_ERROR:
                    break
        moved = (u * _times(kernel * cost, v)).sum(axis=0)  # (λ, sides)
    return Frontier(lam, moved[:, 0], moved[:, 1], caveats=_unsettled(error))


def _times(matrix: Array, scalings: Array) -> Array:
    """The matrix times each column of scalings (bins, λ, sides)."""
    product: Array = (matrix @ scalings.reshape(len(scalings), -1)).reshape(scalings.shape)
    return product


def _unsettled(error: float) -> tuple[Caveat, ...]:
    if error <= _MARGINAL_ERROR:
        return ()
    message = (
        f"the entropic plans have not converged: their masses are off by {error:.1e} in total. "
        "Pass a larger `regulariser`, or use the exact frontier."
    )
    return (Caveat("transport plan", message, values={"error": error, "gap": error}),)
