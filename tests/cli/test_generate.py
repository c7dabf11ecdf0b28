"""The commands that write texts with a language model: generate, sweep."""

import json
import re

import pytest

from mallow.evaluate import Sweep
from mallow.generate import NGram
from mallow.samples import read

GENERATE = "generate human.jsonl --model ngram:3 --train near.jsonl --tokens 5 --max-new 6 -n 2 -o out.jsonl"
SWEEP = (
    "sweep human.jsonl --limit 180 --model ngram:2 --train near.jsonl --tokens 3 --max-new 9 -o made -e letters:letters "
    "--repeats 2 --decoders nucleus:0.2,0.9,1"
)


def test_texts_are_written_and_a_second_run_adds_none(mallow, home):
    code, out, err = mallow(GENERATE)
    assert (code, out) == (0, "")
    fitted = NGram.fit(read("near.jsonl").texts, order=3).name
    assert err == f"out.jsonl: 400 texts, 400 of them new; {fitted}, nucleus:0.95\n"
    written = read("out.jsonl")
    assert written.ids[:3] == ("0", "0", "1")
    assert read("human.jsonl").texts[0].startswith(written.prompts[0])
    before = (home / "out.jsonl").read_bytes()
    (home / "out.jsonl").write_bytes(before[:5000])  # a run that was killed
    assert "out.jsonl: 400 texts, " in mallow(GENERATE)[2]
    assert (home / "out.jsonl").read_bytes() == before
    assert "400 texts, 0 of them new" in mallow(GENERATE)[2]
    code, _, err = mallow(f"{GENERATE} --rng 1")
    assert code == 1
    assert "mallow: out.jsonl: was started with rng = 0, not 1. Write to another file, or start again" in err
    assert mallow(f"{GENERATE} --rng 1 --overwrite")[0] == 0
    assert (home / "out.jsonl").read_bytes() != before


def test_options_reach_the_texts(mallow, home):
    assert mallow(f"{GENERATE} --with-prompt --limit 3 --min-new 6")[0] == 0
    written = read("out.jsonl")
    assert len(written) == 6
    for text, prompt in zip(written.texts, written.prompts, strict=True):
        assert text.startswith(prompt)
        assert text != prompt
    assert [json.loads(line)["tokens"] for line in (home / "out.jsonl").read_text().splitlines()] == [6] * 6
    command = "generate human.jsonl --model ngram --train near.jsonl --decoder greedy --whole-prompts -o whole.jsonl"
    assert mallow(f"{command} --limit 2 --max-new 2 --batch 1")[0] == 0
    assert read("whole.jsonl").prompts == read("human.jsonl").texts[:2]


def test_a_model_fitted_to_what_it_continues_is_told(mallow):
    command = "generate human.jsonl --model ngram --tokens 5 --max-new 2 -o out.jsonl"
    code, _, err = mallow(command)
    assert code == 0
    told = "mallow: warning: the n-gram model is fitted to the very texts that it continues. Fit it to others with --train."
    assert told in err
    assert "warning" not in mallow(f"{command} -q")[2]


def test_short_texts_are_left_out_on_request(mallow, home):
    with (home / "human.jsonl").open("a") as stream:
        stream.write('\n{"id": "short", "text": "a"}\n')
    code, _, err = mallow(GENERATE)
    assert code == 1
    assert "1 of 201 in human.jsonl are shorter, such as 'short' with 1." in err
    assert "leave them out with --skip-short." in err
    assert not (home / "out.jsonl").exists()
    code, _, err = mallow(f"{GENERATE} --skip-short")
    assert code == 0
    assert "mallow: warning: human.jsonl: 1 of 201 texts are shorter than 5 tokens and were left out." in err
    assert "400 texts" in err


def test_a_sweep_is_a_table_a_verdict_and_a_picture(mallow, home):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'mallow[plot]'")
    code, out, err = mallow(f"{SWEEP} --decoders greedy --plot curve.png")
    assert code == 0
    assert "curve.png: written" in err
    assert (home / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "mallow: caveat: all four systems: only 180 samples" in err
    verdict, table, itself, differences, signature = out.strip().split("\n\n")
    _, head, *rows = table.splitlines()
    assert re.split(r"  +", head.strip()) == ["MAUVE", "bound", "(no gap)", "MAUVE", "repeat samples", "rank"]
    certified = [float(row.split()[1]) for row in rows]
    assert certified == sorted(certified, reverse=True)  # best first
    assert {row.split()[0] for row in rows} == {"nucleus:0.2", "nucleus:0.9", "nucleus:1.0", "greedy"}
    assert itself.startswith("self-score")
    assert len(differences.splitlines()) == 2 + 6
    data = json.loads(mallow(f"{SWEEP} --decoders greedy --format json")[1])
    assert (data["kind"], data["files"]["nucleus:0.2"]) == ("mallow sweep", "made/nucleus-0.2.jsonl")
    assert verdict == Sweep.from_dict(data).verdict  # whatever the order of the rows
    assert "greedy" not in verdict.split(". ")[0]  # it is not among the best
    assert "letters" in signature


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("generate human.jsonl -o out.jsonl", 2, "Missing option '--model'"),
        ("generate human.jsonl --model ngram", 2, "Missing option '--out'"),
        ("generate gone.jsonl --model ngram -o out.jsonl", 1, "gone.jsonl: no such file"),
        (
            "generate points.npy --model ngram --train human.jsonl -o out.jsonl",
            1,
            "points.npy: text samples are needed here; got features samples.",
        ),
        ("generate human.jsonl --model ngram:x -o out.jsonl", 2, "--model ngram:ORDER takes a whole number; got 'x'."),
        ("generate human.jsonl --model ngram:0 -o out.jsonl", 1, "`order` must be an integer of at least 1; got 0."),
        (
            "generate human.jsonl --model gpt2 --train human.jsonl -o out.jsonl",
            2,
            "--train is for n-gram models; other models are already trained.",
        ),
        ("generate human.jsonl --model ngram -o out.txt", 1, "out.txt: the suffix must be .jsonl"),
        ("generate human.jsonl --model ngram -o no/out.jsonl", 1, "no/out.jsonl: the folder no does not exist."),
        ("generate human.jsonl --model ngram --decoder nuclear:1 -o out.jsonl", 1, "Did you mean nucleus?"),
        (
            "generate human.jsonl --model ngram --decoder greedy -n 2 --tokens 2 -o out.jsonl",
            1,
            "-n must be 1 for greedy",
        ),
        (
            "generate human.jsonl --model ngram --min-new 9 --max-new 3 -o out.jsonl",
            1,
            "--min-new must be at most max_new = 3",
        ),
        (
            "generate human.jsonl --model ./gone -o out.jsonl",
            1,
            "a local folder or a .gguf file, but there is no ./gone.",
        ),
        ("generate human.jsonl --model gone.gguf -o out.jsonl", 1, "there is no gone.gguf."),
        ("sweep human.jsonl --model ngram -o made", 2, "Missing option '--decoders'"),
        (
            "sweep human.jsonl --model ngram --decoders nucleus:a -o made",
            1,
            "`decoder` must have a number in nucleus:P",
        ),
        ("sweep human.jsonl --model ngram --decoders greedy -o made --plot curve.gif7", 1, "must end in one of"),
        (
            "sweep human.jsonl --model ngram --decoders greedy -o made --plot no/x.png",
            1,
            "no/x.png: the folder no does not",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(refused, home, command, code, message):
    refused(command, code, message)
    assert not (home / "out.jsonl").exists()
    assert not (home / "made").exists()


@pytest.mark.parametrize("model", ["no-such/model", "no-such/model@v2"])
def test_an_unknown_model(mallow, home, monkeypatch, model):
    pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, out, err = mallow(f"generate human.jsonl --model {model} -o out.jsonl")
    assert (code, out) == (1, "")
    assert "is not among the downloaded models, and the hub cannot be reached" in err
    assert ("at 'v2'" in err) == model.endswith("v2")
    assert not (home / "out.jsonl").exists()
