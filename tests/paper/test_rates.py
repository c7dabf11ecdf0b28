"""Bounds that hold for all λ at once, and the rate of nearest neighbours on noised embeddings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from estimate_truths import SHIFTED_WIDER, Mixture, Pair
from mallow import InputError, Masses, Neighbors, frontier, integral
from mallow.theory import CHI2, JS, KL, interpolated
from mallow.theory.bounds import (
    paper_constants,
    statistical_bound,
    suggested_neighbors,
    uniform_bound,
    uniform_statistical_bound,
)


@pytest.mark.parametrize("divergence", [KL, CHI2], ids=["KL", "χ²"])
def test_the_uniform_bounds_hold_for_all_lambda_at_once(divergence):  # paper: prop:consis_df
    rng = np.random.default_rng(0)
    for bins, n, least in ((5, 200, 0.1), (40, 1000, 0.25), (40, 1000, 0.02)):
        p, q = rng.dirichlet(np.ones(bins), size=2)
        lam = np.linspace(least, 1 - least, 41)
        truth = frontier(Masses.from_histograms(p, q), divergence, grid=lam)
        draws = [rng.multinomial(n, side, size=100) / n for side in (p, q)]
        curve = frontier(Masses.from_histograms(*draws), divergence, grid=lam)
        error = np.abs(curve.p_to_mix - truth.p_to_mix) + np.abs(curve.q_to_mix - truth.q_to_mix)
        bound = uniform_bound(p, q, n, least_lam=least, divergence=divergence)
        assert error.max(axis=-1).mean() < bound
        assert bound < uniform_statistical_bound(bins, n, least_lam=least, divergence=divergence)
        middle = paper_constants(interpolated(divergence, 0.5))
        assert error[:, 20].mean() < 2 * statistical_bound(bins, n, using=middle)


@given(divergence=st.sampled_from([KL, CHI2]), least=st.floats(1e-3, 0.49), inside=st.floats(0, 1))
@settings(max_examples=50)
def test_the_constants_are_largest_at_the_least_lambda(divergence, least, inside):  # paper: proof of prop:consis_df
    lam = least + inside * (1 - 2 * least)
    worst, other = (paper_constants(interpolated(divergence, each)) for each in (least, lam))
    for name in ("at_zero", "conjugate_at_zero", "first", "conjugate_first", "second", "conjugate_second"):
        assert getattr(other, name) <= getattr(worst, name) * (1 + 1e-12)


@given(bins=st.integers(1, 100), n=st.integers(3, 10**5), least=st.floats(1e-3, 0.49))
def test_the_distribution_free_bound_is_above_that_of_known_histograms(bins, n, least):
    p, q = np.random.default_rng([bins, n]).dirichlet(np.ones(bins), size=2)
    for divergence in (KL, CHI2):
        known = uniform_bound(p, q, n, least_lam=least, divergence=divergence)
        assert known <= uniform_statistical_bound(bins, n, least_lam=least, divergence=divergence) * (1 + 1e-12)


def test_the_uniform_bound_falls_with_n_and_grows_like_one_over_lambda():
    p, q = np.random.default_rng(1).dirichlet(np.ones(20), size=2)
    assert uniform_bound(p, q, 4000) < uniform_bound(p, q, 1000) < uniform_bound(p, q, 1000, least_lam=0.05)
    ratio = uniform_bound(p, q, 1000, least_lam=0.001) / uniform_bound(p, q, 1000, least_lam=0.002)
    assert ratio == approx(2.0, abs=0.05)
    few, many = (uniform_statistical_bound(20, 1000, least_lam=lam, divergence=CHI2) for lam in (0.002, 0.001))
    assert many / few == approx(4.0, abs=0.05)  # erratum 21: like 1/λ₀²
    assert uniform_bound(p, q, 500, 900) == approx(uniform_bound(q, p, 900, 500))


@given(n=st.integers(10, 10**6), d=st.integers(1, 50), gamma=st.floats(0.1, 1.0))
def test_the_suggested_neighbours_balance_both_terms(n, d, gamma):  # paper: thm:mauve:knn
    def error(k):
        return (k / n) ** (gamma / d) + 1 / k

    k = n ** (gamma / (d + gamma))
    assert (k / n) ** (gamma / d) == approx(1 / k)  # erratum 17: the rate is n^(−γ/(d+γ)), not its square
    assert 1 / k == approx(n ** (-gamma / (d + gamma)))
    suggested = suggested_neighbors(n, d, smoothness=gamma)
    assert suggested == max(2, int(np.ceil(k)))
    assert error(suggested) <= 2 * min(error(other) for other in np.geomspace(1, n, 30)) + 1e-9


def test_noise_never_raises_a_divergence():  # paper: the property before asmp:knn-mauve
    rng = np.random.default_rng(2)
    x, y = SHIFTED_WIDER.draw(900, 900, rng)
    gaps = [float(integral(Neighbors(reduce=None, noise=noise)(x, y, rng=3))) for noise in (0.0, 1.0, 4.0)]
    assert gaps[0] > gaps[1] > gaps[2]

    def blurred(side):
        return Mixture(tuple((weight, mean, float(np.hypot(spread, 1.0))) for weight, mean, spread in side.components))

    truth = Pair(blurred(SHIFTED_WIDER.p), blurred(SHIFTED_WIDER.q)).truth
    assert gaps[1] == approx(float(integral(truth)), abs=0.03)


def test_noise_is_drawn_anew_in_every_repeat_whatever_the_order():
    x, y = SHIFTED_WIDER.draw(80, 60, np.random.default_rng(4))
    estimator = Neighbors(noise=0.3)
    first = integral(estimator(x, y, rng=1))
    assert first == integral(estimator(x[::-1], y[::-1], rng=1))
    assert first == approx(float(integral(estimator(y, x, rng=1))), abs=1e-12)
    assert first != integral(estimator(x, y, rng=2))
    assert not estimator.deterministic
    assert repr(estimator).endswith("pooled=True, noise=0.3)")
    same = np.repeat(x[:5], 20, axis=0)  # many copies: with noise, no two are at one place
    assert integral(estimator(same, same.copy(), rng=1)) < 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: uniform_bound([1.0], [1.0], 100, least_lam=0.5),
            r"`least_lam` must be above 0 and below 0\.5; got 0\.5\.",
        ),
        (
            lambda: uniform_statistical_bound(5, 100, least_lam=0),
            r"`least_lam` must be above 0 and below 0\.5; got 0\.",
        ),
        (
            lambda: uniform_statistical_bound(5, 100, divergence=JS),
            r"`divergence` must be KL or CHI2, whose interpolations have constants; got JS\.",
        ),
        (lambda: suggested_neighbors(10, 0), r"`dimension` must be an integer of at least 1; got 0\."),
        (lambda: suggested_neighbors(10, 2, smoothness=1.5), r"`smoothness` must be above 0 and at most 1; got 1\.5\."),
        (lambda: Neighbors(noise=-1.0), r"`noise` must be a standard deviation, 0 or more; got -1\.0\."),
        (lambda: Neighbors(noise=float("nan")), r"`noise` must be a standard deviation, 0 or more; got nan\."),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
