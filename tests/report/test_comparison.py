"""Scores without a comparison, and the caveats of all results together."""

from dataclasses import replace

import pytest

from mallow.errors import Caveat, InputError
from mallow.report import collect_caveats
from mallow.report._comparison import as_comparison
from mallow.results import Estimate

OF_MODEL = Caveat("length", "texts are short.", "model")
OF_REFERENCE = Caveat("duplicates", "copies.", "reference")
OF_NOBODY = Caveat("few samples", "only few samples.")


def test_a_comparison_stays_as_it_is(compared):
    assert as_comparison(compared) is compared


def test_scores_are_put_in_order_and_named(compared):
    score = replace(compared.scores["near"], caveats=(OF_MODEL, OF_REFERENCE, OF_NOBODY))
    far = replace(score, certified={**score.certified, "mauve": Estimate(0.1, 0.0, 0.2)})
    comparison = as_comparison({"low": far, "high": score})
    assert list(comparison.scores) == ["high", "low"]
    lower = replace(score, mauve=0.1, certified={}, certified_frontier=None)
    assert list(as_comparison({"low": far, "lower": lower, "none": replace(lower, mauve=0.2)}).scores) == [
        "none",
        "lower",
        "low",
    ]
    assert (comparison.winner, comparison.ranks, comparison.differences) == (None, {}, ())
    assert [caveat.system for caveat in comparison.caveats] == ["high", "reference", "high", "low", "reference", "low"]
    assert list(as_comparison(score).scores) == ["model"]


def test_caveats_of_diagnoses_are_those_of_their_systems_and_come_once(compared, diagnosed):
    caveats = (OF_MODEL, OF_REFERENCE, OF_NOBODY)
    diagnoses = {name: replace(diagnosis, caveats=caveats) for name, diagnosis in diagnosed.items()}
    collected = collect_caveats(replace(compared, caveats=(OF_REFERENCE,)), diagnoses)
    assert [(caveat.system, caveat.kind) for caveat in collected] == [
        ("reference", "duplicates"),
        ("near", "length"),
        ("near", "few samples"),
        ("far <b>", "length"),
        ("far <b>", "few samples"),
    ]
    assert collect_caveats(compared) == compared.caveats


def test_anything_else_is_refused():
    for wrong in ({}, [1], {"a": 1}, "text"):
        with pytest.raises(InputError, match=r"^`comparison` must be a Comparison, a Score, or a mapping of names"):
            as_comparison(wrong)
