"""The commands from samples to verdicts: what they return, write and refuse."""

import io
import json
import re
import sys
from xml.etree import ElementTree

import pytest

from mallow.evaluate import Comparison, Score
from mallow.samples import read

EMBED = "-e letters:letters --repeats 2"


def test_json_is_the_whole_score(mallow):
    code, out, _ = mallow(f"score human.jsonl far.jsonl {EMBED} --format json -q")
    score = Score.from_json(out)
    assert code == 0
    assert 0 < score.mauve < 0.6 < score.self_score["mauve"]
    assert score.n == (200, 200)


def test_a_comparison_is_saved(mallow, home):
    code, _, err = mallow(f"compare human.jsonl a=near.jsonl far.jsonl {EMBED} -o comparison.json")
    assert code == 0
    assert "comparison.json: written" in err
    assert list(Comparison.from_json((home / "comparison.json").read_text()).scores) == ["a", "far"]


def test_the_other_systems_are_compared_with_a_baseline(mallow):
    command = f"compare human.jsonl near.jsonl far.jsonl {EMBED} --baseline"
    code, out, _ = mallow(f"{command} near")
    assert code == 0
    assert re.search(r"^far − near  +-0\.\d{4}  +-[01]\.\d{4} to -0\.\d{4}", out, re.MULTILINE)
    assert "Compared with the proven gap of near: the gap of far is larger." in out
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
    command = "permutation-test human.jsonl near.jsonl -e letters:letters"
    code, out, _ = mallow(f"{command} --permutations 99")
    assert code == 0
    assert re.fullmatch(
        r"p = [01](\.\d+)?: the probability of a gap at least this large if 200 reference and 200 model samples came from one "
        r"distribution, by 99 permutations in which samples with the same id or prompt stay together\.\n",
        out,
    )
    data = json.loads(mallow(f"{command} --format json")[1])
    assert data["p_value"] > 0.05
    assert (data["permutations"], data["exact"], data["tail"], data["n"]) == (999, True, False, [200, 200])
    assert min(data["statistics"].values()) <= data["p_value"]


def test_a_permutation_test_says_what_it_could_not_exchange(mallow, home):
    command = "permutation-test human.jsonl far.jsonl -e letters:letters --permutations 99"
    code, out, _ = mallow(command)
    assert code == 0
    assert re.match(r"p < 0\.00020?: the probability of a gap", out)
    assert "by 4,999 permutations" in out  # all that are drawn in tests; users get 99,999
    assert len(out.splitlines()) == 1
    table = mallow(f"{command} --format markdown")[1]
    assert re.search(r"\| p-value +\| < 0\.00020? +\|", table)
    assert re.search(r"\| exact +\| yes +\|", table)
    assert re.search(r"\| p-value of total variance by itself +\| [01]", table)
    lines = [json.loads(line) for line in (home / "near.jsonl").read_text().splitlines()]
    groups = [json.dumps(line | {"id": f"group {i // 4}"}) for i, line in enumerate(lines)]
    (home / "groups.jsonl").write_text("\n".join(groups))
    out = mallow("permutation-test human.jsonl groups.jsonl -e letters:letters --permutations 99")[1]
    assert out.splitlines()[-1] == (
        "The groups of samples of both sides differ in size, so that only a part of each large group was used. Give both "
        "sides the same prompts to use all."
    )
    groups = [json.dumps(line | {"id": f"group {i // 50}"}) for i, line in enumerate(lines)]
    (home / "groups.jsonl").write_text("\n".join(groups))
    out = mallow("permutation-test human.jsonl groups.jsonl -e letters:letters --permutations 99")[1]
    assert out.startswith("No answer: the samples of a side come in fewer than five groups")


def test_a_permutation_test_has_no_options_of_a_measure(refused):
    refused("permutation-test human.jsonl far.jsonl --estimator gaussian", 2, "No such option")


def test_a_plan_tells_how_many_samples(mallow):
    command = "plan human.jsonl near.jsonl far.jsonl -e letters:letters --detect 0.2 -q"
    code, out, _ = mallow(command)
    assert code == 0
    assert re.match(r"Take [\d,]+ samples of the reference and of each system: ", out)
    n = json.loads(mallow(f"{command} --format json")[1])["n"]
    table = mallow(f"{command} --format markdown")[1]
    assert f"| samples per side | {n:,} |" in table
    assert "| difference to detect | 0.2 |" in table
    assert json.loads(mallow(f"{command} --format json --detect 0.05")[1])["n"] > n


@pytest.fixture
def before(mallow, home):
    """The JSON file of an earlier score."""
    (home / "before.json").write_text(mallow(f"score human.jsonl near.jsonl {EMBED} -q --format json")[1])


@pytest.mark.usefixtures("before")
def test_a_check_has_three_outcomes(mallow, home):
    options = "--baseline before.json -e letters:letters -q"
    code, out, _ = mallow(f"check human.jsonl near.jsonl {options}")
    assert (code, out.startswith("Passed: certified MAUVE did not change ")) == (0, True)
    code, out, _ = mallow(f"check human.jsonl far.jsonl {options}")
    assert (code, out.startswith("Regression: certified MAUVE dropped by ")) == (3, True)
    code, out, _ = mallow(f"check human.jsonl far.jsonl {options} --strict --format markdown")
    assert (code, "| outcome | regression |" in out, "| allowed drop | 0.02 |" in out) == (3, True, True)
    assert r"outcome & regression \\" in mallow(f"check human.jsonl far.jsonl {options} --format latex")[1]
    assert mallow(f"check human.jsonl far.jsonl {options} --max-drop 0.999")[0] == 0
    (home / "few.jsonl").write_text("\n".join((home / "near.jsonl").read_text().splitlines()[:60]))
    command = f"check human.jsonl few.jsonl {options} --limit 60"
    code, out, _ = mallow(command)
    assert (code, out.startswith("Cannot tell: certified MAUVE ")) == (0, True)
    assert mallow(f"{command} --strict")[0] == 4
    for strict, code, kind in (("", 0, "skipped"), ("--strict", 4, "failure")):
        assert mallow(f"{command} {strict} --junit few.xml")[0] == code
        (case,) = ElementTree.parse(home / "few.xml").getroot().iter("testcase")
        assert case.find(kind).get("message") == out.splitlines()[0]


@pytest.mark.usefixtures("before")
def test_a_check_writes_for_continuous_integration(mallow, home, monkeypatch, refused):
    summary = home / "summary.md"
    summary.write_text("# Earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    command = "check human.jsonl far.jsonl --baseline before.json -e letters:letters"
    code, _, err = mallow(f"{command} --junit junit.xml --github-summary")
    assert (code, "junit.xml: written" in err) == (3, True)
    (case,) = ElementTree.parse(home / "junit.xml").getroot().iter("testcase")
    assert case.get("name") == "far.jsonl against human.jsonl, baseline before.json"
    assert case.find("failure").get("message").startswith("Regression: ")
    assert summary.read_text(encoding="utf-8").startswith("# Earlier\n### mallow check: ❌ regression\n")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    refused(f"{command} --github-summary", 1, "--github-summary needs the environment variable GITHUB_STEP_SUMMARY")
    refused(f"{command} --junit junit.txt", 1, "junit.txt: must end in one of .xml; got '.txt'.")


@pytest.mark.usefixtures("before")
def test_a_check_takes_the_measure_of_its_baseline(mallow, home):
    with_bins = mallow(f"score human.jsonl near.jsonl {EMBED} -q --format json --bins 20")[1]
    (home / "with-bins.json").write_text(with_bins)
    command = "check human.jsonl near.jsonl -e letters:letters -q --baseline"
    code, _, err = mallow(f"{command} with-bins.json")
    assert (code, "--measure must be passed, since the baseline was made with Measure(Quantize(bins=20" in err) == (
        1,
        True,
    )
    assert mallow(f"{command} with-bins.json --bins 20")[0] == 0
    code, _, err = mallow(f"{command} before.json --bins 20")
    assert (code, "--measure must be the measure of the baseline, Measure(Quantize(bins=auto" in err) == (1, True)
    assert mallow(f"{command} before.json --measure mauve-star")[0] == 0


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("compare human.jsonl near.jsonl -o x.txt", 1, "x.txt: must end in one of .json; got '.txt'"),
        ("check human.jsonl far.jsonl", 2, "Missing option '--baseline'"),
        ("check human.jsonl far.jsonl --baseline gone.json", 1, "gone.json: cannot be read: No such file"),
        ("plan human.jsonl near.jsonl far.jsonl --detect 2 -e letters:letters", 1, "--detect must"),
        (
            "plan human.jsonl far.jsonl far.jsonl -e letters:letters",
            1,
            "MODEL_A and MODEL_B must be different systems",
        ),
        ("plan human.jsonl human.jsonl human.jsonl -e letters:letters", 1, "the pilot shows no gap: with 200 samples"),
        ("permutation-test human.jsonl far.jsonl --permutations 0", 2, "0 is not in the range x>=1"),
    ],
)
def test_mistakes_are_told_in_one_line(refused, command, code, message):
    refused(command, code, message)


def test_training_data_show_whether_a_model_copies(mallow, home):
    lines = (home / "near.jsonl").read_text().splitlines()
    train = [json.dumps({"id": f"t{i}", "text": json.loads(line)["text"]}) for i, line in enumerate(lines[:60])]
    (home / "train.jsonl").write_text("\n".join(train))
    command = f"score human.jsonl near.jsonl {EMBED} --train train.jsonl"
    code, out, _ = mallow(command)
    assert code == 0
    assert "published" in out
    assert "The model copies training data (p = " in out
    assert "training: " in out
    parts = json.loads(mallow(f"{command} --format json -q")[1])
    assert parts["score"]["mauve"] > 0.5
    assert parts["memorisation"]["p_value"] < 0.05
    assert json.loads(mallow(f"{command} --summary -q")[1])["memorisation"]["listed"] >= 60
    assert mallow(f"{command} --format markdown -q")[1].count("| near copies") == 1


def with_topics(home):
    for name in ("human", "near", "far"):
        rows = [json.loads(line) for line in (home / f"{name}.jsonl").read_text().splitlines()]
        topics = [row | {"topic": "ab"[row["id"] % 2], "size": len(row["text"])} for row in rows]
        (home / f"{name}.jsonl").write_text("\n".join(map(json.dumps, topics)))


def test_a_score_is_matched_by_a_column_and_split_by_another(mallow, home):
    with_topics(home)
    code, out, _ = mallow(f"score human.jsonl far.jsonl {EMBED} --match-column size --by topic -o score.json")
    assert code == 0
    assert "of the certified gap goes with size: " in out
    assert "A gap is proven in both groups (5% level, corrected for all groups)." in out
    assert Score.from_json((home / "score.json").read_text()).n == (200, 200)
    parts = json.loads(mallow(f"score human.jsonl far.jsonl {EMBED} --match-column length --format json -q")[1])
    assert parts["matched"]["covariate"] == "length"
    assert parts["groups"] is None


def test_a_column_that_is_not_there_is_named(mallow, refused, monkeypatch):
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED} --by topic")
    assert code == 1
    assert "human.jsonl: no column 'topic'. Name a column that all entries have." in err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n{"text": "b"}')))
    refused(f"score - far.jsonl {EMBED} --by topic", 2, "The column topic cannot be read from standard input")


def test_a_column_that_hardly_overlaps_is_named_with_its_option(mallow, home):
    for name in ("human", "far"):
        rows = [json.loads(line) | {"topic": name} for line in (home / f"{name}.jsonl").read_text().splitlines()]
        (home / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED} --match-column topic")
    assert code == 1
    assert "--match-column leaves 0 samples of the reference and 0 of the model: topic hardly overlaps." in err
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED} --by topic")
    assert code == 1
    assert "--by must have a group with at least 30 samples on each side, but the largest of 2 has 0." in err


def test_a_winner_needs_all_embedders(mallow):
    command = "robust human.jsonl near.jsonl far.jsonl --repeats 1 -e letters:letters"
    code, out, _ = mallow(f"{command} -e letters:Lengths")
    assert code == 0
    assert "certified MAUVE" in out
    assert re.search(r"They agree on \d of 1 pairs", out)
    code, _, err = mallow(command)
    assert code == 2
    assert "--embedder must be given at least twice: -e minilm -e glove." in err


def test_two_gaps_are_compared(mallow):
    code, out, _ = mallow(f"gaps human.jsonl near.jsonl human.jsonl far.jsonl {EMBED}")
    assert code == 0
    assert "The gap of far is larger: certified MAUVE of near minus that of far is +0." in out


def test_a_passport_is_written_and_verified(mallow, home):
    (home / "secret").write_text("open sesame\n")
    command = f"score human.jsonl far.jsonl {EMBED} --passport passport.json --passport-key secret"
    code, out, err = mallow(command)
    assert code == 0
    assert "passport.json: written" in err
    assert "published" in out
    code, out, _ = mallow("passport verify passport.json --key secret")
    assert code == 0
    assert "The passport is valid: it was signed with this key, and all 17 checks agree." in out
    text = (home / "passport.json").read_text()
    (home / "passport.json").write_text(
        re.sub(r'("mauve": 0\.\d)(\d)', lambda m: m[1] + str((int(m[2]) + 1) % 10), text, count=1)
    )
    code, out, _ = mallow("passport verify passport.json")
    assert code == 1
    assert "The passport is NOT valid: digest, published mauve do not agree." in out
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED} --passport-key secret")
    assert code == 2
    assert "--passport-key is for --passport FILE, which is not given." in err


def test_rows_are_pairs_if_the_user_says_so(mallow, home):
    for name in ("human", "near", "far"):
        (home / f"{name}.txt").write_text("\n".join(read(f"{name}.jsonl").texts[:60]))
    for command, systems in (("score", "far.txt"), ("compare", "near.txt far.txt")):
        for flag, words in (("", "120 independent texts"), (" --paired", "60 pairs by row")):
            code, out, _ = mallow(f"{command} human.txt {systems} {EMBED}{flag}")
            assert (code, f" | {words} | " in out) == (0, True), (command, flag)
    code, out, _ = mallow("permutation-test human.txt far.txt -e letters:letters --paired")
    assert code == 0
    (home / "short.txt").write_text("\n".join(read("far.jsonl").texts[:59]))
    code, _, err = mallow(f"score human.txt short.txt {EMBED} --paired")
    assert code == 1
    assert "--paired needs sets of equal length; got reference: 60, model: 59. Give the samples ids or prompts" in err


def test_the_permutation_test_says_what_was_exchanged(mallow, home):
    for name in ("human", "far"):
        lines = (home / f"{name}.jsonl").read_text().splitlines()[:24]
        rows = [{"text": json.loads(line)["text"], "prompt": f"prompt {row % 6}"} for row, line in enumerate(lines)]
        (home / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = "permutation-test human.jsonl far.jsonl -e letters:letters --permutations 49"
    outputs = [mallow(f"{command} {option}")[1] for option in ("--independent-samples", "--dependent-samples")]
    twice = "The p-value is twice the smaller of the two."
    assert [twice in " ".join(output.split()) for output in outputs] == [True, False]
