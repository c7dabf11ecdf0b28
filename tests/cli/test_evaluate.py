"""The commands from samples to verdicts: what they return, write and refuse."""

import json
import re
import sys

import pytest

from mallow.evaluate import Comparison, Score
from mallow.samples import read

EMBED = "-e letters:letters --repeats 2"


def test_json_is_the_whole_score(mallow):
    code, out, _ = mallow(f"score human.jsonl far.jsonl {EMBED} --format json -q")
    score = Score.from_json(out)
    assert code == 0
    assert 0 < score.mauve < 0.6 < score.noise_floor["mauve"]
    assert score.n == (400, 400)


def test_a_comparison_is_saved(mallow, home):
    code, _, err = mallow(f"compare human.jsonl a=near.jsonl far.jsonl {EMBED} -o comparison.json")
    assert code == 0
    assert "comparison.json: written" in err
    assert list(Comparison.from_json((home / "comparison.json").read_text()).scores) == ["a", "far"]


def test_the_other_systems_are_compared_with_a_baseline(mallow):
    command = f"compare human.jsonl near.jsonl far.jsonl {EMBED} --baseline"
    code, out, _ = mallow(f"{command} near")
    assert code == 0
    number = r"[+-][01]\.\d{4}"
    assert re.search(rf"^far − near: -0\.\d{{4}} \(95 % interval {number} to {number}\)$", out, re.MULTILINE)
    assert "Compared with near: far is farther from it." in out
    code, _, err = mallow(f"{command} neat")
    assert code == 2
    assert "--baseline must be one of near, far; got 'neat'." in err


def test_every_sample_is_embedded_once(mallow, home, monkeypatch):
    """Without a cache; equal texts of one file are embedded once."""
    monkeypatch.setenv("MALLOW_CACHE", "off")
    for command in ("compare", "report"):
        assert mallow(f"{command} human.jsonl near.jsonl far.jsonl -e letters:Lengths --repeats 1 -q")[0] == 0
        calls = sys.modules["letters"].Lengths.calls
        assert calls == [len(set(read(f"{name}.jsonl").texts)) for name in ("human", "near", "far")], command
        calls.clear()


def test_a_permutation_test_prints_a_p_value_and_what_it_is_about(mallow):
    code, out, _ = mallow("permutation-test human.jsonl far.jsonl -e letters:letters --permutations 99")
    assert code == 0
    assert out == (
        "p = 0.01: the probability of a gap at least this large if 400 reference and 400 model samples came from one "
        "distribution, by 99 permutations; it is exact only if all samples are independent.\n"
    )
    _, out, _ = mallow("permutation-test human.jsonl near.jsonl -e letters:letters --format json")
    assert json.loads(out)["p_value"] > 0.05
    out = mallow("permutation-test human.jsonl far.jsonl -e letters:letters --permutations 9 --format markdown")[1]
    assert "| p-value | 0.1 |" in out


def test_a_plan_tells_how_many_samples(mallow, monkeypatch):
    for name, value in (("_TRIALS", 3), ("_LARGEST", 100)):  # the tests of the plan have more
        monkeypatch.setattr(sys.modules["mallow.evaluate._pilot"], name, value)
    command = f"plan human.jsonl near.jsonl far.jsonl {EMBED} --detect 0.2 -q"
    code, out, _ = mallow(command)
    assert code == 0
    assert re.match(r"Take \d+ samples of the reference and of each system, ", out)
    n = json.loads(mallow(f"{command} --format json")[1])["n"]
    table = mallow(f"{command} --format markdown")[1]
    assert f"| samples per side | {n:,} |" in table
    assert "| difference to detect | 0.2 |" in table
    assert json.loads(mallow(f"{command} --format json --level 0.01")[1])["n"] > n


@pytest.fixture
def before(mallow, home):
    """The JSON file of an earlier score."""
    (home / "before.json").write_text(mallow(f"score human.jsonl near.jsonl {EMBED} -q --format json")[1])


@pytest.mark.usefixtures("before")
def test_a_check_fails_only_on_a_real_drop(mallow):
    options = "--baseline before.json -e letters:letters -q"
    code, out, _ = mallow(f"check human.jsonl near.jsonl {options}")
    assert (code, out.startswith("Ok: ")) == (0, True)
    code, out, _ = mallow(f"check human.jsonl far.jsonl {options}")
    assert (code, out.startswith("Not ok: ")) == (1, True)
    code, out, _ = mallow(f"check human.jsonl far.jsonl {options} --format markdown")
    assert (code, "| verdict | not ok |" in out, "| allowed drop | 0.02 |" in out) == (1, True, True)
    assert r"verdict & not ok \\" in mallow(f"check human.jsonl far.jsonl {options} --format latex")[1]
    assert mallow(f"check human.jsonl far.jsonl {options} --max-drop 0.99")[0] == 0


@pytest.mark.usefixtures("before")
def test_a_check_takes_the_measure_of_its_baseline(mallow, home):
    with_bins = mallow(f"score human.jsonl near.jsonl {EMBED} -q --format json --bins 20")[1]
    (home / "with-bins.json").write_text(with_bins)
    command = "check human.jsonl near.jsonl -e letters:letters -q --baseline"
    code, _, err = mallow(f"{command} with-bins.json")
    assert (code, "`measure` must be passed, since the baseline was made with Measure(Quantize(bins=20" in err) == (
        1,
        True,
    )
    assert mallow(f"{command} with-bins.json --bins 20")[0] == 0
    code, _, err = mallow(f"{command} before.json --bins 20")
    assert (code, "`measure` must be that of the baseline, Measure(Quantize(bins=auto" in err) == (1, True)
    assert mallow(f"{command} before.json --measure mauve-star")[0] == 0


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("compare human.jsonl near.jsonl -o x.txt", 1, "x.txt: must end in one of .json; got '.txt'"),
        ("check human.jsonl far.jsonl", 2, "Missing option '--baseline'"),
        ("check human.jsonl far.jsonl --baseline gone.json", 1, "gone.json: No such file"),
        (f"plan human.jsonl near.jsonl far.jsonl --detect 2 {EMBED}", 1, "`detect` must"),
        (f"plan human.jsonl far.jsonl far.jsonl {EMBED}", 1, "`model_a` and `model_b` must be different systems"),
        (f"plan human.jsonl human.jsonl human.jsonl {EMBED}", 1, "`model_a` and `model_b` must be different systems"),
        ("permutation-test human.jsonl far.jsonl --permutations 0", 2, "0 is not in the range x>=1"),
        (
            "permutation-test human.jsonl far.jsonl -e letters:letters --estimator gaussian",
            1,
            "`measure` must quantise for a permutation test",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(refused, command, code, message):
    refused(command, code, message)
