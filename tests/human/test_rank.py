"""From votes to a ranking: ties, effects, errors between people, and bad input."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from human_votes import simulate, vote
from mallow import EstimateWarning, InputError
from mallow.human import TIES, Votes, bradley_terry, rank, rank_all, write_votes

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
TRUTH = {"a": 60.0, "b": 10.0, "c": -20.0, "d": -50.0}


def wins_of(votes):
    names = votes.systems
    wins = np.zeros((len(names), len(names)))
    for one in votes:
        wins[names.index(one.left), names.index(one.right)] += one.points
        wins[names.index(one.right), names.index(one.left)] += 1 - one.points
    return wins, names


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
def test_scores_are_those_of_the_counts(seed, ties):
    votes = simulate(TRUTH, 200, seed, ties=ties)
    assert rank(votes).scores == approx(bradley_terry(*wins_of(votes)).scores, abs=1e-7)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(TIES))
def test_exchanging_the_sides_changes_nothing(seed, ties):
    votes = simulate(TRUTH, 150, seed, ties=0.2 if ties != "random" else 0.0)
    turned = Votes(tuple(vote(v.right, v.left, -v.answer, v.question, v.annotator, v.prompt) for v in votes))
    first, second = rank(votes, ties=ties), rank(turned, ties=ties)
    assert second.scores == approx(first.scores, abs=1e-6)
    assert second.interval == {name: approx(span, abs=1e-5) for name, span in first.interval.items()}


def test_definitely_and_slightly_count_alike():
    votes = simulate(TRUTH, 300, seed=1)
    mild = Votes(tuple(vote(v.left, v.right, int(np.sign(v.answer)), annotator=v.annotator) for v in votes))
    assert rank(mild).scores == approx(rank(votes).scores)


def test_ties_at_random_are_on_average_ties_as_half():
    votes = simulate(TRUTH, 800, seed=2, ties=0.4)
    drawn = [rank(votes, ties="random", rng=seed).scores["a"] for seed in range(60)]
    half = rank(votes)
    assert np.mean(drawn) == approx(half.scores["a"], abs=2.5)
    assert np.std(drawn) > 1
    assert rank(votes, ties="random", rng=3).scores == rank(votes, ties="random", rng=3).scores
    assert half.ties == f"half ({sum(v.answer == 0 for v in votes)} of 800)"


def test_davidson_finds_the_share_of_ties():
    """Simulated from Davidson's model: P(tie) / sqrt(P(left) P(right)) = ν."""
    rng = np.random.default_rng(4)
    nu, made = 0.8, []
    for place in range(4000):
        i, j = rng.choice(list(TRUTH), 2, replace=False)
        weights = np.array([np.exp((TRUTH[i] - TRUTH[j]) / 200), nu, np.exp((TRUTH[j] - TRUTH[i]) / 200)])
        made.append(
            vote(str(i), str(j), int(rng.choice([-1, 0, 1], p=weights / weights.sum())), annotator=f"w{place % 90}")
        )
    ranking = rank(Votes(tuple(made)), ties="davidson")
    assert ranking.effects["tie"].value == approx(nu / (2 + nu), abs=0.03)
    assert ranking.scores == approx(TRUTH, abs=12)
    assert ranking.misfit > 0.001
    assert "is the share of ties between equal systems" in str(ranking)


def test_davidson_without_ties_is_bradley_terry():
    votes = simulate(TRUTH, 300, seed=5)
    assert rank(votes, ties="davidson").scores == approx(rank(votes).scores)


def test_effects_are_found_and_taken_out():
    votes = simulate(TRUTH, 8000, seed=6, left=30.0, length=40.0, people=200)
    plain, ranking = rank(votes), rank(votes, effects=["left", "length"])
    for name, truth in (("left", 30.0), ("length", 40.0)):
        estimate = ranking.effects[name]
        assert estimate.low < truth < estimate.high
        assert estimate.high - estimate.low < 25
    assert plain.effects == {}
    assert all(low < TRUTH[name] < high for name, (low, high) in ranking.interval.items())
    assert "points for standing on the left" in str(ranking)


def test_errors_know_who_voted():
    """Where people differ in taste, errors that treat votes as independent cover too little; clustered ones do not.

    What is estimated is what people say on average: a normal spread of tastes flattens the logistic curve by a known factor.
    """
    taste = 60.0
    flatter = 1 / np.sqrt(1 + np.pi / 8 * 2 * (taste / 100) ** 2)
    truth = {name: flatter * score for name, score in TRUTH.items()}
    inside, naive = [], []
    for seed in range(80):
        votes = simulate(TRUTH, 400, seed, people=30, taste=taste)
        ranking, alone = rank(votes), bradley_terry(*wins_of(votes))
        inside += [low < truth[name] < high for name, (low, high) in ranking.interval.items()]
        naive += [low < truth[name] < high for name, (low, high) in alone.interval.items()]
    assert np.mean(naive) < 0.91
    assert 0.92 < np.mean(inside) < 0.98


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
@pytest.mark.parametrize(("people", "taste", "item"), [(40, 30.0, 70.0), (8, 40.0, 60.0), (40, 0.0, 0.0)])
def test_errors_know_that_votes_share_prompts(people, taste, item):
    """20 prompts for 400 votes, and few annotators: intervals hold, and no difference that does not exist is claimed."""
    equal = dict.fromkeys("abcd", 0.0)
    inside, claims, naive = [], [], []
    for seed in range(60):
        votes = simulate(equal, 400, seed, people=people, taste=taste, items=20, item=item)
        ranking, alone = rank(votes), bradley_terry(*wins_of(votes))
        inside += [low <= 0 <= high for low, high in ranking.interval.values()]
        naive += [low <= 0 <= high for low, high in alone.interval.values()]
        claims.append(any(one.significant for one in ranking.differences))
    assert np.mean(inside) > 0.92
    assert np.mean(claims) < 0.12
    assert (np.mean(naive) < 0.9) == (item > 0)


def test_errors_of_two_kinds_add_up():
    """Prompts that nobody shares add nothing; people who each see one prompt are the prompts."""
    votes = simulate(TRUTH, 600, seed=3, people=30, taste=50.0, items=25, item=50.0)
    by_people = Votes(tuple(replace(v, prompt=str(i)) for i, v in enumerate(votes)))
    by_items = Votes(tuple(replace(v, annotator="") for v in votes))
    neither = Votes(tuple(replace(v, annotator="", prompt="", task="") for v in votes))
    widths = [np.subtract(*rank(v).interval["a"][::-1]) for v in (votes, by_people, by_items, neither)]
    assert widths[3] < min(widths[1:3]) < max(widths[1:3]) < widths[0] < widths[1] + widths[2]
    nested = Votes(tuple(replace(v, annotator=v.prompt) for v in votes))
    assert rank(nested).interval["a"] == approx(rank(by_items).interval["a"], rel=0.01)


def test_few_prompts_are_told():
    votes = simulate(TRUTH, 300, seed=7, items=4)
    with pytest.warns(EstimateWarning, match="only 4 prompts: differences between prompts cannot be seen"):
        ranking = rank(votes)
    assert [(one.kind, one.values) for one in ranking.caveats] == [("few items", {"items": 4})]
    with pytest.warns(EstimateWarning, match="only 12 prompts: with fewer than 20, intervals are long"):
        rank(simulate(TRUTH, 300, seed=7, items=12))
    clear = Votes(tuple(vote("x", "y", -1 if i % 8 else 1, annotator="me", prompt=str(i)) for i in range(200)))
    with pytest.warns(EstimateWarning, match=r"only 1 annotator: .* hold for this one, not for others"):
        assert rank(clear).verdict.startswith("1 annotator preferred x to every other system")


def test_few_annotators_are_told():
    with pytest.warns(EstimateWarning, match="only 12 annotators: with fewer than 20, intervals are long"):
        rank(simulate(TRUTH, 300, seed=7, people=12))
    with pytest.warns(EstimateWarning, match="only 2 annotators: differences between annotators cannot be seen"):
        rank(simulate(TRUTH, 300, seed=7, people=2))
    assert rank(simulate(TRUTH, 900, seed=7, people=40)).caveats == ()


def test_intervals_hold_with_fewer_annotators_than_systems():
    many = {f"s{i}": 10.0 * i - 45 for i in range(10)}
    inside = []
    for seed in range(25):
        ranking = rank(simulate(many, 500, seed, people=8, taste=30.0))
        inside += [low < many[name] < high for name, (low, high) in ranking.interval.items()]
    assert np.mean(inside) > 0.92


def test_few_annotators_do_not_make_differences_of_nothing():
    """Six people with tastes of their own, twelve equal systems: at most 5% of the differences have p < 0.05."""
    equal = {f"s{i}": 0.0 for i in range(12)}
    found = [
        one.p_value for seed in range(25) for one in rank(simulate(equal, 400, seed, people=6, taste=40.0)).differences
    ]
    assert 0.015 < np.mean(np.array(found) < 0.05) < 0.06


def test_unknown_annotators_are_independent():
    votes = simulate(TRUTH, 500, seed=8)
    unknown = Votes(tuple(vote(v.left, v.right, v.answer, annotator="") for v in votes))
    ranking, counted = rank(unknown), bradley_terry(*wins_of(votes))
    assert ranking.annotators == 0
    for name, (low, high) in counted.interval.items():
        assert ranking.interval[name][1] - ranking.interval[name][0] == approx(high - low, rel=0.15)


def test_people_can_be_left_out_and_are_counted():
    votes = simulate(TRUTH, 500, seed=9)
    ranking = rank(votes, exclude=["w3", "w4"])
    assert ranking.dropped == {"of excluded annotators": sum(v.annotator in ("w3", "w4") for v in votes)}
    assert ranking.annotators == 38
    assert f"Dropped: {ranking.dropped['of excluded annotators']} of excluded annotators." in str(ranking)


def test_gold_repeats_and_judges_take_no_part():
    votes = simulate(TRUTH, 300, seed=10)
    more = [
        vote("a", "d", 2, kind="gold", expected=-1),
        vote("a", "d", 2, kind="repeat"),
        vote("a", "d", 2, judge=True, annotator="gpt"),
    ]
    ranking = rank(Votes((*votes, *more)))
    assert ranking.scores == rank(votes).scores
    assert ranking.dropped == {"by a judge, not a person": 1, "on gold pairs": 1, "on repeated pairs": 1}


def test_all_ties_tell_nothing():
    votes = Votes(tuple(vote(a, b, 0, annotator=f"w{i}") for i in range(30) for a, b in (("x", "y"), ("y", "z"))))
    for ties in ("half", "davidson"):
        with pytest.warns(EstimateWarning, match="all votes are ties: nothing tells the systems apart"):
            ranking = rank(votes, ties=ties)
        assert ranking.scores == approx({"x": 0, "y": 0, "z": 0})
        assert ranking.groups == (("x", "y", "z"),)
        assert all(high - low > 10 for low, high in ranking.interval.values())
        assert "No system is significantly better than all others" in ranking.verdict


def test_a_winner_of_everything_has_a_caveat():
    votes = [vote("x", "y", -1, annotator=f"w{i}") for i in range(30)]
    with pytest.warns(EstimateWarning, match="x never lost to the other systems"):
        ranking = rank(Votes(tuple(votes)))
    assert list(ranking.scores) == ["x", "y"]


def test_all_questions_at_once(tmp_path):
    first = simulate(TRUTH, 300, seed=11, question="human-like")
    second = simulate({**TRUTH, "a": -90.0}, 300, seed=12, question="sensible")
    both = Votes((*first, *second))
    rankings = rank_all(both)
    assert rankings.rankings["sensible"].scores == rank(both, question="sensible").scores
    assert rankings.correlations()["human-like", "sensible"] < 0.9
    assert "Spearman correlation of human-like with sensible" in str(rankings)
    write_votes(tmp_path / "votes.jsonl", both)
    assert rank_all(tmp_path / "votes.jsonl").rankings["sensible"].scores == rankings.rankings["sensible"].scores


@pytest.mark.parametrize(
    ("votes", "options", "message"),
    [
        (Votes(()), {}, r"`votes` must hold votes of people on tasks; none are left \(none were given\)"),
        (
            Votes((), {"": {"faster than 25 s": 7}}),
            {},
            r"none are left \(7 faster than 25 s\). Keep fast answers with `min_seconds=0`",
        ),
        (
            Votes((), {"": {"rejected assignment": 2}, "good": {"faster than 25 s": 7, "on gold pairs": 1}}),
            {},
            r"none are left \(2 rejected assignment; 7 faster than 25 s; 1 on gold pairs\)\. Keep fast answers",
        ),
        (
            Votes((), {"": {"rejected assignment": 2, "on gold pairs": 1}}),
            {},
            r"none are left \(2 rejected assignment; 1 on gold pairs\)\.$",
        ),
        (Votes((vote("a", "b", 1),)), {"ties": "coin"}, "`ties` must be one of half, random, davidson; got 'coin'"),
        (Votes((vote("a", "b", 1),)), {"effects": ["top"]}, "`effects` must be among left, length; got 'top'"),
        (
            Votes((vote("a", "b", 1),)),
            {"effects": ["length"]},
            "needs the lengths of both texts of every vote; 1 of 1 votes",
        ),
        (
            Votes((vote("a", "b", 1), vote("a", "b", -1))),
            {"effects": ["left"]},
            r"`effects` cannot be told from the systems here \(left\): for instance, a system always stood on the same side",
        ),
        (
            Votes((vote("a", "b", 1), vote("c", "d", -1))),
            {},
            "`votes` must connect all systems, but no vote links a and b with c and d",
        ),
        ([1], {}, "`votes` must be Votes or the path of a file of votes; got list"),
    ],
)
def test_mistakes_are_told(votes, options, message):
    with pytest.raises(InputError, match=message):
        rank(votes, **options)
    if not options and isinstance(votes, Votes):
        with pytest.raises(InputError, match=message):
            rank_all(votes)


def test_the_check_of_the_fit_knows_what_votes_share():
    """Pairs that differ from prompt to prompt, but not on the whole: the scores explain them, and a check that takes votes as independent says otherwise too often."""
    bad, naive = [], []
    for seed in range(120):
        rng = np.random.default_rng([9, seed])
        own = 1.2 * rng.normal(size=(20, 4, 4))
        made = []
        for place in range(600):
            i, j = sorted(rng.permutation(4)[:2])
            likely = 1 / (1 + np.exp(-own[place % 20, i, j]))
            answer = -1 if rng.random() < likely else 1
            made.append(vote(f"{i}", f"{j}", answer, annotator=f"w{rng.integers(60)}", prompt=f"{place % 20}"))
        votes = Votes(tuple(made))
        bad.append(rank(votes).misfit < 0.05)
        naive.append(bradley_terry(*wins_of(votes)).misfit < 0.05)
    assert np.mean(naive) > 0.15
    assert np.mean(bad) < 0.1


def test_the_check_of_the_fit_still_sees_a_pair_that_deviates():
    """The winner of one pair is turned round; everything else follows the scores."""
    votes = simulate({"a": 80.0, "b": 40.0, "c": 0.0, "d": -40.0}, 1500, seed=3, people=60, items=30, item=20.0)
    turned = [
        vote(v.left, v.right, -v.answer, annotator=v.annotator, prompt=v.prompt)
        if {v.left, v.right} == {"a", "d"}
        else v
        for v in votes
    ]
    ranking = rank(Votes(tuple(turned)))
    assert ranking.misfit < 0.001
    assert {ranking.checks[0].first, ranking.checks[0].second} == {"a", "d"}
    assert ranking.checks[0].adjusted < 0.01


def test_an_effect_without_a_limit_is_told_apart_from_a_system_without_one():
    """The left side always wins: no number is too large for that effect, while the systems beat each other."""
    pairs = [("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")]
    sided = Votes(tuple(vote(left, right, -1, task=str(i)) for i, (left, right) in enumerate(10 * pairs)))
    with pytest.warns(EstimateWarning, match="the votes set no limit to some effect: a weak penalty"):
        ranking = rank(sided, effects=["left"])
    assert [caveat.kind for caveat in ranking.caveats].count("separation") == 1
    assert all(abs(score) < 1 for score in ranking.scores.values())
    beaten = Votes(tuple(vote("a", "b", -1 if i % 3 else 1, task=str(i)) for i in range(30)))
    assert "separation" not in {caveat.kind for caveat in rank(beaten).caveats}
    never = Votes(
        tuple(vote(*sides, -1 if sides[0] == "a" else 1, task=str(i)) for i, sides in enumerate(10 * pairs[:2]))
    )
    with pytest.warns(EstimateWarning, match="a never lost"):
        ranking = rank(never)
    told = [str(caveat) for caveat in ranking.caveats if caveat.kind == "separation"]
    assert len(told) == 1
    assert "some effect" not in told[0]
