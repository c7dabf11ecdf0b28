"""A score at equal length: who is kept depends on the covariate alone, and what was length goes."""

import warnings

import numpy as np
import pytest

import mallow
from mallow.errors import EstimateWarning, InputError


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        yield


def sides(other=0.0, n=400, seed=0):
    """Samples whose first feature is the covariate, 0.8 larger for the model; the second differs by `other`."""
    rng = np.random.default_rng(seed)
    size_x, size_y = rng.normal(size=n), rng.normal(0.8, 1.0, size=n)
    x = np.c_[size_x, rng.normal(size=(n, 2))]
    return x, np.c_[size_y, rng.normal(other, 1.0, size=n), rng.normal(size=n)], (size_x, size_y)


def test_a_gap_that_was_length_goes():
    x, y, sizes = sides()
    result = mallow.score(x, y, match=sizes, repeats=1)
    assert result.same_size.p_value < 0.001
    assert result.matched.p_value > 0.01
    assert result.explained > 0.8
    assert result.matched.n[0] == result.same_size.n[0] == pytest.approx(400 * result.kept, abs=1)
    means = result.means
    assert abs(np.subtract(*means["matched"])) < 0.1 < 0.6 < abs(np.subtract(*means["before"]))
    assert "of the certified gap goes with covariate: certified MAUVE changes by +0." in result.verdict


def test_every_score_is_in_the_records_and_every_caveat_is_a_warning():
    x, y, sizes = sides(n=120)
    with pytest.warns(EstimateWarning) as told:
        result = mallow.score(x, y, match=sizes, repeats=1)
    messages = [str(one.message) for one in told]
    assert result.caveats
    for caveat in result.caveats:
        assert any(caveat.message in message for message in messages)
    rows = result.to_frame().to_dict("records")
    assert [row["samples"] for row in rows] == ["all samples", "same size, at random", "matched"]
    for row, score in zip(rows, (result.before, result.same_size, result.matched), strict=True):
        certified = score.certified["mauve"]
        numbers = {"mauve": score.mauve, "certified": certified.value, "certified_high": certified.high}
        numbers |= {"p_value": score.p_value, "n": score.n[0], "m": score.n[1]}
        assert {key: value for key, value in row.items() if key != "samples"} == numbers


def test_a_gap_that_was_something_else_stays():
    x, y, sizes = sides(other=1.2)
    result = mallow.score(x, y, match={"height": sizes}, repeats=1)
    assert result.matched.p_value < 0.001
    assert result.explained < 0.8
    assert "A gap is left at equal height (p = 0.0002)." in result.verdict


def test_texts_are_matched_by_length_and_columns_by_name():
    rng = np.random.default_rng(1)
    texts = [["word " * int(count) for count in rng.integers(low, low + 20, 300)] for low in (5, 8)]

    def embed(samples):
        return np.array([[len(text), len(text) ** 0.5] for text in samples], float)

    result = mallow.score(*texts, match="length", embedder=embed, repeats=1)
    assert result.covariate == "length"
    assert result.before.mauve < result.matched.mauve
    named = [["a", "b"] * 150, ["a"] * 150 + ["b"] * 150]
    expected = mallow.score(*texts, match={"kind": tuple(named)}, embedder=embed, repeats=1)
    assert (expected.kept, expected.covariate) == (1.0, "kind")
    rows = [
        [{"text": text, "kind": kind} for text, kind in zip(*side, strict=True)]
        for side in zip(texts, named, strict=True)
    ]
    assert mallow.score(*rows, match="kind", embedder=embed, repeats=1).to_json() == expected.to_json()


def test_wrong_covariates_are_refused():
    x, y, _ = sides(n=50)
    for match, message in (
        ("size", "`match`: ndarray: no column 'size'. Name a column that all entries have. Or pass the values of both"),
        ({"size": "length"}, "`match` must be 'length', a column, or a pair of sequences of values, of the reference"),
        ({"a": ([1],) * 2, "b": ([1],) * 2}, "`match` must be 'length', a column, or a pair of sequences of values"),
        (
            ([1, 2],),
            "`match` must be 'length', a column, or a pair of sequences of values, of the reference and of the model",
        ),
        (([1.0] * 50, [1.0] * 49), "`match` must have a value for each of the 50 model samples; got 49"),
        (([1.0] * 50, [float("nan")] * 50), "`match` must have finite numbers, or names"),
        (
            (["a"] * 50, ["b"] * 50),
            "`match` leaves 0 samples of the reference and 0 of the model: covariate hardly overlaps",
        ),
    ):
        with pytest.raises(InputError, match=message):
            mallow.score(x, y, match=match)


def test_few_that_are_left_are_a_caveat():
    x, y, sizes = sides(n=120)
    result = mallow.score(x, y, match=sizes, repeats=1)
    assert any(caveat.kind == "few matched" for caveat in result.caveats)
    assert "samples of a side are left at equal covariate" in str(result)


# --- the parts


def test_two_samples_of_each_side_must_be_left():
    x = np.random.default_rng(0).normal(size=(40, 2))
    message = r"`match` leaves 1 samples of the reference and 1 of the model: size hardly overlaps"
    names = ["a"] + ["b"] * 39, ["a"] + ["c"] * 39
    with pytest.raises(InputError, match=message):
        mallow.score(x, x + 1, match={"size": names})
    three = ["a"] * 12 + ["c"] * 108  # of which a fortieth are three
    with pytest.raises(InputError, match="`match` leaves 1 samples of the reference and 3 of the model"):
        mallow.score(x, np.tile(x, (3, 1)), match=(names[0], three))
    with pytest.raises(InputError, match="`match` leaves 3 samples of the reference and 1 of the model"):
        mallow.score(np.tile(x, (3, 1)), x, match=(three, names[0]))


def test_the_same_size_is_drawn_at_random_and_all_scores_have_one_seed():
    x, y, sizes = sides(n=150)
    result = mallow.score(x, y, match=sizes, repeats=1, rng=3)
    again = mallow.score(x, y, match=sizes, repeats=1, rng=3)
    other = mallow.score(x, y, match=sizes, repeats=1, rng=4)
    assert result.to_json() == again.to_json()
    assert result.same_size.mauve != other.same_size.mauve
    assert {one.signature.rng for one in (result.before, result.same_size, result.matched)} == {3}
    assert result.same_size.n == result.matched.n
    assert result.before.mauve == mallow.score(x, y, repeats=1, rng=3).mauve
    assert (result.difference.first, result.difference.second) == ("matched", "same size")
    certified = [one.certified["mauve"].value for one in (result.matched, result.same_size)]
    assert result.difference.difference["mauve"] == pytest.approx(certified[0] - certified[1])
