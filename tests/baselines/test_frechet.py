"""Fréchet distance: the definition by scipy, closed forms, exact arithmetic, limits."""

import math

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from baselines.feature_samples import clouds, normal, ordinary
from mallow.baselines import Moments, frechet_distance
from mallow.errors import EstimateWarning, InputError


def by_matrix_root(x, y):
    """The definition, with scipy's matrix root."""
    a, b = (np.atleast_2d(np.cov(side.T)) for side in (x, y))
    shift = x.mean(axis=0) - y.mean(axis=0)
    return shift @ shift + np.trace(a + b) - 2 * np.trace(scipy.linalg.sqrtm(a @ b)).real


@pytest.mark.parametrize(("n", "m", "d"), [(500, 300, 20), (60, 200, 50), (5000, 4000, 3)])
def test_it_equals_the_definition_by_the_matrix_root(n, m, d):
    mix = normal(d, d, seed=9)
    x, y = normal(n, d) @ mix, normal(m, d, mean=0.3, scale=1.5, seed=1)
    assert frechet_distance(x, y) == approx(by_matrix_root(x, y), rel=1e-9)


@given(pair=clouds(ordinary))
def test_in_one_dimension_it_has_a_closed_form(pair):
    x, y = (side[:, 0] for side in pair)
    expected = (x.mean() - y.mean()) ** 2 + (x.std(ddof=1) - y.std(ddof=1)) ** 2
    assert frechet_distance(x, y) == approx(expected, rel=1e-9, abs=1e-8)


@given(pair=clouds(ordinary), seed=st.integers(0, 9))
def test_it_is_symmetric_bounded_below_by_the_means_and_invariant_under_rotation(pair, seed):
    x, y = pair
    distance = frechet_distance(x, y)
    assert distance == approx(frechet_distance(y, x), rel=1e-9, abs=1e-7)
    assert distance >= ((x.mean(axis=0) - y.mean(axis=0)) ** 2).sum() * (1 - 1e-9) - 1e-7
    rotation = scipy.linalg.qr(normal(x.shape[1], x.shape[1], seed=seed))[0]
    assert frechet_distance(x @ rotation + 3.0, y @ rotation + 3.0) == approx(distance, rel=1e-7, abs=1e-5)


@given(pair=clouds(ordinary))
def test_a_sample_has_distance_0_from_itself(pair):
    assert frechet_distance(pair[0], pair[0].copy()) == approx(0.0, abs=1e-9 * (1 + np.var(pair[0])))


def test_fewer_samples_than_features_by_exact_arithmetic():
    # 4 and 3 points in 6 dimensions, with 60 digits: tr(ΣΣ′)^½ is the sum of the roots of eigenvalues.
    x, y = np.round(normal(4, 6), 2), np.round(normal(3, 6, mean=1.0, seed=1), 2)
    with mpmath.workdps(60):

        def moments(side):
            rows = [[mpmath.mpf(repr(float(value))) for value in row] for row in side]
            mean = [mpmath.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
            centred = mpmath.matrix([[value - own for value, own in zip(row, mean, strict=True)] for row in rows])
            return mpmath.matrix(mean), centred.T * centred / (len(rows) - 1)

        (mean_x, cov_x), (mean_y, cov_y) = moments(x), moments(y)
        roots, vectors = mpmath.eigsy(cov_x)
        half = vectors * mpmath.diag([mpmath.sqrt(abs(value)) for value in roots]) * vectors.T
        shared = mpmath.eigsy(half * cov_y * half, eigvals_only=True)
        expected = mpmath.fsum((mean_x[i] - mean_y[i]) ** 2 + cov_x[i, i] + cov_y[i, i] for i in range(6))
        expected = float(expected - 2 * mpmath.fsum(mpmath.sqrt(abs(value)) for value in shared))
    with pytest.warns(
        EstimateWarning,
        match="^3 samples of 6 features have a singular covariance: the Fréchet distance is much larger than the distance ",
    ):
        assert frechet_distance(x, y) == approx(expected, rel=1e-12)
    with pytest.warns(EstimateWarning):
        assert frechet_distance(Moments.of(x), Moments.of(y)) == approx(expected, rel=1e-12)


def test_variances_that_differ_by_a_factor_of_a_million():
    # Covariances that commute give Σ (σ − σ′)²; the matrix root of the product loses half of the digits.
    basis = scipy.linalg.qr(normal(64, 6) - normal(64, 6).mean(axis=0), mode="economic")[0]
    basis -= basis.mean(axis=0)
    basis = scipy.linalg.qr(basis, mode="economic")[0] * math.sqrt(63)
    sigma, other = np.logspace(-3, 3, 6), np.logspace(3, -3, 6)
    assert frechet_distance(basis * sigma, basis * other) == approx(((sigma - other) ** 2).sum(), rel=1e-9)


def test_float32_features_keep_their_digits():
    x, y = (normal(3000, 8, mean=100.0, seed=seed).astype(np.float32) for seed in (0, 1))
    assert frechet_distance(x, y) == approx(by_matrix_root(x.astype(float), y.astype(float)), rel=1e-7)


@given(pair=clouds(ordinary), cut=st.integers(1, 7))
def test_moments_of_parts_merge_into_those_of_the_whole(pair, cut):
    x, y = pair
    merged = Moments.of(x[:cut]).merge(Moments.of(x[cut:]))
    whole = Moments.of(x)
    assert merged.n == whole.n == len(x)
    assert merged.mean == approx(whole.mean, rel=1e-12, abs=1e-10)
    assert whole.covariance == approx(np.atleast_2d(np.cov(x.T)), rel=1e-9, abs=1e-9)
    assert merged.covariance == approx(whole.covariance, rel=1e-9, abs=1e-9)
    assert frechet_distance(merged, y) == approx(frechet_distance(x, y), rel=1e-7, abs=1e-5)


def test_invalid_moments_are_refused():
    single = Moments.of([[1.0, 2.0]])
    assert single.n == 1
    assert (single.scatter == 0).all()
    with pytest.raises(InputError, match="A covariance needs at least 2 samples; got 1"):
        _ = single.covariance
    with pytest.raises(InputError, match="`reference` must hold at least 2 samples; got 1"):
        frechet_distance(single, normal(5, 2))
    with pytest.raises(InputError, match="same width; got 2 and 3"):
        frechet_distance(Moments.of(normal(5, 2)), normal(5, 3))
    with pytest.raises(InputError, match="`other` must have features of the same width, 2; got 3"):
        single.merge(Moments.of(normal(5, 3)))
    with pytest.raises(InputError, match="`points` must be finite"):
        Moments.of([[1.0, np.nan]])
    with pytest.raises(InputError, match=r"must have shapes \(d,\) and \(d, d\); got \(2,\) and \(3, 3\)"):
        Moments(5, np.zeros(2), np.zeros((3, 3)))
    with pytest.raises(InputError, match="`mean` and `scatter` must be finite"):
        Moments(5, np.zeros(2), np.full((2, 2), np.nan))
    with pytest.raises(InputError, match="`n` must be an integer of at least 1"):
        Moments(0, np.zeros(2), np.zeros((2, 2)))


def test_the_caveat_about_few_samples_is_a_value():
    distance, caveats = frechet_distance.quiet(normal(5, 6), normal(7, 6, seed=1))
    assert distance > 0
    assert [(caveat.kind, caveat.values) for caveat in caveats] == [("singular covariance", {"samples": 5, "width": 6})]
    assert frechet_distance.quiet(normal(7, 6), normal(7, 6, seed=1))[1] == ()
