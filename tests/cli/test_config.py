"""Options from a file, names from other packages, and what a shell completes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[tool.mallow]
embedder = "letters:letters"
repeats = 7

[tool.mallow.compare]
repeats = 1
reference = "human.jsonl"
systems = {first = "near.jsonl", second = "far.jsonl"}
"""


def test_a_project_holds_a_long_command(mallow, home):
    (home / "pyproject.toml").write_text(CONFIG)
    code, out, err = mallow("--config pyproject.toml compare")
    assert code == 0
    assert "Smallest proven gap: first." in out
    assert "repeats=1" in out
    assert "mallow: note: from pyproject.toml: reference, systems, embedder, repeats\n" in err
    line = "compare human.jsonl third=far.jsonl --repeats 2 -e letters:letters -q"
    code, out, err = mallow(line)  # what is written on the line wins
    assert (code, err) == (0, "")
    assert "third was compared with the reference only" in out
    assert "repeats=2" in out


@pytest.mark.parametrize(
    ("settings", "line", "message"),
    [
        ('embedder = "letters:letters"', "score human.jsonl far.jsonl", "embedder names a program"),
        ('estimator = "letters:NUMBER"', "score points.npy points.npy", "estimator names a program"),
        (
            'embedder = "net.pt"\nembedder-option = ["run_code=True"]',
            "score human.jsonl far.jsonl",
            "embedder-option lets a program run",
        ),
        ('out = "taken.json"', "score points.npy points.npy", "out says which files are written, or where to connect"),
        ('engine = "ray://10.0.0.1:1"', "score points.npy points.npy", "engine says which files are written"),
    ],
)
def test_a_project_that_nobody_named_runs_and_writes_nothing(refused, home, settings, line, message):
    """Whoever unpacks a folder and works in it has not asked for its programs."""
    (home / "letters.py").write_text("open('ran', 'w').close()\n" + (home / "letters.py").read_text())
    (home / "pyproject.toml").write_text(f"[tool.mallow]\n{settings}\n")
    refused(f"{line} -q", 2, f"pyproject.toml: {message}")
    assert not (home / "ran").exists()
    assert not (home / "taken.json").exists()


def test_what_a_project_says_of_another_command_does_not_matter(mallow, home):
    (home / "pyproject.toml").write_text('[tool.mallow.check]\nembedder = "letters:letters"\njunit = "taken.xml"\n')
    assert mallow("score points.npy points.npy --repeats 1 -q")[0] == 0


def test_settings_are_read_without_waiting_and_without_end(mallow, refused, home):
    os.mkfifo(home / "pipe.toml")
    refused(
        "--config pipe.toml score points.npy points.npy", 2, "pipe.toml cannot be read: it is not a file on a disk."
    )
    (home / "zero.toml").symlink_to("/dev/zero")
    refused(
        "--config zero.toml score points.npy points.npy", 2, "zero.toml cannot be read: it is not a file on a disk."
    )
    (home / "large.toml").write_text("#" * 1_000_001)
    refused("--config large.toml score points.npy points.npy", 2, "it has 1.0 MB; at most 1 MB are read.")
    (home / "latin.toml").write_bytes(b'field = "\xe9"')
    refused("--config latin.toml score points.npy points.npy", 2, "latin.toml cannot be read: it is not UTF-8.")
    for place in ("pipe.toml", "zero.toml", "large.toml", "latin.toml"):  # a project that is none is left alone
        (home / place).rename(home / "pyproject.toml")
        assert mallow("score points.npy points.npy --repeats 1 -q")[0] == 0


def test_a_yaml_file(mallow, home):
    pytest.importorskip("yaml", reason="needs PyYAML: pip install 'mallow[config]'")
    (home / "run.yaml").write_text("score:\n  embedder: letters:letters\n  repeats: 1\n  skip-bad: true\n")
    code, out, err = mallow("--config run.yaml score human.jsonl far.jsonl")
    assert (code, "repeats=1" in out) == (0, True)
    assert "from run.yaml: embedder, repeats, skip-bad" in err or "from run.yaml: embedder, skip-bad, repeats" in err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "[score]\nrepeat = 1", "a.toml: `mallow score` has no option 'repeat'. Did you mean repeats?"),
        ("a.toml", "embeder = 1", "a.toml: there is no command or option 'embeder'. Did you mean embedder?"),
        ("a.toml", "score = 5", "a.toml: score must hold the options of that command; got 5."),
        ("a.toml", "score = ", "--config: a.toml is not valid: Invalid value"),
        ("a.ini", "", "--config must end in .toml, .yaml or .yml; got 'a.ini'."),
        ("a.yaml", "- 1", "--config: a.yaml must hold names and values; got list."),
        ("a.yaml", "tool: 5", "--config: a.yaml must hold names and values; got int."),
        (
            "a.yaml",
            "repeats: 010",
            "010 is read as different numbers by different programs. Write it in a different way",
        ),
        ("a.yaml", "repeats: 1\nrepeats: 2", "the key 'repeats' occurs twice"),
        ("a.yaml", "repeats: true", "a.yaml: repeats must be a text or a number; got true."),
        ("a.toml", "repeats = true", "a.toml: repeats must be a text or a number; got true."),
        ("a.toml", "repeats = 2.7", "'2.7' is not a valid integer"),
        ("a.yaml", "repeats: yes", "'yes' is not a valid integer"),
        ("a.yaml", "5: 1", "a.yaml: there is no command or option 5."),
        ("a.yaml", "score: [1]", "a.yaml: score must hold the options of that command; got list."),
        ("a.yaml", "a: &a [1]\nb: *a", "aliases (*name) are not read: a few lines of them"),
        ("a.yaml", "repeats: [1, 2]", "a.yaml: repeats must be one value; got list."),
        ("a.yaml", "repeats: {a: 1}", "a.yaml: repeats must be one value; got dict."),
        ("a.yaml", "systems: {a: [x]}", "a.yaml: systems must hold texts, numbers, true or false; got list."),
        ("a.yaml", "systems: [null]", "a.yaml: systems must hold texts, numbers, true or false; got NoneType."),
        ("a.yaml", "x: " + "[" * 5000, "--config: a.yaml is not valid: maximum recursion depth exceeded"),
    ],
)
def test_a_wrong_file_is_told(refused, home, name, text, message):
    (home / name).write_text(text)
    refused(f"--config {name} score human.jsonl far.jsonl", 2, message)
    refused("--config gone.toml score human.jsonl far.jsonl", 2, "--config: gone.toml cannot be read: No such file")


PLUGINS = {
    "embedders": "letters2 = offered:letters",
    "estimators": "few = offered:Few",
    "metrics": "centre gap = offered:centre_gap\nbroken = offered:broken",
}
OFFERED = """
import numpy as np
from mallow import Quantize
from letters import letters


def Few():
    return Quantize(bins=7)


Few = Few()


def centre_gap(x, y):
    return np.linalg.norm(x.mean(axis=0) - y.mean(axis=0))


def broken(x, y):
    raise OSError("no luck")
"""


@pytest.fixture
def package(home, monkeypatch):
    """An installed package that offers an embedder, an estimator and metrics."""
    (home / "offered.py").write_text(OFFERED)
    info = home / "offered-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(f"[mallow.{kind}]\n{line}\n" for kind, line in PLUGINS.items()))
    monkeypatch.syspath_prepend(str(home))
    yield
    sys.modules.pop("offered", None)


def test_names_that_other_packages_offer(mallow, refused, package):
    code, out, _ = mallow("score human.jsonl far.jsonl -e letters2 --estimator few --repeats 1 -q")
    assert (code, "bins=7" in out) == (0, True)
    code, out, err = mallow("baselines human.jsonl near.jsonl far.jsonl -e letters2 --repeats 1 --all --limit 40")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("centre gap"))
    assert "±" not in row
    assert "*" not in row
    assert "broken is left out: it raised OSError: no luck" in err
    refused("score human.jsonl far.jsonl -e leters2", 1, "there is no embedder 'leters2'. Did you mean letters2?")
    refused("score human.jsonl far.jsonl --estimator fwe", 2, "gaussian, few or package.module:object; got 'fwe'.")


def test_a_shell_completes_commands_and_options():
    def complete(words):
        more = {"_MALLOW_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        run = subprocess.run(
            [sys.executable, "-m", "mallow"],
            capture_output=True,
            text=True,
            env=os.environ | more | {"PYTHONPATH": str(ROOT / "src")},
        )
        return run.returncode, run.stdout.split()

    assert complete("mallow sc") == (0, ["plain,score"])
    assert complete("mallow score a b --skip") == (0, ["plain,--skip-bad"])


def test_the_action_calls_the_command_as_it_is(mallow, home):
    """What examples/github/mallow-check.yml runs is a command that exists, with options that exist."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML: pip install 'mallow[config]'")
    job = yaml.safe_load((ROOT / "examples" / "github" / "mallow-check.yml").read_text())["jobs"]["check"]
    [line] = [step["run"] for step in job["steps"] if "mallow check" in step.get("run", "")]
    code, _, err = mallow(*line.split()[1:])
    assert (code, "GITHUB_STEP_SUMMARY" in err or "data/baseline.json" in err) == (1, True)
