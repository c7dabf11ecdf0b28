"""Optimal transport costs: exact, quantised, Gaussian and entropic."""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import positive
from mallow.engine import single_threaded_blas
from mallow.errors import InputError, WithCaveats, warns
from mallow.theory._arrays import Array
from mallow.theory._masses import Masses, Partition
from mallow.theory._sinkhorn import entropic_plan_cost
from mallow.theory._transport_inputs import checked_atoms, checked_gaussians, checked_samples, drop_empty
from mallow.theory._transport_plans import exact_cost, squared_distances

_LEAST_REGULARISER = 1e-9  # chosen: relative to the largest cost; below it, rounding would choose the plan


@warns
def transport_cost(x: Any, y: Any, *, p: Any = None, q: Any = None) -> WithCaveats[float]:
    """The exact optimal transport cost of two samples: the plug-in cost, a squared Wasserstein-2 distance.

    It is biased upwards, and more so in more dimensions: 1,000 and 1,000 points of the same standard Gaussian in 64
    dimensions cost 80, where two points are 128 apart on average. The paper finds that it orders models wrongly, and
    that `quantized_cost` does better.

    In one dimension it is solved by sorting, otherwise by POT's network simplex. 5,000 against 5,000 points take 15
    seconds on one processor and 1.5 GB. On a terminal, a bar shows the progress: the share of the cost that the dual
    problem has already proven to be necessary.

    Parameters
    ----------
    x, y : array (n, d), (m, d)
        Points of P and of Q.
    p, q : array (n,), (m,) or None
        Their masses; None means equal masses.

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
    mean_x, mean_y : array (d,)
    cov_x, cov_y : array (d, d)
        Symmetric, without negative eigenvalues.

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
    ε → ∞ it rises to the mean of all pairwise costs. It is therefore not 0 for equal samples: compare only values of
    the same ε, and report it.

    Sinkhorn's iteration runs on the logarithms of the scalings, so that no ε underflows, until the masses of the plan
    are off by at most 1e-9 in total. Small ε, below about 1e-3 of the median, need very many steps. If 10,000 are not
    enough, an `EstimateWarning` says how far off the masses are; if that is more than 1e-3, an error is raised. No
    optional package is needed.

    Parameters
    ----------
    x, y : array (n, d), (m, d)
        Points of P and of Q.
    p, q : array (n,), (m,) or None
        Their masses; None means equal masses.
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

    For the frontiers of small samples; for those of quantised ones, take the masses from `mallow.Quantize`.

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
