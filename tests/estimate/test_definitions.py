"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import numpy as np
import pytest
from pytest import approx

from estimate_truths import SHIFTED, clustered_points, gaussian_kl
from mallow import area
from mallow.estimate import Gaussian, Product, Residual
from mallow.estimate._gaussian import Fit
from mallow.estimate._nearest import nearest_centres
from mallow.estimate._quantisers import lattice_vectors, occupied_bins
from mallow.estimate._row_order import orient

# --- gaussian


def kl(masses):
    return float((masses.p * np.log(masses.p / masses.q)).sum())


def random_pair(d, rng):
    means = 0.3 * rng.normal(size=(2, d))
    roots = np.eye(d) + 0.3 * np.tril(rng.normal(size=(2, d, d))) / np.sqrt(d)
    return means, roots


@pytest.mark.parametrize("d", [1, 3, 10])
def test_draws_agree_with_the_closed_form(d):
    (mean_p, mean_q), roots = random_pair(d, np.random.default_rng(d))
    fit = Fit((mean_p, mean_q), (roots[0], roots[1]), flipped=False)
    masses = Gaussian(samples=50_000).masses(fit, 0)
    cov_p, cov_q = (root @ root.T for root in roots)
    assert kl(masses) == approx(gaussian_kl(mean_p, cov_p, mean_q, cov_q), rel=0.03)
    assert kl(masses.swap()) == approx(gaussian_kl(mean_q, cov_q, mean_p, cov_p), rel=0.03)


def test_draws_of_both_are_needed_where_the_gaussians_are_far_apart():
    d = 50  # by draws of Q alone the area is 0.73
    fit = Fit((np.zeros(d), np.eye(d)[0]), (np.eye(d), 2 * np.eye(d)), flipped=False)
    areas = [area(Gaussian().masses(fit, seed), scale=1) for seed in range(3)]
    assert areas == approx([0.5007] * 3, abs=1e-3)


# --- quantisers


def test_products_and_residuals_are_those_of_the_definition():
    points, times = np.random.default_rng(3).normal(size=(60, 4)), np.ones(60, np.int64)
    codes = Product(2).fit(points, times, 9, np.random.default_rng(0))
    for half in (points[:, ::2], points[:, 1::2]):  # within a bin, each half of the axes lies in one of three clusters
        spread = [np.ptp(half[codes == code], axis=0).max() for code in np.unique(codes)]
        assert max(spread) < np.ptp(half, axis=0).max()
    codes = Residual(2).fit(points, times, 9, np.random.default_rng(0))
    labels, centres = occupied_bins(points, times, codes)
    assert (np.unique(codes)[labels] == codes).all()
    assert centres == approx(np.stack([points[labels == b].mean(axis=0) for b in range(len(centres))]))


def test_only_codes_that_occur_are_bins():
    labels, centres = occupied_bins(np.array([[0.0], [1.0], [8.0]]), np.array([1, 3, 1]), np.array([7, 7, -2]))
    assert labels.tolist() == [1, 1, 0]
    assert centres == approx(np.array([[8.0], [0.75]]))


def test_the_lattice_has_the_vectors_of_one_norm():
    for dimension, bins in ((2, 12), (3, 50), (4, 744), (8, 300)):
        vectors = lattice_vectors(dimension, bins)
        assert len(vectors) <= bins
        assert (vectors**2).sum(axis=1) == approx(1.0)
        assert len(np.unique(vectors.round(9), axis=0)) == len(vectors)
        assert (np.sort(vectors, axis=0) == np.sort(-vectors, axis=0)).all()
    assert len(lattice_vectors(4, 744)) == 744
    assert len(lattice_vectors(1, 3)) == 2


# --- orientation


def test_orientation_depends_on_the_values_alone():
    x, y = SHIFTED.draw(20, 30, np.random.default_rng(5))
    forth, back = orient(x, y), orient(y[::-1], x)
    assert forth.flipped != back.flipped
    assert np.array_equal(forth.points, back.points)
    assert np.array_equal(forth.first, back.first)
    assert np.array_equal(forth.points[forth.first], (y if forth.flipped else x)[forth.places[0]])


def test_equal_samples_are_not_flipped():
    x = np.random.default_rng(0).normal(size=(10, 2))
    assert not orient(x, x[::-1]).flipped


# --- nearest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 1024, 2500])
def test_labels_are_those_of_the_definition(size, dtype):
    points, centres = clustered_points(size, 9, 0, dtype), clustered_points(20, 9, 1, dtype)
    gaps = ((points[:, None].astype(float) - centres.astype(float)) ** 2).sum(axis=2)
    assert np.array_equal(nearest_centres(points, centres), gaps.argmin(axis=1))


def test_the_lowest_of_equally_near_centres_wins():
    centres = np.array([[1.0], [-1.0], [1.0], [-1.0]])  # their mean is exactly 0
    assert nearest_centres(np.array([[0.0], [2.0], [-3.0]]), centres).tolist() == [0, 0, 1]


def test_the_order_of_the_rows_does_not_matter():
    points, centres = clustered_points(1500, 9, 0), clustered_points(40, 9, 1)
    shuffle = np.random.default_rng(0).permutation(1500)
    labels = nearest_centres(points, centres)
    assert np.array_equal(labels[shuffle], nearest_centres(points[shuffle], centres))


def test_a_label_depends_on_no_other_point():
    points, centres = clustered_points(1500, 9, 0), clustered_points(40, 9, 1)
    labels = nearest_centres(points, centres)
    assert [int(nearest_centres(points[[row]], centres)[0]) for row in range(0, 1500, 50)] == labels[::50].tolist()
    far = points[:3] * np.float32(1e12)
    assert np.array_equal(nearest_centres(np.concatenate([points, far]), centres)[:1500], labels)


def test_points_far_beyond_the_grid_have_labels_too():
    centres = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    points = np.array([[-1e15, 1.0], [1e15, 1.0], [3.0, 1e15], [1e300, 0.0], [0.9, 0.0]])
    assert nearest_centres(points, centres).tolist() == [0, 1, 2, 1, 1]
