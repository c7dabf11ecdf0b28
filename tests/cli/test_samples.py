"""Samples on the command line: which files, under which names."""

import json

import pytest

EMBED = "-e letters:letters --repeats 1"


def test_skipped_entries_are_counted(mallow, home):
    with (home / "human.jsonl").open("a") as stream:
        stream.write('\n{"id": 200, "text": ""}\n{"id": 201}\n')
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED}")
    assert code == 1
    assert "human.jsonl:201: empty text. Fix it, or skip bad entries with --skip-bad." in err
    code, _, err = mallow(f"score human.jsonl far.jsonl {EMBED} --skip-bad")
    assert code == 0
    assert "mallow: human.jsonl: 2 bad entries skipped: human.jsonl:201: empty text and 1 more\n" in err


def test_a_limit_is_kept(mallow):
    out = mallow(f"score human.jsonl far.jsonl {EMBED} --limit 100 -q")[1]
    assert "n=100, m=100" in out


def test_a_limit_counts_prompts(mallow, home):
    lines = [json.loads(line) for line in (home / "far.jsonl").read_text().splitlines()]
    twice = [json.dumps(line | {"text": line["text"] + end}) for line in lines for end in ("", " hill.")]
    (home / "twice.jsonl").write_text("\n".join(twice))
    out = mallow(f"score human.jsonl twice.jsonl {EMBED} --limit 100 -q")[1]
    assert "n=100, m=200" in out


def test_a_system_that_is_the_reference_itself_is_told(mallow):
    code, out, err = mallow(f"compare human.jsonl same=./human.jsonl {EMBED}")
    assert code == 0
    assert "mallow: warning: same is the reference itself, so it scores 1 whatever it contains." in err
    row = [line for line in out.splitlines() if line.startswith("same ")][-1]
    assert row.split()[1] == "1.0000"


def test_each_side_has_its_own_field(mallow, home):
    texts = [
        [json.loads(line)["text"] for line in (home / f"{name}.jsonl").read_text().splitlines()]
        for name in ("human", "far")
    ]
    rows = [{"h": h, "answer": {"m": m}} for h, m in zip(*texts, strict=True)]
    (home / "pairs.json").write_text(json.dumps(rows))
    code, out, err = mallow(f"compare pairs.json:h model=pairs.json:answer.m {EMBED}")
    assert code == 0
    assert "is the reference itself" not in err
    assert "model was compared with the reference only. The gap is real" in out


def test_files_of_one_name_are_named_after_their_folders(mallow, home):
    for step, name in ((9, "far"), (10, "near"), (11, "near")):
        (home / f"ckpt-{step}").mkdir()
        (home / f"ckpt-{step}" / "samples.jsonl").write_text((home / f"{name}.jsonl").read_text())
    command = f"track human.jsonl ckpt-10/samples.jsonl ckpt-11/samples.jsonl ckpt-9/samples.jsonl {EMBED} -q"
    out = mallow(f"{command} --out track.json")[1]
    assert "It changed: closer from ckpt-10 on." in out
    assert json.loads((home / "track.json").read_text())["kind"] == "mallow track"
    brief = mallow(f"{command} --summary")[1]
    assert list(json.loads(brief)["checkpoints"]) == ["ckpt-9", "ckpt-10", "ckpt-11"]
    assert len(brief.splitlines()) <= 20


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("score human.jsonl", 2, "Missing argument 'MODEL'"),
        ("score - -", 2, "Only one of REFERENCE and MODEL can be standard input."),
        ("plan - - far.jsonl", 2, "Only one of REFERENCE, MODEL_A and MODEL_B can be standard input."),
        ("score gone.jsonl far.jsonl", 1, "gone.jsonl: no such file. Did you mean "),
        ("score human.jsonl points.npy", 1, "All samples must be of one kind; got reference: text, model: features"),
        ("score . near.jsonl", 1, "mallow: ."),
        (
            "score human.jsonl:body near.jsonl",
            1,
            "choose one with --field, or write REFERENCE:FIELD for a single file. Fix it, or skip bad entries with --skip-bad.",
        ),
        ("score human.jsonl near.jsonl:body", 1, "or write MODEL:FIELD for a single file."),
        ("compare human.jsonl a=near.jsonl:body", 1, "or write a=near.jsonl:body:FIELD for a single file."),
        (f"score human.jsonl near.jsonl --bins 5000 {EMBED}", 1, "got 5000. Leave out --bins, or pass more samples."),
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
