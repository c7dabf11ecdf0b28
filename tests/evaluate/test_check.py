"""Check: only a drop beyond the allowed one and beyond the noise fails."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, InputError, Measure, compare, score
from mallow.estimate import Neighbors, Quantize
from mallow.evaluate._check import check_regression, read_baseline
from mallow.evaluate._measure import MAUVE_2021

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


def sample(shift, seed, n=500):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(n, 3))


X = sample(0.0, 0)
MODEL = sample(0.3, 1)


@pytest.fixture(scope="module")
def baseline():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return score(X, MODEL, repeats=2)


@pytest.fixture(scope="module")
def path(baseline, tmp_path_factory):
    file = tmp_path_factory.mktemp("baseline") / "baseline.json"
    file.write_text(baseline.to_json())
    return file


def test_the_same_samples_have_not_dropped(baseline, path):
    for given in (baseline, path, str(path)):
        found = check_regression(X, MODEL, given, max_drop=0.0)
        assert found.ok
        assert found.drop == 0.0
        assert found.interval[0] < 0.0 < found.interval[1]
        assert found.score.mauve == baseline.mauve
        assert found.before == found.now == baseline.debiased["mauve"]


def test_a_clearly_worse_model_is_found_and_a_better_one_is_ok(baseline):
    worse = check_regression(X, sample(0.8, 2), baseline)
    assert not worse.ok
    assert worse.drop > worse.interval[0] > 0.02
    assert worse.message.startswith(f"Not ok: MAUVE dropped by {worse.drop:.4f}; the drop is between +")
    assert worse.message.endswith("more than the 0.02 allowed.")
    better = check_regression(X, sample(0.0, 2), baseline)
    assert better.ok
    assert better.drop < 0
    assert better.message.startswith("Ok: MAUVE rose by ")
    assert better.message.endswith("less than the 0.02 allowed.")


def test_a_drop_within_what_is_allowed_or_within_the_noise_is_ok(baseline):
    dropped = check_regression(X, sample(0.8, 2), baseline, max_drop=0.95)
    assert dropped.ok
    assert dropped.message.endswith("less than the 0.95 allowed.")
    middle = (dropped.interval[0] + dropped.drop) / 2
    noisy = check_regression(X, sample(0.8, 2), baseline, max_drop=middle)
    assert noisy.ok
    assert f"more than the {middle:g} allowed, but within the noise" in noisy.message
    open_question = check_regression(X, sample(0.8, 2), baseline, max_drop=(dropped.interval[1] + dropped.drop) / 2)
    assert open_question.ok
    assert open_question.message.endswith("cannot be excluded.")
    assert not check_regression(X, sample(0.8, 2), baseline, max_drop=dropped.interval[0] - 1e-6).ok


def test_new_samples_of_the_same_model_are_rarely_called_worse():
    found = []
    for seed in range(25):
        x = sample(0.0, [seed, 0], 200)
        before = score(x, sample(0.3, [seed, 1], 200), repeats=1)
        found.append(check_regression(x, sample(0.3, [seed, 2], 200), before, max_drop=0.0).ok)
    assert np.mean(found) >= 0.95


def test_a_reference_known_to_be_the_same_narrows_the_interval(baseline):
    other = sample(0.4, 3)
    apart, same = (check_regression(X, other, baseline, same_reference=known) for known in (False, True))
    assert same.drop == apart.drop
    assert np.ptp(same.interval) < 0.97 * np.ptp(apart.interval)


def test_the_noise_of_clustering_of_both_runs_counts(baseline):
    quiet = check_regression(X, MODEL, baseline)
    mean = baseline.values["mauve"][0]
    noisy = replace(baseline, values={**baseline.values, "mauve": (mean - 0.2, mean + 0.2)})
    assert np.ptp(check_regression(X, MODEL, noisy).interval) > 1.5 * np.ptp(quiet.interval)


def test_the_verdict_in_words_and_as_json(baseline):
    found = check_regression(X, MODEL, baseline)
    lines = str(found).splitlines()
    assert lines[0] == found.message
    assert lines[1] == f"Bias-corrected MAUVE: {found.before:.4f} in the baseline, {found.now:.4f} now."
    assert lines[2].startswith("caveat: only 500 samples")
    data = json.loads(json.dumps(found.to_dict()))
    assert data["kind"] == "mallow check"
    assert data["ok"] is True
    assert data["interval"] == approx(found.interval)
    assert data["score"]["signature"]["measure"] == baseline.signature.measure
    assert data["message"] == found.message


def test_other_sizes_and_versions_are_doubts(baseline):
    old = replace(baseline, signature=replace(baseline.signature, version="0.0.1"))
    with pytest.warns(EstimateWarning, match="the baseline was made by mallow 0.0.1, and this score by 0.1.0"):
        found = check_regression(X[:400], MODEL[:400], old)
    assert "the baseline has 500 and 500 samples, and this score 400 and 400" in found.caveats[-1].message


def test_the_measure_is_that_of_the_baseline():
    measure = Measure(Quantize(bins=30))
    before = score(X, MODEL, repeats=1, measure=measure)
    assert check_regression(X, MODEL, before, measure=measure).drop == 0.0
    with pytest.raises(
        InputError, match=r"`measure` must be passed, since the baseline was made with Measure\(Quantize\(bins=30"
    ):
        check_regression(X, MODEL, before)
    with pytest.raises(
        InputError, match=r"`measure` must be that of the baseline, Measure\(Quantize\(bins=30.*; got Measure\(Quant"
    ):
        check_regression(X, MODEL, before, measure=MAUVE_2021)
    first = score(X, MODEL, repeats=1, measure=MAUVE_2021)
    assert "smoothing=empirical" in check_regression(X, MODEL, first).score.signature.measure


def test_without_bins_the_noise_is_not_known():
    measure = Measure(Neighbors())
    before = score(X, MODEL, repeats=1, measure=measure)
    with pytest.raises(InputError, match=r"`baseline` must come from an estimator with bins, such as Quantize"):
        check_regression(X, MODEL, before, measure=measure)


def test_another_embedder_is_refused():
    texts = [f"text {'a' * (i % 7)} {i}" for i in range(200)]

    def length(some):
        return np.array([[len(text), text.count("a")] for text in some], float)

    def place(some):
        return np.array([[text.count("1"), text.count("2")] for text in some], float)

    before = score(texts, texts[::-1], embedder=length, repeats=1)
    assert check_regression(texts, texts[::-1], before, embedder=length).ok
    with pytest.raises(
        InputError, match=r"`embedder` must be that of the baseline, .*length.*; got .*place.*Scores of two emb"
    ):
        check_regression(texts, texts[::-1], before, embedder=place)


def test_bad_input_is_refused(baseline):
    for drop in (-0.1, 1.0, "a"):
        with pytest.raises(InputError, match=r"`max_drop` must be a drop in MAUVE, at least 0 and below 1; got "):
            check_regression(X, MODEL, baseline, max_drop=drop)
    with pytest.raises(
        InputError, match=r"`same_reference` cannot hold: the baseline's reference has 500 samples, and this one 400"
    ):
        check_regression(X[:400], MODEL, baseline, same_reference=True)


def test_what_is_not_a_score_file_is_refused(baseline, tmp_path):
    file = tmp_path / "file.json"
    with pytest.raises(
        InputError, match=r"`baseline` must be a readable file; .*file.json: No such file.*mallow score REF"
    ):
        read_baseline(file)
    comparison = compare(X[:100], {"a": MODEL[:100]}, repeats=1)
    damaged = {key: value for key, value in baseline.to_dict().items() if key != "values"}
    for text, message in (
        ("not JSON", r"must be the JSON file of a score; .*file.json is not JSON"),
        ("[1, 2]", r"must be the JSON file of a score; .*file.json holds 'list'"),
        ("{}", r"must be the JSON file of a score; .*file.json holds None"),
        (comparison.to_json(), r"must be the JSON file of a score; .*file.json holds 'mallow comparison'"),
        (
            json.dumps(damaged),
            r"must be the JSON file of a score; .*file.json: `data` must be what Score.to_dict wrote; it is damaged, .*'values'.*mallow score REF",
        ),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            read_baseline(file)
