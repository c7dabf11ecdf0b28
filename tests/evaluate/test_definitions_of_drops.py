"""The drop between two certificates, and what a plan expects of n samples, compared with their definitions."""

import math
import warnings
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from held_out import gaussian_slope
from mallow import EstimateWarning, InputError, score
from mallow.evaluate._check import (
    _FARTHER,
    _HIDDEN,
    _SHIFTS,
    _arms,
    _changes_since,
    _join,
    _same_samples,
    _shared_error,
    estimate_drop,
    gaussian_areas,
)
from mallow.evaluate._plan import _dimension, _LearningLaw, _plan_caveats, _show_pilot
from mallow.evidence import MAUVE_STAR, ONE_SIDED, Evidence, IdentityTest, hold_out
from mallow.results import Estimate
from mallow.samples import Samples
from mallow.theory import KL, TV, Masses, area, frontier

TEST = IdentityTest(1.0, 1, True, False, {})
AREAS = gaussian_areas(KL, 5.0)


def evidence(shift, seed, n=400, *, reference=None, keys=None):
    """Evidence by the true log-ratio of two Gaussians: what an ideal witness would find, without luck."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n) if reference is None else reference
    y = rng.normal(shift, 1.0, size=n)
    at_p, at_q = (shift * shift / 2.0 - shift * points for points in (x, y))
    units = np.arange(n)
    keys = np.arange(n, dtype=np.uint64) if keys is None else keys
    return Evidence(at_p, at_q, units, units, keys, TEST)


def area_of(shift):
    grid = np.linspace(-10.0, 10.0 + shift, 4001)
    p, q = (np.exp(-0.5 * (grid - centre) ** 2) for centre in (0.0, shift))
    return float(area(frontier.quiet(Masses(p / p.sum(), q / q.sum()), KL), scale=5.0))


@pytest.mark.parametrize("shift", [0.1, 0.3, 0.7, 1.5, 4.0])
def test_gaussians_have_the_areas_of_the_definition(shift):
    assert np.interp(shift, _SHIFTS, AREAS) == approx(area_of(shift), abs=5e-4)
    assert AREAS[0] == 1.0
    assert (np.diff(AREAS) <= 0).all()


def test_a_known_difference_lies_in_the_interval_as_often_as_promised():
    before, now = 0.6, 0.8
    truth = area_of(before) - area_of(now)
    low = high = 0
    for seed in range(60):
        drop = estimate_drop(evidence(before, [seed, 0]), evidence(now, [seed, 1]), KL, 5.0)
        assert drop.low <= drop.value <= drop.high
        low += truth < drop.low
        high += truth > drop.high
    assert max(low, high) <= 3  # 5% of 60; no luck is involved here, so that the factor √2 leaves room


def test_a_shared_reference_cancels_only_with_the_same_keys():
    reference = np.random.default_rng(9).normal(size=400)
    before, now = (evidence(0.7, seed, reference=reference) for seed in (1, 2))
    other_keys = replace(now, keys=now.keys + np.uint64(1000))
    shared, apart = (estimate_drop(before, one, KL, 5.0) for one in (now, other_keys))
    assert shared.value == apart.value
    assert shared.high - shared.low < 0.85 * (apart.high - apart.low)
    order = np.random.default_rng(0).permutation(400)  # numbers of units mean nothing, keys do
    shuffled = Evidence(*(getattr(now, name)[order] for name in ("reference_scores", "model_scores")), *now.units.sets,
                        now.keys[order], TEST)  # fmt: skip
    again = estimate_drop(before, shuffled, KL, 5.0)
    assert (again.low, again.high) == approx((shared.low, shared.high), abs=1e-9)


def test_the_errors_of_runs_without_common_units_do_not_correlate():
    first, second = evidence(0.7, 1), evidence(0.7, 2, keys=np.arange(1000, 1400, dtype=np.uint64))
    certificates = first.certify(KL, 5.0), second.certify(KL, 5.0)
    assert _shared_error(first, second, certificates) == 0.0
    assert _shared_error(first, first, (certificates[0], certificates[0])) == approx(1.0)


def test_errors_are_those_of_both_certificates_and_of_their_luck():
    before, now = evidence(0.7, 1, keys=np.arange(1000, 1400, dtype=np.uint64)), evidence(0.9, 2)
    errors = [float(one.certify(KL, 5.0).errors[0]) for one in (before, now)]
    drop = estimate_drop(before, now, KL, 5.0)
    reach = ONE_SIDED * math.sqrt(2.0) * math.hypot(*errors)
    for arm in (drop.value - drop.low, drop.high - drop.value):
        assert 0.95 * reach < arm < 1.3 * reach


@pytest.mark.parametrize("divergence", [KL, TV])
def test_two_certificates_of_exactly_1_leave_room_for_what_may_hide(divergence):
    zeros = replace(evidence(0.0, 0), reference_scores=np.zeros(400), model_scores=np.zeros(400))
    drop = estimate_drop(zeros, zeros, divergence, 5.0)
    areas = gaussian_areas(divergence, 5.0)
    hidden = 1.0 - float(np.interp(_HIDDEN * math.sqrt(2.0 / 400), _SHIFTS, areas))
    assert (drop.value, drop.low, drop.high) == (0.0, approx(-hidden), approx(hidden))
    assert hidden > 0.01
    units = np.arange(400) // 4  # a hundred prompts with four samples each
    groups = replace(zeros, reference_units=units, model_units=units, keys=np.arange(100, dtype=np.uint64))
    assert estimate_drop(zeros, groups, divergence, 5.0).high > 2.0 * drop.high


def test_a_certificate_that_is_not_exact_leaves_less_room_the_farther_it_is():
    small, large = (evidence(shift, 3) for shift in (0.2, 1.0))
    down, up = _arms(small.certify(KL, 5.0), small, AREAS)
    value = small.certify(KL, 5.0).estimates["mauve"].value
    assert value - down == approx(np.interp(_HIDDEN * math.sqrt(2.0 / 400), _SHIFTS, AREAS))
    assert up <= 1.0 - value
    certificate = large.certify(KL, 5.0)
    down, up = _arms(certificate, large, AREAS)
    reach = math.sqrt(2.0) * ONE_SIDED * certificate.errors[0]
    assert (down, up) == (approx(reach, rel=0.3), approx(reach, rel=0.2))


def test_each_end_has_the_arms_that_point_its_way():
    before = replace(evidence(0.0, 0), reference_scores=np.zeros(400), model_scores=np.zeros(400))
    now = evidence(1.0, 1)
    (down_before, up_before), (down_now, up_now) = (_arms(one.certify(KL, 5.0), one, AREAS) for one in (before, now))
    drop = estimate_drop(before, now, KL, 5.0)
    assert (up_before, drop.high - drop.value) == (0.0, approx(down_now))
    assert drop.value - drop.low == approx(math.hypot(down_before, up_now))
    assert down_now != approx(up_now)


def test_arms_reach_as_far_as_gaussians_and_never_out_of_the_range():
    one = evidence(1.0, 1)
    certificate = one.certify(KL, 5.0)
    value = certificate.estimates["mauve"].value
    quiet, loud = (replace(certificate, influence=factor * certificate.influence) for factor in (1e-9, 100.0))
    shift = float(np.interp(-value, -AREAS, _SHIFTS)) + _FARTHER * math.sqrt(2.0 / 400)
    assert _arms(quiet, one, AREAS) == (approx(value - np.interp(shift, _SHIFTS, AREAS)), approx(0.0, abs=1e-8))
    assert _arms(loud, one, AREAS) == (value, 1.0 - value)


def test_disjoint_samples_have_an_interval_that_is_finite_and_short():
    far = evidence(9.0, 1)
    drop = estimate_drop(evidence(0.0, 2), far, KL, 5.0)
    assert drop.value > 0.95
    assert 0.9 < drop.low <= drop.high <= 1.0


def test_arms_join_as_in_a_difference_of_normal_variables():
    assert _join(3.0, 4.0, 0.0) == approx(5.0)
    assert _join(3.0, 3.0, 1.0) == 0.0
    assert _join(3.0, 4.0, 0.5) == approx(math.sqrt(13.0))


def test_the_slope_is_that_of_the_area():
    for shift in (0.5, 1.0, 2.0):
        slope = (area_of(shift - 0.01) - area_of(shift + 0.01)) / 0.02
        assert gaussian_slope(area_of(shift), KL, 5.0) == approx(slope, rel=0.02)
    assert gaussian_slope(1.0, KL, 5.0) == approx(0.0, abs=0.06)
    assert gaussian_slope(area_of(1.0), TV, 5.0) != approx(gaussian_slope(area_of(1.0), KL, 5.0), rel=0.01)


def test_an_arm_of_a_certificate_of_zero_is_zero():
    one = evidence(1.0, 1)
    certificate = one.certify(KL, 5.0)
    nothing = replace(certificate, estimates=certificate.estimates | {"mauve": Estimate(0.0, 0.0, 0.1)})
    assert _arms(nothing, one, AREAS) == (0.0, 0.0)
    perfect = replace(certificate, estimates=certificate.estimates | {"mauve": Estimate(1.0, 0.0, 1.0)})
    down, up = _arms(perfect, one, AREAS)
    assert up == 0.0
    assert down == approx(
        max(
            math.sqrt(2) * ONE_SIDED * certificate.errors[0],
            1 - np.interp(_HIDDEN * math.sqrt(2 / 400), _SHIFTS, AREAS),
        )
    )


def test_noise_is_that_of_the_units_of_both_sides():
    one = evidence(0.0, 1)
    certificate = one.certify(KL, 5.0)
    quiet = replace(
        certificate,
        influence=0.0 * certificate.influence,
        estimates=certificate.estimates | {"mauve": Estimate(1.0, 0.0, 1.0)},
    )
    few = replace(one, model_units=np.arange(400) // 10)  # 400 and 40 units
    assert _arms(quiet, few, AREAS)[0] == approx(1 - np.interp(_HIDDEN * math.sqrt(1 / 400 + 1 / 40), _SHIFTS, AREAS))


# --- what two runs share


def points(shift, seed, n=300, d=4):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(n, d))


X = points(0.0, 0)


@pytest.fixture(scope="module")
def baseline():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return score(X, points(0.3, 1), repeats=1)


@pytest.mark.parametrize("part", ["keys", "reference_units", "model_units", "reference_scores", "model_scores"])
def test_samples_are_the_same_only_if_all_of_their_evidence_is(part, baseline):
    own = getattr(baseline.evidence, part)
    other = replace(baseline, evidence=replace(baseline.evidence, **{part: own[::-1].copy()}))
    assert _same_samples(baseline, replace(baseline, mauve=0.5))
    assert not _same_samples(baseline, other)
    assert not _same_samples(other, baseline)
    values = dict.fromkeys(baseline.values, (0.5,))
    assert not _same_samples(baseline, replace(baseline, values=values))


def test_changes_between_runs_are_told_one_by_one(baseline):
    assert _changes_since(baseline, baseline) == []
    other = replace(baseline, signature=replace(baseline.signature, version="9"), n=(300, 500))
    version, sizes = _changes_since(baseline, other)
    assert (version.kind, version.message) == (
        "other version",
        f"the baseline was made by mallow {baseline.signature.version}, and this score by 9.",
    )
    assert sizes.values == {"least": 300, "most": 500}
    assert _changes_since(replace(baseline, n=(200, 600)), baseline)[0].values == {"least": 200, "most": 600}


# --- what is learned from n samples, and the plan that follows


quiet = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


def gaussian_law(dimension, values=(0.9, 0.7), noise=1.0):
    areas = gaussian_areas(KL, 5.0)
    return _LearningLaw(areas, -np.gradient(areas, _SHIFTS), dimension, values, noise)


def test_n_is_the_least_with_the_power_asked_for():
    law = gaussian_law(8)
    for difference in (0.05, 0.2, 0.5):
        n = law.samples_for(difference, 0.05, 0.8, 100)
        assert law.power(n, difference, 0.05) >= 0.8
        assert n == 100 or law.power(n - 1, difference, 0.05) < 0.8


def test_z_varies_by_the_luck_of_witnesses_until_all_is_seen():
    law = gaussian_law(0, noise=3.0)  # so that z is moderate where all is seen
    n, level, difference = 10**4, 0.05, 0.05
    true = np.interp([-0.825, -0.775], -law.areas, _SHIFTS)
    z = difference / law.error(n, true)
    assert law.power(n, difference, level) == approx(NormalDist().cdf(z - 1.959964), abs=0.02)
    hidden = gaussian_law(1e5, noise=0.7)  # next to nothing is seen, and z is 0
    assert hidden.power(100, difference, level) == approx(NormalDist().cdf(-1.959964 / math.sqrt(2)), abs=0.005)


def test_what_is_certified_of_gaussians_follows_the_law():
    """Measured: the mean certified MAUVE of 36 draws of n Gaussian samples per side, shifted by 0.6 and 1 (0.910, 0.632)."""
    for n, dimension, near, far in ((100, 8, 0.959, 0.733), (200, 50, 0.986, 0.839), (400, 50, 0.965, 0.759)):
        law = gaussian_law(dimension)
        seen = law.seen(n, np.array([0.6, 1.0]))
        assert np.interp(seen, _SHIFTS, law.areas) == approx([near, far], abs=0.015)
    unlimited = law.seen(1e12, np.array([0.6, 0.9]))
    assert unlimited == approx([0.6, 0.9])


@given(st.floats(1.0, 1e6), st.floats(0.0, 500.0), st.floats(0.01, 8.0))
def test_the_law_is_inverted(n, dimension, shift):
    law = gaussian_law(dimension)
    assert law.true(n, law.seen(n, np.array([shift]))) == approx([shift], rel=1e-6)


def test_the_noise_of_the_reference_cancels_as_far_as_both_systems_use_it_alike():
    law = gaussian_law(8)
    slope = gaussian_slope(0.910, KL, 5.0)
    both, one = law.error(200, np.array([0.6, 0.6])), law.error(200, np.array([0.6, 0.0]))
    assert both == approx(math.sqrt(2 / 200) * slope, rel=0.01)  # of two sets of samples
    assert one == approx(both, rel=0.01)  # those of one system and of the reference


@quiet
@pytest.mark.parametrize("dimension", [4, 30])
def test_the_noise_of_a_pilot_of_gaussians_is_that_of_gaussians(dimension):
    rng = np.random.default_rng(dimension)
    rows = rng.normal(size=(3, 300, dimension))
    rows[:, :, 0] += np.array([0.0, 0.7, 1.1])[:, None]
    reference, first, second = (Samples(features=own) for own in rows)
    held_out = hold_out(MAUVE_STAR, {"A": (reference, first), "B": (reference, second)}, permutations=19)
    law = _LearningLaw.fit(held_out, 300, dimension)
    assert law.noise == approx(1.0, abs=0.12)  # as two independent references: 0.75
    assert law.values == approx([0.855, 0.551], abs=0.2)


def test_more_dimensions_need_more_samples():
    assert gaussian_law(2).samples_for(0.2, 0.05, 0.8, 100) < gaussian_law(20).samples_for(0.2, 0.05, 0.8, 100)
    rng = np.random.default_rng(0)
    round_ones = [Samples(features=rng.normal(shift, 1.0, size=(400, 20))) for shift in (0.0, 3.0)]
    flat = [Samples(features=own.features * np.r_[10.0, np.ones(19)]) for own in round_ones]
    assert 18 < _dimension(round_ones) < 20
    assert 1 < _dimension(flat) < 2
    wide = [Samples(features=rng.normal(size=(30, 200)))]
    assert _dimension(wide) == approx(200 * 30 / 230, rel=0.1)


def certificate(value, high):
    return SimpleNamespace(estimates={"mauve": Estimate(value, 0.0, high)})


@pytest.mark.parametrize(
    ("n", "highs", "expected"),
    [
        (3000, (0.9, 0.99), []),
        (3001, (0.9, 0.99), [("small pilot", None)]),
        (100, (1.0, 0.99), [("no gap in the pilot", "A")]),
        (100, (0.9, 1.0), [("no gap in the pilot", "B")]),
        (9000, (1.0, 1.0), [("no gap in the pilot", "A"), ("no gap in the pilot", "B"), ("small pilot", None)]),
    ],
)
def test_a_plan_is_doubtful_beyond_thirty_times_the_pilot_or_without_a_gap(n, highs, expected):
    held_out = SimpleNamespace(
        certificates={name: certificate(0.8, high) for name, high in zip("AB", highs, strict=True)}
    )
    caveats = _plan_caveats(held_out, n, 100)
    assert [(one.kind, one.system) for one in caveats] == expected
    for one in caveats:
        assert one.values == ({"times": n / 100} if one.kind == "small pilot" else {"n": 100})


@pytest.mark.parametrize(("low", "high", "error"), [(-0.1, 0.3, 0.2), (-0.2, 0.2, 0.3)])
def test_the_error_of_a_pilot_is_the_longer_arm(low, high, error):
    difference = SimpleNamespace(value={"mauve": 0.1}, interval={"mauve": (low, high)})
    held_out = SimpleNamespace(
        certificates={"A": certificate(0.9, 1.0), "B": certificate(1.0, 1.0)}, difference=lambda *names: difference
    )
    pilot = _show_pilot(held_out, 250)
    assert pilot == {"difference": 0.1, "low": low, "high": high, "standard error": approx(error / 1.959964), "n": 250}
    held_out.certificates["A"] = certificate(1.0, 1.0)
    with pytest.raises(InputError, match="the pilot shows no gap: with 250 samples neither system can be told"):
        _show_pilot(held_out, 250)
