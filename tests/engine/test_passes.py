"""What a checkpoint holds is continued from, or told to be damaged; never waited for, never believed."""

import os
import shutil

import numpy as np
import pytest

from interrupted import interruptions
from mallow import InputError, Threads
from mallow.engine import Passes


def double(task):
    return 2 * task


def add(state, task, result):
    state["sum"] += result
    state["tasks"] += 1


def run(folder, tasks=5, function=double, work="work"):
    passes = Passes(Threads(1, checkpoint=str(folder)), work)
    state = passes.run("pass", function, range(tasks), {"sum": np.zeros(()), "tasks": np.zeros(2, np.int64)}, add)
    return float(state["sum"]), state["tasks"].tolist()


def file_of(folder):
    (file,) = folder.rglob("pass.npz")
    return file


def change(file, **values):
    """The same file with other values."""
    with np.load(file) as arrays:
        kept = dict(arrays)
    np.savez(file, **(kept | values))


def test_what_is_done_is_not_done_again(tmp_path):
    asked = []

    def fail_at_three(task):
        asked.append(task)
        if task == 3 and asked.count(3) == 1:
            raise ValueError("three")
        return double(task)

    with pytest.raises(ValueError, match="three"):
        run(tmp_path, function=fail_at_three)
    assert run(tmp_path, function=fail_at_three) == (20, [5, 5])
    assert [asked.count(task) for task in range(3)] == [1, 1, 1]


def test_an_interruption_between_any_two_operations_counts_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("mallow.engine._engine._EVERY", -1.0)
    monkeypatch.setattr("mallow.engine._engine._SHARE", 1.0)
    folders = [tmp_path / "0"]
    for operation in interruptions(lambda: run(folders[-1], tasks=3), (Passes.run, add)):
        assert run(folders[-1], tasks=3) == (6, [3, 3]), operation
        folders.append(tmp_path / str(len(folders)))
    assert len(folders) > 100


@pytest.mark.parametrize(
    "change_file",
    [
        lambda file: change(file, sum=np.float64(1000)),
        lambda file: change(file, done=np.int64(3)),
        lambda file: change(file, tasks=np.zeros(2, np.int32)),
        lambda file: change(file, more=np.zeros(1)),
    ],
)
def test_a_changed_value_is_not_continued_from(tmp_path, change_file):
    run(tmp_path)
    change_file(file_of(tmp_path))
    with pytest.raises(InputError, match=r"pass\.npz: the checkpoint is damaged: its values were changed\. Remove it"):
        run(tmp_path)


def test_a_checkpoint_of_another_work_is_not_continued_from(tmp_path):
    run(tmp_path / "a", work="other")
    run(tmp_path / "b")
    shutil.copy(file_of(tmp_path / "a"), file_of(tmp_path / "b"))
    with pytest.raises(InputError, match="its values were changed"):
        run(tmp_path / "b")


@pytest.mark.parametrize("done", [6, -1, 10**6])
def test_more_than_all_cannot_be_done(tmp_path, done):
    run(tmp_path)
    passes = Passes(Threads(1, checkpoint=str(tmp_path)), "work")
    passes._save("pass", {"sum": np.zeros(()), "tasks": np.zeros(2, np.int64)}, done)
    with pytest.raises(InputError, match=r"the checkpoint of pass is damaged\. Remove the folder and start again"):
        run(tmp_path)


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    run(tmp_path)
    file = file_of(tmp_path)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match=r"pass\.npz: is a device or a pipe, not a file on a disk"):
        run(tmp_path)
