"""Folds never cut a unit, and depend on keys alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.evidence._folds import Folds, deal_folds

layouts = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(any), min_size=3, max_size=30)


def lay_out(sizes):
    """Units with so many rows of the reference and of the model: the unit and side of each row."""
    unit = [number for number, (p, q) in enumerate(sizes) for _ in range(p + q)]
    side = [flag for p, q in sizes for flag in [True] * p + [False] * q]
    return np.array(unit), np.array(side)


def keys_of(count, seed=0):
    return np.random.default_rng(seed).integers(2**63, size=count, dtype=np.uint64)


@given(layouts, st.integers(3, 5))
def test_folds_cut_no_unit_and_are_even(sizes, folds):
    unit, is_reference = lay_out(sizes)
    own = deal_folds(unit, keys_of(len(sizes)), is_reference, folds=folds)
    assert all(len(set(own[unit == number])) == 1 for number in range(len(sizes)))
    for side in (is_reference, ~is_reference):
        units = [len(set(unit[side & (own == fold)])) for fold in range(folds)]
        assert max(units) - min(units) <= 1


@given(layouts)
def test_neither_order_nor_the_names_of_the_sides_matter(sizes):
    unit, is_reference = lay_out(sizes)
    keys = keys_of(len(sizes))
    dealt = deal_folds(unit, keys, is_reference, folds=3)
    assert np.array_equal(deal_folds(unit, keys, ~is_reference, folds=3), dealt)
    order = np.random.default_rng(0).permutation(len(sizes))
    place = np.argsort(order)
    assert np.array_equal(deal_folds(place[unit], keys[order], is_reference, folds=3), dealt)


def test_other_keys_give_other_folds():
    unit, is_reference = lay_out([(1, 1)] * 50)
    every = [deal_folds(unit, keys_of(50, seed), is_reference, folds=5) for seed in range(8)]
    same = [(a == b).mean() for i, a in enumerate(every) for b in every[:i]]
    assert 0.0 < min(same) < max(same) < 0.5


def test_pairs_of_folds():
    folds = Folds(4)
    assert folds.pairs == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert folds.kept[1].tolist() == [0, 1, 0, 1]
    for first in range(4):
        for second in range(4):
            number = folds.pair_without[first, second]
            assert number == -1 if first == second else set(folds.pairs[number]) == {first, second}


@pytest.mark.parametrize("sizes", [[(1, 0)] * 2 + [(0, 1)] + [(1, 1)]], ids=["few of each kind"])
def test_every_fold_gets_a_unit_of_either_side_where_there_are_enough(sizes):
    # A unit of the reference alone, one of the model alone and one of both must not share a fold while another has none.
    unit, is_reference = lay_out([*sizes, (0, 1)])
    for seed in range(20):
        own = deal_folds(unit, keys_of(5, seed), is_reference, folds=3)
        assert set(own[is_reference]) == set(own[~is_reference]) == {0, 1, 2}
