"""Masses at samples whose likelihood ratios are out of range: told, with the numbers."""

import math

import numpy as np
import pytest
from pytest import approx

from mallow import Masses
from mallow.theory import integral, midpoint, range_caveats


def test_ratios_out_of_range_are_told_with_their_numbers():
    ratios = np.zeros(4), np.array([8.0, 0.0, 0.0, 0.0])
    masses = Masses.from_log_ratio(*ratios, pooled=False)
    (caveat,) = range_caveats(masses, "Do this.")
    mean = max(float(masses.p[:4].sum()), float(masses.q[4:].sum()))
    assert caveat.kind == "isolated points"
    assert dict(caveat.values) == {
        "mean_ratio": approx(mean, rel=1e-9),
        "frontier_integral": approx(float(integral(masses)), rel=1e-9),
    }
    assert caveat.message.endswith("dominate the estimate. Do this.")
    assert math.isfinite(mean)


def test_usual_ratios_are_not_told():
    assert range_caveats(Masses.from_log_ratio(np.zeros(4), np.zeros(5), pooled=False), "") == ()
    assert range_caveats(Masses.from_histograms([0.5, 0.5], [0.1, 0.9]), "") == ()


@pytest.mark.parametrize("side", ["at_p", "at_q"])
@pytest.mark.parametrize(("mean", "told"), [(1.99, False), (2.01, True)])
def test_a_mean_ratio_of_two_is_too_large_on_either_side(side, mean, told):
    ratio = np.full(4, np.log(mean))
    other = np.zeros(4)
    at = {"at_p": other, "at_q": ratio} if side == "at_q" else {"at_p": -ratio, "at_q": other}
    masses = Masses.from_log_ratio(**at)
    assert float(integral(masses)) <= 1.0
    assert bool(range_caveats(masses, "")) == told


def test_a_summary_out_of_range_is_told_whatever_the_mean():
    # Half of the ratios are 0: the model misses them, and costs are means over the points of one side alone.
    at_q = np.array([np.log(1.9 * 20)] + [-50.0] * 19)
    masses = Masses.from_log_ratio(np.full(20, 40.0), at_q)
    mean = max(float(masses.p[:20].sum()), float(masses.q[20:].sum()))
    assert mean == approx(1.9)
    assert bool(range_caveats(masses, "")) == (float(integral(masses)) > 1.0 or float(midpoint(masses)) > math.log(2))


def test_an_infinite_ratio_is_told_as_such():
    (caveat,) = range_caveats(Masses.from_log_ratio([0.0], [np.inf]), "Stop.")
    assert caveat.values == {"mean_ratio": math.inf, "frontier_integral": math.inf}
    assert caveat.message == (
        "the mean likelihood ratio is inf where it should be 1, and the frontier integral inf where it is at most 1: points far "
        "from their own sample dominate the estimate. Stop."
    )
