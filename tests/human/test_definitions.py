"""What has a definition of its own, and no public call that shows it: compared with that definition."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from human_votes import vote
from mallow.human import Votes, _judges
from mallow.human._bradley_terry import _differences
from mallow.human._paired import Errors, row_scores
from mallow.human._study_pairs import orient
from mallow.human._vote_plan import _fit_studies

# --- bradley terry


def test_rounding_below_no_variance_is_no_variance():
    covariance = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-15]])
    [one] = _differences(
        ["a", "b"], np.array([5.0, -5.0]), np.eye(2), Errors(covariance, covariance, np.full(2, np.inf))
    )
    assert one.interval == (10.0, 10.0)
    assert one.p_value == 0.0


# --- vote plan


def test_many_fits_at_once_are_those_one_by_one():
    rng = np.random.default_rng(0)
    compared = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]])
    wins = rng.integers(0, 20, size=(3, 5)) + 0.5
    estimates, _ = _fit_studies(wins, 20.0, compared, 4)
    for row, estimate in zip(wins, estimates, strict=True):

        def loss(w, row=row):
            gap = np.append(0.0, w)[compared[:, 0]] - np.append(0.0, w)[compared[:, 1]]
            return (row * np.log1p(np.exp(-gap)) + (20.0 - row) * np.log1p(np.exp(gap))).sum()

        best = minimize(loss, np.zeros(3), tol=1e-10).x
        np.testing.assert_allclose(estimate[1:], best, atol=1e-4)


# --- sides of pairs

NAMES = "abcdefgh"


@given(st.dictionaries(st.sampled_from(list(combinations(NAMES, 2))), st.integers(1, 7), min_size=1), st.integers(0, 9))
def test_sides_are_balanced_in_each_pair_and_for_each_system(counts, seed):
    sides = orient(counts, np.random.default_rng(seed))
    balance = dict.fromkeys(NAMES, 0)
    for (a, b), left in sides.items():
        assert len(left) == counts[a, b]
        assert abs(2 * sum(left) - len(left)) <= 1
        balance[a] += 2 * sum(left) - len(left)
        balance[b] -= 2 * sum(left) - len(left)
    assert max(map(abs, balance.values())) <= 1


# --- judges


@pytest.mark.parametrize("weight", [0.0, 1e-4, 0.3, 0.99])
def test_pairs_with_and_without_votes_of_people_vary_around_a_mean_each(weight, monkeypatch):
    """Their numbers are fixed: the parts of the likelihood's slope, weighted by their rows, add up to 0 in each kind."""
    rng = np.random.default_rng(0)
    votes = []
    for place in range(60):
        left, right = rng.permutation(["a", "b", "c"])[:2]
        for judge in (True, False):
            if judge or place < 25:
                facts = {"task": str(place), "judge": judge, "annotator": "gpt" if judge else ""}
                votes.append(vote(left, right, int(rng.choice([-1, 1])), **facts))
    seen = []
    monkeypatch.setattr(_judges, "cluster_errors", lambda rows, fit, groups, scores: seen.append(scores.toarray()))
    tasks = _judges._gather(Votes(tuple(votes)), ["gpt"], np.random.default_rng(0))
    rows, fit, _ = _judges._solve(tasks, weight)
    pairs = _judges._rows(tasks, weight)[1]
    [centred], plain = seen, row_scores(rows, fit).toarray()
    for part in (tasks.labelled[pairs], ~tasks.labelled[pairs]):
        if part.any():
            assert np.abs(centred[part].sum(axis=0)).max() < 1e-12 * len(rows.weight)
            shift = plain[part] - centred[part]  # in proportion to the weight of each row
            np.testing.assert_allclose(
                shift / rows.weight[part, None], shift[:1] / rows.weight[part][0] + 0 * shift, atol=1e-9
            )
