"""Sliced transport: sorting along lines, in any number of dimensions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.errors import InputError
from mallow.theory.transport import sliced_cost


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9), m=st.integers(1, 9))
def test_in_one_dimension_it_is_the_cost_of_the_sorted_points(seed, n, m):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
    a, b = np.sort(np.repeat(x, m)), np.sort(np.repeat(y, n))  # both have nm points of one mass
    assert sliced_cost(x, y, directions=3) == approx(((a - b) ** 2).mean(), rel=1e-9)


def test_a_shift_costs_its_square_over_the_dimension():
    x = np.random.default_rng(0).normal(size=(60, 8))
    shift = np.zeros(8)
    shift[0] = 4.0
    assert sliced_cost(x, x + shift, directions=4000) == approx(2.0, rel=0.1)
    assert sliced_cost(x, x) == 0
    assert sliced_cost(x, x + shift, rng=1) == sliced_cost(x + shift, x, rng=1)


def test_it_is_at_most_the_cost_over_the_dimension():
    ot = pytest.importorskip("ot", reason="needs POT: pip install 'mallow[transport]'")
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 3)), rng.normal(0.7, 1, size=(40, 3))
    lines = rng.normal(size=(3, 500))
    lines /= np.linalg.norm(lines, axis=0)
    theirs = ot.sliced_wasserstein_distance(x, y, projections=lines) ** 2
    assert sliced_cost(x, y, directions=4000) == approx(theirs, rel=0.1)
    full = ot.emd2(np.full(40, 1 / 40), np.full(40, 1 / 40), ot.dist(x, y))
    assert sliced_cost(x, y, directions=4000) <= full / 3 * 1.05


def test_what_is_refused():
    with pytest.raises(InputError, match="`directions` must be an integer of at least 1; got 0"):
        sliced_cost(np.eye(2), np.eye(2), directions=0)
    with pytest.raises(InputError, match="must have the same number of columns"):
        sliced_cost(np.eye(2), np.eye(3))


@pytest.mark.parametrize("directions", [1, 63, 64, 65, 130])
def test_lines_are_drawn_together_and_count_alike(directions):
    x, y = np.random.default_rng(0).normal(size=(2, 7, 3))
    lines = np.random.default_rng(5).normal(size=(directions, 3))
    lines /= np.linalg.norm(lines, axis=1, keepdims=True)
    expected = np.mean([((np.sort(x @ line) - np.sort(y @ line)) ** 2).mean() for line in lines])
    assert sliced_cost(x, y, directions=directions, rng=5) == approx(expected)
    assert sliced_cost(x, y, directions=directions, rng=np.random.default_rng(5)) == approx(expected)
    assert sliced_cost(x, y) == sliced_cost(x, y, directions=256, rng=0)
