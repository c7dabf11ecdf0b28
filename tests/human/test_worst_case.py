"""Worst-case Spearman: the same as all 2^n signs, quick for many systems, and the paper's numbers."""

import itertools
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.stats import spearmanr

import mallow.human._rank_correlations as worst_case
from mallow import InputError
from mallow.human import worst_case_spearman

TENTHS = st.integers(0, 8).map(lambda value: value / 10)  # with many ties, and sums that are not exact in binary
FREE = st.floats(-1, 1).map(lambda value: round(value, 6))


def of_all_signs(mean, std, target):
    """The definition (eq:worse-case-spearman), with values rounded to nine decimals so that 0.1 + 0.2 equals 0.3."""
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant input
        for signs in itertools.product((-1, 1), repeat=len(mean)):
            moved = np.round(np.array(mean) + np.array(signs) * np.array(std), 9)
            values.append(spearmanr(moved, target)[0])
    return np.nanmin(values) if not np.isnan(values).all() else None


@st.composite
def problems(draw, most=7):
    n = draw(st.integers(2, most))
    kind = draw(st.sampled_from([TENTHS, FREE]))
    mean, target = (draw(st.lists(kind, min_size=n, max_size=n)) for _ in range(2))
    std = draw(st.lists(kind.map(abs), min_size=n, max_size=n))
    return mean, std, target


@given(problems())
def test_it_is_the_minimum_over_all_signs(problem):
    mean, std, target = problem
    if len(set(target)) == 1:
        return
    expected = of_all_signs(mean, std, target)
    if expected is not None:
        assert worst_case_spearman(mean, std, target) == approx(expected, abs=1e-9)


@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_it_is_the_minimum_for_ten_systems(seed):
    rng = np.random.default_rng(seed)
    mean, std, target = rng.integers(0, 12, 10) / 10, rng.integers(0, 6, 10) / 10, rng.integers(0, 9, 10)
    assert worst_case_spearman(mean, std, target) == approx(of_all_signs(mean, std, target), abs=1e-9)


@given(problems(most=6))
def test_branching_changes_nothing(problem):
    """Where many intervals overlap, one is tried both ways; here already where two overlap, and no sign is fixed before."""
    mean, std, target = problem
    if len(set(target)) == 1:
        return
    try:
        expected = worst_case_spearman(mean, std, target)
    except InputError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worst_case, "_DEEP", 0.5)
        assert worst_case_spearman(mean, std, target) == approx(expected, abs=1e-12)
        patch.setattr(worst_case, "_fix_clear_signs", lambda low, high, *_: (low, high))
        assert worst_case_spearman(mean, std, target) == approx(expected, abs=1e-12)


@given(problems())
def test_it_is_at_most_the_correlation_of_any_signs(problem):
    mean, std, target = problem
    if len(set(target)) == 1 or len(set(mean)) == 1:
        return
    still = worst_case_spearman(mean, [0.0] * len(mean), target)
    assert still == approx(spearmanr(mean, target)[0], abs=1e-9)
    moved = [a + s for a, s in zip(mean, std, strict=True)]
    if len({round(value, 9) for value in moved}) > 1:
        assert worst_case_spearman(mean, std, target) <= spearmanr(np.round(moved, 9), target)[0] + 1e-9


@given(st.permutations(range(6)), st.integers(0, 10**6))
def test_the_order_of_the_systems_does_not_matter(order, seed):
    rng = np.random.default_rng(seed)
    mean, std, target = rng.normal(size=6), abs(rng.normal(size=6)), rng.normal(size=6)
    again = worst_case_spearman(mean[order], std[order], target[order])
    assert again == approx(worst_case_spearman(mean, std, target), abs=1e-12)


@pytest.mark.parametrize("width", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("digits", [1, 8])
def test_thirty_systems_are_quick(width, digits):
    rng = np.random.default_rng(3)
    mean, target = rng.normal(size=30), rng.normal(size=30)
    std = width * rng.uniform(0.5, 1.5, size=30)
    begin = time.perf_counter()
    value = worst_case_spearman(mean.round(digits), std.round(digits), target)
    assert time.perf_counter() - begin < 2
    tries = np.sign(rng.normal(size=(300, 30)))
    assert (
        value <= min(spearmanr((mean.round(digits) + t * std.round(digits)).round(9), target)[0] for t in tries) + 1e-9
    )


@pytest.mark.parametrize("target", [np.arange(30), np.arange(30) % 2, np.arange(30) % 7])
def test_equal_intervals_are_quick(target):
    """Thirty systems with one mean and one deviation: no sign is clear, and all orders of two values are possible."""
    begin = time.perf_counter()
    value = worst_case_spearman(np.zeros(30), np.ones(30), target)
    assert time.perf_counter() - begin < 2
    ranks = np.sort(target)[::-1]
    halves = [spearmanr(np.arange(30) >= low, ranks)[0] for low in range(1, 30)]  # the lowest targets on top
    assert value == approx(min(halves))


def test_decimals_are_compared_as_decimals():
    """0.1 + 0.2 and 0.3 are one value: the tie that they make is the worst case."""
    assert worst_case_spearman([0.1, 0.3, 0.9], [0.2, 0.0, 0.0], [1, 2, 3]) == approx(3**0.5 / 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [0, 0, 0], [1, 2]), "`mean`, `std` and `target` must have one entry per system; got 2, 3 and 2"),
        (([1], [0], [1]), "`mean` must hold at least 2 systems"),
        (([1, 2], [0, -1], [1, 2]), "`std` must hold standard deviations of at least 0; got -1"),
        (([1, 2], [0, 0], [3, 3]), "`target` must not be the same for all systems"),
        (([1, 1], [0, 0], [1, 2]), "`mean` and `std` give every system the same value"),
        (([1, float("nan")], [0, 0], [1, 2]), "`mean` must hold finite numbers; got nan"),
        (([[1, 2]], [0, 0], [1, 2]), "`mean` must be a sequence with one number per system; got shape \\(1, 2\\)"),
        ((["a", "b"], [0, 0], [1, 2]), "`mean` must be an array of real numbers"),
    ],
)
def test_mistakes_are_told(arguments, message):
    with pytest.raises(InputError, match=message):
        worst_case_spearman(*arguments)
