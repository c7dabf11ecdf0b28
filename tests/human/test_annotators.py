"""Annotators: agreement after Krippendorff, reliability, flags."""

import evalica
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from human_votes import simulate, vote
from mallow import InputError
from mallow.human import Votes, check_annotators, krippendorff_alpha, rank

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
TRUTH = {"a": 150.0, "b": 0.0, "c": -150.0}
RATINGS = hnp.arrays(np.int64, st.tuples(st.integers(2, 4), st.integers(2, 8)), elements=st.integers(0, 4))


def units_of(table):
    return [[float(value) for value in column if value] for column in table.T]  # 0: not rated


@given(RATINGS, st.sampled_from(["nominal", "ordinal"]))
def test_evalica_agrees(table, level):
    units = [values for values in units_of(table) if len(values) > 1]
    assume(len({value for values in units for value in values}) > 1)
    frame = pd.DataFrame(np.where(table == 0, np.nan, table))
    assert krippendorff_alpha(units, level) == approx(evalica.alpha(frame, distance=level).alpha, abs=1e-9)


def test_a_value_from_the_book():
    """Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C: nominal 0.743, ordinal 0.815."""
    rows = """
        1 2 3 3 2 1 4 1 2 . . .
        1 2 3 3 2 2 4 1 2 5 . 3
        . 3 3 3 2 3 4 2 2 5 1 .
        1 2 3 3 2 4 4 1 2 5 1 .
    """
    table = [line.split() for line in rows.strip().splitlines()]
    units = [[float(value) for value in column if value != "."] for column in zip(*table, strict=True)]
    assert krippendorff_alpha(units) == approx(0.743, abs=5e-4)
    assert krippendorff_alpha(units, "ordinal") == approx(0.815, abs=5e-4)


@given(RATINGS)
def test_agreement_is_at_most_one_and_chance_is_zero(table):
    units = [values for values in units_of(table) if len(values) > 1]
    assume(units)
    assert krippendorff_alpha(units) <= 1
    assert krippendorff_alpha([[value, value] for values in units for value in values]) == 1


def test_chance_gives_zero():
    rng = np.random.default_rng(0)
    assert krippendorff_alpha(rng.integers(1, 4, size=(4000, 2)).tolist()) == approx(0, abs=0.04)


def test_mistakes_are_told():
    with pytest.raises(InputError, match="`level` must be nominal or ordinal; got 'ratio'"):
        krippendorff_alpha([[1, 2]], "ratio")
    with pytest.raises(InputError, match="`units` must hold a unit with at least two values"):
        krippendorff_alpha([[1], [2]])
    with pytest.raises(InputError, match="`votes` must hold votes of known annotators, but there are none"):
        check_annotators(Votes((vote("a", "b", 1, annotator=""),)))


def test_agreement_does_not_depend_on_the_side():
    """The same texts, shown to two people on different sides."""
    votes = []
    for place in range(40):
        answer = -2 if place % 3 else 1
        votes += [
            vote("a", "b", answer, annotator="x", prompt=str(place)),
            vote("b", "a", -answer, annotator="y", prompt=str(place)),
        ]
    found = check_annotators(Votes(tuple(votes)))
    assert found.alpha == {"nominal": 1.0, "ordinal": 1.0}
    assert found.shared == 40
    assert "Krippendorff's α on 40 pairs that several people judged: 1.00" in str(found)


def test_without_shared_pairs_agreement_is_not_known():
    found = check_annotators(simulate(TRUTH, 200, seed=0))
    assert found.alpha == {"nominal": None, "ordinal": None}
    assert "No pair was judged by two people: their agreement is not known." in str(found)


def with_people(seed=0):
    """Forty honest people, and four who are fast, always left, contrary, or asleep at gold pairs."""
    rng = np.random.default_rng(seed)
    votes = list(simulate(TRUTH, 2000, seed))
    names = list(TRUTH)
    for place in range(60):
        i, j = rng.choice(names, 2, replace=False)
        better = -1 if TRUTH[i] > TRUTH[j] else 1
        common = {"prompt": f"p{place}", "task": f"p{place}"}
        votes.append(vote(i, j, better, annotator="fast", seconds=4.0, **common))
        votes.append(vote(i, j, -2, annotator="lefty", **common))
        votes.append(vote(i, j, -better, annotator="contrary", **common))
    for place in range(20):
        votes.append(vote("a", "c", 1, annotator="asleep", kind="gold", expected=-1, task=f"g{place}"))
        votes.append(vote("a", "c", -1, annotator="w1", kind="gold", expected=-2, task=f"g{place}"))
    votes.append(vote("a", "c", -1, annotator="asleep", prompt="z"))
    return Votes(tuple(votes))


def test_flags_are_raised_for_those_who_deserve_them():
    found = check_annotators(with_people())
    flags = {one.name: one.flags for one in found.annotators if one.flags}
    assert flags == {
        "fast": ("fast",),
        "lefty": ("one-sided",),
        "contrary": ("contradictory",),
        "asleep": ("contradictory",),
    }
    assert set(found.flagged) == set(flags)
    people = {one.name: one for one in found.annotators}
    assert people["w1"].gold == (20, 20)
    assert people["asleep"].gold == (0, 20)
    assert people["contrary"].reliability < 0.2 < 0.7 < people["w1"].reliability
    assert people["lefty"].left == 1.0
    assert "44 annotators, 4 flagged" in str(found)


def test_honest_people_are_rarely_flagged():
    flagged = sum(bool(check_annotators(simulate(TRUTH, 500, seed, people=25)).flagged) for seed in range(12))
    assert flagged <= 3  # 5% for each of two tests, corrected over all people


def test_repeated_pairs_are_compared():
    votes = [vote("a", "b", -1, annotator="w", prompt=str(i)) for i in range(12)]
    same = [vote("b", "a", 1, annotator="w", prompt=str(i), kind="repeat") for i in range(4)]
    other = [vote("a", "b", 2, annotator="w", prompt=str(i), kind="repeat") for i in range(4, 12)]
    found = check_annotators(Votes((*votes, *same, *other)))
    assert found.annotators[0].repeats == (4, 12)
    assert "contradictory" in found.annotators[0].flags


def test_the_ranking_without_them_is_nearer_to_the_truth():
    votes = with_people()
    without = rank(votes, exclude=[name for name in check_annotators(votes).flagged if name != "asleep"])
    before = rank(votes)
    distance = [sum(abs(one.scores[name] - TRUTH[name]) for name in TRUTH) for one in (before, without)]
    assert distance[1] < distance[0]
    assert without.dropped["of excluded annotators"] == 180


def test_questions_of_one_page_count_once():
    """Nine votes for the left on three pages are three events, not nine: no reason for a flag among forty people."""
    votes = list(simulate(TRUTH, 400, seed=1))
    for page in range(5):
        votes += [vote("a", "b", -1, question, "shy", str(page)) for question in ("q1", "q2", "q3")]
    flags = {one.name: one.flags for one in check_annotators(Votes(tuple(votes))).annotators}
    assert flags["shy"] == ()
