"""Samples on the command line: which files, under which names."""

import json

import pytest

EMBED = "-e letters:letters --repeats 1"


def test_skipped_entries_are_counted(mallow, home):
    with (home / "human.jsonl").open("a") as stream:
        stream.write('\n{"id": 400, "text": ""}\n{"id": 401}\n')
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED}")
    assert code == 1
    assert "human.jsonl:401: empty text. Fix it, or skip bad entries with skip_bad=True (--skip-bad)." in err
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED} --skip-bad")
    assert code == 0
    assert "mallow: human.jsonl: 2 bad entries skipped: human.jsonl:401: empty text and 1 more\n" in err


def test_a_limit_is_kept(mallow):
    out = mallow(f"score human.jsonl far.jsonl {EMBED} --limit 200 -q")[1]
    assert "n=200, m=200" in out


def test_a_limit_counts_prompts(mallow, home):
    lines = [json.loads(line) for line in (home / "far.jsonl").read_text().splitlines()]
    twice = [json.dumps(line | {"text": line["text"] + end}) for line in lines for end in ("", " hill.")]
    (home / "twice.jsonl").write_text("\n".join(twice))
    out = mallow(f"score human.jsonl twice.jsonl {EMBED} --limit 200 -q")[1]
    assert "n=200, m=400" in out


def test_a_system_that_is_the_reference_itself_is_told(mallow):
    code, out, err = mallow(f"compare human.jsonl same=./human.jsonl {EMBED}")
    assert code == 0
    assert "mallow: warning: same is the reference itself, so it scores 1 whatever it contains." in err
    row = [line for line in out.splitlines() if line.startswith("same ")][-1]
    assert row.split()[1] == "1.0000"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("score human.jsonl", 2, "Missing argument 'MODEL'"),
        ("score - -", 2, "Only one of REFERENCE and MODEL can be standard input."),
        ("plan - - far.jsonl", 2, "Only one of REFERENCE, MODEL_A and MODEL_B can be standard input."),
        ("score gone.jsonl far.jsonl", 1, "gone.jsonl: no such file. Did you mean "),
        ("score human.jsonl points.npy", 1, "All samples must be of one kind; got reference: text, model: features"),
        ("score . near.jsonl", 1, "mallow: ."),
        ("compare human.jsonl", 2, "Missing argument 'NAME=PATH...'"),
        (
            "compare human.jsonl a=near.jsonl a=far.jsonl",
            2,
            "Two systems are called 'a': near.jsonl and far.jsonl. Give one of them another name: a-2=far.jsonl.",
        ),
        ("compare human.jsonl near.jsonl ./near.jsonl", 2, "Two systems are called 'near'"),
        ("compare human.jsonl =near.jsonl", 2, "A system is written NAME=PATH; got '=near.jsonl'."),
        ("compare human.jsonl a=gone.jsonl", 1, "gone.jsonl: no such file. Did you mean "),
        ("compare - a=-", 2, "Only one of the reference and the systems can be standard input."),
        ("compare human.jsonl points.npy", 1, "All samples must be of one kind"),
    ],
)
def test_mistakes_are_told_in_one_line(refused, command, code, message):
    refused(command, code, message)
