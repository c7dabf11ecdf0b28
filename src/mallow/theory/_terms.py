"""Terms q f(p/q) of the named divergences, accurate where p is near q.

They are written in s = p + q and z = (p − q)/(p + q), with log(p/q) = 2 atanh z. Near z = 0 the plain formulas
cancel; the series in z do not. Each takes p, q and p − q, which a caller may know more exactly than by subtracting.
"""

from __future__ import annotations

import numpy as np

from mallow.theory._arrays import Array

_KL_SERIES = [1.0, 1 / 3, 1 / 3, 1 / 5, 1 / 5]
_INTEGRAL_SERIES = [1.0 / (4 * j * j - 1) for j in range(1, 14)]
# chosen: below these, the first omitted term of the series is under 1e-15 of the sum.
_KL_NEAR = 1e-3  # |z|
_INTEGRAL_NEAR = 0.05  # z²


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
    # paper: prop:fi-properties prints another closed form for χ²; it exceeds the paper's own bound of 2.
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
