"""A measure: symmetric to the last bit, with the scale of its estimator, and one for string kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from mallow import CHI2, HELLINGER2, KL, MAUVE_2021, MAUVE_STAR, InputError, Masses, Measure, Neighbors, Samples
from mallow.evidence import MAUVE_KERNEL, Witness, measure_for


@given(seed=st.integers(0, 10_000), bins=st.integers(2, 40), divergence=st.sampled_from([KL, CHI2, HELLINGER2]))
def test_the_sides_can_be_exchanged_to_the_last_bit(seed, bins, divergence):
    rng = np.random.default_rng(seed)
    masses = Masses.from_histograms(*rng.dirichlet(np.ones(bins), size=2))
    measure = Measure(divergence=divergence)
    assert measure.summarise(masses) == measure.summarise(masses.swap())


def test_summaries_are_those_of_the_theory():
    masses = Masses.from_histograms([0.5, 0.3, 0.2], [0.2, 0.2, 0.6])
    for divergence in (KL, HELLINGER2):
        found = Measure(divergence=divergence, scale=2.0).summarise(masses)
        assert found["mauve"] == pytest.approx(mallow.area(masses, scale=2.0, divergence=divergence))
        assert found["frontier_integral"] == pytest.approx(mallow.integral(masses, divergence), rel=1e-9)
        assert found["midpoint"] == pytest.approx(mallow.midpoint(masses, divergence))
    batch = Masses.from_histograms([[0.5, 0.5], [0.2, 0.8]], [[0.4, 0.6], [0.2, 0.8]])
    assert MAUVE_STAR.summarise(batch)["mauve"][1] == 1.0
    ratio = Masses.from_log_ratio([0.5, -0.2], [0.1, -0.5])
    found = MAUVE_STAR.summarise(ratio)
    assert found["frontier_integral"] == pytest.approx(mallow.integral(ratio), rel=1e-9)
    # A closed form is exact where quadrature is not: near equality all digits are right.
    near = Masses.from_histograms([0.5, 0.5], [0.5 + 1e-9, 0.5 - 1e-9])
    assert MAUVE_STAR.summarise(near)["frontier_integral"] == mallow.integral(near.swap())


def test_a_string_kernel_has_a_measure_of_its_own_unless_one_is_asked_for():
    plain, kernel = Samples(features=np.ones((2, 2))), Samples(features=np.ones((2, 2)), provenance={"kernel": "ngram"})
    assert measure_for(MAUVE_STAR, kernel) is MAUVE_KERNEL
    assert measure_for(MAUVE_STAR, plain) is MAUVE_STAR
    assert measure_for(MAUVE_2021, kernel) is MAUVE_2021
    asked = Measure()
    assert measure_for(asked, kernel) is asked
    assert MAUVE_KERNEL.area_scale == 10
    assert (MAUVE_KERNEL.estimator.reduce, MAUVE_KERNEL.estimator.pooled) == (None, False)


def test_a_witness_is_named_where_it_is_not_the_usual_one():
    assert "Witness" not in repr(Measure())
    other = Witness(folds=7)
    assert repr(Measure(witness=other)).endswith(f", {other!r})")
    with pytest.raises(
        InputError, match=r"Counts need an estimator with bins, such as Quantize, but this one is Neighbors"
    ):
        Measure(Neighbors()).summarise_counts(np.ones(2), np.ones(2))
