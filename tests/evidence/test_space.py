"""The space: coordinates that know nothing of sides, order, units of measurement or threads."""

import os

import numpy as np
import pytest
from pytest import approx

from held_out import samples
from mallow.evidence import find_space, find_units


def space_of(*sets, ids=None):
    every = [samples(own, None if ids is None else ids[place]) for place, own in enumerate(sets)]
    return find_space([own.features for own in every], find_units(*every))


def cloud(rows, width, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, width)) @ rng.normal(size=(width, width)) + 3.0).astype(dtype)


def gaps(points):
    """All distances between rows."""
    return np.linalg.norm(points[:, None] - points, axis=-1)


@pytest.mark.parametrize("shape", [(40, 6), (10, 60)], ids=["many rows", "many columns"])
def test_points_are_the_scaled_columns_on_their_principal_axes(shape):
    x, y = cloud(*shape, 0), cloud(*shape, 1)
    space = space_of(x, y)
    both = np.concatenate([x, y])
    scaled = (both - both.mean(axis=0)) / both.std(axis=0)
    order = np.concatenate(space.places)
    assert space.columns[order] == approx(scaled, abs=1e-9)
    assert gaps(space.points[order]) == approx(gaps(scaled), abs=1e-7)  # a rotation
    covariance = space.points.T @ space.points / len(both)
    assert covariance == approx(np.diag(space.variances), abs=1e-9)
    assert (np.diff(space.variances) <= 1e-9).all()
    assert space.points.shape[1] == min(shape[1], len(both) - 1)


def test_rows_of_a_unit_are_neighbours_and_every_sample_has_its_row():
    x, y = cloud(8, 3, 0), cloud(5, 3, 1)
    ids = ["a", "b", "c", "a", "d", "b", "e", "a"], ["c", "x", "a", "y", "c"]
    space = space_of(x, y, ids=ids)
    assert (np.diff(space.unit) >= 0).all()
    assert space.unit.max() + 1 == 7
    names = np.empty(13, object)
    for place, own in enumerate(space.places):
        names[own] = ids[place]
    assert len({(unit, name) for unit, name in zip(space.unit, names, strict=True)}) == 7
    assert sorted(np.concatenate(space.places).tolist()) == list(range(13))


@pytest.mark.parametrize("with_ids", [False, True])
def test_shuffling_the_samples_changes_no_bit(with_ids):
    x, y = cloud(50, 5, 0), cloud(50, 5, 1)
    x[7] = x[3]  # equal rows in different units
    names = [str(i // 2) for i in range(50)]
    order = np.random.default_rng(2).permutation(50)
    moved = space_of(x[order], y[order], ids=([names[i] for i in order],) * 2 if with_ids else None)
    space = space_of(x, y, ids=(names, names) if with_ids else None)
    for name in ("points", "columns", "variances", "unit"):
        assert np.array_equal(getattr(space, name), getattr(moved, name)), name
    assert all(np.array_equal(a, b) for a, b in zip(space.bins, moved.bins, strict=True))
    for a, b in zip(space.places, moved.places, strict=True):  # equal rows may have changed places
        assert np.array_equal(space.columns[a[order]], moved.columns[b])


def test_swapping_reference_and_model_changes_no_bit():
    names = [str(i) for i in range(40)], [str(i) for i in range(20, 60)]
    x, y = cloud(40, 5, 0), cloud(40, 5, 1)
    space, swapped = space_of(x, y, ids=names), space_of(y, x, ids=names[::-1])
    assert np.array_equal(space.points, swapped.points)
    assert np.array_equal(space.places[0], swapped.places[1])


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    x, y = cloud(3000, 20, 0, np.float32), cloud(3000, 20, 1, np.float32)
    several = space_of(x, y)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    alone = space_of(x, y)
    assert np.array_equal(several.points, alone.points)
    assert all(np.array_equal(a, b) for a, b in zip(several.bins, alone.bins, strict=True))


@pytest.mark.parametrize("scale", [3.0, 1e30, 1e-30, 1e300, 1e-300, 1e-310])
def test_units_of_measurement_do_not_matter(scale):
    x, y = cloud(40, 4, 0), cloud(40, 4, 1)
    factor = np.array([1.0, scale, 1.0, scale])
    space, scaled = space_of(x, y), space_of(x * factor, y * factor)
    rough = 1e-2 if scale == 1e-310 else 1e-7  # numbers below 1e-308 have few digits
    a, b = (np.concatenate(one.places) for one in (space, scaled))
    assert scaled.columns[b] == approx(space.columns[a], abs=rough)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_constant_columns_are_left_out_whatever_their_value(dtype):
    x, y = (cloud(30, 3, seed).astype(dtype) for seed in (0, 1))
    level = np.full((30, 2), 7.3, dtype)
    space = space_of(np.concatenate([x, level], axis=1), np.concatenate([y, level], axis=1))
    assert (space.columns[:, 3:] == 0).all()
    assert space.points.shape[1] == 3
    assert space.columns.dtype == np.float64  # few samples; see below for many


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_many_samples_keep_their_precision(dtype, monkeypatch):
    monkeypatch.setattr("mallow.evidence._space._FEW", 100)
    x, y = (cloud(30, 3, seed).astype(dtype) for seed in (0, 1))
    assert space_of(x[:5], y[:5]).columns.dtype == np.float64
    assert space_of(x, y).columns.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert space_of(x[:5], y[:5], x[5:10]).columns.dtype == np.float64  # two systems, each few with the reference


def test_a_column_that_is_far_from_0_is_not_constant():
    x, y = cloud(50, 2, 0), cloud(50, 2, 1)
    space, far = space_of(x, y), space_of(x + 1e6, y + 1e6)
    assert far.columns[np.concatenate(far.places)] == approx(space.columns[np.concatenate(space.places)], abs=1e-6)


def test_rows_that_are_all_equal_have_no_coordinates():
    space = space_of(np.ones((6, 3)), np.ones((5, 3)))
    assert space.points.shape == (11, 1)
    assert not space.points.any()
    assert not space.variances.any()


def test_bins_are_the_same_for_equal_rows_and_follow_the_number_of_distinct_ones():
    x, y = cloud(100, 3, 0), cloud(100, 3, 1)
    space = space_of(x, y)
    assert [int(own.max()) + 1 for own in space.bins] == [7, 10]
    assert [own.shape for own in space.bins] == [(8, 200), (8, 200)]
    names = [str(i % 100) for i in range(200)]
    twice = space_of(np.concatenate([x, x]), np.concatenate([y, y]), ids=(names, names))
    assert [int(own.max()) + 1 for own in twice.bins] == [7, 10]
    for labels in twice.bins:
        assert np.array_equal(labels[:, twice.places[0][:100]], labels[:, twice.places[0][100:]])


def test_the_number_of_bins_does_not_depend_on_the_sides_of_copies():
    # Otherwise it would tell the sides apart, and a permutation test would not be exact.
    rows = np.random.default_rng(0).integers(30, size=(160, 1)) * [1.0, 0.5]
    apart = np.sort(rows, axis=0)  # few kinds are on both sides
    assert space_of(rows[:80], rows[80:]).pair == space_of(apart[:80], apart[80:]).pair == 30
