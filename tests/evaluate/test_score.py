"""Score: what it holds, how it repeats, what it warns of and refuses, and that JSON loses nothing."""

import json
import re

import numpy as np
import pytest
from pytest import approx

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
    debiased,
    frontier,
    integral,
    midpoint,
    permutation_test,
    score,
    smoothing,
)
from mallow.estimate import Classifier, Gaussian, KernelDensity, Neighbors, Quantize, Reduce

NAMES = ("mauve", "frontier_integral", "midpoint")


def sample(n, shift=0.0, seed=0, width=5):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(6, width))
    return centres[rng.integers(6, size=n)] + 0.8 * rng.normal(size=(n, width)) + shift


X, NEAR, FAR = sample(1000), sample(1000, 0.15, 1), sample(1000, 1.0, 2)


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
    assert near.mauve == approx(np.mean([area(m, scale=5) for m in runs]), abs=1e-12)
    assert near.frontier_integral == approx(np.mean([integral(m) for m in runs]), abs=1e-12)
    assert near.midpoint == approx(np.mean([midpoint(m) for m in runs]), abs=1e-12)
    assert near.std["mauve"] == approx(np.std([area(m, scale=5) for m in runs], ddof=1))
    assert near.frontier.p_to_mix == approx(np.mean([frontier(m).p_to_mix for m in runs], axis=0))
    assert near.n == (1000, 1000)
    assert near.scale == 5
    assert len(near.values["mauve"]) == 5


def test_scores_order_models_and_stay_below_the_noise_floor(near, far):
    assert far.mauve < near.mauve < near.noise_floor["mauve"] + 0.02
    assert near.noise_floor["frontier_integral"] <= near.frontier_integral + 0.02
    assert far.noise_floor["mauve"] == approx(near.noise_floor["mauve"], abs=0.02)


def test_the_interval_holds_the_debiased_value(far):
    for name in NAMES:
        low, high = far.interval[name]
        assert low < far.debiased[name] < high


def test_the_debiased_value_is_above_the_score(near):
    assert near.mauve < near.debiased["mauve"] <= 1
    assert near.frontier_integral > near.debiased["frontier_integral"] >= 0


def test_no_interval_is_given_where_none_is_honest():
    same = score(X, sample(1000, seed=5))
    assert same.interval == dict.fromkeys(NAMES)
    assert "95 % interval of the bias-corrected value: none so close to the reference" in str(same)
    assert "interval" not in repr(same)


def test_the_same_seed_gives_the_same_score_swapped_and_shuffled(near):
    rng = np.random.default_rng(7)
    swapped = score(NEAR, X)
    mixed = score(X[rng.permutation(1000)], NEAR[rng.permutation(1000)])
    for name in NAMES:
        assert getattr(near, name) == getattr(swapped, name) == getattr(mixed, name)
    assert score(X, NEAR, rng=1).mauve != near.mauve


def test_identical_samples_score_exactly_one():
    with pytest.warns(EstimateWarning, match="rows \\(100.0 %\\) also occur in the reference"):
        same = score(X, X.copy(), repeats=2)
    assert (same.mauve, same.frontier_integral, same.midpoint) == (1.0, 0.0, 0.0)
    assert same.std["mauve"] == 0


def test_json_loses_nothing(near, far):
    for one in (near, far, score(X, NEAR, repeats=1, measure=Measure(Quantize(smoothing=debiased)))):
        text = one.to_json()
        again = Score.from_json(text)
        assert json.loads(text)["kind"] == "mallow score"
        assert again.to_json() == text
        assert again.mauve == one.mauve
        assert again.interval == one.interval
        assert again.caveats == one.caveats
        assert again.signature == one.signature
        assert np.array_equal(again.frontier.p_to_mix, one.frontier.p_to_mix)
        assert np.array_equal(again.masses.p, one.masses.p)
        assert np.array_equal(again.masses.partition.q_labels, one.masses.partition.q_labels)
        assert again.masses.partition.centres.dtype == one.masses.partition.centres.dtype
    with pytest.raises(InputError, match=r"must be what Score.to_dict wrote; its kind is None"):
        Score.from_dict({})


def test_the_signature_tells_settings_apart(near):
    text = str(near.signature)
    assert text.startswith("mallow 0.")
    for part in ("Quantize(bins=auto", "scale=5", "features, width=5", "n=1000, m=1000, bins=100", "repeats=5, rng=0"):
        assert part in text
    assert f"numpy {np.__version__}" in text  # results depend on it, and on the BLAS
    assert (near.signature.n, near.signature.bins, near.signature.rng) == (1000, 100, 0)
    others = [
        score(X, NEAR, repeats=2),
        score(X, NEAR, repeats=1, rng=3),
        score(X, NEAR, repeats=1, measure=Measure(Quantize(bins=50))),
        score(X, NEAR, repeats=1, measure=Measure(divergence=CHI2)),
        score(X, NEAR, repeats=1, measure=Measure(scale=1)),
        score(X, NEAR, repeats=1, measure=MAUVE_2021),
    ]
    assert len({one.signature for one in [near, *others]}) == len({str(one.signature) for one in [near, *others]}) == 7


def test_measures_print_themselves_and_know_their_scale():
    assert MAUVE_STAR.area_scale == 5
    assert Measure(scale=2.5).area_scale == 2.5
    assert repr(Measure(divergence=TV, scale=2)).endswith("TV, scale=2)")
    assert "smoothing=empirical" in repr(MAUVE_2021)
    with pytest.raises(InputError, match=r"`scale` must be a finite number above 0; got 0"):
        Measure(scale=0)


@pytest.mark.parametrize("measure", [Measure(divergence=CHI2, scale=1), Measure(Quantize(smoothing=debiased))])
def test_other_measures_have_intervals_too(measure):
    with pytest.warns(EstimateWarning):
        one = score(X, FAR, measure=measure, repeats=2)
    low, high = one.interval["mauve"]
    assert 0 <= low < high <= 1


@pytest.mark.parametrize("estimator", [Neighbors(), KernelDensity(), Classifier(), Gaussian()], ids=repr)
def test_estimators_without_bins_are_scored_without_an_interval(estimator):
    found = score(X, NEAR, measure=Measure(estimator), repeats=2)
    assert 0 < found.mauve <= 1
    assert found.mauve <= found.noise_floor["mauve"] + 0.1
    assert found.interval == dict.fromkeys(NAMES)
    assert found.debiased == {}
    assert found.scale == estimator.scale
    assert repr(estimator) in found.signature.measure
    assert "not available without bins" in str(found)
    assert found.interval_text("mauve") == "not available without bins"
    assert Score.from_json(found.to_json()).mauve == found.mauve
    both = compare(X, {"a": NEAR, "b": X + 0.01}, measure=Measure(estimator), repeats=1)
    assert both.differences == ()
    assert both.ranks == {}
    assert both.winner is None
    with pytest.raises(InputError, match="`measure` must quantise for a permutation test"):
        permutation_test(X, NEAR, measure=Measure(estimator))


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
        (np.repeat(X[:950], 2, axis=0)[:1000], NEAR, {}, r"reference: 500 of 1000 rows \(50\.0 %\) are duplicates"),
        (X, NEAR, {"measure": Measure(Quantize(bins=400))}, r"400 bins are many for 1000 samples: pass bins='auto'"),
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


def test_rng_is_an_integer_a_generator_or_none(near):
    assert score(X, NEAR, repeats=1, rng=np.int64(3)).values == score(X, NEAR, repeats=1, rng=3).values
    first, second = (score(X, NEAR, repeats=1, rng=np.random.default_rng(8)) for _ in range(2))
    assert first.signature.rng == second.signature.rng != 8
    assert first.values == second.values == score(X, NEAR, repeats=1, rng=first.signature.rng).values
    fresh = score(X, NEAR, repeats=1, rng=None)
    assert fresh.values == score(X, NEAR, repeats=1, rng=fresh.signature.rng).values
    assert fresh.signature.rng != score(X, NEAR, repeats=1, rng=None).signature.rng


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
    score(X, NEAR, repeats=3)
    assert len(calls) == 1


def test_the_permutation_test_finds_gaps_and_keeps_its_level():
    assert permutation_test(X, FAR, permutations=99) == 0.01
    values = [
        permutation_test(sample(300, seed=2 * s), sample(300, seed=2 * s + 1), permutations=99) for s in range(40)
    ]
    assert np.mean(np.array(values) <= 0.1) < 0.3
    assert np.mean(values) == approx(0.5, abs=0.15)


def test_a_picture_has_the_curve_and_its_labels(near):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = near.plot(label="model")
    assert ax.get_legend().get_texts()[0].get_text() == "model"
    assert "misses" in ax.get_xlabel()
    x, y = ax.lines[0].get_data()
    assert (x[0], y[0], x[-1], y[-1]) == (0, 1, 1, 0)
    matplotlib.pyplot.close(ax.figure)


def test_counts_need_bins():
    class Other:
        scale = 1.0

    with pytest.raises(InputError, match="Counts need an estimator with bins"):
        Measure(Other()).summarise_counts(np.ones(3), np.ones(3))
    assert smoothing.krichevsky_trofimov([1, 1]) == approx([0.5, 0.5])
