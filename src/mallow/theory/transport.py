"""Optimal transport: what it costs to move one sample onto another, and the frontiers made of such costs.

The cost of moving x to y is the squared Euclidean distance ‖x − y‖², so that the optimal transport cost of P and Q
is the squared Wasserstein-2 distance (paper: "Variants based on Optimal Transport"). 0 means equal.

    transport_cost(x, y)          plug-in: the two samples as they are
    quantized_cost(masses)        the two histograms, each bin at its centre
    gaussian_cost(…)              two Gaussians: the Fréchet distance
    entropic_cost(x, y)           plug-in, with a plan kept spread out by an entropy
    linear_frontier(masses)       costs of P and of Q to their mixtures
    barycentric_frontier(masses)  costs of P and of Q to their barycentres

MAUVE_OT and MAUVE_OT^bary are the areas of the two frontiers, ``mallow.area(curve, scale=5)``. The paper does not
say which scale c it took. Its table (table:ot-full) does for the linear frontier: all eight printed areas are
e^{−5W}(1 + 5W) to within 0.004, where W is the quantised cost printed beside.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mallow._checks import first_place, open_unit, positive, real_array
from mallow._optional import optional
from mallow.engine import bar, single_threaded_blas
from mallow.errors import EstimateWarning, InputError
from mallow.theory._frontier import Frontier
from mallow.theory._masses import Array, Masses, Partition

__all__ = [
    "barycentric_frontier",
    "entropic_cost",
    "gaussian_cost",
    "linear_frontier",
    "point_masses",
    "quantized_cost",
    "transport_cost",
]

_LARGEST = 1e150  # of a coordinate: its square is a number
_SUM_TOLERANCE = 1e-6
_PIVOTS = 100_000  # of the network simplex between two looks at how far it is: a few seconds for 5,000 points
_OUT_OF_PIVOTS = 3  # POT's code
_MOST_GAP = 1e-6
_DEPTH = 10  # the linear frontier is halved at most so often; its λ are multiples of 2**-_DEPTH
_LAM = np.arange(2**_DEPTH + 1) / 2**_DEPTH
_MARGINAL_ERROR = 1e-9
_MOST_MARGINAL_ERROR = 1e-3  # beyond it the plan is one of other samples
_MOST_ROUNDS = 100
_PRODUCTS = 100  # in a round
_LEAST_REGULARISER = 1e-9
_LARGEST_SCALING = 1e100
_NEGATIVE = 1e-8  # how far below 0, relative to the largest, an eigenvalue of a covariance may be rounded


def transport_cost(x: Any, y: Any, *, p: Any = None, q: Any = None) -> float:
    """The exact optimal transport cost of two samples: the plug-in cost, a squared Wasserstein-2 distance.

    It is biased upwards, the more the more dimensions: 1,000 and 1,000 points of the same standard Gaussian in 64
    dimensions cost 80, where two points are 128 apart on average. The paper finds that it orders models wrongly, and
    that `quantized_cost` does better.

    In one dimension it is solved by sorting; otherwise by POT's network simplex. 5,000 against 5,000 points take 15
    seconds of one processor and 1.5 GB. On a terminal a bar shows how far it is: the share of the cost that the dual
    problem has already proven to be needed.

    Parameters
    ----------
    x, y : array (n, d), (m, d)
        Points of P and of Q.
    p, q : array (n,), (m,) or None
        Their masses; None: all equal.

    Examples
    --------
    >>> transport_cost([[0.0], [1.0]], [[3.0], [2.0]])
    4.0
    """
    return _cost(*_measures(x, y, p, q))


def quantized_cost(masses: Masses) -> float:
    """The exact optimal transport cost of two quantised samples, each bin standing at its centre.

    `masses` comes from `mallow.Quantize`. The paper takes the plain histogram, ``Quantize(smoothing=empirical)``.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0], [9.0]]), np.array([[0.0], [1.0], [7.0]])
    >>> round(quantized_cost(point_masses(x, y)), 9)  # nothing merged: the plug-in cost, 2²/3
    1.333333333
    """
    centres, p, q = _atoms(masses)
    return _cost(centres, centres, p, q)


def gaussian_cost(mean_x: Any, cov_x: Any, mean_y: Any, cov_y: Any) -> float:
    """The optimal transport cost of two Gaussians in closed form: the Fréchet (Bures–Wasserstein) distance.

    ‖μ − ν‖² + tr(A + B − 2(A^½ B A^½)^½) for means μ, ν and covariances A, B, which may be singular. It is computed as
    ‖μ − ν‖² + min ‖A^½ − B^½ O‖² over rotations O, which is the same, needs no square root of a product that is not
    symmetric, and is never negative.

    Parameters
    ----------
    mean_x, mean_y : array (d,)
    cov_x, cov_y : array (d, d)
        Symmetric, without negative eigenvalues.

    Examples
    --------
    >>> round(gaussian_cost([0.0, 0.0], np.eye(2), [3.0, 0.0], 4 * np.eye(2)), 9)  # 3² + 2 (2 − 1)²
    11.0
    """
    mean_x, mean_y = real_array("mean_x", mean_x), real_array("mean_y", mean_y)
    if mean_x.ndim != 1 or mean_x.shape != mean_y.shape:
        raise InputError(
            f"`mean_x` and `mean_y` must be two vectors of one length; got shapes {mean_x.shape} and {mean_y.shape}."
        )
    _finite("mean_x", mean_x)
    _finite("mean_y", mean_y)
    with single_threaded_blas():  # the same bits on any number of processors
        root_x, root_y = _root("cov_x", cov_x, len(mean_x)), _root("cov_y", cov_y, len(mean_x))
        left, _, right = np.linalg.svd(root_y @ root_x)
        rest = root_x - root_y @ (left @ right)
    return float(((mean_x - mean_y) ** 2).sum() + (rest**2).sum())


def entropic_cost(x: Any, y: Any, *, p: Any = None, q: Any = None, regulariser: float | None = None) -> float:
    """The cost Σ π_ij ‖x_i − y_j‖² of the plan π that minimises this cost plus ε Σ π_ij log π_ij.

    The entropy chooses the plan and is not part of the value. With ε → 0 the value falls to `transport_cost`, with
    ε → ∞ it rises to the mean of all pairwise costs. It is therefore not 0 for equal samples: compare values of one ε
    only, and say which.

    Sinkhorn's iteration on the logarithms of the scalings, so that no ε underflows, until the masses of the plan
    are off by 1e-9 in total. Small ε, below some 1e-3 of the median, need very many steps. Where 10,000 do not suffice,
    an `EstimateWarning` says how far off the masses are, and from 1e-3 on the value is refused. It needs no optional
    package.

    Parameters
    ----------
    x, y : array (n, d), (m, d)
        Points of P and of Q.
    p, q : array (n,), (m,) or None
        Their masses; None: all equal.
    regulariser : float or None
        The weight ε of the entropy, in units of the cost. None: the median of all pairwise costs, as the paper advises.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])
    >>> round(entropic_cost(x, y, regulariser=0.01), 9), round(entropic_cost(x, y, regulariser=1e9), 9)
    (0.0, 0.5)
    """
    if regulariser is not None:
        regulariser = positive("regulariser", regulariser)
    x, y, p, q = _with_mass(*_measures(x, y, p, q))
    with single_threaded_blas():
        cost = _squared_distances(x, y)
        largest = float(cost.max())
        if largest == 0.0:
            return 0.0
        if regulariser is None:
            regulariser = float(np.median(cost))
            if regulariser <= 0.0:
                raise InputError(
                    "`regulariser` cannot be the median of the pairwise costs, which is 0: more than half of the pairs "
                    f"coincide. Pass a number, such as a tenth of the mean cost, {float(cost.mean()) / 10:.3g}."
                )
        if regulariser < _LEAST_REGULARISER * largest:
            raise InputError(
                f"`regulariser` must be at least {_LEAST_REGULARISER:g} of the largest cost, {largest:.3g}; got "
                f"{regulariser:.3g}, where rounding would choose the plan. Take transport_cost instead."
            )
        cost /= largest
        return largest * _entropic(cost, p, q, regulariser / largest)


def point_masses(x: Any, y: Any) -> Masses:
    """The masses of two samples that are not quantised: every point is a bin of its own.

    For the frontiers of small samples; those of quantised ones take `mallow.Quantize`.

    Examples
    --------
    >>> point_masses([[0.0], [1.0]], [[5.0]]).q
    array([0., 0., 1.])
    """
    x, y, p, q = _measures(x, y, None, None)
    n, m = len(x), len(y)
    partition = Partition(np.arange(n), n + np.arange(m), np.concatenate([x, y]))
    return Masses(np.pad(p, (0, m)), np.pad(q, (n, 0)), partition=partition)


def linear_frontier(masses: Masses, *, tolerance: float = 1e-3) -> Frontier:
    """The optimal transport frontier with linear interpolation: costs of P and of Q to R_λ = λP + (1−λ)Q.

    Its area is MAUVE_OT. With W the cost of P and Q, the costs run from (W, 0) at λ = 0 to (0, W) at λ = 1, and
    are at most ((1−λ)W, λW): leave λP where it is and move the rest. In many dimensions this is what happens, exactly,
    and the area is e^{−cW}(1 + cW). In few, a chain of short moves is cheaper than a long one.

    The paper proposes an entropy to make this fast. It is not needed: a cost is convex in λ and lies on straight lines
    (the value of a linear programme), so that a stretch is halved until its middle lies on the line between
    its ends. 500 bins take one mixture in many dimensions, and some forty in two: 0.1 and 3 s.

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize`, as in the paper, or `point_masses`; there, each λ costs what `transport_cost` of n and
        n + m points does.
    tolerance : float
        How far a middle may lie below the line, in units of W. The costs are right to twice that at worst, and the
        area (c = 5) to 2e-4 in the trials with the default.

    Returns
    -------
    Frontier
        At 1,025 values of λ from 0 to 1, both included: `mallow.area` takes them as they are.

    Examples
    --------
    >>> curve = linear_frontier(point_masses([[0.0]], [[1.0]]))
    >>> curve.lam[[0, 256, -1]], curve.p_to_mix[[0, 256, -1]]
    (array([0.  , 0.25, 1.  ]), array([1.  , 0.75, 0.  ]))
    """
    tolerance = open_unit("tolerance", tolerance)
    centres, p, q = _atoms(masses)
    whole = _cost(centres, centres, p, q)
    found = {0.0: np.array([whole, 0.0]), 1.0: np.array([0.0, whole])}
    open_stretches, closed = [(0.0, 1.0)] if whole > 0.0 else [], 0.0
    with single_threaded_blas(), bar("frontier", 1000) as show:
        while open_stretches:
            low, high = open_stretches.pop()
            lam = (low + high) / 2
            mix = lam * p + (1.0 - lam) * q
            found[lam] = np.array([_cost(centres, centres, side, mix, watched=False) for side in (p, q)])
            below = (found[low] + found[high]) / 2 - found[lam]
            if below.max() > tolerance * whole and high - low > 2.0 ** (1 - _DEPTH):
                open_stretches += [(low, lam), (lam, high)]
            else:
                closed += high - low
            show(round(1000 * closed), f"{len(found) - 2} mixtures")
    return Frontier(_LAM.copy(), _polyline(found, 0), _polyline(found, 1))


def barycentric_frontier(masses: Masses) -> Frontier:
    """The optimal transport frontier with barycentric interpolation: costs of P and of Q to their barycentres.

    The barycentre of weight λ is the R that minimises λ·cost(P, R) + (1−λ)·cost(Q, R) (paper:
    eq:bary-frontier-def). R may put its mass anywhere. Then it is P moved the share 1−λ of its way to Q, and
    the costs are ((1−λ)²W, λ²W) with the cost W of P and Q: one transport problem yields the whole curve.

    Its area, MAUVE_OT^bary, therefore tells no more than W does, and orders models as W does. The areas that the paper
    prints (table:ot-full) are other numbers: no one scale c takes its quantised costs to them (4.1 for the
    largest, 7.6 for the smallest; erratum 14 of docs/paper.md).

    Parameters
    ----------
    masses : Masses
        From `mallow.Quantize`, as in the paper, or `point_masses`.

    Returns
    -------
    Frontier
        At 1,025 values of λ from 0 to 1, both included: `mallow.area` takes them as they are.

    Examples
    --------
    >>> curve = barycentric_frontier(point_masses([[0.0]], [[2.0]]))
    >>> curve.lam[[0, 512, 1024]], curve.p_to_mix[[0, 512, 1024]]  # half-way it is 1² from either
    (array([0. , 0.5, 1. ]), array([4., 1., 0.]))
    """
    whole = quantized_cost(masses)
    return Frontier(_LAM.copy(), (1.0 - _LAM) ** 2 * whole, _LAM**2 * whole)


def _polyline(found: dict[float, Array], side: int) -> Array:
    """One cost at all λ, on straight lines between those found."""
    lam = sorted(found)
    values: Array = np.interp(_LAM, lam, [found[each][side] for each in lam])
    return values


# --- the door


def _measures(x: Any, y: Any, p: Any, q: Any) -> tuple[Array, Array, Array, Array]:
    """Checked points and masses."""
    x, y = _points("x", x), _points("y", y)
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"`x` and `y` must be points of one space, with as many columns; got {x.shape[1]} and {y.shape[1]}."
        )
    return x, y, _weights("p", p, "x", len(x)), _weights("q", q, "y", len(y))


def _with_mass(x: Array, y: Array, p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
    """Without the points that have no mass."""
    return x[p > 0], y[q > 0], p[p > 0], q[q > 0]


def _points(name: str, values: Any) -> Array:
    points = real_array(name, values)
    if points.ndim != 2:
        raise InputError(
            f"`{name}` must have two axes, (points, dimensions); got shape {points.shape}. "
            f"Numbers on a line are {name}[:, None]."
        )
    _finite(name, points)
    if np.abs(points).max() > _LARGEST:
        raise InputError(f"`{name}` must stay below {_LARGEST:g}, so that it can be squared. Rescale both samples.")
    return points


def _finite(name: str, values: Array) -> None:
    if not np.isfinite(values).all():
        place = first_place(~np.isfinite(values))
        raise InputError(f"`{name}` must be finite; got {values[place]} at index {place}.")


def _weights(name: str, values: Any, points: str, size: int) -> Array:
    if values is None:
        return np.full(size, 1.0 / size)
    weights = real_array(name, values)
    if weights.shape != (size,):
        raise InputError(
            f"`{name}` must hold one mass for each of the {size} points of `{points}`; got {weights.shape}."
        )
    _finite(name, weights)
    if (weights < 0).any():
        place = first_place(weights < 0)
        raise InputError(f"`{name}` must not be negative; got {weights[place]} at index {place}.")
    total = float(weights.sum())
    if abs(total - 1.0) > _SUM_TOLERANCE:
        raise InputError(f"`{name}` must sum to 1 within {_SUM_TOLERANCE:g}; got {total:.9g}. Divide it by its sum.")
    return weights / total


def _atoms(masses: Masses) -> tuple[Array, Array, Array]:
    """The centres of the bins and the masses that P and Q give to them."""
    if not isinstance(masses, Masses):
        raise InputError(f"`masses` must be Masses, from mallow.Quantize or point_masses; got {type(masses).__name__}.")
    if masses.partition is None or masses.p.ndim != 1:
        raise InputError(
            "`masses` must be one pair of histograms whose bins have centres: from mallow.Quantize or point_masses."
        )
    if not masses.plain:
        raise InputError(
            "`masses` must be two plain histograms; these are an extrapolation (debiased), with negative weights. "
            "Pass one of mallow.theory.smoothing to Quantize."
        )
    centres, _, p, q = _measures(masses.partition.centres, masses.partition.centres, masses.p, masses.q)
    return centres, p, q


def _root(name: str, values: Any, size: int) -> Array:
    """The symmetric square root of a covariance."""
    matrix = real_array(name, values)
    if matrix.shape != (size, size):
        raise InputError(f"`{name}` must be a matrix of {size} by {size}, as the means are long; got {matrix.shape}.")
    _finite(name, matrix)
    off = float(np.abs(matrix - matrix.T).max())
    if off > _NEGATIVE * float(np.abs(matrix).max()):
        raise InputError(f"`{name}` must be symmetric; it differs from its transpose by up to {off:.3g}.")
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -_NEGATIVE * np.abs(values).max():
        raise InputError(f"`{name}` must not have negative eigenvalues, as a covariance; the least is {values[0]:.3g}.")
    root: Array = (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T
    return root


# --- the exact cost


def _cost(x: Array, y: Array, p: Array, q: Array, *, watched: bool | None = None) -> float:
    x, y, p, q = _with_mass(x, y, p, q)
    if x.shape[1] == 1:
        i, j, mass = _sorted_plan(x[:, 0], y[:, 0], p, q)
    else:
        with single_threaded_blas():
            cost = _squared_distances(x, y)
        plan = _simplex_plan(cost, p, q, watched=watched)
        i, j = plan.nonzero()
        mass = plan[i, j]
    # Differences again, for the few pairs of the plan: those of `cost` are rounded in units of the largest.
    return float(mass @ ((x[i] - y[j]) ** 2).sum(axis=1))


def _squared_distances(x: Array, y: Array) -> Array:
    """‖x_i − y_j‖² by one product, around a common middle."""
    middle = (x.mean(axis=0) + y.mean(axis=0)) / 2
    x, y = x - middle, y - middle
    found = x @ y.T
    found *= -2.0
    found += (x**2).sum(axis=1)[:, None]
    found += (y**2).sum(axis=1)
    np.maximum(found, 0.0, out=found)
    return found


def _sorted_plan(x: Array, y: Array, p: Array, q: Array) -> tuple[Any, Any, Array]:
    """On a line: the least of x goes to the least of y, and so on."""
    order_x, order_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    up_to_x, up_to_y = (np.minimum(np.cumsum(mass), 1.0) for mass in (p[order_x], q[order_y]))
    up_to_x[-1] = up_to_y[-1] = 1.0
    ends = np.union1d(up_to_x, up_to_y)
    i = order_x[np.searchsorted(up_to_x, ends)]
    j = order_y[np.searchsorted(up_to_y, ends)]
    return i, j, np.diff(ends, prepend=0.0)


def _simplex_plan(cost: Array, p: Array, q: Array, *, watched: bool | None) -> Array:
    """The plan (n, m) of least cost."""
    ot = optional("ot", extra="transport")
    largest = float(cost.max())
    if largest > 0.0:
        cost /= largest  # of costs near 1e-15 POT takes any plan for the best, without a word
    duals, pivots = None, 0
    with bar("transport", 1000, wanted=watched) as show:
        while True:
            pivots += _PIVOTS  # more each time: whatever a restart loses, the last one is long enough
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it ran out of pivots
                plan, log = ot.emd(p, q, cost, numItermax=pivots, log=True, potentials_init=duals)
            duals = log["u"], log["v"]
            # A lower bound from the dual problem: any prices of y, with the best prices of x to them.
            least = float(p @ (cost - duals[1]).min(axis=1) + q @ duals[1])
            proven = min(max(least / log["cost"], 0.0), 1.0) if log["cost"] > 0 else 1.0
            show(round(1000 * proven), f"{proven:.1%} of the cost proven")
            if log["result_code"] != _OUT_OF_PIVOTS:
                break
    if log["cost"] - least > _MOST_GAP * log["cost"] + 1e-12:
        warnings.warn(
            f"the plan found may not be the best: its cost is proven to be within {1 - proven:.1%} of the least.",
            EstimateWarning,
            stacklevel=4,
        )
    found: Array = plan
    return found


# --- the entropic cost


def _entropic(cost: Array, p: Array, q: Array, regulariser: float) -> float:
    """Σ π C for Sinkhorn's plan π = exp((f + g − C)/ε), where C is at most 1.

    Each round updates the logarithms f and g once over the whole matrix, which cannot underflow. It then goes on with
    plain products, which are many times faster, while the scalings a and b that they find stay moderate.
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
            f"{error:.1e} in total. Pass a larger one, or take transport_cost."
        )
    if error > _MARGINAL_ERROR:
        warnings.warn(
            f"the entropic plan has not settled: its masses are off by {error:.1e} in total. "
            "Pass a larger `regulariser`, or take transport_cost.",
            EstimateWarning,
            stacklevel=3,
        )
    kernel *= cost
    return float(a @ (kernel @ b))


def _soft_maximum(values: Array, width: float, *, axis: int) -> Array:
    """width · log Σ exp(values / width) along an axis; `values` are overwritten."""
    top = values.max(axis=axis, keepdims=True)
    values -= top
    values /= width
    np.exp(values, out=values)
    found: Array = top.squeeze(axis) + width * np.log(values.sum(axis=axis))
    return found


def _scalings(kernel: Array, p: Array, q: Array) -> tuple[Array, Array, float]:
    """a and b for which diag(a) · kernel · diag(b) has the column sums q, and by how much its row sums miss p."""
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
