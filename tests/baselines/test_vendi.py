"""The Vendi score counts different samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.baselines import vendi_score
from mallow.errors import InputError


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), width=st.integers(1, 12))
def test_the_score_is_its_definition_and_within_its_limits(seed, n, width):
    points = np.random.default_rng(seed).normal(size=(n, width)) + 0.1
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(unit @ unit.T / n).clip(1e-15)
    assert vendi_score(points) == approx(np.exp(-(values * np.log(values)).sum()), rel=1e-6)
    assert 1 - 1e-9 <= vendi_score(points) <= min(n, width) + 1e-9


def test_copies_do_not_count():
    points = np.eye(4)
    assert vendi_score(points) == approx(4)
    assert vendi_score(np.repeat(points, 5, axis=0)) == approx(4)
    assert vendi_score(np.repeat(points[:1], 5, axis=0)) == approx(1)


def test_a_row_of_zeros_has_no_direction():
    with pytest.raises(InputError, match=r"`points` must not contain rows of zeros, .*; row 1 is one"):
        vendi_score([[1.0, 0.0], [0.0, 0.0]])
