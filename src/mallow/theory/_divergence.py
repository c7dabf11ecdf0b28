"""f-divergences: generators, their limits, and terms that stay accurate where p is near q.

An f-divergence is D_f(P‖Q) = Σ q f(p/q) with f convex, non-negative and f(1) = 0 (paper: def:fdiv).
Larger means further apart; 0 means equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mallow._checks import open_unit
from mallow.errors import InputError
from mallow.theory._masses import Array, Masses

__all__ = [
    "CHI2",
    "CHI2_INTEGRAL",
    "HELLINGER2",
    "JS",
    "KL",
    "KL_INTEGRAL",
    "LE_CAM",
    "TV",
    "Divergence",
    "conjugate",
    "interpolated",
    "skew_js",
]


@dataclass(frozen=True, repr=False)
class Divergence:
    """An f-divergence; called on `Masses` it returns D_f(P‖Q).

    Parameters
    ----------
    name : str
        How it is written in a signature.
    f : callable
        The generator on (0, ∞), vectorised over NumPy arrays, convex, with f(1) = 0. If it is negative
        somewhere it is replaced by f(t) − f′(1)(t − 1), which is non-negative and gives the same
        divergence (paper: footnote of def:fdiv). A module-level function keeps the divergence picklable.
    at_zero, conjugate_at_zero : float
        f(0) and f*(0) = lim f(t)/t as t → ∞; may be infinite. NaN (the default): found numerically.
    term : callable or None
        (p, q, p − q) → q f(p/q) for positive q, p, more accurate than the plain formula where p is
        near q. None: the plain formula.
    smooth : bool
        Whether the frontier is known to be smooth in λ. False (the default): `frontier` checks and refines.

    Examples
    --------
    >>> masses = Masses.from_histograms([0.5, 0.5], [0.25, 0.75])
    >>> float(KL(masses).round(6))
    0.143841
    >>> float(Divergence("reverse KL", lambda t: -np.log(t))(masses).round(6))
    0.130812
    """

    name: str
    f: Callable[[Array], Array]
    at_zero: float = math.nan
    conjugate_at_zero: float = math.nan
    term: Callable[[Array, Array, Array], Array] | None = None
    smooth: bool = False

    def __post_init__(self) -> None:
        if self.term is None:
            object.__setattr__(self, "f", _checked_generator(self.name, self.f))
        if math.isnan(self.at_zero):
            object.__setattr__(self, "at_zero", _limit(lambda t: self.f(t), 0.0, 1e-60, 1e-75))
        if math.isnan(self.conjugate_at_zero):
            slope = _limit(lambda t: self.f(t) / t, math.inf, 1e60, 1e75)
            object.__setattr__(self, "conjugate_at_zero", slope)

    def __repr__(self) -> str:
        return self.name

    def __call__(self, masses: Masses) -> float | Array:
        """D_f(P‖Q); the sample mean of f(r) for masses that come from a likelihood ratio."""
        total = masses.cost_of_p(lambda p, q: self.terms(p, q)[:, None])[..., 0]
        clipped: float | Array = np.maximum(total, 0.0)[()]  # an extrapolation may fall below
        return clipped

    def terms(self, p: Array, q: Array, difference: Array | None = None) -> Array:
        """q f(p/q), atom by atom, with 0·f(p/0) = p·f*(0) and 0·f(0/0) = 0 (paper: def:fdiv).

        `difference` is p − q where the caller knows it more exactly than by subtracting.
        """
        with np.errstate(all="ignore"):
            difference = p - q if difference is None else difference
            found = q * self.f(p / q) if self.term is None else self.term(p, q, difference)
            if (p == 0).any():
                found = np.where(p == 0, _times(q, self.at_zero), found)
            edge = (q == 0) | np.isinf(p)
            if edge.any():
                found = np.where(edge, _times(p, self.conjugate_at_zero), found)
        return found


def conjugate(divergence: Divergence) -> Divergence:
    """The divergence with P and Q exchanged: f*(t) = t f(1/t), so D_f*(P‖Q) = D_f(Q‖P)."""
    if isinstance(divergence.term, _Conjugate):
        return divergence.term.base
    return _built(
        f"conjugate({divergence})",
        _Conjugate(divergence),
        divergence.conjugate_at_zero,
        divergence.at_zero,
        smooth=divergence.smooth,
    )


def interpolated(divergence: Divergence, lam: float) -> Divergence:
    """The divergence of P from the mixture, D_f(P‖λP + (1−λ)Q), as a divergence of its own.

    Its generator is f_λ(t) = (λt + 1 − λ) f(t / (λt + 1 − λ)) (paper: property:frontier-as-f-div), with
    f_λ(0) = (1−λ) f(0) and f_λ*(0) = f*(λ) = λ f(1/λ). For χ² this is (1−λ)²(t−1)²/(λt+1−λ): the paper
    (ex:f_div d) prints it without the factor (1−λ)²: docs/paper.md, erratum 1.
    """
    lam = open_unit("lam", lam)
    far = float(divergence.terms(np.array([1.0]), np.array([lam]), np.array([1.0 - lam]))[0])
    return _built(
        f"interpolated({divergence}, {lam:g})",
        _Interpolated(divergence, lam),
        (1.0 - lam) * divergence.at_zero,
        far,
        smooth=divergence.smooth,
    )


def skew_js(lam: float) -> Divergence:
    """The λ-skew Jensen–Shannon divergence λ KL(P‖R_λ) + (1−λ) KL(Q‖R_λ) (paper: ex:f_div c)."""
    lam = open_unit("lam", lam)
    return _built(f"skew_js({lam:g})", _SkewJs(lam), -(1 - lam) * math.log1p(-lam), -lam * math.log(lam))


@dataclass(frozen=True)
class _GeneratorOf:
    """f(t) = term(t, 1): the generator read off the terms."""

    term: Callable[[Array, Array, Array], Array]

    def __call__(self, t: Array) -> Array:
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(all="ignore"):
            return self.term(t, np.ones_like(t), t - 1.0)


def _built(
    name: str,
    term: Callable[[Array, Array, Array], Array],
    at_zero: float,
    conjugate_at_zero: float,
    smooth: bool = True,
) -> Divergence:
    return Divergence(name, _GeneratorOf(term), at_zero, conjugate_at_zero, term, smooth)


@dataclass(frozen=True)
class _Conjugate:
    base: Divergence

    def __call__(self, p: Array, q: Array, difference: Array) -> Array:
        return self.base.terms(q, p, -difference)


@dataclass(frozen=True)
class _Interpolated:
    base: Divergence
    lam: float

    def __call__(self, p: Array, q: Array, difference: Array) -> Array:
        mix = self.lam * p + (1.0 - self.lam) * q
        return self.base.terms(p, mix, (1.0 - self.lam) * difference)


@dataclass(frozen=True)
class _SkewJs:
    lam: float

    def __call__(self, p: Array, q: Array, difference: Array) -> Array:
        rest = 1.0 - self.lam
        mix = self.lam * p + rest * q
        to_p = KL.terms(p, mix, rest * difference)
        to_q = KL.terms(q, mix, -self.lam * difference)
        found: Array = self.lam * to_p + rest * to_q
        return found


# The terms below are written in s = p + q and z = (p − q)/(p + q), with log(p/q) = 2 atanh z. Near z = 0
# the plain formulas cancel; the series in z do not.


def _kl_term(p: Array, q: Array, difference: Array) -> Array:
    """p log(p/q) − p + q = s·(z·atanh z + (atanh z − z)) = s·(z² + z³/3 + z⁴/3 + z⁵/5 + z⁶/5 + …)."""
    total = p + q
    z = difference / total
    near = z * z * total * _horner(z, [1.0, 1 / 3, 1 / 3, 1 / 5, 1 / 5])
    excess = difference / q  # p/q − 1
    log = np.log1p(excess)
    if not np.isfinite(log).all():  # p/q under- or overflows
        log = np.where(np.isfinite(log), log, np.log(p) - np.log(q))
    return np.where(np.abs(z) < 1e-3, near, np.where(p > 0, p * log, 0.0) - difference)


def _kl_integral_term(p: Array, q: Array, difference: Array) -> Array:
    """(p + q)/2 − pq/(p − q)·log(p/q) = s·Σ_{j≥1} z^{2j}/(4j² − 1) (paper: prop:fi-properties-kl)."""
    total = p + q
    square = (difference / total) ** 2
    near = total * square * _horner(square, _INTEGRAL_SERIES)
    product = np.where((p > 0) & (q > 0), p * (q / difference) * (np.log(p) - np.log(q)), 0.0)
    return np.where(square < 0.05, near, total / 2 - product)


def _chi2_integral_term(p: Array, q: Array, difference: Array) -> Array:
    # paper: prop:fi-properties prints another closed form for χ²; it breaks its own bound of 2.
    # By quadrature it is exactly twice the KL one: docs/paper.md, erratum 2.
    return 2.0 * _kl_integral_term(p, q, difference)


def _chi2_term(p: Array, q: Array, difference: Array) -> Array:
    return difference * (difference / q)


def _tv_term(p: Array, q: Array, difference: Array) -> Array:
    return 0.5 * np.abs(difference)


def _hellinger2_term(p: Array, q: Array, difference: Array) -> Array:
    found: Array = (difference / (np.sqrt(p) + np.sqrt(q))) ** 2
    return found


def _le_cam_term(p: Array, q: Array, difference: Array) -> Array:
    return difference * (difference / (p + q)) / 2.0


_INTEGRAL_SERIES = [1.0 / (4 * j * j - 1) for j in range(1, 14)]


def _horner(x: Array, coefficients: list[float]) -> Array:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


KL = _built("KL", _kl_term, 1.0, math.inf)
"""Kullback–Leibler: f(t) = t log t − t + 1."""
CHI2 = _built("CHI2", _chi2_term, 1.0, math.inf)
"""Pearson's χ²: f(t) = (t − 1)²."""
TV = _built("TV", _tv_term, 0.5, 0.5)
"""Total variation: f(t) = |t − 1|/2, at most 1."""
HELLINGER2 = _built("HELLINGER2", _hellinger2_term, 1.0, 1.0)
"""Squared Hellinger distance: f(t) = (√t − 1)², at most 2 (paper: tab:fdiv:asmp-examples)."""
JS = replace(skew_js(0.5), name="JS")
"""Jensen–Shannon, the mid-point of the KL frontier; at most log 2."""
LE_CAM = _built("LE_CAM", _le_cam_term, 0.5, 0.5)
"""Le Cam, the mid-point of the χ² frontier: f(t) = (t − 1)²/(2(t + 1)), at most 1."""
KL_INTEGRAL = _built("KL_INTEGRAL", _kl_integral_term, 0.5, 0.5)
"""The integral summary of the KL frontier: f(t) = (t+1)/2 − t log t/(t−1), at most 1."""
CHI2_INTEGRAL = _built("CHI2_INTEGRAL", _chi2_integral_term, 1.0, 1.0)
"""The integral summary of the χ² frontier, exactly twice that of KL; at most 2."""


def _times(weights: Array, limit: float) -> Array:
    """weights·limit with 0·∞ = 0."""
    return np.where(weights == 0, 0.0, weights * limit)


@dataclass(frozen=True)
class _Tilted:
    """f(t) − slope·(t − 1): the non-negative generator of the same divergence."""

    f: Callable[[Array], Array]
    slope: float

    def __call__(self, t: Array) -> Array:
        found: Array = self.f(t) - self.slope * (np.asarray(t) - 1.0)
        return found


def _checked_generator(name: str, f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`f`, tilted to be non-negative, if it is a convex generator with f(1) = 0."""
    t = np.logspace(-4, 4, 321)
    with np.errstate(all="ignore"):
        values = np.asarray(f(t))
        one = float(np.asarray(f(np.array([1.0]))).ravel()[0])
    if values.shape != t.shape or values.dtype.kind != "f":
        raise InputError(
            f"`f` of {name!r} must map an array to a real array of the same shape; "
            f"for shape {t.shape} it gave shape {values.shape} and dtype {values.dtype}."
        )
    if not np.isfinite(values).all():
        place = t[~np.isfinite(values)][0]
        raise InputError(f"`f` of {name!r} must be finite on (0, ∞); at t = {place:.4g} it is not.")
    if not abs(one) <= 1e-9:
        raise InputError(f"`f` of {name!r} must have f(1) = 0; got f(1) = {one:.6g}. Subtract that constant.")
    slopes = np.diff(values) / np.diff(t)
    drop = slopes[1:] - slopes[:-1]
    slack = 1e-7 * (1.0 + np.abs(slopes[1:]) + np.abs(slopes[:-1]))
    if (drop < -slack).any():
        place = t[1:-1][drop < -slack][0]
        raise InputError(f"`f` of {name!r} must be convex; near t = {place:.4g} its slope falls.")
    if values.min() >= -1e-12:
        return f
    # Richardson's difference: any number between the one-sided slopes at 1 makes f non-negative.
    step = 1e-3
    probe = np.asarray(f(1.0 + step * np.array([-2.0, -1.0, 1.0, 2.0])))
    return _Tilted(f, float((probe[0] - 8 * probe[1] + 8 * probe[2] - probe[3]) / (12 * step)))


def _limit(function: Callable[[Array], Array], end: float, near: float, nearer: float) -> float:
    """lim of a monotone function towards `end`, or ∞ if it still grows between two points near it."""
    with np.errstate(all="ignore"):
        exact = float(np.asarray(function(np.array([end]))).ravel()[0])
        a, b = (float(v) for v in np.asarray(function(np.array([near, nearer]))))
    if math.isfinite(exact):
        return exact
    return b if math.isfinite(b) and abs(b - a) <= 1e-9 * max(1.0, abs(a)) else math.inf
