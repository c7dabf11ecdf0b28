"""Transport plans, by sorting on a line, by the network simplex or by Sinkhorn's iteration; checks of their input."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mallow._checks import real_array
from mallow._optional import optional
from mallow.engine import bar, single_threaded_blas
from mallow.errors import Caveat, InputError
from mallow.theory._masses import SUM_TOLERANCE, Array, Masses, require_finite, require_weights

_LARGEST = 1e150  # largest coordinate, whose square fits into a float64
_NEGATIVE = 1e-8  # chosen: an eigenvalue may be rounded this far below 0, relative to the largest

_PIVOTS = 100_000  # chosen: of the network simplex between two updates of the bar, a few seconds for 5,000 points
_OUT_OF_PIVOTS = 3  # POT's result code
_MOST_GAP = 1e-6  # chosen: relative gap to the dual bound, above which a plan is reported as doubtful

_MARGINAL_ERROR = 1e-9  # chosen: of the masses of the plan, in total, at which the iteration stops
_MOST_MARGINAL_ERROR = 1e-3  # chosen: beyond it, the plan belongs to different samples
_MOST_ROUNDS = 100  # chosen: 10,000 steps in all, as documented by `entropic_cost`
_PRODUCTS = 100  # chosen: steps in a round
_LARGEST_SCALING = 1e100  # chosen: products of two scalings stay far from overflow


def checked_samples(x: Any, y: Any, p: Any = None, q: Any = None) -> tuple[Array, Array, Array, Array]:
    """Points (n, d) and (m, d) with their masses (n,) and (m,), each summing to 1."""
    x, y = _points("x", x), _points("y", y)
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"`x` and `y` must have the same number of columns, as points of one space; "
            f"got {x.shape[1]} and {y.shape[1]}."
        )
    return x, y, _point_masses("p", p, "x", len(x)), _point_masses("q", q, "y", len(y))


def drop_empty(x: Array, y: Array, p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
    """The points that have a mass, and their masses."""
    return x[p > 0], y[q > 0], p[p > 0], q[q > 0]


def checked_atoms(masses: Masses) -> tuple[Array, Array, Array]:
    """The centres of the bins, and the masses that P and Q give to them."""
    if not isinstance(masses, Masses):
        raise InputError(f"`masses` must be Masses, from mallow.Quantize or point_masses; got {type(masses).__name__}.")
    if masses.partition is None or masses.p.ndim != 1:
        raise InputError(
            "`masses` must be one pair of histograms whose bins have centres. Take them from mallow.Quantize or "
            "point_masses."
        )
    if not masses.plain:
        raise InputError(
            "`masses` must be two plain histograms; got an extrapolation from half-samples, with negative weights. "
            "Pass a function of mallow.smoothing to Quantize."
        )
    centres, _, p, q = checked_samples(masses.partition.centres, masses.partition.centres, masses.p, masses.q)
    return centres, p, q


def checked_gaussians(mean_x: Any, cov_x: Any, mean_y: Any, cov_y: Any) -> tuple[Array, Array, Array, Array]:
    """Two means (d,), each followed by the symmetric square root (d, d) of its covariance."""
    mean_x, mean_y = real_array("mean_x", mean_x), real_array("mean_y", mean_y)
    if mean_x.ndim != 1 or mean_x.shape != mean_y.shape:
        raise InputError(
            f"`mean_x` and `mean_y` must be two vectors of the same length; "
            f"got shapes {mean_x.shape} and {mean_y.shape}."
        )
    require_finite("mean_x", mean_x)
    require_finite("mean_y", mean_y)
    size = len(mean_x)
    return mean_x, _square_root("cov_x", cov_x, size), mean_y, _square_root("cov_y", cov_y, size)


def _points(name: str, values: Any) -> Array:
    points = real_array(name, values)
    if points.ndim != 2:
        raise InputError(
            f"`{name}` must have two axes, (points, dimensions); got shape {points.shape}. "
            f"Pass numbers on a line as {name}[:, None]."
        )
    require_finite(name, points)
    largest = float(np.abs(points).max())
    if largest > _LARGEST:
        raise InputError(
            f"`{name}` must stay below {_LARGEST:g}, so that it can be squared; got {largest:g}. Rescale both samples."
        )
    return points


def _point_masses(name: str, values: Any, points: str, size: int) -> Array:
    if values is None:
        return np.full(size, 1.0 / size)
    masses = real_array(name, values)
    if masses.shape != (size,):
        raise InputError(
            f"`{name}` must hold one mass for each of the {size} points of `{points}`; got shape {masses.shape}."
        )
    require_weights(name, masses)
    total = float(masses.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise InputError(f"`{name}` must sum to 1 within {SUM_TOLERANCE:g}; got {total:.9g}. Divide it by its sum.")
    return masses / total


def _square_root(name: str, covariance: Any, size: int) -> Array:
    """The symmetric square root of a covariance."""
    matrix = real_array(name, covariance)
    if matrix.shape != (size, size):
        raise InputError(
            f"`{name}` must be a matrix of {size} by {size}, the length of the means; got shape {matrix.shape}."
        )
    require_finite(name, matrix)
    off = float(np.abs(matrix - matrix.T).max())
    if off > _NEGATIVE * float(np.abs(matrix).max()):
        raise InputError(f"`{name}` must be symmetric, but it differs from its transpose by up to {off:.3g}.")
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -_NEGATIVE * np.abs(values).max():
        raise InputError(f"`{name}` must be a covariance, without negative eigenvalues; got {values[0]:.3g}.")
    root: Array = (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T
    return root


def exact_cost(
    x: Array, y: Array, p: Array, q: Array, *, show_bar: bool | None = None
) -> tuple[float, tuple[Caveat, ...]]:
    """The cost of the best plan, and a caveat if the plan is not proven to be optimal."""
    x, y, p, q = drop_empty(x, y, p, q)
    caveats: tuple[Caveat, ...] = ()
    if x.shape[1] == 1:
        i, j, mass = _sorted_plan(x[:, 0], y[:, 0], p, q)
    else:
        with single_threaded_blas():
            cost = squared_distances(x, y)
        i, j, mass, caveats = optimal_plan(cost, p, q, show_bar=show_bar)
    # Distances are computed again for the few pairs of the plan, since `cost` is rounded relative to its largest entry.
    return float(mass @ ((x[i] - y[j]) ** 2).sum(axis=1)), caveats


def squared_distances(x: Array, y: Array) -> Array:
    """‖x_i − y_j‖² for all pairs, by one matrix product around a common middle."""
    middle = (x.mean(axis=0) + y.mean(axis=0)) / 2
    x, y = x - middle, y - middle
    squares = x @ y.T
    squares *= -2.0
    squares += (x**2).sum(axis=1)[:, None]
    squares += (y**2).sum(axis=1)
    np.maximum(squares, 0.0, out=squares)
    return squares


def _sorted_plan(x: Array, y: Array, p: Array, q: Array) -> tuple[Any, Any, Array]:
    """The plan on a line, as pairs (i, j) with their mass: the smallest of x goes to the smallest of y, and so on."""
    order_x, order_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    up_to_x, up_to_y = (np.minimum(np.cumsum(mass), 1.0) for mass in (p[order_x], q[order_y]))
    up_to_x[-1] = up_to_y[-1] = 1.0
    ends = np.union1d(up_to_x, up_to_y)
    i = order_x[np.searchsorted(up_to_x, ends)]
    j = order_y[np.searchsorted(up_to_y, ends)]
    return i, j, np.diff(ends, prepend=0.0)


def optimal_plan(
    cost: Array, p: Array, q: Array, *, show_bar: bool | None = False
) -> tuple[Any, Any, Array, tuple[Caveat, ...]]:
    """The cheapest plan as pairs (i, j) with their mass, and a caveat if it is not proven. `cost` is overwritten."""
    ot = optional("ot", extra="transport")
    largest = float(cost.max())
    if largest > 0.0:
        cost /= largest  # with costs near 1e-15, POT silently accepts any plan as the best
    duals, pivots = None, 0
    with bar("transport", 1000, wanted=show_bar) as show:
        while True:
            pivots += _PIVOTS  # more each time, so that the last search is long enough despite restarts
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", module=r"ot\b")  # POT's warning that it ran out of pivots
                plan, log = ot.emd(p, q, cost, numItermax=pivots, log=True, potentials_init=duals)
            duals = log["u"], log["v"]
            # A lower bound from the dual problem: any prices of y, with the best prices of x for them.
            least = float(p @ (cost - duals[1]).min(axis=1) + q @ duals[1])
            proven = min(max(least / log["cost"], 0.0), 1.0) if log["cost"] > 0 else 1.0
            show(round(1000 * proven), f"{proven:.1%} of the cost proven")
            if log["result_code"] != _OUT_OF_PIVOTS:
                break
    i, j = plan.nonzero()
    if log["cost"] - least <= _MOST_GAP * log["cost"] + 1e-12:
        return i, j, plan[i, j], ()
    gap = 1 - proven
    message = f"the transport plan may not be the best: its cost is only proven to be within {gap:.1%} of the least."
    return i, j, plan[i, j], (Caveat("transport plan", message, values={"gap": gap}),)


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
    value = float(a @ (kernel @ b))
    if error <= _MARGINAL_ERROR:
        return value, ()
    message = (
        f"the entropic plan has not converged: its masses are off by {error:.1e} in total. "
        "Pass a larger `regulariser`, or use transport_cost."
    )
    return value, (Caveat("transport plan", message, values={"error": error}),)


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
