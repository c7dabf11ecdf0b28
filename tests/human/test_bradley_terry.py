"""Bradley–Terry: what the model implies, agreement with other programs, and what the votes cannot fix."""

import json
import math
import warnings

import choix
import evalica
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from mallow import EstimateWarning, InputError
from mallow.human import bradley_terry, read_votes

COUNTS = st.integers(2, 7).flatmap(lambda n: hnp.arrays(np.int64, (n, n), elements=st.integers(0, 9)))


def connected(counts):
    """Counts with a ring of wins, so that the scores exist."""
    wins = counts.astype(float)
    np.fill_diagonal(wins, 0)
    for i in range(len(wins)):
        wins[i, (i + 1) % len(wins)] += 1
    return wins


def random_wins(n, votes, seed):
    rng = np.random.default_rng(seed)
    strengths = rng.normal(size=n)
    wins = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            wins[i, j] = rng.binomial(votes, 1 / (1 + np.exp(strengths[j] - strengths[i])))
            wins[j, i] = votes - wins[i, j]
    return wins


@given(st.integers(1, 500), st.integers(1, 500))
def test_two_systems_differ_by_their_log_odds(a, b):
    ranking = bradley_terry([[0, a], [b, 0]], ["a", "b"])
    assert ranking.scores["a"] - ranking.scores["b"] == approx(100 * math.log(a / b), abs=1e-8)
    error = 100 * math.sqrt(1 / a + 1 / b)  # the textbook error of log-odds
    low, high = ranking.differences[0].interval
    assert high - low == approx(2 * 1.959964 * error, rel=1e-6)


@settings(max_examples=50)
@given(COUNTS)
def test_scores_have_mean_zero_and_solve_the_equations(counts):
    wins = connected(counts)
    ranking = bradley_terry(wins)
    w = np.array([ranking.scores[str(i)] for i in range(len(wins))]) / 100
    assert w.mean() == approx(0, abs=1e-9)
    expected = 1 / (1 + np.exp(w[None, :] - w[:, None]))
    played = wins + wins.T
    np.fill_diagonal(played, 0)
    assert wins.sum(axis=1) == approx((played * expected).sum(axis=1), abs=1e-6)  # each wins as often as expected
    assert list(ranking.scores.values()) == sorted(ranking.scores.values(), reverse=True)


@settings(max_examples=50)
@given(COUNTS)
def test_newton_and_zermelo_agree(counts):
    wins = connected(counts)
    first, second = (bradley_terry(wins, method=method).scores for method in ("newton", "zermelo"))
    assert {name: first[name] for name in second} == approx(second, abs=1e-8)


@settings(max_examples=50)
@given(COUNTS, st.randoms())
def test_the_order_of_the_systems_does_not_matter(counts, random):
    wins = connected(counts)
    order = list(range(len(wins)))
    random.shuffle(order)
    first, second = bradley_terry(wins), bradley_terry(wins[np.ix_(order, order)], [str(i) for i in order])
    assert second.scores == approx(first.scores, abs=1e-7)
    assert second.interval == {name: approx(span, abs=1e-6) for name, span in first.interval.items()}


@settings(max_examples=50)
@given(COUNTS, st.integers(2, 5))
def test_more_votes_of_the_same_kind_narrow_the_intervals(counts, times):
    wins = connected(counts)
    once, often = bradley_terry(wins), bradley_terry(wins * times)
    assert often.scores == approx(once.scores, abs=1e-6)
    for name, (low, high) in once.interval.items():
        assert often.interval[name][1] - often.interval[name][0] == approx((high - low) / times**0.5, rel=1e-5)


def test_ranks_and_groups_follow_from_the_differences():
    ranking = bradley_terry(random_wins(8, 60, seed=0))
    names = list(ranking.scores)
    apart = {frozenset((one.first, one.second)) for one in ranking.differences if one.significant}
    assert 0 < len(apart) < 28
    for name, (best, worst) in ranking.ranks.items():
        place = names.index(name)
        assert best == 1 + sum(frozenset((name, other)) in apart for other in names[:place]) <= place + 1 <= worst
    for group in ranking.groups:
        assert not any(frozenset((a, b)) in apart for a in group for b in group if a != b)
    assert {name for group in ranking.groups for name in group} == set(names)


def test_intervals_cover():
    """Of 200 studies about 95% of the intervals hold the truth; ranks contain the true one."""
    truth = np.array([40.0, 10.0, -20.0, -30.0])
    expected = 1 / (1 + np.exp((truth[None, :] - truth[:, None]) / 100))
    rng = np.random.default_rng(5)
    inside, ranked = [], []
    for _ in range(200):
        wins = np.zeros((4, 4))
        for i in range(4):
            for j in range(i):
                wins[i, j] = rng.binomial(40, expected[i, j])
                wins[j, i] = 40 - wins[i, j]
        ranking = bradley_terry(wins)
        inside += [ranking.interval[str(i)][0] <= truth[i] <= ranking.interval[str(i)][1] for i in range(4)]
        ranked.append(all(ranking.ranks[str(i)][0] <= i + 1 <= ranking.ranks[str(i)][1] for i in range(4)))
    assert 0.92 < np.mean(inside) < 0.98
    assert np.mean(ranked) > 0.95


# --- other programs


def test_choix_agrees():
    wins = random_wins(9, 40, seed=1)
    games = [(i, j) for i in range(9) for j in range(9) for _ in range(int(wins[i, j]))]
    theirs = 100 * choix.ilsr_pairwise(9, games)
    ours = bradley_terry(wins).scores
    assert np.array([ours[str(i)] for i in range(9)]) == approx(theirs - theirs.mean(), abs=1e-5)


def test_evalica_agrees_with_ties():
    rng = np.random.default_rng(2)
    xs, ys = rng.integers(6, size=2000), rng.integers(5, size=2000)
    ys = np.where(ys >= xs, ys + 1, ys)
    outcomes = rng.choice([evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw], size=2000, p=[0.45, 0.3, 0.25])
    theirs = evalica.bradley_terry(xs.tolist(), ys.tolist(), outcomes.tolist(), tolerance=1e-13, limit=100_000)
    wins = np.zeros((6, 6))
    for x, y, outcome in zip(xs, ys, outcomes, strict=True):
        wins[x, y] += 1.0 if outcome == evalica.Winner.X else 0.5 if outcome == evalica.Winner.Draw else 0.0
        wins[y, x] += 1.0 if outcome == evalica.Winner.Y else 0.5 if outcome == evalica.Winner.Draw else 0.0
    logs = 100 * np.log(theirs.scores.sort_index().to_numpy())
    ours = bradley_terry(wins).scores
    assert np.array([ours[str(i)] for i in range(6)]) == approx(logs - logs.mean(), abs=1e-4)


@pytest.mark.parametrize("method", ["newton", "zermelo"])
def test_the_published_scores_of_720_annotations(shared, method):
    """Printed by the notebook of the study for these rows with more than 25 s: ../shared/data/human-eval/bt_scores.json."""
    expected = json.loads((shared / "data/human-eval/bt_scores.json").read_text())["subset_720_expected_bt"][
        "human_like"
    ]
    votes = read_votes(shared / "data/human-eval/human_vs_model_720.jsonl.gz").of("human-like")
    names = votes.systems
    wins = np.zeros((9, 9))
    for vote in votes:
        loser = vote.right if vote.winner == vote.left else vote.left
        wins[names.index(vote.winner), names.index(loser)] += 1
    ranking = bradley_terry(wins, names, method=method)
    assert ranking.votes == 366
    assert ranking.scores == approx(expected, abs=1e-6)


# --- what the votes cannot fix


@pytest.mark.parametrize("method", ["newton", "zermelo"])
def test_a_winner_of_everything_gets_a_finite_score_and_a_caveat(method):
    with pytest.warns(EstimateWarning, match="a never lost to the other systems: the votes set no limit"):
        ranking = bradley_terry([[0, 5, 5], [0, 0, 3], [0, 2, 0]], ["a", "b", "c"], method=method)
    assert next(iter(ranking.scores)) == "a"
    assert all(map(math.isfinite, ranking.scores.values()))
    assert ranking.misfit is None
    assert ranking.caveats[0].kind == "separation"


def test_a_loser_of_everything_is_told():
    with pytest.warns(EstimateWarning, match=r"a never lost to the other systems; c never won against"):
        bradley_terry([[0, 5, 5], [0, 0, 3], [0, 0, 0]], ["a", "b", "c"])


@given(st.integers(3, 30))
def test_the_penalty_fades_as_soon_as_the_scores_exist(votes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        separated = bradley_terry([[0, votes], [0, 0]])
    assert bradley_terry([[0, votes], [1, 0]]).caveats == ()
    assert separated.scores["0"] > 0


def test_systems_that_were_never_compared_are_an_error():
    message = "`wins` must connect all systems, but no vote links c with a and b, not even through other systems"
    with pytest.raises(InputError, match=message):
        bradley_terry([[0, 1, 0], [1, 0, 0], [0, 0, 0]], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("wins", "options", "message"),
    [
        ([[0, 1, 2]], {}, r"`wins` must be a square array of counts; got shape \(1, 3\)"),
        ([[0]], {}, "`wins` must hold at least 2 systems"),
        ([[0, -1], [1, 0]], {}, "`wins` must hold counts of at least 0"),
        ([[0, np.nan], [1, 0]], {}, "`wins` must hold counts of at least 0"),
        ([[1, 1], [1, 0]], {}, "`wins` must have zeros on its diagonal"),
        ([["a", "b"], ["c", "d"]], {}, "`wins` must be a square array of counts, but it holds something else"),
        ([[0, 1], [1, 0]], {"names": ["a"]}, "`names` must be 2 different names"),
        ([[0, 1], [1, 0]], {"names": ["a", "a"]}, "`names` must be 2 different names"),
        ([[0, 1], [1, 0]], {"method": "elo"}, "`method` must be newton or zermelo; got 'elo'"),
    ],
)
def test_mistakes_are_told(wins, options, message):
    with pytest.raises(InputError, match=message):
        bradley_terry(wins, **options)


# --- the fit check


def test_a_pair_that_deviates_is_found():
    wins = random_wins(6, 100, seed=3)
    calm = bradley_terry(wins)
    assert calm.misfit > 0.01
    assert not any(one.adjusted < 0.05 for one in calm.checks)
    wins[0, 1], wins[1, 0] = wins[1, 0] + 30, max(wins[0, 1] - 30, 0)
    upset = bradley_terry(wins)
    assert {upset.checks[0].first, upset.checks[0].second} == {"0", "1"}
    assert upset.checks[0].adjusted < 0.01
    assert "The scores do not explain all pairs" in upset.fit_sentence


def test_deviations_have_their_errors():
    """Under the model the standardised deviations have variance 1, and the whole has a uniform p-value."""
    z, p = [], []
    truth = np.array([50.0, 0.0, -10.0, -40.0]) / 100
    expected = 1 / (1 + np.exp(truth[None, :] - truth[:, None]))
    rng = np.random.default_rng(6)
    for _ in range(200):
        wins = np.zeros((4, 4))
        for i in range(4):
            for j in range(i):
                wins[i, j] = rng.binomial(50, expected[i, j])
                wins[j, i] = 50 - wins[i, j]
        ranking = bradley_terry(wins)
        z += [one.z for one in ranking.checks]
        p.append(ranking.misfit)
    assert np.var(z) == approx(1, abs=0.12)
    assert 0.015 < np.mean(np.array(p) < 0.05) < 0.09


def test_a_star_cannot_be_checked():
    ranking = bradley_terry([[0, 3, 4], [2, 0, 0], [1, 0, 0]], ["human", "a", "b"])
    assert ranking.misfit is None
    assert "The fit cannot be checked: there are no more pairs of systems than scores." in str(ranking)


def test_probability_is_that_of_the_model():
    ranking = bradley_terry([[0, 30], [10, 0]], ["a", "b"])
    assert ranking.probability("a", "b") == approx(0.75)
    assert ranking.winner == "a"
    assert ranking.verdict == "People prefer a to every other system. 1 of 1 pairs of systems differ significantly."
