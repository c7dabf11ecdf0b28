"""Nearest neighbours: near known truths, those of the definition, with ties shared, right at the edges."""

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from estimate_truths import HUMPS, HUMPS_2D, SAME, SHIFTED, TILTED, assert_same, errors, log_ratios
from mallow import EstimateWarning, InputError, area
from mallow.estimate import Neighbors, Reduce, _neighbors
from mallow.estimate._row_order import orient

PLAIN = Neighbors(reduce=None)


def by_definition(x, y, k):
    """log r at all points by plain sorting and counting, with ties shared."""
    pooled = np.concatenate([x, y])
    log_ratio = []
    for row in np.sqrt(((pooled[:, None] - pooled) ** 2).sum(axis=-1)):
        reach = np.sort(row)[k - 1]
        tied = np.isclose(row, reach, rtol=1e-12, atol=1e-12)
        inner = (row < reach) & ~tied
        places = (k - inner.sum()) / tied.sum()
        of_p = np.arange(len(row)) < len(x)
        near_p, near_q = ((inner & side).sum() + places * (tied & side).sum() for side in (of_p, ~of_p))
        with np.errstate(divide="ignore"):
            log_ratio.append(np.log(near_p / len(x)) - np.log(near_q / len(y)))
    return np.array(log_ratio)


@pytest.mark.parametrize("pair", [SHIFTED, HUMPS, SAME], ids=["shifted", "humps", "same"])
def test_neighbours_come_near_the_truth(pair):
    few, many = errors(PLAIN, pair, 250, seeds=4), errors(PLAIN, pair, 3000, seeds=1)
    assert (many < few * 0.7 + 0.003).all()
    assert many[0] < 0.09
    assert many[1] < 0.02


def test_neighbours_are_near_at_all_sizes_where_their_errors_cancel():
    # Noise raises the estimate and blur lowers it: here they cancel at n = 250 already.
    assert all(errors(PLAIN, TILTED, n)[1] < 0.04 for n in (250, 1000))


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
    estimator = Neighbors(k, reduce=None, pooled=False)
    masses = estimator(x, y)
    assert log_ratios(masses) == approx(by_definition(x, y, k), abs=1e-9)
    assert_same(estimator(y, x), masses.swap())
    order = np.random.default_rng(seed).permutation(len(x))
    assert estimator(x[order], y).p[len(y) :] == approx(masses.p[len(y) :][order])
    assert estimator(x[order], y).q[len(y) :] == approx(masses.q[len(y) :][order])
    # A rotation leaves distances as they are, but for rounding.
    assert_same(Neighbors(k, reduce=Reduce(variance=1.0, normalise=False), pooled=False)(x, y), masses, 1e-9)


@settings(max_examples=25)
@given(
    st.integers(2, 30),
    hnp.arrays(np.int8, (45, 3), elements=st.integers(-48, 48)),  # on a lattice: a tie is exact, or plainly none
    st.sampled_from([1e-200, 1.0, 1e200]),
)
def test_neighbours_are_those_of_the_definition(k, points, unit):
    x, y = points[:25] / 16, points[25:] / 16
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_neighbors, "ENTRIES", 100)  # several blocks
        patch.setattr(_neighbors, "SPARE", 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EstimateWarning)  # more neighbours than points of a sample
            masses = Neighbors(k, reduce=None, pooled=False)(x * unit, y * unit)
    assert log_ratios(masses) == approx(by_definition(x, y, k), abs=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_fast_search_finds_what_sorting_finds(offset):
    x, y = HUMPS_2D.draw(200, 150, np.random.default_rng(2))
    x, y = x + offset, y + offset
    for k in (2, 5, 40):
        assert log_ratios(Neighbors(k, reduce=None, pooled=False)(x, y)) == approx(by_definition(x, y, k), abs=1e-9)


def test_ties_beyond_the_candidates_of_the_search_are_counted():
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2)
    points = np.random.default_rng(11).permutation(grid)
    x, y = points[:80], points[80:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_neighbors, "SPARE", 1)  # 4 candidates for 4 points tied behind the point itself
        masses = Neighbors(3, reduce=None, pooled=False)(x, y)
    assert log_ratios(masses) == approx(by_definition(x, y, 3), abs=1e-9)


def test_a_sample_of_few_points_repeated():
    x, y = np.repeat([[0.0], [1.0]], [30, 10], axis=0), np.repeat([[0.0], [1.0]], [10, 30], axis=0)
    masses = Neighbors(5, reduce=None, pooled=False)(x, y)  # within its atoms, each neighbourhood is a fair sample
    assert np.unique(np.round(log_ratios(masses), 9)) == approx([-np.log(3), np.log(3)])


def test_all_neighbours_make_all_ratios_1():
    x, y = SHIFTED.draw(20, 10, np.random.default_rng(7))
    with pytest.warns(
        EstimateWarning,
        match="30 neighbours are more than the 10 points of the smaller sample, which forces the ratios towards 1",
    ):
        assert area(Neighbors(30, reduce=None)(x, y), scale=10) == approx(1.0)


@pytest.mark.parametrize("reduce", [None, Reduce(dimension=2, normalise=False)], ids=["all axes", "two axes"])
@pytest.mark.parametrize("pooled", [True, False])
def test_noise_is_drawn_for_each_reduced_feature(reduce, pooled):
    """The definition: the same estimate of points that are blurred after the reduction, in their canonical order."""
    x, y = (side @ np.diag([3.0, 2.0, 0.1]) for side in np.random.default_rng(3).normal(size=(2, 40, 3)))
    y = y[:25] + 0.5
    blurred = Neighbors(6, reduce=reduce, noise=0.7, pooled=pooled)
    samples = orient(*((x, y) if reduce is None else reduce(x, y)))
    points = np.concatenate([samples.points[samples.first], samples.points[samples.second]])
    points = points + 0.7 * np.random.default_rng(5).standard_normal(points.shape)
    size = len(samples.first)
    expected = Neighbors(6, reduce=None, pooled=pooled)(points[:size], points[size:])
    expected = expected.swap() if samples.flipped else expected
    masses = blurred(x, y, rng=5)
    assert np.sort(masses.p) == approx(np.sort(expected.p), rel=1e-9)
    assert np.sort(masses.q) == approx(np.sort(expected.q), rel=1e-9)
    assert_same(blurred(y, x, rng=5), masses.swap())
    assert not np.array_equal(blurred(x, y, rng=6).p, masses.p)
    assert (blurred.deterministic, Neighbors(6).deterministic) == (False, True)
    assert "noise=0.7" in repr(blurred)


def test_more_noise_leaves_less_of_a_gap():  # paper: thm:mauve:knn
    x, y = SHIFTED.draw(400, 300, np.random.default_rng(1))
    areas = [area(Neighbors(30, reduce=None, noise=noise)(x, y), scale=10) for noise in (0.0, 1.0, 4.0, 100.0)]
    assert areas == sorted(areas)
    assert areas[0] < 0.6 < 0.9 < areas[-1]


@pytest.mark.parametrize("noise", [-0.1, math.inf, math.nan, "much", None])
def test_noise_is_a_standard_deviation(noise):
    with pytest.raises(InputError, match=r"`noise` must be a standard deviation, 0 or more; got"):
        Neighbors(noise=noise)


def test_the_default_number_of_neighbours():
    assert Neighbors().neighbors_for(5000, 9000) == 71
    assert Neighbors().neighbors_for(2, 2) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Neighbors(1), "`neighbors` must be an integer of at least 2; got 1."),
        (lambda: Neighbors(2.5), "`neighbors` must be an integer of at least 2; got 2.5."),
        (
            lambda: Neighbors(21)(np.zeros((10, 2)), np.ones((10, 2))),
            "`neighbors` must be at most n + m = 20 points; got 21.",
        ),
        (lambda: Neighbors()(np.zeros((10, 2)), np.ones((10, 3))), "features of the same width; got 2 and 3."),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make()
