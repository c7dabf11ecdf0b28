"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

import mallow
from made_results import made_comparison, made_difference
from mallow import MAUVE_STAR, track
from mallow.errors import Caveat, EstimateWarning, InputError
from mallow.estimate import Quantize
from mallow.evaluate import Difference, Trend
from mallow.evaluate._gaps import _first_units, subtract_scores
from mallow.evaluate._robust import _agree
from mallow.evaluate._run import Run, Settings, split_rows
from mallow.evaluate._same import _find_factor
from mallow.evaluate._score import build_score
from mallow.evaluate._subsets import _categories, _few_left, _match, _means, _whole_parts
from mallow.evaluate._track import _cut_to_one_size, _find_trend, _order_by_step, find_changes
from mallow.evidence import Units, find_units, hold_out, holm
from mallow.samples import Samples
from mallow.theory import Partition

# --- score


def counted(p_labels, q_labels, bins):
    partition = Partition(np.array(p_labels), np.array(q_labels), np.zeros((bins, 2)))
    return Quantize().count(partition)


def test_a_score_is_built_from_its_repeats():
    x, y = (Samples(features=np.random.default_rng(seed).normal(size=(40, 2))) for seed in (0, 1))
    rng = np.random.default_rng(2)
    masses = [counted(rng.integers(4, size=40), rng.integers(4, size=40), 4) for _ in range(3)]
    units = Units((np.arange(40), 40 + np.arange(40)), np.arange(80, dtype=np.uint64))
    told = Caveat("told", "Told.")
    doubt = replace(masses[2], caveats=(Caveat("doubt", "Doubt."),))
    run = Run(x, y, [*masses[:2], doubt], None, units)
    itself = dict.fromkeys(("mauve", "frontier_integral", "midpoint"), 0.5)
    found = build_score(Settings(MAUVE_STAR, 1, 9), run, itself, caveats=[told, told])
    for name in itself:
        each = [float(MAUVE_STAR.summarise(one)[name]) for one in masses]
        assert found.values[name] == approx(each, rel=1e-9)
        assert getattr(found, name) == approx(np.mean(each), rel=1e-9)
        assert found.std[name] == approx(np.std(each, ddof=1), rel=1e-6)
    assert [one.kind for one in found.caveats][:2] == ["told", "doubt"]
    assert (found.p_value, found.certified, found.evidence, found.certified_frontier, found.reasons) == (
        1.0,
        {},
        None,
        None,
        (),
    )
    assert found.self_score == itself
    assert (found.n, found.scale, found.signature.rng, found.signature.repeats) == ((40, 40), 5.0, 9, 3)
    assert found.masses is masses[0]
    assert found.band[0].p_to_mix[3] <= found.frontier.p_to_mix[3] <= found.band[1].p_to_mix[3]
    once = build_score(Settings(MAUVE_STAR, 1, 9), replace(run, masses=masses[:1]), itself)
    assert (once.band, once.std) == (None, dict.fromkeys(itself, 0.0))
    bare = [replace(one, partition=None) for one in masses]
    without = build_score(Settings(MAUVE_STAR, 1, 9), replace(run, masses=bare), itself)
    assert (without.interval, without.debiased, without.caveats) == ({}, {}, ())


def test_estimates_are_doubted_by_the_samples_that_were_seen():
    """Where not all samples are in memory, the checks look at those that are."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=(60, 1))
    pair = Samples(features=x), Samples(features=y)
    wide = [Samples(features=np.c_[own, own]) for own in (x, y)]
    masses = counted(rng.integers(4, size=60), rng.integers(4, size=60), 4)
    units = Units((np.arange(60), 60 + np.arange(60)), np.arange(120, dtype=np.uint64))
    held_out = hold_out(MAUVE_STAR, {"model": tuple(wide)})
    known = {"evidence": held_out.evidence["model"], "certificate": held_out.certificates["model"]}
    itself = dict.fromkeys(("mauve", "frontier_integral", "midpoint"), 0.5)
    for seen, expected in ((None, False), (pair, True)):
        run = Run(*wide, [masses], None, units, seen)
        found = build_score(Settings(MAUVE_STAR, 1, 0), run, itself, **known)
        assert any(one.kind == "length normalisation" for one in found.caveats) == expected  # width 1
        assert found.certified == known["certificate"].estimates
        assert found.p_value == known["evidence"].test.p_value


# --- self score


@pytest.mark.parametrize("count", [4, 7, 30])
def test_units_stay_whole_and_the_first_part_is_about_as_large_as_asked_for(count):
    rng = np.random.default_rng(count)
    numbers = np.repeat(np.arange(count), rng.integers(1, 4, count))
    units = Units((rng.permutation(numbers),), np.arange(count, dtype=np.uint64))
    n = len(numbers)
    rows = np.argsort(units.sets[0], kind="stable")
    for size in (2, n // 3, n - 2):
        first, second = split_rows(units, rows, size, np.random.default_rng(size))
        assert sorted([*first, *second]) == list(range(n))
        assert set(units.sets[0][first]).isdisjoint(units.sets[0][second])
        assert min(len(first), len(second)) >= 2
        assert abs(len(first) - size) <= 3
    ones = Units((np.arange(20),), np.arange(20, dtype=np.uint64))
    splits = [split_rows(ones, np.arange(20), 7, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert [len(first) for first, _ in splits] == [7, 7, 7]
    assert splits[0][0].tolist() == splits[1][0].tolist() != splits[2][0].tolist()


@pytest.mark.parametrize("units", [[0] * 10, [0] * 9 + [1], [0] + [1] * 9])
def test_units_that_leave_less_than_two_rows_are_cut(units):
    own = Units((np.array(units),), np.arange(2, dtype=np.uint64))
    first, second = split_rows(own, np.arange(10), 4, np.random.default_rng(0))
    assert (len(first), len(second)) == (4, 6)
    assert sorted([*first, *second]) == list(range(10))
    assert first.tolist() != sorted(first)
    two = Units((np.array([0, 0, 1, 1]),), np.arange(2, dtype=np.uint64))
    assert [len(part) for part in split_rows(two, np.arange(4), 1, np.random.default_rng(0))] == [2, 2]


# --- matched


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


# --- track


def differences(values, apart):
    names = [f"c{place}" for place in range(len(values))]
    pairs = [(i, j) for i in range(len(values)) for j in range(i + 1, len(values))]
    made = [
        Difference(
            names[i],
            names[j],
            {"mauve": values[i] - values[j]},
            {"mauve": (values[i] - values[j] - 0.1, values[i] - values[j] + 0.1)},
            {"mauve": 0.01 if abs(values[i] - values[j]) > apart else 0.5},
            {"mauve": 0.01 if abs(values[i] - values[j]) > apart else 0.5},
        )
        for i, j in pairs
    ]
    return names, made


@settings(max_examples=50)
@given(values=st.lists(st.floats(0, 1), min_size=2, max_size=8), apart=st.floats(0, 1))
def test_segments_hold_no_significant_difference_and_each_change_is_one(values, apart):
    names, made = differences(values, apart)
    changes = find_changes(names, made)
    starts = [0, *(names.index(one.at) for one in changes), len(names)]
    for low, high in pairwise(starts):
        inside = values[low:high]
        assert max(inside) - min(inside) <= apart
    for one, before in zip(changes, starts, strict=False):
        at, other = names.index(one.at), names.index(one.before)
        assert before <= other < at
        assert one.difference == pytest.approx(values[at] - values[other])
        assert one.low < one.difference < one.high
    if max(values) - min(values) <= apart:
        assert changes == ()


def test_steps_are_the_numbers_in_the_names():
    assert list(_order_by_step(["ckpt-900", "ckpt-1000", "ckpt-50"], None)) == ["ckpt-50", "ckpt-900", "ckpt-1000"]
    assert _order_by_step(["v2-step10", "v2-step5", "v2-step7"], None)["v2-step5"] == 5
    assert _order_by_step(["early", "late-1", "last-1"], None) == {"early": 1, "late-1": 2, "last-1": 3}
    assert list(_order_by_step(["a", "b", "c"], [3, 1, 2])) == ["b", "c", "a"]
    with pytest.raises(
        InputError, match=r"^`steps` must have one finite number for each of the 2 checkpoints, all diff"
    ):
        _order_by_step(["a", "b"], [1, 1])
    with pytest.raises(
        InputError, match=r"^`checkpoints` must map at least 3 names to samples; got 2\. To compare two"
    ):
        track([[0.0]], {"a": [[0.0]], "b": [[0.0]]})


def test_checkpoints_that_share_prompts_keep_the_same_ones():
    names = [f"p{i}" for i in range(200)]
    two = Samples(features=np.arange(400.0)[:, None], ids=[*names, *names])
    one = Samples(features=np.arange(200.0)[:, None], ids=names)
    few = Samples(features=np.arange(50.0)[:, None], ids=names[:50])
    cut, (caveat,) = _cut_to_one_size({name: (few, own) for name, own in (("a", one), ("b", two), ("c", few))}, 1)
    kept = {name: model for name, (_, model) in cut.items()}
    assert {len(model) for model in kept.values()} == {50}
    assert set(kept["a"].ids) == set(kept["b"].ids)  # and one sample of each
    assert sum(int(name[1:]) < 100 for name in kept["a"].ids) in range(13, 38)  # drawn from all
    assert caveat.values == {"least": 50, "most": 400}
    alike = {"a": (few, one.take(range(192))), "b": (few, one)}
    assert _cut_to_one_size(alike, 1) == (alike, [])


def test_the_clearest_difference_is_named():
    def one(first, second, value, adjusted):
        return made_difference(first, second, value, adjusted / 2, adjusted)

    apart = [one("a", "b", 0.1, 0.5), one("a", "c", 0.2, 0.01), one("c", "b", -0.3, 0.01), one("c", "d", 0.4, 0.02)]
    apart += [one("a", "d", 0.6, 0.5), one("b", "d", 0.5, 0.5)]
    first, second = find_changes("abcd", apart)
    # Of equally clear ones the larger; it is always the new checkpoint minus the old one.
    assert (first.at, first.before, first.difference, first.p_value) == ("c", "b", -0.3, 0.01)
    assert (first.low, first.high) == apart[2].interval["mauve"]
    # From there on only what came since counts.
    assert (second.at, second.before, second.difference, second.p_value) == ("d", "c", -0.4, 0.02)
    assert (second.low, second.high) == apart[3].reverse().interval["mauve"]


def test_the_trend_is_the_rank_correlation_of_steps_and_certified_areas():
    comparison = made_comparison({"c": 0.9, "b": 0.8, "d": 0.7, "a": 0.6, "e": 0.5})
    rising = _find_trend({"e": 1.0, "a": 2.0, "d": 3.0, "b": 4.0, "c": 5.0}, comparison)
    assert (rising.tau, rising.p_value) == (pytest.approx(1.0), pytest.approx(2 / 120))  # one order of 120, both ways
    falling = _find_trend({"c": 1.0, "b": 2.0, "d": 3.0, "a": 4.0, "e": 50.0}, comparison)
    assert falling.tau == pytest.approx(-1.0)
    assert _find_trend({"e": 1.0, "d": 2.0, "a": 3.0, "b": 4.0, "c": 5.0}, comparison).tau == pytest.approx(0.8)
    level = made_comparison({"a": 0.9, "b": 0.9})
    assert _find_trend({"a": 1.0, "b": 2.0}, level) == Trend(0.0, 1.0)


@pytest.mark.parametrize("steps", [[1, 2], [1, 2, 2], [1, 2, float("nan")], [1, 2, float("inf")], [1, 2, 3, 4]])
def test_every_checkpoint_has_a_step_of_its_own(steps):
    with pytest.raises(
        InputError, match="`steps` must have one finite number for each of the 3 checkpoints, all differ"
    ):
        _order_by_step(["a", "b", "c"], steps)


def test_numbers_in_names_are_steps_only_where_all_names_have_one():
    assert _order_by_step(["a-1", "b-2", "c"], None) == {"a-1": 1, "b-2": 2, "c": 3}
    assert _order_by_step(["a-1.5", "b-0.5"], None) == {"b-0.5": 0.5, "a-1.5": 1.5}
    assert _order_by_step(["a", "b"], [-1, -2.5]) == {"b": -2.5, "a": -1.0}
    with pytest.raises(InputError, match="`checkpoints` must map at least 3 names to samples; got list"):
        track([[0.0]], [[[0.0]]] * 3)


# --- several embedders


def agreed(*orders, p_values=(0.01, 0.03)):
    """What two embedders say of systems with these certified areas."""
    comparisons = {}
    for name, areas, p_value in zip(("one", "two"), orders, p_values, strict=True):
        made = made_comparison(areas)
        pairs = [
            made_difference(each.first, each.second, each.difference["mauve"], p_value) for each in made.differences
        ]
        comparisons[name] = replace(made, differences=tuple(pairs))
    return _agree(comparisons)


def test_the_largest_p_value_counts_and_signs_follow_the_first_embedder():
    (one,) = agreed({"a": 0.9, "b": 0.8}, {"a": 0.95, "b": 0.9})
    assert (one.first, one.second, one.p_value, one.adjusted) == ("a", "b", 0.03, 0.03)
    assert one.difference == pytest.approx({"one": 0.1, "two": 0.05})
    assert (one.significant, one.better) == (True, "a")
    # The second embedder lists them the other way round, and finds the other one closer.
    (other,) = agreed({"a": 0.9, "b": 0.8}, {"b": 0.95, "a": 0.9})
    assert other.difference == pytest.approx({"one": 0.1, "two": -0.05})
    assert (other.p_value, other.better) == (1.0, None)
    (level,) = agreed({"a": 0.9, "b": 0.8}, {"a": 0.9, "b": 0.9})
    assert (level.p_value, level.better) == (1.0, None)  # no difference is no agreement


def test_all_pairs_are_corrected_together():
    areas = {"a": 0.9, "b": 0.8, "c": 0.7}
    found = agreed(areas, dict(reversed([("a", 0.9), ("b", 0.85), ("c", 0.7)])))
    assert [(one.first, one.second) for one in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [one.adjusted for one in found] == holm([0.03] * 3) == pytest.approx([0.09] * 3)
    assert all(value > 0 for one in found for value in one.difference.values())


# --- one model or two


@pytest.mark.parametrize(
    ("strength", "spread", "factor"),
    # 2.486 + the error of the pilot at 90% confidence, 1.282, is enough as it is; twice that is enough with half.
    [(3.768, 1.0, 1.0), (6.254, 1.0, 0.5), (2.525, 1.0, 4.0), (2.0, 1.0, None), (3.768, 2.0, 7.6), (-1.0, 1.0, None)],
)
def test_the_factor_of_samples(strength, spread, factor):
    found = _find_factor(strength, spread)
    assert found is None if factor is None else found == approx(factor, rel=0.1)


# --- two gaps


def pair(shift, seed, n=200, width=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)), rng.normal(shift, 1.0, size=(n, width))


@pytest.fixture(scope="module")
def scores():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return {
            name: mallow.score(*pair(shift, seed, n=60), repeats=1)
            for name, shift, seed in (("a", 0.9, 1), ("b", 0.3, 2))
        }


def test_scores_of_a_monitor_cannot_be_subtracted(scores):
    bare = replace(scores["a"], evidence=None)
    for pairs in ({"a": bare, "b": scores["b"]}, {"b": scores["b"], "a": bare}):
        with pytest.raises(InputError, match=r"`scores` must have evidence\. Scores of a Monitor have none"):
            subtract_scores(pairs, mallow.MAUVE_STAR)


def test_the_difference_is_that_of_the_certificates_and_units_of_both_cancel(scores):
    one = subtract_scores(scores, mallow.MAUVE_STAR)
    assert (one.first, one.second) == ("a", "b")
    for name in ("mauve", "frontier_integral", "midpoint"):
        values = [scores[own].certified[name].value for own in "ab"]
        assert one.difference[name] == pytest.approx(values[0] - values[1], abs=1e-9)
    assert one.adjusted == one.p_value
    keys = scores["a"].evidence.keys
    shared = replace(scores["b"], evidence=replace(scores["b"].evidence, keys=keys))
    apart = replace(scores["b"], evidence=replace(scores["b"].evidence, keys=keys + np.uint64(1)))
    first, second = (subtract_scores({"a": scores["a"], "b": each}, mallow.MAUVE_STAR) for each in (shared, apart))
    assert first.interval != second.interval
    itself = subtract_scores({"a": scores["a"], "again": scores["a"]}, mallow.MAUVE_STAR)
    assert itself.difference["mauve"] == 0.0
    assert itself.p_value["mauve"] == 1.0
    # Which unit comes first means nothing.
    evidence = scores["b"].evidence
    order = np.random.default_rng(0).permutation(len(evidence.keys))
    place = np.argsort(order)
    renumbered = replace(
        evidence,
        keys=evidence.keys[order],
        reference_units=place[evidence.reference_units],
        model_units=place[evidence.model_units],
    )
    again = subtract_scores({"a": scores["a"], "b": replace(scores["b"], evidence=renumbered)}, mallow.MAUVE_STAR)
    assert again.interval["mauve"] == pytest.approx(one.interval["mauve"], abs=1e-12)


def test_the_units_that_stay_have_the_smallest_keys_and_keep_their_order():
    ids = [f"u{place}" for place in range(12)]
    x, y = (mallow.Samples(features=rows, ids=ids) for rows in np.random.default_rng(0).normal(size=(2, 12, 2)))
    units = find_units(x, y)
    smallest = np.sort(np.argsort(units.keys[units.sets[0]])[:5])
    first, second = _first_units(x, y, (5, 12))
    assert first.ids == tuple(ids[place] for place in smallest)
    assert second is y
    assert _first_units(x, y, (12, 4))[0] is x
    assert len(_first_units(x, y, (12, 4))[1]) == 4
    assert set(_first_units(x, y, (4, 4))[1].ids) == set(
        _first_units(x, y, (4, 4))[0].ids
    )  # the same units of both sides
