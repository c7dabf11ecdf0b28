"""Exchanges of sides: what may change sides does, with what belongs to it, and nothing else."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from held_out import samples
from mallow.evidence import find_space, find_units
from mallow.evidence._exchange import draw_exchanges, exchangeable_rows
from mallow.evidence._identity import _differences, _quadratic_forms, share_as_large

layouts = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any), min_size=2, max_size=12).filter(
    lambda sizes: all(sum(side) >= 1 for side in zip(*sizes, strict=True))
)


def lay_out(sizes):
    """Units with so many rows of the reference and of the model: the unit of each row, and its side."""
    unit = [number for number, (p, q) in enumerate(sizes) for _ in range(p + q)]
    side = [flag for p, q in sizes for flag in [True] * p + [False] * q]
    return np.array(unit), np.array(side)


def weights_of(exchange):
    """What every row counts in Δ, (1 + permutations, rows)."""
    return exchange.constant + exchange.signs.astype(float) @ exchange.atoms.toarray()


@given(layouts)
def test_the_first_row_is_the_observed_one(sizes):
    unit, is_reference = lay_out(sizes)
    exchange = draw_exchanges(unit, is_reference, 3, np.random.default_rng(0))
    n, m = is_reference.sum(), (~is_reference).sum()
    assert weights_of(exchange)[0] == approx(np.where(is_reference, 1 / n, -1 / m), abs=1e-7)


@given(layouts)
def test_sides_keep_their_sizes_and_units_their_halves(sizes):
    unit, is_reference = lay_out(sizes)
    exchange = draw_exchanges(unit, is_reference, 20, np.random.default_rng(1))
    n, m = is_reference.sum(), (~is_reference).sum()
    weights = weights_of(exchange)
    alone = [(p + q, p > 0) for p, q in sizes if p == 0 or q == 0]
    counterpart = {size for size, of_p in alone if (size, not of_p) in alone}
    assert exchange.exact == all(size in counterpart for size, _ in alone)
    for number, (p, q) in enumerate(sizes):
        own = weights[:, unit == number]
        if (p == 0 or q == 0) and p + q not in counterpart:  # it only changes its sign
            assert np.abs(own) == approx(1 / n if p else 1 / m, abs=1e-7)
            assert (own == own[:, :1]).all()
            continue
        of_p = own > 0
        assert own == approx(np.where(of_p, 1 / n, -1 / m), abs=1e-7)
        if p == q:  # both halves change sides together
            assert (of_p == of_p[:, :1] ^ np.repeat([False, True], p)).all()
        elif p == 0 or q == 0:
            assert (of_p == of_p[:, :1]).all()
        else:
            assert (of_p.sum(axis=1) == p).all()
    if exchange.exact:
        assert weights.sum(axis=1) == approx(0.0, abs=1e-5)
        assert ((weights > 0).sum(axis=1) == n).all()


@pytest.mark.parametrize(
    ("sizes", "ways"),
    [
        ([(1, 1)] * 3, 4),  # eight swaps, of which half are the others turned around
        ([(2, 2), (1, 1), (1, 0), (0, 1)], 4),
        ([(1, 0)] * 3 + [(0, 1)] * 2, 10),
        ([(2, 1), (1, 1)], 6),
        ([(1, 0), (0, 3)], 4),  # signs only
    ],
)
def test_the_number_of_different_permutations(sizes, ways):
    unit, is_reference = lay_out(sizes)
    exchange = draw_exchanges(unit, is_reference, 4000, np.random.default_rng(2))
    weights = weights_of(exchange)
    symmetric = np.round(np.concatenate([weights, -weights]), 6) if is_reference.mean() == 0.5 else np.round(weights, 6)
    seen = len({tuple(row) for row in symmetric}) // (2 if is_reference.mean() == 0.5 else 1)
    assert np.exp(exchange.log_count) == approx(ways)
    assert seen == ways


@given(layouts)
def test_no_permutation_changes_the_variance(sizes):
    unit, is_reference = lay_out(sizes)
    exchange = draw_exchanges(unit, is_reference, 5, np.random.default_rng(3))
    values = np.random.default_rng(4).normal(size=(len(unit), 2))
    means, variances = _differences(values, np.arange(len(unit)), exchange)
    centred = values - values.mean(axis=0)
    assert means == approx(weights_of(exchange) @ centred, abs=1e-6)
    if exchange.exact:
        permuted = weights_of(exchange)[3] > 0
        other = draw_exchanges(unit, permuted, 5, np.random.default_rng(3))
        assert _differences(values, np.arange(len(unit)), other)[1] == approx(variances, rel=1e-6)


def test_a_few_units_without_counterpart_are_left_out_and_many_are_not():
    few = lay_out([(1, 1)] * 30 + [(3, 0)])
    assert np.flatnonzero(~exchangeable_rows(*few)).tolist() == [60, 61, 62]
    one_side = lay_out([(1, 1)] * 20 + [(1, 0)] * 70)
    assert np.flatnonzero(~exchangeable_rows(*one_side)).tolist() == list(range(40, 110))
    many = lay_out([(1, 1)] * 20 + [(3, 0), (0, 4)])
    assert exchangeable_rows(*many).all()
    assert not draw_exchanges(*many, 2, np.random.default_rng(0)).exact
    both = lay_out([(3, 0), (0, 3), (1, 1)])
    assert exchangeable_rows(*both).all()
    assert draw_exchanges(*both, 2, np.random.default_rng(0)).exact


@pytest.mark.parametrize(
    "sizes", [[(1, 1)] * 5, [(1, 0)] * 4 + [(0, 1)] * 3, [(2, 1)] * 3], ids=["pairs", "single rows", "within units"]
)
def test_all_permutations_together_are_exactly_uniform(sizes):
    # Each of all permutations in turn is the observed one: as many have a p-value of at most t as t allows.
    unit, is_reference = lay_out(sizes)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(is_reference.sum(), 2)), rng.normal(size=((~is_reference).sum(), 2))
    exchange = draw_exchanges(unit, is_reference, 6000, rng)
    signs = np.unique(exchange.signs, axis=0)
    ways = {"pairs": 32, "single rows": 35, "within units": 27}
    assert len(signs) in ways.values()
    sides = samples(x, unit[is_reference].tolist()), samples(y, unit[~is_reference].tolist())
    units = find_units(*sides)
    space = find_space([x, y], units, 0)
    rows = np.concatenate(space.places)
    rows = rows[np.argsort(np.argsort(np.concatenate([np.flatnonzero(is_reference), np.flatnonzero(~is_reference)])))]
    every = replace(exchange, signs=signs)
    forms = np.cbrt(np.stack(list(_quadratic_forms(space, rows, every).values()), axis=1))
    p_values = np.array([share_as_large(np.roll(forms, -place, axis=0)) for place in range(len(signs))])
    assert p_values.min() > 0
    for step in range(1, len(signs) + 1):
        assert (p_values <= step / len(signs) + 1e-9).sum() <= step
    assert p_values.max() == 1.0


def test_the_share_counts_ties_and_itself():
    assert share_as_large(np.array([[1.0], [1.0], [0.0], [2.0]])) == 0.75
    assert share_as_large(np.array([[3.0], [1.0], [0.0], [2.0]])) == 0.25
    assert share_as_large(np.ones((5, 2))) == 1.0
    rows = np.array(list(itertools.permutations([0.0, 1.0, 2.0])))
    assert share_as_large(rows) == 1.0  # the clearest statistic is as clear in every row
