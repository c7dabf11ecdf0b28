"""Nearest neighbours and kernel densities: near known truths, exactly symmetric, order-free, right at the edges."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx
from scipy.spatial.distance import cdist

from estimate_truths import HUMPS, HUMPS_2D, SAME, SHIFTED, SHIFTED_WIDER, TILTED, errors
from mallow import EstimateWarning, InputError, area, frontier, integral
from mallow.estimate import _neighbors as module
from mallow.estimate._neighbors import KernelDensity, Neighbors
from mallow.estimate._reduce import Reduce

PLAIN = [Neighbors(reduce=None), KernelDensity(reduce=None)]
VARIED = [*PLAIN, Neighbors(7, reduce=None), KernelDensity(0.7, reduce=None), Neighbors(), KernelDensity()]


def by_definition(x, y, k):
    """log r at all points, the plain way: sort, count, share ties."""
    pooled = np.concatenate([x, y])
    found = []
    for row in np.sqrt(((pooled[:, None] - pooled) ** 2).sum(axis=-1)):
        reach = np.sort(row)[k - 1]
        tied = np.isclose(row, reach, rtol=1e-12, atol=1e-12)
        inner = (row < reach) & ~tied
        places = (k - inner.sum()) / tied.sum()
        of_p = np.arange(len(row)) < len(x)
        near_p, near_q = ((inner & side).sum() + places * (tied & side).sum() for side in (of_p, ~of_p))
        with np.errstate(divide="ignore"):
            found.append(np.log(near_p / len(x)) - np.log(near_q / len(y)))
    return np.array(found)


def log_ratios(masses):
    """log r at the points of P, then at those of Q."""
    m = masses.split
    with np.errstate(divide="ignore"):
        return np.concatenate([np.log(masses.p[m:] / masses.q[m:]), np.log(masses.p[:m] / masses.q[:m])])


def same(one, other, tolerance=1e-12):
    assert one.split == other.split
    assert one.p == approx(other.p, rel=tolerance, abs=1e-300)
    assert one.q == approx(other.q, rel=tolerance, abs=1e-300)


# --- near the truth


@pytest.mark.parametrize("pair", [SHIFTED, HUMPS, SAME], ids=["shifted", "humps", "same"])
def test_neighbours_come_near_the_truth(pair):
    few, many = errors(PLAIN[0], pair, 250, seeds=4), errors(PLAIN[0], pair, 3000, seeds=1)
    assert (many < few * 0.7 + 0.003).all()
    assert many[0] < 0.09
    assert many[1] < 0.02


def test_neighbours_are_near_at_all_sizes_where_their_errors_cancel():
    # Noise raises the estimate and blur lowers it: here they cancel at n = 250 already.
    assert all(errors(PLAIN[0], TILTED, n)[1] < 0.04 for n in (250, 1000))


@pytest.mark.parametrize("pair", [SHIFTED, SHIFTED_WIDER, TILTED, SAME], ids=["shifted", "wider", "tilted", "same"])
def test_kernels_come_near_the_truth(pair):
    few, many = errors(PLAIN[1], pair, 250, seeds=4), errors(PLAIN[1], pair, 3000, seeds=1)
    assert (many < few * 0.8).all()
    assert many[1] < 0.03


@pytest.mark.parametrize("estimator", PLAIN, ids=["neighbors", "kernels"])
def test_in_two_dimensions_with_uneven_samples(estimator):
    few, many = (errors(estimator, HUMPS_2D, n, seeds=2, m=n // 2) for n in (300, 3000))
    assert many[1] < few[1]
    assert many[1] < 0.07


# --- exactly symmetric and order-free


@pytest.mark.parametrize("estimator", VARIED, ids=repr)
def test_swapping_the_samples_swaps_the_masses(estimator):
    x, y = SHIFTED_WIDER.draw(150, 90, np.random.default_rng(0))
    same(estimator(y, x), estimator(x, y).swap())


@pytest.mark.parametrize("estimator", VARIED, ids=repr)
def test_the_order_of_the_rows_does_not_matter(estimator):
    rng = np.random.default_rng(1)
    x, y = SHIFTED_WIDER.draw(150, 90, rng)
    order_x, order_y = rng.permutation(150), rng.permutation(90)
    masses, other = estimator(x, y), estimator(x[order_x], y[order_y])
    assert other.p == approx(np.concatenate([masses.p[:90][order_y], masses.p[90:][order_x]]), rel=1e-12)


lattices = st.integers(1, 3).flatmap(
    lambda d: st.tuples(
        *[hnp.arrays(np.int8, st.tuples(st.integers(2, 12), st.just(d)), elements=st.integers(0, 2))] * 2
    )
)


@settings(max_examples=40)
@given(pair=lattices, k=st.integers(2, 4), seed=st.integers(0, 3))
def test_ties_and_duplicates_are_shared_whatever_the_order(pair, k, seed):
    x, y = (side.astype(float) for side in pair)
    k = min(k, len(x), len(y))
    estimator = Neighbors(k, reduce=None)
    masses = estimator(x, y)
    assert log_ratios(masses) == approx(by_definition(x, y, k), abs=1e-9)
    same(estimator(y, x), masses.swap())
    order = np.random.default_rng(seed).permutation(len(x))
    assert estimator(x[order], y).p[len(y) :] == approx(masses.p[len(y) :][order])
    assert estimator(x[order], y).q[len(y) :] == approx(masses.q[len(y) :][order])
    # A rotation leaves distances as they are, but for rounding.
    same(Neighbors(k, reduce=Reduce(variance=1.0, normalise=False))(x, y), masses, 1e-9)


@settings(max_examples=25)
@given(
    st.integers(2, 30),
    hnp.arrays(np.float64, (45, 3), elements=st.floats(-3, 3, width=16)),
    st.sampled_from([1e-200, 1.0, 1e200]),
)
def test_neighbours_are_those_of_the_definition(k, points, unit):
    x, y = points[:25], points[25:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ENTRIES", 100)  # several blocks
        patch.setattr(module, "_SPARE", 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EstimateWarning)  # more neighbours than points of a sample
            masses = Neighbors(k, reduce=None)(x * unit, y * unit)
    assert log_ratios(masses) == approx(by_definition(x, y, k), abs=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_fast_search_finds_what_sorting_finds(offset):
    x, y = HUMPS_2D.draw(200, 150, np.random.default_rng(2))
    x, y = x + offset, y + offset
    for k in (2, 5, 40):
        assert log_ratios(Neighbors(k, reduce=None)(x, y)) == approx(by_definition(x, y, k), abs=1e-9)


def test_ties_beyond_the_candidates_of_the_search_are_counted():
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2)
    points = np.random.default_rng(11).permutation(grid)
    x, y = points[:80], points[80:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SPARE", 1)  # 4 candidates for 4 points tied behind the point itself
        masses = Neighbors(3, reduce=None)(x, y)
    assert log_ratios(masses) == approx(by_definition(x, y, 3), abs=1e-9)


def test_kernels_are_those_of_the_definition():
    x, y = HUMPS_2D.draw(40, 30, np.random.default_rng(3))
    h = 0.8
    kernel = np.exp(-cdist(np.concatenate([x, y]), np.concatenate([x, y]), "sqeuclidean") / (2 * h * h))
    np.fill_diagonal(kernel, 0.0)
    of_p = np.arange(70) < 40
    expected = np.log(kernel[:, :40].sum(axis=1) / np.where(of_p, 39, 40))
    expected -= np.log(kernel[:, 40:].sum(axis=1) / np.where(of_p, 30, 29))
    assert log_ratios(KernelDensity(h, reduce=None)(x, y)) == approx(expected, abs=1e-9)
    big = KernelDensity(h * 1e200, reduce=None)(x * 1e200, y * 1e200)
    assert log_ratios(big) == approx(expected, abs=1e-9)


# --- distances


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
    same(estimator_there.from_distances(distances, 80), estimator(x, y), 1e-9)


def test_whole_numbers_and_half_precision_are_distances():
    x = np.array([0.0, 1.0, 3.0, 6.0, 2.0, 5.0, 9.0])[:, None]
    distances = np.abs(x - x.T)
    expected = Neighbors(3, reduce=None)(x[:4], x[4:])
    for kind in (np.int16, np.float16, np.float32):
        same(Neighbors(3).from_distances(distances.astype(kind), 4), expected)


def test_all_points_equally_far_have_a_bandwidth():
    distances = 1.0 - np.eye(12)
    assert area(KernelDensity().from_distances(distances, 6), scale=10) == approx(1.0)


# --- edges


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


def test_a_sample_of_few_points_repeated():
    x, y = np.repeat([[0.0], [1.0]], [30, 10], axis=0), np.repeat([[0.0], [1.0]], [10, 30], axis=0)
    masses = Neighbors(5, reduce=None)(x, y)  # within its atoms, each neighbourhood is a fair sample
    assert np.unique(np.round(log_ratios(masses), 9)) == approx([-np.log(3), np.log(3)])


@pytest.mark.parametrize("estimator", PLAIN, ids=["neighbors", "kernels"])
def test_samples_without_variance(estimator):
    one, other = np.ones((10, 3)), np.full((10, 3), 2.0)
    assert area(estimator(one, one), scale=10) == 1.0
    assert integral(estimator(one, other)) == approx(2 / 3)  # disjoint
    assert area(replace(estimator, reduce=Reduce(dimension=2))(one, one), scale=10) == 1.0


def test_a_copy_in_the_other_sample_is_left_out_like_the_point_itself():
    x = np.random.default_rng(9).normal(size=(50, 2))
    y = np.concatenate([x[:25], np.random.default_rng(10).normal(size=(25, 2))])
    without = np.random.default_rng(9).normal(size=(50, 2))[1:]
    at_copy = log_ratios(KernelDensity(0.8, reduce=None)(x, y))[50]
    squared_x, squared_y = (((side - x[0]) ** 2).sum(axis=1) for side in (without, y[1:]))
    kernels = [np.exp(-each / (2 * 0.8**2)).mean() for each in (squared_x, squared_y)]
    assert at_copy == approx(np.log(kernels[0] / kernels[1]))


def test_a_narrow_kernel_knows_only_the_nearest():
    x, y = np.array([0.0, 1.0, 2.0]), np.array([0.1, 1.1, 2.1])
    with pytest.warns(EstimateWarning, match="mean likelihood ratio is inf"):
        masses = KernelDensity(1e-200, reduce=None)(x, y)
    assert not np.isnan(masses.p).any()
    assert not np.isnan(masses.q).any()


def test_all_neighbours_make_all_ratios_1():
    x, y = SHIFTED.draw(20, 10, np.random.default_rng(7))
    with pytest.warns(EstimateWarning, match="30 neighbours are more than the 10 points of the smaller sample"):
        assert area(Neighbors(30, reduce=None)(x, y), scale=10) == approx(1.0)


def test_isolated_points_are_reported():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(200, 2)), np.concatenate([rng.normal(size=(199, 2)), [[5.0, 5.0]]])
    x[0] = [5.3, 5.0]
    with pytest.warns(
        EstimateWarning, match=r"mean likelihood ratio is .* where it should be 1.*wider `bandwidth` than 0.3"
    ):
        KernelDensity(0.3, reduce=None)(x, y)


def test_the_default_number_of_neighbours():
    assert Neighbors().neighbors_for(5000, 9000) == 71
    assert Neighbors().neighbors_for(2, 2) == 2


def test_the_same_object_serves_all_repeats():
    for estimator in PLAIN:
        prepared = estimator.prepare(*SHIFTED.draw(30, 30, np.random.default_rng(0)))
        assert estimator.masses(prepared, 1) is estimator.masses(prepared, np.random.default_rng(2))
        assert estimator.deterministic
    assert repr(Neighbors(5)) == "Neighbors(neighbors=5, reduce=Reduce(dimension=10, normalise=True), pooled=False)"
    assert repr(KernelDensity(reduce=None)) == "KernelDensity(bandwidth=None, reduce=None, pooled=False)"
    assert Neighbors.scale == KernelDensity.scale == 10


# --- what a user reads

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
        (GOOD[:5], 3, "`distances` must be a square matrix, from all n + m samples to all; got shape (5, 6)."),
        (GOOD, 1, "`n` must be an integer of at least 2; got 1."),
        (GOOD, 5, "`n` must leave at least 2 of the 6 samples to the model; got 5."),
        (changed((0, 1), np.nan), 3, "`distances` must be finite; got nan at index (0, 1)."),
        (changed((0, 1), -1.0), 3, "`distances` must not be negative; got -1.0 at index (0, 1)."),
        (changed((2, 2), 1.0), 3, "`distances` must be 0 from each sample to itself; got 1.0 for sample 2."),
        (changed((0, 1), 3.0), 3, "`distances` must be symmetric; entry (0, 1) and its mirror differ by 2."),
    ],
)
def test_what_is_no_matrix_of_distances_is_refused(estimator, distances, n, message):
    with pytest.raises(InputError, match=re.escape(message)):
        estimator.from_distances(distances, n)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Neighbors(1), "`neighbors` must be an integer of at least 2; got 1."),
        (lambda: Neighbors(2.5), "`neighbors` must be an integer of at least 2; got 2.5."),
        (lambda: KernelDensity(0), "`bandwidth` must be a finite number above 0; got 0. Pass bandwidth=None"),
        (lambda: KernelDensity(-1.0), "`bandwidth` must be a finite number above 0; got -1.0."),
        (
            lambda: Neighbors(21)(np.zeros((10, 2)), np.ones((10, 2))),
            "`neighbors` must be at most n + m = 20 points; got 21.",
        ),
        (lambda: Neighbors()(np.zeros((10, 2)), np.ones((10, 3))), "features of the same width; got 2 and 3."),
        (
            lambda: KernelDensity()(np.zeros((1, 2)), np.ones((10, 2))),
            "`reference` must hold at least 2 samples; got 1.",
        ),
        (lambda: KernelDensity(reduce=None)(np.zeros((9, 2)), np.full((9, 2), np.nan)), "`model` must be finite"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    "estimator", [Neighbors(neighbors=5, reduce=None, pooled=True), KernelDensity(reduce=None, pooled=True)]
)
def test_pooled_masses_see_what_is_missed(estimator):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(50.0, 1.0, size=(60, 2))
    assert integral(estimator(x, y)) == pytest.approx(1, abs=1e-6)
    assert integral(estimator(x, x.copy())) == pytest.approx(0, abs=1e-9)
    assert "pooled=True" in repr(estimator)
