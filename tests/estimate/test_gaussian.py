"""The Gaussian fit: the closed form, quadrature, more dimensions than samples, exact symmetry."""

import re
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx
from sklearn.covariance import ledoit_wolf_shrinkage

from estimate_truths import HUMPS, SHIFTED, SHIFTED_WIDER, TILTED, errors, gaussian_kl
from mallow import KL, InputError, area, integral
from mallow.estimate import Gaussian, Reduce

PLAIN = Gaussian(reduce=None)


def assert_equal(first, second):
    assert np.array_equal(first.p, second.p)
    assert np.array_equal(first.q, second.q)


# --- near the truth


@pytest.mark.parametrize("pair", [SHIFTED, SHIFTED_WIDER], ids=["shifted", "wider"])
def test_it_comes_near_the_truth(pair):
    few, many = errors(PLAIN, pair, 100, seeds=6), errors(PLAIN, pair, 10_000, seeds=3)
    assert (many < few * 0.5).all()
    assert (many < 0.01).all()


def test_the_fit_is_that_of_the_paper_without_shrinkage():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 3)) * [1, 2, 3], rng.normal(0.5, 1.5, size=(80, 3))
    fit = Gaussian(shrinkage=0.0, reduce=None).prepare(x, y)
    covariances = [root @ root.T for root in fit.roots]
    fitted = gaussian_kl(fit.means[0], covariances[0], fit.means[1], covariances[1])
    expected = gaussian_kl(x.mean(axis=0), np.cov(x.T), y.mean(axis=0), np.cov(y.T))
    back = gaussian_kl(y.mean(axis=0), np.cov(y.T), x.mean(axis=0), np.cov(x.T))
    assert fitted == approx(back if fit.flipped else expected, rel=1e-5)  # rows lie on a grid of 20 bits


def test_the_published_form_averages_over_the_draws_of_the_other_side():  # paper: eq:parametric_est_fdiv:monte-carlo
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(900, 2)), rng.normal([0.3, 0.1], [0.9, 1.1], size=(900, 2))
    masses = Gaussian(samples=20_000, shrinkage=0, reduce=None, pooled=False)(x, y)
    assert masses.split == 20_000
    assert masses.q[: masses.split] == approx(1 / 20_000)  # the draws from Q
    assert masses.p[masses.split :] == approx(1 / 20_000)
    fits = [(side.mean(axis=0), np.cov(side.T)) for side in (x, y)]
    assert KL(masses) == approx(gaussian_kl(*fits[0], *fits[1]), rel=0.1)
    assert KL(masses.swap()) == approx(gaussian_kl(*fits[1], *fits[0]), rel=0.1)


def test_draws_of_the_model_alone_miss_the_mass_of_the_reference():
    rng = np.random.default_rng(13)
    x, y = rng.normal(size=(2000, 30)), rng.normal(0.0, 2.0, size=(2000, 30))
    both, published = (Gaussian(shrinkage=0, reduce=None, pooled=pooled)(x, y) for pooled in (True, False))
    assert area(both, scale=1) < 0.52 < 0.55 < area(published, scale=1)


def test_a_draw_that_carries_the_cost_is_a_caveat():
    rng = np.random.default_rng(14)
    x, y = rng.normal(size=(500, 1)), rng.normal(3.0, 1.0, size=(500, 1))
    estimator = Gaussian(samples=500, shrinkage=0, reduce=None, pooled=False)
    prepared = estimator.prepare(x, y)
    found = [estimator.masses(prepared, seed).caveats for seed in range(60)]
    assert any(found)
    assert all(str(caveat).endswith("Use pooled=True or fewer dimensions.") for caveats in found for caveat in caveats)
    with_both = replace(estimator, pooled=True)
    assert not any(with_both.masses(prepared, seed).caveats for seed in range(60))


def test_what_is_not_gaussian_is_measured_wrongly():  # paper: the example of sec:a:parametric
    assert errors(PLAIN, HUMPS, 4000, seeds=1)[1] > 0.02
    assert errors(PLAIN, TILTED, 4000, seeds=1)[1] > 0.015


# --- shrinkage


def test_shrinkage_lowers_the_gap_between_samples_of_one_gaussian():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 300, 30)) / np.sqrt(np.arange(1, 31))
    none, chosen = integral(Gaussian(shrinkage=0.0, reduce=None)(x, y)), integral(PLAIN(x, y))
    assert chosen < 0.1 * none


def test_shrinkage_goes_away_with_samples():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(20_000, 4)), rng.normal(size=(20_000, 4)) * [2.0, 0.5, 1.0, 1.0]
    assert integral(PLAIN(x, y)) == approx(integral(Gaussian(shrinkage=0.0, reduce=None)(x, y)), rel=0.01)


def test_full_shrinkage_leaves_the_shared_covariance():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(500, 2)), rng.normal(size=(500, 2)) * [2.0, 0.5]
    fit = Gaussian(shrinkage=1.0, reduce=None).prepare(x, y)
    assert fit.roots[0] == approx(np.eye(2) * fit.roots[0][0, 0])


def test_more_dimensions_than_samples():
    rng = np.random.default_rng(5)
    x, y, far = rng.normal(size=(3, 40, 200)) / np.sqrt(np.arange(1, 201))
    far[:, 0] += 5
    near = PLAIN(x, y)
    assert np.isfinite(near.p).all()
    assert integral(near) < integral(PLAIN(x, far)) < 1 + 1e-9
    with pytest.raises(
        InputError, match=re.escape("The covariance of a sample of 40 points in 79 dimensions is singular")
    ):
        Gaussian(shrinkage=0.0, reduce=None)(x, y)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0, None])
@pytest.mark.parametrize("d", [1, 4])
def test_shrinkage_is_that_of_the_definition(shrinkage, d):
    """Towards the covariance within both samples, times a factor that keeps the trace where it is the identity."""
    rng = np.random.default_rng(15)
    x, y = rng.normal(size=(25, d)) * np.arange(1, d + 1), rng.normal(0.5, 1.5, size=(40, d))
    within = [side - side.mean(axis=0) for side in (x, y)]
    pooled = np.concatenate(within)
    shared = pooled.T @ pooled / (65 - 2)
    if shrinkage is None:
        share = ledoit_wolf_shrinkage(pooled, assume_centered=True)
        shared = (1 - share) * shared + share * np.trace(shared) / d * np.eye(d)
    root = np.linalg.cholesky(shared)
    covariances = []
    for rest in within:
        white = np.linalg.solve(root, rest.T).T
        own = np.atleast_2d(np.cov(white.T))
        share = ledoit_wolf_shrinkage(white, assume_centered=True) if shrinkage is None else shrinkage
        covariances.append(root @ ((1 - share) * own + share * np.trace(own) / d * np.eye(d)) @ root.T)
    fit = Gaussian(shrinkage=shrinkage, reduce=None).prepare(x, y)
    fitted = gaussian_kl(*(part for side in zip(fit.means, (r @ r.T for r in fit.roots), strict=True) for part in side))
    sides = [(x.mean(axis=0), covariances[0]), (y.mean(axis=0), covariances[1])]
    assert fitted == approx(gaussian_kl(*sides[fit.flipped], *sides[not fit.flipped]), rel=1e-4)


# --- exactly symmetric and order-free


PUBLISHED = Gaussian(shrinkage=0, pooled=False)


@pytest.mark.parametrize(
    "estimator",
    [PLAIN, Gaussian(), Gaussian(shrinkage=0.1), PUBLISHED],
    ids=["plain", "default", "fixed", "published"],
)
def test_swapping_and_shuffling_change_nothing(estimator):
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(90, 5)), rng.normal(0.3, 1.2, size=(60, 5))
    masses = estimator(x, y, rng=1)
    assert_equal(estimator(y, x, rng=1), masses.swap())
    assert_equal(estimator(x[::-1], y[rng.permutation(60)], rng=1), masses)


def test_a_seed_is_a_set_of_draws():
    x, y = SHIFTED.draw(100, 100, np.random.default_rng(7))
    prepared = PLAIN.prepare(x, y)
    assert_equal(PLAIN.masses(prepared, 3), PLAIN(x, y, rng=np.random.default_rng(3)))
    assert not np.array_equal(PLAIN.masses(prepared, 3).p, PLAIN.masses(prepared, 4).p)
    assert len(Gaussian(samples=33).masses(prepared, 0).p) == 66


# --- edges


def test_a_sample_cannot_be_told_from_itself():
    x = np.random.default_rng(8).normal(size=(100, 20))
    for estimator in (PLAIN, Gaussian()):
        assert area(estimator(x, x), scale=1) == approx(1.0, abs=1e-12)
    assert area(PLAIN(np.ones((5, 3)), np.ones((7, 3))), scale=1) == approx(1.0, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-30, 1e30, 1e200])
def test_units_and_constant_or_repeated_features_do_not_matter(unit):
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(300, 2)), rng.normal(0.5, 1.0, size=(300, 2))
    more = [np.concatenate([side, side[:, :1], np.full((300, 1), 7.0)], axis=1) * unit for side in (x, y)]
    fixed = Gaussian(shrinkage=0.0, reduce=None)
    assert integral(fixed(*more)) == approx(integral(fixed(x, y)), rel=0.05)


def test_a_sample_of_one_point_repeated():
    rng = np.random.default_rng(10)
    x, point = rng.normal(size=(50, 2)), np.full((50, 2), 0.5)
    assert integral(PLAIN(x, point)) == approx(1.0, abs=1e-3)
    assert integral(PLAIN(point, point + 1)) == approx(1.0, abs=1e-9)
    with pytest.raises(InputError, match=re.escape("is singular with shrinkage=0.5")):
        Gaussian(shrinkage=0.5, reduce=None)(x, point)


def test_its_repr_is_its_signature():
    expected = "Gaussian(samples=10000, shrinkage=None, reduce=Reduce(dimension=10, normalise=True))"
    assert repr(Gaussian()) == expected
    assert repr(Gaussian(shrinkage=0, pooled=False)) == (
        "Gaussian(samples=10000, shrinkage=0, reduce=Reduce(dimension=10, normalise=True), pooled=False)"
    )
    assert Gaussian.scale == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(samples=1), "`samples` must be an integer of at least 2; got 1."),
        (lambda: Gaussian(shrinkage=1.5), "`shrinkage` must be None or a number from 0 (none) to 1 (full); got 1.5."),
        (
            lambda: Gaussian(shrinkage="oas"),
            "`shrinkage` must be None or a number from 0 (none) to 1 (full); got 'oas'.",
        ),
        (lambda: Gaussian()(np.zeros((4, 1)), np.ones((9, 2))), "features of the same width; got 1 and 2."),
        (lambda: Gaussian()(np.full((4, 1), np.nan), np.ones((9, 1))), "`reference` must be finite"),
        (lambda: Gaussian(reduce=Reduce())(np.zeros((4, 1)), np.ones((1, 1))), "`model` must hold at least 2 samples"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make()
