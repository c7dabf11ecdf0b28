"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from mallow import Measure, Neighbors, Quantize, Reduce, Samples
from mallow.caveats._counts import count_independent, quantiles_differ, shares_differ

# --- no answer


def test_a_row_of_zeros_has_no_direction():
    from mallow.caveats._estimates import _one_direction

    line = np.outer([1.0, 2.0, 5.0], [1.0, 2.0])
    assert _one_direction([line])
    assert not _one_direction([line, np.zeros((1, 2))])
    assert not _one_direction([np.concatenate([line, np.zeros((1, 2))])])


@pytest.mark.parametrize(("turn", "told"), [(1e-7, True), (5e-6, False), (-1e-7, True), (-5e-6, False)])
def test_directions_that_differ_by_rounding_are_one(turn, told):
    from mallow.caveats._estimates import _one_direction

    assert _one_direction([np.array([[1.0, 0.0], [2.0, 2 * turn]])]) == told
    assert _one_direction([np.array([[1.0, 0.0]]), np.array([[2.0, 2 * turn]])]) == told
    assert not _one_direction([np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]])])


def test_what_scales_rows_to_length_one():
    from mallow.caveats._estimates import ignores_lengths

    x = np.random.default_rng(0).normal(size=(40, 3))
    assert ignores_lengths(mallow.MAUVE_STAR)
    for estimator in (Neighbors(), Quantize(reduce=None), Quantize(reduce=Reduce(normalise=False))):
        assert not ignores_lengths(Measure(estimator))
    for reduce, expected in ((Reduce(), True), (Reduce(normalise=False), False), (None, False)):
        book = Quantize(bins=3, reduce=reduce).fit(x)
        assert ignores_lengths(Measure(Quantize(codebook=book))) == expected  # whatever the estimator's own reduction
        assert ignores_lengths(Measure(Quantize(codebook=book, reduce=None))) == expected


# --- statistics


SHARES = st.floats(0, 1)


SIZES = st.integers(1, 2000)


@given(a=SHARES, b=SHARES, n=SIZES, m=SIZES)
def test_shares_differ_in_either_order_or_in_neither(a, b, n, m):
    assert shares_differ(a, b, n, m) == shares_differ(b, a, m, n)
    assert not shares_differ(a, a, n, m)
    if abs(a - b) <= 0.1:
        assert not shares_differ(a, b, n, m)


def test_a_difference_of_shares_must_be_four_standard_errors():
    # 0.5 ± 0.1 has a standard error of 0.5 √(2/n): four of them are 0.2 at n = 200.
    assert not shares_differ(0.4, 0.6, 199, 199)
    assert shares_differ(0.4, 0.6, 201, 201)
    assert not shares_differ(0.0, 0.5, 4, 4)


def test_quantiles_must_differ_in_ratio_and_beyond_noise():
    numbers = np.sort(np.random.default_rng(0).lognormal(3, 0.5, size=4000))
    assert not quantiles_differ(numbers, 1.05 * numbers, 4000, 4000)
    assert quantiles_differ(numbers, 1.2 * numbers, 4000, 4000)
    assert quantiles_differ(1.2 * numbers, numbers, 4000, 4000)
    assert not quantiles_differ(numbers, 1.2 * numbers, 10, 10)  # so few independent samples prove nothing
    assert not quantiles_differ(numbers, 1.2 * numbers, 4000, 4000, ratio=1.5)


def test_identical_distributions_are_hardly_ever_told_apart():
    rng = np.random.default_rng(1)
    alarms = sum(quantiles_differ(*np.sort(rng.exponential(size=(2, 300)), axis=1), 300, 300) for _ in range(500))
    assert alarms <= 2


@pytest.mark.parametrize("name", ["ids", "prompts"])
def test_samples_of_one_id_or_prompt_count_as_one(name):
    assert count_independent(Samples(texts=["a", "b", "c"], **{name: ["1", "1", "2"]})) == 2
    assert count_independent(Samples(texts=["a", "b", "c"])) == 3
