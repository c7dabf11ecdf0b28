"""Files are written completely or not at all."""

import os

import pytest


@pytest.mark.parametrize(("option", "name"), [("--out", "score.json"), ("--plot", "frontier.png")])
def test_a_failed_write_leaves_the_old_file(mallow, home, monkeypatch, option, name):
    if option == "--plot":
        pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'mallow[plot]'")

    def fail(*_):
        raise OSError(28, "No space left on device")

    (home / name).write_text("old")
    before = sorted(path.name for path in home.iterdir())
    monkeypatch.setattr(os, "replace", fail)
    code, _, err = mallow(f"score points.npy points.npy --repeats 1 {option} {name}")
    assert code == 1
    assert f"{name}: cannot be written: No space left on device." in err
    assert sorted(path.name for path in home.iterdir()) == before
    assert (home / name).read_text() == "old"


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_pipe_is_refused_before_the_work_begins(refused, home, option):
    name = {"--out": "pipe.json", "--plot": "pipe.png"}[option]
    os.mkfifo(home / name)
    (home / "points.npy").write_bytes(b"never read")
    refused(f"score points.npy points.npy {option} {name}", 1, f"{name}: is a device or a pipe, not a file on a disk.")
