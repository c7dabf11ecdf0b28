"""Score: what is certain and what is published, how they repeat, what is warned of and refused; JSON loses nothing."""

import html
import json
import re
import warnings
from dataclasses import astuple, replace

import numpy as np
import pytest
from pytest import approx

from made_results import made_score
from mallow import (
    CHI2,
    MAUVE_2021,
    MAUVE_STAR,
    TV,
    EstimateWarning,
    InputError,
    Measure,
    Score,
    area,
    compare,
    frontier,
    integral,
    midpoint,
    permutation_test,
    score,
    smoothing,
)
from mallow.estimate import Classifier, Gaussian, KernelDensity, Neighbors, Quantize, Reduce
from mallow.evidence import run_permutations
from mallow.explain import Reason
from mallow.results import Estimate, at_most
from mallow.samples import Samples
from mallow.theory import KL, extrapolated

NAMES = ("mauve", "frontier_integral", "midpoint")


def sample(n, shift=0.0, seed=0, width=5):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(6, width))
    return centres[rng.integers(6, size=n)] + 0.8 * rng.normal(size=(n, width)) + shift


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return function(*args, **options)


X, NEAR, FAR = sample(1000), sample(1000, 0.15, 1), sample(1000, 1.0, 2)
FEW = slice(0, 200)  # enough where the numbers do not matter


@pytest.fixture(scope="module")
def near():
    return score(X, NEAR)


@pytest.fixture(scope="module")
def far():
    with pytest.warns(EstimateWarning) as caught:
        result = score(X, FAR)
    assert any("of the bins hold samples of one side only" in str(one.message) for one in caught)
    return result


def test_the_score_is_the_mean_over_repeats_of_the_summaries(near):
    estimator = Quantize()
    prepared = estimator.prepare(X, NEAR)
    runs = [estimator.masses(prepared, rng) for rng in np.random.default_rng([0, *b"clustering"]).spawn(5)]
    assert near.mauve == approx(np.mean([area(m, scale=5) for m in runs]), abs=1e-9)
    assert near.frontier_integral == approx(np.mean([integral(m) for m in runs]), abs=1e-9)
    assert near.midpoint == approx(np.mean([midpoint(m) for m in runs]), abs=1e-9)
    assert near.std["mauve"] == approx(np.std([area(m, scale=5) for m in runs], ddof=1))
    assert near.frontier.p_to_mix == approx(np.mean([frontier(m).p_to_mix for m in runs], axis=0))
    assert near.n == (1000, 1000)
    assert near.scale == 5
    assert len(near.values["mauve"]) == 5


def test_scores_order_models_and_stay_below_the_self_score(near, far):
    assert far.mauve < near.mauve < near.self_score["mauve"] + 0.02
    assert near.self_score["frontier_integral"] <= near.frontier_integral + 0.02
    assert far.self_score == near.self_score  # the model plays no part


def test_the_evidence_orders_models_too(near, far):
    assert far.certified["mauve"].high < 0.1 < near.certified["mauve"].value < near.certified["mauve"].high < 1
    assert max(near.p_value, far.p_value) == 1 / 5000  # the smallest, where 4,999 permutations are drawn
    for name in NAMES[1:]:
        assert 0 < near.certified[name].low < near.certified[name].value < far.certified[name].low


def test_the_debiased_value_is_above_the_score(near):
    assert near.mauve < near.debiased["mauve"].value <= 1
    assert near.frontier_integral > near.debiased["frontier_integral"].value >= 0


def test_where_there_is_no_gap_intervals_reach_the_end_of_the_range():
    same = score(X, sample(1000, seed=5))
    assert same.p_value > 0.05
    assert same.verdict == (
        f"No gap was shown with this embedder and this many samples (1,000 and 1,000; p = {same.p_value:.2g})."
    )
    assert same.certified["mauve"].high == same.debiased["mauve"].high == 1
    for name in NAMES[1:]:
        assert same.certified[name].low == same.debiased[name].low == 0
    low, high = same.interval["mauve"]
    assert low < same.mauve < high <= 1  # the published score has its own


# --- what is printed


def printed_rows(text):
    """Value and range of each row of a printed table that has numbers; "at most" and "at least" are open at one end."""
    rows = []
    for line in text.splitlines():
        match = re.search(
            r"(\d\.\d{4})  +(?:at most (\d\.\d{4})|at least (\d\.\d{4})|(\d\.\d{4}) to (\d\.\d{4}))  (.*)$", line
        )
        if match:
            value, most, least, low, high, about = match.groups()
            rows.append((float(value), float(low or least or 0), float(high or most or "inf"), about))
    return rows


SETTINGS = [  # n, m, width, shift, options
    (40, 40, 3, 0.0, {}),
    (60, 25, 2, 0.6, {"repeats": 1}),
    (25, 60, 8, 0.0, {"repeats": 2}),
    (120, 120, 5, 0.3, {"measure": Measure(Quantize(bins=40)), "repeats": 2}),
    (120, 90, 5, 3.0, {"repeats": 2}),
    (80, 80, 60, 0.1, {"measure": Measure(divergence=CHI2, scale=1), "repeats": 1}),
    (90, 90, 4, 0.2, {"measure": Measure(divergence=TV, scale=2), "repeats": 1}),
    (100, 100, 4, 0.0, {"measure": MAUVE_2021, "repeats": 1}),
    (100, 100, 4, 0.4, {"measure": Measure(Quantize(smoothing=extrapolated)), "repeats": 2}),
]


@pytest.mark.parametrize("place", range(len(SETTINGS)))
@pytest.mark.parametrize("seed", [1, 2])
def test_every_printed_value_lies_in_the_interval_printed_beside_it(place, seed):
    n, m, width, shift, options = SETTINGS[place]
    one = quietly(score, sample(n, 0.0, 10 * seed, width), sample(m, shift, 10 * seed + 1, width), rng=seed, **options)
    rows = printed_rows(one.table())
    for value, low, _, _ in rows[9:]:
        assert 0 <= low <= value <= 1
    shares, rows = rows[9:], rows[:9]
    assert [about for *_, about in shares] == [
        "would have to be replaced to match the reference",
        "foreign, if mixed into the reference",
        "of the reference missing, if nothing is foreign",
    ]
    assert rows[:3] == printed_rows(str(one))
    assert len(rows) == 9  # certified, published and bias-corrected, of three summaries
    for value, low, high, about in rows:
        assert low <= value <= high
        assert "95%" in about or about == "with unlimited samples, same bins"  # below the title "95% range"
    assert max(map(len, one.mauve_table().splitlines())) <= 80
    for place, name in enumerate(NAMES):  # each row has the interval of what it prints
        published, corrected = rows[3 * place + 1], rows[3 * place + 2]
        assert published[:3] == tuple(round(end, 4) for end in (getattr(one, name), *one.interval[name]))
        assert corrected[:3] == tuple(round(end, 4) for end in astuple(one.debiased[name]))
    for name in NAMES:
        assert one.interval[name][0] <= getattr(one, name) <= one.interval[name][1]
        for estimate in (one.debiased[name], one.certified[name]):
            assert estimate.low <= estimate.value <= estimate.high


def test_the_text_is_the_verdict_a_table_and_the_caveats(far):
    lines = str(far).splitlines()
    assert lines[0] == far.verdict
    assert [re.split(r"  +", line)[0] for line in lines[3:7]] == [
        "certified",
        "published",
        "bias-corrected",
        "self-score",
    ]
    assert lines[2].split() == ["MAUVE", "95%", "range", "meaning"]
    share = int(100 * far.shares["unlike"].low)
    assert share >= 10
    assert lines[8] == f"With 95% confidence at least {share}% of the samples are not like the reference."
    assert lines[9:11] == ["Units: 2000 independent samples.", ""]
    assert lines[11:] == [f"caveat: {line}" for line in far.caveat_lines()]
    assert f"at most {far.certified['mauve'].high:.3f}"[:-1] in lines[3]
    assert max(map(len, lines[2:7])) <= 80
    assert repr(far) == (
        f"Score(mauve={far.mauve:.4f}, certified at most {at_most(far.certified['mauve'].high)}, p = 0.0002, n=(1000, 1000))"
    )


def test_other_forms_have_the_same_rows(far):
    for form in ("markdown", "latex", "html"):
        text = far.table(form)
        for part in (
            "MAUVE, certified",
            "mid-point, published",
            "integral, self-score",
            "of repeat samples of this size",
        ):
            assert part in text
    page = far._repr_html_()
    assert page.startswith(f"<p>{html.escape(far.verdict)}</p><table>")
    assert "<li>" in page


def certified_at(one, high):
    return replace(one, certified={**one.certified, "mauve": Estimate(min(high, 0.01), 0.0, high)})


def test_the_verdict_follows_the_test_and_the_certificate(far):
    reasons = tuple(Reason("words", f"reason {i}", 0.001, 0.01) for i in range(4))
    clear = replace(certified_at(far, 0.4101), p_value=0.0123, reasons=reasons)
    assert clear.verdict == (
        "The gap is real: with 95% confidence MAUVE is at most 0.4101 (p = 0.012). "
        "Telltale signs: reason 0; reason 1; reason 2."
    )
    assert clear.to_dict()["verdict"] == clear._headline() == clear.verdict
    small = replace(certified_at(far, 0.99999), p_value=0.0123, reasons=())
    assert small.verdict == "The gap is real (p = 0.012), but too small to be measured with this few samples."
    none = replace(certified_at(far, 1.0), p_value=0.05, reasons=reasons)
    assert none.verdict == ("No gap was shown with this embedder and this many samples (1,000 and 1,000; p = 0.05).")
    without = replace(far, certified={}, certified_frontier=None, evidence=None, p_value=1.0)
    assert without.verdict.endswith("; p = 1).")
    assert "certified" not in str(without) + repr(without)


# --- a gap that the published score does not see


def hidden_gap(n, seed=0, width=40):
    """Texts on shared topics, which take nearly all variance; the model's style differs in one faint direction."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(n, width)) * np.where(np.arange(width) < width // 2, 1.0, 0.0)
    style = 0.2 * rng.normal(size=(2, n, width))
    style[1, :, -1] += 0.6
    return topics + style[0], topics + style[1]


def test_a_gap_that_the_published_score_does_not_see_is_certified():
    one = quietly(score, *hidden_gap(300), repeats=2)
    assert one.mauve > 0.98
    assert one.mauve > one.self_score["mauve"]
    assert one.p_value == 1 / 5000
    assert one.certified["mauve"].high < 0.4
    assert one.verdict.startswith("The gap is real: with 95% confidence MAUVE is at most 0.")
    assert one.interval["mauve"][0] > 0.9  # what another draw would score: as blind as this one
    assert any("the published score does not see the gap" in line for line in one.caveat_lines())


def test_evidence_does_not_depend_on_the_estimator():
    x, y = hidden_gap(120)
    one, other = (quietly(score, x, y, measure=Measure(each, scale=5), repeats=1) for each in (Quantize(), Gaussian()))
    assert one.certified == other.certified
    assert one.p_value == other.p_value
    assert one.mauve != other.mauve
    assert one.evidence.reference_scores.tolist() == other.evidence.reference_scores.tolist()


# --- units


def sorted_by_a_column(seed, n=300):
    """No gap: both sides in the order of their first column."""
    rng = np.random.default_rng([31, seed])
    return [np.sort(rng.normal(size=n))[:, None] * [1, 1] + 1e-3 * rng.normal(size=(n, 2)) for _ in range(2)]


def test_sorted_files_show_no_gap():
    scores = [quietly(score, *sorted_by_a_column(seed), repeats=1) for seed in range(10)]
    assert sum(one.p_value <= 0.05 for one in scores) <= 2
    assert [one.certified["mauve"].high for one in scores] == [1.0] * 10
    assert {one.signature.units for one in scores} == {"600 independent samples"}


def test_the_order_of_rows_changes_no_bit_of_the_verdict():
    x, y = hidden_gap(120)
    order = np.random.default_rng(0).permutation(120)
    one, other = (quietly(score, x, each, repeats=1) for each in (y, y[order]))
    assert (one.p_value, one.certified, one.mauve) == (other.p_value, other.certified, other.mauve)
    assert (one.interval, one.debiased) == (other.interval, other.debiased)


def test_the_order_of_pairs_changes_no_bit():
    x, y = hidden_gap(120)
    order = np.random.default_rng(0).permutation(120)
    one, other = (quietly(score, *sides, paired=True, repeats=1) for sides in ((x, y), (x[order], y[order])))
    for field in ("p_value", "certified", "mauve", "interval", "debiased", "self_score"):
        assert getattr(one, field) == getattr(other, field), field
    assert one.self_score == quietly(score, x, y, repeats=1).self_score


def test_one_row_fewer_changes_little():
    x, y = sorted_by_a_column(0, 120)
    p_values = [permutation_test(x, each) for each in (y, y[1:], y[:-1])]
    assert np.ptp(p_values) < 0.15
    most = [quietly(score, x, each, repeats=1).certified["mauve"].high for each in (y, y[1:])]
    assert most == [1.0, 1.0]


def test_paired_rows_have_the_power_of_pairs():
    rng = np.random.default_rng(0)
    topic = 3.0 * rng.normal(size=(200, 5))
    x, y = topic + rng.normal(size=(200, 5)), topic + rng.normal(size=(200, 5)) + 0.3
    ids = [f"prompt {i}" for i in range(200)]
    by_row, by_id, apart = (
        quietly(score, *sides, paired=paired, repeats=1)
        for sides, paired in (
            ((x, y), True),
            ((Samples(features=x, ids=ids), Samples(features=y, ids=ids)), False),
            ((x, y), False),
        )
    )
    assert max(by_row.p_value, by_id.p_value) < 1e-3 < 0.05 < apart.p_value
    assert [one.signature.units for one in (by_row, by_id, apart)] == [
        "200 pairs by row",
        "200 pairs by id",
        "400 independent samples",
    ]
    assert "\nUnits: 200 pairs by row.\n" in str(by_row)
    assert " | 200 pairs by row | " in str(by_row.signature)
    assert [any("--paired" in line for line in one.caveat_lines()) for one in (by_row, by_id, apart)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("size", [300, 150])
def test_a_subset_of_the_reference_has_no_gap_by_test_and_certificate(size):
    rng = np.random.default_rng(1)
    x = np.maximum(rng.normal(size=(300, 20)) @ rng.normal(size=(20, 400)), 0.0)
    one = quietly(score, x, x[rng.permutation(300)[:size]], repeats=1)
    assert (one.p_value, one.certified["mauve"].high) == (1.0, 1.0)
    assert one.signature.units == f"300 independent samples, {'all' if size == 300 else 150} of them on both sides"


def test_wrong_pairs_are_refused():
    x, y = hidden_gap(30)
    with pytest.raises(InputError, match=r"`paired` needs sets of equal length; got reference: 30, model: 29\. Give"):
        score(x, y[:29], paired=True)
    named = Samples(features=y, ids=[str(i) for i in range(30)])
    asked = Samples(features=y, prompts=[str(i) for i in range(30)])
    for model, kind in ((named, "ids"), (asked, "prompts")):
        with pytest.raises(InputError, match=rf"`paired` says that row i .* but model has {kind}, which already say"):
            score(x, model, paired=True)


def test_samples_are_units_by_their_ids_in_any_order():
    x, y = hidden_gap(150)
    ids = tuple(f"prompt {i}" for i in range(150))
    order = np.random.default_rng(0).permutation(150)
    shuffled = Samples(features=y[order], ids=tuple(ids[i] for i in order))
    by_id = [
        quietly(score, Samples(features=x, ids=ids), each, repeats=2)
        for each in (shuffled, Samples(features=y, ids=ids))
    ]
    paired = quietly(
        score, x, y, paired=True, repeats=2
    )  # by row: the same units with other names, and so in other folds
    for field in ("mauve", "p_value", "interval", "debiased", "self_score"):
        assert getattr(by_id[0], field) == getattr(by_id[1], field), field
    for name in NAMES:
        one, other, rows = (astuple(each.certified[name]) for each in (*by_id, paired))
        assert one == approx(other, rel=1e-9)
        assert one == approx(rows, abs=0.05)
        assert paired.interval[name] == approx(by_id[0].interval[name])
    assert paired.mauve == by_id[0].mauve
    torn = quietly(
        score, x, y[order], paired=True, repeats=2
    )  # the same samples in the wrong pairs: topics are noise again
    assert torn.mauve == paired.mauve
    assert np.ptp(torn.interval["mauve"]) > np.ptp(paired.interval["mauve"])


def test_copies_of_a_sample_are_no_new_evidence():
    rng = np.random.default_rng(3)
    ids = tuple(map(str, range(80)))
    x, y = rng.normal(size=(80, 4)), rng.normal(0.25, 1.0, size=(80, 4))
    once = quietly(score, Samples(features=x, ids=ids), Samples(features=y, ids=ids), repeats=1)
    many = [Samples(features=np.repeat(each, 5, axis=0), ids=tuple(np.repeat(ids, 5))) for each in (x, y)]
    copied = quietly(score, *many, repeats=1)
    assert copied.p_value == approx(once.p_value, rel=0.5, abs=0.01)
    assert copied.certified["mauve"].value == approx(once.certified["mauve"].value, abs=0.1)
    assert np.ptp(copied.interval["mauve"]) > 0.5 * np.ptp(once.interval["mauve"])


def test_the_same_seed_gives_the_same_score_swapped_and_shuffled(near):
    rng = np.random.default_rng(7)
    swapped = score(NEAR, X)
    mixed = score(X[rng.permutation(1000)], NEAR[rng.permutation(1000)])
    for name in NAMES:
        assert getattr(near, name) == getattr(swapped, name) == getattr(mixed, name)
        assert near.self_score[name] == mixed.self_score[name]
    assert quietly(score, X[FEW], NEAR[FEW], rng=1).mauve != quietly(score, X[FEW], NEAR[FEW]).mauve


def test_identical_samples_score_exactly_one():
    with pytest.warns(EstimateWarning, match="rows \\(100.0%\\) also occur in the reference"):
        same = score(X, X.copy(), repeats=2)
    assert (same.mauve, same.frontier_integral, same.midpoint) == (1.0, 0.0, 0.0)
    assert (same.p_value, same.certified["mauve"].value) == (1.0, 1.0)  # rounding is no evidence
    assert same.std["mauve"] == 0


def test_json_loses_nothing(near, far):
    few = quietly(score, X[FEW], NEAR[:150], repeats=1, measure=Measure(Quantize(smoothing=extrapolated)))
    for one in (near, far, few):
        text = one.to_json()
        again = Score.from_json(text)
        assert json.loads(text)["kind"] == "mallow score"
        assert again.to_json() == text
        assert again.mauve == one.mauve
        assert again.interval == one.interval
        assert again.certified == one.certified
        assert again.debiased == one.debiased
        assert again.p_value == one.p_value
        assert again.evidence.test == one.evidence.test
        for part in ("reference_scores", "model_scores", "reference_units", "model_units", "keys"):
            ours, theirs = getattr(one.evidence, part), getattr(again.evidence, part)
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs)
        assert again.evidence.certify(KL, one.scale).estimates == one.certified  # nothing has to be learned again
        assert np.array_equal(again.certified_frontier.p_to_mix, one.certified_frontier.p_to_mix)
        assert again.caveats == one.caveats
        assert again.signature == one.signature
        assert np.array_equal(again.frontier.p_to_mix, one.frontier.p_to_mix)
        assert np.array_equal(again.masses.p, one.masses.p)
        assert np.array_equal(again.masses.partition.q_labels, one.masses.partition.q_labels)
        assert again.masses.partition.centres.dtype == one.masses.partition.centres.dtype
    with pytest.raises(InputError, match=r"must be what Score.to_dict wrote, but its kind is None"):
        Score.from_dict({})


def test_the_signature_tells_settings_apart(near):
    text = str(near.signature)
    assert text.startswith("mallow 0.")
    for part in ("Quantize(bins=auto", "scale=5", "features, width=5", "n=1000, m=1000, bins=100", "repeats=5, rng=0"):
        assert part in text
    assert "numpy" not in text  # nothing depends on it
    assert near.signature.tolerance == 0.0
    by_neighbors = quietly(score, X[FEW], NEAR[FEW], repeats=1, measure=Measure(Neighbors())).signature
    assert by_neighbors.tolerance is None
    assert f"numpy {np.__version__}" in str(by_neighbors)  # its distances may be rounded differently
    assert (near.signature.n, near.signature.bins, near.signature.rng) == (1000, 100, 0)
    x, y = X[FEW], NEAR[FEW]
    others = [
        quietly(score, x, y, repeats=2),
        quietly(score, x, y, repeats=1, rng=3),
        quietly(score, x, y, repeats=1, measure=Measure(Quantize(bins=50))),
        quietly(score, x, y, repeats=1, measure=Measure(divergence=CHI2)),
        quietly(score, x, y, repeats=1, measure=Measure(scale=1)),
        quietly(score, x, y, repeats=1, measure=MAUVE_2021),
    ]
    assert len({one.signature for one in [near, *others]}) == len({str(one.signature) for one in [near, *others]}) == 7


def test_measures_print_themselves_and_know_their_scale():
    assert MAUVE_STAR.area_scale == 5
    assert Measure(scale=2.5).area_scale == 2.5
    assert repr(Measure(divergence=TV, scale=2)).endswith("TV, scale=2)")
    assert "smoothing=empirical" in repr(MAUVE_2021)
    with pytest.raises(InputError, match=r"`scale` must be a finite number above 0; got 0"):
        Measure(scale=0)


@pytest.mark.parametrize("estimator", [Neighbors(), KernelDensity(), Classifier(), Gaussian()], ids=repr)
def test_estimators_without_bins_have_no_interval_but_evidence(estimator):
    found = quietly(score, X[:400], FAR[:400], measure=Measure(estimator), repeats=2)
    assert 0 < found.mauve <= 1
    assert found.mauve <= found.self_score["mauve"] + 0.1
    assert found.interval == {}
    assert found.debiased == {}
    assert found.scale == estimator.scale
    assert repr(estimator) in found.signature.measure
    assert re.search(r"^published +\d\.\d{4} +–  no interval without bins$", str(found), re.MULTILINE)
    assert "bias-corrected" not in str(found)
    assert found.p_value == 1 / 5000
    assert found.certified["mauve"].high < 0.9
    assert Score.from_json(found.to_json()).mauve == found.mauve
    assert np.isnan(found._records()[0]["low"])


def test_an_embedder_is_called_on_the_samples():
    def lengths(texts):
        return np.array([[len(text), text.count("a")] for text in texts], dtype=float)

    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ab c"), size=rng.integers(5, 60))) for _ in range(400)]
    measure = Measure(Quantize(bins=20, reduce=None))
    with pytest.warns(EstimateWarning) as doubts:
        found = score(texts[:200], texts[200:], embedder=lengths, measure=measure, repeats=1)
    assert any("only 200 samples: with fewer than 1000 per side" in str(one.message) for one in doubts)
    assert "lengths, width=2" in str(found.signature)
    assert found.signature.embedder.endswith("lengths")


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (X[:300], NEAR[:300], {}, r"only 300 samples: with fewer than 1000 per side"),
        (X, sample(1200, seed=3), {}, r"the sample sizes differ \(1000 and 1200\)"),
        (np.repeat(X[:950], 2, axis=0)[:1000], NEAR, {}, r"reference: 500 of 1000 rows \(50\.0%\) are duplicates"),
        (X, NEAR, {"measure": Measure(Quantize(bins=400))}, r"400 bins are many for 1000 samples: use fewer"),
    ],
)
def test_doubts_are_warnings_and_are_kept(x, y, options, message):
    with pytest.warns(EstimateWarning) as doubts:
        found = score(x, y, repeats=1, **options)
    lines = [str(one) for one in found.caveats]
    assert lines == [str(one.message) for one in doubts]
    assert any(re.search(message, text) for text in lines)
    assert all(one.filename == __file__ for one in doubts)  # the warning points at the caller


def test_a_sound_score_has_no_caveats(near):
    assert near.caveats == ()


def test_findings_about_the_samples_reach_python_callers():
    texts = [f"Sentence {i} is {'very ' * (i % 5)}short." for i in range(300)]
    model = [f" {text}" for text in texts[150:]]
    with pytest.warns(EstimateWarning) as caught:
        found = score(texts[:150], model, embedder=lambda texts: np.array([[len(t), 1.0] for t in texts]), repeats=1)
    assert [str(one.message) for one in caught] == [str(one) for one in found.caveats]
    assert {"space", "few samples"} <= {one.kind for one in found.caveats}
    assert next(one for one in found.caveats if one.kind == "space").system == "model"


def test_rng_is_an_integer_a_generator_or_none():
    def scored(rng):
        return quietly(score, X[FEW], NEAR[FEW], repeats=1, rng=rng)

    assert scored(np.int64(3)).values == scored(3).values
    first, second = (scored(np.random.default_rng(8)) for _ in range(2))
    assert first.signature.rng == second.signature.rng != 8
    assert first.values == second.values == scored(first.signature.rng).values
    fresh = scored(None)
    assert fresh.values == scored(fresh.signature.rng).values
    assert fresh.signature.rng != scored(None).signature.rng


def test_each_set_is_scanned_for_gaps_once(monkeypatch):
    shapes, isfinite = [], np.isfinite
    monkeypatch.setattr(
        np, "isfinite", lambda a, *rest, **more: shapes.append(np.shape(a)) or isfinite(a, *rest, **more)
    )
    compare(X, {"near": NEAR, "far": FAR - 0.5}, repeats=1)
    assert [shape for shape in shapes if len(shape) == 2 and shape[1] == X.shape[1]] == 3 * [X.shape]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 0}, r"`repeats` must be an integer of at least 1; got 0"),
        ({"rng": -1}, r"`rng` must be an integer of at least 0, a numpy Generator or None; got -1"),
        ({"rng": "7"}, r"`rng` must be an integer of at least 0, a numpy Generator or None; got '7'"),
        ({"rng": True}, r"`rng` must be an integer of at least 0, a numpy Generator or None; got True"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        score(X, NEAR, **options)


def test_repeats_share_the_reduction(monkeypatch):
    calls = []
    fit = Reduce.fit
    monkeypatch.setattr(Reduce, "fit", lambda self, x, y: calls.append(1) or fit(self, x, y))
    quietly(score, X[FEW], NEAR[FEW], repeats=3)
    assert len(calls) == 2  # for the published score, for the self-score


def test_the_p_value_is_that_of_the_permutation_test():
    x, y = sample(200), sample(200, 0.1, 4)
    found = quietly(score, x, y, repeats=1, rng=2)
    assert permutation_test(x, y, permutations=499, rng=0) == found.p_value  # whatever the seed of the score
    assert 0.002 <= found.p_value <= 1


def test_a_picture_has_the_curve_and_its_labels(near):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = near.plot(label="model")
    shown = [each.get_text() for each in ax.get_legend().get_texts()]
    assert shown == ["model", "all clusterings", f"model, certified: {near.certified['mauve'].value:.3f}"]
    assert "misses" in ax.get_xlabel()
    solid, dashed = ax.lines
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    for line, value in ((solid, near.mauve), (dashed, near.certified["mauve"].value)):
        assert np.trapezoid(line.get_ydata(), line.get_xdata()) == approx(value, abs=0.01)
    without = replace(near, certified={}, certified_frontier=None).plot()
    assert len(without.lines) == 1  # what is missing is not drawn
    shown = [each.get_text() for each in without.get_legend().get_texts()]
    assert shown == [f"published: {near.mauve:.3f}", "all clusterings"]
    matplotlib.pyplot.close(without.figure)
    x, y = ax.lines[0].get_data()
    assert (x[0], y[0], x[-1], y[-1]) == (0, 1, 1, 0)
    matplotlib.pyplot.close(ax.figure)


def test_counts_need_bins():
    class Other:
        scale = 1.0
        masses = None

    with pytest.raises(InputError, match="Counts need an estimator with bins"):
        Measure(Other()).summarise_counts(np.ones(3), np.ones(3))
    assert smoothing.krichevsky_trofimov([1, 1]) == approx([0.5, 0.5])


# --- the parts


@pytest.mark.parametrize("name", ["std", "interval", "debiased", "certified", "self_score"])
def test_a_score_has_all_three_summaries_or_none(name):
    whole = made_score()
    known = getattr(whole, name)
    with pytest.raises(
        InputError, match=f"`{name}` must have the entries mauve, frontier_integral, midpoint; got mauve, midp"
    ):
        replace(whole, **{name: {key: known[key] for key in ("mauve", "midpoint")}})
    with pytest.raises(
        InputError, match=f"`{name}` must have the entries mauve, frontier_integral, midpoint; got .*more"
    ):
        replace(whole, **{name: known | {"more": known["mauve"]}})
    assert getattr(replace(whole, **{name: {}}), name) == {}


def test_the_permutation_test_has_options():
    x, y = X[:40], X[40:80]
    sides = Samples(features=x), Samples(features=y)
    whole = run_permutations(*sides)
    assert whole.permutations == 999
    assert permutation_test(x, y) == whole.p_value
    few = run_permutations(*sides, permutations=199, rng=3)
    assert few.permutations == 199
    assert (
        permutation_test(x, y, permutations=199, rng=3)
        == few.p_value
        != run_permutations(*sides, permutations=199, rng=4).p_value
    )
    with pytest.raises(InputError, match="`permutations` must be an integer of at least 1; got 0"):
        permutation_test(x, y, permutations=0)
    assert 0 < permutation_test(x, y, permutations=1) <= 1
