"""The command line in a folder of its own, with texts by people, texts of a near and of a far model, and an embedder."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mallow import cli

WORDS = ["apple", "bear", "cat", "dune", "east", "fig", "gate", "hill", "ink", "jazz"]
LETTERS = """
import numpy as np


def letters(texts):
    return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)


class Lengths:
    name = "Lengths(test)"
    kind = "text"
    calls = []

    def __call__(self, texts):
        Lengths.calls.append(len(texts))
        return np.array([[len(text), len(text.split())] for text in texts], float)


NUMBER = 5
"""


def sample_texts() -> dict[str, str]:
    """The content of each .jsonl file."""
    rng = np.random.default_rng(0)
    files = {}
    for name, end in (("human", 10), ("near", 10), ("far", 6)):
        texts = [" ".join(rng.choice(WORDS[:end], size=rng.integers(8, 30))) + "." for _ in range(200)]
        files[name] = "\n".join(json.dumps({"id": i, "text": text}) for i, text in enumerate(texts))
    return files


FILES = sample_texts()


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """The working folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / f"{name}.jsonl").write_text(content)
    (folder / "letters.py").write_text(LETTERS)
    np.save(folder / "points.npy", np.random.default_rng(1).normal(size=(50, 3)))
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)  # otherwise wide tables are not printed as tables
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "letters", raising=False)
    return folder


@pytest.fixture
def mallow(home, monkeypatch, capsys):
    """Run the command line: the exit code, standard output and standard error. A single string is split at spaces."""

    monkeypatch.setattr("mallow.engine._progress._FIRST_LINE", 600.0)  # whatever else the machine does

    def run(*arguments: object) -> tuple[int, str, str]:
        words = arguments[0].split() if len(arguments) == 1 else map(str, arguments)
        monkeypatch.setattr(sys, "argv", ["mallow", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return run


@pytest.fixture
def refused(mallow):
    """Run the command line with a mistake: it must end with this code and one message, and print no result."""

    def check(command: str, code: int, message: str) -> None:
        actual, out, err = mallow(command)
        assert (actual, out) == (code, "")
        assert message in err
        assert "Traceback" not in err

    return check
