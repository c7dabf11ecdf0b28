"""k-means: the same bits on any threads and chunks, a fixed point, no empty bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from estimate_truths import clustered_points
from mallow.engine import single_threaded_blas
from mallow.estimate import _kmeans as kmeans
from mallow.estimate import _nearest as nearest
from mallow.estimate import canonical_order, lloyd
from mallow.estimate._kmeans import Clustering, seed_centres
from mallow.estimate._nearest import nearest_centres
from mallow.estimate._pca import pca_joint

Array = npt.NDArray[Any]


def run(points: Array, bins: int, seed: int = 0, **options: Any) -> Clustering:
    return lloyd(points, bins, rng=np.random.default_rng(seed), **options)


def same(first: Clustering, second: Clustering) -> bool:
    return (
        np.array_equal(first.labels, second.labels)
        and np.array_equal(first.centres, second.centres)
        and first.objective == second.objective
        and first.iterations == second.iterations
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [3000, 5 * 1024, 9001])
def test_bits_do_not_depend_on_chunks_or_threads(size: int, dtype: type) -> None:
    points = clustered_points(size, 37, dtype=dtype)
    one = run(points, 60, threads=1)
    for chunk, threads in [(1, 2), (1, 7), (1024, 3), (1500, 2), (4096, 4), (10**9, 2), (10**9, 1)]:
        assert same(one, run(points, 60, chunk=chunk, threads=threads))


def test_bits_do_not_depend_on_the_threads_of_blas() -> None:
    points = clustered_points(4000, 33)
    with threadpool_limits(1):
        one = run(points, 50)
    with threadpool_limits(2):
        assert same(one, run(points, 50))


def test_order_of_the_rows_does_not_matter() -> None:
    points = clustered_points(3000, 21)
    shuffle = np.random.default_rng(1).permutation(len(points))
    one, other = run(points, 40), run(points[shuffle], 40)
    assert np.array_equal(one.labels[shuffle], other.labels)
    assert np.array_equal(one.centres, other.centres)
    assert one.objective == other.objective


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_at_a_fixed_point(dtype: type) -> None:
    points = clustered_points(4000, 24, dtype=dtype)
    clustering = run(points, 70)
    exact = points.astype(float)
    gaps = ((exact[:, None] - clustering.centres.astype(float)) ** 2).sum(-1)
    own = gaps[np.arange(len(points)), clustering.labels]
    assert (own <= gaps.min(1) * (1 + 1e-5)).all()
    for label in range(70):
        np.testing.assert_allclose(clustering.centres[label], exact[clustering.labels == label].mean(0), atol=1e-5)
    assert clustering.objective == pytest.approx(own.sum(), rel=1e-5)
    assert (nearest_centres(points, clustering.centres) == clustering.labels).mean() > 0.999


def test_pruning_changes_nothing() -> None:
    points = clustered_points(6000, 30, dtype=np.float64)
    clustering = run(points, 100)
    centres, labels = _plain_lloyd(points, 100)
    assert np.array_equal(clustering.labels, labels)
    np.testing.assert_allclose(clustering.centres, centres, rtol=1e-10, atol=1e-10)


def _plain_lloyd(points: Array, bins: int) -> tuple[Array, Array]:
    """Textbook iterations from the seeds of the kernel, in its canonical order."""
    pooled = canonical_order(points, points[:0])
    grid = nearest.find_grid(points, pooled.distinct, fine=True)
    data = nearest.Data(points, pooled.distinct, grid, np.ones(len(pooled.distinct)))
    inner = data.rows
    workers = nearest.Workers(4096, 1)
    with single_threaded_blas(), workers:
        centres = seed_centres(data, bins, np.random.default_rng(0), workers)
    labels = np.full(len(inner), -1)
    while True:
        gaps = (centres**2).sum(1) - 2 * inner[:, :-1] @ centres.T
        new = gaps.argmin(1)
        assert np.bincount(new, minlength=bins).all()
        if np.array_equal(new, labels):
            return grid.values(centres), labels[pooled.group]
        labels = new
        centres = np.rint([inner[labels == label, :-1].mean(0) for label in range(bins)])


@pytest.mark.parametrize("bins", [5, 50])
def test_objective_agrees_with_scikit_learn(bins: int) -> None:
    points = clustered_points(5000, 40)
    ours = [run(points, bins, seed).objective for seed in range(4)]
    theirs = [KMeans(bins, n_init=1, tol=0, random_state=seed).fit(points).inertia_ for seed in range(4)]
    assert np.mean(ours) < 1.01 * np.mean(theirs)


def test_seeds_find_clusters_far_apart() -> None:
    rng = np.random.default_rng(0)
    middle = rng.standard_normal((40, 10)) * 100
    points = (middle[np.arange(4000) % 40] + rng.standard_normal((4000, 10))).astype(np.float32)
    clustering = run(points, 40)
    assert len(set(zip(clustering.labels.tolist(), (np.arange(4000) % 40).tolist(), strict=True))) == 40


def test_equal_rows_share_a_label_and_count() -> None:
    few = clustered_points(300, 9)
    times = np.random.default_rng(0).integers(1, 9, size=300)
    many = np.repeat(few, times, axis=0)
    clustering, weighted = run(many, 20), run(few, 20, weights=times)
    assert np.array_equal(clustering.labels, np.repeat(weighted.labels, times))
    assert clustering.objective == weighted.objective
    for label in range(20):
        np.testing.assert_allclose(clustering.centres[label], many[clustering.labels == label].mean(0), atol=1e-5)


@pytest.mark.parametrize("bins", [5, 6, 40])
def test_more_bins_than_distinct_points(bins: int) -> None:
    few = clustered_points(5, 7)
    clustering = run(np.tile(few, (30, 1)), bins)
    assert clustering.objective == 0
    assert clustering.centres.shape == (bins, 7)
    assert np.isfinite(clustering.centres).all()
    assert np.array_equal(clustering.centres[clustering.labels], np.tile(few, (30, 1)))


@pytest.mark.parametrize("value", [0.0, 3.3, 1e30])
def test_all_points_equal(value: float) -> None:
    clustering = run(np.full((500, 3), value), 4)
    assert set(clustering.labels) == {0}
    assert clustering.objective == 0


def test_empty_bins_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    points = clustered_points(3000, 8)
    monkeypatch.setattr(kmeans, "seed_centres", lambda data, bins, *_: np.repeat(data.rows[:1, :-1], bins, axis=0))
    one, other = run(points, 30, threads=1), run(points, 30, threads=3, chunk=1)
    assert np.bincount(one.labels, minlength=30).all()
    assert same(one, other)


def test_bins_one_short_of_distinct() -> None:
    points = clustered_points(200, 4)
    clustering = run(points, 199)
    assert np.bincount(clustering.labels, minlength=199).all()
    assert len(set(clustering.labels)) == 199


@pytest.mark.parametrize(("factor", "dtype"), [(1e30, np.float32), (1e-30, np.float32), (1e300, np.float64)])
def test_extreme_values(factor: float, dtype: type) -> None:
    points = clustered_points(1500, 11, dtype=np.float64)
    exponent = int(np.frexp(factor)[1])
    scaled = np.ldexp(points.astype(dtype), exponent)
    one, other = run(points.astype(dtype), 25), run(scaled, 25)
    assert np.isfinite(other.centres).all()
    # Not bit-equal (ordinary values keep their scale), but as good a clustering of the same points
    small = np.ldexp(other.centres.astype(float), -exponent)[other.labels]
    assert ((points - small) ** 2).sum() == pytest.approx(one.objective, rel=0.1)


def test_tight_clusters_in_float32_lose_nothing() -> None:
    rng = np.random.default_rng(0)
    middle = np.arange(8)[:, None] * np.ones(4)
    tight = middle[np.arange(1600) % 8] + 1e-5 * (np.arange(1600) // 8 % 2)[:, None]
    points = (tight + 1e-7 * rng.standard_normal(tight.shape)).astype(np.float32)
    clustering = run(points, 16)
    best = KMeans(16, n_init=5, random_state=0).fit(points.astype(float)).inertia_
    assert clustering.objective <= 1.01 * best


def test_integer_grid_with_many_ties_ends() -> None:
    grid = np.array(np.meshgrid(*[np.arange(9.0)] * 3)).reshape(3, -1).T.astype(np.float32)
    clustering = run(grid, 50)
    assert clustering.iterations < 100
    assert same(clustering, run(grid, 50, threads=5, chunk=1))


def test_one_column_and_one_bin() -> None:
    points = clustered_points(100, 1)
    clustering = run(points, 1)
    assert clustering.centres[0, 0] == pytest.approx(points.mean(), rel=1e-6)
    assert clustering.objective == pytest.approx(((points - points.mean()) ** 2).sum(), rel=1e-4)


def test_when_stopped_early_labels_belong_to_the_centres() -> None:
    points = clustered_points(6000, 20)
    stopped = run(points, 80, max_iter=3)
    assert stopped.iterations == 3
    products = points.astype(np.float64) @ stopped.centres.astype(np.float64).T
    products -= (stopped.centres.astype(np.float64) ** 2).sum(axis=1) / 2
    gap = products.max(axis=1) - products[np.arange(6000), stopped.labels]
    assert gap.max() < 1e-5
    assert len(np.unique(stopped.labels)) == 80


def test_labels_are_symmetric_from_end_to_end() -> None:
    x, y = clustered_points(1500, 50, 0), clustered_points(1200, 50, 1)

    def labels(x: Array, y: Array, threads: int) -> tuple[Array, Array]:
        reduced = pca_joint(x, y, normalize=True, threads=threads)
        clustering = run(reduced.points, 60, weights=reduced.pooled.counts, threads=threads, chunk=threads)
        everyone = clustering.labels[reduced.pooled.group]
        return everyone[: len(x)], everyone[len(x) :]

    shuffle = np.random.default_rng(0).permutation(1500)
    of_x, of_y = labels(x, y, 1)
    y_again, x_again = labels(y, x[shuffle], 3)
    assert np.array_equal(of_y, y_again)
    assert np.array_equal(of_x[shuffle], x_again)
    first, second = labels(x, x[shuffle], 2)
    assert np.array_equal(np.bincount(first, minlength=60), np.bincount(second, minlength=60))
