"""The arithmetic of bins: shares of the gap and p-values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from explain.planted import TWELVE_BINS, X, Y
from mallow import KL, Divergence, InputError, Masses, Partition, midpoint
from mallow.explain import bin_costs, bin_p_values, diagnose
from mallow.explain._bins import bin_caveats, tabulate_bins
from strategies import divergences, masses

# --- shares of the gap


@given(pair=masses(), divergence=divergences)
def test_costs_of_bins_add_up_to_the_midpoint(pair, divergence):
    costs = bin_costs(pair, divergence)
    assert (costs >= 0).all()
    assert costs.sum() == approx(midpoint(pair, divergence), rel=1e-9, abs=1e-12)
    assert bin_costs(pair.swap(), divergence) == approx(costs, rel=1e-9, abs=1e-15)
    assert (costs[pair.p == pair.q] == 0).all()


def test_neither_cost_can_be_split_separately():
    """The reason given in the module: the terms of D(P‖R) alone would call the invented bin the most missed one."""
    pair = Masses.from_histograms([0.1, 0.0, 0.9], [0.0, 0.1, 0.9])
    mix = (pair.p + pair.q) / 2
    alone = KL.terms(pair.p, mix)
    assert alone[1] > 2 * alone[0] > 0
    assert bin_costs(pair, KL) == approx([0.05 * math.log(2), 0.05 * math.log(2), 0])


def partition_of(p_counts: list[int], q_counts: list[int]) -> Partition:
    labels = [np.repeat(np.arange(len(counts)), counts) for counts in (p_counts, q_counts)]
    return Partition(*labels, np.zeros((len(p_counts), 1)))


def test_a_table_needs_a_partition_and_finite_costs():
    with pytest.raises(
        InputError, match=r"`measure` must keep the bin of every sample; its masses have no partition\."
    ):
        tabulate_bins(Masses.from_histograms([0.5, 0.5], [1.0, 0.0]), KL)
    infinite = Masses(np.array([0.5, 0.5]), np.array([1.0, 0.0]), partition=partition_of([1, 1], [2, 0]))
    with pytest.raises(
        InputError,
        match=r"The mid-point of reverse KL must be finite to be split into shares; empty bins make it infinite\. Smooth the "
        r"counts, as Quantize\(\) does by default, or use another divergence\.",
    ):
        tabulate_bins(infinite, Divergence("reverse KL", lambda t: -np.log(t)))


def test_the_largest_costs_come_first_on_each_side():
    counts = [10, 40, 0, 30, 20], [20, 10, 30, 20, 20]
    shares = [np.array(side) / 100 for side in counts]
    table = tabulate_bins(Masses(*shares, partition=partition_of(*counts)), KL)
    assert table.largest(9) == [("missed", 1), ("missed", 3), ("invented", 2), ("invented", 0)]
    assert table.largest(1) == [("missed", 1), ("invented", 2)]
    assert sum(table.gap.values()) == approx(table.costs.sum())


# --- significance


@st.composite
def count_tables(draw):
    counts = st.lists(st.integers(0, 6), min_size=2, max_size=4)
    p = draw(counts)
    q = draw(st.lists(st.integers(0, 6), min_size=len(p), max_size=len(p)))
    return [p[0] + 1, *p[1:]], [q[0] + 1, *q[1:]]


def by_enumeration(seen: int, pooled: int, n: int, m: int) -> Fraction:
    """All ways to divide n + m samples, of which `pooled` are in the bin, between the two sides."""
    ways = {
        a: math.comb(pooled, a) * math.comb(n + m - pooled, n - a)
        for a in range(max(0, pooled - m), min(pooled, n) + 1)
    }
    low = sum(count for a, count in ways.items() if a <= seen)
    high = sum(count for a, count in ways.items() if a >= seen)
    return min(Fraction(1), Fraction(2 * min(low, high), math.comb(n + m, n)))


@given(counts=count_tables())
def test_p_values_are_those_of_all_ways_to_divide_the_samples(counts):
    p, q = counts
    exact = [float(by_enumeration(a, a + b, sum(p), sum(q))) for a, b in zip(p, q, strict=True)]
    assert bin_p_values(p, q) == approx(exact, rel=1e-9)


@given(n=st.integers(1, 12), m=st.integers(1, 12), data=st.data())
def test_small_p_values_are_as_rare_as_they_claim(n, m, data):
    pooled = data.draw(st.integers(0, n + m))
    support = range(max(0, pooled - m), min(pooled, n) + 1)
    chance = {a: math.comb(pooled, a) * math.comb(n + m - pooled, n - a) / math.comb(n + m, n) for a in support}
    p_values = {a: bin_p_values([a, n - a], [pooled - a, m - pooled + a])[0] for a in support}
    for level in p_values.values():
        assert sum(chance[a] for a in support if p_values[a] <= level * (1 + 1e-9)) <= level * (1 + 1e-6)


def test_without_a_defect_a_region_is_rarely_significant():
    rng = np.random.default_rng(0)
    alarms = 0
    for seed in range(100):
        pooled = rng.normal(size=(240, 3))
        diagnosis = diagnose(pooled[:120], pooled[120:], rng=seed, regions=1000, examples=0)
        alarms += any(region.significant for region in diagnosis.regions)
    assert alarms <= 5


def test_holm_counts_the_bins_that_are_not_shown():
    first, every = (diagnose(X, Y, measure=TWELVE_BINS, regions=regions) for regions in (1, 12))
    assert first.invented[0].adjusted == every.invented[0].adjusted == approx(12 * first.invented[0].p_value)


def test_bins_that_cannot_be_significant_are_a_caveat():
    assert bin_caveats(partition_of([20, 20], [20, 20])) == []
    (caveat,) = bin_caveats(partition_of([2] * 9 + [20], [2] * 9 + [20]))
    assert caveat.kind == "small bins"
    assert caveat.values == {"share": 0.9, "bins": 10}
    assert caveat.message == (
        "90% of the 10 bins hold too few samples to be significant, even if all were of one side: pass fewer bins or more "
        "samples."
    )
