"""The program itself: its exit codes, its help, the terminal, and what Ctrl-C leaves behind."""

import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from human_votes import simulate
from mallow import cli
from mallow.human import write_votes

EMBED = "-e letters:letters --repeats 2"


def shell(home, command, **environment):
    variables = os.environ | {"PYTHONPATH": str(home)} | environment
    return subprocess.run(["bash", "-c", command], cwd=home, capture_output=True, text=True, env=variables)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("scor", "No such command 'scor'. Did you mean score?"),
        ("comapre human.jsonl", "No such command 'comapre'. Did you mean compare?"),
        ("xyz", "No such command 'xyz'. The commands are score, compare,"),
        ("compare human.jsonl near.jsonl --repeat 3", "'--repeats'?"),
    ],
)
def test_unknown_names_are_answered_with_a_suggestion(refused, command, message):
    refused(command, 2, message)


def test_the_command_runs_as_a_module(home):
    done = shell(home, f"{sys.executable} -m mallow --version")
    assert re.fullmatch(r"mallow \d+\.\d+\.\d+\n", done.stdout)
    script = Path(sys.executable).with_name("mallow")
    if not script.exists():
        pytest.skip("the console script is not installed beside this Python")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == done.stdout


def test_a_broken_pipe_is_silent(home):
    compare = f"{sys.executable} -m mallow compare human.jsonl near.jsonl far.jsonl {EMBED} -q"
    done = shell(home, f"{compare} | head -1")
    assert done.stderr == ""
    assert "Smallest proven gap: near." in done.stdout
    reader, writer = os.pipe()
    os.close(reader)  # nobody will ever read
    process = subprocess.Popen(
        [sys.executable, "-m", "mallow", "score", "--help"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert process.communicate()[1] == ""
    assert process.returncode == 1


def test_a_narrow_terminal_and_no_colour(home):
    mallow = f"{sys.executable} -m mallow"
    outputs = []
    for words in ("--help", "score --help", f"compare human.jsonl near.jsonl far.jsonl -q {EMBED}"):
        done = shell(home, f"{mallow} {words}", COLUMNS="40", NO_COLOR="1")
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr
        outputs.append(done.stdout)
    narrow, _, compared = outputs
    assert max(map(len, narrow.splitlines())) <= 42  # the usage line is not wrapped
    table, signature = compared.split("\nmallow ")
    assert signature.count("\n") == 1  # one line, to be copied
    assert max(map(len, table.splitlines())) <= 52  # the longest pair of heading and value
    assert re.search(r"^near\ncertified MAUVE +\d\.\d+$", table, re.MULTILINE)


def test_help_is_fast(home):
    """Less than 0.3 s of processor time; the best of three, since other processes share the machine."""
    best = 9.0
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert shell(home, f"{sys.executable} -m mallow score --help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert best < 0.3


def test_every_help_has_an_example(mallow):
    for name in cli.cli.commands:
        code, out, _ = mallow(name, "--help")
        assert code == 0
        assert re.search(rf"Example:\n +mallow {name}", out), name


def test_examples_run(mallow, home):
    """The example in the help of each command, with our files; `demo`, `annotate` and `fid` run for long and have their own tests."""
    names = {"small": "near", "large": "far", "model": "far", "new": "far", "result": "before"}
    _, before, _ = mallow(f"score human.jsonl near.jsonl {EMBED} -q --format json")
    (home / "before.json").write_text(before)
    assert mallow(f"score human.jsonl near.jsonl {EMBED} -q --passport passport.json")[0] == 0
    for own in ("human", "model"):
        for language in ("de", "en"):
            (home / f"{own}-{language}.jsonl").write_text((home / f"{names.get(own, own)}.jsonl").read_text())
    for step, own in enumerate(("far", "far", "near")):
        (home / f"ckpt-{step}.jsonl").write_text((home / f"{own}.jsonl").read_text())
    for name in ("before", "after"):  # two completions of each of twenty prompts
        rows = [{"prompt": f"{i % 20}", "text": f"{name} {i}"} for i in range(40)]
        (home / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    write_votes(home / "votes.jsonl", simulate({"a": 40.0, "b": 0.0, "c": -40.0}, 300, seed=0, question="human-like"))
    (home / "metrics.csv").write_text("system,mauve,mauve std\na,0.9,0.01\nb,0.8,0.01\nc,0.85,0.01\n")
    for name in ("small", "large"):  # scores of twenty items
        rows = [{"item": f"{i}", "correct": i % 3 == (name == "large")} for i in range(20)]
        (home / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in cli.cli.commands:
        if name in ("demo", "annotate", "fid"):
            continue
        _, out, _ = mallow(name, "--help")
        example = re.search(rf"Example:\n +mallow ({name}.*(\n +.*)*)", out)[1]
        for old, new in names.items() if name not in ("generate", "items") else ():
            example = re.sub(rf"\b{old}\.(jsonl|json)\b", rf"{new}.\1", example)
        example = example.replace("-e minilm -e glove", "-e letters:Lengths")
        own = {
            "cache": "",
            "passport": "",
            "generate": "-q",
            "items": "-q",
            "rank": "-q",
            "correlate": "-q",
            "likelihoods": "-q",
            "study": "-q --per-pair 9 --length 8-20",
        }
        more = own.get(name, "-q -e letters:letters")
        code, _, err = mallow(f"{example} {more}")
        assert code == (3 if name == "check" else 0), (example, err)  # the model of `check` is worse


def test_the_page_of_commands_is_their_help():
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location("commands_page", root / "docs" / "commands.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page_text(), "run make docs"
    for name in cli.cli.commands:
        assert f"\n## {name}\n" in writer.page_text()


def test_ctrl_c_leaves_no_broken_files(home, tmp_path):
    place = tmp_path / "slow"
    place.mkdir()
    (place / "slow.py").write_text(
        "import time\n\n\ndef slow(texts):\n    print('embedding', flush=True)\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "mallow", "report", "human.jsonl", "near.jsonl", "-e", "slow:slow"]
    process = subprocess.Popen(
        [*command, "-o", str(place / "page.html")],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(place)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # workers of a test run may ignore it
    )
    with process:
        assert process.stdout.readline() == "embedding\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("mallow: stopped\n")
    assert [path.name for path in place.iterdir() if path.name not in ("slow.py", "__pycache__")] == []
