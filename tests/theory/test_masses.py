"""Masses: what is refused and why, likelihood ratios, swapping."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from mallow import KL, InputError, Masses, area, frontier, integral, interpolated, midpoint
from mallow.errors import Caveat
from mallow.theory import Partition
from strategies import divergences, mixing


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, -0.5, 1.0], [0.5, 0.5, 0.0], r"`p` must not be negative; got -0.5 at index 1"),
        ([0.5, 0.5], [np.nan, 1.0], r"`q` must be finite; got nan at index 0"),
        ([0.5, np.inf], [0.5, 0.5], r"`p` must be finite; got inf at index 1"),
        ([0.5, 0.49], [0.5, 0.5], r"`p` must sum to 1 within 1e-06; got 0.99\.$"),
        ([[0.5, 0.5], [0.5, 0.6]], np.full((2, 2), 0.5), r"`p` must sum to 1 .* got 1.1 in row \(1,\)"),
        ([3, 7], [0.5, 0.5], r"`p` must sum to 1 .* got 10\. Turn counts .* with mallow.smoothing first"),
        ([0.5, 0.5], [0.5, 0.25, 0.25], r"`p` and `q` must have the same shape.* got \(2,\) and \(3,\)"),
        ([[0.5, 0.5]], [0.5, 0.5], r"`p` and `q` must have the same shape.* got \(1, 2\) and \(2,\)"),
        ([], [], r"`p` must not be empty; got shape \(0,\)"),
        (1.0, 1.0, r"`p` must have at least one axis"),
        (["a", "b"], [0.5, 0.5], r"`p` must be an array of real numbers; got dtype"),
        ([1 + 1j, 0], [0.5, 0.5], r"`p` must be an array of real numbers; got dtype complex128"),
    ],
)
def test_bad_histograms_are_refused(p, q, message):
    with pytest.raises(InputError, match=message):
        Masses.from_histograms(p, q)


def test_small_rounding_and_float32_are_accepted():
    third = np.full(3, 1 / 3, dtype=np.float32)
    assert Masses.from_histograms(third, third).p.dtype == np.float64
    assert Masses.from_histograms([1, 0], [0, 1]).q.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("at_p", "at_q", "message"),
    [
        ([np.nan], [0.0], r"`at_p` must hold log-ratios; got NaN at index 0"),
        ([0.0], [], r"`at_q` must not be empty"),
        ([[0.0]], [0.0], r"must have the same leading axes; got shapes \(1, 1\) and \(1,\)"),
    ],
)
def test_bad_ratios_are_refused(at_p, at_q, message):
    with pytest.raises(InputError, match=message):
        Masses.from_log_ratio(at_p, at_q)


ratios = hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-20, 20))


@given(divergences, ratios, ratios, mixing)
def test_with_a_likelihood_ratio_a_cost_is_the_sample_mean_of_the_generator(divergence, at_p, at_q, lam):
    # paper: eq:knn:fdiv-from-LR, eq:divf:discretized:knn
    masses = Masses.from_log_ratio(at_p, at_q)
    assert divergence(masses) == approx(divergence.f(np.exp(at_q)).mean(), rel=1e-9)
    curve = frontier(masses, divergence, grid=[lam])
    expected = interpolated(divergence, lam).f(np.exp(at_q)).mean()
    assert curve.p_to_mix[0] == approx(expected, rel=1e-9)
    expected = interpolated(divergence, 1 - lam).f(np.exp(-at_p)).mean()
    assert curve.q_to_mix[0] == approx(expected, rel=1e-6)


@given(ratios, ratios)
def test_swapping_a_likelihood_ratio_is_taking_its_inverse(at_p, at_q):
    masses = Masses.from_log_ratio(at_p, at_q)
    swapped, inverse = masses.swap(), Masses.from_log_ratio(-at_q, -at_p)
    assert swapped.split == inverse.split
    assert swapped.p == approx(inverse.p)
    assert swapped.q == approx(inverse.q)
    assert swapped.swap().p == approx(masses.p)
    assert area(masses, scale=5) == approx(area(swapped, scale=5), abs=1e-10)


def test_a_true_ratio_over_all_atoms_gives_the_histogram_values():
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])
    ratio = np.log(p / q)
    at_p, at_q = (np.repeat(ratio, (10 * side).round().astype(int)) for side in (p, q))
    weighted = Masses.from_log_ratio(at_p, at_q)
    plain = Masses.from_histograms(p, q)
    assert KL(weighted) == approx(KL(plain))
    assert area(weighted, scale=5) == approx(area(plain, scale=5), abs=1e-12)
    assert integral(weighted) == approx(integral(plain), rel=1e-10)
    assert midpoint(weighted) == approx(midpoint(plain))


def test_ratios_of_zero_and_infinity_are_legal():
    unseen = Masses.from_log_ratio(at_p=[np.inf, 0.0], at_q=[-np.inf, 0.0])
    assert 0 < area(unseen, scale=5) < 1
    assert integral(unseen) == approx(1 / 3)  # 2∫λ(1−λ)dλ at each of the two unseen points, halved
    overflowing = Masses.from_log_ratio(at_p=[0.0], at_q=[800.0])
    assert KL(overflowing) == np.inf
    assert frontier(overflowing, grid=2).p_to_mix.tolist() == [np.inf]
    assert integral(overflowing) == np.inf


def test_pooled_ratios_see_what_the_model_misses():
    disjoint = {"at_p": np.full(50, np.inf), "at_q": np.full(40, -np.inf)}
    assert integral(Masses.from_log_ratio(**disjoint)) == approx(2 / 3)
    pooled = Masses.from_log_ratio(**disjoint, pooled=True)
    assert pooled.plain
    assert integral(pooled) == approx(1)
    assert pooled.p.sum() == approx(1)
    # With the true ratio at samples of both sides, it estimates the same divergence.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=20_000), rng.normal(1.0, 1.0, size=20_000)
    masses = Masses.from_log_ratio(0.5 - x, 0.5 - y, pooled=True)
    assert KL(masses) == approx(0.5, rel=0.05)
    swapped = Masses.from_log_ratio(y - 0.5, x - 0.5, pooled=True)
    assert area(swapped, scale=5) == approx(area(masses, scale=5), abs=1e-10)


def test_swapping_keeps_caveats_weights_and_the_partition():
    caveats = (Caveat("few samples", "only 3 samples."),)
    partition = Partition(np.array([0, 1]), np.array([1, 1, 1]), np.zeros((2, 1)))
    weight = np.array([1.0, 2.0])
    for split in (None, 1):
        masses = Masses(np.array([0.5, 0.5]), np.array([0.2, 0.8]), split, weight, partition, caveats)
        swapped = masses.swap()
        assert swapped.caveats == caveats
        assert swapped.partition.p_labels is partition.q_labels
        assert swapped.weight.tolist() == ([1.0, 2.0] if split is None else [2.0, 1.0])
        assert swapped.swap().p.tolist() == masses.p.tolist()
        assert swapped.swap().weight.tolist() == weight.tolist()


def test_masses_pickle_with_and_without_their_tables():
    masses = Masses.from_histograms([0.5, 0.5], [0.25, 0.75])
    before = area(masses, scale=5)
    again = pickle.loads(pickle.dumps(masses))
    assert area(again, scale=5) == before
