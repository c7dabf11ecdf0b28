"""Shares of samples that are not like the reference: bounds from held-out scores, and an estimate from examples."""

import numpy as np
import pytest
from pytest import approx

from mallow import InputError, Samples, score
from mallow.evaluate import estimate_share
from mallow.evidence import Units, bound_shares


def independent(n: int, m: int) -> Units:
    return Units((np.arange(n), n + np.arange(m)), np.random.default_rng(0).permutation(n + m).astype(np.uint64))


def mixed(share: float, size: int, rng: np.random.Generator, shift: float = 4.0) -> np.ndarray:
    """Scores of the reference have mean 4, those of something else −4."""
    return np.where(rng.random(size) < share, -shift, shift) + rng.normal(size=size)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.0])
def test_clear_scores_give_nearly_the_planted_share(share):
    rng = np.random.default_rng(1)
    shares = bound_shares(mixed(0, 2000, rng), mixed(share, 2000, rng), independent(2000, 2000))
    for estimate in (shares["unlike"], shares["new"]):
        assert share - 0.06 < estimate.low <= share
        assert estimate.value == approx(share, abs=0.04)
        assert estimate.low <= estimate.value <= estimate.high == 1.0
    assert shares["missed"].low == approx(float(share > 0), abs=0.2)  # no mixture with such a model is the reference


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
def test_the_missed_share_is_the_new_one_with_sides_exchanged(share):
    rng = np.random.default_rng(8)
    lacking, whole, units = mixed(0, 2000, rng), mixed(share, 1500, rng), independent(2000, 1500)
    shares = bound_shares(-whole, -lacking, Units(units.sets[::-1], units.keys))
    assert share - 0.06 < shares["missed"].low <= share
    assert shares["missed"] == bound_shares(lacking, whole, units)["new"]


def test_few_samples_prove_little():
    shares = [bound_shares(np.full(n, 4.0), np.full(n, -4.0), independent(n, n))["unlike"].low for n in (3, 20, 200)]
    assert shares[0] == 0.0
    assert 0.0 < shares[1] < shares[2] < 1.0
    assert shares[1] <= 1 - 3 / 20  # with 95% confidence fewer than 3/n are what was not seen


def test_copies_add_no_certainty():
    rng = np.random.default_rng(2)
    p, q = mixed(0, 100, rng), mixed(0.3, 100, rng)
    plain = bound_shares(p, q, independent(100, 100))
    units = independent(100, 100)
    copies = Units(tuple(np.repeat(numbers, 5) for numbers in units.sets), units.keys)
    repeated = bound_shares(np.repeat(p, 5), np.repeat(q, 5), copies)
    for name, estimate in plain.items():
        assert repeated[name].value == approx(estimate.value, abs=0.1)
        assert abs(repeated[name].low - estimate.low) < 0.06
    alone = bound_shares(np.repeat(p, 5), np.repeat(q, 5), independent(500, 500))
    assert alone["unlike"].low > repeated["unlike"].low  # as independent samples they would prove more


def test_a_model_that_lacks_a_region_is_not_all_unlike():
    """No mixture with the whole reference explains it, but few samples would have to be replaced."""
    rng = np.random.default_rng(3)
    p = np.where(rng.random(2000) < 0.2, 4.0, -0.2) + 0.1 * rng.normal(size=2000)
    shares = bound_shares(p, -0.2 + 0.1 * rng.normal(size=2000), independent(2000, 2000))
    assert 0.15 < shares["unlike"].low <= 0.2
    assert shares["new"].low > 0.9


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_a_score_claims_no_share_without_a_gap():
    rng = np.random.default_rng(4)
    x, y, z = rng.normal(size=(3, 200, 4))
    z[:60, 0] += 5
    equal, apart = score(x, y, repeats=1), score(x, z, repeats=1)
    assert equal.p_value > 0.05
    assert {estimate.low for estimate in equal.shares.values()} == {0.0}
    assert "not like" not in str(equal)
    assert 0.1 < apart.shares["unlike"].low <= 0.3
    assert f"at least {int(100 * apart.shares['unlike'].low)}% of the samples are not like the reference" in str(apart)
    assert apart.brief()["shares"]["unlike"] == approx(apart.shares["unlike"].low, abs=1e-4)
    assert type(apart).from_json(apart.to_json()).shares == apart.shares


def test_examples_give_the_share_with_an_interval():
    rng = np.random.default_rng(5)
    other = rng.normal(2.5, 1.0, size=(300, 4))
    for share in (0.0, 0.3, 1.0):
        corpus = rng.normal(size=(300, 4)) + 2.5 * (np.arange(300) < 300 * share)[:, None]
        estimate = estimate_share(rng.normal(size=(300, 4)), other, corpus)
        assert estimate.low - 0.02 <= share <= estimate.high + 0.02
        assert estimate.high - estimate.low < 0.15
        assert estimate.low <= estimate.value <= estimate.high


def test_examples_that_are_like_the_reference_say_nothing():
    rng = np.random.default_rng(6)
    estimate = estimate_share(*rng.normal(size=(3, 200, 4)))
    assert (estimate.low, estimate.high) == (0.0, 1.0)


def test_all_three_must_have_the_same_spaces():
    rows = np.random.default_rng(7).normal(size=(3, 60, 4))
    sides = [Samples(features=side, spaces={"syntax": side}) for side in rows]
    with pytest.raises(
        InputError, match=r"`other` and `corpus` must have the same spaces; got \['', 'syntax'\] and \[''\]"
    ):
        estimate_share(sides[0], sides[1], Samples(features=rows[2]))
