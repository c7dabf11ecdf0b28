"""Annotators: agreement after Krippendorff, reliability, flags."""

import evalica
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx
from scipy.optimize import minimize
from scipy.stats import binom

from human_votes import simulate, vote
from mallow import InputError
from mallow.evidence import holm
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


def chances_by_others(votes, name):
    """The untied votes of a person, with the chance of the left side by a penalised fit to the votes of all others."""
    made = []
    for question in ("q1", "q2"):
        untied = [one for one in votes if one.answer and one.question == question and one.kind == "task"]
        systems = sorted({system for one in untied for system in one.pair})

        def gap(one, w, systems=systems):
            return w[systems.index(one.left)] - w[systems.index(one.right)]

        def loss(w, untied=untied, gap=gap):
            others = [one for one in untied if one.annotator != name]
            lost = sum(np.logaddexp(0.0, gap(one, w) * (1 if one.answer > 0 else -1)) for one in others)
            return lost + 0.25 / 2 * (w**2).sum()

        best = minimize(loss, np.zeros(len(systems)), tol=1e-12).x
        made += [(one, 1 / (1 + np.exp(-gap(one, best)))) for one in untied if one.annotator == name]
    return made


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_facts_about_a_person_are_those_of_the_definition(seed):
    """Two questions on each page, ties, answers just at the limit of time, gold pairs and repeats."""
    rng = np.random.default_rng(seed)
    votes = []
    for place in range(90):
        left, right = rng.permutation(list(TRUTH))[:2]
        sure = 0.9 if place % 3 else 0.2  # of the second person in three: often against the others
        for question in ("q1", "q2"):
            good = -1 if TRUTH[left] > TRUTH[right] else 1
            answer = 0 if rng.random() < 0.1 else good if rng.random() < sure else -good
            facts = {"annotator": f"w{place % 3}", "prompt": str(place), "seconds": float(rng.choice([24.9, 25.0, 60]))}
            votes.append(vote(left, right, answer, question, **facts))
    votes += [vote("a", "b", 2, "q1", "w1", "g", 1.0, kind="gold", expected=2, task="g")]
    votes += [vote("a", "b", 0, "q1", "w1", "h", 1.0, kind="gold", expected=1, task="h")]
    found = check_annotators(Votes(tuple(votes)), min_seconds=25.0)
    tests = {}
    for person in sorted(found.annotators, key=lambda one: one.name):
        own = [one for one in votes if one.annotator == person.name and one.kind == "task"]
        assert person.votes == len(own)
        assert person.seconds == np.median([one.seconds for one in own])
        assert person.fast == np.mean([one.seconds < 25.0 for one in own])
        assert person.left == np.mean([one.answer < 0 for one in own if one.answer])
        assert person.gold == ((1, 2) if person.name == "w1" else (0, 0))
        predicted = chances_by_others(votes, person.name)
        agrees = [(one.answer < 0) == (chance > 0.5) for one, chance in predicted]
        expected = np.mean([max(chance, 1 - chance) for _, chance in predicted])
        assert person.agreement == np.mean(agrees)
        assert person.expected == approx(expected, abs=1e-5)
        pages, sides = {}, {}
        for (one, _), agree in zip(predicted, agrees, strict=True):
            pages[one.prompt] = pages.get(one.prompt, 0) + (1 if agree else -1)
            sides[one.prompt] = sides.get(one.prompt, 0) + np.sign(one.answer)
        (right, count), (for_right, side_count) = (
            (sum(total > 0 for total in each.values()), sum(total != 0 for total in each.values()))
            for each in (pages, sides)
        )
        noise = 0.25 / count / (expected - 0.5) ** 2
        slope = (np.mean(agrees) - 0.5) / (expected - 0.5)
        assert person.reliability == approx((slope * 0.25 + noise) / (0.25 + noise), abs=1e-3)
        gold = [binom.cdf(1, 2, 0.75)] if person.name == "w1" else []
        tests[person.name] = (
            min(1.0, 2 * binom.cdf(min(for_right, side_count - for_right), side_count, 0.5)),
            min([binom.cdf(right, count, 0.5), *gold]),
        )
    raised = zip(tests, *(holm(list(each)) for each in zip(*tests.values(), strict=True)), strict=True)
    flags = {
        name: tuple(flag for flag, p in (("one-sided", side), ("contradictory", against)) if p < 0.05)
        for name, side, against in raised
    }
    assert {one.name: tuple(flag for flag in one.flags if flag != "fast") for one in found.annotators} == flags
    assert flags["w0"] == ("contradictory",)
    for one in found.annotators:
        assert ("fast" in one.flags) == (one.fast > 0.5)
    order = [(not one.flags, -one.votes, one.name) for one in found.annotators]
    assert order == sorted(order)


def test_half_of_the_answers_may_be_fast():
    times = {"half": [10.0, 10.0, 60.0, 60.0], "more": [10.0, 10.0, 10.0, 60.0], "unknown": [None] * 4}
    votes = [
        vote("a", "b", (-1) ** number, annotator=name, prompt=f"{name}{number}", seconds=seconds)
        for name, all_times in times.items()
        for number, seconds in enumerate(all_times)
    ]
    people = {one.name: one for one in check_annotators(Votes(tuple(votes))).annotators}
    assert {name: one.flags for name, one in people.items()} == {"half": (), "more": ("fast",), "unknown": ()}
    assert (people["unknown"].seconds, people["unknown"].fast) == (None, 0.0)
    tied = check_annotators(Votes((vote("a", "b", 0, annotator="tied"),))).annotators[0]
    assert (tied.left, tied.agreement, tied.expected, tied.reliability) == (None, None, None, None)


def test_the_picture_shows_agreement_against_time_and_who_is_flagged():
    found = check_annotators(with_people())
    ax = found.plot(pytest.importorskip("matplotlib.figure").Figure().subplots())
    for marks, flagged in zip(ax.collections, (False, True), strict=True):
        people = [one for one in found.annotators if bool(one.flags) == flagged and one.agreement is not None]
        points = [[one.seconds or 0.0, one.agreement] for one in people]
        assert marks.get_offsets().tolist() == points
        assert marks.get_sizes().tolist() == [10.0 + 4.0 * one.votes for one in people]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["not flagged", "flagged"]
    assert ax.get_ylabel() == "agreement with the votes of all others"
