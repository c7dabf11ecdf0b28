"""The six constants of a generator that the error bounds need (paper: asmp:fdiv, tab:fdiv:asmp-examples)."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from functools import lru_cache

import numpy as np

from mallow.errors import InputError
from mallow.theory._arrays import Array
from mallow.theory._divergence import CHI2, JS, KL, KL_INTEGRAL, LE_CAM, Divergence, conjugate, interpolated, skew_js


@dataclass(frozen=True)
class Constants:
    """The six constants of the paper's assumption on a generator f and its conjugate f* (asmp:fdiv).

    Attributes
    ----------
    at_zero, conjugate_at_zero : float
        C₀ = f(0) and C₀* = f*(0).
    first, conjugate_first : float
        C₁ with |f′(t)| ≤ C₁ max(1, log 1/t) on (0, 1), and C₁* the same for f*.
    second, conjugate_second : float
        C₂ with t f″(t)/2 ≤ C₂ on (0, ∞), and C₂* the same for f*.
    """

    at_zero: float
    conjugate_at_zero: float
    first: float
    conjugate_first: float
    second: float
    conjugate_second: float

    @property
    def finite(self) -> bool:
        """Whether all six are finite, so that the bounds hold."""
        return all(math.isfinite(value) for value in astuple(self))

    def swap(self) -> Constants:
        """The constants of the conjugate divergence."""
        return Constants(
            self.conjugate_at_zero,
            self.at_zero,
            self.conjugate_first,
            self.first,
            self.conjugate_second,
            self.second,
        )


@lru_cache(maxsize=256)
def constants(divergence: Divergence) -> Constants:
    """The smallest valid constants of a divergence, computed numerically (to about 1e-5, rounded up).

    They are infinite where the assumption fails: for KL and χ² (f*(0) = ∞), squared Hellinger (f′ grows faster than
    a logarithm), and total variation and other generators with kinks (f″ does not exist).

    Examples
    --------
    >>> round(constants(KL_INTEGRAL).first, 3), round(paper_constants(KL_INTEGRAL).first, 3)
    (1.0, 4.0)
    """
    swapped = conjugate(divergence)
    return Constants(
        divergence.at_zero,
        divergence.conjugate_at_zero,
        _first_constant(divergence),
        _first_constant(swapped),
        _second_constant(divergence),
        _second_constant(swapped),
    )


def paper_constants(divergence: Divergence) -> Constants:
    """The constants of the paper's table (tab:fdiv:asmp-examples): valid, and looser than `constants`.

    For the interpolated χ², the paper's table holds for a generator that lacks the factor (1−λ)²; the factor is
    restored here (docs/paper.md, erratum 1).
    """
    if divergence == JS:
        return Constants(math.log(2) / 2, math.log(2) / 2, 0.5, 0.5, 0.25, 0.25)
    if divergence == KL_INTEGRAL:
        return Constants(0.5, 0.5, 4.0, 4.0, 0.5, 0.5)
    if divergence == LE_CAM:
        return Constants(0.5, 0.5, 2.0, 2.0, 8 / 27, 8 / 27)
    lam = getattr(divergence.term, "lam", None)
    if lam is not None:
        rest = 1.0 - lam
        if divergence == skew_js(lam):
            return Constants(-rest * math.log(rest), -lam * math.log(lam), lam, rest, lam / 2, rest / 2)
        if divergence == interpolated(KL, lam):
            return Constants(rest, -math.log(lam) - rest, 1.0, rest**2 / lam, 0.5, rest / (8 * lam))
        if divergence == interpolated(CHI2, lam):
            return Constants(rest, rest**2 / lam, 2.0, 2 * rest**2 / lam**2, 4 / (27 * lam), 4 * rest / (27 * lam**2))
    raise InputError(
        f"The paper's table has no finite constants for {divergence}; "
        "it has them for JS, LE_CAM, KL_INTEGRAL, skew_js, interpolated(KL, ·) and interpolated(CHI2, ·). "
        "Use `constants`, which computes them numerically."
    )


# Derivatives are taken in s = log t, by central differences of order eight: t f′ = df/ds.
# The steps and ranges below are chosen: the constants of the named divergences come out right to about 1e-5.
_STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
_REACH = np.arange(-4, 5)
_SLACK = 1.0 + 1e-5  # rounds up: an upper bound must not be missed by the error of the differences


def _slope(divergence: Divergence, s: Array, step: float) -> Array:
    """f′(t) at t = e^s."""
    t = np.exp(s[:, None] + step * _REACH)
    values = divergence.terms(t, np.ones_like(t), np.expm1(s[:, None] + step * _REACH))
    slope: Array = (values @ _STENCIL) / step * np.exp(-s)
    return slope


def _first_constant(divergence: Divergence) -> float:
    """sup |f′(t)| / max(1, log 1/t) over (0, 1)."""
    s = np.linspace(-18.0, 0.0, 4501)  # includes t = 1/e, where the ratio may have a cusp
    slope = np.abs(_slope(divergence, s, 0.05))
    # The coefficient of log(1/t) in f′ as t → 0, from two stretches, which must agree.
    late, early = ((slope[i] - slope[j]) / (s[j] - s[i]) for i, j in ((0, 400), (400, 800)))
    largest = float((slope / np.maximum(1.0, -s)).max())
    if abs(late - early) > 1e-2 * max(1.0, largest):
        return math.inf
    return max(largest, float(late)) * _SLACK


def _second_constant(divergence: Divergence) -> float:
    """sup t f″(t)/2 over (0, ∞); t f″ = df′/ds."""

    def largest(step: float) -> tuple[float, float]:
        reach = s[:, None] + step * _REACH
        slopes = _slope(divergence, reach.ravel(), step).reshape(reach.shape)
        curvature = (slopes @ _STENCIL) / step / 2
        return float(curvature[np.abs(s) <= 14.0].max()), float(curvature.max())

    s = np.linspace(-18.0, 18.0, 3601)
    (_, coarse), (inner, fine) = largest(0.1), largest(0.05)
    # With a kink, the difference quotient grows as the step shrinks; with a pole, it grows towards an end.
    grows = fine > 1.05 * min(coarse, inner) + 1e-6
    return math.inf if grows else max(coarse, fine) * _SLACK
