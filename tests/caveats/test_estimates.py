"""Checks of an estimate: lengths that are normalised away, few directions, and a score that does not see a proven gap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from caveats.made_samples import gaussian
from mallow import EstimateWarning, Measure, Samples, score
from mallow.caveats import blindness_caveats, check_estimate
from mallow.estimate import Neighbors, Quantize, Reduce
from mallow.evaluate import run_repeats, summary_values
from mallow.evidence import MAUVE_STAR

AS_THEY_ARE = Measure(Quantize(reduce=Reduce(normalise=False)))


def check(x, y, measure=MAUVE_STAR, mauve=None):
    """The caveats about the estimate of one clustering, and its score."""
    reference, model = Samples(features=x), Samples(features=y)
    prepared = measure.estimator.prepare(reference.features, model.features)
    (masses,) = run_repeats(measure, prepared, 1, 0)
    own = summary_values(measure, [masses])["mauve"][0]
    score = own if mauve is None else mauve
    caveats = check_estimate(
        measure,
        reference,
        model,
        reduction=getattr(prepared, "reduction", None),
        partition=masses.partition,
        mauve=score,
    )
    return caveats, own


def kinds(x, y, measure=MAUVE_STAR, **options):
    return [one.kind for one in check(x, y, measure, **options)[0]]


# --- the automatic number of bins


def test_a_score_of_more_than_5000_samples_names_the_bins_of_mauve_text():
    sides = [gaussian(16_000, 3, seed=seed) for seed in (0, 1)]
    with pytest.warns(EstimateWarning, match="automatic number grows with the cube root"):
        result = score(*sides, repeats=1)
    assert result.signature.bins == 737
    assert "bins=737" in str(result.signature)
    (caveat,) = [one for one in result.caveats if one.kind == "automatic bins"]
    assert caveat.values == {"bins": 737, "samples": 16_000, "published": 1600}
    assert caveat.message.startswith(
        "the published score uses 737 bins for 16,000 samples; mauve-text would use a tenth"
    )
    assert caveat.message.endswith("pass `Quantize(bins=1600)` (--bins 1600).")
    chosen = score(*sides, measure=Measure(Quantize(bins=50)), repeats=1)
    assert "automatic bins" not in [one.kind for one in chosen.caveats]
    assert (result.p_value, result.certified) == (chosen.p_value, chosen.certified)  # evidence has no such bins


def test_up_to_5000_samples_nothing_is_told_about_bins():
    assert "automatic bins" not in kinds(gaussian(5000, 3), gaussian(6000, 3, seed=1))


# --- length normalisation


def test_features_of_width_one():
    x, y = gaussian(500, 1, centre=5), gaussian(500, 1, centre=50, seed=1)
    caveats, mauve = check(x, y)
    assert mauve == 1.0  # the score sees nothing
    caveat = next(one for one in caveats if one.kind == "length normalisation")
    assert caveat.message == (
        "the features have width 1, and the measure scales every row to length 1, so that only signs are left: pass "
        "`measure=Measure(Quantize(reduce=Reduce(normalise=False)))`."
    )
    assert check(x, y, AS_THEY_ARE)[1] < 0.05  # the remedy
    assert "length normalisation" not in kinds(x, y, AS_THEY_ARE)


@pytest.mark.parametrize("width", [2, 8])
def test_lengths_that_differ(width):
    x, y = gaussian(500, width), gaussian(500, width, scale=3, seed=1)
    caveats, mauve = check(x, y)
    (caveat,) = caveats
    lengths = [float(np.median(np.linalg.norm(side, axis=1))) for side in (y, x)]
    alone = caveat.values["mauve_of_lengths"]
    assert caveat.values == approx(
        {"length": lengths[0], "length_reference": lengths[1], "mauve_of_lengths": alone, "mauve": mauve}
    )
    assert alone < 0.2 < 0.9 < mauve
    assert caveat.message == (
        f"the measure scales every row to length 1, and that hides a gap: judged only by the lengths of the rows (median "
        f"{lengths[0]:.4g}, reference: {lengths[1]:.4g}) the score would be {alone:.3f}, not {mauve:.3f}. If the lengths mean "
        "something, pass `measure=Measure(Quantize(reduce=Reduce(normalise=False)))`; certificate and p-value use the rows as "
        "they are."
    )
    assert check(x, y, AS_THEY_ARE)[1] < 0.5  # the remedy
    for measure in (AS_THEY_ARE, Measure(Neighbors()), Measure(Quantize(reduce=None))):
        assert set(kinds(x, y, measure)) <= {"empty bins"}  # these do not normalise
    assert kinds(x, y, mauve=alone + 0.09) == []  # the score shows as much as the lengths do
    assert kinds(x, y, mauve=alone + 0.11) == ["length normalisation"]


def test_a_codebook_knows_whether_it_normalises():
    x, y = gaussian(400, 4), gaussian(400, 4, scale=3, seed=1)
    for measure, expected in ((MAUVE_STAR, ["length normalisation"]), (AS_THEY_ARE, [])):
        book = measure.estimator.fit(x, y)
        fixed = Measure(Quantize(codebook=book))
        assert [kind for kind in kinds(x, y, fixed, mauve=1.0) if kind != "empty bins"] == expected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [30, 100, 600])
@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "lognormal"])
def test_lengths_of_one_distribution(draw, n, seed):
    rng = np.random.default_rng([seed, n])
    x, y = (getattr(rng, draw)(size=(n, 3)) for _ in range(2))
    assert "length normalisation" not in kinds(x, y, mauve=1.0)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_lengths(scale):
    x, y = gaussian(300, 3), gaussian(300, 3, scale=4, seed=1)
    (plain,), _ = check(x, y)
    (extreme,), _ = check(scale * x, scale * y)
    assert extreme.values["mauve_of_lengths"] == approx(plain.values["mauve_of_lengths"], abs=1e-9)


def test_rows_of_zeros_and_half_precision():
    x, y = gaussian(300, 3), gaussian(300, 3, seed=1)
    zeros = np.where(np.arange(300)[:, None] < 150, 0.0, y)
    assert kinds(x, zeros, mauve=1.0) == ["length normalisation"]  # half of the model's rows have no length
    assert "length normalisation" not in kinds(np.zeros((50, 3)), np.zeros((50, 3)), mauve=1.0)
    unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y)]
    assert kinds(unit[0].astype(np.float16), unit[1], mauve=1.0) == []  # rounding is not a difference


# --- few directions


def with_rogue(rows, scale, count=1, seed=0):
    """Rows with further columns that hold nearly all of the variance."""
    return np.concatenate([rows, gaussian(len(rows), count, scale, seed=seed)], axis=1)


@pytest.mark.parametrize(("count", "beginning"), [(1, "1 direction of 21 holds"), (2, "2 directions of 22 hold")])
def test_directions_that_hold_nearly_everything(count, beginning):
    x, y = (with_rogue(gaussian(400, 20, seed=seed), 30, count, seed + 9) for seed in range(2))
    (caveat,), _ = check(x, y, AS_THEY_ARE)
    share = caveat.values["share"]
    assert (caveat.kind, caveat.values) == (
        "few directions",
        {"directions": count, "share": share, "width": 20 + count},
    )
    variances = np.sort(np.linalg.eigvalsh(np.cov(np.concatenate([x, y]).T)))[::-1]
    assert share == approx(variances[:count].sum() / variances.sum())
    assert caveat.message == (
        f"{beginning} {share:.0%} of the variance of the features, and the bins see little else. Standardise the columns of all "
        "samples together, or use a different embedder, layer or pooling."
    )
    for kept in (count, 9):
        (again,), _ = check(x, y, Measure(Quantize(reduce=Reduce(dimension=kept, normalise=False))))
        assert again.values == approx(caveat.values)


def test_directions_of_ordinary_features():
    x, y = gaussian(400, 20), gaussian(400, 20, seed=1)
    assert kinds(x, y, AS_THEY_ARE) == []
    assert kinds(x, y, Measure(Quantize(reduce=Reduce(dimension=1)))) == []  # one axis was asked for
    assert kinds(with_rogue(x[:, :14], 30), with_rogue(y[:, :14], 30, seed=1), AS_THEY_ARE) == []  # narrow features
    assert kinds(with_rogue(x, 30), with_rogue(y, 30, seed=1), Measure(Quantize(reduce=None))) == []
    assert "few directions" not in kinds(np.ones((50, 20)), np.ones((50, 20)))


def test_crowded_bins_are_part_of_it():
    x = np.where(np.arange(400)[:, None] < 300, 0.0, gaussian(400, 3))
    y = np.where(np.arange(400)[:, None] < 300, 0.0, gaussian(400, 3, seed=1))
    assert "one bin" in kinds(x, y)


# --- a gap that the score does not see


def test_a_score_that_does_not_see_a_proven_gap():
    (caveat,) = blindness_caveats(0.989, 0.99, 1e-6, 0.364)
    assert caveat.values == {"mauve": 0.989, "self_score": 0.99, "p_value": 1e-6, "limit": 0.364}
    assert caveat.message == (
        "the published score does not see the gap: 0.989 is about what a perfect model gets (0.990), but the held-out evidence shows "
        "that MAUVE is at most 0.3640. Judge by the evidence. An embedder that knows more about such samples, or more of them "
        "in more bins, may show the gap in the score too."
    )
    assert "at most 0.3643. " in blindness_caveats(0.989, 0.99, 1e-6, 0.36421)[0].message  # never rounded down


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ((0.98, 0.99, 0.01, 0.88), True),
        ((0.98, 0.99, 0.011, 0.88), False),
        ((0.971, 0.99, 0.01, 0.8), True),
        ((0.969, 0.99, 0.01, 0.8), False),
        ((0.98, 0.99, 0.01, 0.89), False),
    ],
)
def test_where_a_contradiction_begins(case, told):
    assert bool(blindness_caveats(*case)) == told


@given(mauve=st.floats(0, 1), self_score=st.floats(0.5, 1), p_value=st.floats(0, 1), limit=st.floats(0, 1))
def test_only_a_clear_contradiction_is_told(mauve, self_score, p_value, limit):
    expected = p_value <= 0.01 and mauve >= self_score - 0.02 and limit <= mauve - 0.1
    assert bool(blindness_caveats(mauve, self_score, p_value, limit)) == expected
