"""Files in the working folder run only where they are asked for, after being told of, and never instead of packages."""

import os
import subprocess
import sys

import pytest

HARM = "open('harm', 'w').close()\n"
TEXTS = '{"text": "one two"}\n{"text": "three"}\n'
MINE = "def lengths(texts):\n    return [[len(text)] for text in texts]\n"


def run(folder, *arguments, start=("-m", "mallow")):
    command = [sys.executable, *start, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts.jsonl").write_text(TEXTS)
    return tmp_path


@pytest.mark.parametrize("start", [("-m", "mallow"), ("-c", "from mallow.cli import main; main()")])
def test_a_file_does_not_stand_for_a_package(folder, start):
    # The installed command has its own folder first; `-P` with -c comes nearest to it.
    if start[0] == "-c":
        start = ("-P", *start)
    for name in ("huggingface_hub", "sentence_transformers", "transformers", "click", "platformdirs", "numpy", "rich"):
        (folder / f"{name}.py").write_text(HARM)
    for embedder in ("sentence:nosuch/model", *(["nosuch/model"] if start[0] == "-m" else [])):
        done = run(folder, "embed", "texts.jsonl", "-e", embedder, "-o", "out.npz", start=start)
        assert done.returncode == 1
        assert "--embedder nosuch/model is not among the downloaded models" in done.stderr
        assert "note" not in done.stderr
    assert not (folder / "harm").exists()


def test_a_module_is_found_and_told_of(folder):
    (folder / "mine.py").write_text(f"import mpmath\n{MINE}")
    (folder / "mpmath.py").write_text(HARM)  # cannot hide the installed package
    done = run(folder, "embed", "texts.jsonl", "-e", "mine:lengths", "-o", "out.npz")
    assert done.returncode == 0, done.stderr
    assert "mallow: note: mine:lengths runs code of the working folder: mine.py\n" in done.stderr
    assert not (folder / "harm").exists()
    assert "note" not in run(folder, "embed", "texts.jsonl", "-e", "mine:lengths", "-o", "out.npz", "-q").stderr


def test_a_package_is_found_and_told_of(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "mine" / "part.py").write_text(MINE)
    done = run(folder, "embed", "texts.jsonl", "-e", "mine.part:lengths", "-o", "out.npz")
    assert done.returncode == 0, done.stderr
    assert "mallow: note: mine.part:lengths runs code of the working folder: mine\n" in done.stderr


def test_code_from_elsewhere_is_not_told_of(folder):
    (folder / "numpy.py").write_text(HARM)
    done = run(folder, "embed", "texts.jsonl", "-e", "numpy:ones_like", "-o", "out.npz")
    assert done.returncode == 1
    assert "note" not in done.stderr
    assert not (folder / "harm").exists()


def test_a_working_folder_that_is_gone(folder):
    gone = folder / "gone"
    gone.mkdir()
    done = subprocess.run(
        [
            "sh",
            "-c",
            f'rmdir "{gone}"; exec "{sys.executable}" -m mallow embed ../texts.jsonl -e mine:x -o /dev/null/x',
        ],
        cwd=gone,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
