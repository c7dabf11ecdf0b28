"""Whether the bins flatter the samples that placed them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import MAUVE_STAR, Measure, Neighbors, Quantize
from mallow.caveats import _optimism
from mallow.caveats._optimism import _draw_half, optimism_caveats
from mallow.evidence import Units, debiased_estimate
from mallow.evidence._systems import generator_for

N = 300
ROWS = np.arange(N)
PAIRS = Units((ROWS, ROWS), np.random.default_rng(0).integers(2**62, size=N).astype(np.uint64))
MEASURE = Measure(Quantize(bins=30, reduce=None))


def pairs(shift, width=100, seed=1):
    """Texts for one prompt lie near each other; the model's are shifted in one direction."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, N, width)) * np.sqrt(0.2) + rng.normal(size=(N, width)) * np.sqrt(0.8)
    y[:, 0] += shift
    return x, y


def caveats_of(x, y, units=PAIRS, measure=MEASURE, seed=0):
    return optimism_caveats(measure, measure.estimator.prepare(x, y), units, seed)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 30), m=st.integers(1, 30), count=st.integers(1, 40))
def test_half_of_the_units_of_either_kind_are_drawn(seed, n, m, count):
    rng = np.random.default_rng(seed)
    sets = rng.integers(count, size=n), rng.integers(count, size=m)
    units = Units(sets, rng.permutation(count).astype(np.uint64))
    half = _draw_half(units, np.arange(n + m), np.random.default_rng(0))
    has_reference, has_model = units.sizes(0) > 0, units.sizes(1) > 0
    for kind in (has_reference, has_model & ~has_reference):
        assert half[kind].sum() == kind.sum() // 2
    assert not half[~has_reference & ~has_model].any()


def test_pairs_that_lie_together_are_flattered_by_their_bins():
    (caveat,) = caveats_of(*pairs(3.5))
    assert caveat.kind == "bins fitted to samples"
    inside, outside = caveat.values["inside"], caveat.values["outside"]
    assert inside > outside + 0.2
    assert re.fullmatch(
        r"the samples that place the bins agree more than others do: with bins from half of the samples, the bias-corrected "
        rf"MAUVE is {inside:.3f} for these and {outside:.3f} for the other half in the same bins\. The published score and "
        r"its bias-corrected value are too high; the held-out evidence is not affected\. Fewer bins help\.",
        caveat.message,
    )


def test_the_other_half_tells_the_truth():
    # Fresh points in bins of as many samples: what the held-out half estimates.
    x, y = pairs(3.5)
    (caveat,) = caveats_of(x, y)
    half = Measure(Quantize(bins=15, reduce=None)).estimator
    centres = half.fit(x[:150], y[:150], rng=0)
    fresh = [np.concatenate(side) for side in zip(*(pairs(3.5, seed=seed) for seed in range(2, 12)), strict=True)]
    p, q = (np.maximum(centres.count(side), 0.5) for side in fresh)
    truth = MAUVE_STAR.summarise(half.smooth(*(np.round(side) for side in (p, q))))["mauve"]
    assert caveat.values["outside"] == approx(truth, abs=0.12)


@pytest.mark.parametrize(("shift", "width"), [(0.0, 100), (0.0, 5), (0.5, 5)])
def test_where_bins_are_as_good_for_others_nothing_is_said(shift, width):
    assert caveats_of(*pairs(shift, width)) == []


def test_independent_samples_are_no_pairs():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, N, 5))
    alone = Units((ROWS, N + ROWS), rng.integers(2**62, size=2 * N).astype(np.uint64))
    assert caveats_of(x, y, alone) == []


def test_the_order_of_rows_changes_nothing():
    x, y = pairs(3.5)
    order = np.random.default_rng(4).permutation(N)
    assert caveats_of(x[order], y[order], Units((ROWS, ROWS), PAIRS.keys[order])) == caveats_of(x, y)


def test_estimators_without_bins_and_fixed_codebooks_have_nothing_to_check():
    x, y = pairs(3.5)
    assert caveats_of(x, y, measure=Measure(Neighbors())) == []
    assert caveats_of(x, y, measure=Measure(Quantize(codebook=MEASURE.estimator.fit(x, y, rng=0)))) == []


def test_few_units_are_not_compared():
    x, y = pairs(3.5)
    few = Units((ROWS % 60, ROWS % 60), np.arange(60, dtype=np.uint64))
    assert caveats_of(x, y, few) == []


# --- the numbers, written out


@pytest.fixture(scope="module")
def computed():
    """Both directions: the bias-corrected summaries of the halves that placed bins and of the others, and their errors."""
    x, y = pairs(3.5)
    estimator = MEASURE.estimator
    prepared = estimator.prepare(x, y)
    rng = generator_for(0, "optimism")
    half = _draw_half(PAIRS, prepared.group, rng)
    inside = np.concatenate([half[ROWS], half[ROWS]])
    found = {"own": [], "other": []}
    for placing, child in zip((inside, ~inside), rng.spawn(2), strict=True):
        for name, rows, partition in zip(
            found, (placing, ~placing), estimator.hold_out(prepared, placing, child), strict=True
        ):
            units = Units((ROWS[rows[:N]], ROWS[rows[N:]]), PAIRS.keys)
            found[name].append(debiased_estimate([partition], units, divergence=MEASURE.divergence, scale=5.0))
    return found


def test_values_are_means_over_both_directions(computed):
    (caveat,) = caveats_of(*pairs(3.5))
    means = [np.mean([one["mauve"].value for one in each]) for each in computed.values()]
    assert [caveat.values["inside"], caveat.values["outside"]] == approx(means)


def test_a_difference_must_matter_and_be_beyond_its_errors(computed, monkeypatch):
    gap = abs(np.subtract(*(np.mean([one["mauve"].value for one in each]) for each in computed.values())))
    costs = [[one["frontier_integral"] for one in each] for each in computed.values()]
    difference = abs(np.subtract(*(np.mean([one.value for one in each]) for each in costs)))
    errors = [(one.high - one.low) / (2 * 1.959964) for each in costs for one in each]
    error = np.sqrt(sum((own / 2) ** 2 for own in errors))
    for name, limit in (("_LEAST", gap), ("_ERRORS", difference / error)):
        for factor, told in ((0.999, True), (1.001, False)):
            with monkeypatch.context() as patch:
                patch.setattr(_optimism, name, factor * limit)
                assert bool(caveats_of(*pairs(3.5))) == told, name


@pytest.mark.parametrize(("count", "told"), [(80, True), (79, False)])
def test_forty_units_in_each_half_are_enough(count, told, monkeypatch):
    for name in ("_LEAST", "_ERRORS"):
        monkeypatch.setattr(_optimism, name, 0.0)  # any difference is told
    x, y = (side[np.arange(N) % count] for side in pairs(3.5))
    units = Units((ROWS % count, ROWS % count), np.random.default_rng(0).permutation(count).astype(np.uint64))
    assert bool(caveats_of(x, y, units)) == told


def test_samples_that_place_bins_may_agree_less():
    """The sign decides what is said: here the roles of both halves are exchanged."""

    class Turned(Quantize):
        def hold_out(self, prepared, placing, rng):
            return super().hold_out(prepared, placing, rng)[::-1]

    x, y = pairs(3.5)
    measure = Measure(Turned(bins=30, reduce=None))
    (caveat,) = caveats_of(x, y, measure=measure)
    assert caveat.values["inside"] < caveat.values["outside"]
    assert "agree less than others do" in caveat.message
    assert "are too low; the held-out" in caveat.message
