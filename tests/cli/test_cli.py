"""The command line: what is printed where, and the exit code; no work of its own is tested here."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mallow import cli
from mallow.samples import read

EMBEDDER = """
import numpy as np


def letters(texts):
    return np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)


class Lengths:
    name = "Lengths(test)"
    kind = "text"
    calls = 0

    def __call__(self, texts):
        Lengths.calls += len(texts)
        return np.array([[len(text), len(text.split())] for text in texts], float)


NUMBER = 5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with texts of two kinds and a module with embedders."""
    rng = np.random.default_rng(0)
    words = ["apple", "bear", "cat", "dune", "east", "fig", "gate", "hill", "ink", "jazz"]
    for name, end in (("human", 10), ("model", 6)):
        texts = [" ".join(rng.choice(words[:end], size=rng.integers(4, 30))) for _ in range(600)]
        (tmp_path / f"{name}.jsonl").write_text(
            "\n".join(json.dumps({"id": i, "text": t}) for i, t in enumerate(texts))
        )
    (tmp_path / "myembed.py").write_text(EMBEDDER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "myembed", raising=False)
    return tmp_path


def run(monkeypatch, capsys, *arguments: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["mallow", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.fixture
def mallow(folder, monkeypatch, capsys):
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def test_a_score_is_a_table_and_a_signature(mallow):
    code, out, err = mallow("score", "human.jsonl", "model.jsonl", "-e", "myembed:letters", "--repeats", "2")
    assert (code, "warning: only 600 samples" in err) == (0, True)
    head, *rows, blank, signature = out.splitlines()
    assert head.split() == ["score", "std", "95", "%", "interval", "debiased", "floor"]
    assert [row.split()[0] for row in rows] == ["MAUVE", "integral", "mid-point"]
    assert (blank, "letters, width=26" in signature, "repeats=2" in signature) == ("", True, True)
    assert max(map(len, [head, *rows])) < 80


def test_json_is_the_whole_score(mallow):
    options = ("-e", "myembed:letters", "--format", "json", "--repeats", "1", "--bins", "20", "--scale", "2")
    code, out, _ = mallow("score", "human.jsonl", "model.jsonl", *options, "--divergence", "chi2", "--seed", "3")
    found = json.loads(out)
    assert code == 0
    assert found["kind"] == "mallow score"
    assert 0 < found["mauve"] < 0.6 < found["noise_floor"]["mauve"]
    for part in ("bins=20", "CHI2", "scale=2", "rng=3"):
        assert part in found["signature"]


def test_features_written_once_serve_instead_of_the_samples(mallow, folder):
    for name in ("human", "model"):
        code, out, err = mallow("embed", f"{name}.jsonl", "-e", "myembed:Lengths", "-o", f"{name}.npz")
        assert (code, out) == (0, "")
        assert f"{name}.npz: 600 x 2, Lengths(test)" in err
    assert read(folder / "human.npz").ids[:2] == ("0", "1")
    options = ("--repeats", "1", "--format", "json")
    code, out, _ = mallow("score", "human.npz", "model.npz", *options)
    assert code == 0
    _, direct, _ = mallow("score", "human.jsonl", "model.jsonl", "-e", "myembed:Lengths", *options)
    found, wanted = json.loads(out), json.loads(direct)
    assert found.pop("warnings") != wanted.pop("warnings")  # of texts there is more to say
    assert found == wanted  # the signature too: provenance names the embedder
    code, _, _ = mallow("embed", "model.jsonl", "-e", "myembed:letters", "-o", "other.npz")
    code, _, err = mallow("score", "human.npz", "other.npz")
    assert code == 1
    assert "Features of different embedders cannot be compared" in err


def test_a_second_run_embeds_nothing(mallow):
    for _ in range(2):
        mallow("embed", "human.jsonl", "-e", "myembed:Lengths", "-o", "human.npz")
    assert sys.modules["myembed"].Lengths.calls == len(set(read("human.jsonl").texts))


def test_the_cache_is_shown_pruned_and_cleared(mallow, tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path / "cache"))
    mallow("embed", "human.jsonl", "-e", "myembed:Lengths", "-o", "human.npz")
    code, out, _ = mallow("cache")
    assert code == 0
    assert re.search(r"0\.0 MB +\d+ rows  used \d{4}-\d\d-\d\d  Lengths\(test\)", out)
    assert mallow("cache", "show")[1] == out
    assert mallow("cache", "prune", "--unused-days", "30")[1] == "removed 0.0 MB\n"
    assert "Lengths" in mallow("cache")[1]
    assert mallow("cache", "clear")[0] == 0
    assert "Lengths" not in mallow("cache")[1]
    monkeypatch.setenv("MALLOW_CACHE", "off")
    assert mallow("cache")[::2] == (1, "mallow: There is no cache: MALLOW_CACHE is off.\n")


def test_an_audit_says_what_an_embedder_is_blind_to(mallow):
    code, out, _ = mallow("audit", "human.jsonl", "-e", "myembed:letters", "--repeats", "2")
    assert code == 0
    seen = {line[:16].strip(): line.split()[-1] for line in out.splitlines()[2:7]}
    assert seen == {
        "words shuffled": "no",
        "first half": "unclear",
        "first quarter": "yes",
        "looping": "no",  # the texts are ten words, shuffled, to begin with
        "lower case": "no",
    }
    assert "No score with this embedder will tell: words shuffled, looping, lower case." in out
    code, out, _ = mallow("audit", "human.jsonl", "-e", "myembed:letters", "--repeats", "1", "--format", "json")
    assert [effect["edit"] for effect in json.loads(out)["effects"]] == list(seen)


def test_what_is_left_out_is_said(mallow, folder):
    with (folder / "human.jsonl").open("a") as stream:
        stream.write('\n{"id": 600, "text": ""}\n{"id": 601}\n')
    code, _, err = mallow("score", "human.jsonl", "model.jsonl", "-e", "myembed:letters", "--repeats", "1")
    assert code == 1
    assert "human.jsonl:601: empty text. Fix it, or skip bad entries with skip_bad=True (--skip-bad)." in err
    code, _, err = mallow(
        "score", "human.jsonl", "model.jsonl", "-e", "myembed:letters", "--skip-bad", "--repeats", "1"
    )
    assert code == 0
    assert "mallow: human.jsonl: 2 left out: human.jsonl:601: empty text and 1 more" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["scor"], 2, "No such command 'scor'. Did you mean score?"),
        (["score", "human.jsonl"], 2, "Missing argument 'MODEL'"),
        (["score", "-", "-"], 2, "Only one of REFERENCE and MODEL can be standard input"),
        (["score", "gone.jsonl", "model.jsonl"], 1, "gone.jsonl: no such file. Did you mean "),
        (
            ["score", "human.jsonl", "points.npy"],
            1,
            "All samples must be of one kind; got reference: text, model: features",
        ),
        (["score", "points.npy", "points.npy", "-e", "minilm"], 1, "Features are embedded already."),
        (["score", "human.jsonl", "model.jsonl", "-e", "inception"], 1, "inception embeds image samples"),
        (["score", "human.jsonl", "model.jsonl", "-e", "mini-lm"], 1, "Did you mean minilm?"),
        (["score", "human.jsonl", "model.jsonl", "-e", "nothere:x"], 1, "No module named 'nothere'"),
        (["score", "human.jsonl", "model.jsonl", "-e", "myembed:nothere"], 1, "has no attribute 'nothere'"),
        (["score", "human.jsonl", "model.jsonl", "-e", "myembed:NUMBER"], 1, "must be callable; myembed:NUMBER is int"),
        (["score", "human.jsonl", "model.jsonl", "-e", "gone.gguf"], 1, "there is no file gone.gguf"),
        (["score", "human.jsonl", "model.jsonl", "-e", "myembed.py"], 1, "must be a file that ends in .gguf, .onnx"),
        (["score", "human.jsonl", "model.jsonl", "-E", "pooling"], 2, "takes KEY=VALUE; got 'pooling'"),
        (
            ["score", "human.jsonl", "model.jsonl", "-e", "ngram", "-E", "size=3"],
            1,
            "ngram has no option 'size'; it has: n",
        ),
        (["embed", "human.jsonl", "-e", "myembed:letters", "-o", "no/where.npz"], 1, "the folder no does not exist"),
        (["embed", "points.npy", "-o", "x.npz"], 1, "points.npy holds features already"),
        (["embed", "human.jsonl", "-e", "ngram", "-o", "x.npz"], 1, "ngram has no features of its own"),
        (["audit", "points.npy"], 1, "points.npy: text samples are needed here; got features samples."),
        (
            ["audit", "human.jsonl", "--limit", "50", "-e", "myembed:letters"],
            1,
            "at least 200 texts to be split in two; got 50",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_told_in_one_line(mallow, folder, arguments, code, message):
    np.save(folder / "points.npy", np.ones((5, 2)))
    found, out, err = mallow(*arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_a_reader_that_leaves_is_no_error_to_talk_about(folder):
    command = f"{sys.executable} -m mallow score --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


def test_the_command_runs_as_a_module(folder):
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "mallow", "--version"], capture_output=True, text=True, env=environment
    )
    assert re.fullmatch(r"mallow \d+\.\d+\.\d+\n", done.stdout)
    script = Path(sys.executable).with_name("mallow")
    if not script.exists():
        pytest.skip("the console script is not installed beside this Python")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == done.stdout


def test_the_page_of_commands_is_their_help():
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location("commands_page", root / "docs" / "commands.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run make docs"
    for name in cli.cli.commands:
        assert f"\n## {name}\n" in made.page()
