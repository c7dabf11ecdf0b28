"""Differences of systems: nothing where they are equal, recomputable, and an interval that agrees with the p-value."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx
from scipy.stats import norm

from mallow import KL, Samples
from mallow.errors import InputError
from mallow.evidence import (
    MAUVE_STAR,
    Evidence,
    IdentityTest,
    Witness,
    certify,
    difference_between,
    find_limit,
    find_units,
    gather_evidence,
    hold_out,
    make_learner,
    subtract_certificates,
)

QUICK = Witness(assignments=2)


def compare(x, a, b):
    units = find_units(*(Samples(features=rows) for rows in (x, a, b)))
    learner = make_learner(QUICK, [x, a, b], units)
    certificates = []
    for system in (1, 2):
        at_p, at_q = learner.scores(system)
        certificates.append(certify(at_p, at_q, units.pair(system)))
    return difference_between(learner, (1, 2), tuple(certificates), KL), certificates


def draw(seed, first, second, n=150, m=150, width=4, shared=0.0):
    rng = np.random.default_rng([3, seed])
    topic = rng.normal(size=(n, width))

    def side(size, shift):
        rows = shared * topic[:size] + np.sqrt(1 - shared**2) * rng.normal(size=(size, width))
        rows[:, 0] += shift
        return rows

    return topic, side(n, first), side(m, second)


@pytest.mark.parametrize(("shift", "m", "shared"), [(0.6, 150, 0.0), (0.6, 150, 0.9), (0.8, 60, 0.0), (0.0, 150, 0.0)])
def test_equal_systems_do_not_differ(shift, m, shared):
    p_values = [compare(*draw(seed, shift, shift, m=m, shared=shared))[0].p_value["mauve"] for seed in range(15)]
    assert np.mean(np.array(p_values) < 0.05) <= 0.2


def test_opposite_systems_that_are_equally_far_do_not_differ():
    p_values = [compare(*draw(seed, 0.7, -0.7))[0].p_value["mauve"] for seed in range(12)]
    assert np.mean(np.array(p_values) < 0.05) <= 0.2


def test_the_farther_system_is_found_and_the_order_only_turns_signs():
    x, near, far = draw(0, 0.3, 1.2)
    difference, certificates = compare(x, near, far)
    turned, _ = compare(x, far, near)
    assert difference.p_value["mauve"] < 1e-4
    assert difference.value["mauve"] > 0 > difference.value["midpoint"]
    for place, name in enumerate(("mauve", "frontier_integral", "midpoint")):
        first, second = (one.estimates[name].value for one in certificates)
        assert difference.value[name] == approx(first - second), place
        assert turned.value[name] == approx(-difference.value[name], abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_an_interval_leaves_out_zero_where_the_p_value_is_small(seed):
    difference, _ = compare(*draw(seed, 0.3, 0.3 + 0.05 * seed))
    for name, (low, high) in difference.interval.items():
        assert low <= difference.value[name] <= high
        assert (low > 0 or high < 0) == (difference.p_value[name] < 0.05)


def test_a_system_does_not_differ_from_itself():
    x, a, _ = (Samples(features=own) for own in draw(1, 0.8, 0.0))
    difference = hold_out(MAUVE_STAR, {"a": (x, a), "again": (x, replace(a))}).difference("a", "again")
    assert difference.value["mauve"] == 0.0
    assert difference.p_value["mauve"] == 1.0


def test_where_nothing_was_learned_any_difference_is_possible():
    rows = Samples(features=np.arange(20.0))
    nothing = certify(np.zeros(20), np.zeros(20), find_units(rows, rows))
    difference = subtract_certificates(nothing, nothing)
    assert difference.value["mauve"] == 0.0
    assert difference.interval["mauve"] == (-1.0, 1.0)
    assert difference.p_value["mauve"] == 1.0


def test_without_a_common_witness_p_values_allow_for_larger_errors():
    x, a, b = draw(2, 0.4, 0.8)
    _, (first, second) = compare(x, a, b)
    error = np.sqrt(((first.influence - second.influence) ** 2).sum(axis=0)[0])
    z = abs(first.estimates["mauve"].value - second.estimates["mauve"].value) / error
    assert z < 1.96  # within its error: no common witness is needed
    found = subtract_certificates(first, second)
    assert found.p_value["mauve"] == approx(2 * norm.sf(z / np.sqrt(2)), rel=0.2)
    low, high = found.interval["mauve"]
    assert (high - low) / 2 == approx(1.96 * error, rel=0.01)


def test_evidence_keeps_what_certifies_it():
    x, a, _ = draw(3, 0.8, 0.0)
    units = find_units(Samples(features=x), Samples(features=a))
    learner = make_learner(QUICK, [x, a], units)
    evidence = gather_evidence(learner, 1, permutations=99, seed=0)
    at_p, at_q = learner.scores(1)
    assert np.array_equal(evidence.reference_scores, at_p)
    assert np.array_equal(evidence.model_scores, at_q)
    assert evidence.certify(KL, 5.0).estimates == certify(at_p, at_q, units).estimates
    assert at_p.mean() > at_q.mean()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_scores": np.zeros(2)}, r"each sample must have a score and a unit; got \(2,\) and \(3,\)\."),
        (
            {"reference_scores": np.zeros((3, 1)), "reference_units": np.zeros((3, 1), int)},
            r"got \(3, 1\) and \(3, 1\)\.",
        ),
        ({"model_scores": np.zeros(0), "model_units": np.zeros(0, int)}, r"got \(0,\) and \(0,\)\."),
        ({"reference_units": np.array([0, 1, 4])}, "the units of samples must be whole numbers below 4, their number"),
        ({"reference_units": np.array([0, 1, -1])}, "the units of samples must be whole numbers below 4, their number"),
        (
            {"model_units": np.array([0.0, 1.0, 2.0])},
            "the units of samples must be whole numbers below 4, their number",
        ),
        ({"model_scores": np.array([0.0, np.inf, 0.0])}, r"held-out scores must be finite\."),
    ],
)
def test_evidence_that_does_not_fit_together_is_refused(changes, message):
    test = IdentityTest(0.5, 9, True, False, {})
    good = {"reference_scores": np.zeros(3), "model_scores": np.ones(3), "reference_units": np.array([0, 1, 3])}
    good |= {"model_units": np.array([0, 1, 2]), "keys": np.arange(4, dtype=np.uint64), "test": test}
    assert Evidence(**good).tolerance == 0.0
    assert Evidence(**good).units.count == 4
    with pytest.raises(InputError, match=message):
        Evidence(**good | changes)


def test_limits_are_those_of_no_gap_where_the_test_shows_none():
    scores = np.random.default_rng(0).normal(1.0, 0.5, size=(2, 200)) * [[1.0], [-1.0]]
    shown, not_shown = (
        Evidence(
            *scores,
            np.arange(200),
            np.arange(200),
            np.arange(200, dtype=np.uint64),
            IdentityTest(p, 9, True, False, {}),
        )
        for p in (0.049, 0.05)
    )
    certificate, without = (one.certify(KL, 5.0) for one in (shown, not_shown))
    assert certificate.estimates["mauve"].high < 0.9
    assert min(certificate.estimates[name].low for name in ("frontier_integral", "midpoint")) > 0
    assert without.estimates["mauve"].high == 1
    assert max(own.low for own in without.estimates.values()) == 0
    for name, own in without.estimates.items():
        assert own.value == certificate.estimates[name].value


@pytest.mark.parametrize("copies", [1, 3], ids=["pairs", "units that must be cut"])
@pytest.mark.parametrize("shift", [0.0, 0.4, 0.6])
def test_the_limit_alone_is_the_one_of_the_whole_evidence(shift, copies):
    """It only needs to know whether the test shows a gap, which further permutations do not change."""
    rng = np.random.default_rng(5)
    ids = [str(row) for row in range(60)]
    reference = Samples(features=rng.normal(size=(60, 3)), ids=ids)
    others = ids if copies == 1 else [f"other {row // copies}" for row in range(60)]
    model = Samples(features=rng.normal(shift, 1.0, size=(60, 3)), ids=others)
    whole = hold_out(MAUVE_STAR, {"model": (reference, model)})
    assert find_limit(MAUVE_STAR, reference, model) == whole.certificates["model"].estimates["mauve"].high
    assert (whole.evidence["model"].test.p_value < 0.05) == (shift > 0)
