"""The coarse grid: centres and steps by their definition, integers by theirs, whatever the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow.evidence._blocks import ArrayRows
from mallow.evidence._coarse import _BITS, _REACH, _TAIL, LEVELS, HalfMetrics, add_moments, find_coarse_grid


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
