"""Terms of the named divergences: right to the last digits, near and far, on both sides of every switch of formulas."""

import mpmath
import numpy as np
import pytest
from pytest import approx

from mallow.theory import _divergence as _terms

TEXTBOOK = {
    "kl_term": lambda p, q: p * mpmath.log(p / q) - p + q,
    "kl_integral_term": lambda p, q: (p + q) / 2 - p * q / (p - q) * mpmath.log(p / q),
    "chi2_integral_term": lambda p, q: (p + q) - 2 * p * q / (p - q) * mpmath.log(p / q),
    "chi2_term": lambda p, q: (p - q) ** 2 / q,
    "tv_term": lambda p, q: abs(p - q) / 2,
    "hellinger2_term": lambda p, q: (mpmath.sqrt(p) - mpmath.sqrt(q)) ** 2,
    "le_cam_term": lambda p, q: (p - q) ** 2 / (2 * (p + q)),
}
NEAR = [1e-12, 1e-6, 9.9e-4, 1.01e-3, 0.02, 0.21, 0.223, 0.2237, 0.3, 0.9, 0.999999]


@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("z", [sign * value for value in NEAR for sign in (1, -1)])
@pytest.mark.parametrize("total", [2.0, 1e-8])
def test_all_digits_are_right(name, z, total):
    """With z = (p − q)/(p + q), at which the formulas change."""
    q = total * (1 - z) / 2
    difference = total * z
    with mpmath.workdps(40):
        exact_q, exact_difference = mpmath.mpf(q), mpmath.mpf(difference)
        expected = float(TEXTBOOK[name](exact_q + exact_difference, exact_q))
    arrays = (np.array([value]) for value in (q + difference, q, difference))
    assert getattr(_terms, name)(*arrays)[0] == approx(expected, rel=2e-13 if abs(z) > 1e-9 else 1e-12)


def test_masses_of_nothing_and_ratios_beyond_all_numbers():
    p, q = np.array([0.0, 1e-300, 1.0, 5e-324]), np.array([1.0, 1.0, 1e-300, 1.0])
    with np.errstate(all="ignore"):
        kl = _terms.kl_term(p, q, p - q)
        integral = _terms.kl_integral_term(p, q, p - q)
    assert kl == approx([1.0, 1.0, 300 * np.log(10) - 1, 1.0])
    assert integral == approx([0.5, 0.5, 0.5, 0.5])


def test_polynomials_are_evaluated_from_the_last_coefficient():
    x = np.array([0.0, 1.0, 2.0])
    assert _terms._horner(x, [3.0, 5.0, 7.0]).tolist() == [3.0, 15.0, 41.0]
    assert _terms._horner(x, [4.0]).tolist() == [4.0, 4.0, 4.0]
