"""What a checkpoint holds is continued from, or told to be damaged; never waited for, never believed."""

import logging
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from interrupted import interruptions
from mallow import InputError, Threads
from mallow.engine import Passes, _engine


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


@pytest.mark.parametrize("cost", [0.0, 1.0, 6.0])
@pytest.mark.parametrize("pace", [4.0, 7.0])
def test_checkpoints_come_every_20_seconds_and_take_a_twentieth_of_the_time(tmp_path, monkeypatch, pace, cost):
    now, saves = [1000.0], []

    def save(self, name, state, done):
        saves.append(done)
        now[0] += cost

    def work(task):
        now[0] += pace
        return task

    monkeypatch.setattr(_engine, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Passes, "_save", save)
    run(tmp_path, tasks=60, function=work)
    clock, saved, spent, expected = 0.0, 0.0, 0.0, []
    for done in range(1, 61):
        clock += pace
        if clock - saved > 20 and spent <= clock / 20:
            expected.append(done)
            clock += cost
            saved, spent = clock, spent + cost
    assert saves == [*expected, 60]  # and at the end
    assert spent <= cost + clock / 20
    assert len(expected) > 2


def test_what_is_continued_and_how_long_it_took_is_in_the_log(tmp_path, caplog):
    def fail_at_three(task):
        if task == 3:
            raise ValueError("three")
        return task

    with pytest.raises(ValueError, match="three"):
        run(tmp_path, function=fail_at_three)
    with caplog.at_level(logging.INFO, "mallow"):
        run(tmp_path)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "pass: continuing from the checkpoint, 3 of 5 tasks are done"
    assert messages[1] == "pass: 5 tasks in 0.0 s"
    caplog.clear()
    made = []
    passes = Passes(Threads(1, checkpoint=str(tmp_path)), "work")
    with caplog.at_level(logging.INFO, "mallow"):
        for _ in range(2):
            kept = passes.keep("table", lambda: {"a": np.arange(3), "b": np.float64(len(made) or made.append(1) or 7)})
            assert (kept["a"].tolist(), float(kept["b"])) == ([0, 1, 2], 7.0)
    assert [record.getMessage() for record in caplog.records] == ["table: 0.0 s", "table: taken from the checkpoint"]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_parts_of_a_work_are_kept_until_the_whole_is_complete(tmp_path):
    engine = Threads(1, checkpoint=str(tmp_path))
    whole = Passes(engine, "whole")
    part = Passes(engine, "part", within=whole)
    part.keep("table", lambda: {"a": np.zeros(1)})
    part_of_other = Passes(engine, "part", within=Passes(engine, "other"))
    assert part_of_other.keep("table", lambda: {"a": np.ones(1)})["a"] == 1
    folders = [path.parent.parent for path in tmp_path.rglob("table.npz")]
    assert len(set(folders)) == 2
    whole.finish()
    assert len(list(tmp_path.rglob("table.npz"))) == 1
    nowhere = Passes(Threads(1), "part", within=Passes(Threads(1), "whole"))
    assert [nowhere.keep("table", lambda value=value: {"a": value})["a"] for value in (1, 2)] == [1, 2]
    nowhere.finish()
