"""Precision, recall, density and coverage: the definition by all distances, ties, expectations, direction."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from baselines.feature_samples import clouds, normal, ordinary, precision_recall_by_definition, same
from mallow.baselines import _points, precision_recall
from mallow.baselines import _precision_recall as module
from mallow.errors import InputError


@given(pair=clouds(), k=st.integers(1, 7))
def test_with_ties_and_duplicates_it_equals_the_definition(pair, k):
    assert same(precision_recall(*pair, neighbors=k), precision_recall_by_definition(*pair, k))


@given(pair=clouds(ordinary), k=st.integers(1, 7))
def test_it_equals_the_definition(pair, k):
    # Both take differences, so that rounding decides nothing, not even for 1e-40 beside 100, which hypothesis likes.
    assert same(precision_recall(*pair, neighbors=k), precision_recall_by_definition(*pair, k))


@given(pair=clouds(), k=st.integers(1, 7), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_it_swaps_with_the_sides_and_ignores_order_blocks_and_units(pair, k, seed):
    x, y = pair
    shares, rng = precision_recall(x, y, neighbors=k), np.random.default_rng(seed)
    swapped = precision_recall(y, x, neighbors=k)
    assert (shares.precision, shares.recall) == (swapped.recall, swapped.precision)
    assert precision_recall(rng.permutation(x), rng.permutation(y), neighbors=k) == shares
    for unit in (2.0**-600, 2.0**100):
        assert precision_recall(x * unit, y * unit, neighbors=k) == shares
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TILE", int(rng.integers(1, 60)))
        patch.setattr(module, "_PAIRS", int(rng.integers(1, 20)))
        patch.setattr(module, "ROWS", int(rng.integers(1, 8)))
        patch.setattr(_points, "cores", lambda: 3)
        assert precision_recall(x, y, neighbors=k) == shares


@pytest.mark.parametrize("dense", [1, 64, 10**9], ids=["float32 products", "default", "float64 products"])
@pytest.mark.parametrize("far", [0.0, 1e3, 1e6])
def test_tight_clusters_are_decided_exactly(monkeypatch, dense, far):
    # Clusters of width 1 at a distance of up to 10⁶: float32 products, or even float64 ones, cannot resolve them.
    monkeypatch.setattr(module, "_DENSE", dense)
    centres = far * normal(4, 12, seed=7)
    x, y = (centres[np.arange(240) % 4] + normal(240, 12, seed=seed) for seed in (0, 1))
    for dtype in (np.float32, np.float64):
        a, b = x.astype(dtype), y.astype(dtype)
        assert same(precision_recall(a, b), precision_recall_by_definition(a.astype(float), b.astype(float), 5))


@pytest.mark.parametrize("seed", range(5))
def test_approximate_distances_may_be_off_by_the_whole_bound(monkeypatch, seed):
    x, y = normal(80, 3), normal(70, 3, mean=0.2, seed=1)
    rng = np.random.default_rng(seed)

    def worst(a, rows, b, dtype):
        i, j = np.meshgrid(np.arange(len(a.distinct))[rows], np.arange(len(b.distinct)), indexing="ij")
        exact = module.exact_distances(a, i.ravel(), b, j.ravel()).reshape(i.shape)
        off = a.slack(dtype)[rows, None] + b.slack(dtype)
        return (exact + 0.99 * rng.choice([-1.0, 1.0], i.shape) * off).astype(dtype)

    def wide(cloud, dtype):
        return (0.2 * (1.0 + cloud.norms)).astype(dtype)

    monkeypatch.setattr(module.Cloud, "slack", wide)
    monkeypatch.setattr(module, "approximate_distances", worst)
    assert same(precision_recall(x, y), precision_recall_by_definition(x, y, 5))


def test_a_point_at_the_radius_is_within():
    # The ball around 0 reaches to 1: a model point at −1 is on its edge, one at −1 − 10⁻⁹ is outside.
    x = np.array([[0.0], [1.0], [1.5]])
    for place, expected in ((-1.0, 0.5), (-1.0 - 1e-9, 0.0)):
        assert precision_recall(x, [[place], [90.0]], neighbors=1).precision == expected


def test_duplicates_have_distance_0_and_are_within():
    # Features whose products are rounded.
    x = normal(500, 40, mean=1000.0).astype(np.float32)
    shares = precision_recall(x, x.copy())
    assert (shares.precision, shares.recall, shares.coverage) == (1.0, 1.0, 1.0)
    assert shares == precision_recall(x, x)
    # Each ball contains k + 1 points of its own sample, including its centre and the point on its edge.
    assert shares.density == approx(6 / 5)
    repeated = np.repeat(x[:50], 6, axis=0)  # k + 1 copies of each: radius 0
    assert precision_recall(repeated, x[:50]).precision == 1.0
    assert precision_recall(repeated, x[:50] + np.float32(0.001)).precision == 0.0


def test_expected_density_and_coverage_of_the_same_distribution():
    # Naeem et al. 2020: 1, and 1 − (n − 1)…(n − k) / (2n − 1)…(2n − k), whatever the distribution.
    n, k = 20, 3
    results = [
        precision_recall(normal(n, 2, seed=2 * i), normal(n, 2, seed=2 * i + 1), neighbors=k) for i in range(300)
    ]
    expected = 1 - math.prod((n - i) / (2 * n - i) for i in range(1, k + 1))
    for values, mean in (
        ([shares.density for shares in results], 1.0),
        ([shares.coverage for shares in results], expected),
    ):
        assert abs(np.mean(values) - mean) < 4 * np.std(values) / math.sqrt(len(values))


def test_the_direction_is_the_documented_one():
    # The model generates one of two modes: all of its output is realistic, and half of the reference is missed.
    x = np.concatenate([normal(200, 2), normal(200, 2, mean=50.0, seed=1)])
    shares = precision_recall(x, normal(400, 2, seed=2))
    assert shares.precision > 0.9
    assert shares.recall < 0.6
    assert shares.coverage < 0.6


@pytest.mark.parametrize(
    ("neighbors", "message"),
    [
        (0, "`neighbors` must be an integer of at least 1; got 0"),
        (2.5, "`neighbors` must be an integer of at least 1; got 2.5"),
        (
            10,
            "`neighbors` must be less than the size of the smaller sample, 10; got 10. Pass fewer neighbours or more samples.",
        ),
    ],
)
def test_bad_neighbors_are_refused(neighbors, message):
    with pytest.raises(InputError, match=message):
        precision_recall(normal(12, 2), normal(10, 2), neighbors=neighbors)
