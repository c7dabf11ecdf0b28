"""What the experiments say about the paper: every claim has verdicts by MAUVE* and by held-out evidence, and every figure has claims."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, spearmanr

import mallow

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"
WORDS = {"holds", "does not hold", "cannot be decided"}
BOTH = {"MAUVE*", "held-out"}
ONE_VERDICT = {  # claims that MAUVE* and evidence cannot decide, or have decided in the row before: parts of their texts
    "bounds/real.json": ("",),  # bounds against simulated errors: no systems
    "bounds/neighbors.json": ("",),  # known truth: no systems
    "webtext/estimation.json": ("may fail to fall with λ",),  # a property of the curve, not of systems
    "family/robustness.json": ("and its standard deviation is larger with few samples",),
    "quantisers/results.json": ("nearer to the truth than", "level sets of the ratio"),  # known truth: no systems
}
NO_CLAIMS = {  # figures and tables that claim nothing about systems, or what is claimed stands elsewhere
    "table:expt:details": "settings",
    "fig:main:smoothing:new": "synthetic, in section 4",
    "fig:diffusion-examples": "pictures",
    "tab:mauve:expt:webtext-human-eval-all": "votes of people: experiments/people",
}


def pages():
    """The results with claims: path relative to experiments → content."""
    found = {}
    for path in sorted(EXPERIMENTS.rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and "claims" in content:
            found[path.relative_to(EXPERIMENTS).as_posix()] = content
    return found


PAGES = pages()


@pytest.fixture(scope="module")
def claims():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXPERIMENTS)
        yield importlib.import_module("claims")


def undecided(page, content):
    """Claims of a page that lack a verdict by MAUVE* or by held-out evidence, or have another word."""
    exempt = ONE_VERDICT.get(page, ())
    return [
        claim["text"]
        for claim in content["claims"]
        if not set(claim["verdicts"].values()) <= WORDS
        or not (claim["verdicts"].keys() >= BOTH or any(part in claim["text"] for part in exempt))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_claim_is_decided_by_the_score_and_by_evidence(page):
    assert PAGES[page]["claims"]
    assert undecided(page, PAGES[page]) == []


def test_an_undecided_claim_is_found():
    claims = [
        {"text": "a", "verdicts": {"MAUVE*": "holds", "held-out": "holds"}},
        {"text": "b", "verdicts": {"MAUVE*": "holds"}},
        {"text": "c", "verdicts": {"MAUVE*": "holds", "held-out": "maybe"}},
    ]
    assert undecided("x.json", {"claims": claims}) == ["b", "c"]


@pytest.mark.parametrize("page", [name for name in PAGES if not name.endswith("results.json")])
def test_a_page_ends_with_its_claims(page, claims):
    written = (EXPERIMENTS / page).with_suffix(".md").read_text(encoding="utf-8")
    own = [claims.Claim(one["label"], one["text"], one["verdicts"], one["detail"]) for one in PAGES[page]["claims"]]
    assert written.endswith(claims.claims_table(own))


def test_every_figure_and_table_has_claims():
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    part = text[text.index("## Figures and tables") : text.index("## Remaining labels")]
    rows = re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", part, flags=re.MULTILINE)
    shown = [label for label, here in rows if "`experiments/" in here]
    assert len(shown) > 25
    judged = {claim["label"] for content in PAGES.values() for claim in content["claims"]}
    assert [label for label in shown if label not in judged and label not in NO_CLAIMS] == []
    assert [label for label in NO_CLAIMS if label in judged or label not in shown] == []


def test_verdicts_on_several_steps_follow_from_what_is_stored(claims):
    rejudge = importlib.import_module("rejudge")
    judged = 0
    for page, judge in rejudge.PAGES.items():
        content = rejudge.load(page)
        found = judge(content)
        judged += len(found)
        committed = {claim["text"]: claim["verdicts"] for claim in content["claims"]}
        assert {text: committed[text] for text in found} == found, page
    assert judged > 120


# --- the verdicts themselves


def test_a_verdict_needs_two_standard_errors(claims):
    assert [claims.verdict(gap, 1.0) for gap in (2.5, 1.5, -1.5, -2.5)] == [
        claims.HOLDS,
        claims.NOISE,
        claims.NOISE,
        claims.FAILS,
    ]


def test_rank_agreement_moves_with_the_errors(claims):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=12)
    seen = truth + 0.4 * rng.normal(size=12)
    exact = {str(place): (value, 0.0) for place, value in enumerate(truth)}
    noisy = {str(place): (value, 0.4) for place, value in enumerate(seen)}
    rho, error = claims.rank_agreement(noisy, exact)
    assert rho == pytest.approx(spearmanr(truth, seen).statistic)
    assert 0.02 < error < 0.2
    assert claims.rank_agreement(exact, exact) == (pytest.approx(1.0), 0.0)


def test_the_error_of_a_certified_area_is_that_of_its_limit(claims):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 400, 5))
    found = mallow.compare(x, {"near": y + 0.3, "far": y + 1.5})
    for name, (value, error) in claims.evidence(found).items():
        limit = found.scores[name].certified["mauve"].high
        assert value * np.exp(1.645 * error / value) == pytest.approx(limit)
    verdicts, words = claims.agrees({"near": (2.0, 0.0), "far": (1.0, 0.0)}, found, 0.5)
    assert verdicts == {"MAUVE*": claims.HOLDS, "held-out": claims.HOLDS}
    assert "ρ = 1.000 ± 0.000 with held-out" in words


def test_parts_show_how_far_a_correlation_moves(claims):
    same = {"a": [1.0, 2.0, 1.0, 2.0], "b": [2.0, 3.0, 2.0, 3.0], "c": [3.0, 4.0, 3.0, 4.0]}
    assert claims.paired_rank_error(same, same) == 0.0
    turned = {**same, "c": [3.0, 4.0, 1.5, 1.5]}
    parts = [spearmanr([one[place] for one in turned.values()], [1, 2, 3]).statistic for place in range(4)]
    assert claims.paired_rank_error(turned, same) == pytest.approx(np.std(parts, ddof=1) / 2)


def test_measures_are_ranked_beside_the_score_and_the_evidence(claims):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 400, 5))
    scores = mallow.compare(x, {"near": y + 0.3, "far": y + 1.0, "farther": y + 2.0})
    values = {name: {"MAUVE* KL": one.mauve, "turned": one.mauve - 1} for name, one in scores.scores.items()}
    parts = {
        name: [{each: value + shift for each, value in own.items()} for shift in (0.0, 0.01)]
        for name, own in values.items()
    }
    errors, agreement = claims.rank_agreements(values, parts, {"MAUVE* KL": 1.0, "turned": -1.0}, scores)
    assert errors["near"]["turned"] == pytest.approx(0.005)
    assert agreement["MAUVE* KL"]["with MAUVE*"] == agreement["MAUVE* KL"]["with held-out"] == pytest.approx(1.0)
    assert agreement["turned"]["with MAUVE*"] == agreement["turned"]["with held-out"] == pytest.approx(-1.0)
    assert set(claims.agreement_verdicts(agreement["MAUVE* KL"], 0.9, 0.9).values()) == {claims.HOLDS}
    assert set(claims.agreement_verdicts(agreement["turned"], 0.9, 0.9).values()) == {claims.FAILS}
    assert claims.agreement_text(agreement["turned"]).startswith("ρ = -1.000 ± 0.000 with MAUVE*; ρ = -1.000")


def test_several_claims_hold_together_only_if_each_does(claims):
    assert claims.every([claims.HOLDS, claims.HOLDS]) == claims.HOLDS
    assert claims.every([claims.HOLDS, claims.NOISE]) == claims.NOISE
    assert claims.every([claims.NOISE, claims.FAILS, claims.HOLDS]) == claims.FAILS


def test_a_measure_favours_what_is_lowest_on_every_part(claims):
    values = {"low": [1.0, 1.1, 0.9], "middle": [2.0, 2.1, 1.9], "shaking": [0.0, 5.0, 1.0]}
    assert claims.favours(values, "low") == claims.NOISE
    del values["shaking"]
    assert claims.favours(values, "low") == claims.HOLDS
    assert claims.favours(values, "middle") == claims.FAILS


CLEAR = 10.0  # standard errors of one value: a step of so many is clear after any correction


@st.composite
def clear_rises(draw):
    """Rising values with standard error 1, each step of 20 or more."""
    return np.cumsum(draw(st.lists(st.floats(2 * CLEAR, 1e4), min_size=3, max_size=7)))


@given(values=clear_rises(), data=st.data())
def test_a_fall_at_any_step_refutes_a_rise(claims, values, data):
    errors = np.ones(len(values))
    assert claims.monotone(values, errors) == claims.HOLDS
    assert claims.monotone(values[::-1], errors) == claims.FAILS
    at = data.draw(st.integers(0, len(values) - 2))
    exchanged = values.copy()
    exchanged[[at, at + 1]] = values[[at + 1, at]]
    assert claims.monotone(exchanged, errors) == claims.FAILS


@given(values=clear_rises(), data=st.data(), error=st.sampled_from([0.0, 1.0]))
def test_a_tie_at_any_step_cannot_be_decided(claims, values, data, error):
    at = data.draw(st.integers(0, len(values) - 2))
    level = np.concatenate([values[: at + 1], values[at + 1 :] - (values[at + 1] - values[at])])
    assert claims.monotone(level, np.full(len(values), error)) == claims.NOISE


@given(
    values=st.lists(st.floats(-5, 5), min_size=2, max_size=7),
    power=st.integers(-20, 20),
)
def test_a_verdict_does_not_depend_on_the_unit_and_turns_with_the_sign(claims, values, power):
    values, errors = np.array(values), np.ones(len(values))
    found = claims.monotone(values, errors)
    assert claims.monotone(2.0**power * values, 2.0**power * errors) == found
    if found == claims.HOLDS:
        assert claims.monotone(-values, errors) == claims.FAILS


def test_the_level_is_kept_for_all_steps_together(claims):
    rng = np.random.default_rng(3)
    flat = [claims.monotone(rng.normal(size=6), np.ones(6)) for _ in range(1000)]
    assert flat.count(claims.HOLDS) == 0
    assert flat.count(claims.FAILS) < 50  # a false refutation of a plateau in less than 5% of cases
    z = norm.isf(0.05 / 2 / 2) * np.sqrt(2)  # of two steps, the clearer one is tested at 2.5%
    assert claims.monotone([0.0, 50.0, 50.0 - z + 0.01], np.ones(3)) == claims.FAILS  # the other at 5%
    assert claims.monotone([0.0, 0.1, 0.1 - z + 0.01], np.ones(3)) == claims.NOISE
    assert claims.monotone([0.0, 0.1, 0.1 - z - 0.01], np.ones(3)) == claims.FAILS


def test_a_trend_falls_rises_stays_or_is_not_monotone(claims):
    kinds, errors = ("falls", "rises", "stays", "not monotone"), np.ones(3)
    said = {
        quality: [claims.trend(kind, quality, errors) for kind in kinds]
        for quality in [(9.0, 0.0, -9.0), (0.0, 9.0, 0.0), (0.0, 1.0, 0.0), (0.0, 9.0, 10.0)]
    }
    holds, fails, noise = claims.HOLDS, claims.FAILS, claims.NOISE
    assert list(said.values()) == [
        [holds, fails, fails, fails],
        [fails, fails, fails, holds],
        [noise, noise, holds, noise],
        [fails, noise, fails, noise],
    ]


def test_a_value_without_an_error_cannot_be_decided(claims):
    assert claims.monotone([0.0, 50.0, 100.0], [1.0, np.nan, 1.0]) == claims.NOISE


def test_systems_rise_by_the_score_and_by_the_certified_area(claims):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 400, 5))
    found = mallow.compare(x, {"near": y + 0.3, "far": y + 1.5, "farther": y + 3.0})
    assert claims.rising(found, ["farther", "far", "near"])["MAUVE*"] == claims.HOLDS
    assert claims.rising(found, ["far", "farther", "near"])["MAUVE*"] == claims.FAILS
    assert claims.rising(found, ["far", "near"])["held-out"] == claims.HOLDS
    pairs = [("near", "far"), ("far", "farther")]
    assert set(claims.all_above(found, pairs).values()) == {claims.HOLDS}
    assert set(claims.all_above(found, [pairs[0], pairs[1][::-1]]).values()) == {claims.FAILS}


def test_pairs_are_corrected_for_their_number(claims):
    assert claims.verdict(2.1, 1.0) == claims.HOLDS
    assert claims.all_positive([2.1], [1.0]) == claims.HOLDS
    assert claims.all_positive([2.1, 0.0], [1.0, 1.0]) == claims.NOISE
    assert claims.all_positive([-2.1, 0.0], [1.0, 1.0]) == claims.NOISE  # one of two at 3.6% refutes nothing
    assert claims.all_positive([-2.3, 0.0], [1.0, 1.0]) == claims.FAILS
