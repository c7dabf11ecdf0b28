"""Masses at samples whose likelihood ratios are out of range: told, with the numbers."""

import math

import numpy as np
from pytest import approx

from mallow import Masses
from mallow.theory import integral
from mallow.theory._range_caveats import range_caveats


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
