"""A user's own generator f: checked to be one, made non-negative, and its limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mallow.errors import InputError
from mallow.theory._arrays import Array

# chosen: rounding of a generator of order 1 passes; a wrong constant or a dent that matters does not.
_ZERO_TOLERANCE = 1e-9  # of f(1)
_CONVEXITY_TOLERANCE = 1e-7  # of a falling slope, relative to the slopes
_LIMIT_TOLERANCE = 1e-9  # of two values near the limit, relative


def checked_generator(name: str, f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`f`, tilted to be non-negative, if it is a convex generator with f(1) = 0."""
    t = np.logspace(-4, 4, 321)
    with np.errstate(all="ignore"):
        values = np.asarray(f(t))
        at_one = float(np.asarray(f(np.array([1.0]))).ravel()[0])
    if values.shape != t.shape or values.dtype.kind != "f":
        raise InputError(
            f"`f` of {name!r} must map an array to a real array of the same shape; "
            f"for shape {t.shape} it returned shape {values.shape} and dtype {values.dtype}."
        )
    if not np.isfinite(values).all():
        place = t[~np.isfinite(values)][0]
        raise InputError(f"`f` of {name!r} must be finite on (0, ∞); it is not at t = {place:.4g}.")
    if not abs(at_one) <= _ZERO_TOLERANCE:
        raise InputError(f"`f` of {name!r} must have f(1) = 0; got f(1) = {at_one:.6g}. Subtract that constant.")
    slopes = np.diff(values) / np.diff(t)
    rise = slopes[1:] - slopes[:-1]
    slack = _CONVEXITY_TOLERANCE * (1.0 + np.abs(slopes[1:]) + np.abs(slopes[:-1]))
    if (rise < -slack).any():
        place = t[1:-1][rise < -slack][0]
        raise InputError(f"`f` of {name!r} must be convex; its slope falls near t = {place:.4g}.")
    if values.min() >= -1e-12:
        return f
    # Richardson's difference: any number between the one-sided slopes at 1 makes f non-negative.
    step = 1e-3
    probe = np.asarray(f(1.0 + step * np.array([-2.0, -1.0, 1.0, 2.0])))
    return _Tilted(f, float((probe[0] - 8 * probe[1] + 8 * probe[2] - probe[3]) / (12 * step)))


def limit_towards(end: float, function: Callable[[Array], Array], near: float, nearer: float) -> float:
    """The limit of a monotone function towards `end`, or ∞ if it still grows between two points near it."""
    with np.errstate(all="ignore"):
        exact = float(np.asarray(function(np.array([end]))).ravel()[0])
        a, b = (float(v) for v in np.asarray(function(np.array([near, nearer]))))
    if math.isfinite(exact):
        return exact
    return b if math.isfinite(b) and abs(b - a) <= _LIMIT_TOLERANCE * max(1.0, abs(a)) else math.inf


@dataclass(frozen=True)
class _Tilted:
    """f(t) − slope·(t − 1): the non-negative generator of the same divergence."""

    f: Callable[[Array], Array]
    slope: float

    def __call__(self, t: Array) -> Array:
        tilted: Array = self.f(t) - self.slope * (np.asarray(t) - 1.0)
        return tilted
