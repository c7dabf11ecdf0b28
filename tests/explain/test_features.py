"""Features: moments, distances, and the columns that differ."""

import itertools

import numpy as np
import pytest
from pytest import approx

from explain.made import evidence_of
from mallow import Samples
from mallow.explain import UnitTests, compare_answers
from mallow.explain._candidates import column_candidates, distance_candidate, standardise

RNG = np.random.default_rng(0)
X, Y = RNG.normal(3, 2, (400, 40)), RNG.normal(3, 2, (400, 40))
TESTS = UnitTests.of(evidence_of(np.zeros(400), np.zeros(400)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_moments_are_those_of_the_columns(dtype, shift):
    x, y = (X + shift).astype(dtype), (Y[:300] + shift).astype(dtype)
    features = standardise(x, y)
    for place, side in enumerate((x, y)):
        assert features.means[place] == approx(side.astype(float).mean(axis=0))
        assert features.deviations[place] == approx(side.astype(float).std(axis=0), rel=1e-6)
    columns = features.columns(np.array([3, 1]))
    assert columns.shape == (700, 2)
    assert columns[:400].mean() == approx(-columns[400:].mean(), abs=1e-3)
    everything = features.columns(np.arange(40))
    assert features.distances() == approx((everything**2).mean(axis=1), rel=1e-3)
    assert features.distances().mean() == approx(1.0, abs=0.05)


def test_constant_columns_do_not_count():
    x, y = X.copy(), Y.copy()
    x[:, 5] = y[:, 5] = 7.1
    x[:, 6], y[:, 6] = 0.0, 0.0
    with np.errstate(all="raise"):
        features = standardise(x, y)
        assert np.isinf(features.scale[[5, 6]]).all()
        assert (features.columns(np.array([5, 6])) == 0).all()
        others = [place for place in range(40) if place not in (5, 6)]
        assert features.distances() == approx((features.columns(np.array(others)) ** 2).mean(axis=1), rel=1e-4)
        assert column_candidates(features, TESTS, 0.05) == []


def test_distances_tell_variety():
    distance = distance_candidate(standardise(X, 3 + (Y - 3) * 0.5))
    means = distance.trait[400:].mean(), distance.trait[:400].mean()
    text, values = distance.phrase(*means)
    assert distance.kind == "region"
    assert text == "features that vary less (mean squared distance from the centre 0.4, reference 1.6)"
    assert values == {"model": means[0], "reference": means[1]}
    assert distance.phrase(means[1], means[0])[0].startswith("features that vary more")
    assert distance.phrase(1.049, 1.0)[0] == ""
    assert distance.phrase(1.0, 1.051)[0] != ""


def test_columns_that_differ_are_named_the_clearest_first():
    y = Y.copy()
    y[:, 17] += 4
    y[:, 4] -= 2
    means, *rest = column_candidates(standardise(X, y), TESTS, 0.05)
    assert rest == []
    text, values = means.phrase(*means.means)
    assert text == "other means in columns 17 and 4 (column 17: mean 6.8, reference 2.9)"
    assert values["column 4"] == approx(y[:, 4].mean())
    assert values["column 4, reference"] == approx(X[:, 4].mean())
    # The trait is larger for samples that look like the reference.
    assert means.trait[:400].mean() > means.trait[400:].mean() + 1


def test_one_column_with_another_mean_or_spread():
    y = Y.copy()
    y[:, 4] -= 3
    y[:, 9] = 3 + (y[:, 9] - 3) * 3
    means, spreads = column_candidates(standardise(X, y), TESTS, 0.05)
    assert means.phrase(0, 0)[0].startswith("smaller values in column 4 (mean -0.1, reference 3.")
    assert spreads.phrase(0, 0)[0].startswith("more spread in column 9 (standard deviation ")
    assert means.adjusted == approx(2 * 40 * means.p_value)


def test_all_columns_are_corrected_for():
    """Columns that are drawn alike: in few of many trials is any significant."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(60):
        x, y = rng.standard_t(4, (2, 100, 300))
        tests = UnitTests.of(evidence_of(np.zeros(100), np.zeros(100)))
        alarms += bool(column_candidates(standardise(x, y), tests, 0.05))
    assert alarms <= 3


@pytest.mark.parametrize("prompts", [4, 5, 9])
def test_answers_to_a_prompt_are_compared_where_both_sides_have_several(prompts):
    """The mean cosine of pairs of answers, over at least five prompts; others have one answer on some side."""
    rng = np.random.default_rng(prompts)
    units = np.repeat(np.arange(prompts + 3), 3), np.concatenate([np.repeat(np.arange(prompts), 2), [prompts]])
    rows = [rng.normal(size=(len(unit), 4)) for unit in units]
    evidence = evidence_of(np.zeros(len(units[0])), np.zeros(len(units[1])), *units)
    found = compare_answers(*(Samples(features=own) for own in rows), evidence)
    expected = {}
    for name, own, unit in zip(("reference", "model"), rows, units, strict=True):
        unit_rows = own / np.linalg.norm(own, axis=1, keepdims=True)
        cosines = [
            unit_rows[i] @ unit_rows[j]
            for i, j in itertools.permutations(range(len(unit)), 2)
            if unit[i] == unit[j] and unit[i] < prompts
        ]
        expected[name] = pytest.approx(np.mean(cosines))
    assert found == (expected if prompts >= 5 else {})
