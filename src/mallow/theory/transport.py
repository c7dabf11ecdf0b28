"""Optimal transport: the cost of moving one sample onto another, and the frontiers made of such costs.

The cost of moving x to y is the squared Euclidean distance ‖x − y‖², so the optimal transport cost of P and Q is the
squared Wasserstein-2 distance (paper: "Variants based on Optimal Transport"). 0 means equal.

    transport_cost(x, y)          plug-in: the two samples themselves
    quantized_cost(masses)        the two histograms, each bin at its centre
    gaussian_cost(…)              two Gaussians: the Fréchet distance
    entropic_cost(x, y)           plug-in, with a plan that an entropy keeps spread out
    sliced_cost(x, y)             plug-in, along random lines: cheap, without a solver
    linear_frontier(masses)       costs of P and of Q to their mixtures
    barycentric_frontier(masses)  costs of P and of Q to their barycentres on the same bins, as in the paper
    free_barycentric_frontier     … to barycentres anywhere in space
    entropic_linear_frontier, entropic_barycentric_frontier     the same with entropic plans (Sinkhorn)

These raise an `EstimateWarning` if a plan may not be optimal. Code that passes such caveats on with its own result
calls the form without warnings, such as ``transport_cost.quiet``. A cost is then a pair (value, caveats); a frontier
always has `caveats`.

MAUVE_OT and MAUVE_OT^bary are the areas of the two frontiers, ``mallow.area(curve, scale=5)``. The paper does not give
the scale c. Its table (table:ot-full) shows c = 5 for the linear frontier: all eight printed areas are e^{−5W}(1 + 5W)
to within 0.004, where W is the printed quantised cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, seed_from, whole
from mallow.engine import single_threaded_blas
from mallow.errors import InputError, WithCaveats, warns
from mallow.theory._masses import Array, Masses, Partition
from mallow.theory._transport_frontiers import (
    barycentric_frontier,
    entropic_barycentric_frontier,
    entropic_linear_frontier,
    free_barycentric_frontier,
    linear_frontier,
)
from mallow.theory._transport_plans import (
    checked_atoms,
    checked_gaussians,
    checked_samples,
    drop_empty,
    entropic_plan_cost,
    exact_cost,
    squared_distances,
)

__all__ = [
    "barycentric_frontier",
    "entropic_barycentric_frontier",
    "entropic_cost",
    "entropic_linear_frontier",
    "free_barycentric_frontier",
    "gaussian_cost",
    "linear_frontier",
    "point_masses",
    "quantized_cost",
    "sliced_cost",
    "transport_cost",
]

_LEAST_REGULARISER = 1e-9  # chosen: relative to the largest cost; below it, rounding would choose the plan

_LINES = 64  # directions at a time; chosen: a block of 50,000 points takes 26 MB


@warns
def transport_cost(x: Any, y: Any, *, p: Any = None, q: Any = None) -> WithCaveats[float]:
    """The exact optimal transport cost of two samples: the plug-in cost, a squared Wasserstein-2 distance.

    It is biased upwards, and more so in more dimensions: 1,000 and 1,000 points of the same standard Gaussian in 64
    dimensions cost 80, where two points are 128 apart on average. The paper finds that it orders models wrongly, and
    that `quantized_cost` does better.

    In one dimension it is solved by sorting, otherwise by POT's network simplex. 5,000 against 5,000 points take 15
    seconds on one processor and 1.5 GB. On a terminal, a progress bar shows the share of the cost that the dual problem
    has already proven to be necessary.

    Parameters
    ----------
    x : array (n, d)
        Points of P.
    y : array (m, d)
        Points of Q.
    p : array (n,) or None
        Masses of the points of P; None means equal masses.
    q : array (m,) or None
        Masses of the points of Q; None means equal masses.

    Examples
    --------
    >>> transport_cost([[0.0], [1.0]], [[3.0], [2.0]])
    4.0
    """
    return WithCaveats(*exact_cost(*checked_samples(x, y, p, q)))


@warns
def quantized_cost(masses: Masses) -> WithCaveats[float]:
    """The exact optimal transport cost of two quantised samples, with the mass of each bin at its centre.

    `masses` comes from `mallow.Quantize`. The paper uses the plain histogram, ``Quantize(smoothing=empirical)``.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0], [9.0]]), np.array([[0.0], [1.0], [7.0]])
    >>> round(quantized_cost(point_masses(x, y)), 9)  # every point is its own bin: the plug-in cost, 2²/3
    1.333333333
    """
    centres, p, q = checked_atoms(masses)
    return WithCaveats(*exact_cost(centres, centres, p, q))


def gaussian_cost(mean_x: Any, cov_x: Any, mean_y: Any, cov_y: Any) -> float:
    """The optimal transport cost of two Gaussians in closed form: the Fréchet (Bures–Wasserstein) distance.

    ‖μ − ν‖² + tr(A + B − 2(A^½ B A^½)^½) for means μ, ν and covariances A, B, which may be singular. It is computed as
    ‖μ − ν‖² + min ‖A^½ − B^½ O‖² over rotations O, which is equal, needs no square root of a product that is not
    symmetric, and is never negative.

    Parameters
    ----------
    mean_x : array (d,)
        Mean of P.
    mean_y : array (d,)
        Mean of Q.
    cov_x : array (d, d)
        Covariance of P: symmetric, without negative eigenvalues.
    cov_y : array (d, d)
        Covariance of Q: symmetric, without negative eigenvalues.

    Examples
    --------
    >>> round(gaussian_cost([0.0, 0.0], np.eye(2), [3.0, 0.0], 4 * np.eye(2)), 9)  # 3² + 2 (2 − 1)²
    11.0
    """
    with single_threaded_blas():  # the same bits on any number of processors
        mean_x, root_x, mean_y, root_y = checked_gaussians(mean_x, cov_x, mean_y, cov_y)
        left, _, right = np.linalg.svd(root_y @ root_x)
        rest = root_x - root_y @ (left @ right)
    return float(((mean_x - mean_y) ** 2).sum() + (rest**2).sum())


@warns
def entropic_cost(
    x: Any, y: Any, *, p: Any = None, q: Any = None, regulariser: float | None = None
) -> WithCaveats[float]:
    """The cost Σ π_ij ‖x_i − y_j‖² of the plan π that minimises this cost plus ε Σ π_ij log π_ij.

    The entropy selects the plan and is not part of the value. As ε → 0 the value falls to `transport_cost`; as
    ε → ∞ it rises to the mean of all pairwise costs. It is therefore not 0 for equal samples. Only compare values of
    the same ε, and report it.

    Sinkhorn's iteration runs on the logarithms of the scalings, so that no ε underflows, until the masses of the plan
    are off by at most 1e-9 in total. Small ε, below about 1e-3 of the median, need very many steps. If 10,000 are not
    enough, an `EstimateWarning` gives the error of the masses, and an error is raised if it exceeds 1e-3. No optional
    package is needed.

    Parameters
    ----------
    x : array (n, d)
        Points of P.
    y : array (m, d)
        Points of Q.
    p : array (n,) or None
        Masses of the points of P; None means equal masses.
    q : array (m,) or None
        Masses of the points of Q; None means equal masses.
    regulariser : float or None
        The weight ε of the entropy, in units of the cost. None means the median of all pairwise costs, as the paper
        advises.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])
    >>> round(entropic_cost(x, y, regulariser=0.01), 9), round(entropic_cost(x, y, regulariser=1e9), 9)
    (0.0, 0.5)
    """
    if regulariser is not None:
        regulariser = positive("regulariser", regulariser)
    x, y, p, q = drop_empty(*checked_samples(x, y, p, q))
    with single_threaded_blas():
        cost = squared_distances(x, y)
        largest = float(cost.max())
        if largest == 0.0:
            return WithCaveats(0.0)
        regulariser = _checked_regulariser(regulariser, cost, largest)
        cost /= largest
        value, caveats = entropic_plan_cost(cost, p, q, regulariser / largest)
    return WithCaveats(largest * value, caveats)


def point_masses(x: Any, y: Any) -> Masses:
    """The masses of two samples that are not quantised: every point is its own bin.

    They are for the frontiers of small samples; quantised samples take their masses from `mallow.Quantize`.

    Examples
    --------
    >>> point_masses([[0.0], [1.0]], [[5.0]]).q
    array([0., 0., 1.])
    """
    x, y, p, q = checked_samples(x, y)
    n, m = len(x), len(y)
    partition = Partition(np.arange(n), n + np.arange(m), np.concatenate([x, y]))
    return Masses(np.pad(p, (0, m)), np.pad(q, (n, 0)), partition=partition)


def _checked_regulariser(regulariser: float | None, cost: Array, largest: float) -> float:
    """`regulariser`, or the median cost for None, if it is positive and not lost in rounding."""
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
            f"{regulariser:.3g}, where rounding would choose the plan. Use transport_cost instead."
        )
    return regulariser


def sliced_cost(x: Any, y: Any, *, directions: int = 256, rng: int | np.random.Generator | None = 0) -> float:
    """The mean squared Wasserstein-2 distance of the two samples projected onto random lines (Rabin et al. 2011).

    On a line the optimal plan is sorting, so n points take time n log n per line. 0 = equal; for samples of one
    distribution it is a little above 0. It is at most 1/d of `transport_cost` in d dimensions: the mean squared length
    of a projection is 1/d of the squared length. Samples may differ in size.

    Parameters
    ----------
    x : array (n, d)
        Points of P.
    y : array (m, d)
        Points of Q.
    directions : int
        Lines, uniform on the sphere.
    rng : int, numpy.random.Generator or None
        Seed of the directions.

    Examples
    --------
    >>> sliced_cost(np.zeros((5, 1)), np.full((8, 1), 2.0))
    4.0
    """
    points = checked_samples(x, y)[:2]
    whole("directions", directions, least=1)
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_from(rng))
    lines = generator.normal(size=(directions, points[0].shape[1]))
    lines /= np.linalg.norm(lines, axis=1, keepdims=True)
    takes, shares = _merged_quantiles(len(points[0]), len(points[1]))
    total = 0.0
    with single_threaded_blas():
        for start in range(0, directions, _LINES):
            block = lines[start : start + _LINES].T
            a, b = (np.sort(side @ block, axis=0)[take] for side, take in zip(points, takes, strict=True))
            total += float((shares @ (a - b) ** 2).sum())
    return total / directions


def _merged_quantiles(n: int, m: int) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]:
    """The pairs of sorted points and their shares of the mass, exactly, in whole numbers of 1/(nm)."""
    levels = np.unique(np.concatenate([np.arange(1, n + 1) * m, np.arange(1, m + 1) * n]))
    starts = np.concatenate([[0], levels[:-1]])
    return (starts // m, starts // n), (levels - starts) / (n * m)
