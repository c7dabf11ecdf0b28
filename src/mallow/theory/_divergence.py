"""f-divergences: the class, the named divergences, and divergences derived from others.

An f-divergence is D_f(P‖Q) = Σ q f(p/q) with f convex, non-negative and f(1) = 0 (paper: def:fdiv).
Larger means further apart; 0 means equal.

The terms q f(p/q) of the named divergences are accurate where p is near q. They are written in s = p + q and
z = (p − q)/(p + q), with log(p/q) = 2 atanh z. Near z = 0 the plain formulas cancel, but the series in z do not. Each
takes p, q and p − q, which a caller may have more exactly than by subtraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mallow._checks import open_unit
from mallow.errors import InputError
from mallow.theory._masses import Array, Masses

_KL_SERIES = [1.0, 1 / 3, 1 / 3, 1 / 5, 1 / 5]
_INTEGRAL_SERIES = [1.0 / (4 * j * j - 1) for j in range(1, 14)]
# chosen: below these, the first omitted term of the series is under 1e-15 of the sum.
_KL_NEAR = 1e-3  # |z|
_INTEGRAL_NEAR = 0.05  # z²

# chosen: rounding of a generator of order 1 passes, but a wrong constant or a significant dent does not.
_ZERO_TOLERANCE = 1e-9  # of f(1)
_CONVEXITY_TOLERANCE = 1e-7  # of a falling slope, relative to the slopes
_LIMIT_TOLERANCE = 1e-9  # of two values near the limit, relative


def kl_term(p: Array, q: Array, difference: Array) -> Array:
    """p log(p/q) − p + q = s·(z·atanh z + (atanh z − z)) = s·(z² + z³/3 + z⁴/3 + z⁵/5 + z⁶/5 + …)."""
    total = p + q
    z = difference / total
    near = z * z * total * _horner(z, _KL_SERIES)
    excess = difference / q  # p/q − 1
    log = np.log1p(excess)
    if not np.isfinite(log).all():  # p/q under- or overflows
        log = np.where(np.isfinite(log), log, np.log(p) - np.log(q))
    return np.where(np.abs(z) < _KL_NEAR, near, np.where(p > 0, p * log, 0.0) - difference)


def kl_integral_term(p: Array, q: Array, difference: Array) -> Array:
    """(p + q)/2 − pq/(p − q)·log(p/q) = s·Σ_{j≥1} z^{2j}/(4j² − 1) (paper: prop:fi-properties-kl)."""
    total = p + q
    square = (difference / total) ** 2
    near = total * square * _horner(square, _INTEGRAL_SERIES)
    product = np.where((p > 0) & (q > 0), p * (q / difference) * (np.log(p) - np.log(q)), 0.0)
    return np.where(square < _INTEGRAL_NEAR, near, total / 2 - product)


def chi2_integral_term(p: Array, q: Array, difference: Array) -> Array:
    """Twice the term of the KL integral, exactly."""
    # paper: prop:fi-properties prints another closed form for χ², which exceeds the paper's own bound of 2.
    # By quadrature it is exactly twice the KL one: docs/paper.md, erratum 2.
    return 2.0 * kl_integral_term(p, q, difference)


def chi2_term(p: Array, q: Array, difference: Array) -> Array:
    """(p − q)²/q."""
    return difference * (difference / q)


def tv_term(p: Array, q: Array, difference: Array) -> Array:
    """|p − q|/2."""
    return 0.5 * np.abs(difference)


def hellinger2_term(p: Array, q: Array, difference: Array) -> Array:
    """(√p − √q)², as ((p − q)/(√p + √q))²."""
    square: Array = (difference / (np.sqrt(p) + np.sqrt(q))) ** 2
    return square


def le_cam_term(p: Array, q: Array, difference: Array) -> Array:
    """(p − q)²/(2(p + q))."""
    return difference * (difference / (p + q)) / 2.0


def _horner(x: Array, coefficients: list[float]) -> Array:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


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
        where = t[~np.isfinite(values)][0]
        raise InputError(f"`f` of {name!r} must be finite on (0, ∞), but it is not at t = {where:.4g}.")
    if not abs(at_one) <= _ZERO_TOLERANCE:
        raise InputError(f"`f` of {name!r} must have f(1) = 0; got f(1) = {at_one:.6g}. Subtract that constant.")
    slopes = np.diff(values) / np.diff(t)
    rise = slopes[1:] - slopes[:-1]
    slack = _CONVEXITY_TOLERANCE * (1.0 + np.abs(slopes[1:]) + np.abs(slopes[:-1]))
    if (rise < -slack).any():
        where = t[1:-1][rise < -slack][0]
        raise InputError(f"`f` of {name!r} must be convex, but its slope falls near t = {where:.4g}.")
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


@dataclass(frozen=True, repr=False)
class Divergence:
    """An f-divergence; called on `Masses` it returns D_f(P‖Q).

    Parameters
    ----------
    name : str
        The name in signatures.
    f : callable
        The generator on (0, ∞): vectorised over NumPy arrays, convex, with f(1) = 0. If it is negative
        anywhere, it is replaced by f(t) − f′(1)(t − 1), which is non-negative and gives the same
        divergence (paper: footnote of def:fdiv). With a module-level function the divergence can be pickled.
    at_zero : float
        f(0), which may be infinite. NaN (the default): computed numerically.
    conjugate_at_zero : float
        f*(0) = lim f(t)/t as t → ∞, which may be infinite. NaN (the default): computed numerically.
    term : callable or None
        (p, q, p − q) → q f(p/q) for positive p and q, more accurate than the plain formula where p is
        near q. None means the plain formula.
    smooth : bool
        Whether the frontier is known to be smooth in λ. If False (the default), `frontier` checks it and refines.

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
            object.__setattr__(self, "f", checked_generator(self.name, self.f))
        if math.isnan(self.at_zero):
            object.__setattr__(self, "at_zero", limit_towards(0.0, lambda t: self.f(t), 1e-60, 1e-75))
        if math.isnan(self.conjugate_at_zero):
            slope = limit_towards(math.inf, lambda t: self.f(t) / t, 1e60, 1e75)
            object.__setattr__(self, "conjugate_at_zero", slope)

    def __repr__(self) -> str:
        return self.name

    def __call__(self, masses: Masses) -> float | Array:
        """D_f(P‖Q); for masses from a likelihood ratio r, the sample mean of f(r)."""
        total = masses.cost_of_p(lambda p, q: self.terms(p, q)[:, None])[..., 0]
        clipped: float | Array = np.maximum(total, 0.0)[()]  # an extrapolation may be negative
        return clipped

    def terms(self, p: Array, q: Array, difference: Array | None = None) -> Array:
        """q f(p/q), atom by atom, with 0·f(p/0) = p·f*(0) and 0·f(0/0) = 0 (paper: def:fdiv).

        `difference` is p − q, if the caller has it more exactly than by subtraction.
        """
        with np.errstate(all="ignore"):
            difference = p - q if difference is None else difference
            terms = q * self.f(p / q) if self.term is None else self.term(p, q, difference)
            if (p == 0).any():
                terms = np.where(p == 0, _times(q, self.at_zero), terms)
            edge = (q == 0) | np.isinf(p)
            if edge.any():
                terms = np.where(edge, _times(p, self.conjugate_at_zero), terms)
        return terms


def conjugate(divergence: Divergence) -> Divergence:
    """The divergence with P and Q exchanged: f*(t) = t f(1/t), so D_f*(P‖Q) = D_f(Q‖P)."""
    if isinstance(divergence.term, _Conjugate):
        return divergence.term.base
    return _from_term(
        f"conjugate({divergence})",
        _Conjugate(divergence),
        divergence.conjugate_at_zero,
        divergence.at_zero,
        smooth=divergence.smooth,
    )


def interpolated(divergence: Divergence, lam: float) -> Divergence:
    """The divergence of P from the mixture, D_f(P‖λP + (1−λ)Q), as a divergence of P from Q.

    Its generator is f_λ(t) = (λt + 1 − λ) f(t / (λt + 1 − λ)) (paper: property:frontier-as-f-div), with
    f_λ(0) = (1−λ) f(0) and f_λ*(0) = f*(λ) = λ f(1/λ). For χ² this is (1−λ)²(t−1)²/(λt+1−λ): the paper
    (ex:f_div d) prints it without the factor (1−λ)²: docs/paper.md, erratum 1.
    """
    lam = open_unit("lam", lam)
    at_infinity = float(divergence.terms(np.array([1.0]), np.array([lam]), np.array([1.0 - lam]))[0])
    return _from_term(
        f"interpolated({divergence}, {lam:g})",
        _Interpolated(divergence, lam),
        (1.0 - lam) * divergence.at_zero,
        at_infinity,
        smooth=divergence.smooth,
    )


def skew_js(lam: float) -> Divergence:
    """The λ-skew Jensen–Shannon divergence λ KL(P‖R_λ) + (1−λ) KL(Q‖R_λ) (paper: ex:f_div c)."""
    lam = open_unit("lam", lam)
    return _from_term(f"skew_js({lam:g})", _SkewJs(lam), -(1 - lam) * math.log1p(-lam), -lam * math.log(lam))


@dataclass(frozen=True)
class _GeneratorOf:
    """f(t) = term(t, 1): the generator read off the terms."""

    term: Callable[[Array, Array, Array], Array]

    def __call__(self, t: Array) -> Array:
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(all="ignore"):
            return self.term(t, np.ones_like(t), t - 1.0)


def _from_term(
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
        total: Array = self.lam * to_p + rest * to_q
        return total


KL = _from_term("KL", kl_term, 1.0, math.inf)
"""Kullback–Leibler: f(t) = t log t − t + 1."""
CHI2 = _from_term("CHI2", chi2_term, 1.0, math.inf)
"""Pearson's χ²: f(t) = (t − 1)²."""
TV = _from_term("TV", tv_term, 0.5, 0.5)
"""Total variation: f(t) = |t − 1|/2, at most 1."""
HELLINGER2 = _from_term("HELLINGER2", hellinger2_term, 1.0, 1.0)
"""Squared Hellinger distance: f(t) = (√t − 1)², at most 2 (paper: tab:fdiv:asmp-examples)."""
JS = replace(skew_js(0.5), name="JS")
"""Jensen–Shannon, the mid-point of the KL frontier; at most log 2."""
LE_CAM = _from_term("LE_CAM", le_cam_term, 0.5, 0.5)
"""Le Cam, the mid-point of the χ² frontier: f(t) = (t − 1)²/(2(t + 1)), at most 1."""
KL_INTEGRAL = _from_term("KL_INTEGRAL", kl_integral_term, 0.5, 0.5)
"""The integral summary of the KL frontier: f(t) = (t+1)/2 − t log t/(t−1), at most 1."""
CHI2_INTEGRAL = _from_term("CHI2_INTEGRAL", chi2_integral_term, 1.0, 1.0)
"""The integral summary of the χ² frontier, exactly twice that of KL; at most 2."""

DIVERGENCES: dict[str, Divergence] = {
    divergence.name: divergence for divergence in (KL, CHI2, TV, HELLINGER2, JS, LE_CAM)
}
"""The usual divergences for frontiers, by name."""


def _times(weights: Array, limit: float) -> Array:
    """weights·limit, with 0·∞ = 0."""
    return np.where(weights == 0, 0.0, weights * limit)
