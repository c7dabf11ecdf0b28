"""Quadrature along a frontier: panels in u = log(λ/(1−λ)), each with a polynomial through Chebyshev points.

In u both costs are analytic in a strip of half-width π (π/2 after exponentiation for χ²), whatever the masses: an
atom with p/q = 1e-300 only moves its feature along u. A few panels, wider towards the ends where
dλ = λ(1−λ)du is small, therefore resolve every smooth curve. The area of a curve that is piecewise polynomial in a
parameter is a bilinear form of its values, so no derivative of f is needed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mallow.theory._arrays import Array

# chosen: with these panels and this degree the area is within 1e-8 of quadrature in 30 digits, however near or far
# apart P and Q are (tests/paper/test_frontier.py: test_the_area_is_exact). e^-26 = 5e-12.
EDGES = np.array([-26.0, -8.0, -4.0, -1.75, 0.0, 1.75, 4.0, 8.0, 26.0])
_DEGREE = 12


def panel_nodes(edges: Array) -> Array:
    """The Chebyshev points of all panels in u, in rising order and symmetric; neighbouring panels share a point."""
    unit = -np.cos(np.pi * np.arange(_DEGREE) / _DEGREE)  # without the last point, the first of the next panel
    middle, half = (edges[:-1] + edges[1:]) / 2, np.diff(edges) / 2
    inner = (middle[:, None] + half[:, None] * unit).ravel()
    inner[::_DEGREE] = edges[:-1]
    nodes = np.append(inner, edges[-1])
    symmetric: Array = (nodes - nodes[::-1]) / 2
    return symmetric


def panel_integrals(y: Array, x: Array) -> Array:
    """∫ y dx over each panel, shape (..., panels), of curves known at the nodes."""
    form, _ = _forms()
    integrals: Array = ((_by_panel(y) @ form) * _by_panel(x)).sum(axis=-1)
    return integrals


def panel_errors(x: Array, y: Array) -> Array:
    """An estimate of the error of ∫ y dx over each panel, the largest in the batch: shape (panels,)."""
    _, to_coefficients = _forms()
    x, y = _by_panel(x), _by_panel(y)
    tail_x, tail_y = (np.abs(v @ to_coefficients[:, -2:]).sum(axis=-1) for v in (x, y))
    error: Array = tail_x * np.ptp(y, axis=-1) + tail_y * np.ptp(x, axis=-1)
    largest: Array = error.reshape(-1, error.shape[-1]).max(axis=0)
    return largest


def _by_panel(values: Array) -> Array:
    """(..., points) → (..., panels, degree + 1); shared points appear twice."""
    panels = (values.shape[-1] - 1) // _DEGREE
    index = _DEGREE * np.arange(panels)[:, None] + np.arange(_DEGREE + 1)
    return values[..., index]


@lru_cache(maxsize=1)
def _forms() -> tuple[Array, Array]:
    """∫ l_i l_j′ for the Lagrange polynomials l of a panel, and the matrix from values to Chebyshev coefficients."""
    unit = -np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)
    basis = np.polynomial.chebyshev.chebvander(unit, _DEGREE)
    to_coefficients = np.linalg.inv(basis).T.astype(np.float64)  # values @ this = coefficients
    at, weight = np.polynomial.legendre.leggauss(_DEGREE + 1)
    value = np.polynomial.chebyshev.chebvander(at, _DEGREE)
    slope = np.polynomial.chebyshev.chebval(at, np.polynomial.chebyshev.chebder(np.eye(_DEGREE + 1))).T
    form: Array = to_coefficients @ value.T @ (weight[:, None] * slope) @ to_coefficients.T
    return form, to_coefficients
