"""Joint PCA: the singular value decomposition, up to the grids on which rows and axes lie; the same bits for any order,
sides and threads."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from estimate_truths import clustered_points
from mallow.estimate import _spectrum as spectrum
from mallow.estimate._pca import pca_joint

Array = npt.NDArray[Any]


def svd(pool: Array) -> tuple[Array, Array, Array]:
    centred = pool.astype(np.float64) - pool.astype(np.float64).mean(0)
    return np.linalg.svd(centred, full_matrices=False)


@pytest.mark.parametrize(("n", "m", "width"), [(700, 500, 60), (30, 25, 200), (60, 60, 120), (2000, 10, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pca_is_the_singular_value_decomposition(n: int, m: int, width: int, dtype: type) -> None:
    x, y = clustered_points(n, width, 0, dtype), clustered_points(m, width, 1, dtype)
    reduction = pca_joint(x, y, variance=0.9)
    left, singular, right = svd(np.vstack([x, y]))
    share = np.cumsum(singular**2) / (singular**2).sum()
    kept = 1 + int(np.searchsorted(share, 0.9))
    assert reduction.axes.shape == (kept, width)
    np.testing.assert_allclose(reduction.variances, singular[:kept] ** 2 / (n + m), rtol=5e-6)
    assert reduction.explained == pytest.approx(share[kept - 1], rel=1e-6)
    np.testing.assert_allclose(reduction.axes.T @ reduction.axes, right[:kept].T @ right[:kept], atol=2e-4)
    points = np.concatenate(reduction.split(n)).astype(float)
    truth = (left[:, :kept] * singular[:kept]) @ right[:kept]
    np.testing.assert_allclose(points @ reduction.axes, truth, atol=3e-5 * singular[0])


def test_pca_in_single_precision_is_accurate() -> None:
    x, y = clustered_points(3000, 1024, 0), clustered_points(3000, 1024, 1)
    assert 6000 * 1024 * 1024 > 2**31
    reduction = pca_joint(x, y, variance=0.9)
    _, singular, right = svd(np.vstack([x, y]))
    kept = len(reduction.axes)
    np.testing.assert_allclose(reduction.variances, singular[:kept] ** 2 / 6000, rtol=3e-6)
    gap = np.linalg.svd(reduction.axes @ right[:kept].T, compute_uv=False)
    assert (gap[: kept // 2] > 1 - 1e-6).all()
    centred = np.vstack([x, y]).astype(float) - reduction.mean
    np.testing.assert_allclose(reduction.points[reduction.pooled.group], centred @ reduction.axes.T, atol=2e-5)
    assert reduction.explained >= 0.9 - 1e-6


@pytest.mark.parametrize(("n", "width"), [(2500, 70), (40, 300)])
@pytest.mark.parametrize("normalize", [False, True])
def test_pca_ignores_order_sides_and_threads(n: int, width: int, normalize: bool) -> None:
    x, y = clustered_points(n, width, 0), clustered_points(n - 7, width, 1)
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


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("factor", "dtype"), [(1e30, np.float32), (1e-30, np.float32), (1e-300, np.float64)])
def test_pca_of_extreme_values(factor: float, dtype: type, normalize: bool) -> None:
    x, y = clustered_points(400, 30, 0, dtype), clustered_points(300, 30, 1, dtype)
    power = int(np.frexp(factor)[1])
    one = pca_joint(x, y, normalize=normalize)
    other = pca_joint(np.ldexp(x, power), np.ldexp(y, power), normalize=normalize)
    assert len(one.axes) == len(other.axes)
    np.testing.assert_allclose(other.variances / other.variances[0], one.variances / one.variances[0], rtol=1e-5)
    np.testing.assert_allclose(other.axes, one.axes, atol=1e-5)
    assert np.isfinite(other.points).all()


def test_rows_of_zeros_survive_normalisation() -> None:
    x, y = clustered_points(50, 6, 0), clustered_points(40, 6, 1)
    x[3] = y[7] = 0
    reduction = pca_joint(x, y, normalize=True, variance=1.0)
    back = reduction.points[reduction.pooled.group] @ reduction.axes + reduction.mean
    np.testing.assert_allclose(back[3], 0, atol=1e-6)
    np.testing.assert_allclose(back[0], x[0] / np.linalg.norm(x[0]), atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e30])
@pytest.mark.parametrize("width", [4, 500])
def test_no_variance(value: float, width: int) -> None:
    x = np.full((60, width), value, np.float32)
    reduction = pca_joint(x, x[:50])
    assert reduction.points.tolist() == [[0.0]]
    assert reduction.explained == 1
    assert reduction.variances.tolist() == [0.0]


def test_no_variance_after_normalisation() -> None:
    x = np.outer(np.arange(1, 90), np.linspace(0.1, 1, 12)).astype(np.float32)
    reduction = pca_joint(x[:40], x[40:], normalize=True)
    assert (reduction.points == 0).all()
    assert reduction.variances.tolist() == [0.0]
    assert reduction.explained == 1


def test_all_the_variance_is_the_rank() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((300, 5)) @ rng.standard_normal((5, 40))).astype(np.float64)
    assert len(pca_joint(x[:100], x[100:], variance=1.0).axes) == 5
    assert len(pca_joint(x[:10], x[10:20], variance=1.0).axes) == 5
    assert len(pca_joint(x[:100], x[100:], dimension=3).axes) == 3
    assert len(pca_joint(x[:100], x[100:], dimension=30).axes) == 5


def test_offset_far_from_zero() -> None:
    x, y = clustered_points(800, 20, 0, np.float64), clustered_points(700, 20, 1, np.float64)
    one, other = pca_joint(x, y), pca_joint(x + 1e5, y + 1e5)
    np.testing.assert_allclose(one.variances, other.variances, rtol=5e-6)


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
    monkeypatch.setattr(spectrum, "LEADING", 10**6)
    every = pca_joint(x, y)
    assert few.axes.shape == every.axes.shape
    assert few.explained == pytest.approx(every.explained, rel=1e-6)
    assert few.variances == pytest.approx(every.variances, rel=1e-5)
    # Up to the precision of single axes that are nearly as strong as their neighbours: the same subspace.
    overlap = np.linalg.svd(few.axes @ every.axes.T, compute_uv=False)
    assert overlap[:-5] == pytest.approx(np.ones(len(overlap) - 5), abs=1e-3)
