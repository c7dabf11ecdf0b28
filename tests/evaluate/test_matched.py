"""A score at equal length: who is kept depends on the covariate alone, and what was length goes."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from mallow.errors import EstimateWarning, InputError
from mallow.evaluate._matched import _categories, _few_left, _match, _means, _whole_parts


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
    assert "A gap is left at equal height (p < 1e-5)." in result.verdict


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


@given(
    first=st.lists(st.integers(0, 60), min_size=3, max_size=60),
    second=st.lists(st.integers(0, 60), min_size=3, max_size=60),
    seed=st.integers(0, 3),
)
def test_categories_agree_after_matching(first, second, seed):
    labels = [np.array([f"c{value % 5}" for value in own]) for own in (first, second)]
    (x, y), kept = _match((labels[0], labels[1]), np.random.default_rng(seed))
    assert 0 <= kept <= 1 + 1e-12
    for name in set(labels[0]) | set(labels[1]):
        counts = (labels[0][x] == name).sum(), (labels[1][y] == name).sum()
        share = min((labels[0] == name).mean(), (labels[1] == name).mean())
        assert abs(counts[0] - share * len(first)) < 1
        assert abs(counts[1] - share * len(second)) < 1


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


@given(st.lists(st.floats(0, 5), min_size=1, max_size=8))
def test_whole_parts_miss_the_sum_by_at_most_a_half_and_favour_the_largest_fractions(parts):
    parts = np.array(parts)
    found = _whole_parts(parts)
    assert found.dtype == np.int64
    assert (found >= np.floor(parts + 1e-9)).all()
    assert (found <= np.ceil(parts)).all()
    up = found > np.floor(parts + 1e-9)
    left = parts - np.floor(parts)
    if up.any() and not up.all():
        assert left[up].min() >= left[~up & (left < 1 - 1e-9)].max(initial=0.0)
    assert abs(found.sum() - parts.sum()) <= 0.5 + 1e-6 or left.max() < 1e-8


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([1.5, 0.5], [2, 0]),  # of equal fractions the first
        ([0.4, 0.7, 0.9], [0, 1, 1]),
        ([2.0, 3.0], [2, 3]),
        ([0.3 * 10, 1.0], [3, 1]),  # 3 up to rounding
        ([2.9999999999, 0.0], [3, 0]),
        ([0.2, 0.2], [0, 0]),
    ],
)
def test_whole_parts_of_simple_numbers(parts, expected):
    assert _whole_parts(np.array(parts)).tolist() == expected


def test_few_different_numbers_are_categories_and_many_are_ranges():
    few = np.arange(20.0), np.array([3.0, 3.0, 19.0])
    assert [own.tolist() for own in _categories(few)] == [list(range(20)), [3, 3, 19]]
    many = np.arange(1000.0), np.arange(500.0) * 2
    labels = _categories(many)
    assert [own.min() for own in labels] == [0, 0]
    assert [own.max() for own in labels] == [19, 19]  # the largest value is in the last range
    for own, size in zip(labels, (1000, 500), strict=True):
        assert (np.diff(own) >= 0).all()
        assert np.bincount(own).tolist() == pytest.approx([size / 20] * 20, abs=2)
    both = _categories((np.r_[np.zeros(60), np.arange(1.0, 41)], np.arange(1.0, 41)))
    assert len(set(both[0][:60].tolist())) == 1  # equal values stay together
    names = np.array([f"n{place}" for place in range(40)])
    assert len(set(_categories((names, names))[0].tolist())) == 40  # names are never joined


def test_ranges_hold_equal_shares_of_both_sides_together():
    rng = np.random.default_rng(0)
    labels = _categories((rng.normal(size=2000), rng.normal(1.0, 1.0, size=300)))
    shares = [np.bincount(own, minlength=20) / len(own) for own in labels]
    assert sum(shares) / 2 == pytest.approx(np.full(20, 0.05), abs=0.004)


def test_who_is_kept_is_random_within_a_category():
    labels = np.array(["a"] * 40 + ["b"] * 10), np.array(["a"] * 10 + ["b"] * 40)
    (x, y), kept = _match(labels, np.random.default_rng(0))
    assert kept == pytest.approx(0.4)
    assert [(labels[0][x] == name).sum() for name in "ab"] == [10, 10]
    assert (np.diff(x) > 0).all()
    assert x[:10].tolist() != list(range(10))
    assert set(y) >= set(range(10))
    (again, _), _ = _match(labels, np.random.default_rng(0))
    (other, _), _ = _match(labels, np.random.default_rng(1))
    assert x.tolist() == again.tolist() != other.tolist()


def test_means_are_those_of_all_and_of_the_chosen():
    values = np.array([1.0, 2.0, 6.0]), np.array([2.0, 4.0])
    chosen = np.array([1]), np.array([0])
    assert _means(values, chosen) == {"before": (3.0, 3.0), "matched": (2.0, 2.0)}
    assert _means((np.array(["a"]), np.array(["a"])), (np.array([0]), np.array([0]))) == {}


def test_a_hundred_samples_that_are_left_are_enough():
    some = np.arange(100), np.arange(100)
    assert _few_left(some, "age") == []
    (caveat,) = _few_left((some[0], np.arange(99)), "age")
    assert (caveat.kind, caveat.values) == ("few matched", {"samples": 99})
    assert caveat.message == (
        "only 99 samples of a side are left at equal age: little can be certified about them. Use more samples."
    )


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
