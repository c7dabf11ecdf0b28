"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.special import ndtr

from explain.made import evidence_of
from mallow import KL, Divergence, InputError, Masses
from mallow.evidence import Evidence, holm
from mallow.explain import UnitTests, two_sided
from mallow.explain._candidates import Candidate, clip_tails, judge_traits
from mallow.explain._reasons import _choose_reasons, _confirm
from mallow.explain._regions import small_bin_caveats, tabulate_bins, unit_p_values
from mallow.explain._unit_tests import one_sided
from mallow.explain._words import _count_capitals
from mallow.theory import Partition

# --- reasons


def test_no_reason_is_given_twice():
    """Two traits that go together: what is left of the score after the second goes with the first again."""
    rng = np.random.default_rng(9)
    first, other = rng.normal(size=(2, 800))
    side = np.repeat([0.0, 1.0], 400)
    traits = {"one": first + side, "two": 0.85 * other - 0.5 * first + side}
    scores = 3.0 - sum(traits.values()) + 0.1 * rng.normal(size=800)
    candidates = [Candidate("trait", trait, lambda *_, name=name: (name, {})) for name, trait in traits.items()]
    reasons = _choose_reasons(UnitTests.of(evidence_of(scores[:400], scores[400:])), candidates)
    assert {reason.text for reason in reasons} == {"one", "two"}
    assert len(reasons) == 2


@given(st.text(alphabet=st.one_of(st.sampled_from("aBzZ{`~1 é É\"'“‘«([*_\n\x1c"), st.characters(codec="utf-8"))))
def test_capitals_begin_a_word_or_follow_marks_that_open_something(text):
    opening = "\"'“‘«([{*_"
    initials = re.findall(rf"(?<!\S)[{re.escape(opening)}]*([^\s{re.escape(opening)}])", text)
    assert _count_capitals(text) == sum(map(str.isupper, initials))


# --- unit tests


def test_p_values_are_normal_tails():
    assert one_sided(np.array([0.0, 1.0, -1.0])) == approx([0.5, ndtr(-1.0), ndtr(1.0)])
    assert two_sided(np.array([0.0, 5.0, -5.0])) == approx([1.0, *[2 * 3.178 * ndtr(-5.0)] * 2])
    assert one_sided(np.array([60.0])) == two_sided(np.array([60.0])) == 1e-16


# --- candidate


RNG = np.random.default_rng(0)


TRAITS = RNG.normal(size=(400, 5)) + np.outer(np.repeat([0.3, 0.0], 200), [0, 0.5, 1, 2, -1])


SCORES = 0.1 * TRAITS.sum(axis=1) + RNG.normal(size=400) + np.repeat([0.5, -0.5], 200)


TESTS = UnitTests.of(evidence_of(SCORES[:200], SCORES[200:]))


CANDIDATES = [Candidate("trait", trait, lambda model, reference: ("", {})) for trait in TRAITS.T]


def test_differences_are_corrected_for_all_candidates():
    judged = judge_traits(TESTS, CANDIDATES)
    clipped = np.stack([clip_tails(trait) for trait in TRAITS.T], axis=1)
    p_values = two_sided(TESTS.difference(clipped)[1])
    assert [one.p_value for one in judged] == approx(p_values)
    assert [one.adjusted for one in judged] == approx(holm(p_values.tolist()))
    assert [one.means for one in judged] == [approx((own[200:].mean(), own[:200].mean())) for own in TRAITS.T]
    np.testing.assert_array_equal(judged[2].trait, clipped[:, 2])
    assert judge_traits(TESTS, []) == []


def test_a_difference_that_only_tails_make_is_none():
    """Plain means, which are shown, must differ in the same direction as the traits without tails, which are tested."""
    trait = np.concatenate([np.linspace(0.0, 1.0, 200), np.linspace(0.2, 1.2, 200)])
    assert judge_traits(TESTS, [Candidate("trait", trait, CANDIDATES[0].phrase)])[0].p_value < 1e-6
    trait[:3] = 1e6
    (one,) = judge_traits(TESTS, [Candidate("trait", trait, CANDIDATES[0].phrase)])
    assert one.p_value == one.adjusted == 1.0


def test_both_tests_count_and_both_are_corrected():
    judged = judge_traits(TESTS, CANDIDATES)
    confirmed = _confirm(TESTS, judged)
    columns = np.stack([one.trait for one in judged], axis=1)
    signs = np.sign(TESTS.difference(columns)[0])
    p_values = one_sided(TESTS.association(columns)[1] * signs)
    adjusted = 2 * np.array(holm(p_values.tolist()))
    expected = [place for place in range(5) if adjusted[place] < 0.05]
    assert 0 < len(expected) < 5
    assert [one.p_value for one in confirmed] == approx([max(judged[i].p_value, p_values[i]) for i in expected])
    assert [one.adjusted for one in confirmed] == approx([max(judged[i].adjusted, adjusted[i]) for i in expected])
    assert _confirm(TESTS, []) == []


# --- bins


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
