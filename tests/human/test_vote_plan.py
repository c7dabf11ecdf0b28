"""How many votes a study needs: against the normal approximation, exact binomial power, and fits one by one."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from human_votes import simulate
from mallow.errors import EstimateWarning, InputError
from mallow.human import VoteCosts, VoteGoal, VotePlan, VoteSharing, plan_votes, rank


@pytest.mark.parametrize("difference", [30.0, 60.0, 120.0])
def test_two_systems_as_by_the_normal_approximation(difference):
    """n = ((z_α + z_β) / d)² / (p(1-p)), d the difference of the log odds."""
    p = 1 / (1 + math.exp(-difference / 100))
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    expected = (z / (difference / 100)) ** 2 / (p * (1 - p))
    assert plan_votes({"a": difference, "b": 0.0}).per_pair == pytest.approx(expected, rel=0.12, abs=3)


def test_the_simulated_power_is_that_of_the_binomial_test():
    """Exact power of the Wald test with half a win added on each side, from the binomial distribution."""
    plan = plan_votes({"a": 40.0, "b": 0.0}, ties=0.1)
    p = 0.05 + 0.9 / (1 + math.exp(-0.4))
    for count, power in plan.curve:
        wins = np.arange(count + 1)
        share = (wins + 0.5) / (count + 1)
        z = np.log(share / (1 - share)) * np.sqrt((count + 1) * share * (1 - share))
        exact = stats.binom.pmf(wins, count, p)[z > stats.norm.ppf(0.975)].sum()
        assert power == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 4000))


def test_more_votes_reach_more_and_others_help():
    scores = {"x": 60.0, "y": 20.0, "z": 0.0}
    alone = plan_votes({"y": 20.0, "z": 0.0})
    among = plan_votes(scores, goal=VoteGoal(systems=("y", "z")))
    assert among.per_pair < alone.per_pair  # votes on x tell something about y and z too
    assert plan_votes(scores, goal=VoteGoal(power=0.95)).per_pair > among.per_pair
    assert plan_votes(scores, goal=VoteGoal(level=0.01)).per_pair > among.per_pair
    assert plan_votes(scores, ties=0.3).per_pair > among.per_pair
    assert plan_votes(scores, pairs="star").votes > 0
    powers = [power for _, power in among.curve]
    assert all(later > earlier - 0.04 for earlier, later in pairwise(powers))
    assert among.goal.systems == ("y", "z")
    assert among.per_pair == plan_votes(scores, rng=0).per_pair


def test_a_ranking():
    plan = plan_votes({"x": 90.0, "y": 45.0, "z": 0.0}, goal=VoteGoal("ranking"))
    assert plan.goal.systems is None
    assert plan.power >= 0.8
    assert "all systems are then in the right order with probability 0.8" in str(plan)
    harder = plan_votes({"x": 90.0, "y": 80.0, "z": 0.0}, goal=VoteGoal("ranking"))
    assert harder.per_pair > plan.per_pair


def test_costs_are_those_of_the_paper():
    """Published: 90 votes on 36 pairs, 47 s per vote, 16 USD per hour (sec:a:human-eval:datasheet)."""
    assert VoteCosts().hours(3240) == pytest.approx(42.3)
    assert VoteCosts().money(3240) == pytest.approx(676.8)
    plan = plan_votes({"a": 100.0, "b": 0.0}, costs=VoteCosts(60.0, 30.0, "EUR"))
    assert plan.hours == pytest.approx(plan.votes / 60)
    assert f"{plan.money:,.0f} EUR at 30 per hour" in str(plan)


def test_the_table_names_the_goal():
    scores = {"x": 90.0, "y": 45.0, "z": 0.0}
    for goal, name in ((VoteGoal("ranking"), "ranking"), (VoteGoal(), "tell y and z apart")):
        plan = plan_votes(scores, goal=goal)
        rows = dict(plan._table().rows)
        assert rows["goal"] == name
        assert (rows["votes per pair of systems"], rows["votes in all"]) == (f"{plan.per_pair:,}", f"{plan.votes:,}")
        assert (float(rows["power wanted"]), float(rows["power in the simulation"])) == (0.8, round(plan.power, 3))


def test_the_plan_says_what_it_assumes():
    plan = plan_votes({"a": 100.0, "b": 0.0})
    assert "Votes count as independent" in str(plan)
    assert f"The published 90 votes per pair reach the goal with probability {dict(plan.curve)[90]:.2f}." in str(plan)
    assert VotePlan.from_json(plan.to_json()) == plan
    with pytest.warns(EstimateWarning, match="hours of work: ask for a larger difference"):
        plan_votes({"a": 3.0, "b": 0.0, "c": 30.0}, goal=VoteGoal(power=0.9))


def test_a_plan_for_votes_that_share_prompts_and_people_comes_true():
    """Simulated studies with 30 prompts and 40 people: `rank` finds the difference about as often as planned, and less often with the votes of a plan that takes them as independent."""
    sharing = VoteSharing(prompts=30, annotators=40)
    flatter = math.sqrt(1 + math.pi / 8 * 2 * (0.5**2 + 0.3**2))  # the average vote is less clear than each
    shares = []
    for plan in (plan_votes({"a": 60.0, "b": 0.0}, sharing=sharing), plan_votes({"a": 60.0, "b": 0.0})):
        studies = [
            rank(
                simulate({"a": 60.0 * flatter, "b": 0.0}, plan.votes, seed, people=40, taste=30.0, items=30, item=50.0)
            )
            for seed in range(150)
        ]
        shares.append(np.mean([study.winner == "a" for study in studies]))
    assert 0.72 < shares[0] < 0.92
    assert shares[1] < shares[0] - 0.08


def test_more_votes_on_the_same_prompts_tell_nothing_new():
    few, many = (plan_votes({"a": 60.0, "b": 0.0}, sharing=VoteSharing(prompts=count)) for count in (25, 200))
    alone = plan_votes({"a": 60.0, "b": 0.0})
    assert few.per_pair > many.per_pair >= alone.per_pair
    assert "Votes are spread over 25 prompts (scores differ by 50 points from one to the next)." in str(few)
    assert VotePlan.from_json(few.to_json()) == few
    with pytest.raises(InputError, match=r"no number of votes reaches the goal with 6 prompts .* Use more prompts"):
        plan_votes({"a": 30.0, "b": 0.0}, sharing=VoteSharing(prompts=6))
    ranking = VoteGoal("ranking")
    assert (
        plan_votes({"a": 30.0, "b": 0.0}, goal=ranking, sharing=VoteSharing(prompts=12)).per_pair
        > plan_votes({"a": 30.0, "b": 0.0}, goal=ranking).per_pair
    )
    with pytest.raises(InputError, match="`prompts` must be an integer of at least 5; got 4"):
        VoteSharing(prompts=4)


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ({"a": 1.0}, {}, "`scores` must map at least two systems"),
        ([1, 2], {}, "`scores` must map at least two systems"),
        ({"a": 1.0, "b": math.nan}, {}, "`scores` must be finite numbers"),
        ({"a": 1.0, "b": "x"}, {}, "`scores` must be finite numbers"),
        ({"a": 1.0, "b": 1.0}, {}, "have the same score: no number of votes tells equal systems apart"),
        ({"a": 1.0, "b": 1.0, "c": 2.0}, {"goal": VoteGoal("ranking")}, "`scores` must all differ"),
        ({"a": 1.0, "b": 2.0}, {"goal": VoteGoal(systems=("a", "c"))}, "`systems` must be two of a, b; got a and c"),
        ({"a": 1.0, "b": 2.0}, {"goal": VoteGoal(systems=("a", "a"))}, "`systems` must be two of a, b"),
        ({"a": 1.0, "b": 2.0}, {"ties": 1.0}, "`ties` must be a share from 0 to below 1; got 1.0"),
        ({"a": 1.0, "b": 2.0}, {"pairs": "some"}, "`pairs` must be 'all' or 'star'; got 'some'"),
        ({"a": 0.01, "b": 0.0}, {}, "more than 1,000,000 votes per pair would be needed"),
    ],
)
def test_bad_input(scores, options, message):
    with pytest.raises(InputError, match=message):
        plan_votes(scores, **options)


def test_bad_goals_and_costs():
    with pytest.raises(InputError, match="`kind` must be 'apart' or 'ranking'; got 'x'"):
        VoteGoal("x")
    with pytest.raises(InputError, match="`power` must lie strictly between 0 and 1"):
        VoteGoal(power=1.0)
    with pytest.raises(InputError, match="`wage` must be a finite number above 0"):
        VoteCosts(wage=0)


@pytest.mark.parametrize(("prompts", "annotators"), [(None, None), (8, None), (None, 12), (8, 12)])
@pytest.mark.parametrize("votes", [6, 8, 9, 12, 500])
def test_what_votes_share_is_counted_by_the_definition(prompts, annotators, votes):
    """The variance of a mean over n votes in k groups, beyond that of n independent ones: spread² (1/k − 1/n)."""
    sharing = VoteSharing(prompts, annotators, prompt_spread=20.0, annotator_spread=10.0)
    kinds = [(count, spread) for count, spread in ((prompts, 20.0), (annotators, 10.0)) if count is not None]
    variance = sum(spread**2 * (1 / count - 1 / votes) for count, spread in kinds if count < votes)
    assert sharing.extra_variance(votes) == pytest.approx(variance)
    fewest = min((min(count, votes) for count, _ in kinds), default=math.inf)
    assert sharing.freedom(votes) == fewest - 1
    assert sharing.freedom(1) == (1.0 if kinds else math.inf)
    named = [f"{count} {noun}s" for count, noun in ((prompts, "prompt"), (annotators, "annotator")) if count]
    assert [name for name in ("8 prompts", "12 annotators") if name in str(sharing)] == named


@pytest.mark.parametrize("pairs", ["all", "star"])
@pytest.mark.parametrize("difference", [40.0, 150.0])
def test_the_curve_has_the_plan_the_published_number_and_others_around_it(pairs, difference):
    scores = {"b": 0.0, "a": difference, "c": 2.5 * difference}
    plan = plan_votes(scores, pairs=pairs, costs=VoteCosts(30.0, 20.0))
    compared = 3 if pairs == "all" else 2
    curve = dict(plan.curve)
    around = {max(2, round(plan.per_pair * factor)) for factor in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)}
    assert {90, *around} <= set(curve)
    assert list(curve) == sorted(curve)
    assert curve[plan.per_pair] == plan.power >= 0.8
    near = plan.per_pair - max(1, plan.per_pair // 50) - 1
    assert all(power < 0.8 for count, power in plan.curve if count < near)
    assert plan.votes == compared * plan.per_pair
    assert plan.hours == pytest.approx(plan.votes / 120)
    assert plan.money == pytest.approx(plan.hours * 20)
    for row, (count, power) in zip(plan.to_frame().to_dict("records"), plan.curve, strict=True):
        assert (row["votes_per_pair"], row["votes"], row["power"]) == (count, compared * count, power)
        assert row["hours"] == pytest.approx(compared * count / 120)
        assert row["money"] == pytest.approx(compared * count / 6)
    assert plan.goal.systems == ("a", "b")  # the closest, the better one first


def test_a_goal_is_reached_only_in_the_right_direction():
    """A level at which everything is significant: the power is how often the better system is ahead."""
    plan = plan_votes({"a": 0.0, "b": 30.0}, goal=VoteGoal(power=0.9, level=0.999999))
    p = 1 / (1 + math.exp(-0.3))
    for count, power in plan.curve:
        ahead = stats.binom.sf(count / 2, count, p)
        assert power == pytest.approx(ahead, abs=0.03)


def test_more_than_a_thousand_hours_are_much_work():
    plans = {}
    for seconds in (3600.0, 3700.0):
        plan = plan_votes({"a": 17.5, "b": 0.0}, costs=VoteCosts(1.0))
        costs = VoteCosts(1000 * seconds / plan.votes)
        if seconds > 3600.0:
            with pytest.warns(EstimateWarning, match=r"1,028 hours of work: ask for a larger difference\."):
                plans[seconds] = plan_votes({"a": 17.5, "b": 0.0}, costs=costs)
        else:
            plans[seconds] = plan_votes({"a": 17.5, "b": 0.0}, costs=costs)
    assert [bool(plan.caveats) for plan in plans.values()] == [False, True]
