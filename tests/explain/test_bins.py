"""The arithmetic of bins: shares of the gap and p-values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from explain.made import evidence_of
from explain.planted import TWELVE_BINS, X, Y
from mallow import KL, MAUVE_STAR, Masses, Samples, midpoint
from mallow.explain import bin_costs, diagnose, diagnose_embedded
from mallow.explain._regions import small_bin_caveats
from mallow.theory import Partition
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


@pytest.mark.parametrize(("n", "m"), [(9, 40), (40, 9), (20, 20)])
@given(data=st.data())
def test_bins_are_small_if_not_even_all_of_one_side_would_be_significant(n, m, data):
    """By counting: p of a bin of k units is twice the chance of at least as extreme a draw of k of all n + m."""
    bins = data.draw(st.integers(1, 8))
    labels = [np.array(data.draw(st.lists(st.integers(0, bins - 1), min_size=k, max_size=k))) for k in (n, m)]
    size = np.bincount(np.concatenate(labels), minlength=bins)

    def chance(from_p, k):
        return math.comb(n, from_p) * math.comb(m, k - from_p) / math.comb(n + m, k)

    hopeless = 0
    for k in size.tolist():
        low, high = max(0, k - m), min(n, k)  # as many as possible from the model, and from the reference
        extremes = []
        for observed in (low, high):
            tails = [range(low, observed + 1), range(observed, high + 1)]
            extremes.append(min(1.0, 2 * min(sum(chance(i, k) for i in tail) for tail in tails)))
        hopeless += min(extremes) * bins >= 0.05
    units = np.arange(n), n + np.arange(m)
    found = small_bin_caveats(Partition(*labels, np.zeros((bins, 1))), evidence_of(np.zeros(n), np.zeros(m), *units))
    assert [caveat.kind for caveat in found] == (["small bins"] if hopeless / bins > 0.5 else [])
    for caveat in found:
        assert caveat.values == {"share": hopeless / bins, "bins": bins}


def test_holm_counts_the_bins_that_are_not_shown():
    first, every = (diagnose(X, Y, measure=TWELVE_BINS, regions=regions) for regions in (1, 12))
    assert first.invented[0].adjusted == every.invented[0].adjusted == approx(12 * first.invented[0].p_value)
