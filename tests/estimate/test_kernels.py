"""Properties of the two kernels."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info, threadpool_limits

from mallow.engine._threads import single_threaded_blas
from mallow.estimate import _kmeans as kmeans
from mallow.estimate import _pca as pca
from mallow.estimate import _row_order as rows
from mallow.estimate._kmeans import assign, lloyd
from mallow.estimate._pca import canonical_order, pca_joint

Array = npt.NDArray[Any]


def mixture(size: int, width: int, seed: int = 0, dtype: type = np.float32) -> Array:
    rng = np.random.default_rng(seed)
    std = np.arange(1, width + 1) ** -0.6
    middle = rng.standard_normal((12, width)) * std * 1.5
    return (middle[rng.integers(12, size=size)] + rng.standard_normal((size, width)) * std + 0.7).astype(dtype)


def run(points: Array, bins: int, seed: int = 0, **options: Any) -> kmeans.Clustering:
    return lloyd(points, bins, rng=np.random.default_rng(seed), **options)


def same(one: kmeans.Clustering, other: kmeans.Clustering) -> bool:
    return (
        np.array_equal(one.labels, other.labels)
        and np.array_equal(one.centres, other.centres)
        and one.objective == other.objective
        and one.iterations == other.iterations
    )


# ─ k-means


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [3000, 5 * 1024, 9001])
def test_bits_do_not_depend_on_chunks_or_threads(size: int, dtype: type) -> None:
    points = mixture(size, 37, dtype=dtype)
    one = run(points, 60, threads=1)
    for chunk, threads in [(1, 2), (1, 7), (1024, 3), (1500, 2), (4096, 4), (10**9, 2), (10**9, 1)]:
        assert same(one, run(points, 60, chunk=chunk, threads=threads))


def test_bits_do_not_depend_on_the_threads_of_blas() -> None:
    points = mixture(4000, 33)
    with threadpool_limits(1):
        one = run(points, 50)
    with threadpool_limits(2):
        assert same(one, run(points, 50))


def test_order_of_the_rows_does_not_matter() -> None:
    points = mixture(3000, 21)
    shuffle = np.random.default_rng(1).permutation(len(points))
    one, other = run(points, 40), run(points[shuffle], 40)
    assert np.array_equal(one.labels[shuffle], other.labels)
    assert np.array_equal(one.centres, other.centres)
    assert one.objective == other.objective


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_at_a_fixed_point(dtype: type) -> None:
    points = mixture(4000, 24, dtype=dtype)
    found = run(points, 70)
    exact = points.astype(float)
    gaps = ((exact[:, None] - found.centres.astype(float)) ** 2).sum(-1)
    own = gaps[np.arange(len(points)), found.labels]
    assert (own <= gaps.min(1) * (1 + 1e-5)).all()
    for label in range(70):
        np.testing.assert_allclose(found.centres[label], exact[found.labels == label].mean(0), atol=1e-5)
    assert found.objective == pytest.approx(own.sum(), rel=1e-5)
    assert (assign(points, found.centres) == found.labels).mean() > 0.999


def test_pruning_changes_nothing() -> None:
    points = mixture(6000, 30, dtype=np.float64)
    found = run(points, 100)
    centres, labels = _plain_lloyd(points, 100)
    assert np.array_equal(found.labels, labels)
    np.testing.assert_allclose(found.centres, centres, rtol=1e-10, atol=1e-10)


def _plain_lloyd(points: Array, bins: int) -> tuple[Array, Array]:
    """Textbook iterations from the seeds of the kernel, in its canonical order."""
    pooled = canonical_order(points, points[:0])
    exponent, origin = kmeans._frame(points, pooled.distinct)
    inner = kmeans._inside(points, pooled.distinct, exponent, origin, np.dtype(np.float64))
    data = kmeans._Data(inner, np.ones(len(inner)))
    workers = kmeans._Workers(4096, 1)
    with single_threaded_blas(), workers:
        centres = kmeans._seed(data, bins, np.random.default_rng(0), workers)
    labels = np.full(len(inner), -1)
    while True:
        gaps = (centres**2).sum(1) - 2 * inner[:, :-1] @ centres.T
        new = gaps.argmin(1)
        assert np.bincount(new, minlength=bins).all()
        if np.array_equal(new, labels):
            return centres + origin, labels[pooled.group]
        labels = new
        centres = np.array([inner[labels == label, :-1].mean(0) for label in range(bins)])


@pytest.mark.parametrize("bins", [5, 50])
def test_objective_agrees_with_scikit_learn(bins: int) -> None:
    points = mixture(5000, 40)
    ours = [run(points, bins, seed).objective for seed in range(4)]
    theirs = [KMeans(bins, n_init=1, tol=0, random_state=seed).fit(points).inertia_ for seed in range(4)]
    assert np.mean(ours) < 1.01 * np.mean(theirs)


def test_seeds_find_clusters_far_apart() -> None:
    rng = np.random.default_rng(0)
    middle = rng.standard_normal((40, 10)) * 100
    points = (middle[np.arange(4000) % 40] + rng.standard_normal((4000, 10))).astype(np.float32)
    found = run(points, 40)
    assert len(set(zip(found.labels.tolist(), (np.arange(4000) % 40).tolist(), strict=True))) == 40


def test_equal_rows_share_a_label_and_count() -> None:
    few = mixture(300, 9)
    times = np.random.default_rng(0).integers(1, 9, size=300)
    many = np.repeat(few, times, axis=0)
    found, weighted = run(many, 20), run(few, 20, weights=times)
    assert np.array_equal(found.labels, np.repeat(weighted.labels, times))
    assert found.objective == weighted.objective
    for label in range(20):
        np.testing.assert_allclose(found.centres[label], many[found.labels == label].mean(0), atol=1e-5)


@pytest.mark.parametrize("bins", [5, 6, 40])
def test_more_bins_than_distinct_points(bins: int) -> None:
    few = mixture(5, 7)
    found = run(np.tile(few, (30, 1)), bins)
    assert found.objective == 0
    assert found.centres.shape == (bins, 7)
    assert np.isfinite(found.centres).all()
    assert np.array_equal(found.centres[found.labels], np.tile(few, (30, 1)))


@pytest.mark.parametrize("value", [0.0, 3.3, 1e30])
def test_all_points_equal(value: float) -> None:
    found = run(np.full((500, 3), value), 4)
    assert set(found.labels) == {0}
    assert found.objective == 0


def test_empty_bins_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    points = mixture(3000, 8)
    monkeypatch.setattr(kmeans, "_seed", lambda data, bins, *_: np.repeat(data.rows[:1, :-1], bins, axis=0))
    one, other = run(points, 30, threads=1), run(points, 30, threads=3, chunk=1)
    assert np.bincount(one.labels, minlength=30).all()
    assert same(one, other)


def test_bins_one_short_of_distinct() -> None:
    points = mixture(200, 4)
    found = run(points, 199)
    assert np.bincount(found.labels, minlength=199).all()
    assert len(set(found.labels)) == 199


@pytest.mark.parametrize(("factor", "dtype"), [(1e30, np.float32), (1e-30, np.float32), (1e300, np.float64)])
def test_extreme_values(factor: float, dtype: type) -> None:
    points = mixture(1500, 11, dtype=np.float64)
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
    found = run(points, 16)
    best = KMeans(16, n_init=5, random_state=0).fit(points.astype(float)).inertia_
    assert found.objective <= 1.01 * best


def test_integer_grid_with_many_ties_ends() -> None:
    grid = np.array(np.meshgrid(*[np.arange(9.0)] * 3)).reshape(3, -1).T.astype(np.float32)
    found = run(grid, 50)
    assert found.iterations < 100
    assert same(found, run(grid, 50, threads=5, chunk=1))


def test_one_column_and_one_bin() -> None:
    points = mixture(100, 1)
    found = run(points, 1)
    assert found.centres[0, 0] == pytest.approx(points.mean(), rel=1e-6)
    assert found.objective == pytest.approx(((points - points.mean()) ** 2).sum(), rel=1e-4)


def test_threads_of_blas_are_restored() -> None:
    def numbers() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    points = mixture(2000, 16)
    with threadpool_limits(2, user_api="blas"):
        before = numbers()
        workers = [threading.Thread(target=run, args=(points, bins)) for bins in (10, 80, 30)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert numbers() == before


# ─ canonical order


@pytest.mark.parametrize(("x_type", "y_type"), [(np.float32, np.float32), (np.float16, np.float64)])
@pytest.mark.parametrize("width", [1, 2, 5, 64])
def test_canonical_order_depends_on_the_multiset_alone(width: int, x_type: type, y_type: type) -> None:
    x, y = mixture(1500, width, 0).astype(x_type), mixture(1300, width, 1).astype(y_type)
    y[:40] = x[:40]  # float16 is exact in float64
    y[40:43] = 0.0
    x[43:45] = -0.0
    shuffle, shuffled = (np.random.default_rng(2).permutation(size) for size in (1500, 1300))
    first, second = canonical_order(x, y), canonical_order(y[shuffled], x[shuffle])
    pool, swapped = np.vstack([x, y]).astype(float), np.vstack([y[shuffled], x[shuffle]]).astype(float)
    assert np.array_equal(pool[first.order], swapped[second.order])
    assert np.array_equal(first.counts, second.counts)
    assert np.array_equal(pool[first.distinct][first.group], pool)
    assert len(np.unique(pool + 0.0, axis=0)) == len(first.distinct)


def test_canonical_order_survives_collisions(monkeypatch: pytest.MonkeyPatch) -> None:
    def poor(array: Array, *_: object) -> Array:
        return (np.abs(array[:, 0]) > 0.5).astype(np.uint64)

    monkeypatch.setattr(rows, "_hash", poor)
    test_canonical_order_depends_on_the_multiset_alone(5, np.float32, np.float32)


@pytest.mark.parametrize("width", [2, 3, 128])
def test_hash_tells_signs_apart(width: int) -> None:
    signs = np.sign(np.random.default_rng(0).standard_normal((4000, width))).astype(np.float32)
    distinct = len(np.unique(signs, axis=0))
    assert len(set(rows._hash(signs, np.dtype(np.float32), 1).tolist())) >= distinct - 1


# ─ PCA


def svd(pool: Array) -> tuple[Array, Array, Array]:
    centred = pool.astype(np.float64) - pool.astype(np.float64).mean(0)
    return np.linalg.svd(centred, full_matrices=False)


@pytest.mark.parametrize(("n", "m", "width"), [(700, 500, 60), (30, 25, 200), (60, 60, 120), (2000, 10, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pca_is_the_singular_value_decomposition(n: int, m: int, width: int, dtype: type) -> None:
    x, y = mixture(n, width, 0, dtype), mixture(m, width, 1, dtype)
    found = pca_joint(x, y, variance=0.9)
    left, singular, right = svd(np.vstack([x, y]))
    share = np.cumsum(singular**2) / (singular**2).sum()
    kept = 1 + int(np.searchsorted(share, 0.9))
    assert found.axes.shape == (kept, width)
    np.testing.assert_allclose(found.variances, singular[:kept] ** 2 / (n + m), rtol=1e-10)
    assert found.explained == pytest.approx(share[kept - 1], rel=1e-10)
    np.testing.assert_allclose(found.axes.T @ found.axes, right[:kept].T @ right[:kept], atol=1e-8)
    points = found.points[found.pooled.group].astype(float)
    truth = (left[:, :kept] * singular[:kept]) @ right[:kept]
    tight = 1e-6 if dtype is np.float32 else 1e-11
    np.testing.assert_allclose(points @ found.axes, truth, atol=tight * singular[0])


def test_pca_in_single_precision_is_accurate() -> None:
    x, y = mixture(3000, 1024, 0), mixture(3000, 1024, 1)
    assert 6000 * 1024 * 1024 > 2**31
    found = pca_joint(x, y, variance=0.9)
    _, singular, right = svd(np.vstack([x, y]))
    kept = len(found.axes)
    np.testing.assert_allclose(found.variances, singular[:kept] ** 2 / 6000, rtol=3e-6)
    gap = np.linalg.svd(found.axes @ right[:kept].T, compute_uv=False)
    assert (gap[: kept // 2] > 1 - 1e-6).all()
    centred = np.vstack([x, y]).astype(float) - found.mean
    np.testing.assert_allclose(found.points[found.pooled.group], centred @ found.axes.T, atol=2e-5)
    assert found.explained >= 0.9 - 1e-6


@pytest.mark.parametrize(("n", "width"), [(2500, 70), (40, 300)])
@pytest.mark.parametrize("normalize", [False, True])
def test_pca_ignores_order_sides_and_threads(n: int, width: int, normalize: bool) -> None:
    x, y = mixture(n, width, 0), mixture(n - 7, width, 1)
    y[:5] = x[:5]
    shuffle = np.random.default_rng(0).permutation(n)
    one = pca_joint(x, y, normalize=normalize, threads=1)
    for other in (
        pca_joint(y, x, normalize=normalize, threads=3),
        pca_joint(x[shuffle], y, normalize=normalize, threads=2),
        pca_joint(np.asfortranarray(x), y, normalize=normalize, threads=5),
    ):
        assert np.array_equal(one.points, other.points)
        assert np.array_equal(one.axes, other.axes)
        assert np.array_equal(one.pooled.counts, other.pooled.counts)


def test_labels_are_symmetric_from_end_to_end() -> None:
    x, y = mixture(1500, 50, 0), mixture(1200, 50, 1)

    def labels(x: Array, y: Array, threads: int) -> tuple[Array, Array]:
        reduced = pca_joint(x, y, normalize=True, threads=threads)
        found = run(reduced.points, 60, weights=reduced.pooled.counts, threads=threads, chunk=threads)
        everyone = found.labels[reduced.pooled.group]
        return everyone[: len(x)], everyone[len(x) :]

    shuffle = np.random.default_rng(0).permutation(1500)
    of_x, of_y = labels(x, y, 1)
    y_again, x_again = labels(y, x[shuffle], 3)
    assert np.array_equal(of_y, y_again)
    assert np.array_equal(of_x[shuffle], x_again)
    first, second = labels(x, x[shuffle], 2)
    assert np.array_equal(np.bincount(first, minlength=60), np.bincount(second, minlength=60))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("factor", "dtype"), [(1e30, np.float32), (1e-30, np.float32), (1e-300, np.float64)])
def test_pca_of_extreme_values(factor: float, dtype: type, normalize: bool) -> None:
    x, y = mixture(400, 30, 0, dtype), mixture(300, 30, 1, dtype)
    power = int(np.frexp(factor)[1])
    one = pca_joint(x, y, normalize=normalize)
    other = pca_joint(np.ldexp(x, power), np.ldexp(y, power), normalize=normalize)
    assert len(one.axes) == len(other.axes)
    np.testing.assert_allclose(other.variances / other.variances[0], one.variances / one.variances[0], rtol=1e-5)
    np.testing.assert_allclose(other.axes, one.axes, atol=1e-5)
    assert np.isfinite(other.points).all()


def test_rows_of_zeros_survive_normalisation() -> None:
    x, y = mixture(50, 6, 0), mixture(40, 6, 1)
    x[3] = y[7] = 0
    found = pca_joint(x, y, normalize=True, variance=1.0)
    back = found.points[found.pooled.group] @ found.axes + found.mean
    np.testing.assert_allclose(back[3], 0, atol=1e-6)
    np.testing.assert_allclose(back[0], x[0] / np.linalg.norm(x[0]), atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e30])
@pytest.mark.parametrize("width", [4, 500])
def test_no_variance(value: float, width: int) -> None:
    x = np.full((60, width), value, np.float32)
    found = pca_joint(x, x[:50])
    assert found.points.tolist() == [[0.0]]
    assert found.explained == 1
    assert found.variances.tolist() == [0.0]


def test_no_variance_after_normalisation() -> None:
    x = np.outer(np.arange(1, 90), np.linspace(0.1, 1, 12)).astype(np.float32)
    found = pca_joint(x[:40], x[40:], normalize=True)
    assert (found.points == 0).all()
    assert found.variances.tolist() == [0.0]
    assert found.explained == 1
    assert set(run(found.points, 5).labels) == {0}


def test_all_the_variance_is_the_rank() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((300, 5)) @ rng.standard_normal((5, 40))).astype(np.float64)
    assert len(pca_joint(x[:100], x[100:], variance=1.0).axes) == 5
    assert len(pca_joint(x[:10], x[10:20], variance=1.0).axes) == 5
    assert len(pca_joint(x[:100], x[100:], dimension=3).axes) == 3
    assert len(pca_joint(x[:100], x[100:], dimension=30).axes) == 5


def test_offset_far_from_zero() -> None:
    x, y = mixture(800, 20, 0, np.float64), mixture(700, 20, 1, np.float64)
    one, other = pca_joint(x, y), pca_joint(x + 1e5, y + 1e5)
    np.testing.assert_allclose(one.variances, other.variances, rtol=1e-8)


def test_the_first_reduction_in_a_process_is_like_any_other() -> None:
    # A BLAS that is loaded only after the others were held to one thread would round differently once.
    code = """
import numpy as np
from mallow.estimate._pca import pca_joint
rng = np.random.default_rng(0)
x, y = (rng.standard_normal((2500, 600)) * np.arange(1, 601) ** -0.9 for _ in range(2))
x, y = x.astype(np.float32), y.astype(np.float32)
first, second = (pca_joint(x, y, normalize=True) for _ in range(2))
print(np.array_equal(first.points, second.points), len(first.axes) < 192)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "True"], run.stdout


def test_leading_axes_are_those_of_the_whole_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y = ((rng.standard_normal((2500, 600)) * np.arange(1, 601) ** -0.9).astype(np.float32) for _ in range(2))
    few = pca_joint(x, y)
    monkeypatch.setattr(pca, "LEADING", 10**6)
    every = pca_joint(x, y)
    assert few.axes.shape == every.axes.shape
    assert few.explained == pytest.approx(every.explained, rel=1e-6)
    assert few.variances == pytest.approx(every.variances, rel=1e-5)
    # Up to the precision of single axes that are nearly as strong as their neighbours: the same subspace.
    overlap = np.linalg.svd(few.axes @ every.axes.T, compute_uv=False)
    assert overlap[:-5] == pytest.approx(np.ones(len(overlap) - 5), abs=1e-3)


def test_when_stopped_early_labels_belong_to_the_centres() -> None:
    points = mixture(6000, 20)
    stopped = run(points, 80, max_iter=3)
    assert stopped.iterations == 3
    products = points.astype(np.float64) @ stopped.centres.astype(np.float64).T
    products -= (stopped.centres.astype(np.float64) ** 2).sum(axis=1) / 2
    gap = products.max(axis=1) - products[np.arange(6000), stopped.labels]
    assert gap.max() < 1e-5
    assert len(np.unique(stopped.labels)) == 80
