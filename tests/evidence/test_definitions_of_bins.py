"""Bins, blocks and the coarse grid of many samples, compared with their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow.evidence import (
    _blocks,
)
from mallow.evidence import _pass_learner as learner_module
from mallow.evidence import _space as _partitions
from mallow.evidence._blocks import ArrayRows, at_once, each_block, multiply, sum_blocks
from mallow.evidence._coarse import _BITS, _REACH, _TAIL, LEVELS, CoarseGrid, HalfMetrics, add_moments, find_coarse_grid
from mallow.evidence._space import find_centres, find_partitions, label_points, leading_axes, membership


def grid_of(*sets, sample=None):
    places = [np.arange(len(rows)) for rows in sets] if sample is None else sample
    return find_coarse_grid([ArrayRows(rows) for rows in sets], places)


@given(seed=st.integers(0, 10_000), scale=st.floats(1e-6, 1e6), shift=st.floats(-100, 100))
@settings(max_examples=40)
def test_the_grid_is_that_of_its_definition(seed, scale, shift):
    rng = np.random.default_rng(seed)
    x, y = ((scale * rng.normal(shift, 1.0, size=(n, 3))).astype(np.float32).astype(np.float64) for n in (300, 400))
    grid = grid_of(x, y)
    step = 1.0 / grid.one_over_step
    values = np.sort(np.concatenate([x, y]), axis=0)
    tail = int(_TAIL * len(values))
    assert tail == 1
    clipped = np.clip(values, values[tail], values[-1 - tail])
    assert step == approx(_REACH * clipped.std(axis=0) / LEVELS, rel=2.0**-_BITS)
    # Centres are whole numbers of steps, the nearest to the mean; steps have few bits.
    steps = grid.centre * grid.one_over_step
    assert steps == approx(np.rint(steps), abs=1e-5)
    assert (np.abs(grid.centre - clipped.mean(axis=0)) <= step / 2 * (1 + 1e-9)).all()
    fraction, _ = np.frexp(step)
    assert fraction * 2**_BITS == approx(np.rint(fraction * 2**_BITS), rel=1e-14)
    integers = grid.integers(x)
    assert integers.dtype == np.float32
    expected = np.clip((x - grid.centre) / step, -LEVELS, LEVELS)
    assert np.abs(integers - expected).max() <= 0.5 + 1e-4
    assert np.abs(integers).max() > 40  # not all in one place
    assert (integers == np.rint(integers)).all()


def test_constant_columns_are_their_own_centre_and_have_no_step():
    rows = np.stack([np.full(50, 3.7), np.linspace(-1, 1, 50), np.zeros(50)], axis=1)
    grid = grid_of(rows, rows[:20])
    assert grid.centre[[0, 2]].tolist() == [3.7, 0.0]
    assert grid.one_over_step[[0, 2]].tolist() == [0.0, 0.0]
    assert grid.one_over_step[1] > 0
    assert (grid.integers(rows)[:, [0, 2]] == 0).all()


def test_a_column_that_only_a_few_rows_differ_in_reaches_all_of_them():
    rows = np.zeros((2000, 2))
    rows[:, 1] = np.arange(2000)
    rows[1500, 0], rows[7, 0] = 10.0, -4.0
    sample = [np.arange(100, 1100), np.arange(10)]
    grid = grid_of(rows, np.zeros((10, 2)), sample=sample)
    assert grid.centre[0] == 0.0
    assert 1.0 / grid.one_over_step[0] == approx(10.0 / LEVELS, rel=2.0**-_BITS)
    assert grid.integers(rows)[[1500, 7, 0], 0] == approx([LEVELS, -51, 0], abs=1)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-140, 1e-30, 1e30, 1e140, 1e200, 1e305])
def test_extreme_scales_are_not_lost(scale):
    rows = scale * np.random.default_rng(0).normal(size=(200, 2))
    ordinary = grid_of(rows / scale).integers(rows / scale)
    assert np.abs(grid_of(rows).integers(rows) - ordinary).max() <= 1


def test_differences_too_small_for_a_step_are_no_differences():
    rows = np.stack([np.linspace(0, 1e-310, 50), np.linspace(0, 1, 50)], axis=1)
    grid = grid_of(rows)
    assert grid.one_over_step[0] == 0.0
    assert np.isfinite(grid.integers(rows)).all()


@pytest.mark.parametrize("width", [0, 1, 5, 1100])
def test_moments_are_the_exact_covariances_of_both_halves(width):
    rng = np.random.default_rng(width)
    integers = rng.integers(-LEVELS, LEVELS + 1, size=(60, width)).astype(np.float32)
    cell = np.r_[np.zeros(20, np.int64), rng.integers(4, size=40)]
    tables, totals = np.zeros((2, width, width)), np.zeros((2, width))
    for rows in (slice(0, 20), slice(20, 60)):  # the first has no row in an odd cell
        add_moments(integers[rows], cell[rows], tables, totals)
    metrics = HalfMetrics(tables, totals, [cell])
    for metric, rows in (
        (metrics.whole, integers),
        *zip(metrics._halves, (integers[cell % 2 == 0], integers[cell % 2 == 1]), strict=True),
    ):
        exact = rows.astype(np.float64)
        products, mean = exact.T @ exact, exact.sum(axis=0) / len(exact)
        assert np.array_equal(metric.covariance, products / len(exact) - np.outer(mean, mean))


# --- bins and products in blocks


@pytest.mark.parametrize("pair", [2, 3, 16, 49, 100, 400, 3000, 50_000, 10**7])
def test_how_many_bins_there_are(pair):
    points, unit = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30)
    few, many = min(round(math.sqrt(pair) / 2), 100), min(pair // 20, 200)
    counts = sorted({max(2, count) for count in (few, many)})
    centres = find_centres(points, unit, pair, partitions=2)
    assert [len(own) for own in centres] == [count for count in counts for _ in range(2)]
    found = find_partitions(points, points.var(axis=0), unit, pair)
    assert [own.shape for own in found] == [(8, 30)] * len(counts)
    assert [int(own.max()) < count for own, count in zip(found, counts, strict=True)] == [True] * len(counts)


def test_a_point_belongs_to_the_nearest_centre(monkeypatch):
    rng = np.random.default_rng(1)
    points, centres = rng.normal(size=(40, 3)), rng.normal(size=(6, 3))
    expected = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    for rows in (7, 1024):
        monkeypatch.setattr(_partitions, "ROWS", rows)
        assert np.array_equal(label_points(points, centres), expected)


def test_centres_are_the_means_of_their_points():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points = np.repeat([[0.0, 0.0], [100.0, 0.0]], 25, axis=0) + rng.normal(size=(50, 2))
        for centres in find_centres(points, np.arange(50), 8):
            order = np.argsort(centres[:, 0])
            assert centres[order] == approx(np.stack([points[:25].mean(axis=0), points[25:].mean(axis=0)]), abs=1e-9)
    # Copies of a sample in its unit change nothing but the weight of the mean.
    alone = find_centres(points[::13], np.arange(4), 8, partitions=1)[0]
    copied = find_centres(np.repeat(points[::13], 2, axis=0), np.repeat(np.arange(4), 2), 8, partitions=1)[0]
    assert alone == approx(copied, rel=1e-12)


def test_which_axes_bins_are_made_on():
    assert leading_axes(np.array([8.0, 1.0, 1.0]), 10.0) == 2
    assert leading_axes(np.array([9.0, 1.0]), 10.0) == 1
    assert leading_axes(np.array([5.0, 2.0]), 7.0) == 2
    assert leading_axes(np.ones(100), 100.0) == 32
    assert leading_axes(np.zeros(3), 0.0) <= 4
    points = np.random.default_rng(3).normal(size=(60, 3)) * np.array([10.0, 0.1, 1e-9])
    by_all, by_first = (find_partitions(own, own.var(axis=0), np.arange(60), 60) for own in (points, points[:, :1]))
    assert all(np.array_equal(one, other) for one, other in zip(by_all, by_first, strict=True))


def test_who_is_in_which_bin():
    labels = np.array([[0, 2, 1], [1, 1, 0]])
    assert membership(labels, 3).toarray().tolist() == [
        [1, 0, 0, 0, 1, 0],
        [0, 0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0, 0],
    ]


def test_how_much_is_done_at_once():
    assert [at_once(12, each) for each in (1, 4, 5, 7, 12, 13, 100)] == [12, 3, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("rows", [1, 4, 5, 1024])
def test_products_in_blocks(rows, monkeypatch):
    monkeypatch.setattr(_blocks, "ROWS", rows)
    rng = np.random.default_rng(4)
    values, factors = rng.normal(size=(9, 3)), rng.normal(size=(2, 3))
    assert multiply(factors, values) == approx(factors @ values.T)
    assert multiply(factors, values, squares=True) == approx(factors @ (values**2).T)
    assert multiply(factors, values.astype(np.float32)).dtype == np.float32
    assert sum_blocks(lambda low: np.array([low, 1.0]), (2,), 9, rows).tolist() == [
        sum(range(0, 9, rows)),
        len(range(0, 9, rows)),
    ]
    seen = []
    each_block(seen.append, 9, rows)
    assert sorted(seen) == list(range(0, 9, rows))


# --- integers, sums and axes of many samples


def test_integers_stay_in_their_range_and_follow_their_column():
    rng = np.random.default_rng(4)
    rows = rng.normal(3.0, 2.0, size=(2000, 4))
    rows[:, 1] *= 2.0**-40
    rows[:, 2] = 7.0
    rows[0, 3] = 1e12
    grid = find_coarse_grid([ArrayRows(rows)], [np.arange(2000)])
    integers = grid.integers(rows)
    assert np.abs(integers).max() == 127
    assert (integers == np.rint(integers)).all()
    assert (integers[:, 2] == 0).all()
    assert integers[0, 3] == 127
    assert integers[1:, 3].std() == approx(127 / 6, rel=0.05)  # one huge number does not hide the others
    for column in (0, 1, 3):
        assert np.corrcoef(integers[1:, column], rows[1:, column])[0, 1] > 0.999


def test_a_column_that_is_constant_in_the_sample_is_seen_in_the_other_rows():
    rows = np.zeros((3000, 2))
    rows[2500:, 0] = 5.0
    rows[2900:, 0] = -1.0
    grid = find_coarse_grid([ArrayRows(rows)], [np.arange(100)])
    assert sorted(set(grid.integers(rows)[:, 0].tolist())) == [-25, 0, 127]
    assert (grid.integers(rows)[:, 1] == 0).all()


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
def test_other_units_of_measurement_give_the_same_integers(scale):
    rows = np.random.default_rng(5).normal(size=(500, 3))
    integers = [find_coarse_grid([ArrayRows(own)], [np.arange(500)]).integers(own) for own in (rows, rows * scale)]
    assert (integers[0] == integers[1]).all()


def test_sums_of_a_block_are_exact_in_single_precision():
    from mallow.evidence._coarse import LEVELS, ROWS

    assert ROWS * LEVELS**2 < 2**24
    extreme = np.full((ROWS, 2), LEVELS, np.float32)
    assert (extreme.T @ extreme == ROWS * LEVELS**2).all()
    assert isinstance(find_coarse_grid([ArrayRows(extreme)], [np.arange(9)]), CoarseGrid)


def test_axes_of_bins_are_integers_with_known_signs():
    rng = np.random.default_rng(6)
    for width in (10, 300):
        root = rng.normal(size=(width, width)) * np.arange(1, width + 1) ** -0.7
        axes = learner_module._leading(root.T @ root)
        assert (axes == np.rint(axes)).all()
        assert axes.shape[1] <= 32
        assert (axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] > 0).all()
        assert np.linalg.norm(axes, axis=0) == approx(2.0**12, rel=1e-2)


def test_bins_have_small_numbers_however_many_samples_there_are():
    from mallow.evidence._space import find_centres

    points = np.random.default_rng(9).normal(size=(3000, 4))
    for pair in (10_000, 10_000_000):
        assert max(len(own) for own in find_centres(points, np.arange(3000), pair, partitions=1)) <= 200
