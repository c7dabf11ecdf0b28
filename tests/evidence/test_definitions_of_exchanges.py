"""Exchanges of sides: what may change sides does, with what belongs to it, and nothing else; compared with the definitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from held_out import samples
from mallow.evidence import _many_test as many_test
from mallow.evidence import (
    find_space,
    find_units,
)
from mallow.evidence._atoms import _sums, atom_products
from mallow.evidence._exchange import common_size, exchangeable_rows, find_exchange, generator_of_sides
from mallow.evidence._identity import fuse, share_as_large

layouts = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any), min_size=2, max_size=12).filter(
    lambda sizes: all(sum(side) >= 1 for side in zip(*sizes, strict=True))
)


def lay_out(sizes):
    """Units with so many rows of the reference and of the model: the unit of each row, and its side."""
    unit = [number for number, (p, q) in enumerate(sizes) for _ in range(p + q)]
    side = [flag for p, q in sizes for flag in [True] * p + [False] * q]
    return np.array(unit), np.array(side)


def without_lonely(sizes):
    """The layout of the rows that take part, with no units cut."""
    unit, side = lay_out(sizes)
    kept = exchangeable_rows(unit, side, None, np.random.default_rng(0))
    _, numbered = np.unique(unit[kept], return_inverse=True)
    return numbered, side[kept]


def weights_of(exchange, permutations=0, seed=0):
    """What every row counts in Δ as observed and in permutations, (1 + permutations, rows)."""
    signs = [exchange.as_observed(), exchange.draw(permutations, np.random.default_rng(seed))]
    return np.concatenate(signs) @ exchange.atoms.toarray()


@given(layouts)
def test_the_first_row_is_the_observed_one(sizes):
    unit, is_reference = without_lonely(sizes)
    if is_reference.all() or not is_reference.any():
        return
    exchange = find_exchange(unit, is_reference)
    expected = np.where(is_reference, 1 / is_reference.sum(), -1 / (~is_reference).sum())
    assert weights_of(exchange)[0] == approx(expected, abs=1e-12)
    for most in (1, 4, 1000):
        merged, join = exchange.merge(most, np.random.default_rng(1))
        assert weights_of(merged)[0] == approx(expected, abs=1e-12)
        assert (join @ exchange.atoms).toarray() == approx(merged.atoms.toarray())


@given(layouts, st.sampled_from([1, 3, 1000]), st.sampled_from([1, 2, 32]))
def test_sides_keep_their_sizes_and_units_their_halves(sizes, most, least):
    unit, is_reference = without_lonely(sizes)
    if is_reference.all() or not is_reference.any():
        return
    n, m = is_reference.sum(), (~is_reference).sum()
    merged, _ = find_exchange(unit, is_reference).merge(most, np.random.default_rng(2), least=least)
    weights = weights_of(merged, 20)
    for number in range(unit.max() + 1):
        own, side = weights[:, unit == number], is_reference[unit == number]
        of_p, p, q = own > 0, side.sum(), (~side).sum()
        assert own == approx(np.where(of_p, 1 / n, -1 / m), abs=1e-12)
        if p == q:  # both halves change sides together
            assert (of_p == of_p[:, :1] ^ (side != side[0])).all()
        elif p == 0 or q == 0:
            assert (of_p == of_p[:, :1]).all()
        else:
            assert (of_p.sum(axis=1) == p).all()
    assert weights.sum(axis=1) == approx(0.0, abs=1e-9)
    assert ((weights > 0).sum(axis=1) == n).all()


@pytest.mark.parametrize(
    ("sizes", "ways"),
    [
        ([(1, 1)] * 3, 4),  # eight swaps, of which half are the others turned around
        ([(2, 2), (1, 1), (1, 0), (0, 1)], 4),
        ([(1, 0)] * 3 + [(0, 1)] * 2, 10),
        ([(2, 1), (1, 1)], 6),
    ],
)
def test_the_number_of_different_permutations(sizes, ways):
    unit, is_reference = lay_out(sizes)
    weights = weights_of(find_exchange(unit, is_reference), 4000)
    symmetric = np.round(np.concatenate([weights, -weights]), 6) if is_reference.mean() == 0.5 else np.round(weights, 6)
    assert len({tuple(row) for row in symmetric}) // (2 if is_reference.mean() == 0.5 else 1) == ways


def test_merged_atoms_are_about_as_many_as_asked_for():
    for sizes, most, atoms in (
        ([(1, 1)] * 1000, 100, 100),
        ([(1, 0)] * 500 + [(0, 1)] * 500, 100, 100),
        ([(1, 0)] * 1000 + [(0, 1)] * 40, 100, 1040),  # the smaller side has few
        ([(1, 0)] * 3000 + [(0, 1)] * 40, 100, 1064),  # and the larger one more than enough
        ([(1, 4)] * 200, 100, 5 * 33),
        ([(400, 200)], 60, 99),
    ):
        merged, _ = find_exchange(*lay_out(sizes)).merge(most, np.random.default_rng(0))
        assert len(merged.observed) == atoms, sizes


@given(layouts)
def test_no_permutation_changes_the_variance(sizes):
    unit, is_reference = without_lonely(sizes)
    if is_reference.all() or not is_reference.any():
        return
    values, rows = np.random.default_rng(4).normal(size=(len(unit), 2)), np.arange(len(unit))
    values -= values.mean(axis=0)
    exchange = find_exchange(unit, is_reference)
    merged, join = exchange.merge(1000, np.random.default_rng(0))
    each, variances = _sums(values, rows, exchange, join)
    assert merged.as_observed() @ each == approx(weights_of(exchange) @ values, abs=1e-9)
    other = find_exchange(unit, weights_of(exchange, 3)[3] > 0)
    assert _sums(values, rows, other, other.merge(1000, np.random.default_rng(0))[1])[1] == approx(variances, rel=1e-9)


def test_a_few_units_without_counterpart_are_left_out_and_larger_ones_are_cut():
    def kept(sizes):
        layout = lay_out(sizes)
        return exchangeable_rows(*layout, common_size(*layout), np.random.default_rng(0)), common_size(*layout)

    rows, size = kept([(1, 1)] * 30 + [(3, 0)])
    assert (np.flatnonzero(~rows).tolist(), size) == ([60, 61, 62], None)
    rows, size = kept([(1, 1)] * 3 + [(1, 0)] * 9)  # the other side has none of its own
    assert (rows.tolist(), size) == ([True] * 6 + [False] * 9, None)
    rows, size = kept([(3, 0), (0, 3), (1, 1)])
    assert (rows.all(), size) == (True, None)
    rows, size = kept([(4, 0)] * 10 + [(0, 1)] * 20)
    assert (rows.reshape(-1)[:40].reshape(10, 4).sum(axis=1).tolist(), rows[40:].all(), size) == ([1] * 10, True, 1)
    rows, size = kept([(5, 0)] * 8 + [(0, 20)] * 6 + [(0, 6)])
    assert (rows[:40].all(), [int(part.sum()) for part in np.split(rows[40:], 20 * np.arange(1, 7))], size) == (
        True,
        [5] * 7,
        5,
    )
    rows, size = kept([(2, 0), (6, 0), (0, 4)] * 3)
    assert (rows.sum(), size) == (18, 2)
    cuts = [exchangeable_rows(*lay_out([(9, 0), (0, 1)]), 1, np.random.default_rng(seed)) for seed in range(60)]
    assert np.sum(cuts, axis=0)[:9].min() > 0  # any sample of a unit may be taken


@pytest.mark.parametrize(
    "sizes", [[(1, 1)] * 5, [(1, 0)] * 4 + [(0, 1)] * 3, [(2, 1)] * 3], ids=["pairs", "single rows", "within units"]
)
def test_all_permutations_together_are_exactly_uniform(sizes):
    # Each of all permutations in turn is the observed one: as many have a p-value of at most t as t allows.
    unit, is_reference = lay_out(sizes)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(is_reference.sum(), 2)), rng.normal(size=((~is_reference).sum(), 2))
    exchange = find_exchange(unit, is_reference)
    signs = np.unique(exchange.draw(6000, rng), axis=0)
    ways = {"pairs": 32, "single rows": 35, "within units": 27}
    assert len(signs) in ways.values()
    sides = samples(x, unit[is_reference].tolist()), samples(y, unit[~is_reference].tolist())
    units = find_units(*sides)
    space = find_space([x, y], units)
    rows = np.concatenate(space.places)
    rows = rows[np.argsort(np.argsort(np.concatenate([np.flatnonzero(is_reference), np.flatnonzero(~is_reference)])))]
    merged, join = exchange.merge(1000, rng)
    signs = signs[:, np.append(join[:-1, :-1].toarray().argmax(axis=1), -1)]  # merging puts atoms in another order
    products = atom_products(space, rows, exchange, merged, join)
    forms = np.stack([np.einsum("ij,ij->i", signs @ own, signs) for own in products.values()], axis=1)
    forms[forms < 1e-12 * forms.max(axis=0)] = 0.0  # rounding
    fused = fuse(list(products), forms)
    p_values = np.array([share_as_large(np.roll(fused, -place, axis=0)) for place in range(len(signs))])
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


def test_merged_exchanges_are_exact_over_all_divisions_of_the_same_rows():
    """Rows in the order of their values: a merge that always joins the same ranks would not be exact."""
    values = np.linspace(-1.0, 1.0, 12) ** 3
    p_values = []
    for reference in itertools.combinations(range(12), 6):
        is_reference = np.isin(np.arange(12), reference)
        exchange = find_exchange(np.arange(12), is_reference)
        merged, _ = exchange.merge(6, exchange.generator(2), least=1)
        assert len(merged.observed) == 6
        sides = np.array([np.isin(np.arange(6), three) * 2.0 - 1.0 for three in itertools.combinations(range(6), 3)])
        sums = merged.atoms @ values
        gaps = np.abs(np.concatenate([merged.as_observed() @ sums, sides @ sums[:-1] + sums[-1]]))
        p_values.append(np.mean(gaps[1:] >= gaps[0] - 1e-12))
    for level in (0.1, 0.2, 0.3, 0.5):
        assert np.mean(np.array(p_values) <= level) <= level + 0.02


@given(layouts)
def test_random_numbers_of_an_exchange_depend_on_the_sides_and_not_on_which_is_the_reference(sizes):
    unit, is_reference = without_lonely(sizes)
    if is_reference.all() or not is_reference.any():
        return
    first, second = (find_exchange(unit, sides).generator(2).random() for sides in (is_reference, ~is_reference))
    assert first == second
    swapped = is_reference.copy()
    places = np.flatnonzero(is_reference != is_reference[0])[:1]
    swapped[[0, places[0]]] = swapped[[places[0], 0]]
    if not (np.array_equal(swapped, is_reference) or np.array_equal(swapped, ~is_reference)):
        assert generator_of_sides(swapped, 2).random() != generator_of_sides(is_reference, 2).random()


def test_random_numbers_of_merged_exchanges_do_not_depend_on_which_side_is_the_reference():
    """Merging leaves some rows out: nothing is known of their side."""
    is_reference = np.arange(2000) % 2 == 0
    merged = [
        exchange.merge(48, exchange.generator(2))[0]
        for exchange in (find_exchange(np.arange(2000), sides) for sides in (is_reference, ~is_reference))
    ]
    assert len(merged[0].atoms[:-1].indices) < 2000
    assert merged[0].generator(3).random() == merged[1].generator(3).random()


# --- many samples


def test_exchanged_means_are_those_of_exchanged_rows():
    rng = np.random.default_rng(2)
    values = rng.integers(-127, 128, size=(1400, 3)).astype(np.float32)
    rounded = np.rint(values**2 / 16)
    for unit, is_reference in (
        (np.repeat(np.arange(700), 2), np.tile([True, False], 700)),
        (np.arange(1400), np.arange(1400) % 7 < 3),
    ):
        exchange = find_exchange(unit, is_reference)
        merged, join = exchange.merge(100, rng)
        means, squares, spread = many_test._sum_atoms(exchange, join, lambda low, high: values[low:high])
        half = np.abs(exchange.atoms.data).max()
        for signs in (merged.as_observed(), merged.draw(20, rng)):
            for table, found in ((values, means), (rounded, squares)):
                assert signs @ found * half == approx(signs @ merged.atoms @ table, abs=1e-6)
        each = (exchange.atoms[:-1] @ rounded) / half
        assert spread == approx(((each - each.mean(axis=0)) ** 2).sum(axis=0), rel=1e-9)
