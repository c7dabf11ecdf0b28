"""Units: samples that share an id anywhere are one, whatever the order; keys identify them from run to run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from held_out import samples
from mallow.evidence import Units, describe_units, find_units
from mallow.samples import Samples

names = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12)


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3))


def same_partition(first, second):
    """Whether two labellings put the same samples together."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


# --- who belongs together


@given(names, names)
def test_samples_with_the_same_id_are_one_unit(of_reference, of_model):
    units = find_units(samples(rows(len(of_reference)), of_reference), samples(rows(len(of_model), 1), of_model))
    assert same_partition(np.concatenate(units.sets).tolist(), of_reference + of_model)
    assert units.count == len(set(of_reference + of_model)) == len(set(units.keys.tolist()))


def test_without_ids_those_with_the_same_prompt_are_one_unit():
    human = Samples(features=rows(3), prompts=["one", "two", "one"])
    model = Samples(features=rows(2, 1), prompts=["two", "three"])
    assert [own.tolist() for own in find_units(human, model).sets] == [[0, 1, 0], [1, 2]]


@pytest.mark.parametrize("size", [4, 3])
def test_one_prompt_for_all_samples_tells_nothing_apart(size):
    human, model = Samples(features=rows(4)), Samples(features=rows(size, 1))
    plain = find_units(human, model)
    for same in ("", "Write a story."):
        asked = [Samples(features=side.features, prompts=[same] * len(side)) for side in (human, model)]
        for sides in (asked, (human, asked[1]), (asked[0], model)):
            units = find_units(*sides)
            assert [own.tolist() for own in units.sets] == [own.tolist() for own in plain.sets]
            assert np.array_equal(units.keys, plain.keys)
    alone = find_units(Samples(features=rows(2), prompts=["a", "b"]), Samples(features=rows(1, 1), prompts=["b"]))
    assert [own.tolist() for own in alone.sets] == [[0, 1], [1]]  # a single sample may well have a partner


def test_rows_without_ids_are_independent_whatever_their_number():
    units = find_units(samples(rows(3), "abc"), samples(rows(3, 1)), samples(rows(2, 2), "aa"), samples(rows(2, 3)))
    assert [own.tolist() for own in units.sets] == [[0, 1, 2], [3, 4, 5], [0, 0], [6, 7]]
    assert find_units(samples(rows(4)), samples(rows(4, 1)), samples(rows(4, 2))).count == 12


def test_rows_with_row_ids_are_pairs():
    human, model = (samples(rows(4, seed)).with_row_ids() for seed in (0, 1))
    assert [own.tolist() for own in find_units(human, model).sets] == [[0, 1, 2, 3]] * 2
    assert human.unit_kind == "row"
    assert np.array_equal(
        find_units(human, model).keys, find_units(samples(human.features)).keys
    )  # places are no names


@pytest.mark.parametrize("ids", [None, range(50)])
def test_a_copy_of_the_reference_is_one_unit_with_it(ids):
    x, new = rows(50), rows(20, 1)
    y = np.concatenate([x[30:], new])
    units = find_units(samples(x, ids), samples(y), samples(new))
    assert units.count == 50 + 20 + 20
    assert units.sets[1][:20].tolist() == units.sets[0][30:].tolist()
    alone = find_units(samples(x, ids), samples(y))
    assert [own.tolist() for own in units.sets[:2]] == [own.tolist() for own in alone.sets]  # whatever is beside it
    assert np.array_equal(units.keys[units.sets[1]], alone.keys[alone.sets[1]])
    twice = find_units(samples(np.tile(x, (2, 1))), samples(y))
    assert twice.count == 50 + 20
    assert find_units(samples(x, range(50)), samples(x[::-1], range(50, 100))).count == 100  # ids are what a user says


@pytest.mark.parametrize(("kinds", "n", "m"), [(30, 600, 600), (300, 600, 600), (2000, 600, 600), (2000, 900, 100)])
def test_what_is_equal_by_nature_is_no_copy(kinds, n, m):
    rng = np.random.default_rng(kinds)
    values = rng.normal(size=(kinds, 3))
    x, y = (values[rng.integers(kinds, size=size)] for size in (n, m))
    assert find_units(samples(x), samples(y)).count == n + m


def test_a_few_duplicates_do_not_hide_that_a_model_is_a_copy():
    x = rows(300)
    x[290:] = x[:10]
    units = find_units(samples(x), samples(x[::-1]))
    assert units.count == 280 + 2 * 20


def test_ids_that_match_nothing_are_units_of_their_own():
    units = find_units(samples(rows(3), "abc"), samples(rows(2, 1), "xy"))
    assert units.count == 5
    assert (units.sizes(0) * units.sizes(1) == 0).all()


def test_a_sample_set_that_was_repeated_as_a_whole_has_as_many_units_as_before():
    x, y = rows(30), rows(25, 1)
    units = find_units(samples(np.concatenate([x, x])), samples(y))
    assert units.count == 55
    assert np.array_equal(units.sets[0][:30], units.sets[0][30:])
    chance = np.concatenate([x, x[:5]])  # some duplicates are no repetition
    assert find_units(samples(chance), samples(y)).count == 60
    binary = (
        np.random.default_rng(0).integers(0, 2, size=(60, 2)).astype(float)
    )  # few kinds of samples repeat by nature
    assert find_units(samples(binary), samples(y)).count == 85
    assert find_units(samples(np.concatenate([x, x])), samples(np.concatenate([x, x]) + 1.0)).count == 60


# --- keys


def test_keys_depend_on_ids_alone_and_else_on_features():
    x, y, other = rows(5), rows(5, 1), rows(5, 2)
    named = find_units(samples(x, "abcde"), samples(y, "abcde"))
    assert np.array_equal(named.keys, find_units(samples(other, "abcde"), samples(x, "abcde")).keys)
    plain = find_units(samples(x), samples(y))
    assert np.array_equal(plain.keys[:5], find_units(samples(x), samples(other)).keys[:5])
    assert not np.isin(plain.keys[:5], find_units(samples(other), samples(y)).keys).any()


@pytest.mark.parametrize("ids", [None, ["a", "b", "b", "c", "d", "a"]])
def test_keys_move_with_the_samples(ids):
    x, y, order = rows(6), rows(6, 1), np.array([3, 1, 5, 0, 2, 4])
    units = find_units(samples(x, ids), samples(y, ids))
    moved = find_units(
        samples(x[order], ids and [ids[i] for i in order]), samples(y[order], ids and [ids[i] for i in order])
    )
    for own, there in zip(units.sets, moved.sets, strict=True):
        assert np.array_equal(units.keys[own][order], moved.keys[there])


def test_keys_do_not_depend_on_the_precision_of_the_features():
    x = rows(4).astype(np.float32)
    assert np.array_equal(
        find_units(samples(x), samples(x)).keys, find_units(samples(x.astype(float)), samples(x)).keys
    )


# --- sums


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_totals_are_sums_over_the_samples_of_each_unit(unit):
    units = Units((np.array(unit),), np.arange(5, dtype=np.uint64))
    values = np.random.default_rng(0).normal(size=(len(unit), 2, 3))
    totals = units.totals(0, values)
    assert totals.shape == (5, 2, 3)
    for number in range(5):
        assert totals[number] == pytest.approx(values[np.array(unit) == number].sum(axis=0), abs=1e-12)
    assert units.sizes(0).tolist() == [unit.count(number) for number in range(5)]


def test_units_beside_others_have_the_keys_that_they_have_alone():
    x, y, order = rows(40), np.tile(rows(20, 1), (2, 1)), np.random.default_rng(2).permutation(40)
    units = find_units(samples(x, range(40)), samples(y))
    assert units.count == 40 + 20
    moved = find_units(samples(x[order], order), samples(y[order]))
    assert np.array_equal(moved.keys[moved.sets[0]], units.keys[units.sets[0]][order])
    more = find_units(samples(x, range(40)), samples(y), samples(rows(7, 3)), samples(rows(2, 4), ["3", "z"]))
    assert np.array_equal(more.keys[more.sets[2]], find_units(samples(rows(7, 3))).keys)
    alone = find_units(samples(rows(2, 4), ["3", "z"])).keys
    assert more.keys[more.sets[3][1]] == alone[1]
    assert more.sets[3][0] == more.sets[0][3]


def test_only_whole_sets_of_twenty_kinds_or_more_count_as_repeated():
    for kinds, count in ((19, 38), (20, 20)):
        assert find_units(samples(np.tile(rows(kinds), (2, 1)))).count == count
    uneven = np.concatenate([rows(25), rows(25), rows(1)])
    assert find_units(samples(uneven)).count == 51
    assert find_units(samples(np.concatenate([rows(25), rows(24)]))).count == 49
    assert find_units(samples(np.tile(rows(25), (2, 1)), range(50))).count == 50  # ids say that they are different


def test_a_pair_keeps_the_numbers_of_all():
    units = find_units(samples(rows(2), "ab"), samples(rows(2, 1), "bc"), samples(rows(2, 2), "cd"))
    pair = units.pair(2)
    assert [own.tolist() for own in pair.sets] == [[0, 1], [2, 3]]
    assert np.array_equal(pair.keys, units.keys)


# --- in words


def made(kind, **names):
    labels = {name: list(own) for name, own in names.items()}
    count = len(*labels.values())
    return Samples(features=rows(count), **labels, **({kind: ["x"] * count} if kind else {}))


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        ((made("texts", prompts="abc"), made("texts", prompts="cba")), "3 pairs by prompt"),
        ((made("images", ids="abc"), made("images", ids="cba")), "3 pairs by file name"),
        ((made("texts", ids="aabb"), made("texts", ids="abab")), "2 ids with 4 texts each side"),
        ((made("texts", prompts="ab"), made("texts", prompts="aabb")), "2 prompts with 2 and 4 texts"),
        (
            (made("audio", ids="abc"), made("audio", ids="dea")),
            "5 file names, 1 of them on both sides, with 3 recordings each side",
        ),
        ((made("texts", ids="aab"), made("texts", ids="cd")), "4 ids, none of them on both sides, with 3 and 2 texts"),
        ((made("texts", ids="ab"), made("texts", ids="cd")), "4 independent texts"),
        ((made(None, ids="aab"), samples(rows(2, 1))), "4 units, none of them on both sides, with 3 and 2 samples"),
    ],
)
def test_units_in_words(sides, words):
    assert describe_units(find_units(*sides), *sides) == words
