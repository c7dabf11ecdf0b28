"""Plan: n follows what is learned from n samples, counts independent units, and nothing is planned from too little."""

import json
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from pytest import approx

from held_out import gaussian_slope
from mallow import EstimateWarning, InputError, compare
from mallow.evaluate import SamplePlan, plan_samples
from mallow.evidence import MAUVE_STAR
from mallow.samples import Samples
from mallow.theory import CHI2, KL

quiet = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


def points(shift, seed, n=300, d=4):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(n, d))


X, A, B = points(0.0, 0), points(0.35, 1), points(0.5, 2)


@pytest.fixture(scope="module")
def plan():
    return plan_samples(X, A, B, detect=0.1)


def test_the_pilot_has_its_standard_error(plan):
    assert plan.pilot["standard error"] == approx((plan.pilot["high"] - plan.pilot["difference"]) / 1.959964, rel=1e-6)
    assert plan.pilot["n"] == 300


@quiet
def test_the_pilot_shows_what_compare_says(plan):
    (difference,) = compare(X, {"A": A, "B": B}, repeats=1).differences
    assert plan.pilot["difference"] == difference.difference["mauve"]
    assert (plan.pilot["low"], plan.pilot["high"]) == difference.interval["mauve"]


def test_n_rises_with_what_is_asked_for(plan):
    def n(**options):
        return plan_samples(X, A, B, **{"detect": 0.1, **options}).n

    assert 3 * plan.n < n(detect=0.05) < 6 * plan.n
    assert plan.n < n(power=0.95)
    assert n(level=0.001) > 1.5 * plan.n
    assert n(detect=0.9) == 300  # no plan is smaller than its pilot
    other = plan_samples(X, A, B, detect=0.1, measure=replace(MAUVE_STAR, divergence=CHI2))
    assert other.pilot["difference"] != plan.pilot["difference"]


def test_what_was_seen_in_the_pilot_is_planned_for_by_the_same_law(plan):
    seen = abs(plan.pilot["difference"])
    assert seen > plan.pilot["standard error"]
    assert plan.n_observed == plan_samples(X, A, B, detect=seen).n
    swapped = plan_samples(X, B, A, detect=0.1)
    assert swapped.pilot["difference"] == approx(-plan.pilot["difference"])
    assert swapped.n_observed == approx(plan.n_observed, abs=1)
    same = plan_samples(X, B, points(0.5, 7), detect=0.1)
    assert 0 < abs(same.pilot["difference"]) < same.pilot["standard error"]
    assert same.n_observed is None


def test_the_plan_in_words_and_as_json(plan):
    lines = str(plan).splitlines()
    assert lines[0] == (
        f"Take {plan.n:,} samples of the reference and of each system: a true difference of 0.1 in MAUVE is then found at "
        "the 0.05 level with probability 0.8."
    )
    pilot = plan.pilot
    assert lines[1] == (
        f"The pilot of 300 samples showed a difference of {pilot['difference']:+.4f} (95% interval of the difference: "
        f"{pilot['low']:+.4f} to {pilot['high']:+.4f})."
    )
    assert lines[2] == f"If the true difference is that large, {plan.n_observed:,} are enough."
    assert str(replace(plan, n_observed=None)).splitlines()[2] == (
        "That is less than its standard error, so the required sample size cannot be estimated."
    )
    assert repr(plan) == f"SamplePlan(n={plan.n}, detect=0.1, power=0.8, level=0.05)"
    data = json.loads(plan.to_json())
    assert (data["kind"], data["n"], data["unit"]) == ("mallow plan", plan.n, "samples")
    assert SamplePlan.from_dict(data) == plan


def test_the_power_for_other_numbers_of_samples_agrees_with_the_plan(plan):
    assert plan.power_with(plan.n) == approx(0.8)
    assert plan.power_with(plan.n / 4) < 0.4 < 0.95 < plan.power_with(4 * plan.n)


def test_prompts_count_where_several_samples_share_one():
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(120), 3)
    common = rng.normal(size=(120, 4))[ids]
    sets = [
        Samples(features=common + rng.normal(shift, 1.0, size=(360, 4)), ids=ids.tolist()) for shift in (0.0, 0.5, 1.0)
    ]
    plan = plan_samples(*sets, detect=0.1)
    assert (plan.unit, plan.pilot["n"]) == ("prompts", 120)
    assert (
        f"Take {plan.n:,} prompts of the reference and of each system, each with as many samples as in the pilot: "
        in str(plan)
    )


def test_where_sizes_differ_every_side_needs_as_many_as_the_largest(plan):
    smaller = plan_samples(X, A[:150], B[:150], detect=0.1)
    assert smaller.pilot["n"] == 300
    assert smaller.n > plan.n


def test_near_the_reference_a_plan_is_not_smaller_than_gaussians_need():
    """Errors of certificates tend to 0 near 1, and would promise anything."""
    with pytest.warns(EstimateWarning, match="no gap to the reference is certain"):
        plan = plan_samples(X, points(0.0, 5), points(0.2, 3), detect=0.1)
    distance = 1.959964 + NormalDist().inv_cdf(0.8)
    assert plan.n >= 2 * (0.7 * distance * gaussian_slope(0.9, KL, 5.0) / 0.1) ** 2


def test_doubts_about_a_plan_are_said():
    near = points(0.0, 5)
    with pytest.warns(EstimateWarning) as raised:
        plan = plan_samples(X, near, B, detect=0.005)
    assert [str(one.message) for one in raised] == [str(one) for one in plan.caveats]
    by_kind = {one.kind: one for one in plan.caveats}
    assert by_kind["no gap in the pilot"].system == "A"
    assert by_kind["no gap in the pilot"].message == (
        "no gap to the reference is certain in this pilot of 300, so that its part of the noise is not seen and the plan may be "
        "too small. Use a larger pilot."
    )
    times = plan.n / 300
    assert times > 30
    assert by_kind["small pilot"].message == (
        f"the plan is for {times:.0f} times the samples of the pilot: run a larger pilot before relying on it."
    )


def test_a_gap_that_is_not_certain_is_doubted_too():
    with pytest.warns(EstimateWarning, match="no gap to the reference is certain"):
        seen, unseen = (plan_samples(X, one, B, detect=0.3) for one in (points(0.2, 3), points(0.0, 5)))
    assert seen.pilot["difference"] < 0.95 * unseen.pilot["difference"]  # its certificate is below 1
    assert [(one.kind, one.system) for one in seen.caveats] == [("no gap in the pilot", "A")]


def test_the_same_seed_gives_the_same_plan(plan):
    assert plan_samples(X, A, B, detect=0.1, rng=0) == plan


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"detect": 0.0},
            "`detect` must lie strictly between 0 and 1; got 0.0. It is a difference in MAUVE, such as 0.01.",
        ),
        (
            {"detect": 1.0},
            "`detect` must lie strictly between 0 and 1; got 1.0. It is a difference in MAUVE, such as 0.01.",
        ),
        ({"power": 1.0}, "`power` must lie strictly between 0 and 1; got 1.0. It is a probability, such as 0.8."),
        ({"level": 0}, "`level` must lie strictly between 0 and 1; got 0. It is a probability, such as 0.05."),
        ({"power": 0.04}, "`power` must be above `level`, the power of a test without samples; got 0.04 and 0.05."),
        ({}, "a pilot must have at least 100 independent samples on each side, but the smallest has 99."),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(InputError) as error:
        plan_samples(X[:99], A, B, **options)
    assert str(error.value) == message


def test_groups_do_not_make_a_pilot_of_a_few_prompts_large():
    ids = [i % 20 for i in range(300)]
    with pytest.raises(InputError, match=r"^a pilot must have at least 100 independent .*, but the smallest has 20\.$"):
        plan_samples(*(Samples(features=one, ids=ids) for one in (X, A, B)))


@quiet
def test_a_pilot_without_noise_is_refused():
    with pytest.raises(InputError) as error:
        plan_samples(X, B, B, detect=0.3, paired=True)
    assert str(error.value) == (
        "`model_a` and `model_b` must be different systems, with samples that vary, but these hold the same samples, or one sample "
        "many times, so that the pilot does not show the noise of a difference. Pass samples of two systems."
    )
    with pytest.raises(InputError) as error:
        plan_samples(X, points(0.0, 5), points(0.0, 6), detect=0.3)
    assert str(error.value) == (
        "the pilot shows no gap: with 300 samples neither system can be told from the reference, so that nothing is known "
        "about the noise of their difference. Use a larger pilot."
    )


# --- the parts


def test_the_power_rises_with_the_square_root_of_n(plan):
    normal = NormalDist()
    for level, power in ((0.05, 0.8), (0.01, 0.5)):
        own = replace(plan, level=level, power=power)
        far = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)
        for times in (0.25, 1.0, 9.0):
            expected = normal.cdf(far * math.sqrt(times) - normal.inv_cdf(1 - level / 2))
            assert own.power_with(times * plan.n) == approx(expected)


@quiet
def test_a_hundred_samples_are_a_pilot():
    small = plan_samples(X[:100], A[:100], B[:100] + 0.5, detect=0.3)
    assert small.pilot["n"] == 100
    assert small.n >= 100
    with pytest.raises(InputError, match="the smallest has 99"):
        plan_samples(X[:100], A[:100], B[:99])
    with pytest.raises(InputError, match=r"`power` must be above `level`.*; got 0\.05 and 0\.05"):
        plan_samples(X, A, B, power=0.05)
