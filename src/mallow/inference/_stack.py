"""How views become one log-ratio: weights that are never negative, fitted on held-out scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mallow.theory import Array

__all__ = ["fit_stack", "stack_gain"]

_RIDGE = 1.0  # chosen: in units of one sample


def fit_stack(views: Array, is_reference: NDArray[np.bool_], weight: Array, start: Array | None = None) -> Array:
    """The weights w ≥ 0 (views,) for which h = views @ w has the largest mid-point bound on these samples.

    At λ = ½ the bound of the mid-point is log 2 minus the logistic loss in which both sides weigh the same, so this is
    a logistic regression; `weight` (rows,) sums to 1, half of it on each side. The problem is convex: `start` changes
    the time, not the answer.
    """
    sign = np.where(is_reference, 1.0, -1.0)
    ridge = _RIDGE / len(views)

    def loss(w: Array) -> tuple[float, Array]:
        margin = sign * (views @ w)
        slope = -views.T @ (weight * sign * expit(-margin)) + ridge * w
        return float(-weight @ log_expit(margin) + ridge / 2.0 * (w @ w)), slope

    first = np.zeros(views.shape[1]) if start is None else start
    fitted = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(first))
    weights: Array = fitted.x
    return weights


def stack_gain(h: Array, is_reference: NDArray[np.bool_], weight: Array, unit: NDArray[np.int64]) -> float:
    """How many standard errors, over units, the mid-point bound of h is above 0."""
    terms = weight * (np.log(2.0) + log_expit(np.where(is_reference, h, -h)))
    totals = np.bincount(unit, terms)[np.unique(unit)]
    error = float(np.sqrt(np.sum((totals - totals.mean()) ** 2)))
    gain = float(totals.sum())
    return gain / error if error > 0 else 0.0 if gain <= 0 else np.inf
