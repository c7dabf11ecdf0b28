"""When a difference is sure and large enough."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveats.real_texts import caveats_of_kind, halves
from mallow import Samples
from mallow.caveats._counts import count_independent, quantiles_differ, shares_differ

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


def test_several_generations_of_a_prompt_are_less_evidence():
    # Half of 60 texts end without a full stop, and none of some 50: evidence, unless the 50 are generations of 4 prompts.
    one, other = halves(size=60)
    one = [text.rstrip(".") if i % 2 else text for i, text in enumerate(one)]
    ended = [text for text in other if text.endswith(".")]
    ids = [str(i % 4) for i in range(len(ended))]
    assert caveats_of_kind(one, Samples(texts=ended), "truncation")
    assert not caveats_of_kind(one, Samples(texts=ended, ids=ids), "truncation")
