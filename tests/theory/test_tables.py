"""Tables of atoms: merging equal atoms changes no sum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import InputError, Masses, area
from mallow.theory import _masses as _tables


@given(st.integers(0, 2**32))
def test_merged_and_unmerged_atoms_give_the_same_sums(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.multinomial(50, np.ones(20) / 20, size=(2, 6)) / 50
    merged = Masses.from_histograms(p, q)
    (table,) = merged._tables
    assert table.column is not None
    assert len(table.p) < p.size
    nudged = Masses.from_histograms(p, q * (1 + 1e-15 * rng.integers(0, 3, size=q.shape)))
    assert area(merged, scale=5) == approx(area(nudged, scale=5), abs=1e-12)


def test_sums_in_blocks_of_rows_are_the_same(monkeypatch):
    p, q = np.random.default_rng(0).multinomial(50, np.ones(20) / 20, size=(2, 6)) / 50
    at_once = area(Masses.from_histograms(p, q), scale=5)
    monkeypatch.setattr(_tables, "_MOST_ENTRIES", 1)
    for block in (1000, 1):  # 1: a row has more entries than a block
        monkeypatch.setattr(_tables, "_BLOCK", block)
        assert area(Masses.from_histograms(p, q), scale=5) == approx(at_once, abs=1e-13)


def test_a_row_may_have_more_entries_than_a_block(monkeypatch):
    p, q, weights = np.random.default_rng(0).random((3, 7))
    monkeypatch.setattr(_tables, "_BLOCK", 1)
    sums = _tables._weighted_sums(p, q, weights[None], lambda a, b: np.stack([a * b, a - b, a], axis=-1))
    assert sums[0] == approx([weights @ (p * q), weights @ (p - q), weights @ p])


def plain_sums(p, q, weight, values):
    return np.array([sum(w * values(np.array([a]), np.array([b]))[0] for a, b, w in zip(*row, strict=True) if a + b > 0)
                     for row in zip(p, q, weight, strict=True)])  # fmt: skip


def values_of(p, q):
    return np.stack([p * q + p, np.sqrt(p + q), q - p], axis=-1)


@pytest.mark.parametrize("cells", [0, 4_000_000])
@pytest.mark.parametrize("cost", [0, 30])
@pytest.mark.parametrize("entries", [1, 7, 50_000_000])
def test_sums_are_those_of_a_loop_over_the_atoms(cells, cost, entries, monkeypatch):
    monkeypatch.setattr(_tables, "_MOST_CELLS", cells)
    monkeypatch.setattr(_tables, "_EVALUATION_COST", cost)
    monkeypatch.setattr(_tables, "_MOST_ENTRIES", entries)
    rng = np.random.default_rng(0)
    p, q = rng.integers(0, 3, size=(2, 4, 5)) / 10
    weight = rng.normal(size=(4, 5))
    table = _tables.build_table(p, q, weight)
    assert (table.column is None) == (cells == 0 or cost == 0)
    assert table.sums(values_of) == approx(plain_sums(p, q, weight, values_of))
    shaped = _tables.build_table(*(array.reshape(2, 2, 5) for array in (p, q, weight)))
    assert shaped.sums(values_of).shape == (2, 2, 3)
    assert shaped.sums(values_of).reshape(4, 3) == approx(table.sums(values_of))


def test_equal_atoms_are_merged_once_and_those_without_mass_are_left_out():
    p = np.array([[0.5, 0.0, 0.5, 0.0], [0.25, 0.0, 0.75, 0.0]])
    q = np.array([[0.5, 0.0, 0.25, 0.25], [0.25, -0.0, 0.5, 0.25]])
    table = _tables.build_table(p, q, np.ones((2, 4)))
    pairs = sorted(zip(table.p.tolist(), table.q.tolist(), strict=True))
    assert pairs == [(0.0, 0.25), (0.25, 0.25), (0.5, 0.25), (0.5, 0.5), (0.75, 0.5)]
    assert (table.column[:, 1] == 5).all()
    assert table.sums(lambda a, b: np.ones((len(a), 1)))[:, 0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("count", [1, 50, 70_000])
def test_every_value_is_found_among_the_distinct_ones(count):
    values = np.random.default_rng(0).integers(0, count, size=(3, count)) / count - 0.25
    distinct, place = _tables._distinct(values)
    assert distinct.tolist() == np.unique(values).tolist()
    assert (distinct[place] == values).all()
    zeros, at = _tables._distinct(np.array([[0.0, -0.0, 1.0]]))
    assert zeros.tolist() == [0.0, 1.0]
    assert at.tolist() == [[0, 0, 1]]


def test_infinite_costs_count_only_where_they_have_a_weight(monkeypatch):
    p, q = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    weights = np.array([[1.0, 0.0, 1.0], [1.0, -1.0, 0.0], [0.0, 0.0, 2.0]])

    def values(a, b):
        return np.stack([np.where(a == 2.0, np.inf, a), a], axis=-1)

    for block in (1, 1 << 17):
        monkeypatch.setattr(_tables, "_BLOCK", block)
        found = _tables._weighted_sums(p, q, weights, values)
        assert found.tolist() == [[4.0, 4.0], [np.inf, -1.0], [6.0, 6.0]]
        with pytest.raises(InputError, match="The generator `f` of the divergence must not return NaN"):
            _tables._weighted_sums(p, q, weights, lambda a, b: np.where(a == 2.0, np.nan, a)[:, None])
