"""Checks of an estimate: lengths that are normalised away, few directions, and a score that does not see a proven gap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import EstimateWarning, Measure, Samples, score
from mallow.caveats import _estimates as _estimate_checks
from mallow.caveats import blindness_caveats, check_estimate
from mallow.caveats._counts import count_independent
from mallow.estimate import Neighbors, Quantize, Reduce
from mallow.evaluate import run_repeats, summary_values
from mallow.evaluate._run import reduction_of
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
        measure, reference, model, reduction=reduction_of(prepared), partition=masses.partition, mauve=score
    )
    return caveats, own


def kinds(x, y, measure=MAUVE_STAR, **options):
    return [one.kind for one in check(x, y, measure, **options)[0]]


def gaussian(n, width, scale=1.0, centre=0.0, seed=0):
    return centre + scale * np.random.default_rng(seed).normal(size=(n, width))


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


def test_samples_of_one_prompt_do_not_count_as_many():
    """20 prompts, each with its own length, and 30 samples of each: the lengths of the two sides differ by chance."""
    ids = [str(i // 30) for i in range(600)]
    with_ids = without = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, y = (
            np.repeat(np.exp(rng.normal(size=20)), 30)[:, None] * gaussian(600, 3, 0.2, 1.0, seed) for _ in range(2)
        )
        grouped, alone = ([Samples(features=side, ids=labels) for side in (x, y)] for labels in (ids, None))
        with_ids += len(list(_estimate_checks._normalisation_caveats(MAUVE_STAR, *grouped, 1.0)))
        without += len(list(_estimate_checks._normalisation_caveats(MAUVE_STAR, *alone, 1.0)))
    assert with_ids <= 1
    assert without >= 20


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


# --- the parts


@pytest.mark.parametrize("n", [1, 1024, 1025, 2500])
def test_lengths_of_rows_however_many(n):
    rows = gaussian(n, 3, scale=2.0)
    rows[-1] = [0.0, 0.0, -7.0]  # the largest entry may be negative
    assert _estimate_checks._row_lengths(rows) == approx(np.linalg.norm(rows, axis=1))
    assert _estimate_checks._row_lengths(np.zeros((2, 3))).tolist() == [0.0, 0.0]
    for scale in (1e-300, 1e300):
        found = _estimate_checks._row_lengths(scale * np.array([[3.0, -4.0], [0.0, 0.0]]))
        assert found == approx([5.0 * scale, 0.0])
    for largest in (1e200, -1e200):  # of either sign, beside one that is as small
        assert _estimate_checks._row_lengths(np.array([[largest, 1e-200]])) == approx([1e200])
        assert _estimate_checks._row_lengths(np.array([[largest, -1e-200]])) == approx([1e200])
    assert _estimate_checks._row_lengths(np.array([[-3, -4]], np.float16)).tolist() == [5.0]


@pytest.mark.parametrize(
    ("independent", "bins"), [(1, 3), (199, 3), (200, 5), (999, 19), (1000, 21), (1099, 21), (100_000, 21)]
)
def test_more_independent_samples_have_more_bins_of_lengths(independent, bins):
    x, y = np.exp(gaussian(400, 1)[:, 0]), np.exp(gaussian(300, 1, seed=1)[:, 0])
    p, q = _estimate_checks._count_lengths(x, y, independent=independent)
    assert len(p) == len(q) == bins
    assert (p.sum(), q.sum()) == (400, 300)
    assert (p > 0).all()  # 90% of the lengths lie between the bins at the ends, which hold all others
    assert p[bins // 2] > p[0]


def test_bins_of_lengths_are_around_the_median_and_equal_lengths_are_in_one():
    p, q = _estimate_checks._count_lengths(np.full(50, 2.0), np.full(50, 2.04), independent=100)
    assert (p.tolist(), q.tolist()) == ([0, 50, 0], [0, 50, 0])  # 2% are counted as equal
    p, q = _estimate_checks._count_lengths(np.full(50, 1.0), np.full(50, 100.0), independent=100)
    assert (p.tolist(), q.tolist()) == ([50, 0, 0], [0, 0, 50])
    # Rows of zeros are far below all others, and the middle is that of all lengths.
    lengths = np.r_[np.zeros(30), np.ones(40), np.full(30, 1e5)]
    p, _ = _estimate_checks._count_lengths(lengths, lengths, independent=100)
    assert p.tolist() == [30, 40, 30]
    nothing = np.zeros(10)
    assert _estimate_checks._count_lengths(nothing, nothing, independent=1)[0].tolist() == [0, 10, 0]
    tiny = np.array([5e-324, 5e-324, 1.0, 1.0])
    assert _estimate_checks._count_lengths(tiny, tiny, independent=1)[0].tolist() == [2, 0, 2]


@given(seed=st.integers(0, 1000), bins=st.integers(1, 8), size=st.floats(0.3, 4.0), shift=st.floats(0, 1))
def test_histograms_differ_where_chi_squared_is_four_deviations_above_its_mean(seed, bins, size, shift):
    from scipy.stats import chi2_contingency

    rng = np.random.default_rng(seed)
    p, q = rng.multinomial(200, rng.dirichlet(np.ones(bins))), rng.multinomial(int(200 * size), np.full(bins, 1 / bins))
    q = np.round((1 - shift) * p * size + shift * q)
    q[p.argmax()] += 1
    table = np.array([p, q])[:, p + q > 0].astype(float)
    freedom = table.shape[1] - 1
    statistic = chi2_contingency(table, correction=False).statistic if freedom else 0.0
    limit = freedom + 4 * np.sqrt(2 * freedom)
    if abs(statistic - limit) > 1e-6:
        assert _estimate_checks._counts_differ(p.astype(float), q) == (statistic > limit)


def test_samples_count_once_for_each_of_their_units():
    rows = gaussian(6, 2)
    assert count_independent(Samples(features=rows)) == 6
    assert count_independent(Samples(features=rows, ids=list("aabbcc"))) == 3
    assert count_independent(Samples(features=rows, prompts=list("aaaaab"))) == 2


def test_lengths_that_agree_are_not_told_however_low_their_score():
    x, y = gaussian(400, 3), gaussian(400, 3, scale=1.02, seed=1)
    caveats = _estimate_checks._normalisation_caveats(MAUVE_STAR, Samples(features=x), Samples(features=y), 1.0)
    assert list(caveats) == []


def test_a_direction_needs_four_fifths_of_the_variance():
    def told(variances, width=16, explained=1.0):
        from types import SimpleNamespace

        reduction = SimpleNamespace(
            axes=np.zeros((len(variances), width)), variances=np.array(variances), explained=explained
        )
        return [dict(one.values) for one in _estimate_checks._direction_caveats(reduction)]

    assert told([8.0, 1.0, 1.0]) == [{"directions": 1, "share": 0.8, "width": 16}]
    assert told([7.0, 1.0, 2.0]) == [{"directions": 2, "share": 0.8, "width": 16}]
    assert told([7.0, 0.5, 2.5]) == []
    assert told([3.0, 3.0, 3.0, 1.0]) == []  # three hold 90%
    assert told([8.0, 1.0, 1.0], width=15) == []
    assert told([8.0], explained=0.5) == []  # the rest of the variance counts too
    assert told([0.0, 0.0]) == []
    assert list(_estimate_checks._direction_caveats(None)) == []
