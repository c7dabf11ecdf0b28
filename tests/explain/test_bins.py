"""The arithmetic of bins: shares of the gap and p-values."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from explain.made import evidence_of
from explain.planted import TWELVE_BINS, X, Y
from mallow import KL, MAUVE_STAR, Divergence, InputError, Masses, Samples, midpoint
from mallow.evidence import Evidence
from mallow.explain import bin_costs, diagnose, diagnose_embedded
from mallow.explain._bins import small_bin_caveats, tabulate_bins, unit_p_values
from mallow.theory import Partition
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


def apart(partition: Partition) -> Evidence:
    """Evidence that says nothing about samples of which none belong together."""
    n, m = len(partition.p_labels), len(partition.q_labels)
    return evidence_of(np.zeros(n), np.zeros(m), np.arange(n), n + np.arange(m))


def test_a_table_needs_a_partition_and_finite_costs():
    with pytest.raises(
        InputError, match=r"`measure` must keep the bin of every sample, but its masses have no partition\."
    ):
        tabulate_bins(Masses.from_histograms([0.5, 0.5], [1.0, 0.0]), KL, evidence_of([0.0], [0.0]))
    partition = partition_of([1, 1], [2, 0])
    infinite = Masses(np.array([0.5, 0.5]), np.array([1.0, 0.0]), partition=partition)
    with pytest.raises(
        InputError,
        match=r"The mid-point of reverse KL must be finite to be split into shares; empty bins make it infinite\. Smooth the "
        r"counts, as Quantize\(\) does by default, or use another divergence\.",
    ):
        tabulate_bins(infinite, Divergence("reverse KL", lambda t: -np.log(t)), apart(partition))


def test_the_largest_costs_come_first_on_each_side():
    counts = [10, 40, 0, 30, 20], [20, 10, 30, 20, 20]
    shares = [np.array(side) / 100 for side in counts]
    partition = partition_of(*counts)
    table = tabulate_bins(Masses(*shares, partition=partition), KL, apart(partition))
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


def sample_p_values(p: list[int], q: list[int]) -> np.ndarray:
    """P-values of bins with these counts, of samples that belong to no unit and are exchanged one by one."""
    partition = partition_of(p, q)
    return unit_p_values(partition, apart(partition))


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
    assert sample_p_values(p, q) == approx(exact, rel=1e-9)


@given(n=st.integers(1, 12), m=st.integers(1, 12), data=st.data())
def test_small_p_values_are_as_rare_as_they_claim(n, m, data):
    pooled = data.draw(st.integers(0, n + m))
    support = range(max(0, pooled - m), min(pooled, n) + 1)
    chance = {a: math.comb(pooled, a) * math.comb(n + m - pooled, n - a) / math.comb(n + m, n) for a in support}
    p_values = {a: sample_p_values([a, n - a], [pooled - a, m - pooled + a])[0] for a in support}
    for level in p_values.values():
        assert sum(chance[a] for a in support if p_values[a] <= level * (1 + 1e-9)) <= level * (1 + 1e-6)


@st.composite
def labelled_units(draw):
    """Labels of bins 0 to 2 and units: some samples alone, some units with one or two samples of each side."""
    numbers = st.integers(0, 2)
    alone = draw(st.lists(numbers, max_size=3)), draw(st.lists(numbers, max_size=3))
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=4))
    together = [[[draw(numbers) for _ in range(size)] for _ in range(2)] for size in sizes]
    labels, units, count = ([], []), ([], []), 0
    for side, own in enumerate(alone):
        for label in own:
            labels[side].append(label)
            units[side].append(count)
            count += 1
    for pair in together:
        for side, own in enumerate(pair):
            labels[side].extend(own)
            units[side].extend([count] * len(own))
        count += 1
    return labels, units, alone, together


@given(case=labelled_units())
def test_p_values_are_those_of_all_exchanges_of_units(case):
    labels, units, alone, together = case
    partition = Partition(*(np.array(own, np.int64) for own in labels), np.zeros((3, 1)))
    evidence = evidence_of(*(np.zeros(len(own)) for own in labels), *units)
    pool = [*alone[0], *alone[1]]
    expected = []
    for number in range(3):
        counts = []
        for chosen in itertools.combinations(range(len(pool)), len(alone[0])):
            base = sum(pool[place] == number for place in chosen)
            for swaps in itertools.product([0, 1], repeat=len(together)):
                counts.append(base + sum(pair[swap].count(number) for pair, swap in zip(together, swaps, strict=True)))
        seen, counts = labels[0].count(number), np.array(counts)
        expected.append(min(1.0, 2 * min(np.mean(counts <= seen), np.mean(counts >= seen))))
    assert unit_p_values(partition, evidence) == approx(expected, rel=1e-9)


def drawn_bins(rng, units):
    """Bins that the samples of a unit tend to share, and that say nothing about sides."""
    count = 1 + max(int(own.max()) for own in units)
    usual = rng.integers(0, 12, count)
    labels = [np.where(rng.random(len(own)) < 0.8, usual[own], rng.integers(0, 12, len(own))) for own in units]
    return Partition(*labels, np.zeros((12, 1)))


@pytest.mark.parametrize("design", ["several generations", "groups on one side", "pairs"])
def test_units_keep_false_alarms_rare_where_samples_do_not(design):
    units = {
        "several generations": (np.arange(100), np.repeat(np.arange(100), 4)),
        "groups on one side": (np.arange(200), 200 + np.repeat(np.arange(50), 4)),
        "pairs": (np.arange(200), np.arange(200)),
    }[design]
    rng = np.random.default_rng(0)
    alarms, by_samples = 0, 0
    for _ in range(100):
        partition = drawn_bins(rng, units)
        evidence = evidence_of(*(np.zeros(len(own)) for own in units), *units)
        alarms += min(12 * unit_p_values(partition, evidence)) < 0.05
        by_samples += min(12 * unit_p_values(partition, apart(partition))) < 0.05
    assert alarms <= 8
    if design == "groups on one side":
        assert by_samples > 20
    if design == "pairs":  # what pairs share cancels, and the test may see smaller differences
        assert by_samples == 0


def test_without_a_defect_a_region_is_rarely_significant():
    rng = np.random.default_rng(0)
    alarms = 0
    nothing = evidence_of(np.zeros(120), np.zeros(120))
    for seed in range(100):
        sides = [Samples(features=rng.normal(size=(120, 3))) for _ in range(2)]
        options = {"measure": MAUVE_STAR, "regions": 1000, "examples": 0, "seed": seed, "evidence": nothing}
        alarms += any(region.significant for region in diagnose_embedded(*sides, **options).regions)
    assert alarms <= 5


def test_holm_counts_the_bins_that_are_not_shown():
    first, every = (diagnose(X, Y, measure=TWELVE_BINS, regions=regions) for regions in (1, 12))
    assert first.invented[0].adjusted == every.invented[0].adjusted == approx(12 * first.invented[0].p_value)


def test_bins_that_cannot_be_significant_are_a_caveat():
    many, few = partition_of([20, 20], [20, 20]), partition_of([2] * 9 + [20], [2] * 9 + [20])
    assert small_bin_caveats(many, apart(many)) == []
    (caveat,) = small_bin_caveats(few, apart(few))
    assert caveat.kind == "small bins"
    assert caveat.values == {"share": 0.9, "bins": 10}
    assert caveat.message == (
        "90% of the 10 bins hold too few samples to be significant, even if all were of one side: pass fewer bins or more "
        "samples."
    )
    # Twenty samples of each side, but of two prompts only: they count as two.
    prompts = evidence_of(np.zeros(40), np.zeros(40), np.arange(40) // 10, 4 + np.arange(40) // 10)
    assert [caveat.kind for caveat in small_bin_caveats(many, prompts)] == ["small bins"]
