"""Short texts of few tokens for the tests of text statistics, and their n-grams."""

import warnings
from collections import Counter

from hypothesis import strategies as st

from mallow.errors import EstimateWarning

# Few tokens, so that n-grams are shared, tied and repeated; lengths from 0 to beyond every order.
token_texts = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=2, max_size=7).filter(any)


orders = st.integers(1, 6)


def quietly(function, *args, **options):
    """The value without the warning about short texts, which has a test of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return function(*args, **options)


def grams(tokens, n):
    """The n-grams of a text with their counts."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
