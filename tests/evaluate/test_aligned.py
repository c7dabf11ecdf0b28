"""Caveats that measure themselves: the bound without the difference is the bound that the option gives."""

import re
import warnings

import numpy as np
import pytest

from mallow import EstimateWarning, InputError, Samples, compare, score

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
COMMON = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "was",
    "that",
    "his",
    "he",
    "it",
    "with",
    "as",
    "had",
    "for",
    "her",
    "she",
    "at",
    "on",
    "by",
    "not",
    "but",
]


def texts(seed, count=300, words=30):
    """Random words in a fixed proportion."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(COMMON) + 1)
    return [" ".join(rng.choice(COMMON, size=words, p=weights / weights.sum())) + "." for _ in range(count)]


HUMAN, SHORT = texts(1), [" ".join(text.split()[:4]) for text in texts(2)]


def test_a_caveat_reports_the_bound_without_its_difference():
    before = score(HUMAN, SHORT, embedder="style")
    (caveat,) = (caveat for caveat in before.caveats if caveat.kind == "length")
    after = score(HUMAN, SHORT, embedder="style", align="length")
    assert caveat.values["limit"] == before.certified["mauve"].high < 0.5
    assert caveat.values["limit_aligned"] == after.certified["mauve"].high > 0.9
    match = re.search(
        r'With the same lengths on both sides, MAUVE is at most ([\d.]+) instead of ([\d.]+): align="length"',
        caveat.message,
    )
    assert (float(match[1]), float(match[2])) == pytest.approx(
        (after.certified["mauve"].high, before.certified["mauve"].high), abs=1e-4
    )
    assert (before.signature.aligned, after.signature.aligned) == ("", "length")
    assert "| aligned in length |" in str(after.signature)
    assert not any(caveat.kind == "length" for caveat in after.caveats)


def test_a_difference_that_explains_nothing():
    upper = [f"{text} " for text in SHORT]
    messages = [caveat.message for caveat in score(HUMAN, upper, embedder="style").caveats]
    assert any("the same white space on both sides, MAUVE is still at most" in message for message in messages)


def test_only_a_proven_gap_is_measured():
    spaced = [f" {text}" for text in texts(3)]
    result = score(HUMAN, spaced, embedder="style")
    assert result.certified["mauve"].high == 1.0
    assert any(caveat.kind == "space" and "limit" not in caveat.values for caveat in result.caveats)


def test_many_changed_samples_are_left_to_the_option(monkeypatch):
    monkeypatch.setattr("mallow.evaluate._door._MOST_CHANGED", 10)
    messages = [caveat.message for caveat in score(HUMAN, SHORT, embedder="style").caveats]
    assert any(
        message.endswith('To score with the same lengths on both sides, pass align="length" (--align length).')
        for message in messages
    )


def test_features_that_came_with_the_samples_are_not_made_again():
    rng = np.random.default_rng(0)
    sides = [Samples(texts=side, features=rng.normal(at, 1.0, size=(300, 4))) for at, side in ((0, HUMAN), (3, SHORT))]
    result = score(*sides)
    assert result.certified["mauve"].high < 1.0
    assert any(caveat.kind == "length" and "limit" not in caveat.values for caveat in result.caveats)
    with pytest.raises(InputError, match="`align` changes the samples, but these have features already"):
        score(*sides, align="case")


def test_a_comparison_of_aligned_samples():
    systems = {"short": SHORT, "whole": texts(4)}
    comparison = compare(HUMAN, systems, embedder="style", align=["length"])
    assert {caveat.kind for caveat in comparison.caveats}.isdisjoint({"length", "truncation"})
    assert all(each.signature.aligned == "length" for each in [*comparison.scores.values(), comparison])


def test_the_warning_is_the_caveat():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EstimateWarning)
        result = score(HUMAN, SHORT, embedder="style")
    assert [str(each.message) for each in caught] == list(dict.fromkeys(map(str, result.caveats)))
