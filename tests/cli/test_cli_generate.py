"""The commands generate and sweep: what is printed where, and the exit code."""

import json
import sys

import numpy as np
import pytest

from mallow import cli
from mallow.generate._ngram import NGram
from mallow.samples import read

EMBEDDER = """
import numpy as np


def letters(texts):
    return np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)
"""
WORDS = ["apple", "bear", "cat", "dune", "east", "fig", "gate", "hill", "ink", "jazz"]


@pytest.fixture
def mallow(tmp_path, monkeypatch, capsys):
    """The command line in a folder with texts and a module with an embedder."""
    rng = np.random.default_rng(0)
    for name in ("human", "other"):
        texts = [" ".join(rng.choice(WORDS, size=rng.integers(12, 20))) for _ in range(220)]
        lines = [json.dumps({"id": f"t{i}", "text": text}) for i, text in enumerate(texts)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    (tmp_path / "generating.py").write_text(EMBEDDER)
    np.save(tmp_path / "points.npy", np.ones((5, 2)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "generating", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(command):
        monkeypatch.setattr(sys, "argv", ["mallow", *command.split()])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return run


GENERATE = "generate human.jsonl --model ngram:3 --train other.jsonl --prompt-tokens 5 --max-new 6 -n 2 -o out.jsonl"


def test_texts_are_written_and_a_second_run_adds_none(mallow, tmp_path):
    code, out, err = mallow(GENERATE)
    assert (code, out) == (0, "")
    assert "warning" not in err
    fitted = NGram.fit(read("other.jsonl").texts, order=3).name
    assert err == f"out.jsonl: 440 texts, 440 of them new; {fitted}, nucleus:0.95\n"
    found = read("out.jsonl")
    assert found.ids[:3] == ("t0", "t0", "t1")
    assert read("human.jsonl").texts[0].startswith(found.prompts[0])
    before = (tmp_path / "out.jsonl").read_bytes()
    (tmp_path / "out.jsonl").write_bytes(before[:5000])  # a run that was killed
    assert "out.jsonl: 440 texts, " in mallow(GENERATE)[2]
    assert (tmp_path / "out.jsonl").read_bytes() == before
    assert "440 texts, 0 of them new" in mallow(GENERATE)[2]
    code, _, err = mallow(GENERATE + " --seed 1")
    assert code == 1
    assert "mallow: out.jsonl: was begun with rng = 0, not 1. Write to another file, or begin again" in err
    assert mallow(GENERATE + " --seed 1 --overwrite")[0] == 0
    assert (tmp_path / "out.jsonl").read_bytes() != before


def test_options_reach_the_texts(mallow, tmp_path):
    assert mallow(GENERATE + " --with-prompt --limit 3 --min-new 6")[0] == 0
    found = read("out.jsonl")
    assert len(found) == 6
    assert all(
        text.startswith(prompt) and text != prompt for text, prompt in zip(found.texts, found.prompts, strict=True)
    )
    assert [json.loads(line)["tokens"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [6] * 6
    command = "generate human.jsonl --model ngram --train other.jsonl --decode greedy --whole-prompts -o whole.jsonl"
    assert mallow(command + " --limit 2 --max-new 2 --batch 1")[0] == 0
    assert read("whole.jsonl").prompts == read("human.jsonl").texts[:2]


def test_a_model_fitted_on_what_it_continues_is_told(mallow):
    code, _, err = mallow("generate human.jsonl --model ngram --prompt-tokens 5 --max-new 2 -o out.jsonl")
    assert code == 0
    assert "mallow: warning: the n-gram model is fitted on the very texts that it continues. Fit it on others" in err


def test_short_texts_are_left_out_with_a_word(mallow, tmp_path):
    with (tmp_path / "human.jsonl").open("a") as stream:
        stream.write('\n{"id": "short", "text": "a"}\n')
    code, _, err = mallow(GENERATE)
    assert code == 1
    assert "1 of 221 in human.jsonl are shorter, such as 'short' with 1. Ask for fewer tokens, or leave them out" in err
    assert not (tmp_path / "out.jsonl").exists()
    code, _, err = mallow(GENERATE + " --skip-bad")
    assert code == 0
    assert "mallow: warning: human.jsonl: 1 of 221 texts are shorter than 5 tokens and were left out." in err
    assert "440 texts" in err


SWEEP = (
    "sweep human.jsonl --model ngram:2 --train other.jsonl --prompt-tokens 3 --max-new 9 -o made -e generating:letters "
    "--repeats 2 --decode nucleus:0.2,0.9,1"
)


def test_a_sweep_is_a_table_a_verdict_and_a_picture(mallow, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'mallow[plot]'")
    code, out, err = mallow(SWEEP + " --decode greedy --plot curve.png")
    assert code == 0
    assert "curve.png: drawn" in err
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    head, *rows, blank, verdict, signature = out.splitlines()
    assert head.split() == ["MAUVE", "std", "95", "%", "interval", "floor", "rank"]
    assert [row.split()[0] for row in rows] == ["nucleus:0.2", "nucleus:0.9", "nucleus:1.0", "greedy"]
    assert blank == ""
    assert verdict.startswith("No winner can be named: ")
    assert verdict.endswith(" cannot be told apart (5 % level, corrected for all pairs).")
    assert "greedy" not in verdict
    assert "letters" in signature
    assert max(map(len, [head, *rows])) < 100
    code, out, _ = mallow(SWEEP + " --format json")
    data = json.loads(out)
    assert (code, data["kind"], data["winner"]) == (0, "mallow sweep", None)
    assert data["files"]["nucleus:0.2"] == "made/nucleus-0.2.jsonl"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("generate human.jsonl -o out.jsonl", 2, "Missing option '--model'"),
        ("generate human.jsonl --model ngram", 2, "Missing option '--out'"),
        ("generate gone.jsonl --model ngram -o out.jsonl", 1, "gone.jsonl: no such file"),
        ("generate points.npy --model ngram --train human.jsonl -o out.jsonl", 1, "points.npy: text samples are needed here; got features samples."),
        ("generate human.jsonl --model ngram:x -o out.jsonl", 2, "--model ngram:ORDER takes a whole number; got 'x'."),
        ("generate human.jsonl --model ngram:0 -o out.jsonl", 1, "`order` must be an integer of at least 1; got 0."),
        ("generate human.jsonl --model gpt2 --train human.jsonl -o out.jsonl", 2, "--train is for --model ngram"),
        ("generate human.jsonl --model ngram -o out.txt", 1, "out.txt: the suffix must be .jsonl"),
        ("generate human.jsonl --model ngram -o no/out.jsonl", 1, "no/out.jsonl: the folder no does not exist."),
        ("generate human.jsonl --model ngram --decode nuclear:1 -o out.jsonl", 1, "Did you mean nucleus?"),
        (
            "generate human.jsonl --model ngram --decode greedy -n 2 --prompt-tokens 2 -o out.jsonl",
            1,
            "`n` must be 1 for greedy",
        ),
        (
            "generate human.jsonl --model ngram --min-new 9 --max-new 3 -o out.jsonl",
            1,
            "`min_new` must be at most max_new = 3",
        ),
        ("generate human.jsonl --model ./gone -o out.jsonl", 1, "a local folder or a .gguf file; there is no ./gone."),
        ("generate human.jsonl --model gone.gguf -o out.jsonl", 1, "there is no gone.gguf."),
        ("sweep human.jsonl --model ngram -o made", 2, "Missing option '--decode'"),
        ("sweep human.jsonl --model ngram --decode nucleus:a -o made", 1, "`decoder` must have a number in nucleus:P"),
        ("sweep human.jsonl --model ngram --decode greedy -o made --plot curve.gif7", 1, "must end in one of"),
        (
            "sweep human.jsonl --model ngram --decode greedy -o made --plot no/x.png",
            1,
            "no/x.png: the folder no does not",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(mallow, tmp_path, command, code, message):
    found, out, err = mallow(command)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "out.jsonl").exists()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("model", ["no-such/model", "no-such/model@v2"])
def test_an_unknown_model(mallow, tmp_path, model):
    pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
    code, out, err = mallow(f"generate human.jsonl --model {model} -o out.jsonl")
    assert (code, out) == (1, "")
    assert "is not among the downloaded models, and the hub cannot be reached" in err
    assert ("at 'v2'" in err) == model.endswith("v2")
    assert not (tmp_path / "out.jsonl").exists()
