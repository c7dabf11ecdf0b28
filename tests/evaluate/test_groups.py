"""The score by group: gaps where they are, corrected for the number of groups."""

import json
import warnings

import numpy as np
import pytest

import mallow
from mallow.errors import EstimateWarning, InputError
from mallow.evidence import holm


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        yield


def test_a_gap_is_found_in_the_group_that_has_it():
    rng = np.random.default_rng(0)
    labels = ["b"] * 120 + ["a"] * 120 + ["c"] * 5
    x, y = rng.normal(size=(2, 245, 3))
    y[:120] += 0.9
    result = mallow.score(x, y, by=(labels, labels), repeats=1)
    assert result.with_gap == ("b",)
    assert list(result.scores) == ["b", "a"]  # the largest gap first
    assert result.skipped == {"c": (5, 5)}
    raw = {name: score.p_value for name, score in result.scores.items()}
    assert list(result.adjusted.values()) == holm(list(raw.values()))
    assert result.verdict == "A gap is proven in 1 of 2 groups (5% level, corrected for all groups): b."
    alone = mallow.score(x[:120], y[:120], repeats=1)
    assert result.scores["b"].mauve == alone.mauve
    assert result.scores["b"].p_value == alone.p_value
    assert {caveat.system for caveat in result.caveats} <= {"a", "b", "model"}


def test_all_and_none():
    rng = np.random.default_rng(1)
    labels = [1] * 60 + [2] * 60
    x, y = rng.normal(size=(2, 120, 3))
    assert mallow.score(x, y, by=(labels, labels), repeats=1).verdict.startswith("No gap is proven in any group")
    assert mallow.score(x, y + 2, by=(labels, labels), repeats=1).verdict.startswith("A gap is proven in both groups")


def test_wrong_groups_are_refused():
    x = np.random.default_rng(2).normal(size=(40, 2))
    for groups, message in (
        ("topic", "`by`: ndarray: no column 'topic'. Name a column that all entries have. Or pass the values"),
        ((["a"] * 40, ["a"] * 39), "`by` must have an entry for each of the 40 model samples; got 39"),
        (
            (["a"] * 40, ["b"] * 40),
            "`by` must have a group with at least 30 samples on each side, but the largest of 2 has 0",
        ),
    ):
        with pytest.raises(InputError, match=message):
            mallow.score(x, x, by=groups)


def test_thirty_samples_of_each_side_are_enough_and_smaller_groups_are_listed_by_name():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(100, 2)), rng.normal(size=(130, 2))
    groups = ["z"] * 30 + ["y"] * 29 + ["x"] * 41, ["y"] * 95 + ["z"] * 30 + ["w"] * 5
    result = mallow.score(x, y, by=groups, repeats=1, rng=2)
    assert list(result.scores) == ["z"]
    assert result.scores["z"].n == (30, 30)
    assert result.scores["z"].mauve == mallow.score(x[:30], y[95:125], repeats=1, rng=2).mauve
    assert result.scores["z"].signature.rng == 2
    assert list(result.skipped.items()) == [("w", (0, 5)), ("x", (41, 0)), ("y", (29, 95))]
    assert result.adjusted == {"z": result.scores["z"].p_value}


def test_each_side_must_have_its_groups():
    x, y = np.random.default_rng(2).normal(size=(2, 40, 2))
    for groups, message in (
        ((["a"] * 39, ["a"] * 40), "`by` must have an entry for each of the 40 reference samples; got 39"),
        (
            (["a"] * 40,),
            "`by` must be a column or a pair of sequences: the groups of the reference and of the model",
        ),
        (
            (["a"] * 29 + ["b"] * 11, ["a"] * 35 + ["b"] * 5),
            "at least 30 samples on each side, but the largest of 2 has 29. Join small groups, or use more samples",
        ),
    ):
        with pytest.raises(InputError, match=message):
            mallow.score(x, y, by=groups, repeats=1)
    with pytest.raises(InputError, match="`repeats` must be"):
        mallow.score(x, y, by=(["a"] * 40, ["a"] * 40), repeats=0)
    assert list(mallow.score(x, y, by=[[7] * 40, ["7"] * 40], repeats=1).scores) == ["7"]  # numbers become names


def test_groups_may_be_a_column_of_both_sources(tmp_path):
    rng = np.random.default_rng(4)
    x, y = ([" ".join(row) for row in rng.choice(words, (80, 5))] for words in (["a", "bb"], ["a", "ccc"]))
    topics = ["law", "sport"] * 40, ["sport"] * 40 + ["law"] * 40
    rows = [
        [{"text": text, "topic": topic} for text, topic in zip(*side, strict=True)]
        for side in zip((x, y), topics, strict=True)
    ]
    path = tmp_path / "model.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[1]))

    def count(texts):
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], float)

    expected = mallow.score(x, y, by=topics, embedder=count, repeats=1)
    assert set(expected.scores) == {"law", "sport"}
    assert mallow.score(rows[0], path, by="topic", embedder=count, repeats=1).to_json() == expected.to_json()


def test_one_question_at_a_time():
    x = np.zeros((2, 2))
    with pytest.raises(InputError, match="`by` and `match` are two questions; got both"):
        mallow.score(x, x, by=(["a"] * 2,) * 2, match=(["a"] * 2,) * 2)
    for question in ("by", "match"):
        with pytest.raises(InputError, match="`engine` is for the score of all samples"):
            mallow.score(x, x, engine="ray", **{question: (["a"] * 2,) * 2})


def test_warnings_name_the_line_of_the_caller():
    x, y = np.random.default_rng(5).normal(size=(2, 40, 2))
    labels = (["a"] * 40,) * 2
    for question in ({}, {"by": labels}, {"match": labels}):
        with pytest.warns(mallow.EstimateWarning) as caught:
            mallow.score(x, y, repeats=1, **question)
        assert {warning.filename for warning in caught} == {__file__}
