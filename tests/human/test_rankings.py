"""What a ranking says of itself: winner, best, sentences, tables and records agree with its numbers."""

from dataclasses import replace
from itertools import combinations

import pytest
from pytest import approx

from human_votes import simulate
from mallow.human import PairCheck, PairDifference, Ranking, Rankings, rank
from mallow.results import Estimate

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


@pytest.fixture(scope="module")
def drawn():
    return rank(simulate({"a": 60.0, "b": 10.0, "c": -20.0, "d": -50.0}, 400, seed=1))


def ordered(drawn, apart, names="abcd", **changes) -> Ranking:
    """A ranking in this order, in which some pairs differ significantly."""
    pairs = [
        PairDifference(*pair, 20.0, (-5.0, 45.0), 0.01, 0.01 if "".join(pair) in apart else 0.2)
        for pair in combinations(names, 2)
    ]
    ranks = {}
    for name in names:
        better = sum(one.significant and one.second == name for one in pairs)
        worse = sum(one.significant and one.first == name for one in pairs)
        ranks[name] = (1 + better, len(names) - worse)
    scores = {name: 40.0 - 10 * place for place, name in enumerate(names)}
    interval = {name: (score - 3.0, score + 4.0) for name, score in scores.items()}
    made = {"scores": scores, "interval": interval, "ranks": ranks, "differences": tuple(pairs)}
    return replace(drawn, **{**made, "groups": (tuple(names),), **changes})


@pytest.mark.parametrize(
    ("apart", "winner", "best", "verdict"),
    [
        (["ab", "ac", "ad"], "a", "a", "People prefer a to every other system. 3 of 6"),
        (["ac", "ad"], None, "ab", "a and b share the first place. 2 of 6"),
        (["ad", "bd"], None, "abc", "share the first place. 2 of 6"),
        ([], None, "abcd", "No system is significantly better than all others. 0 of 6"),
    ],
)
def test_the_verdict_follows_from_the_significant_differences(drawn, apart, winner, best, verdict):
    ranking = ordered(drawn, apart, annotators=0)
    assert (ranking.winner, "".join(ranking.best)) == (winner, best)
    assert verdict in ranking.verdict
    assert ranking.verdict in str(ranking)


def test_many_that_share_the_first_place_are_counted(drawn):
    four, five = (ordered(drawn, ["af"] + ["ae"] * (best == 4), names="abcdef") for best in (4, 5))
    assert len(four.best) == 4
    assert all(name in four.verdict for name in ("a", "b", "c", "d"))
    assert len(five.best) == 5
    assert "5 systems share the first place" in five.verdict


@pytest.mark.parametrize(
    ("annotators", "words"),
    [(0, "People prefer a"), (1, "1 annotator preferred a"), (4, "4 annotators preferred a"), (5, "People prefer a")],
)
def test_few_annotators_are_not_people(drawn, annotators, words):
    ranking = ordered(drawn, ["ab", "ac", "ad"], annotators=annotators)
    assert ranking.verdict.startswith(words)
    assert (f" by {annotators} annotators" in ranking.summary) is (annotators > 0)


def check(number, adjusted):
    return PairCheck("a", f"x{number}", 30.0, 0.75, 0.5, 3.0, adjusted)


@pytest.mark.parametrize(
    ("misfit", "adjusted", "words"),
    [
        (0.3, [0.4, 0.05], "The scores explain the pairs"),
        (0.01, [0.4, 0.05], "The scores do not explain the votes as a whole"),
        (0.01, [0.4, 0.01], r"a against x1: 0.75, expected 0.50."),
        (0.01, [0.01] * 5, "a against x4: 0.75, expected 0.50."),
        (0.01, [0.01] * 7, "; and 2 more."),
        (None, [], "The fit cannot be checked"),
    ],
)
def test_a_misfit_is_named_where_pairs_deviate(drawn, misfit, adjusted, words):
    ranking = ordered(drawn, [], misfit=misfit, checks=tuple(check(*each) for each in enumerate(adjusted)))
    assert words in ranking.fit_sentence
    assert ranking.fit_sentence in str(ranking)
    assert ("more." in ranking.fit_sentence) is (len(adjusted) > 5)


def test_effects_are_printed_with_their_sign_and_interval(drawn):
    effects = {
        "left": Estimate(12.345, -1.0, 25.0),
        "length": Estimate(-3.0, -9.0, 3.0),
        "tie": Estimate(0.25, 0.2, 0.3),
    }
    lines = ordered(drawn, [], effects=effects).effect_lines()
    assert [line.split()[0] for line in lines] == ["+12.3", "-3.0", "0.250"]
    assert "-1.0 to +25.0" in lines[0]
    assert "0.200 to 0.300" in lines[2]
    assert all(line in str(ordered(drawn, [], effects=effects)) for line in lines)


def test_tables_and_records_have_the_numbers(drawn):
    ranking = ordered(drawn, ["ab", "ac", "ad"], groups=(("a",), ("b", "c", "d")))
    rows = ranking._table().rows
    assert [row[0] for row in rows] == ["a", "b", "c", "d"]
    assert rows[0][1:] == ["40.00", "37.00 to 44.00", "1", "a"]
    assert rows[3][1:] == ["10.00", "7.00 to 14.00", "2–4", "b"]
    assert ranking.to_dict()["winner"] == "a"
    [first, *_] = ranking._records()
    assert first == {"system": "a", "score": 40.0, "low": 37.0, "high": 44.0, "best_rank": 1, "worst_rank": 1}
    assert ranking.probability("a", "b") == approx(1 / (1 + 2.718281828 ** (-0.1)))
    assert ranking.probability("a", "b") + ranking.probability("b", "a") == approx(1)


def test_more_groups_than_letters_have_numbers(drawn):
    groups = tuple(("a",) for _ in range(28))
    [row, *_] = ordered(drawn, [], groups=groups)._table().rows
    assert row[4] == "abcdefghijklmnopqrstuvwxyz(27)(28)"


def test_several_questions_stand_beside_each_other(drawn):
    first, second = ordered(drawn, [], question="good"), ordered(drawn, [], names="dcb", question="true")
    both = Rankings({"good": first, "true": second})
    assert both.systems == ("a", "b", "c", "d")
    assert both.correlations() == {("good", "true"): approx(-1.0)}  # of the three that both have
    assert Rankings({"good": first, "one": ordered(drawn, [], names="a")}).correlations() == {}
    rows = {row[0]: row[1:] for row in both._table().rows}
    assert rows["a"] == ["40.00", "37.0 to 44.0", "–", "–"]
    assert rows["d"] == ["10.00", "7.0 to 14.0", "40.00", "37.0 to 44.0"]
    assert len(both._records()) == 7
    assert {row["question"] for row in both._records()} == {"good", "true"}
    ax = both.plot()
    assert sorted(label.get_text() for label in ax.get_yticklabels())[0] == "a, good"
    assert len(ax.get_yticklabels()) == 7
    drawn_rows = {text.get_text(): place for place, text in enumerate(ax.get_yticklabels())}
    spans = {int(line.get_ydata()[0]): tuple(line.get_xdata()) for line in ax.lines[:-1] if len(line.get_xdata()) == 2}
    values = {int(line.get_ydata()[0]): line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1}
    for question, ranking in both.rankings.items():
        for name, score in ranking.scores.items():
            place = drawn_rows[f"{name}, {question}"]
            assert (values[place], spans[place]) == (score, ranking.interval[name])
    alone = first.plot()
    assert alone.get_title() == "good"
    assert [text.get_text() for text in alone.get_yticklabels()] == list(first.scores)[::-1]
