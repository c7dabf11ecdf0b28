"""The constants of generators: valid on a grid, sharp, and never above those of the paper's table."""

from dataclasses import astuple

import numpy as np
import pytest
from pytest import approx

from mallow import CHI2, HELLINGER2, JS, KL, LE_CAM, TV, Divergence, InputError, conjugate, interpolated, skew_js
from mallow.theory import CHI2_INTEGRAL, KL_INTEGRAL, bounds

TABLE = [JS, KL_INTEGRAL, LE_CAM] + [
    make(lam)
    for lam in (0.05, 0.3, 0.5, 0.9)
    for make in (skew_js, lambda lam: interpolated(KL, lam), lambda lam: interpolated(CHI2, lam))
]
EVERY = [*TABLE, CHI2_INTEGRAL]


@pytest.fixture(autouse=True)
def _nothing_is_remembered():
    bounds.constants.cache_clear()


def holds(divergence, first, second):
    """Whether |f′| ≤ C₁ max(1, log 1/t) on (0, 1) and t f″/2 ≤ C₂, by differences on a fine grid."""
    s = np.linspace(-9, 9, 3601)
    slope = np.gradient(divergence.f(np.exp(s)), s) / np.exp(s)
    curvature = np.gradient(slope, s) / 2
    inner = slice(2, -2)
    below = s[inner] < 0
    small = np.abs(slope[inner]) <= first * np.maximum(1, -s[inner]) * (1 + 1e-4) + 1e-9
    return small[below].all() and (curvature[inner] <= second * (1 + 1e-4)).all()


@pytest.mark.parametrize("divergence", TABLE, ids=repr)
def test_the_constants_of_the_table_are_valid(divergence):  # paper: tab:fdiv:asmp-examples
    c = bounds.paper_constants(divergence)
    assert c.at_zero == approx(divergence.at_zero)
    assert c.conjugate_at_zero == approx(divergence.conjugate_at_zero)
    assert holds(divergence, c.first, c.second)
    assert holds(conjugate(divergence), c.conjugate_first, c.conjugate_second)


@pytest.mark.parametrize("divergence", EVERY, ids=repr)
def test_the_sharp_constants_are_valid_and_cannot_be_lowered(divergence):
    c = bounds.constants(divergence)
    assert c.finite
    for side, first, second in (
        (divergence, c.first, c.second),
        (conjugate(divergence), c.conjugate_first, c.conjugate_second),
    ):
        assert holds(side, first, second)
        assert not holds(side, first, 0.99 * second)
        at = np.array([-9.0, -8.0])  # C₁ may only be reached as t → 0: then |f′| grows by C₁ for each e
        lower, upper = (side.f(np.exp(at + step)) for step in (-1e-3, 1e-3))
        growth = -np.diff(np.abs(upper - lower) / (np.exp(at + 1e-3) - np.exp(at - 1e-3)))[0]
        assert growth >= 0.98 * first or not holds(side, 0.98 * first, second)


@pytest.mark.parametrize("divergence", TABLE, ids=repr)
def test_the_sharp_constants_are_never_above_the_table(divergence):
    sharp, table = (astuple(f(divergence)) for f in (bounds.constants, bounds.paper_constants))
    assert all(s <= t * (1 + 1e-4) + 1e-12 for s, t in zip(sharp, table, strict=True))


@pytest.mark.parametrize("divergence", [KL, CHI2, TV, HELLINGER2], ids=repr)
def test_divergences_outside_the_assumption_have_no_finite_constants(divergence):
    assert not bounds.constants(divergence).finite
    with pytest.raises(
        InputError, match=rf"^The paper's table has no finite constants for {divergence}\. .*numerically"
    ):
        bounds.paper_constants(divergence)


def test_a_generator_with_a_kink_has_no_second_constant():
    kinked = Divergence("kinked", lambda t: np.maximum(np.abs(t - 1) - 0.3, 0))
    assert bounds.constants(kinked).second == np.inf


@pytest.mark.parametrize("lam", [0.2, 0.5])
def test_the_table_of_the_paper(lam):  # paper: tab:fdiv:asmp-examples
    rest, log = 1 - lam, np.log
    table = {
        JS: (log(2) / 2, log(2) / 2, 0.5, 0.5, 0.25, 0.25),
        KL_INTEGRAL: (0.5, 0.5, 4, 4, 0.5, 0.5),
        LE_CAM: (0.5, 0.5, 2, 2, 8 / 27, 8 / 27),
        skew_js(0.2): (-0.8 * log(0.8), -0.2 * log(0.2), 0.2, 0.8, 0.1, 0.4),
        interpolated(KL, lam): (rest, -log(lam) - rest, 1, rest**2 / lam, 0.5, rest / (8 * lam)),
        interpolated(CHI2, lam): (
            rest,
            rest**2 / lam,
            2,
            2 * rest**2 / lam**2,
            4 / (27 * lam),
            4 * rest / (27 * lam**2),
        ),
    }
    for divergence, expected in table.items():
        assert astuple(bounds.paper_constants(divergence)) == approx(expected)


def test_swapping_exchanges_each_constant_with_that_of_the_conjugate():
    one = bounds.Constants(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert astuple(one.swap()) == (2.0, 1.0, 4.0, 3.0, 6.0, 5.0)
    assert one.finite
    for place in range(6):
        values = [*range(6)]
        values[place] = np.inf
        assert not bounds.Constants(*values).finite


T = np.exp(-np.linspace(0.5, 2.0, 100_001))
LE_CAM_SLOPE = (1 - T) * (T + 3) / (2 * (T + 1) ** 2)  # |f′|


@pytest.mark.parametrize(
    ("divergence", "first", "second"),
    [
        (JS, 0.5, 0.25),  # f′ = log(2t/(1 + t))/2 grows like log(1/t)/2; t f″/2 = 1/(4(1 + t)), most at 0
        (LE_CAM, (LE_CAM_SLOPE / np.maximum(1, -np.log(T))).max(), 8 / 27),  # t f″/2 = 2t/(1 + t)³, most at 1/2
        (KL_INTEGRAL, 1.0, None),
    ],
)
def test_sharp_constants_by_hand(divergence, first, second):
    found = bounds.constants(divergence)
    for one, expected in ((found.first, first), (found.second, second)):
        assert expected is None or expected <= one <= expected * (1 + 3e-5)  # rounded up
    assert found.conjugate_first == approx(found.first, rel=1e-6)  # all three are symmetric
    assert found.conjugate_second == approx(found.second, rel=1e-6)


@pytest.mark.parametrize(
    ("divergence", "first", "second"),
    [
        (HELLINGER2, np.inf, np.inf),  # f′ grows like 1/√t, and t f″/2 = 1/(4√t) towards 0 alone
        (CHI2, 2 - 2 / np.e, np.inf),  # |f′| at 1/e; t f″/2 = t towards infinity alone
        (KL, 1.0, 0.5),
    ],
)
def test_poles_at_either_end_have_no_constants(divergence, first, second):
    found = bounds.constants(divergence)
    assert (found.first, found.second) == (approx(first, rel=1e-4), approx(second, rel=1e-4))


def test_a_narrow_peak_of_the_curvature_is_resolved():
    """f′ = (tⁿ − 1)/(tⁿ + 1), so that t f″/2 = n tⁿ/(tⁿ + 1)², most at 1: n/4."""
    from scipy.special import hyp2f1

    def peak(t, n=12):
        return t - 2 * t * hyp2f1(1, 1 / n, 1 + 1 / n, -(t**n)) - (1 - 2 * hyp2f1(1, 1 / n, 1 + 1 / n, -1.0))

    found = bounds.constants(Divergence("peak", peak))
    assert (found.first, found.second) == (approx(1.0, rel=1e-4), approx(3.0, rel=1e-3))
