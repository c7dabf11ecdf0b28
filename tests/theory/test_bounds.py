"""Bounds: lemmas, and theorems against simulated errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import (
    CHI2,
    CHI2_INTEGRAL,
    HELLINGER2,
    JS,
    KL,
    KL_INTEGRAL,
    LE_CAM,
    TV,
    InputError,
    Masses,
    bounds,
    interpolated,
    skew_js,
    smoothing,
)
from strategies import masses, simplex

BOUNDED = [JS, KL_INTEGRAL, LE_CAM, CHI2_INTEGRAL] + [
    make(lam)
    for lam in (0.05, 0.3, 0.5, 0.9)
    for make in (skew_js, lambda lam: interpolated(KL, lam), lambda lam: interpolated(CHI2, lam))
]


@pytest.mark.parametrize("divergence", [KL, CHI2, TV, HELLINGER2], ids=repr)
def test_divergences_outside_the_assumption_are_refused(divergence):
    message = rf"^`divergence` must have finite constants \(asmp:fdiv\), or no bound holds; got {divergence} with .*Use"
    with pytest.raises(InputError, match=message):
        bounds.statistical_bound(10, 100, divergence=divergence)


@given(st.integers(1, 30).flatmap(simplex), st.integers(3, 1000))
def test_the_lemmas_on_alpha_and_beta(p, n):
    # paper: lem:fdiv:l1-bound, lem:fdiv:expected-missing-mass
    k = int((p > 0).sum())
    assert bounds.alpha(p, n) <= np.sqrt(k / n) * (1 + 1e-12)
    assert bounds.beta(p, n) <= k * np.log(n) / n * (1 + 1e-12)
    assert bounds.gamma(p, n, 0.5) <= 0.5 * len(p) / (n + 0.5 * len(p)) * 2 * (1 - 1 / len(p)) + 1e-12


@given(st.floats(1e-12, 1 - 1e-12), st.integers(3, 10**6))
def test_the_technical_lemmas(x, n):  # paper: lem:techn:missing-mass-1 and -2
    assert (1 - x) ** n * x * np.log(1 / x) <= np.log(n) / n
    assert (1 - x) ** n * x <= np.exp(-1) / n * (1 + 1e-9)  # the paper prints n + 1: erratum 12


def test_beta_is_the_expected_missing_mass():
    rng = np.random.default_rng(0)
    p, n = rng.dirichlet(np.ones(40) / 2), 30
    counts = rng.multinomial(n, p, size=40_000)
    missing = ((counts == 0) * p * np.maximum(1, -np.log(p))).sum(axis=1)
    assert bounds.beta(p, n) == approx(missing.mean(), rel=0.01)
    assert bounds.alpha(p, n) >= np.abs(counts / n - p).sum(axis=1).mean()


def zipf(k, r):
    weights = np.arange(1, k + 1.0) ** -r
    return weights / weights.sum()


@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("divergence", [KL_INTEGRAL, JS, LE_CAM, interpolated(KL, 0.3), skew_js(0.3)])
def test_the_theorems_bound_the_simulated_error(divergence, constant):
    # paper: thm:fdiv:consistency, thm:addb:fdiv:consistency
    rng = np.random.default_rng(1)
    for k, n in ((10, 50), (100, 100), (200, 2000)):
        p, q = zipf(k, 1), rng.dirichlet(np.ones(k) / 2)
        truth = divergence(Masses.from_histograms(p, q))
        counts = rng.multinomial(n, p, size=200), rng.multinomial(n, q, size=200)
        smooth = smoothing.empirical if constant == 0 else lambda c: smoothing.add_constant(c, constant)
        error = np.abs(divergence(Masses.from_histograms(*map(smooth, counts))) - truth).mean()
        options = {"divergence": divergence, "constant": constant}
        oracle = bounds.oracle_bound(p, q, n, **options)
        free = bounds.statistical_bound(k, n, **options)
        assert error <= oracle <= free * (1 + 1e-9)
        assert bounds.oracle_bound(p, q, n, 2 * n, **options) < oracle
        table = bounds.paper_constants(divergence)
        assert oracle <= bounds.oracle_bound(p, q, n, using=table, **options) * (1 + 1e-4)


@settings(max_examples=50)
@given(masses(most=30), st.integers(2, 20), st.sampled_from(BOUNDED))
def test_the_oracle_partition_keeps_the_quantisation_bound(pair, bins, divergence):
    # paper: thm:quant_error_fdiv
    labels = bounds.oracle_partition(pair, bins, divergence)
    assert labels.min() >= 0
    assert labels.max() < bins
    cells = [np.bincount(labels, side, minlength=bins) for side in (pair.p, pair.q)]
    lost = divergence(pair) - divergence(Masses.from_histograms(*cells))
    assert -1e-9 <= lost <= bounds.quantization_error(bins, divergence) + 1e-9


def test_suggested_bins_grow_like_the_cube_root():  # paper: thm:est_error_ray
    few, many = bounds.suggested_bins(10**4), bounds.suggested_bins(10**7)
    assert many / few == approx(10, rel=0.6)
    best = bounds.total_error(few, 10**4)
    assert all(best <= bounds.total_error(k, 10**4) for k in range(2, 200))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.alpha([0.5, 0.6], 10), r"`p` must sum to 1"),
        (lambda: bounds.alpha([0.5, 0.5], 0), r"`n` must be an integer of at least 1; got 0"),
        (lambda: bounds.statistical_bound(0, 10), r"`bins` must be an integer of at least 1; got 0"),
        (lambda: bounds.statistical_bound(10, 2), r"`n` must be an integer of at least 3; got 2"),
        (lambda: bounds.gamma([0.5, 0.5], 10, -1.0), r"`constant` must be 0 .* or a positive number; got -1"),
        (lambda: bounds.quantization_error(1), r"`bins` must be an integer of at least 2; got 1"),
        (
            lambda: bounds.oracle_partition(Masses.from_log_ratio([0.0], [0.0]), 4),
            r"`masses` must come from one pair of histograms; got a batch, a likelihood ratio or an extrapolation",
        ),
        (
            lambda: bounds.oracle_partition(Masses.from_histograms([1.0], [1.0]), 4, KL),
            r"`divergence` must have a finite f\(0\) \+ f\*\(0\), or no partition .* got KL\. Use KL_INTEGRAL",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
