"""Bins and products in blocks, against their definitions."""

import math

import numpy as np
import pytest
from pytest import approx

from mallow.evidence import _blocks
from mallow.evidence import _space as _partitions
from mallow.evidence._blocks import at_once, each_block, multiply, sum_blocks
from mallow.evidence._space import find_centres, find_partitions, label_points, leading_axes, membership


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
