"""How scores become log-ratios: weights that are never negative, fitted on samples that the scores were not learned on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from mallow.theory import Array

_ROUNDS = 100  # chosen: far more than Newton's method takes
_CONVERGED = 1e-14  # chosen: what another step would lower the loss by, which is of order 1
_HALVINGS = 40  # chosen: far more than it takes
_ENOUGH = 1e-4  # share of the expected descent that a step must reach (Armijo)


def calibrate_scores(scores: Array, is_reference: NDArray[np.bool_], weight: Array, *, ridge: float) -> Array:
    """The weights w ≥ 0, (scores,), for which w @ scores comes nearest to log p/q on these samples.

    They minimise the logistic loss Σ weight·log(1 + exp(∓w @ scores)) + ½ ridge |w|². At λ = ½ the held-out bound of the
    mid-point is log 2 minus this loss, so these weights have the largest bound. The problem is convex and has one
    answer; Newton's method finds it, with weights that would become negative held at 0.

    Parameters
    ----------
    scores : array (scores, rows)
        Large for samples of the reference.
    is_reference : bool array (rows,)
    weight : array (rows,)
        Of each row; sums to 1, half of it on each side.
    ridge : float
        Above 0: without it, scores that separate the sides would have weights without bound.

    Examples
    --------
    >>> calibrate_scores(np.array([[3.0, 1.0, 2.0, -1.0]]), np.array([True, True, False, False]), np.full(4, 0.25),
    ...                  ridge=1e-3).round(2)
    array([0.44])
    """
    signed = np.where(is_reference, scores, -scores)
    weights, margin = np.zeros(len(scores)), np.zeros(scores.shape[1])
    value, missing = _logistic(margin, weight)
    for _ in range(_ROUNDS):
        slope = ridge * weights - signed @ (weight * missing)
        curvature = (signed * (weight * missing * (1.0 - missing))) @ signed.T + ridge * np.eye(len(scores))
        step = _best_of_model(curvature, slope, weights) - weights
        descent = float(slope @ step)
        if descent > -_CONVERGED:
            break
        along = step @ signed
        size = 1.0
        for _ in range(_HALVINGS):
            moved = weights + size * step
            reached, missing = _logistic(margin + size * along, weight)
            reached += ridge / 2.0 * float(moved @ moved)
            if reached <= value + _ENOUGH * size * descent:
                break
            size /= 2.0
        weights, margin, value = moved, margin + size * along, reached
    return weights


def _logistic(margin: Array, weight: Array) -> tuple[float, Array]:
    """The mean of log(1 + exp(−margin)), and 1/(1 + exp(margin)) of each row."""
    small = np.exp(-np.abs(margin))
    loss = float(weight @ (np.log1p(small) - np.minimum(margin, 0.0)))
    return loss, np.where(margin >= 0, small, 1.0) / (1.0 + small)


def _best_of_model(curvature: Array, slope: Array, weights: Array) -> Array:
    """Where the quadratic model around `weights` is smallest among weights that are not negative."""
    root = np.linalg.cholesky(curvature)
    best: Array = nnls(root.T, solve_triangular(root, curvature @ weights - slope, lower=True, check_finite=False))[0]
    return best
