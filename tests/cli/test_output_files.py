"""Files are written completely or not at all."""

import os

import pytest

from mallow import InputError
from mallow.cli._commands import save_picture, save_text


@pytest.fixture
def full_disk(monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)


def test_a_failed_write_leaves_the_old_text(tmp_path, request):
    path = tmp_path / "comparison.json"
    save_text(path, "old")
    request.getfixturevalue("full_disk")
    with pytest.raises(InputError, match=r"comparison\.json: cannot be written: No space left on device\.$"):
        save_text(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["comparison.json"]
    assert path.read_text() == "old"


def test_a_failed_write_leaves_no_picture(tmp_path, full_disk):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'mallow[plot]'")
    with pytest.raises(InputError, match=r"frontier\.png: cannot be written: No space left on device\.$"):
        save_picture(tmp_path / "frontier.png", lambda ax: ax.plot([0, 1], [1, 0]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_pipe_is_refused_before_the_work_begins(refused, home, option):
    name = {"--out": "pipe.json", "--plot": "pipe.png"}[option]
    os.mkfifo(home / name)
    (home / "points.npy").write_bytes(b"never read")
    refused(f"score points.npy points.npy {option} {name}", 1, f"{name}: is a device or a pipe, not a file on a disk.")
