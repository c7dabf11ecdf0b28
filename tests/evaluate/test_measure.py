"""A measure: symmetric to the last bit, with the scale of its estimator, and one for string kernels."""

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from mallow import (
    CHI2,
    HELLINGER2,
    KL,
    MAUVE_2021,
    MAUVE_STAR,
    InputError,
    Masses,
    Measure,
    Neighbors,
    Quantize,
    Samples,
    theory,
)
from mallow.cli import cli
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


WORDS = {"mauve-star": MAUVE_STAR, "MAUVE_2021": MAUVE_2021, "Mauve-Kernel": MAUVE_KERNEL}


@pytest.mark.parametrize("word", WORDS)
def test_words_stand_for_measures_as_on_the_command_line(word):
    x, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    with pytest.warns(mallow.EstimateWarning):
        named, passed = mallow.score(x, y, measure=word), mallow.score(x, y, measure=WORDS[word])
    assert named.to_dict() == passed.to_dict()


def test_parts_of_a_measure_have_words_too():
    assert Measure("neighbors", "chi2") == Measure(Neighbors(), CHI2)
    assert Measure(divergence="LE_CAM").divergence is mallow.theory.LE_CAM
    assert Measure("quantize", "kl") == Measure() == MAUVE_STAR
    options = click.Context(cli.commands["score"]).command.params
    choices = {option.name: set(option.type.choices) for option in options if hasattr(option.type, "choices")}
    assert choices["measure"] == set(mallow.evidence.MEASURES)
    assert {Measure(divergence=word).divergence for word in choices["divergence"]} == set(theory.DIVERGENCES.values())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Measure("neighbours"), "`estimator` must be one of quantize, neighbors, .*Did you mean neighbors"),
        (lambda: Measure(Quantize), r"`estimator` must be an estimator, such as Quantize\(\); got <class"),
        (lambda: Measure(divergence="kld"), "`divergence` must be one of kl, chi2, .*; got 'kld'"),
        (
            lambda: Measure(divergence=2.0),
            "`divergence` must be a Divergence or the name of one, such as 'kl'; got 2.0",
        ),
        (lambda: mallow.score([[0.0]] * 9, [[1.0]] * 9, measure="mauve"), "`measure` must be one of mauve-star, "),
        (
            lambda: mallow.compare([[0.0]] * 9, {"a": [[1.0]] * 9}, measure=5),
            "`measure` must be a Measure, or the name",
        ),
    ],
)
def test_a_wrong_word_is_refused_when_an_option_is_made(make, message):
    with pytest.raises(InputError, match=message):
        make()
