"""Checks of what transport takes: points, their masses, bins with centres, covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import real_array
from mallow.errors import InputError
from mallow.theory._arrays import SUM_TOLERANCE, Array, require_finite, require_non_negative
from mallow.theory._masses import Masses

_LARGEST = 1e150  # of a coordinate: a float64 can hold its square
_NEGATIVE = 1e-8  # chosen: an eigenvalue may be rounded this far below 0, relative to the largest


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
    require_finite(name, masses)
    require_non_negative(name, masses)
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
        raise InputError(f"`{name}` must be symmetric; it differs from its transpose by up to {off:.3g}.")
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -_NEGATIVE * np.abs(values).max():
        raise InputError(f"`{name}` must be a covariance, without negative eigenvalues; got {values[0]:.3g}.")
    root: Array = (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T
    return root
