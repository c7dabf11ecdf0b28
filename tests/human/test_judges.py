"""Judges beside people: valid intervals whatever the judges are worth."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from human_votes import vote
from mallow import EstimateWarning, InputError
from mallow.human import Votes, rank, rank_with_judges

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
TRUTH = {"a": 50.0, "b": 10.0, "c": -60.0}


def battles(labelled, unlabelled, seed, *, noise=0.1, bias=0.0, side=0.0):
    """Votes of people on some battles and of a judge on all: it flips people's vote with probability `noise`, prefers system c by
    `bias`, and the left side by `side`."""
    rng = np.random.default_rng(seed)
    votes, names = [], list(TRUTH)
    for place in range(labelled + unlabelled):
        left, right = (names[place] for place in rng.permutation(len(names))[:2])
        answer = -1 if rng.random() < 1 / (1 + np.exp((TRUTH[right] - TRUTH[left]) / 100)) else 1
        judged = -answer if rng.random() < noise else answer
        if "c" in (left, right) and rng.random() < bias:
            judged = -1 if left == "c" else 1
        if rng.random() < side:
            judged = -1
        votes.append(vote(left, right, judged, annotator="gpt", task=str(place), judge=True))
        if place < labelled:
            votes.append(vote(left, right, answer, annotator="", task=str(place)))
    return Votes(tuple(votes))


def test_people_alone_are_what_rank_says():
    votes = battles(300, 900, seed=0)
    judged = rank_with_judges(votes)
    alone = rank(votes)
    assert judged.people.scores == approx(alone.scores, abs=1e-6)
    for name, (low, high) in alone.interval.items():
        assert judged.people.interval[name][1] - judged.people.interval[name][0] == approx(high - low, rel=0.02)


@pytest.mark.parametrize("options", [{"noise": 0.05}, {"noise": 0.2, "bias": 0.5}, {"noise": 0.5}, {"side": 0.8}])
def test_intervals_cover_whatever_the_judge(options):
    inside, gains = [], []
    for seed in range(35):
        judged = rank_with_judges(battles(220, 900, seed, **options))
        inside += [low < TRUTH[name] < high for name, (low, high) in judged.ranking.interval.items()]
        gains.append(judged.effective / judged.labelled)
    assert np.mean(inside) > 0.9
    if options.get("noise") == 0.05:
        assert np.mean(gains) > 1.8
    if options.get("noise") == 0.5:
        assert np.mean(gains) == approx(1, abs=0.05)


def test_errors_know_that_votes_share_prompts_and_people():
    """Twenty prompts, each with strengths of its own that people and the judge see alike, and twelve people."""
    inside = {"people": [], "both": []}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        by_prompt, by_person = 0.8 * rng.normal(size=(20, 3)), 0.3 * rng.normal(size=(12, 3))
        votes = []
        for place in range(1200):
            i, j = rng.permutation(3)[:2]
            prompt, who = rng.integers(20), rng.integers(12)
            gap = by_prompt[prompt, i] - by_prompt[prompt, j]
            own = gap + by_person[who, i] - by_person[who, j]
            for judge, strength in ((True, gap), (False, own)):
                answer = -1 if rng.random() < 1 / (1 + np.exp(-strength)) else 1
                facts = {"task": str(place), "prompt": str(prompt), "judge": judge}
                if judge or place < 400:
                    name = "gpt" if judge else f"w{who}"
                    votes.append(vote("abc"[i], "abc"[j], answer, annotator=name, **facts))
        judged = rank_with_judges(Votes(tuple(votes)))
        assert judged.people.annotators == 12
        for name, ranking in (("people", judged.people), ("both", judged.ranking)):
            inside[name] += [low <= 0 <= high for low, high in ranking.interval.values()]
    assert min(np.mean(held) for held in inside.values()) > 0.9


def test_many_judges_that_guess_do_no_harm():
    """A regression on thirty judges learns their noise; it must not be judged on the votes that it was learned from."""
    rng = np.random.default_rng(7)
    votes = [v for v in battles(150, 300, seed=7) if not v.judge]
    shown = {v.task: (v.left, v.right) for v in battles(150, 300, seed=7)}
    for task, (left, right) in shown.items():
        for place, answer in enumerate(rng.choice([-1, 0, 1], size=30)):
            votes.append(vote(left, right, int(answer), annotator=f"j{place}", task=task, judge=True))
    judged = rank_with_judges(Votes(tuple(votes)))
    assert judged.weight < 0.15
    assert judged.effective / judged.labelled < 1.1


def test_both_rankings_say_on_which_votes_of_people_they_rest():
    votes = battles(60, 200, seed=4)
    named = Votes(
        tuple(
            vote if vote.judge else replace(vote, annotator=f"w{place % 7}") for place, vote in enumerate(votes.votes)
        )
    )
    judged = rank_with_judges(named)
    people = {one.annotator for one in named.votes if not one.judge}
    for ranking in (judged.people, judged.ranking):
        assert (ranking.votes, ranking.annotators) == (60, len(people))
        assert (ranking.ties, ranking.question) == ("half", "better")
        assert {"few votes"} <= {caveat.kind for caveat in ranking.caveats} == {one.kind for one in judged.caveats}
    assert (judged.labelled, judged.unlabelled) == (60, 200)
    assert rank_with_judges(battles(60, 200, seed=4)).people.annotators == 0  # nobody is named


def test_a_biased_judge_alone_would_mislead():
    votes = battles(300, 3000, seed=2, noise=0.2, bias=0.6)
    judged = rank_with_judges(votes)
    pretend = Votes(tuple(vote(v.left, v.right, v.answer, annotator="", task=v.task) for v in votes if v.judge))
    low, high = rank(pretend).interval["c"]
    assert not low < TRUTH["c"] < high
    low, high = judged.ranking.interval["c"]
    assert low < TRUTH["c"] < high


def test_position_bias_and_agreement_are_told():
    judged = rank_with_judges(battles(400, 2000, seed=2, noise=0.0, side=0.3))
    assert judged.first["people"] == approx(0.5, abs=0.06)
    assert judged.first["gpt"] == approx(0.65, abs=0.04)
    assert judged.agreement["gpt"] == approx(0.85, abs=0.05)
    assert "gpt: the left side wins 0.6" in str(judged)


def test_the_same_seed_gives_the_same_numbers():
    votes = battles(100, 300, seed=3)
    assert rank_with_judges(votes, rng=4).ranking.scores == rank_with_judges(votes, rng=4).ranking.scores


def test_position_bias_in_the_arena(shared):
    """../shared/data/arena-judges/README.md: the first one wins 0.503 of the untied battles by people, 0.551 by GPT-4."""
    from mallow.human import read_votes

    votes = read_votes(shared / "data/arena-judges/battles.csv.gz")
    sides = {}
    for one in votes:
        if one.answer:
            sides.setdefault(one.annotator or "people", []).append(one.answer < 0)
    assert np.mean(sides["people"]) == approx(0.503, abs=0.01)
    assert np.mean(sides["gpt4"]) == approx(0.551, abs=0.01)
    half = {v.task for v in votes.votes[::8]}
    judged = rank_with_judges(Votes(tuple(v for v in votes if v.judge or v.task in half)), judges=["gpt4"])
    assert 1.05 < judged.effective / judged.labelled < 1.3
    assert next(iter(judged.ranking.scores)) == "gpt-4"


def test_mistakes_are_told():
    votes = battles(50, 100, seed=5)
    with pytest.raises(InputError, match=r"`judges` must name judges of the votes \(gpt\); got 'claude'"):
        rank_with_judges(votes, judges=["claude"])
    with pytest.raises(
        InputError, match=r"`judges` must name judges of the votes .none: mark their votes with judge=True"
    ):
        rank_with_judges(Votes((vote("a", "b", 1), vote("b", "a", 1))))
    with pytest.raises(InputError, match=r"`votes` must hold pairs that people and judges voted on, .* got 50 and 0"):
        rank_with_judges(battles(50, 0, seed=6))
    with pytest.warns(EstimateWarning, match="people voted on 50 pairs: with fewer than 200, intervals are rough"):
        rank_with_judges(votes)
