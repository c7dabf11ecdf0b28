"""Resampling, Holm's correction and the lookalike estimate behind intervals."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import MAUVE_STAR, InputError, Masses, area, integral, smoothing
from mallow.inference import (
    collect_evidence,
    holm,
    pair_difference,
    permutation_p_value,
    resample_counts,
    resample_summaries,
    score_interval,
)
from mallow.inference._calibration import calibrate, find_influence
from mallow.theory._masses import Partition


def partition(p, q, n, m, rng):
    bins = len(p)
    return Partition(rng.choice(bins, n, p=p), rng.choice(bins, m, p=q), np.zeros((bins, 1)))


RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(60))
Q = P * np.exp(0.6 * RNG.normal(size=60))
Q /= Q.sum()
TRUTH = Masses.from_histograms(P, Q)


@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 5), st.integers(0, 99))
def test_resampled_counts_are_histograms_of_the_resample(n, bins, resamples, seed):
    rng = np.random.default_rng(seed)
    labels, index = rng.integers(bins, size=n), rng.integers(n, size=(resamples, n))
    counts = resample_counts(labels, bins, index)
    assert counts.shape == (resamples, bins)
    for row, one in zip(counts, index, strict=True):
        assert row.tolist() == np.bincount(labels[one], minlength=bins).tolist()


def test_resampling_knows_the_spread_of_the_score():
    rng = np.random.default_rng(1)
    parts = {"a": [partition(P, Q, 1500, 1500, rng)]}
    found = resample_summaries(parts, MAUVE_STAR.summarise_counts, resamples=400, rng=0)["a"]["frontier_integral"]
    counts = rng.multinomial(1500, P, size=400), rng.multinomial(1500, Q, size=400)
    kt = smoothing.krichevsky_trofimov
    actual = integral(Masses.from_histograms(kt(counts[0]), kt(counts[1])))
    assert found.std() == approx(actual.std(), rel=0.25)


def test_paired_samples_are_drawn_together():
    rng = np.random.default_rng(2)
    first = partition(P, Q, 500, 500, rng)
    same = {"a": [first], "b": [Partition(first.p_labels, first.q_labels.copy(), first.centres)]}
    drawn = resample_summaries(same, MAUVE_STAR.summarise_counts, resamples=50, rng=0)
    assert drawn["a"]["mauve"] == approx(drawn["b"]["mauve"])
    alone = {"a": [first], "b": [partition(P, Q, 500, 400, rng)]}
    drawn = resample_summaries(alone, MAUVE_STAR.summarise_counts, resamples=50, rng=0)
    assert abs(np.corrcoef(drawn["a"]["mauve"], drawn["b"]["mauve"])[0, 1]) < 0.95


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_never_lowers(values):
    adjusted = holm(values)
    assert all(a >= p for a, p in zip(adjusted, values, strict=True))
    assert all(a <= 1 for a in adjusted)
    order = sorted(range(len(values)), key=lambda i: values[i])
    assert all(adjusted[i] <= adjusted[j] for i, j in pairwise(order))


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(InputError, match=r"`p_values` must lie between 0 and 1"):
        holm([0.5, 1.5])


def test_the_lookalike_estimate_is_nearer_the_truth_than_smoothing():
    rng = np.random.default_rng(3)
    kt = smoothing.krichevsky_trofimov
    ours, plain = [], []
    for _ in range(15):
        a, b = rng.multinomial(600, P).astype(float), rng.multinomial(600, Q).astype(float)
        ours.append(calibrate(a, b, rng=rng).score[:2])
        masses = Masses.from_histograms(kt(a), kt(b))
        plain.append([area(masses, scale=5), integral(masses)])
    truth = np.array([area(TRUTH, scale=5), integral(TRUTH)])
    assert (np.abs(np.mean(ours, axis=0) - truth) < 0.5 * np.abs(np.mean(plain, axis=0) - truth)).all()


def test_influence_predicts_what_one_more_sample_does():
    part = partition(P, Q, 400, 400, np.random.default_rng(4))
    of_p = find_influence(part).of_p
    assert of_p.shape == (400, 3)
    assert of_p.mean(axis=0) == approx(np.zeros(3), abs=1e-12)
    counts, other = part.p_counts, part.q_counts
    change = []
    for bin_ in (0, 5, 9):
        more = counts + np.eye(60)[bin_] - counts / counts.sum()  # one sample from the mean to that bin
        change.append([integral(_smoothed(c, other)) for c in (counts, more)])
    predicted = [of_p[part.p_labels == bin_][0, 1] for bin_ in (0, 5, 9)]
    actual = [b - a for a, b in change]
    assert np.corrcoef(predicted, actual)[0, 1] > 0.95


def _smoothed(a, b):
    return Masses((a + 0.5) / (a.sum() + 30), (b + 0.5) / (b.sum() + 30))


def values_of(part):
    return {name: (float(value),) for name, value in MAUVE_STAR.summarise_counts(part.p_counts, part.q_counts).items()}


def evidence_for(part, rng):
    return collect_evidence([part], values_of(part), divergence=MAUVE_STAR.divergence, scale=5, rng=rng)


def test_intervals_cover_the_truth():
    covered, differences = [], []
    other = P * np.exp(0.6 * np.random.default_rng(8).normal(size=60))
    other /= other.sum()
    gap = area(TRUTH, scale=5) - area(Masses.from_histograms(P, other), scale=5)
    for seed in range(25):
        rng = np.random.default_rng([5, seed])
        part = partition(P, Q, 600, 600, rng)
        second = Partition(part.p_labels, rng.choice(60, 600, p=other), part.centres)
        a, b = evidence_for(part, rng), evidence_for(second, rng)
        if (ends := score_interval(a)["mauve"]) is not None:
            covered.append(ends[0] <= area(TRUTH, scale=5) <= ends[1])
        low, high = pair_difference(a, b, paired=False).interval["mauve"]
        differences.append(low <= gap <= high)
    assert len(covered) >= 10
    assert np.mean(covered) >= 0.85
    assert np.mean(differences) >= 0.85


def test_at_identity_an_interval_reaches_one_or_is_not_given():
    rng = np.random.default_rng(6)
    found = [score_interval(evidence_for(partition(P, P, 600, 600, rng), rng))["mauve"] for _ in range(12)]
    assert any(one is None for one in found)
    assert sum(one is None or one[1] == 1.0 for one in found) >= 10


def test_the_permutation_p_value_is_small_for_a_gap():
    rng = np.random.default_rng(7)
    assert permutation_p_value(partition(P, Q, 600, 600, rng), MAUVE_STAR.summarise_counts, permutations=199) <= 0.01
    with pytest.raises(InputError, match=r"`permutations` must be an integer of at least 1; got 0"):
        permutation_p_value(partition(P, Q, 60, 60, rng), MAUVE_STAR.summarise_counts, permutations=0)
