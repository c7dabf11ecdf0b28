"""Candidates: their p-values, corrected for all that are judged together, and for both tests."""

import numpy as np
from pytest import approx

from explain.made import evidence_of
from mallow.evidence import holm
from mallow.explain import UnitTests, two_sided
from mallow.explain._candidates import Candidate, clip_tails, judge_traits
from mallow.explain._reasons import _confirm
from mallow.explain._unit_tests import one_sided

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
