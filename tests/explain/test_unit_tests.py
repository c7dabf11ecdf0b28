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

from explain.made import evidence_of
from mallow.explain import UnitTests, two_sided


@st.composite
def designs(draw):
    """Sizes, units of any kind, traits, and strata."""
    n, m, count = draw(st.integers(2, 12)), draw(st.integers(2, 12)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    evidence = evidence_of(rng.normal(size=n), rng.normal(size=m), rng.integers(0, count, n), rng.integers(0, count, m))
    traits = rng.normal(size=(n + m, 3)) * (rng.random((n + m, 3)) < 0.5)
    return evidence, traits, rng.integers(0, draw(st.integers(1, 4)), n + m)


def by_definition(evidence, traits, strata):
    """The differences of means within strata, and their z, unit by unit (Cochran, Mantel and Haenszel)."""
    n, m = len(evidence.reference_scores), len(evidence.model_scores)
    unit = np.concatenate([evidence.reference_units, evidence.model_units])
    of_reference = np.arange(n + m) < n
    weight, delta, inside, spread = np.zeros(n + m), 0.0, traits.copy(), np.zeros_like(traits)
    for stratum in np.unique(strata):
        here = strata == stratum
        own, other = here & of_reference, here & ~of_reference
        a, b = own.sum(), other.sum()
        weight[own], weight[other] = (1 / n + 1 / m) * b / (a + b), -(1 / n + 1 / m) * a / (a + b)
        if a and b:
            difference = traits[own].mean(axis=0) - traits[other].mean(axis=0)
            delta = delta + (1 / n + 1 / m) * a * b / (a + b) * difference
        inside[here] -= traits[here].mean(axis=0)
        spread[here] = traits[here].var(axis=0)
    groups = [unit == number for number in np.unique(unit)]
    both = [len(set(of_reference[group])) == 2 for group in groups]
    adds = np.array([(weight[group, None] * inside[group]).sum(axis=0) for group in groups])
    least = (adds[both] ** 2).sum(axis=0)
    for side in (of_reference, ~of_reference):
        own = [group for group, double in zip(groups, both, strict=True) if not double and side[group].all()]
        if own:
            of_units = sum(inside[group].sum(axis=0) ** 2 for group in own)
            of_samples = sum((inside[group] ** 2).sum(axis=0) for group in own)
            varying = of_samples > 1e-9 * of_samples.max()
            alike = max(1.0, np.mean(of_units[varying] / of_samples[varying])) if varying.any() else 1.0
            least = least + alike * sum((weight[group, None] ** 2 * spread[group]).sum(axis=0) for group in own)
    variance = np.maximum((adds**2).sum(axis=0), least)
    delta = delta + np.zeros(traits.shape[1])
    return delta, np.where(variance > 1e-20, delta / np.sqrt(np.maximum(variance, 1e-20)), 0.0)


@given(design=designs(), stratified=st.booleans())
def test_differences_follow_the_definition(design, stratified):
    evidence, traits, strata = design
    n = len(evidence.reference_scores)
    tests = UnitTests.of(evidence)
    delta, z = tests.difference(traits, strata if stratified else None)
    strata = strata if stratified else np.zeros_like(strata)
    expected, expected_z = by_definition(evidence, traits, strata)
    assert delta == approx(expected, abs=1e-9)
    clear = np.abs(expected_z) > 1e-6
    assert z[clear] == approx(expected_z[clear], rel=1e-5)
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


@pytest.mark.parametrize("design", ["pairs", "unequal", "reversed", "groups on one side", "generations"])
def test_differences_that_are_none_are_rarely_significant(design):
    """Rare words, drawn alike on both sides, at the 5% level: 4,000 of them."""
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


@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, 1e9 / 7])
@pytest.mark.parametrize("beside", ["one side", "both sides"])
def test_a_trait_that_all_samples_share_changes_nothing_for_the_others(constant, beside):
    rng = np.random.default_rng(0)
    units = (np.arange(90) // 3, 30 + np.arange(70) // 2) if beside == "one side" else (np.arange(90), np.arange(70))
    traits = rng.normal(size=(160, 3)) + rng.normal(size=(70, 3))[np.concatenate(units) % 70]
    tests = UnitTests.of(evidence_of(np.zeros(90), np.zeros(70), *units))
    wide = np.column_stack([traits, np.full(160, constant)])
    (delta, z), (wide_delta, wide_z) = tests.difference(traits), tests.difference(wide)
    assert wide_delta[:3] == approx(delta)
    assert wide_z[:3] == approx(z)
    assert wide_delta[3] == approx(0.0, abs=1e-9 * max(constant, 1.0))
