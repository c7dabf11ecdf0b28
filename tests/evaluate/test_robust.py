"""Several embedders: a winner only where all agree."""

import warnings

import numpy as np
import pytest

import mallow
from made_results import made_comparison
from mallow.errors import EstimateWarning, InputError
from mallow.evidence import holm

WORDS = ["apple", "bear", "cat", "dune", "east"]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        yield


def letters(texts):
    return np.array([[text.count(letter) for letter in "abcdeprst"] for text in texts], float)


def lengths(texts):
    return np.array([[len(text), text.count(" ")] for text in texts], float)


def texts(seed, words=5, low=8, n=150):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS[:words], rng.integers(low, low + 8))) for _ in range(n)]


def test_a_winner_needs_all_embedders():
    human = texts(0)
    agreed = mallow.compare_embedders(
        human, {"a": texts(1), "b": texts(2, words=3, low=14)}, [letters, lengths], repeats=1
    )
    assert agreed.winner == "a"
    assert agreed.verdict.startswith("Smallest proven gap by both embedders: a. They agree on 1 of 1 pairs")
    assert list(agreed.comparisons) == ["letters", "lengths"]


def test_embedders_that_contradict_each_other_name_no_winner():
    human = texts(0)
    systems = {"words": texts(1, words=2), "long": texts(2, low=20)}

    def shares(samples):
        rows = letters(samples)
        return rows / rows.sum(axis=1, keepdims=True)

    def sizes(samples):
        return np.array([[len(text), 60.0] for text in samples])

    result = mallow.compare_embedders(human, systems, [shares, sizes], repeats=1)
    assert result.winner is None
    [one] = result.differences
    assert one.p_value == one.adjusted == 1.0
    assert one.better is None
    assert [pair.first for pair in result.contested] == [one.first]
    assert "contradict each other on " in result.verdict


def test_the_p_value_is_the_largest_and_corrected_for_the_pairs():
    systems = {"a": texts(1), "b": texts(2, words=4), "c": texts(3, words=3, low=12)}
    result = mallow.compare_embedders(texts(0), systems, [letters, lengths], repeats=1)
    raw = []
    for one in result.differences:
        each = [
            other.p_value["mauve"]
            for comparison in result.comparisons.values()
            for other in comparison.differences
            if other.systems == {one.first, one.second}
        ]
        same = len({value > 0 for value in one.difference.values()}) == 1 and all(one.difference.values())
        raw.append(max(each) if same else 1.0)
    assert [one.p_value for one in result.differences] == raw
    assert [one.adjusted for one in result.differences] == holm(raw)


def test_wrong_requests_are_refused():
    human = texts(0, n=20)
    with pytest.raises(InputError, match="`embedders` must be at least two; got 1"):
        mallow.compare_embedders(human, {"a": human, "b": human}, [letters])
    with pytest.raises(InputError, match="`systems` must be at least two, to be compared; got 1"):
        mallow.compare_embedders(human, {"a": human}, [letters, lengths])
    with pytest.raises(InputError, match="`embedders` must have different names; got letters, letters"):
        mallow.compare_embedders(human, {"a": human, "b": human}, [letters, letters])
    points = np.zeros((20, 2))
    with pytest.raises(InputError, match="`reference` must hold texts or images; features were made by one embedder"):
        mallow.compare_embedders(points, {"a": points, "b": points}, [letters, lengths])


# --- results made by hand


@pytest.mark.parametrize(("adjusted", "value", "better"), [(0.049, 0.1, "a"), (0.049, -0.1, "b"), (0.05, 0.1, None)])
def test_the_better_system_is_named_below_five_per_cent(adjusted, value, better):
    one = mallow.evaluate.AgreedDifference("a", "b", {"one": value, "two": value}, 0.01, adjusted)
    assert one.better == better
    comparison = made_comparison({"a": 0.9, "b": 0.8})
    assert mallow.evaluate.RobustComparison({"one": comparison}, (one,)).winner == better


def test_a_winner_beats_every_other_and_contradictions_need_both_sides():
    def found(*pairs):
        ones = tuple(mallow.evaluate.AgreedDifference(*names, {"one": 0.1}, p, p) for names, p in pairs)
        return mallow.evaluate.RobustComparison({"one": made_comparison({"a": 0.9, "b": 0.8, "c": 0.7})}, ones)

    assert found(("ab", 0.01), ("ac", 0.01), ("bc", 0.9)).winner == "a"
    assert found(("ab", 0.01), ("ac", 0.9), ("bc", 0.01)).winner is None
    assert found().winner is None
    assert found(("ab", 0.01)).systems == ("a", "b", "c")
    assert found(("ab", 0.01), ("ac", 0.01)).contested == ()
