"""Bounds: lemmas, and theorems against simulated errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import CHI2, HELLINGER2, JS, KL, LE_CAM, TV, InputError, Masses, interpolated, skew_js, smoothing
from mallow.theory import CHI2_INTEGRAL, KL_INTEGRAL, bounds
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


# --- the formulas of the paper, written out


P, Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.2, 0.3, 0.4])
C = bounds.Constants(0.5, 0.7, 1.5, 2.5, 0.3, 0.9)


def test_alpha_beta_and_gamma_are_their_sums():
    assert bounds.alpha(P, 10) == approx(sum(np.sqrt(p / 10) for p in P))
    positive = P[P > 0]
    assert bounds.beta(P, 10) == approx(sum((1 - p) ** 10 * p * max(1.0, np.log(1 / p)) for p in positive))
    assert bounds.gamma(P, 10, 2.0) == approx(8 / 18 * sum(abs(p - 0.25) for p in P))
    assert bounds.gamma(P, 10) == bounds.gamma(P, 10, 0.5) == approx(2 / 12 * 0.6)
    batch = np.stack([P, Q])
    for function in (bounds.alpha, bounds.beta, bounds.gamma):
        assert function(batch, 7) == approx([function(P, 7), function(Q, 7)])


def test_the_distribution_free_bound_is_that_of_the_theorem():
    # paper: eq:fdiv:stat_error, eq:addb:fdiv:stat_error
    slope, offset = 1.5 + 2.5, max(0.3, 0.7) + max(0.9, 0.5)
    expected = (slope * np.log(100) + offset) * (np.sqrt(20 / 100) + 20 / 100)
    assert bounds.statistical_bound(20, 100, using=C) == approx(expected)
    b = 0.5
    expected = (slope * np.log(100 / b + 20) + offset) * (np.sqrt(20 * 100) + 2 * b * 19) / (100 + 20 * b)
    assert bounds.statistical_bound(20, 100, constant=b, using=C) == approx(expected)


def test_the_oracle_bound_is_that_of_the_theorem():
    # paper: eq:fdiv:stat_error_oracle, eq:addb:fdiv:stat_error_oracle
    n, m, b = 50, 80, 0.5
    sides = [(P, n, 1.5, max(0.7, 0.3)), (Q, m, 2.5, max(0.5, 0.9))]
    plain = sum(
        (first * np.log(size) + offset) * bounds.alpha(side, size) + (first + offset) * bounds.beta(side, size)
        for side, size, first, offset in sides
    )
    assert bounds.oracle_bound(P, Q, n, m, using=C) == approx(plain)
    smooth = sum(
        (size / (size + 4 * b) * bounds.alpha(side, size) + bounds.gamma(side, size, b))
        * (first * np.log(size / b + 4) + offset)
        for side, size, first, offset in sides
    )
    assert bounds.oracle_bound(P, Q, n, m, constant=b, using=C) == approx(smooth)
    assert bounds.oracle_bound(P, Q, n, using=C) == bounds.oracle_bound(P, Q, n, n, using=C)
    assert bounds.oracle_bound(P, Q, 3, 3, using=C) > 0


def test_errors_of_partitions_and_their_sum():
    assert bounds.quantization_error(10, LE_CAM) == approx(1 / 5)
    assert bounds.quantization_error(11, LE_CAM) == approx(1 / 5)  # an odd cell helps nobody
    assert bounds.quantization_error(2) == approx(1.0)
    expected = bounds.statistical_bound(10, 100, divergence=JS, using=C) + bounds.quantization_error(10, JS)
    assert bounds.total_error(10, 100, divergence=JS, using=C) == approx(expected)


@pytest.mark.parametrize("n", [3, 100, 5000])
def test_no_other_even_number_of_bins_has_a_smaller_error(n):
    best = bounds.suggested_bins(n, divergence=LE_CAM)
    errors = {k: bounds.total_error(k, n, divergence=LE_CAM) for k in range(2, 400, 2)}
    assert best == min(errors, key=errors.get)
    assert bounds.suggested_bins(n, using=C) == min(range(2, 400, 2), key=lambda k: bounds.total_error(k, n, using=C))


@pytest.mark.parametrize(
    ("n", "dimension", "smoothness", "expected"),
    [(1, 3, 1.0, 2), (10_000, 1, 1.0, 100), (10_000, 3, 1.0, 10), (10_000, 1, 0.5, 22), (1_000_000, 50, 1.0, 2)],
)
def test_the_suggested_neighbours_are_a_power_of_n(n, dimension, smoothness, expected):
    assert bounds.suggested_neighbors(n, dimension, smoothness=smoothness) == expected


@pytest.mark.parametrize("smoothness", [0.0, -1.0, 1.01, float("nan")])
def test_other_smoothness_is_refused(smoothness):
    with pytest.raises(InputError, match="`smoothness` must be above 0 and at most 1; got"):
        bounds.suggested_neighbors(10, 1, smoothness=smoothness)


def test_the_oracle_partition_has_level_sets_on_both_sides():
    p = np.array([0.0, 0.05, 0.1, 0.3, 0.35, 0.2, 0.0])
    q = np.array([0.2, 0.2, 0.1, 0.2, 0.05, 0.0, 0.25])
    labels = bounds.oracle_partition(Masses.from_histograms(p, q), 8, LE_CAM)
    # f(p/q)/f(0) = (1 − r)²/(1 + r) with r = p/q, or q/p where p > q: 1, 0.45, 0, 0.067, 0.64, 1, 1.
    assert labels.tolist() == [3, 1, 0, 4, 6, 7, 3]
    assert bounds.oracle_partition(Masses.from_histograms(p, q), 9, LE_CAM).tolist() == labels.tolist()
    assert bounds.oracle_partition(Masses.from_histograms(p, q), 2, LE_CAM).tolist() == [0, 0, 0, 1, 1, 1, 0]
    empty = Masses.from_histograms([1.0, 0.0], [1.0, 0.0])
    assert bounds.oracle_partition(empty, 4).tolist() == [0, 0]  # an atom without mass is anywhere
    with pytest.raises(InputError, match="`masses` must come from one pair of histograms; got a batch"):
        bounds.oracle_partition(Masses.from_histograms([p, p], [q, q]), 4)


@pytest.mark.parametrize("least_lam", [0.0, 0.5, -0.1, 0.7])
def test_the_truncation_lies_below_one_half(least_lam):
    with pytest.raises(InputError, match=r"`least_lam` must be above 0 and below 0\.5; got"):
        bounds.uniform_bound(P, Q, 10, least_lam=least_lam)


def test_the_uniform_bound_adds_both_costs():
    worst = bounds.paper_constants(interpolated(KL, 0.2))
    expected = bounds.oracle_bound(P, Q, 40, 60, using=worst) + bounds.oracle_bound(Q, P, 60, 40, using=worst)
    assert bounds.uniform_bound(P, Q, 40, 60, least_lam=0.2) == approx(expected)
    assert bounds.uniform_bound(P, Q, 40, least_lam=0.2) == bounds.uniform_bound(P, Q, 40, 40, least_lam=0.2)
    assert bounds.uniform_bound(P, Q, 40) == bounds.uniform_bound(P, Q, 40, least_lam=0.1)


@pytest.mark.parametrize("value", [-0.1, float("inf"), float("nan")])
def test_other_smoothing_constants_are_refused(value):
    with pytest.raises(InputError, match=r"`constant` must be 0 \(no smoothing\) or a positive number; got"):
        bounds.statistical_bound(10, 100, constant=value)
