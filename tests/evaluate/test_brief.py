"""Small facts of results: spreads over repeats, summaries, tables of plans, numbers of caveats."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, Measure, Neighbors, Samples, compare, plan_samples, score
from mallow.caveats import bin_caveats
from mallow.evaluate import _compare
from mallow.theory import Partition


def points(shift, seed, n=120):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(n, 3))


@pytest.fixture(autouse=True)
def _without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        yield


def test_the_spread_over_repeats_has_one_degree_of_freedom_less():
    made = score(points(0, 0), points(0.5, 1), repeats=3)
    assert made.std["mauve"] == approx(np.std(made.values["mauve"], ddof=1), rel=1e-6)


def test_the_summary_of_a_comparison_says_who_won():
    made = compare(points(0, 0), {"near": points(0, 1), "far": points(1, 2)}, repeats=1)
    brief = made.brief()
    assert (brief["winner"], brief["last"], brief["verdict"]) == (made.winner, made.last, made.verdict)


def test_the_summary_of_a_score_has_the_range_of_repeat_samples_if_there_is_one():
    made = score(points(0, 0), points(0.5, 1), repeats=1)
    for name in ("mauve", "frontier_integral"):
        assert made.brief()[name]["other_draws"] == [round(end, 4) for end in made.interval[name]]
    without = score(points(0, 0), points(0.5, 1), measure=Measure(Neighbors()), repeats=1)
    assert "other_draws" not in without.brief()["mauve"]


def test_a_plan_without_an_observed_difference_has_a_dash():
    plan = plan_samples(points(0, 0), points(0.2, 1), points(0.9, 2), detect=0.4)
    assert "| – |" in replace(plan, n_observed=None).table("markdown").splitlines()[-1]
    assert "| 1,234 |" in replace(plan, n_observed=1234).table("markdown").splitlines()[-1]


def test_many_bins_are_told_with_their_numbers():
    counts = np.ones(50, int)
    (caveat,) = [
        one
        for one in bin_caveats(Partition(np.arange(50), np.arange(50), np.zeros((50, 2))))
        if one.kind == "many bins"
    ]
    assert dict(caveat.values) == {"bins": 50, "samples": int(counts.sum())}


def test_the_variance_over_generations_has_one_degree_of_freedom_less(monkeypatch):
    seen, original = [], _compare.summary_values

    def recorded(measure, masses):
        values = original(measure, masses)
        seen.append(np.mean(values["mauve"]))
        return values

    monkeypatch.setattr(_compare, "summary_values", recorded)
    ids = [f"p{place}" for place in range(60)]
    made = compare(
        Samples(features=points(0, 0, 60), ids=ids), {"m": Samples(features=points(0, 1, 180), ids=ids * 3)}, repeats=1
    )
    assert made.variance["m"]["generation"] == approx(np.var(seen[-3:], ddof=1), rel=1e-6)
