"""Check: passed, regression or cannot tell, by what both runs certify."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, InputError, Measure, compare, score
from mallow.estimate import Neighbors, Quantize
from mallow.evaluate import Check, check_regression, read_baseline
from mallow.evidence import MAUVE_2021
from mallow.results import at_most
from mallow.samples import Samples

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


def sample(shift, seed, n=400):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(n, 3))


X = sample(0.0, 0)
MODEL = sample(0.3, 1)
WORSE = sample(0.8, 2)


@pytest.fixture(scope="module")
def baseline():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return score(X, MODEL, repeats=1)


@pytest.fixture(scope="module")
def path(baseline, tmp_path_factory):
    file = tmp_path_factory.mktemp("baseline") / "baseline.json"
    file.write_text(baseline.to_json())
    return file


@pytest.fixture(scope="module")
def worse(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return check_regression(X, WORSE, path)


def test_the_same_samples_have_not_dropped(baseline, path):
    for before in (baseline, str(path)):
        check = check_regression(X, MODEL, before, max_drop=0.0)
        assert check.outcome == "passed"
        assert (check.drop, check.interval) == (0.0, (0.0, 0.0))
        assert check.before == check.now == baseline.certified["mauve"].value
        assert check.score.mauve == baseline.mauve
        assert check.caveats[-1].message == "these are the baseline's own samples, so nothing new was checked."


def test_a_clearly_worse_model_is_a_regression(worse, baseline):
    assert (worse.outcome, worse.ok) == ("regression", False)
    assert worse.drop > worse.interval[0] > 0.02
    assert (worse.before, worse.now) == (baseline.certified["mauve"].value, worse.score.certified["mauve"].value)
    assert worse.drop == approx(worse.before - worse.now)
    low, high = worse.interval
    assert worse.message == (
        f"Regression: certified MAUVE dropped by {worse.drop:.4f} (90% interval of the drop: {low:+.4f} to {high:+.4f}), "
        "more than the allowed 0.02."
    )


def test_a_better_model_passes(worse):
    better = check_regression(X, MODEL, worse.score)
    assert (better.outcome, better.ok) == ("passed", True)
    assert better.interval[1] < 0
    assert better.message.startswith("Passed: certified MAUVE rose by ")
    assert better.message.endswith("; a drop of more than the allowed 0.02 is excluded with 95% confidence.")


def test_new_samples_of_the_same_model_neither_passed_nor_failed_where_they_are_too_few(baseline):
    check = check_regression(X, sample(0.3, 3), baseline)
    assert (check.outcome, check.ok) == ("cannot tell", True)
    assert check.interval[0] < 0.02 < check.interval[1]
    assert check.message.startswith("Cannot tell: certified MAUVE ")
    assert check.message.endswith("; a drop of more than the allowed 0.02 is neither shown nor excluded.")
    assert str(check).splitlines()[2] == (
        "More samples narrow the interval: `mallow plan` estimates how many are needed."
    )


def outcome_with(monkeypatch_interval, max_drop, baseline, monkeypatch):
    from mallow.results import Estimate

    monkeypatch.setattr("mallow.evaluate._check.estimate_drop", lambda *_: Estimate(*monkeypatch_interval))
    monkeypatch.setattr("mallow.evaluate._check.score_embedded", lambda *_, **__: replace(baseline, values={}))
    return check_regression(X, MODEL, baseline, max_drop=max_drop)


@pytest.mark.parametrize(
    ("drop", "outcome", "worse"),
    [
        ((0.01, -0.01, 0.02), "passed", False),  # the high end may be what is allowed
        ((0.01, 0.001, 0.02), "passed", True),
        ((0.01, -0.01, 0.0201), "cannot tell", False),
        ((0.03, 0.02, 0.04), "cannot tell", True),  # the low end must be above
        ((0.03, 0.0, 0.04), "cannot tell", False),
        ((0.03, 0.0201, 0.04), "regression", True),
    ],
)
def test_outcomes_follow_from_the_ends_of_the_interval(drop, outcome, worse, baseline, monkeypatch):
    check = outcome_with(drop, 0.02, baseline, monkeypatch)
    assert check.outcome == outcome
    assert check.ok == (outcome != "regression")
    assert check.message.lower().startswith(outcome)
    if outcome != "regression":
        assert ("but" in check.message and "the model got worse" in check.message) == worse
    assert not re.search(r"\bok\b", check.message, re.IGNORECASE)


def test_the_verdict_in_words_and_as_json(worse):
    lines = str(worse).splitlines()
    assert lines[0] == worse.message
    assert lines[1] == f"Certified MAUVE: {worse.before:.4f} in the baseline, {worse.now:.4f} now."
    assert any(line.startswith("caveat: only 400 samples") for line in lines[2:])
    assert repr(worse).startswith("Check(regression, drop=+0.")
    data = json.loads(worse.to_json())
    assert (data["kind"], data["outcome"], data["ok"]) == ("mallow check", "regression", False)
    assert data["interval"] == approx(worse.interval)
    assert data["message"] == worse.message
    assert Check.from_dict(data).to_dict() == worse.to_dict()
    assert worse._records()[0]["outcome"] == "regression"


def test_other_sizes_and_versions_are_doubts(baseline):
    old = replace(baseline, signature=replace(baseline.signature, version="0.0.1"))
    with pytest.warns(EstimateWarning, match=r"^the baseline was made by mallow 0\.0\.1, and this score by 0\.1\.0\.$"):
        check = check_regression(X[:300], MODEL[:350], old)
    caveat = check.caveats[-1]
    assert caveat.message == (
        "the baseline has 400 and 400 samples, and this score 300 and 350. More samples prove a larger gap, so that no more "
        "samples of a side are compared than the baseline has, and with clearly fewer the model cannot pass. Score the "
        "baseline again with the same sizes, such as 300 samples on all sides (--limit 300)."
    )
    assert (caveat.kind, caveat.values) == ("other sizes", {"least": 300, "most": 400})


def test_score_check_and_compare_print_the_same_certified_value(worse, baseline):
    compared = compare(X, {"before": MODEL, "now": WORSE}, repeats=1)
    for name, value, one in (("before", worse.before, baseline), ("now", worse.now, worse.score)):
        certified = one.certified["mauve"]
        row = next(line for line in compared.table().splitlines() if line.startswith(f"{name} "))
        assert row.split()[1:3] == [f"{certified.value:.4f}", at_most(certified.high)]
        assert f"{certified.value:.4f}" in str(worse).splitlines()[1]
        assert value == certified.value
        assert f"MAUVE is at most {at_most(certified.high)} (p" in one.verdict
        assert f"at most {at_most(certified.high)}  " in one.mauve_table()


@pytest.fixture(scope="module")
def wide():
    """A reference of 1,000 rows, and the score of a model that is off by 0.1 in each of 300 columns."""
    rng = np.random.default_rng(0)
    human = rng.normal(size=(1000, 300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return human, score(human, rng.normal(0.1, 1.0, size=(1000, 300)), repeats=1)


@pytest.mark.parametrize(("n", "m"), [(1000, 30), (60, 1000), (1000, 900)])
def test_a_worse_model_never_passes_because_its_samples_are_fewer(n, m, wide):
    human, before = wide
    check = check_regression(human[:n], np.random.default_rng(1).normal(0.12, 1.0, size=(m, 300)), before)
    if m == 900:  # within 10%: the sizes count as equal
        assert check.outcome == "regression"
        return
    assert check.outcome == "cannot tell"
    assert "rose by" in check.message
    if check.interval[1] > 0.02:  # it excludes no drop by itself
        assert check.message.endswith("; a drop of more than the allowed 0.02 is neither shown nor excluded.")
        return
    assert check.message.endswith(
        ", but this run has fewer samples or units than the baseline, and fewer prove a smaller gap; a drop of more than "
        "the allowed 0.02 is not excluded."
    )
    assert "More samples narrow the interval" not in str(check)


def test_few_samples_of_a_far_worse_model_are_a_regression(wide):
    human, before = wide
    assert (
        check_regression(human, np.random.default_rng(1).normal(0.6, 1.0, size=(30, 300)), before).outcome
        == "regression"
    )


def test_more_samples_than_in_the_baseline_are_cut_to_its_size_in_any_order():
    x, y, z = sample(0.0, 10, 1000), sample(0.3, 11, 150), sample(0.3, 12, 1000)
    before = score(x[:150], y, repeats=1)
    check = check_regression(x, z, before)
    assert check.outcome == "cannot tell"  # with all samples: 0.02 is excluded, or a drop is shown
    whole = check.score.certified["mauve"].value
    assert check.score.n == (1000, 1000)
    assert check.now > whole == approx(score(x, z, repeats=1).certified["mauve"].value)
    assert check.drop == approx(check.before - check.now)
    assert f"{check.now:.4f} now ({whole:.4f} with all samples)." in str(check)
    order = np.random.default_rng(2).permutation(1000)
    assert check_regression(x, z[order], before).interval == approx(check.interval)


def test_more_units_than_in_the_baseline_show_no_drop():
    rows = sample(0.3, 11, 400)
    names = [f"prompt {i // 4}" for i in range(400)]
    before = score(Samples(features=X, ids=names), Samples(features=rows, ids=names), repeats=1)
    check = check_regression(X, WORSE + 1.0, before)
    assert (check.outcome, check.ok) == ("cannot tell", True)
    assert check.interval[0] > 0.02
    assert check.message.endswith(
        ", but this run has more samples or units than the baseline, and more prove a larger gap; a drop of more than the "
        "allowed 0.02 is not shown."
    )


def test_ids_join_runs_whatever_the_order_of_their_samples(baseline):
    ids = [f"prompt {i}" for i in range(len(X))]
    order = np.random.default_rng(5).permutation(len(X))
    named, shuffled = (
        [Samples(features=points[rows], ids=[ids[i] for i in rows]) for points in (X, MODEL, WORSE)]
        for rows in (np.arange(len(X)), order)
    )
    before = score(named[0], named[1], repeats=1)
    one, other = (check_regression(sets[0], sets[2], before) for sets in (named, shuffled))
    assert one.drop == approx(other.drop, abs=1e-9)
    assert one.interval == approx(other.interval, abs=1e-9)


def test_the_measure_is_that_of_the_baseline():
    measure = Measure(Quantize(bins=30))
    before = score(X, MODEL, repeats=1, measure=measure)
    assert check_regression(X, MODEL, before, measure=measure).drop == 0.0
    with pytest.raises(
        InputError,
        match=r"^`measure` must be passed, since the baseline was made with Measure\(Quantize\(bins=30.*\)\.$",
    ):
        check_regression(X, MODEL, before)
    with pytest.raises(
        InputError,
        match=r"^`measure` must be the measure of the baseline, Measure\(Quantize\(bins=30.*; got Measure\(Quant.*\)\.$",
    ):
        check_regression(X, MODEL, before, measure=MAUVE_2021)
    first = score(X, MODEL, repeats=1, measure=MAUVE_2021)
    assert "smoothing=empirical" in check_regression(X, MODEL, first).score.signature.measure


def test_estimators_without_bins_are_checked_by_the_same_evidence(worse):
    measure = Measure(Neighbors(), scale=5.0)
    before = score(X, MODEL, repeats=1, measure=measure)
    check = check_regression(X, WORSE, before, measure=measure)
    assert check.drop == approx(worse.drop)
    assert check.interval == approx(worse.interval)


def test_another_embedder_is_refused():
    texts = [f"text {'a' * (i % 7)} {i}" for i in range(120)]

    def length(some):
        return np.array([[len(text), text.count("a")] for text in some], float)

    def place(some):
        return np.array([[text.count("1"), text.count("2")] for text in some], float)

    before = score(texts, texts[::-1], embedder=length, repeats=1)
    assert check_regression(texts, texts[::-1], before, embedder=length).ok
    with pytest.raises(
        InputError,
        match=r"^`embedder` must be the embedder of the baseline, .*length.*, width=2; got .*place.*, width=2\. Scores of two "
        r"embedders cannot be compared: pass the same one, or score the baseline again\.$",
    ):
        check_regression(texts, texts[::-1], before, embedder=place)


def test_bad_input_is_refused(baseline):
    for drop in (-0.1, 1.0, "a"):
        with pytest.raises(
            InputError, match=rf"^`max_drop` must be a drop in MAUVE, at least 0 and below 1; got {drop!r}\.$"
        ):
            check_regression(X, MODEL, baseline, max_drop=drop)


def test_a_baseline_without_evidence_is_refused(baseline):
    with pytest.raises(
        InputError,
        match=r"^`baseline` must hold held-out evidence, which scores of a `Monitor` do not have\. Score the samples with "
        r"`mallow\.score`\.$",
    ):
        check_regression(X, MODEL, replace(baseline, evidence=None))


def test_what_is_not_a_score_file_is_refused(baseline, tmp_path):
    file = tmp_path / "file.json"
    way_out = r" Write one with: mallow score REFERENCE MODEL --format json > baseline\.json$"
    with pytest.raises(
        InputError,
        match=rf"^`baseline` must be a readable file; .*file\.json: cannot be read: No such file or directory\. Check the path\.{way_out}",
    ):
        read_baseline(file)
    comparison = compare(X[:100], {"a": MODEL[:100]}, repeats=1)
    damaged = {key: value for key, value in baseline.to_dict().items() if key != "values"}
    for text, message in (
        ("not JSON", r"is not JSON\."),
        ("[1, 2]", r"holds 'list'\."),
        ("{}", r"holds None\."),
        (comparison.to_json(), r"holds 'mallow comparison'\."),
    ):
        file.write_text(text)
        with pytest.raises(
            InputError, match=rf"^`baseline` must be the JSON file of a score; .*file\.json {message}{way_out}"
        ):
            read_baseline(file)
    file.write_text(json.dumps(damaged))
    with pytest.raises(
        InputError,
        match=r"must be the JSON file of a score; .*file\.json: `data` must be what Score\.to_dict wrote, but it is damaged, .*"
        rf"the field 'values' is missing\.{way_out}",
    ):
        read_baseline(file)


def test_a_check_uses_the_seed_and_as_many_repeats_as_the_baseline(baseline):
    twice = score(X[:60], MODEL[:60], repeats=2, rng=5)
    found = check_regression(X[:60], MODEL[:60], twice, rng=5)
    assert (found.score.signature.repeats, found.score.signature.rng) == (2, 5)
    assert (found.drop, found.max_drop) == (0.0, 0.02)
    assert check_regression(X[:60], MODEL[:60], twice, rng=6, max_drop=0.5).score.signature.rng == 6
    wider = replace(twice, signature=replace(twice.signature, width=4))
    with pytest.raises(
        InputError, match="`embedder` must be the embedder of the baseline, features, width=4; got features, width=3"
    ):
        check_regression(X[:60], MODEL[:60], wider)
