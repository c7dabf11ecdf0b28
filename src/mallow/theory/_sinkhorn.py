"""Entropic transport by Sinkhorn's iteration."""

from __future__ import annotations

import numpy as np

from mallow.engine import bar
from mallow.errors import Caveat, InputError
from mallow.theory._arrays import Array

_MARGINAL_ERROR = 1e-9  # chosen: of the masses of the plan, in total, at which the iteration stops
_MOST_MARGINAL_ERROR = 1e-3  # chosen: beyond it, the plan is one of other samples
_MOST_ROUNDS = 100  # chosen: 10,000 steps in all, as documented by `entropic_cost`
_PRODUCTS = 100  # chosen: steps in a round
_LARGEST_SCALING = 1e100  # chosen: products of two scalings stay far from overflow


def entropic_plan_cost(cost: Array, p: Array, q: Array, regulariser: float) -> tuple[float, tuple[Caveat, ...]]:
    """Σ π C for Sinkhorn's plan π = exp((f + g − C)/ε), where C is at most 1, and a caveat if it has not converged.

    Each round updates the logarithms f and g once over the whole matrix, which cannot underflow. It then continues with
    plain products, which are many times faster, as long as the scalings a and b stay moderate.
    """
    g, kernel = np.zeros_like(q), np.empty_like(cost)
    with bar("transport", _MOST_ROUNDS) as show:
        for done in range(_MOST_ROUNDS):
            f = regulariser * np.log(p) - _soft_maximum(g - cost, regulariser, axis=1)
            g = regulariser * np.log(q) - _soft_maximum(f[:, None] - cost, regulariser, axis=0)
            np.subtract(f[:, None] + g, cost, out=kernel)
            kernel /= regulariser
            np.exp(kernel, out=kernel)
            a, b, error = _scalings(kernel, p, q)
            if error <= _MARGINAL_ERROR:
                break
            g = g + regulariser * np.log(b)
            show(done + 1, f"masses off by {error:.1e}")
    if error > _MOST_MARGINAL_ERROR:
        raise InputError(
            f"`regulariser` is too small: after {_MOST_ROUNDS * _PRODUCTS:,} steps the masses of the plan are off by "
            f"{error:.1e} in total. Pass a larger one, or use transport_cost."
        )
    kernel *= cost
    caveats = (_unsettled_caveat(error),) if error > _MARGINAL_ERROR else ()
    return float(a @ (kernel @ b)), caveats


def _unsettled_caveat(error: float) -> Caveat:
    message = (
        f"the entropic plan has not converged: its masses are off by {error:.1e} in total. "
        "Pass a larger `regulariser`, or use transport_cost."
    )
    return Caveat("transport plan", message, values={"error": error})


def _soft_maximum(values: Array, width: float, *, axis: int) -> Array:
    """width · log Σ exp(values / width) along an axis; `values` are overwritten."""
    top = values.max(axis=axis, keepdims=True)
    values -= top
    values /= width
    np.exp(values, out=values)
    soft: Array = top.squeeze(axis) + width * np.log(values.sum(axis=axis))
    return soft


def _scalings(kernel: Array, p: Array, q: Array) -> tuple[Array, Array, float]:
    """Scalings a, b for which diag(a) · kernel · diag(b) has column sums q, and the total error of its row sums."""
    a, b = np.ones_like(p), np.ones_like(q)
    for _ in range(_PRODUCTS):
        rows = kernel @ b
        error = float(np.abs(a * rows - p).sum())
        if error <= _MARGINAL_ERROR:
            break
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            next_a = p / rows
            next_b = q / (next_a @ kernel)
        both = np.concatenate([next_a, next_b])
        if not (both.min() > 1.0 / _LARGEST_SCALING and both.max() < _LARGEST_SCALING):
            break
        a, b = next_a, next_b
    return a, b, error
