"""Tables of atoms: merging equal atoms changes no sum."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import Masses, area
from mallow.theory import _tables


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
