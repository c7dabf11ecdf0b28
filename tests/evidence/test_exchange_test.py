"""Means compared by exchanging units: the share of exchanges whose clearest difference is as large."""

import numpy as np
import pytest
from pytest import approx

from mallow.evidence import Units, compare_means


def compare(first, second, units, permutations=40, seed=0):
    return compare_means(first, second, units, permutations=permutations, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("entries", [1, 50, 1 << 24])
def test_all_permutations_are_counted_however_many_are_drawn_at_once(entries, monkeypatch):
    monkeypatch.setattr("mallow.evidence._identity._ENTRIES", entries)
    rng = np.random.default_rng(0)
    units = Units((np.arange(8), np.arange(8)), rng.integers(2**63, size=8, dtype=np.uint64))
    x, y = rng.normal(size=(2, 8, 2))
    shares = []
    for permutations in (1, 5, 6, 7, 36, 400):
        share, exact = compare(x, y, units, permutations)
        assert exact
        assert share * (permutations + 1) == approx(round(share * (permutations + 1)), abs=1e-9)
        assert share >= 1 / (permutations + 1)
        shares.append(share)
    signs = np.array(np.meshgrid(*[[1, -1]] * 8)).reshape(8, -1).T  # all 256 ways to exchange the sides of pairs
    means = signs @ (x - y)
    standard = ((means - means.mean(axis=0)) / means.std(axis=0)).max(axis=1)
    observed = standard[(signs == 1).all(axis=1)][0]
    assert shares[-1] == approx((standard >= observed - 1e-9).mean(), abs=0.1)


def test_only_larger_means_count():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(25, 2))
    units = Units((np.arange(30), np.arange(30, 55)), rng.integers(2**63, size=55, dtype=np.uint64))
    assert compare(x + 5.0, y, units)[0] == 1 / 41
    assert compare(x - 5.0, y, units)[0] == 1.0
    assert compare(x + np.array([0.0, 5.0]), y, units)[0] == 1 / 41  # one statistic is enough
    assert compare(x + 1e6, y + 1e6, units)[0] == approx(compare(x, y, units)[0], abs=0.03)
    order = rng.permutation(30)
    moved = Units((np.arange(30)[order], np.arange(30, 55)), units.keys)
    assert compare(x[order], y, moved) == compare(x, y, units)


def test_units_that_are_cut_are_not_exact():
    rng = np.random.default_rng(2)
    units = Units((np.arange(20), 20 + np.arange(30) // 3), rng.integers(2**63, size=30, dtype=np.uint64))
    x, y = rng.normal(size=(20, 1)), rng.normal(size=(30, 1))
    assert compare(x, y, units)[1] is False
    assert compare(x + 5.0, y, units)[0] == approx(2 / 41)
    too_few = Units((np.arange(20), 20 + np.arange(30) // 10), units.keys)
    assert compare(x + 5.0, y, too_few) == (1.0, False)
    few = Units(
        (np.arange(20), np.append(np.arange(20), [20, 20])), units.keys
    )  # one unit without counterpart: left out
    assert compare(x, rng.normal(size=(22, 1)), few)[1] is True
