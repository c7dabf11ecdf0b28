"""Propositions on generators and divergences (paper: ssec:info-div, sec:mauve:curve)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import CHI2, HELLINGER2, JS, KL, LE_CAM, TV, Masses, conjugate, interpolated, skew_js
from mallow.theory import CHI2_INTEGRAL, KL_INTEGRAL
from strategies import NAMED, divergences, masses, mixing, simplex_pairs

T = np.logspace(-6, 6, 400)
EVERY = [*NAMED, CHI2_INTEGRAL, conjugate(KL), conjugate(CHI2), interpolated(TV, 0.4)]


@pytest.mark.parametrize("divergence", EVERY, ids=repr)
def test_a_generator_is_convex_non_negative_and_zero_at_one(divergence):  # paper: def:fdiv
    values = divergence.f(T)
    slopes = np.diff(values) / np.diff(T)
    assert (values >= 0).all()
    assert divergence.f(np.array([1.0]))[0] == 0
    assert (np.diff(slopes) >= -1e-9 * (1 + np.abs(slopes[1:]))).all()


@pytest.mark.parametrize("divergence", EVERY, ids=repr)
def test_the_limits_are_those_of_the_generator(divergence):  # paper: def:fdiv, conventions
    def settles(values, limit):
        if np.isinf(limit):
            return values[1] > 1.2 * values[0]
        return values[1] == approx(limit, rel=1e-4, abs=1e-9)

    assert settles(divergence.f(np.array([1e-8, 1e-12])), divergence.at_zero)
    far = np.array([1e8, 1e12])
    assert settles(divergence.f(far) / far, divergence.conjugate_at_zero)


@given(divergences, st.floats(1e-6, 1e6))
def test_the_conjugate_of_the_conjugate_is_the_generator(divergence, t):
    t = np.array([t])
    twice = conjugate(conjugate(divergence))
    assert conjugate(divergence).f(t) == approx(t * divergence.f(1 / t), rel=1e-9, abs=1e-12)
    assert twice.f(t) == approx(divergence.f(t), rel=1e-12, abs=1e-15)


@given(divergences, masses())
def test_the_conjugate_exchanges_p_and_q(divergence, pair):
    assert conjugate(divergence)(pair) == approx(divergence(pair.swap()), rel=1e-12)


@given(divergences, masses(), mixing)
def test_interpolation_is_the_divergence_from_the_mixture(divergence, pair, lam):
    # paper: property:frontier-as-f-div
    mix = Masses.from_histograms(pair.p, lam * pair.p + (1 - lam) * pair.q)
    assert interpolated(divergence, lam)(pair) == approx(divergence(mix), rel=1e-7, abs=1e-13)


@given(divergences, mixing, st.floats(1e-6, 1e6))
def test_the_interpolated_generator_is_the_printed_one(divergence, lam, t):
    # paper: eq:fdiv-linear-comb
    t = np.array([t])
    weight = lam * t + 1 - lam
    printed = weight * divergence.f(t / weight)
    assert interpolated(divergence, lam).f(t) == approx(printed, rel=1e-7, abs=1e-13)


@given(divergences, masses(), st.randoms())
def test_merging_atoms_never_raises_a_divergence(divergence, pair, random):
    cut = random.randint(0, len(pair.p))
    merged = [np.append(side[:cut], side[cut:].sum()) for side in (pair.p, pair.q)]
    coarse, fine = divergence(Masses.from_histograms(*merged)), divergence(pair)
    assert coarse <= fine * (1 + 1e-12) + 1e-15


@given(simplex_pairs())
def test_known_divergences_equal_their_textbook_formulas(pair):
    p, q = pair
    pair_masses = Masses.from_histograms(p, q)
    assert TV(pair_masses) == approx(np.abs(p - q).sum() / 2, abs=1e-12)
    assert HELLINGER2(pair_masses) == approx(((np.sqrt(p) - np.sqrt(q)) ** 2).sum(), abs=1e-12)
    seen = p > 0
    with np.errstate(divide="ignore"):
        assert KL(pair_masses) == approx((p[seen] * np.log(p[seen] / q[seen])).sum(), abs=1e-10, rel=1e-10)
        both = (p > 0) | (q > 0)
        assert CHI2(pair_masses) == approx(((p - q)[both] ** 2 / q[both]).sum(), abs=1e-12, rel=1e-10)
        assert LE_CAM(pair_masses) == approx(((p - q)[both] ** 2 / (p + q)[both]).sum() / 2, abs=1e-12)


@given(masses(), mixing)
def test_skew_js_is_the_weighted_sum_of_both_costs(pair, lam):  # paper: ex:f_div c
    expected = lam * interpolated(KL, lam)(pair) + (1 - lam) * interpolated(KL, 1 - lam)(pair.swap())
    assert skew_js(lam)(pair) == approx(expected, rel=1e-9, abs=1e-15)


@given(masses())
def test_symmetric_divergences_are_symmetric_and_bounded(pair):
    most = {TV: 1, HELLINGER2: 2, JS: np.log(2), LE_CAM: 1, KL_INTEGRAL: 1, CHI2_INTEGRAL: 2}
    for divergence, bound in most.items():
        assert divergence(pair) == approx(divergence(pair.swap()), rel=1e-12)
        assert 0 <= divergence(pair) <= bound * (1 + 1e-12)


def test_infinite_divergences_are_infinite():
    pair = Masses.from_histograms([0.5, 0.5], [1.0, 0.0])
    assert KL(pair) == np.inf
    assert CHI2(pair) == np.inf
    assert conjugate(KL)(pair) == KL(pair.swap()) == approx(np.log(2))
    assert conjugate(KL)(pair.swap()) == np.inf
