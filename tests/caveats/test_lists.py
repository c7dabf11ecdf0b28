"""Caveats about sizes and bins: when each is raised, what it says, and which are told once."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from mallow.caveats import bin_caveats, rename_system, size_caveats, system_size_caveats, unique_caveats
from mallow.errors import Caveat, EstimateWarning
from mallow.theory import Partition


def partition(p_counts, q_counts):
    """Bins with so many samples of each side."""
    labels = [np.repeat(np.arange(len(counts)), counts) for counts in (p_counts, q_counts)]
    return Partition(*labels, np.zeros((len(p_counts), 1)))


def kinds(caveats):
    return [caveat.kind for caveat in caveats]


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [
        (1000, 1000, []),
        (1000, 5000, ["unequal sizes"]),
        (999, 1000, ["few samples"]),
        (300, 200, ["few samples", "unequal sizes"]),
        (2000, 1900, []),
        (1900, 2000, []),
        (2000, 1899, ["unequal sizes"]),
    ],
)
def test_sizes(n, m, expected):
    assert kinds(size_caveats(n, m)) == expected


def test_what_is_said_about_sizes():
    few, unequal = size_caveats(300, 200)
    assert few.message == "only 200 samples: with fewer than 1000 per side, scores are biased and noisy."
    assert unequal.message == (
        "the sample sizes differ (300 and 200): compare scores only between samples of the same sizes."
    )
    assert few.values == unequal.values == {"n": 300, "m": 200}


def test_systems_of_different_sizes():
    assert system_size_caveats({"a": 1000, "b": 996, "c": 1000}) == []
    assert system_size_caveats({"a": 7}) == []
    (caveat,) = system_size_caveats({"large": 1000, "small": 150, "middle": 400})
    assert (caveat.kind, caveat.system, caveat.values) == ("system sizes", None, {"least": 150, "most": 1000})
    assert caveat.message == (
        "the systems have different numbers of samples, from 150 (small) to 1000 (large): published scores depend on the "
        "number, so that the columns of the table cannot be compared. Use 150 samples of each (limit, --limit), or judge by "
        "the differences."
    )


def test_bins_of_one_side_only():
    (caveat,) = bin_caveats(partition([10] * 70 + [0] * 30, [10] * 100))
    assert (caveat.kind, caveat.values) == ("empty bins", {"share": 0.3})
    assert caveat.message == (
        "30% of the bins hold samples of one side only: the two are far apart, or there are too many bins."
    )
    assert bin_caveats(partition([10] * 80 + [0] * 20, [10] * 100)) == []
    # Bins without any sample, as in a codebook made from other samples, are not of one side.
    assert bin_caveats(partition([10] * 50 + [0] * 50, [10] * 50 + [0] * 50)) == []


def test_too_many_bins():
    (caveat,) = bin_caveats(partition([4] * 100, [9] * 100))
    assert caveat.message == "100 bins are many for 400 samples: use fewer, or the default number."
    assert bin_caveats(partition([5] * 100, [9] * 100)) == []
    assert bin_caveats(None) == []


@given(
    bins=st.integers(2, 60), share_p=st.floats(0, 1), share_q=st.floats(0, 1), place=st.floats(0, 1, exclude_max=True)
)
def test_a_bin_that_holds_most_samples_of_both_sides(bins, share_p, share_q, place):
    n = 4000
    counts = []
    for share in (share_p, share_q):
        rest = np.full(bins, round(n * (1 - share) / bins))
        rest[int(place * bins)] += n - rest.sum()
        counts.append(rest)
    held = [side[int(place * bins)] / n for side in counts]
    caveats = [one for one in bin_caveats(partition(*counts)) if one.kind == "one bin"]
    assert bool(caveats) == (min(held) > max(0.3, 5 / bins))
    for caveat in caveats:
        assert caveat.values == {"share": held[1], "share_reference": held[0], "bins": bins}


def test_what_is_said_about_crowded_bins():
    (caveat,) = bin_caveats(partition([800] + [5] * 40, [600] + [10] * 40))
    assert caveat.message == (
        "one of the 41 bins holds 80% of the reference samples and 60% of the model's, and differences within a bin do not "
        "count. Either most samples have nearly the same features, or outliers take up the other bins. Use a different embedder, "
        "or remove the outliers on both sides."
    )
    # The fullest bin of one side need not be the one that both share.
    (caveat,) = [
        one for one in bin_caveats(partition([500, 400, *[5] * 20], [0, 400, *[30] * 20])) if one.kind == "one bin"
    ]
    assert caveat.values == {"share": 0.4, "share_reference": 0.4, "bins": 22}
    # What only one side crowds into is a difference, which the score sees.
    assert "one bin" not in kinds(bin_caveats(partition([990] + [5] * 40, [5] + [20] * 40)))
    (caveat,) = bin_caveats(partition([1000], [1000]))
    assert caveat.message == (
        "all samples fall into one bin, because all have the same features: the score is 1 whatever they contain. Use a different "
        "embedder."
    )


def test_a_caveat_is_told_once_and_not_beside_its_explanation():
    norm, crowded, few = (
        Caveat("norm", "Norms.", "a"),
        Caveat("one bin", "One bin.", "a"),
        Caveat("few samples", "Few."),
    )
    reason = Caveat("length normalisation", "Lengths.", "a")
    assert unique_caveats([norm, few, crowded, few]) == (norm, few, crowded)
    assert unique_caveats([norm, crowded, reason, few, Caveat("blind score", "Blind.", "a")]) == (reason, few)
    assert unique_caveats([norm, crowded, Caveat("length normalisation", "Lengths.")]) == (
        Caveat("length normalisation", "Lengths."),
    )
    other = Caveat("length normalisation", "Lengths.", "b")
    assert unique_caveats([norm, other]) == (norm, other)


def test_caveats_get_the_name_of_a_system_unless_they_have_one():
    one, two = rename_system([Caveat("a", "A.", values={"x": 1}), Caveat("b", "B.", "reference")], "model")
    assert (one, two) == (Caveat("a", "A.", "model", {"x": 1}), Caveat("b", "B.", "reference"))


def small_sides(n=60):
    return np.random.default_rng(0).normal(size=(2, n, 2))


LETTERS = np.random.default_rng(0).integers(7, size=(3, 60, 20))


def embed_letters(samples):
    return np.array([[text.count(letter) for letter in "abc"] for text in samples], float)


def embed_lengths(samples):
    return np.array([[text.index("d") if "d" in text else 40, text.count("e"), 1.0] for text in samples], float)


def check_against_itself():
    x, y = small_sides()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = mallow.score(x, y, repeats=1)
    return mallow.check_regression(x, y, before)


def score_by_group():
    labels = ["a"] * 30 + ["b"] * 30
    return mallow.score(*small_sides(), by=(labels, labels), repeats=1)


def compare_two_embedders():
    x, y, z = ([" ".join("abcdefg"[i] for i in row) for row in rows] for rows in LETTERS)
    return mallow.compare_embedders(x, {"one": y, "two": z}, [embed_letters, embed_lengths], repeats=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mallow.score(*small_sides(), repeats=1),
        lambda: mallow.compare(small_sides()[0], {"a": small_sides()[1]}, repeats=1),
        lambda: mallow.track(
            small_sides()[0], {"1": small_sides()[1], "2": small_sides(70)[0], "3": small_sides(80)[0]}, repeats=1
        ),
        lambda: mallow.compare_gaps({"a": tuple(small_sides()), "b": tuple(small_sides(50))}, repeats=1),
        score_by_group,
        compare_two_embedders,
        check_against_itself,
    ],
    ids=["score", "compare", "track", "gaps", "groups", "embedders", "check"],
)
def test_every_caveat_of_a_result_is_a_warning(call):
    with pytest.warns(EstimateWarning) as told:
        result = call()
    messages = " ".join(str(one.message) for one in told)
    assert result.caveats
    for caveat in result.caveats:
        assert caveat.message in messages


@pytest.mark.parametrize(
    ("bins", "share", "told"),
    [
        (41, 0.30, False),  # exactly the limit
        (41, 0.31, True),  # more than five times 1/41, and more than 0.3
        (41, 0.20, False),  # more than five times 1/41 alone
        (8, 0.40, False),  # more than 0.3 alone
        (8, 0.62, False),
        (8, 0.65, True),  # 5/8 = 0.625
        (2, 0.99, False),
    ],
)
def test_a_crowded_bin_is_above_both_limits(bins, share, told):
    def counts(n, own):
        rest = np.full(bins - 1, round(n * (1 - own) / (bins - 1)))
        rest[0] += n - round(n * own) - rest.sum()
        return [round(n * own), *rest]

    n = 10_000
    assert ("one bin" in kinds(bin_caveats(partition(counts(n, share), counts(n, share))))) == told
    # The side that has less in it decides, whichever it is.
    more = min(share + 0.005, 0.999)
    assert ("one bin" in kinds(bin_caveats(partition(counts(n, share), counts(n, more))))) == told
    assert ("one bin" in kinds(bin_caveats(partition(counts(n, more), counts(n, share))))) == told


def test_the_smaller_side_has_too_few_samples_for_the_bins():
    for p, q, expected in (([4] * 100, [9] * 100, 400), ([9] * 100, [4] * 100, 400), ([3] * 10, [4] * 10, 30)):
        (caveat,) = [one for one in bin_caveats(partition(p, q)) if one.kind == "many bins"]
        assert caveat.values == {"bins": len(p), "samples": expected}
    assert "many bins" not in kinds(bin_caveats(partition([5] * 10, [5] * 10)))


@pytest.mark.parametrize(("least", "told"), [(950, False), (949, True)])
def test_systems_may_differ_by_a_twentieth(least, told):
    assert bool(system_size_caveats({"a": 1000, "b": least, "c": 980})) == told


def test_sizes_that_differ_are_explained_by_those_of_the_systems():
    sizes, own = Caveat("system sizes", "Sizes."), Caveat("unequal sizes", "Differ.", "a")
    assert unique_caveats([sizes, own]) == (sizes,)
    assert unique_caveats([own]) == (own,)
