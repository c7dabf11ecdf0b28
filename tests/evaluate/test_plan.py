"""Plan: the promised power is reached, n follows the law of √n, and nothing is planned from too little."""

import json
import math
import re
import sys
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, InputError, Masses, Measure, compare
from mallow.estimate import Codebook, Neighbors, Quantize
from mallow.evaluate._measure import MAUVE_2021, MAUVE_STAR
from mallow.evaluate._pilot import (
    Pilot,
    _bins_for,
    _populations,
    _reach,
    _repeats,
    _simulate,
    _split,
    _targets,
    simulate_plan,
)
from mallow.evaluate._plan import _bound, plan_samples
from mallow.inference import collect_evidence, pair_difference
from mallow.theory._divergence import CHI2
from mallow.theory._masses import Partition
from mallow.theory.bounds import statistical_bound
from mallow.theory.smoothing import good_turing

module = sys.modules["mallow.evaluate._pilot"]

BINS = 20
ON_BINS = Measure(Quantize(codebook=Codebook(np.eye(BINS), None, None, normalise=False)))
quiet = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


def area(p, q):
    return np.asarray(MAUVE_STAR.summarise(Masses(p, q))["mauve"])


def distributions():
    """A reference and two systems on bins, with true scores of 0.85 and 0.65."""
    p = 1.0 / np.arange(1.0, BINS + 1)
    p /= p.sum()
    noise = np.random.default_rng(2).standard_normal((2, BINS))
    found = [p]
    for z, target in zip(noise, (0.85, 0.65), strict=True):
        low, high = 0.0, 4.0
        for _ in range(40):
            q = p * np.exp((low + high) / 2 * z)
            q /= q.sum()
            low, high = ((low + high) / 2, high) if area(p, q) > target else (low, (low + high) / 2)
        found.append(q)
    return found


TRUTH = distributions()


def labels(n, seed):
    rng = np.random.default_rng(seed)
    return [rng.choice(BINS, n, p=d) for d in TRUTH]


@pytest.fixture(scope="module")
def samples():
    return [np.eye(BINS)[each] for each in labels(300, 1)]


@pytest.fixture(scope="module")
def found(samples):
    with pytest.warns(EstimateWarning) as said:
        result = plan_samples(*samples, detect=0.2, measure=ON_BINS, repeats=2)
    assert [str(one.message) for one in said] == [str(one) for one in result.caveats]
    return result


@pytest.fixture(scope="module")
def pilot(samples):
    with pytest.warns(EstimateWarning):
        comparison = compare(samples[0], {"A": samples[1], "B": samples[2]}, measure=ON_BINS, repeats=2)
    return Pilot.from_comparison(comparison, ON_BINS)


@pytest.fixture
def few_trials(monkeypatch):
    monkeypatch.setattr(module, "_TRIALS", 4)
    monkeypatch.setattr(module, "_LARGEST", 100)  # so that the pilot's own size is simulated, and no other


def test_the_promised_power_is_reached(found):
    """A small version of experiments/power: one pilot, whose own luck is part of the error."""
    hits = 0
    for trial in range(50):
        reference, *systems = labels(found.n, [5, trial])
        seen = []
        for each in systems:
            part = Partition(reference, each, np.zeros((BINS, 1)))
            values = {"mauve": (0.0,), "frontier_integral": (0.0,), "midpoint": (0.0,)}
            rng = np.random.default_rng(trial)
            seen.append(collect_evidence([part], values, divergence=MAUVE_STAR.divergence, scale=5.0, rng=rng))
        hits += pair_difference(*seen, paired=True).p_value["mauve"] < 0.05
    assert hits / 50 == approx(0.8, abs=0.15)


def test_what_was_seen_in_the_pilot_is_planned_for_by_the_same_law(found):
    seen = abs(found.pilot["difference"])
    assert seen > found.pilot["standard error"]
    assert found.n_observed == approx(found.n * (0.2 / seen) ** 2, abs=2)


def test_the_plan_in_words_and_as_json(found):
    text = str(found)
    assert text.startswith(f"Take {found.n:,} samples of the reference and of each system, and 2 repeats")
    assert "a true difference of 0.2 in MAUVE is then found at the 0.05 level with probability 0.8." in text
    assert "The pilot of 300 samples showed a difference of +" in text
    assert f"{found.n_observed:,} samples are enough" in text
    assert "caveat: A and B: only 300 samples" in text
    assert "cannot be said" in str(replace(found, n_observed=None))
    assert "paper" not in str(replace(found, bound=None))
    data = json.loads(json.dumps(found.to_dict()))
    assert data["kind"] == "mallow plan"
    assert data["n"] == found.n
    assert data["pilot"]["n"] == 300
    assert data["pilot"]["bins"] == BINS


@pytest.mark.usefixtures("few_trials")
def test_n_rises_with_what_is_asked_for(pilot):
    def n(detect=0.2, power=0.8, level=0.05):
        return simulate_plan(pilot, detect, power, level, 0)[0]["n"]

    plain = n()
    assert n(power=0.4) < plain < n(power=0.95)
    assert n(level=0.001) > 1.5 * plain
    assert n(detect=0.02) > 50 * plain
    (caveat,) = simulate_plan(pilot, 0.02, 0.8, 0.05, 0)[1]
    assert re.match(r"the plan is for \d+ times the samples of the pilot", caveat.message)


@pytest.mark.usefixtures("few_trials")
def test_seeds_widen_the_error_and_shared_samples_narrow_it(pilot):
    def simulated(repeats=2, **changes):
        return _simulate(replace(pilot, **changes), (0.8, 0.6), 300, repeats, 1.96, np.random.default_rng(0))

    value, error = simulated(correlation=0.0)
    assert value.mean() == approx(0.2, abs=1e-9)
    closer, narrower = simulated(correlation=0.9)
    assert (narrower < error).all()
    assert closer.std() < value.std()
    seeds = {"seed_errors": (0.2, 0.2), "correlation": 0.0}
    assert (simulated(**seeds)[1] > simulated(repeats=8, **seeds)[1]).all()
    assert (simulated(repeats=8, **seeds)[1] > error).all()


@pytest.mark.usefixtures("few_trials")
def test_small_differences_are_not_planned_for_and_near_systems_are_doubted(pilot):
    seen = replace(pilot, difference=0.9 * pilot.error)
    assert simulate_plan(seen, 0.2, 0.8, 0.05, 0)[0]["n_observed"] is None
    near = replace(pilot, scores=(1.0, 0.99))
    assert "the better one was assumed to match it" in simulate_plan(near, 0.2, 0.8, 0.05, 0)[1][0].message


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize("target", [0.2, 0.6, 0.95, 1.0])
def test_populations_have_the_true_score_that_is_asked_for(pilot, target):
    p, q = _populations(ON_BINS, *pilot.counts[0], target, np.random.default_rng(0))
    assert p.shape == (4, BINS)
    assert area(p, q) == approx(target, abs=1e-6)
    same = np.full(BINS, 15.0)  # a model that cannot be told from the reference can be made worse too
    p, q = _populations(ON_BINS, same, same, target, np.random.default_rng(0))
    assert area(p, q) == approx(target, abs=1e-6)


def test_more_bins_show_no_more_of_a_gap():
    p, q = TRUTH[:2]
    more = _split((p, q), 53, np.random.default_rng(0))
    assert len(more[0]) == 53
    assert area(*more) == approx(area(p, q), abs=1e-9)
    assert _split((p, q), BINS - 1, np.random.default_rng(0))[0] is p
    assert _bins_for(MAUVE_STAR, 2000) == 200
    assert _bins_for(ON_BINS, 2000) == _bins_for(Measure(Quantize(bins=50)), 2000) == 0


def test_true_scores_are_around_those_seen_and_legal():
    assert _targets(0.75, 0.02) == approx((0.76, 0.74))
    assert _targets(0.9985, 0.02) == (1.0, 0.98)
    assert _targets(0.0015, 0.02) == (0.02, 0.0)


def test_the_power_is_the_mean_over_where_the_scores_may_lie(pilot):
    rng = np.random.default_rng(0)
    normal = NormalDist()

    def trials(error, spread=1.0):
        z = rng.standard_normal(4000)
        return error * spread * (z - z.mean()) / z.std(ddof=1), np.full(4000, error)

    known = _reach([trials(0.1)], 1.96, 0.8)
    assert known == approx(0.1 * (1.96 + normal.inv_cdf(0.8)), abs=1e-6)
    assert _reach([trials(0.1, 2.0)], 1.96, 0.8) == approx(0.1 * (1.96 + 2 * normal.inv_cdf(0.8)), abs=1e-6)
    unsure = _reach([trials(0.05), trials(0.15)], 1.96, 0.8)
    assert np.mean([normal.cdf(unsure / error - 1.96) for error in (0.05, 0.15)]) == approx(0.8, abs=1e-6)
    assert unsure > known
    low, high = replace(pilot, scores=(0.9, 0.7), correlation=0.0).centres
    assert (low + high) / 2 == approx(0.8)
    assert (high - low) / 2 == approx(pilot.error / 2)
    low, high = replace(pilot, scores=(0.9, 0.7), correlation=0.6).centres  # a shared reference moves both
    assert (high - low) / 2 == approx(pilot.error)


def test_repeats_leave_a_tenth_of_the_variance_to_the_seed(pilot):
    assert _repeats(pilot) == 2  # a codebook has no seeds
    noisy = replace(pilot, seed_errors=(pilot.error / 2, pilot.error / 2), repeats=5)
    seeds, sampling = 0.5 * pilot.error**2, 0.9 * pilot.error**2
    count = _repeats(noisy)
    assert seeds / count <= 0.1 * (sampling + seeds / count)
    assert seeds / (count - 1) > 0.1 * (sampling + seeds / (count - 1))


def test_the_bound_is_the_least_n_that_the_paper_guarantees():
    for measure, constant in ((MAUVE_STAR, 0.5), (MAUVE_2021, 0.0)):
        n = _bound(measure, 100, 0.05)
        assert statistical_bound(100, n, constant=constant) <= 0.05 < statistical_bound(100, n - 1, constant=constant)
    assert _bound(Measure(Quantize(), CHI2), 100, 0.05) is None
    assert _bound(Measure(Quantize(smoothing=good_turing)), 100, 0.05) is None


@quiet
@pytest.mark.usefixtures("few_trials")
def test_features_are_clustered_and_pilots_of_other_sizes_are_not_paired():
    rng = np.random.default_rng(0)
    x, a, b = (rng.normal(shift, 1, size=(n, 3)) for shift, n in ((0, 220), (0.4, 200), (0.8, 210)))
    found = plan_samples(x, a, b, detect=0.3, repeats=2)
    assert found == plan_samples(x, a, b, detect=0.3, repeats=2)
    assert found.pilot["n"] == 200
    assert found.pilot["bins"] == 21
    assert math.isfinite(found.n)
    assert found.repeats >= 2
    assert "unequal sizes" in [one.kind for one in found.caveats]


X = np.random.default_rng(0).normal(size=(99, 2))


@quiet
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"detect": 0.0}, r"`detect` must lie strictly between 0 and 1; got 0.0. It is a difference in MAUVE"),
        ({"detect": 1.0}, r"`detect` must lie strictly between 0 and 1; got 1.0"),
        ({"power": 1.0}, r"`power` must lie strictly between 0 and 1; got 1.0. It is a probability"),
        ({"power": 0.0}, r"`power` must lie strictly between 0 and 1; got 0.0"),
        ({"level": 0}, r"`level` must lie strictly between 0 and 1; got 0"),
        ({"power": 0.04}, r"`power` must be above `level`, the power of a test without samples; got 0.04 and 0.05"),
        ({"repeats": 1}, r"`repeats` must be an integer of at least 2; got 1"),
        ({"measure": Measure(Neighbors())}, r"`measure` must quantise to be planned for; its estimator is Neighbors"),
        ({}, r"a pilot must hold at least 100 samples on each side; the smallest holds 99"),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        plan_samples(X, X + 0.1, X + 0.5, **options)


@quiet
def test_systems_with_the_same_samples_are_refused():
    x, far = (np.random.default_rng(seed).normal(shift, 1, size=(200, 3)) for seed, shift in ((0, 0.0), (1, 0.5)))
    for same in (x, far):
        with pytest.raises(
            InputError, match=r"^`model_a` and `model_b` must be different systems; these hold the same"
        ):
            plan_samples(x, same, same, detect=0.3, repeats=2)
