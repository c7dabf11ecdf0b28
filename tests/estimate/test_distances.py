"""What nearest neighbours and kernels share: exact symmetry, any order, features or distances, the edges."""

import re
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx
from scipy.spatial.distance import cdist

from estimate_truths import HUMPS_2D, SHIFTED, SHIFTED_WIDER, assert_same, errors, log_ratios
from mallow import InputError, area, frontier, integral
from mallow.estimate import KernelDensity, Neighbors, Reduce

PLAIN = [Neighbors(reduce=None, pooled=False), KernelDensity(reduce=None, pooled=False)]  # as published
VARIED = [
    *PLAIN,
    Neighbors(7, reduce=None, pooled=False),
    KernelDensity(0.7, reduce=None, pooled=False),
    Neighbors(pooled=False),
    KernelDensity(pooled=False),
]


@pytest.mark.parametrize("estimator", PLAIN, ids=["neighbors", "kernels"])
def test_in_two_dimensions_with_uneven_samples(estimator):
    few, many = (errors(estimator, HUMPS_2D, n, seeds=2, m=n // 2) for n in (300, 3000))
    assert many[1] < few[1]
    assert many[1] < 0.07


@pytest.mark.parametrize("estimator", VARIED, ids=repr)
def test_swapping_the_samples_swaps_the_masses(estimator):
    x, y = SHIFTED_WIDER.draw(150, 90, np.random.default_rng(0))
    assert_same(estimator(y, x), estimator(x, y).swap())


@pytest.mark.parametrize("estimator", VARIED, ids=repr)
def test_the_order_of_the_rows_does_not_matter(estimator):
    rng = np.random.default_rng(1)
    x, y = SHIFTED_WIDER.draw(150, 90, rng)
    order_x, order_y = rng.permutation(150), rng.permutation(90)
    masses, other = estimator(x, y), estimator(x[order_x], y[order_y])
    assert other.p == approx(np.concatenate([masses.p[:90][order_y], masses.p[90:][order_x]]), rel=1e-12)


@pytest.mark.parametrize("estimator", VARIED[:4], ids=repr)
@pytest.mark.parametrize("unit", [1e-180, 1.0, 1e180])
def test_distances_give_the_same_as_features(estimator, unit):
    x, y = SHIFTED_WIDER.draw(80, 60, np.random.default_rng(4))
    pooled = np.concatenate([x, y])
    distances = cdist(pooled, pooled) * unit
    if getattr(estimator, "bandwidth", None):
        estimator_there = replace(estimator, bandwidth=estimator.bandwidth * unit)
    else:
        estimator_there = estimator
    assert_same(estimator_there.from_distances(distances, 80), estimator(x, y), 1e-9)


def test_whole_numbers_and_half_precision_are_distances():
    x = np.array([0.0, 1.0, 3.0, 6.0, 2.0, 5.0, 9.0])[:, None]
    distances = np.abs(x - x.T)
    expected = Neighbors(3, reduce=None)(x[:4], x[4:])
    for kind in (np.int16, np.float16, np.float32):
        assert_same(Neighbors(3).from_distances(distances.astype(kind), 4), expected)


@pytest.mark.parametrize("estimator", VARIED[:3], ids=repr)
def test_far_samples_have_ratios_0_and_infinity(estimator):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(60, 2)), rng.normal(1e6, 1.0, size=(60, 2))
    ratio = log_ratios(estimator(x, y))
    assert (ratio[:60] > 1e3).all()
    assert (ratio[60:] < -1e3).all()
    curve = frontier(estimator(x, y))  # at points of Q alone, what Q misses is not seen: f_λ(0) = 1 − λ, not log 1/λ
    assert curve.p_to_mix == approx(1 - curve.lam)
    assert curve.q_to_mix == approx(curve.lam)


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_a_sample_cannot_be_told_from_itself(k):
    x = np.random.default_rng(6).normal(size=(100, 12))
    for reduce in (None, Reduce(dimension=10), Reduce()):
        assert area(Neighbors(k, reduce=reduce)(x, x), scale=10) == 1.0
        assert area(KernelDensity(reduce=reduce)(x, x), scale=10) == 1.0


@pytest.mark.parametrize("estimator", PLAIN, ids=["neighbors", "kernels"])
def test_samples_without_variance(estimator):
    one, other = np.ones((10, 3)), np.full((10, 3), 2.0)
    assert area(estimator(one, one), scale=10) == 1.0
    assert integral(estimator(one, other)) == approx(2 / 3)  # disjoint
    assert area(replace(estimator, reduce=Reduce(dimension=2))(one, one), scale=10) == 1.0


def test_the_same_object_serves_all_repeats():
    for estimator in PLAIN:
        prepared = estimator.prepare(*SHIFTED.draw(30, 30, np.random.default_rng(0)))
        assert estimator.masses(prepared, 1) is estimator.masses(prepared, np.random.default_rng(2))
        assert estimator.deterministic
    assert repr(Neighbors(5)) == "Neighbors(neighbors=5, reduce=Reduce(dimension=10, normalise=True), pooled=True)"
    assert repr(KernelDensity(reduce=None)) == "KernelDensity(bandwidth=None, reduce=None, pooled=True)"
    assert Neighbors.scale == KernelDensity.scale == 10


@pytest.mark.parametrize(
    "estimator", [Neighbors(neighbors=5, reduce=None), KernelDensity(reduce=None)], ids=["neighbors", "kernels"]
)
def test_pooled_masses_see_what_is_missed(estimator):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(50.0, 1.0, size=(60, 2))
    assert integral(estimator(x, y)) == pytest.approx(1, abs=1e-6)
    assert integral(estimator(x, x.copy())) == pytest.approx(0, abs=1e-9)
    assert "pooled=True" in repr(estimator)


GOOD = cdist(np.arange(6.0)[:, None], np.arange(6.0)[:, None])


def changed(place, value):
    matrix = GOOD.copy()
    matrix[place] = value
    return matrix


@pytest.mark.parametrize("estimator", PLAIN, ids=["neighbors", "kernels"])
@pytest.mark.parametrize(
    ("distances", "n", "message"),
    [
        ([["a"]], 3, "`distances` must be an array of numbers"),
        (GOOD[:5], 3, "`distances` must be a square matrix, from each of the n + m samples to each; got shape (5, 6)."),
        (GOOD, 1, "`n` must be an integer of at least 2; got 1."),
        (GOOD, 5, "`n` must leave at least 2 of the 6 samples for the model; got 5. It is the number of reference"),
        (changed((0, 1), np.nan), 3, "`distances` must be finite; got nan at index (0, 1)."),
        (changed((0, 1), -1.0), 3, "`distances` must not be negative; got -1.0 at index (0, 1)."),
        (changed((2, 2), 1.0), 3, "`distances` must be 0 from each sample to itself; got 1.0 for sample 2."),
        (changed((0, 1), 3.0), 3, "`distances` must be symmetric; entry (0, 1) and its mirror differ by 2."),
    ],
)
def test_bad_distances_are_refused(estimator, distances, n, message):
    with pytest.raises(InputError, match=re.escape(message)):
        estimator.from_distances(distances, n)
