"""Smoothing: hand-computed values, rows that sum to one, leading axes, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from mallow import InputError, smoothing

EVERY = [getattr(smoothing, name) for name in smoothing.__all__]
SMOOTHED = [f for f in EVERY if f is not smoothing.empirical]

shapes = st.tuples(st.integers(1, 4), st.integers(1, 12))
counts = hnp.arrays(np.int64, shapes, elements=st.integers(0, 30)).filter(lambda array: (array.sum(axis=-1) > 0).all())


@pytest.mark.parametrize("estimator", EVERY)
@given(counts)
def test_rows_are_distributions_and_rows_do_not_mix(estimator, array):
    masses = estimator(array)
    assert masses.shape == array.shape
    assert masses.sum(axis=-1) == approx(np.ones(len(array)))
    assert (masses >= 0).all()
    assert masses == approx(np.stack([estimator(row) for row in array]))


@pytest.mark.parametrize("estimator", SMOOTHED)
@given(counts)
def test_smoothing_leaves_no_bin_empty_and_treats_equal_counts_alike(estimator, array):
    smoothed = estimator(array)
    assert (smoothed > 0).all()
    for row, masses in zip(array, smoothed, strict=True):
        for count in np.unique(row):
            assert np.ptp(masses[row == count]) == 0


def test_values_by_hand():  # paper: tab:add_const and the text of fig:main:smoothing:new
    array = [0, 0, 1, 1, 1, 2, 5]
    assert smoothing.empirical(array) == approx(np.array([0, 0, 1, 1, 1, 2, 5]) / 10)
    assert smoothing.laplace(array) == approx(np.array([1, 1, 2, 2, 2, 3, 6]) / 17)
    assert smoothing.krichevsky_trofimov(array) == approx(np.array([1, 1, 3, 3, 3, 5, 11]) / 27)
    expected = np.array([0.5, 0.5, 2, 2, 2, 2.75, 5.75])
    assert smoothing.braess_sauer(array) == approx(expected / expected.sum())
    # φ₀ = 2, φ₁ = 3, φ₂ = 1, φ₅ = 1: t = 0 and t = 1 do not exceed φ_{t+1}, t = 2 and t = 5 do.
    expected = np.array([4 * 1 / 2, 4 * 1 / 2, 2 * 2 / 3, 2 * 2 / 3, 2 * 2 / 3, 2, 5])
    assert smoothing.good_turing(array) == approx(expected / expected.sum())
    expected = np.array([1.25, 1.25, 0.5, 0.5, 0.5, 1.5, 4.5]) / 10
    assert smoothing.absolute_discounting(array, 0.5) == approx(expected)
    assert smoothing.absolute_discounting([3, 1], 0.5) == approx([0.75, 0.25])


@pytest.mark.parametrize("estimator", EVERY)
@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([1, -1], r"`counts` must not be negative; got -1 at index 1"),
        ([0.5, 1], r"`counts` must be whole numbers; got 0.5 at index 0"),
        ([1, np.nan], r"`counts` must be finite; got nan at index 1"),
        ([[1, 2], [0, 0]], r"at least one sample, but all bins are empty in row 1"),
        ([], r"`counts` must not be empty; got shape \(0,\)"),
        (3, r"`counts` must have at least one axis .* got a scalar"),
        (["a"], r"`counts` must be an array of real numbers; got dtype"),
        ([[1], [1, 2]], r"`counts` must be a rectangular array of numbers"),
    ],
)
def test_bad_counts_are_refused(estimator, array, message):
    with pytest.raises(InputError, match=message):
        estimator(array)


def test_bad_constants_are_refused():
    with pytest.raises(InputError, match=r"`constant` must be a finite number above 0; got 0"):
        smoothing.add_constant([1, 2], 0)
    with pytest.raises(InputError, match=r"`discount` must lie strictly between 0 and 1; got 1.0"):
        smoothing.absolute_discounting([1, 2], 1.0)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        ([2, 2], [2, 2]),  # t = 2 > φ₃ = 0
        ([1, 2, 2, 2], [(3 + 1) * 2 / 1, 2, 2, 2]),  # t = 1 ≤ φ₂ = 3
        ([1, 3, 3], [1, 3, 3]),  # 2 does not occur: φ₂ = 0
        ([0, 1], [(1 + 1) * 1 / 1, 1]),
        ([1, 2], [(1 + 1) * 2 / 1, 2]),  # t = 1 is not above φ₂ = 1
    ],
)
def test_good_turing_masses_by_hand(array, expected):
    assert smoothing.good_turing(array) == approx(np.array(expected) / sum(expected))


def test_discounting_takes_from_all_that_are_occupied_and_gives_to_all_that_are_empty():
    assert smoothing.absolute_discounting([4, 0, 0], 0.3) == approx([3.7 / 4, 0.15 / 4, 0.15 / 4])
    assert smoothing.absolute_discounting([4, 2, 0]) == approx([3.5 / 6, 1.5 / 6, 1 / 6])
    rows = smoothing.absolute_discounting([[1, 1], [2, 0]], 0.5)
    assert rows == approx(np.array([[0.5, 0.5], [0.75, 0.25]]))
    assert smoothing.add_constant([3, 1]) == approx([3.5 / 5, 1.5 / 5])
    assert smoothing.braess_sauer([0, 1, 2, 3]) == approx(np.array([0.5, 2, 2.75, 3.75]) / 9)
