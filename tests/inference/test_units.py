"""Units: the same id anywhere is one unit; rows of equally long sets belong together; copies of a whole set do too."""

import numpy as np
import pytest

from mallow import Samples
from mallow.inference import Units, find_units

RNG = np.random.default_rng(0)


def rows(count, width=3, **names):
    return Samples(features=RNG.normal(size=(count, width)), **names)


def test_samples_that_share_an_id_are_one_unit_wherever_they_are():
    units = find_units(rows(3, ids=["a", "b", "c"]), rows(4, ids=["b", "b", "a", "z"]), rows(1, ids=["c"]))
    a, b, c = units.sets[0]
    assert len({a, b, c}) == 3
    assert units.sets[1].tolist()[:3] == [b, b, a]
    assert units.sets[1][3] not in (a, b, c)
    assert units.sets[2].tolist() == [c]
    assert units.count == 4


def test_prompts_stand_in_for_ids():
    units = find_units(rows(2, prompts=["once", "twice"]), rows(3, prompts=["twice", "once", "once"]))
    first, second = units.sets[0]
    assert units.sets[1].tolist() == [second, first, first]


def test_row_i_of_equally_long_sets_is_one_unit():
    units = find_units(rows(5), rows(5), rows(4), rows(4))
    assert np.array_equal(units.sets[0], units.sets[1])
    assert np.array_equal(units.sets[2], units.sets[3])
    assert set(units.sets[0]).isdisjoint(units.sets[2])
    assert units.count == 9


def test_a_set_without_ids_takes_those_of_a_set_as_long():
    named = rows(3, ids=["a", "b", "c"])
    for sets in ((named, rows(3)), (rows(3), named)):
        units = find_units(*sets)
        assert np.array_equal(units.sets[0], units.sets[1])


def test_ids_that_match_nothing_leave_every_sample_alone():
    assert find_units(rows(3, ids=["a", "b", "c"]), rows(3, ids=["d", "e", "f"])).count == 6


def test_a_set_that_was_repeated_as_a_whole_has_its_copies_in_one_unit():
    x, y = RNG.normal(size=(2, 40, 3))
    twice = Samples(features=np.concatenate([x, x]))
    assert find_units(twice, Samples(features=np.concatenate([y, y]))).count == 40
    assert find_units(twice, Samples(features=y)).count == 80
    some = Samples(features=np.concatenate([x, x[:10]]))  # by chance, or by nature: not the whole set
    assert find_units(some, Samples(features=y)).count == 90
    coins = Samples(features=np.tile([[0.0], [1.0]], (50, 1)))  # samples of few kinds repeat by nature
    assert find_units(coins, Samples(features=y)).count == 140


def test_keys_identify_units_in_other_runs_and_orders():
    reference = rows(30)
    one = find_units(reference, rows(30))
    other = find_units(reference, rows(30), rows(30))
    assert np.array_equal(one.keys, other.keys)
    order = RNG.permutation(30)
    shuffled = find_units(reference.take(order), rows(30))
    assert np.array_equal(shuffled.keys[shuffled.sets[0]], one.keys[one.sets[0]][order])
    assert len(set(one.keys.tolist())) == 30


def test_totals_and_sizes():
    units = Units((np.array([0, 0, 2]), np.array([1, 2])), np.zeros(4, np.uint64))
    assert units.totals(0, np.array([1.0, 2.0, 5.0])).tolist() == [3.0, 0.0, 5.0, 0.0]
    assert units.totals(1, np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[0, 0], [1, 2], [3, 4], [0, 0]]
    assert units.sizes(0).tolist() == [2, 0, 1, 0]
    assert units.pair(1).sets[1].tolist() == [1, 2]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_there_are_never_more_units_than_samples(count):
    assert find_units(rows(count), rows(count + 1)).count == 2 * count + 1
