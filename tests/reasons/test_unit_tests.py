"""Tests over units: what they compute, that they hold for pairs, groups and unequal sizes, and that order does not matter."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy import sparse
from scipy.special import ndtr

from mallow.reasons import UnitTests, two_sided
from mallow.reasons._unit_tests import one_sided
from reasons.made import evidence_of


@st.composite
def designs(draw):
    """Sizes, units of any kind, traits, and strata."""
    n, m, count = draw(st.integers(2, 12)), draw(st.integers(2, 12)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    evidence = evidence_of(rng.normal(size=n), rng.normal(size=m), rng.integers(0, count, n), rng.integers(0, count, m))
    traits = rng.normal(size=(n + m, 3)) * (rng.random((n + m, 3)) < 0.5)
    return evidence, traits, rng.integers(0, draw(st.integers(1, 4)), n + m)


def by_definition(evidence, trait, strata):
    """The difference of the means within strata, and its z, unit by unit (Cochran, Mantel and Haenszel)."""
    n, m = len(evidence.reference_scores), len(evidence.model_scores)
    unit = np.concatenate([evidence.reference_units, evidence.model_units])
    of_reference = np.arange(n + m) < n
    weight, either, trait = np.zeros(n + m), np.zeros(n + m), trait.copy()
    delta = 0.0
    for stratum in np.unique(strata):
        here = strata == stratum
        a, b = (here & of_reference).sum(), (here & ~of_reference).sum()
        weight[here & of_reference] = b / (a + b)
        weight[here & ~of_reference] = -a / (a + b)
        either[here] = math.sqrt(a * b) / (a + b)
        if a and b:
            difference = trait[here & of_reference].mean() - trait[here & ~of_reference].mean()
            delta += (1 / n + 1 / m) * a * b / (a + b) * difference
        trait[here] -= trait[here].mean()
    seen = exchanged = 0.0
    for number in np.unique(unit):
        own = unit == number
        adds = (1 / n + 1 / m) * (weight * trait)[own].sum()
        seen += adds**2
        one_side = len(set(of_reference[own])) == 1
        exchanged += ((1 / n + 1 / m) * (either * trait)[own].sum()) ** 2 if one_side else adds**2
    variance = max(seen, exchanged)
    return delta, delta / math.sqrt(variance) if variance > 1e-20 else 0.0


@given(design=designs(), stratified=st.booleans())
def test_differences_follow_the_definition(design, stratified):
    evidence, traits, strata = design
    n = len(evidence.reference_scores)
    tests = UnitTests.of(evidence)
    delta, z = tests.difference(traits, strata if stratified else None)
    strata = strata if stratified else np.zeros_like(strata)
    expected = [by_definition(evidence, trait, strata) for trait in traits.T]
    assert delta == approx([pair[0] for pair in expected], abs=1e-9)
    clear = np.array([abs(pair[1]) > 1e-6 for pair in expected])
    assert z[clear] == approx(np.array([pair[1] for pair in expected])[clear], rel=1e-5)
    if not stratified:
        assert delta == approx(traits[:n].mean(axis=0) - traits[n:].mean(axis=0))
    for one, other in zip(tests.difference(sparse.csr_array(traits), strata), (delta, z), strict=True):
        assert one[clear] == approx(other[clear], rel=1e-5)


@given(design=designs())
def test_associations_follow_the_definition(design):
    evidence, traits, _ = design
    n = len(evidence.reference_scores)
    unit = np.concatenate([evidence.reference_units, evidence.model_units])
    scores = np.concatenate([evidence.reference_scores, evidence.model_scores])
    weight = np.repeat([0.5 / n, 0.5 / (len(unit) - n)], [n, len(unit) - n])

    def centred(values):
        return np.concatenate([values[:n] - values[:n].mean(), values[n:] - values[n:].mean()])

    slope, z = UnitTests.of(evidence).association(traits)
    for trait, own_slope, own_z in zip(traits.T, slope, z, strict=True):
        inside, weighted = centred(trait), centred(scores) * weight
        adds = np.array([(inside * weighted)[unit == number].sum() for number in np.unique(unit)])
        shuffled = sum((inside[part] ** 2).mean() * (weighted[part] ** 2).sum() for part in (slice(n), slice(n, None)))
        variance = max((adds**2).sum(), shuffled)
        if variance > 1e-12:
            assert own_z == approx(adds.sum() / math.sqrt(variance), abs=1e-6)
            assert own_slope == approx(adds.sum() / (inside**2 * weight).sum(), rel=1e-6, abs=1e-6)


def test_a_slope_is_that_of_the_score_within_the_sides():
    rng = np.random.default_rng(0)
    trait = np.concatenate([rng.normal(5, 1, 200), rng.normal(0, 2, 300)])
    noise = np.concatenate([np.full(200, 9.0), np.full(300, -4.0)])  # between the sides, which must not count
    scores = 0.25 * trait + noise
    slope, z = UnitTests.of(evidence_of(scores[:200], scores[200:])).association(trait[:, None])
    assert slope == approx([0.25])
    assert z > 5


def test_p_values_with_pairs_hold_for_every_sample():
    """Of all ways to swap the sides of pairs, no larger share than p reaches the z that has this p-value."""
    rng = np.random.default_rng(1)
    for numbers in ([1] * 12, [1] * 6, [5, 1, 1, 1, 1, 1], rng.exponential(size=12), rng.integers(0, 3, 12)):
        numbers = np.asarray(numbers, float)
        signs = np.array(list(itertools.product([-1, 1], repeat=len(numbers))))
        z = signs @ numbers / math.sqrt((numbers**2).sum())
        p_values = two_sided(z)
        for level in np.unique(p_values):
            assert np.mean(p_values <= level) <= level + 1e-12


def test_p_values_are_normal_tails():
    assert one_sided(np.array([0.0, 1.0, -1.0])) == approx([0.5, ndtr(-1.0), ndtr(1.0)])
    assert two_sided(np.array([0.0, 5.0, -5.0])) == approx([1.0, *[2 * 3.178 * ndtr(-5.0)] * 2])
    assert one_sided(np.array([60.0])) == two_sided(np.array([60.0])) == 1e-16


@pytest.mark.parametrize("design", ["pairs", "unequal", "reversed", "groups on one side", "generations"])
def test_differences_that_are_none_are_rarely_significant(design):
    """Rare words, drawn alike on both sides, at the 5 % level: 4,000 of them."""
    rng = np.random.default_rng(5)
    sizes = {"unequal": (600, 100), "reversed": (100, 600), "generations": (100, 400)}.get(design, (300, 300))
    n, m = sizes
    units = {
        "pairs": (np.arange(300), np.arange(300)),
        "unequal": (np.arange(n), n + np.arange(m)),
        "reversed": (np.arange(n), n + np.arange(m)),
        "groups on one side": (np.arange(300), 300 + np.arange(300) // 5),
        "generations": (np.arange(100), np.repeat(np.arange(100), 4)),
    }[design]
    count = 1 + max(int(own.max()) for own in units)
    chance = rng.beta(0.3, 6.0, (count, 4000))  # what the samples of a unit share
    present = (rng.random((n + m, 4000)) < chance[np.concatenate(units)]).astype(float)
    present = present[:, present.sum(axis=0) >= 20]
    _, z = UnitTests.of(evidence_of(np.zeros(n), np.zeros(m), *units)).difference(present)
    assert np.mean(2 * ndtr(-np.abs(z)) < 0.05) < 0.065
    assert np.mean(two_sided(z) < 0.01) < 0.01
    assert np.mean(two_sided(z) < 0.001) < 0.002


def test_strata_take_off_what_they_explain():
    rng = np.random.default_rng(3)
    strata = np.concatenate([rng.integers(0, 4, 400), rng.integers(1, 5, 400)])
    only_strata = strata + rng.normal(size=800)
    more = only_strata + np.repeat([0.0, 1.0], 400)
    tests = UnitTests.of(evidence_of(np.zeros(400), np.zeros(400)))
    raw, z_raw = tests.difference(np.stack([only_strata, more], axis=1))
    delta, z = tests.difference(np.stack([only_strata, more], axis=1), strata)
    assert raw == approx([-1, -2], abs=0.3)
    assert delta[1] < -0.5 < -0.1 < delta[0] < 0.1
    assert (abs(z_raw) > 7).all()
    assert abs(z[0]) < 3 < 7 < -z[1]


def test_strata_with_one_side_only_say_nothing():
    tests = UnitTests.of(evidence_of(np.zeros(50), np.zeros(50)))
    trait = np.random.default_rng(0).normal(size=(100, 1)) + np.repeat([0.0, 9.0], 50)[:, None]
    delta, z = tests.difference(trait, np.repeat([0, 1], 50))
    assert (delta, z) == (approx(0, abs=1e-12), approx(0, abs=1e-9))


def test_the_order_of_samples_changes_no_bit():
    rng = np.random.default_rng(4)
    n, m = 70, 50
    scores, traits = rng.normal(size=n + m), rng.normal(size=(n + m, 4))
    units = rng.integers(0, 30, n + m)
    keys = rng.integers(0, 2**63, 30).astype(np.uint64)
    results = []
    for order in (np.arange(n + m), np.concatenate([rng.permutation(n), n + rng.permutation(m)])):
        names, number = np.unique(units[order], return_inverse=True)
        number = rng.permutation(len(names))[number]  # units are numbered in any order, too
        evidence = evidence_of(scores[order[:n]], scores[order[n:]], number[:n], number[n:])
        own_keys = np.zeros(len(names), np.uint64)
        own_keys[number] = keys[units[order]]
        object.__setattr__(evidence, "keys", own_keys)
        tests = UnitTests.of(evidence)
        results.append([tests.gap, *tests.difference(traits[order]), *tests.association(traits[order])])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_gap_is_that_of_mean_scores():
    tests = UnitTests.of(evidence_of([1.0, 2.0, 6.0], [0.5, -1.5]))
    assert tests.gap == approx(3.5)
    assert tests.without(np.array([1.0, 1.0, 1.0, 0.0, 0.0])).gap == approx(2.5)
