"""Zipf coefficient, distinct-n and diversity: power laws, definitions by brute force, limits."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from baselines.token_texts import grams, orders, quietly, token_texts
from mallow.baselines import distinct, diversity, text_statistics, zipf_coefficient
from mallow.errors import InputError


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_zipf_coefficient_of_a_power_law_is_its_exponent(slope):
    counts = np.round(1e4 / np.arange(1, 21) ** slope).astype(int)
    text = np.repeat(np.arange(20), counts)
    assert zipf_coefficient([np.random.default_rng(0).permutation(text)]) == approx(slope, abs=0.01)


@given(texts=token_texts.filter(lambda texts: len({token for text in texts for token in text}) > 1), ranks=orders)
def test_zipf_coefficient_is_minus_the_fitted_slope(texts, ranks):
    counts = sorted(Counter(token for text in texts for token in text).values(), reverse=True)[: ranks + 1]
    slope, _ = np.polyfit(np.log(range(1, len(counts) + 1)), np.log(counts), 1)
    assert zipf_coefficient(texts, ranks=ranks + 1) == approx(-slope, abs=1e-9)


@given(texts=token_texts.filter(lambda texts: len({token for text in texts for token in text}) > 1), data=st.data())
def test_zipf_coefficient_depends_on_counts_alone(texts, data):  # paper: baseline metrics, Zipf coefficient
    pooled = data.draw(st.permutations([token for text in texts for token in text]))
    assert zipf_coefficient([pooled]) == zipf_coefficient(texts)


def test_zipf_coefficient_uses_5000_ranks_by_default():
    text = [*range(6000), *range(5000)]  # the first 5,000 ranks are flat
    assert zipf_coefficient([text]) == approx(0.0, abs=1e-12)
    assert zipf_coefficient([text], ranks=6000) > 0.01


@given(texts=token_texts, n=orders)
def test_distinct_and_diversity_equal_their_definitions(texts, n):
    pooled, within = {}, {}
    for size in {n, 2, 3, 4}:
        counted = [grams(text, size) for text in texts]
        total = sum(sum(counts.values()) for counts in counted)
        pooled[size] = len(set().union(*counted)) / total if total else None
        within[size] = sum(len(counts) for counts in counted) / total if total else None
    if pooled[n] is None:
        with pytest.raises(
            InputError, match=f"`texts` must include a text of at least {n} tokens, but there is no {n}-gram."
        ):
            distinct(texts, n)
    else:
        assert distinct(texts, n) == approx(pooled[n])
    if within[4] is not None:
        assert diversity(texts) == approx(within[2] * within[3] * within[4])


def test_equal_texts_lower_distinct_but_not_diversity():
    texts = ["the cat sat on a mat", "the cat sat on a mat"]
    assert distinct(texts) == 0.5
    assert diversity(texts) == 1.0
    assert distinct(["a " * 20]) == approx(1 / 17)
    assert diversity(["a " * 20]) == approx(1 / (19 * 18 * 17))


@pytest.mark.parametrize("statistic", [diversity, distinct, text_statistics])
def test_texts_without_any_4_gram_are_refused(statistic):
    with pytest.raises(
        InputError, match=r"`texts` must include a text of at least (\d) tokens, but there is no \1-gram\."
    ):
        quietly(statistic, ["a b c", "d"])


def test_one_token_has_no_zipf_coefficient():
    with pytest.raises(InputError, match="at least two different tokens for a Zipf coefficient; got one"):
        zipf_coefficient(["a a", "a"])
