"""Feature metrics: definitions by brute force, closed forms, expectations, limits, and other packages' own numbers."""

import gzip
import math

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx
from scipy.spatial.distance import cdist

from mallow.baselines import _features as features
from mallow.baselines._features import (
    Moments,
    PrecisionRecall,
    discriminator_accuracy,
    frechet_distance,
    kernel_distance,
    kernel_distances,
    precision_recall,
)
from mallow.errors import EstimateWarning, InputError

METRICS = [frechet_distance, kernel_distance, precision_recall, discriminator_accuracy]
METRIC_IDS = [metric.__name__ for metric in METRICS]


def normal(n, d, *, mean=0.0, scale=1.0, seed=0):
    return np.random.default_rng(seed).normal(mean, scale, size=(n, d))


@st.composite
def clouds(draw, elements=None, least=8, most=20):
    """Two samples of one width; small integers by default, so that copies and tied distances are common."""
    width = draw(st.integers(1, 4))
    elements = st.integers(-2, 2).map(float) if elements is None else elements
    shapes = (draw(st.integers(least, most)), width), (draw(st.integers(least, most)), width)
    return tuple(draw(hnp.arrays(np.float64, shape, elements=elements)) for shape in shapes)


ordinary = st.floats(-100, 100, width=32)


# --- Fréchet distance


def by_matrix_root(x, y):
    """The definition, by scipy's matrix root."""
    a, b = (np.atleast_2d(np.cov(side.T)) for side in (x, y))
    gap = x.mean(axis=0) - y.mean(axis=0)
    return gap @ gap + np.trace(a + b) - 2 * np.trace(scipy.linalg.sqrtm(a @ b)).real


@pytest.mark.parametrize(("n", "m", "d"), [(500, 300, 20), (60, 200, 50), (5000, 4000, 3)])
def test_frechet_is_the_definition_by_the_matrix_root(n, m, d):
    mix = normal(d, d, seed=9)
    x, y = normal(n, d) @ mix, normal(m, d, mean=0.3, scale=1.5, seed=1)
    assert frechet_distance(x, y) == approx(by_matrix_root(x, y), rel=1e-9)


@given(pair=clouds(ordinary))
def test_frechet_in_one_dimension_is_the_closed_form(pair):
    x, y = (side[:, 0] for side in pair)
    expected = (x.mean() - y.mean()) ** 2 + (x.std(ddof=1) - y.std(ddof=1)) ** 2
    assert frechet_distance(x, y) == approx(expected, rel=1e-9, abs=1e-8)


@given(pair=clouds(ordinary), seed=st.integers(0, 9))
def test_frechet_is_symmetric_at_least_the_gap_of_means_and_blind_to_rotation(pair, seed):
    x, y = pair
    found = frechet_distance(x, y)
    assert found == approx(frechet_distance(y, x), rel=1e-9, abs=1e-7)
    assert found >= ((x.mean(axis=0) - y.mean(axis=0)) ** 2).sum() * (1 - 1e-9) - 1e-7
    turn = scipy.linalg.qr(normal(x.shape[1], x.shape[1], seed=seed))[0]
    assert frechet_distance(x @ turn + 3.0, y @ turn + 3.0) == approx(found, rel=1e-7, abs=1e-5)


@given(pair=clouds(ordinary))
def test_frechet_of_a_sample_with_itself_is_0(pair):
    assert frechet_distance(pair[0], pair[0].copy()) == approx(0.0, abs=1e-9 * (1 + np.var(pair[0])))


def test_frechet_with_fewer_samples_than_features_by_exact_arithmetic():
    # 4 and 3 points in 6 dimensions, to 60 digits: tr(ΣΣ′)^½ is the sum of roots of eigenvalues.
    x, y = np.round(normal(4, 6), 2), np.round(normal(3, 6, mean=1.0, seed=1), 2)
    with mpmath.workdps(60):

        def moments(side):
            rows = [[mpmath.mpf(repr(float(value))) for value in row] for row in side]
            mean = [mpmath.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
            centred = mpmath.matrix([[value - at for value, at in zip(row, mean, strict=True)] for row in rows])
            return mpmath.matrix(mean), centred.T * centred / (len(rows) - 1)

        (mean_x, cov_x), (mean_y, cov_y) = moments(x), moments(y)
        roots, vectors = mpmath.eigsy(cov_x)
        half = vectors * mpmath.diag([mpmath.sqrt(abs(value)) for value in roots]) * vectors.T
        shared = mpmath.eigsy(half * cov_y * half, eigvals_only=True)
        expected = mpmath.fsum((mean_x[i] - mean_y[i]) ** 2 + cov_x[i, i] + cov_y[i, i] for i in range(6))
        expected = float(expected - 2 * mpmath.fsum(mpmath.sqrt(abs(value)) for value in shared))
    with pytest.warns(EstimateWarning, match="3 samples of 6 features have a singular covariance"):
        assert frechet_distance(x, y) == approx(expected, rel=1e-12)
    with pytest.warns(EstimateWarning):
        assert frechet_distance(Moments.of(x), Moments.of(y)) == approx(expected, rel=1e-12)


def test_frechet_of_variances_that_differ_a_million_times_is_exact():
    # Commuting covariances: Σ (σ − σ′)²; the matrix root of the product loses half of the digits.
    basis = scipy.linalg.qr(normal(64, 6) - normal(64, 6).mean(axis=0), mode="economic")[0]
    basis -= basis.mean(axis=0)
    basis = scipy.linalg.qr(basis, mode="economic")[0] * math.sqrt(63)
    sigma, other = np.logspace(-3, 3, 6), np.logspace(3, -3, 6)
    assert frechet_distance(basis * sigma, basis * other) == approx(((sigma - other) ** 2).sum(), rel=1e-9)


def test_frechet_of_float32_keeps_its_digits():
    x, y = (normal(3000, 8, mean=100.0, seed=seed).astype(np.float32) for seed in (0, 1))
    assert frechet_distance(x, y) == approx(by_matrix_root(x.astype(float), y.astype(float)), rel=1e-7)


@given(pair=clouds(ordinary), cut=st.integers(1, 7))
def test_moments_add_up(pair, cut):
    x, y = pair
    merged = Moments.of(x[:cut]).merge(Moments.of(x[cut:]))
    whole = Moments.of(x)
    assert merged.n == whole.n == len(x)
    assert merged.mean == approx(whole.mean, rel=1e-12, abs=1e-10)
    assert whole.covariance == approx(np.atleast_2d(np.cov(x.T)), rel=1e-9, abs=1e-9)
    assert merged.covariance == approx(whole.covariance, rel=1e-9, abs=1e-9)
    assert frechet_distance(merged, y) == approx(frechet_distance(x, y), rel=1e-7, abs=1e-5)


def test_moments_refuse_what_they_cannot_be():
    one = Moments.of([[1.0, 2.0]])
    assert one.n == 1
    assert (one.scatter == 0).all()
    with pytest.raises(InputError, match="covariance must come from at least 2 samples; got 1"):
        _ = one.covariance
    with pytest.raises(InputError, match="`reference` must hold at least 2 samples; got 1"):
        frechet_distance(one, normal(5, 2))
    with pytest.raises(InputError, match="same width; got 2 and 3"):
        frechet_distance(Moments.of(normal(5, 2)), normal(5, 3))
    with pytest.raises(InputError, match="`other` must have features of the same width, 2; got 3"):
        one.merge(Moments.of(normal(5, 3)))
    with pytest.raises(InputError, match="`points` must be finite"):
        Moments.of([[1.0, np.nan]])
    with pytest.raises(InputError, match=r"must have shapes \(d,\) and \(d, d\); got \(2,\) and \(3, 3\)"):
        Moments(5, np.zeros(2), np.zeros((3, 3)))
    with pytest.raises(InputError, match="`mean` and `scatter` must be finite"):
        Moments(5, np.zeros(2), np.full((2, 2), np.nan))
    with pytest.raises(InputError, match="`n` must be an integer of at least 1"):
        Moments(0, np.zeros(2), np.zeros((2, 2)))


# --- kernel distance


def by_all_pairs(x, y):
    def kernel(a, b):
        return (a @ b.T / a.shape[1] + 1) ** 3

    def off_diagonal(a):
        gram = kernel(a, a)
        return (gram.sum() - np.trace(gram)) / (len(a) * (len(a) - 1))

    return off_diagonal(x) + off_diagonal(y) - 2 * kernel(x, y).mean()


@given(pair=clouds(st.floats(-3, 3, width=32)))
def test_kernel_distance_is_the_sum_over_all_pairs(pair):
    x, y = pair
    expected = by_all_pairs(x, y)
    assert kernel_distance(x, y) == approx(expected, rel=1e-9, abs=1e-9)
    assert kernel_distance(y, x) == approx(expected, rel=1e-9, abs=1e-9)
    assert kernel_distance(x, x) == approx(by_all_pairs(x, x), rel=1e-9, abs=1e-9)  # one and the same array


@given(rows=st.integers(1, 40))
@settings(max_examples=15)
def test_kernel_distance_knows_nothing_of_blocks(rows):
    x, y = normal(37, 5), normal(23, 5, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "_ROWS", rows)
        assert kernel_distance(x, y) == approx(by_all_pairs(x, y), rel=1e-9)


def test_kernel_distance_is_unbiased():
    # The mean over samples of the same distribution is 0, also for samples of 4 and 6 points.
    found = [kernel_distance(normal(4, 2, seed=2 * i), normal(6, 2, seed=2 * i + 1)) for i in range(600)]
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(len(found))
    assert min(found) < 0


def test_kernel_distance_of_float32():
    x, y = np.abs(normal(900, 64)).astype(np.float32), np.abs(normal(800, 64, scale=1.1, seed=1)).astype(np.float32)
    assert kernel_distance(x, y) == approx(by_all_pairs(x.astype(float), y.astype(float)), abs=1e-7)
    # Rows of length 1, as of texts: κ is hardly more than 1, and must not be rounded to it.
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    assert kernel_distance(x, y) == approx(by_all_pairs(x.astype(float), y.astype(float)), rel=2e-3)
    # Cubes of 1e30, beyond float32.
    x, y = x * np.float32(1e16), y * np.float32(1e16)
    assert kernel_distance(x, y) == approx(by_all_pairs(x.astype(float), y.astype(float)), rel=1e-3)


def test_kernel_distances_of_subsets():
    x, y = normal(60, 3), normal(50, 3, mean=0.5, seed=1)
    found = kernel_distances(x, y, subsets=200, size=20, rng=3)
    assert (found.subsets, found.size) == (200, 20)
    assert found == kernel_distances(x, y, subsets=200, size=20, rng=np.random.default_rng(3))
    assert found != kernel_distances(x, y, subsets=200, size=20, rng=4)
    assert found.mean == approx(kernel_distance(x, y), abs=4 * found.std / math.sqrt(200))
    all_of_it = kernel_distances(x[:50], y, subsets=3, size=50)
    assert all_of_it.mean == approx(kernel_distance(x[:50], y), rel=1e-9)
    assert all_of_it.std == approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subsets": 0}, "`subsets` must be an integer of at least 1; got 0"),
        ({"size": 1}, "`size` must be an integer of at least 2; got 1"),
        ({"size": 11}, "`size` must be at most the size of the smaller sample, 10; got 11"),
    ],
)
def test_kernel_distances_refuse(options, message):
    with pytest.raises(InputError, match=message):
        kernel_distances(normal(10, 2), normal(12, 2), **options)


# --- precision, recall, density, coverage


def by_definition(x, y, k):
    """With ≤, by all distances."""

    def radius(side):
        return np.sort(cdist(side, side, "sqeuclidean"), axis=1)[:, k]  # [:, 0] is the point itself

    between = cdist(x, y, "sqeuclidean")
    by_x, by_y = between <= radius(x)[:, None], between <= radius(y)
    return PrecisionRecall(
        precision=by_x.any(axis=0).mean(),
        recall=by_y.any(axis=1).mean(),
        density=by_x.sum(axis=0).mean() / k,
        coverage=by_x.any(axis=1).mean(),
        neighbors=k,
    )


def same(a, b):
    return vars(a) == approx(vars(b), rel=1e-12)


@given(pair=clouds(), k=st.integers(1, 7))
def test_precision_recall_with_ties_and_copies_is_the_definition(pair, k):
    assert same(precision_recall(*pair, neighbors=k), by_definition(*pair, k))


@given(pair=clouds(ordinary), k=st.integers(1, 7))
def test_precision_recall_is_the_definition(pair, k):
    # Distances by differences in both; what hypothesis likes, such as 1e-40 beside 100, is not decided by rounding.
    assert same(precision_recall(*pair, neighbors=k), by_definition(*pair, k))


@given(pair=clouds(), k=st.integers(1, 7), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_precision_recall_swaps_and_ignores_order_blocks_and_units(pair, k, seed):
    x, y = pair
    found, rng = precision_recall(x, y, neighbors=k), np.random.default_rng(seed)
    swapped = precision_recall(y, x, neighbors=k)
    assert (found.precision, found.recall) == (swapped.recall, swapped.precision)
    assert precision_recall(rng.permutation(x), rng.permutation(y), neighbors=k) == found
    for unit in (2.0**-600, 2.0**100):
        assert precision_recall(x * unit, y * unit, neighbors=k) == found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "_TILE", int(rng.integers(1, 60)))
        patch.setattr(features, "_PAIRS", int(rng.integers(1, 20)))
        patch.setattr(features, "_ROWS", int(rng.integers(1, 8)))
        patch.setattr(features, "cores", lambda: 3)
        assert precision_recall(x, y, neighbors=k) == found


@pytest.mark.parametrize("dense", [1, 64, 10**9], ids=["float32 products", "as it is", "float64 products"])
@pytest.mark.parametrize("far", [0.0, 1e3, 1e6])
def test_precision_recall_of_tight_clusters_is_the_definition(monkeypatch, dense, far):
    # Clusters of width 1 at a distance of 10⁶ that products of float32, or even of float64, cannot see into.
    monkeypatch.setattr(features, "_DENSE", dense)
    centres = far * normal(4, 12, seed=7)
    x, y = (centres[np.arange(240) % 4] + normal(240, 12, seed=seed) for seed in (0, 1))
    for dtype in (np.float32, np.float64):
        a, b = x.astype(dtype), y.astype(dtype)
        assert same(precision_recall(a, b), by_definition(a.astype(float), b.astype(float), 5))


def test_products_are_off_by_less_than_their_slack():
    x = np.random.default_rng(0).standard_t(2, size=(200, 300)) * np.logspace(-25, 0, 200)[:, None]
    x[::2] *= -1
    cloud = features._cloud(x, np.zeros(300))
    exact = features._by_differences(cloud, np.repeat(np.arange(200), 200), cloud, np.tile(np.arange(200), 200))
    for dtype in (np.float32, np.float64):
        slack = cloud.slack(dtype).astype(float)
        about = features._by_products(cloud, slice(0, 200), cloud, dtype)
        assert about.dtype == dtype
        assert (np.abs(about - exact.reshape(200, 200)) <= slack[:, None] + slack).all()


@pytest.mark.parametrize("seed", range(5))
def test_products_may_be_off_by_all_of_their_slack(monkeypatch, seed):
    x, y = normal(80, 3), normal(70, 3, mean=0.2, seed=1)
    rng = np.random.default_rng(seed)

    def worst(a, rows, b, dtype):
        i, j = np.meshgrid(np.arange(len(a.at))[rows], np.arange(len(b.at)), indexing="ij")
        exact = features._by_differences(a, i.ravel(), b, j.ravel()).reshape(i.shape)
        off = a.slack(dtype)[rows, None] + b.slack(dtype)
        return (exact + 0.99 * rng.choice([-1.0, 1.0], i.shape) * off).astype(dtype)

    def wide(cloud, dtype):
        return (0.2 * (1.0 + cloud.norms)).astype(dtype)

    monkeypatch.setattr(features._Cloud, "slack", wide)
    monkeypatch.setattr(features, "_by_products", worst)
    assert same(precision_recall(x, y), by_definition(x, y, 5))


def test_a_point_at_the_radius_is_within():
    # The ball of 0 reaches to 1: a model point at −1 is on its edge, one at −1 − 10⁻⁹ is not.
    x = np.array([[0.0], [1.0], [1.5]])
    for place, expected in ((-1.0, 0.5), (-1.0 - 1e-9, 0.0)):
        assert precision_recall(x, [[place], [90.0]], neighbors=1).precision == expected


def test_copies_are_within_and_their_distance_is_0():
    # 0.1 + 0.2 ≠ 0.3 and the like: features that no product gets right.
    x = normal(500, 40, mean=1000.0).astype(np.float32)
    found = precision_recall(x, x.copy())
    assert (found.precision, found.recall, found.coverage) == (1.0, 1.0, 1.0)
    assert found == precision_recall(x, x)
    # Each ball of the sample has k + 1 points of it, the centre and the edge included.
    assert found.density == approx(6 / 5)
    many = np.repeat(x[:50], 6, axis=0)  # k + 1 copies of each: radius 0
    assert precision_recall(many, x[:50]).precision == 1.0
    assert precision_recall(many, x[:50] + np.float32(0.001)).precision == 0.0


def test_expected_density_and_coverage_of_the_same_distribution():
    # Naeem et al. 2020: 1, and 1 − (n − 1)…(n − k) / (2n − 1)…(2n − k), whatever the distribution.
    n, k = 20, 3
    found = [precision_recall(normal(n, 2, seed=2 * i), normal(n, 2, seed=2 * i + 1), neighbors=k) for i in range(300)]
    expected = 1 - math.prod((n - i) / (2 * n - i) for i in range(1, k + 1))
    for values, mean in (([each.density for each in found], 1.0), ([each.coverage for each in found], expected)):
        assert abs(np.mean(values) - mean) < 4 * np.std(values) / math.sqrt(len(values))


def test_the_direction_is_the_documented_one():
    # The model makes one of two modes: all of it is realistic, half of the reference is missed.
    x = np.concatenate([normal(200, 2), normal(200, 2, mean=50.0, seed=1)])
    found = precision_recall(x, normal(400, 2, seed=2))
    assert found.precision > 0.9
    assert found.recall < 0.6
    assert found.coverage < 0.6


@pytest.mark.parametrize(
    ("neighbors", "message"),
    [
        (0, "`neighbors` must be an integer of at least 1; got 0"),
        (2.5, "`neighbors` must be an integer of at least 1; got 2.5"),
        (10, "`neighbors` must be less than the size of the smaller sample, 10; got 10"),
    ],
)
def test_precision_recall_refuses(neighbors, message):
    with pytest.raises(InputError, match=message):
        precision_recall(normal(12, 2), normal(10, 2), neighbors=neighbors)


# --- discriminator


def test_discriminator_reaches_the_best_accuracy():
    # Two Gaussians at distance 2δ: the best any classifier can do is Φ(δ).
    x, y = normal(4000, 5), normal(4000, 5, seed=1)
    y[:, 2] += 1.0
    assert discriminator_accuracy(x, y) == approx(0.6915, abs=4 * math.sqrt(0.21 / 2000))


def test_discriminator_at_the_ends():
    x = normal(400, 6)
    assert discriminator_accuracy(x, normal(300, 6, mean=20.0, seed=1)) == 1.0
    apart = [discriminator_accuracy(x, normal(400, 6, seed=seed)) for seed in range(1, 9)]
    assert np.mean(apart) == approx(0.5, abs=4 * 0.5 / math.sqrt(200 * 8))
    assert discriminator_accuracy(x, x + 1e-3 * normal(400, 6, seed=1)) < 0.6


@pytest.mark.parametrize("d", [3, 200])
def test_discriminator_is_not_fooled_by_copies(d):
    # Split at random, copies would be learnt with the other label: with more features than samples, far below 0.5.
    x = normal(120, d)
    assert discriminator_accuracy(x, x[::-1]) == 0.5
    twice = np.repeat(x, 2, axis=0)
    assert discriminator_accuracy(twice, twice.copy()) == 0.5
    half = np.concatenate([x[:60], normal(60, d, seed=1)])
    assert discriminator_accuracy(x, half) > 0.35


def test_discriminator_knows_no_majority():
    # Who always says "reference" is right 20 times out of 21, and has 0.5 here; two Gaussians at distance 2 allow 0.84.
    x, y = normal(2000, 3), normal(100, 3, seed=1)
    assert discriminator_accuracy(x, y) == approx(0.5, abs=4 * 0.5 / math.sqrt(50))
    y[:, 0] += 2.0
    assert discriminator_accuracy(x, y) == approx(0.84, abs=4 * 0.37 / math.sqrt(50))
    assert discriminator_accuracy(x, y) > 0.7


@pytest.mark.parametrize("seed", range(3))
def test_discriminator_ignores_the_order_of_rows_and_knows_its_rng(seed):
    x, y, rng = normal(90, 3), normal(80, 3, mean=0.5, seed=1), np.random.default_rng(seed)
    found = discriminator_accuracy(x, y, rng=seed)
    assert discriminator_accuracy(rng.permutation(x), rng.permutation(y), rng=seed) == approx(found, abs=1e-12)
    assert discriminator_accuracy(x, y, rng=np.random.default_rng(seed)) == found
    assert len({discriminator_accuracy(x, y, rng=each) for each in range(4)}) > 1


@given(pair=clouds(), seed=st.integers(0, 9))
def test_the_split_has_a_quarter_of_each_side_and_keeps_copies_together(pair, seed):
    x, y = pair
    parts = features._dealt(x, y, np.random.default_rng(seed))
    assert set(parts) <= {-1, 0, 1, 2, 3, 4}
    shared = 0
    for part in range(-1, 5):
        rows = [sorted(map(tuple, side[of == part])) for side, of in ((x, parts[: len(x)]), (y, parts[len(x) :]))]
        shared += sum(min(rows[0].count(row), rows[1].count(row)) for row in set(rows[0]))
    everything = [sorted(map(tuple, side)) for side in (x, y)]
    pairs = sum(min(everything[0].count(row), everything[1].count(row)) for row in set(everything[0]))
    assert shared >= pairs
    for of in (parts[: len(x)], parts[len(x) :]):
        assert abs((of == -1).sum() - len(of) / 4) < 2
        counts = [(of == part).sum() for part in range(5)]
        assert max(counts) - min(counts) <= 2


def test_discriminator_chooses_the_penalty_by_the_data():
    # 40 features of noise: weak penalties overfit. 1 strong feature: strong penalties do not lose.
    rng = np.random.default_rng(0)
    label, fold = np.arange(200) % 2 == 0, np.arange(200) // 2 % 5
    noise = rng.normal(size=(200, 40))
    assert features._best_penalty(noise, label, fold) >= 1e3
    clear = rng.normal(size=(200, 1)) + 6.0 * label[:, None] - 3.0
    assert features._best_penalty(clear, label, fold) < 10.0


def test_discriminator_refuses_few_samples():
    with pytest.raises(
        InputError, match="`model` must hold at least 8 samples, to be cut into a test and 5 folds; got 7"
    ):
        discriminator_accuracy(normal(20, 2), normal(7, 2))


# --- bad and borderline input, for all


@pytest.mark.parametrize("metric", METRICS, ids=METRIC_IDS)
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (normal(1, 3), normal(20, 3), "`reference` must hold at least 2 samples; got 1"),
        (normal(20, 3), normal(1, 3), "`model` must hold at least 2 samples; got 1"),
        (normal(20, 3), normal(20, 4), "same width; got 3 and 4"),
        (normal(20, 3), np.full((20, 3), np.nan), "`model` must be finite; got 60 NaN or infinite entries"),
        (np.full((20, 3), -np.inf), normal(20, 3), "`reference` must be finite"),
        (
            normal(20, 3),
            np.full((20, 3), -1e41),
            r"`model` must be at most 1e\+40 in size.*got -1e\+41 at index \(0, 0\)",
        ),
        (["a text"] * 20, normal(20, 3), "`reference` must be an array of numbers"),
        (normal(20, 3), np.empty((0, 3)), "`model` must hold at least 2 samples; got 0"),
    ],
)
def test_bad_input_is_refused(metric, x, y, message):
    with pytest.raises(InputError, match=message):
        metric(x, y)


def test_constant_features_have_a_limit():
    x, y = np.full((30, 4), 0.1, np.float32), np.full((20, 4), 0.3)
    gap = float(((x[0] - y[0]) ** 2).sum())
    assert frechet_distance(x, y) == approx(gap, rel=1e-12)
    assert frechet_distance(x, x) == 0.0
    assert kernel_distance(x, y) == approx(by_all_pairs(x.astype(float), y))
    assert kernel_distance(x, x) == approx(0.0, abs=1e-12)
    assert precision_recall(x, y) == PrecisionRecall(0.0, 0.0, 0.0, 0.0, 5)
    assert precision_recall(x, x[:20]) == PrecisionRecall(1.0, 1.0, 30 / 5, 1.0, 5)
    assert discriminator_accuracy(x, y) == 1.0
    assert discriminator_accuracy(x, x[:20]) == 0.5


@pytest.mark.parametrize("value", [0.0, 0.1, 12345.678])
def test_a_column_without_variance_changes_nothing(value):
    x, y = normal(60, 3), normal(50, 3, mean=0.3, seed=1)
    wide = [np.column_stack([side, np.full(len(side), value)]) for side in (x, y)]
    assert frechet_distance(*wide) == approx(frechet_distance(x, y), rel=1e-9)
    assert precision_recall(*wide) == precision_recall(x, y)
    scaled = features._scaled(*wide, np.arange(110) % 4 > 0)
    assert (scaled[:, 3] == 0).all()
    assert scaled[:, :3] == approx(features._scaled(x, y, np.arange(110) % 4 > 0), rel=1e-9)


@pytest.mark.parametrize("metric", METRICS[:3], ids=METRIC_IDS[:3])
def test_small_and_mixed_types_are_taken_as_the_numbers_they_are(metric):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-50, 50, size=(40, 3)), rng.integers(-40, 60, size=(35, 3))
    expected = metric(x.astype(float), y.astype(float))
    for dtypes in ((np.int8, np.int64), (np.float16, np.float32), (np.float32, np.float64)):
        found = metric(x.astype(dtypes[0]), y.astype(dtypes[1]))
        if metric is precision_recall:
            assert found == expected
        else:
            assert found == approx(expected, rel=1e-5)


def test_extreme_scales_do_not_overflow():
    x, y = normal(40, 3), normal(40, 3, mean=1.0, seed=1)
    for unit in (1e-30, 1e37):
        assert frechet_distance(x * unit, y * unit) == approx(frechet_distance(x, y) * unit**2, rel=1e-9)
    big = kernel_distance((x * 1e36).astype(np.float32), (y * 1e36).astype(np.float32))
    assert math.isfinite(big)
    for unit in (1e-200, 1e37):
        assert discriminator_accuracy(x * unit, (y + 20.0) * unit) == 1.0
    assert big == approx(by_all_pairs(x * 1e36, y * 1e36), rel=1e-4)


@pytest.mark.parametrize("metric", METRICS, ids=METRIC_IDS)
def test_the_input_is_left_as_it_was(metric):
    x, y = normal(40, 3).astype(np.float32), normal(40, 3, seed=1).astype(np.float32)
    before = x.copy(), y.copy()
    for side in (x, y):
        side.flags.writeable = False
    metric(x, y)
    assert (x == before[0]).all()
    assert (y == before[1]).all()


@pytest.mark.parametrize("metric", METRICS, ids=METRIC_IDS)
def test_the_number_of_processors_does_not_change_a_bit(monkeypatch, metric):
    x, y = normal(3000, 6).astype(np.float32), normal(2500, 6, mean=0.1, seed=1).astype(np.float32)
    if metric is discriminator_accuracy:
        x, y = x[:300], y[:300]
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(features, "cores", lambda count=count: count)
        found.append(metric(x, y))
    assert found[0] == found[1] == found[2]


# --- other packages, on the same features


def recorded_features():
    rng = np.random.default_rng(0)
    return {
        "wide": (np.round(rng.normal(size=(400, 16)), 3), np.round(rng.normal(0.2, 1.1, size=(300, 16)), 3)),
        "narrow": (np.round(rng.gamma(2.0, size=(250, 3)), 3), np.round(rng.normal(2.0, 1.0, size=(250, 3)), 3)),
        "short": (np.round(rng.normal(size=(30, 64)), 3), np.round(rng.normal(0.2, 1.1, size=(30, 64)), 3)),
    }


# torch-fidelity 0.4.0 with torch 2.13.0, NumPy 2.4.6 (torchvision, which the package imports but these functions do not
# use, replaced by an empty module), X and Y torch tensors of the features above:
#   fid_statistics_to_metric(fid_features_to_statistics(X), fid_features_to_statistics(Y), False)
#   kid_features_to_metric(X[:s], Y[:s], kid_subsets=1, kid_subset_size=s), s the smaller size
#   kid_features_to_metric(X, Y, kid_subsets=10, kid_subset_size=20): mean and std
#   prc_features_to_metric(Y, X, prc_neighborhood=3 and 5): precision and recall; generated first
TORCH_FIDELITY = {
    "wide": {
        "fid": 1.424376889099129,
        "kid": 0.17208350324704158,
        "subsets": (0.035065604741295074, 0.14631886362351976),
        3: (0.5733333230018616, 0.887499988079071),
        5: (0.6800000071525574, 0.9325000047683716),
    },
    "narrow": {
        "fid": 0.4061249812364638,
        "kid": 7.205878519205726,
        "subsets": (3.034519804503714, 20.626432992443263),
        3: (0.9120000004768372, 0.843999981880188),
        5: (0.9559999704360962, 0.8999999761581421),
    },
    "short": {
        "fid": 70.42539047309286,
        "kid": 0.08671851593257296,
        "subsets": (0.09958889925290956, 0.0596267373471106),
        3: (0.5, 0.8666666746139526),
        5: (0.7666666507720947, 0.9333333373069763),
    },
}

# prdc 0.2 with scikit-learn 1.9.1: compute_prdc(x, y, nearest_k): precision, recall, density, coverage. It takes < where the
# paper has ≤; no distance of these features is tied with a radius.
PRDC = {
    ("wide", 3): (0.5733333333333334, 0.8875, 0.5188888888888888, 0.6),
    ("wide", 5): (0.68, 0.9325, 0.5246666666666667, 0.8075),
    ("narrow", 3): (0.912, 0.844, 0.8893333333333333, 0.712),
    ("narrow", 5): (0.956, 0.9, 0.9032, 0.812),
    ("short", 3): (0.5, 0.8666666666666667, 0.42222222222222217, 0.6),
    ("short", 5): (0.7666666666666667, 0.9333333333333333, 0.48666666666666664, 0.8333333333333334),
}


@pytest.mark.parametrize("name", TORCH_FIDELITY)
@pytest.mark.filterwarnings("ignore:30 samples of 64 features")
def test_torch_fidelity_has_the_same_frechet_and_kernel_distance(name):
    x, y = recorded_features()[name]
    # With fewer samples than features it takes roots of eigenvalues that are 0 but for rounding: 1e-7 is its own error.
    assert frechet_distance(x, y) == approx(TORCH_FIDELITY[name]["fid"], rel=1e-6 if name == "short" else 1e-10)
    size = min(len(x), len(y))
    assert kernel_distance(x[:size], y[:size]) == approx(TORCH_FIDELITY[name]["kid"], rel=1e-10)
    legacy = np.random.RandomState(2020)  # its own subsets
    chosen = [[legacy.choice(len(side), 20, replace=False) for side in (x, y)] for _ in range(10)]
    found = [kernel_distance(x[i], y[j]) for i, j in chosen]
    assert (np.mean(found), np.std(found)) == approx(TORCH_FIDELITY[name]["subsets"], rel=1e-9)


@pytest.mark.parametrize(("name", "k"), PRDC)
def test_torch_fidelity_and_prdc_have_the_same_precision_and_recall(name, k):
    found = precision_recall(*recorded_features()[name], neighbors=k)
    assert (found.precision, found.recall, found.density, found.coverage) == approx(PRDC[name, k], rel=1e-12)
    assert (found.precision, found.recall) == approx(TORCH_FIDELITY[name][k], rel=1e-6)


# --- a story


def test_digits(shared):
    """Pixels of handwritten digits, which are whole numbers and full of ties: random halves against worse and worse models."""
    with gzip.open(shared / "data" / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        digits = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28 * 28)
    with gzip.open(shared / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], np.uint8)
    order = np.random.default_rng(0).permutation(len(digits))
    x, rest, of_rest = digits[order[:900]], digits[order[900:]], labels[order[900:]]
    good, few = rest[:900], rest[of_rest < 5][:900]
    noisy = np.clip(good + np.random.default_rng(1).integers(0, 96, good.shape), 0, 255)
    for model in (good, few):
        assert same(precision_recall(x, model), by_definition(x.astype(float), model.astype(float), 5))
    p = {name: precision_recall(x, model) for name, model in (("good", good), ("few", few), ("noisy", noisy))}
    assert p["good"].recall > p["few"].recall + 0.1  # half of the digits are missed …
    assert p["few"].precision > p["good"].precision - 0.1  # … what is made is real
    assert p["noisy"].density < 0.5 * p["good"].density
    assert frechet_distance(x, good) < frechet_distance(x, few) < frechet_distance(x, noisy)
    assert (
        kernel_distance(x / 255, good / 255)
        < kernel_distance(x / 255, few / 255)
        < kernel_distance(x / 255, noisy / 255)
    )
    assert discriminator_accuracy(x, good) == approx(0.5, abs=4 * 0.5 / math.sqrt(450))
    assert discriminator_accuracy(x, noisy) > 0.98
