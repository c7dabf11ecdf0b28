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
    verify_passport,
)

SHARED = {
    "measure": MAUVE_STAR,
    "embedder": None,
    "repeats": 5,
    "rng": 0,
    "engine": None,
    "baseline": None,
    "paired": False,
    "prompts": "joint",
    "align": (),
}
OWN = {
    mallow.score: {"by": None, "match": None},
    mallow.compare: {},
    mallow.track: {"steps": None},
    mallow.permutation_test: {"permutations": 999, "independent_samples": True},
    mallow.sweep: {"plan": None, "tokens": 35, "skip_short": False, "batch": 64},
    mallow.Monitor: {"tolerance": None, "window": None},
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
    "groups": lambda: mallow.score(X, Y, by=(LABELS, LABELS)).scores["a"],
    "matched": lambda: mallow.score(X, Y, match=(LABELS, LABELS)).matched,
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


SHORT = Y[:29]
PAIRED = {
    "compare": lambda: mallow.compare(X, {"y": Y, "short": SHORT}, paired=True),
    "track": lambda: mallow.track(X, {"1": Y, "2": Z, "3": SHORT}, paired=True),
    "permutation test": lambda: mallow.permutation_test(X, SHORT, paired=True),
    "check": lambda: check_regression(X, SHORT, mallow.score(X, Y, repeats=1), paired=True),
    "plan": lambda: plan_samples(X, Y, SHORT, paired=True),
    "groups": lambda: mallow.score(X, SHORT, by=(LABELS, LABELS[:29]), paired=True),
    "matched": lambda: mallow.score(X, SHORT, match=(LABELS, LABELS[:29]), paired=True),
    "embedders": lambda: compare_embedders(TEXTS, {"y": TEXTS, "z": TEXTS[1:]}, [letters, squares], paired=True),
    "diagnose": lambda: mallow.diagnose(X, SHORT, paired=True),
    "report": lambda: mallow.report.compare_and_diagnose(X, {"y": SHORT}, paired=True),
    "baselines": lambda: mallow.baselines.table(X, {"y": SHORT}, paired=True),
    "witness": lambda: mallow.evidence.Witness()(X, SHORT, paired=True),
}


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_pairs_need_as_many_rows_on_all_sides(name):
    with pytest.raises(mallow.InputError, match=r"`paired` needs sets of equal length; got .*: 30, .*: 29\."):
        PAIRED[name]()
