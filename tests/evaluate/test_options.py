"""The options of all evaluations: the same names have the same defaults, and those that decide are what the docs say."""

import inspect

import numpy as np
import pytest

import mallow
from mallow import MAUVE_STAR
from mallow.evaluate import (
    check_regression,
    compare_embedders,
    compare_gaps,
    embed_pairs,
    make_passport,
    plan_samples,
    score_groups,
    score_matched,
    verify_passport,
)
from mallow.evidence import run_permutations

SHARED = {
    "measure": MAUVE_STAR,
    "embedder": None,
    "repeats": 5,
    "rng": 0,
    "engine": None,
    "baseline": None,
    "paired": False,
}
OWN = {
    mallow.score: {},
    mallow.compare: {},
    mallow.track: {"steps": None},
    mallow.permutation_test: {"permutations": 999},
    run_permutations: {"permutations": 999},
    mallow.sweep: {"plan": None, "tokens": 35, "skip_short": False, "batch": 64},
    mallow.Monitor: {},
    score_groups: {},
    score_matched: {"match": "length", "covariate": None},
    compare_gaps: {},
    compare_embedders: {},
    plan_samples: {"detect": 0.01, "power": 0.8, "level": 0.05},
    check_regression: {"max_drop": 0.02, "measure": None},
    make_passport: {"key": None},
    verify_passport: {"key": None},
    embed_pairs: {"lazy": False},
}


@pytest.mark.parametrize("function", OWN, ids=lambda function: function.__name__)
def test_defaults(function):
    parameters = inspect.signature(function).parameters.items()
    found = {name: one.default for name, one in parameters if one.default is not one.empty}
    expected = SHARED | OWN[function]
    assert found == {name: expected[name] for name in found}
    assert set(OWN[function]) <= set(found)


X, Y = np.random.default_rng(0).normal(size=(2, 30, 2))
Z = Y[::-1] + 1.5
LABELS = ["a"] * 30
TEXTS = [" ".join("abcd"[place] * 3 for place in row) for row in np.random.default_rng(1).integers(4, size=(30, 6))]


def letters(texts):
    return np.array([[text.count(letter) for letter in "abc"] for text in texts], float)


def squares(texts):
    return letters(texts) ** 2


CALLS = {
    "score": lambda: mallow.score(X, Y),
    "compare": lambda: next(iter(mallow.compare(X, {"y": Y}).scores.values())),
    "track": lambda: mallow.track(X, {"1": Y, "2": Z, "3": Y + 1}).comparison.scores["1"],
    "groups": lambda: score_groups(X, Y, (LABELS, LABELS)).scores["a"],
    "matched": lambda: score_matched(X, Y, match=(LABELS, LABELS)).matched,
    "gaps": lambda: compare_gaps({"y": (X, Y), "z": (X, Z)}).scores["z"],
    "embedders": lambda: next(
        iter(
            compare_embedders(TEXTS, {"y": TEXTS[::-1], "z": [one + "d" for one in TEXTS]}, [letters, squares])
            .comparisons["letters"]
            .scores.values()
        )
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_a_call_without_options_has_five_repeats_and_the_seed_0(name):
    found = CALLS[name]()
    assert (found.signature.repeats, found.signature.rng) == (5, 0)
    assert len(found.values["mauve"]) == 5
    assert found.signature.measure == repr(MAUVE_STAR)
