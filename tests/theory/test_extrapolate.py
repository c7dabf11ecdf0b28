"""Debiasing: deterministic, exact for its half-samples, never out of range, and closer to the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from mallow import InputError, Masses, area, frontier, integral, smoothing
from mallow.theory import extrapolated
from mallow.theory.smoothing import krichevsky_trofimov
from strategies import divergences

counts = st.integers(2, 8).flatmap(
    lambda k: hnp.arrays(np.int64, (2, k), elements=st.integers(0, 40)).filter(
        lambda array: (array.sum(axis=-1) > 0).all()
    )
)


@given(counts, divergences)
def test_the_debiased_frontier_is_a_frontier(pair, divergence):
    masses = extrapolated(*pair)
    curve = frontier(masses, divergence)
    assert (curve.p_to_mix >= 0).all()
    assert (curve.q_to_mix >= 0).all()
    assert (np.diff(curve.p_to_mix) <= 1e-12).all()
    assert (np.diff(curve.q_to_mix) >= -1e-12).all()
    assert 0 <= area(masses, scale=5, divergence=divergence) <= 1
    swapped = area(masses.swap(), scale=5, divergence=divergence)
    assert area(extrapolated(pair[1], pair[0]), scale=5, divergence=divergence) == approx(swapped, abs=1e-9)


@given(counts)
def test_a_batch_gives_what_its_members_give(pair):
    both = extrapolated(np.stack([pair[0], pair[1]]), np.stack([pair[1], pair[0]]))
    singles = [extrapolated(*pair), extrapolated(*pair[::-1])]
    assert area(both, scale=5) == approx([area(masses, scale=5) for masses in singles], abs=1e-9)
    assert integral(both) == approx([integral(masses) for masses in singles], abs=1e-9)


def test_with_as_many_bins_as_samples_it_is_the_add_half_estimate():
    p, q = np.random.default_rng(0).multinomial(50, np.full(50, 0.02), size=2)
    masses = extrapolated(p, q)
    assert masses.plain
    assert masses.p == approx(krichevsky_trofimov(p))


def test_far_apart_and_sparse_is_left_alone_while_equal_is_corrected():
    """60 bins for 90 samples: the costs of disjoint samples rise with more data, those of equal ones fall."""
    equal = np.full(60, 2) - np.arange(60) % 2  # 90 samples
    apart = np.where(np.arange(60) < 30, 3, 0)
    assert not extrapolated(equal, equal[::-1]).plain
    assert extrapolated(apart, apart[::-1]).plain


def test_an_extrapolation_that_wiggles_is_made_monotone_on_both_sides():
    """Twice the costs of one pair minus those of another, which rise where they must fall: both coordinates are mended."""
    p, q = [0.02, 0.54, 0.44, 0.77, 0.0, 0.23], [0.93, 0.06, 0.01, 0.0, 0.27, 0.73]
    weight = np.repeat([2.0, -1.0], 3)
    curve = frontier(Masses(np.array(p), np.array(q), weight=weight))
    pairs = [frontier(Masses.from_histograms(p[i : i + 3], q[i : i + 3]), grid=curve.lam) for i in (0, 3)]
    for side, sign in (("p_to_mix", 1.0), ("q_to_mix", -1.0)):
        first, second = (getattr(pair, side) for pair in pairs)
        assert (sign * np.diff(np.maximum(2.0 * first - second, 0.0))).max() > 0.1
        assert (sign * np.diff(getattr(curve, side))).max() <= 0.0


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_it_is_closer_to_the_truth_than_smoothing(shift):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(200))
    q = p * np.exp(shift * rng.normal(size=200))
    q /= q.sum()
    truth = Masses.from_histograms(p, q)
    a, b = rng.multinomial(2000, p, size=60), rng.multinomial(2000, q, size=60)
    plain = Masses.from_histograms(krichevsky_trofimov(a), krichevsky_trofimov(b))
    ours = extrapolated(a, b)

    def error(masses, summary):
        return np.sqrt(np.mean((summary(masses) - summary(truth)) ** 2))

    for summary in (lambda m: area(m, scale=5), integral):
        assert error(ours, summary) < 0.5 * error(plain, summary)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 1], [1, 1], r"`p_counts` must be whole numbers; got 0.5 at index 0"),
        ([1, 1], [0, 0], r"`q_counts` must hold at least one sample, but all bins are empty"),
        ([1, 1], [1, 1, 1], r"`p_counts` and `q_counts` must have the same shape"),
    ],
)
def test_bad_counts_are_refused(p, q, message):
    with pytest.raises(InputError, match=message):
        extrapolated(p, q)


def test_summaries_agree_with_the_debiased_curve():
    p, q = smoothing.krichevsky_trofimov([[30, 20, 10], [10, 20, 30]])
    assert integral(Masses(p, q, weight=np.ones(3))) == approx(integral(Masses(p, q)), rel=1e-9)
