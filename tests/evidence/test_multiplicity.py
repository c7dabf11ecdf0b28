"""Holm's correction."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError
from mallow.evidence import holm


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_never_lowers(values):
    adjusted = holm(values)
    assert all(a >= p for a, p in zip(adjusted, values, strict=True))
    assert all(a <= 1 for a in adjusted)
    order = sorted(range(len(values)), key=lambda i: values[i])
    assert all(adjusted[i] <= adjusted[j] for i, j in pairwise(order))


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(InputError, match=r"`p_values` must lie between 0 and 1"):
        holm([0.5, 1.5])
