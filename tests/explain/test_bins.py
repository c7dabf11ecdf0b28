"""The arithmetic of bins: shares of the gap and p-values."""

import math

import numpy as np
from hypothesis import given
from pytest import approx

from explain.made import evidence_of
from explain.planted import TWELVE_BINS, X, Y
from mallow import KL, MAUVE_STAR, Masses, Samples, midpoint
from mallow.explain import bin_costs, diagnose, diagnose_embedded
from strategies import divergences, masses

# --- shares of the gap


@given(pair=masses(), divergence=divergences)
def test_costs_of_bins_add_up_to_the_midpoint(pair, divergence):
    costs = bin_costs(pair, divergence)
    assert (costs >= 0).all()
    assert costs.sum() == approx(midpoint(pair, divergence), rel=1e-9, abs=1e-12)
    assert bin_costs(pair.swap(), divergence) == approx(costs, rel=1e-9, abs=1e-15)
    assert (costs[pair.p == pair.q] == 0).all()


def test_neither_cost_can_be_split_separately():
    """The reason given in the module: the terms of D(P‖R) alone would call the invented bin the most missed one."""
    pair = Masses.from_histograms([0.1, 0.0, 0.9], [0.0, 0.1, 0.9])
    mix = (pair.p + pair.q) / 2
    alone = KL.terms(pair.p, mix)
    assert alone[1] > 2 * alone[0] > 0
    assert bin_costs(pair, KL) == approx([0.05 * math.log(2), 0.05 * math.log(2), 0])


# --- significance


def test_without_a_defect_a_region_is_rarely_significant():
    rng = np.random.default_rng(0)
    alarms = 0
    nothing = evidence_of(np.zeros(120), np.zeros(120))
    for seed in range(100):
        sides = [Samples(features=rng.normal(size=(120, 3))) for _ in range(2)]
        options = {"measure": MAUVE_STAR, "regions": 1000, "examples": 0, "seed": seed, "evidence": nothing}
        alarms += any(region.significant for region in diagnose_embedded(*sides, **options).regions)
    assert alarms <= 5


def test_holm_counts_the_bins_that_are_not_shown():
    first, every = (diagnose(X, Y, measure=TWELVE_BINS, regions=regions) for regions in (1, 12))
    assert first.invented[0].adjusted == every.invented[0].adjusted == approx(12 * first.invented[0].p_value)
