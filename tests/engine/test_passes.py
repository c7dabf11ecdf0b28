"""What a checkpoint holds is continued from, or told to be damaged; never waited for, never believed."""

import os

import numpy as np
import pytest

from mallow import InputError, Threads
from mallow.engine import Passes


def double(task):
    return 2 * task


def run(folder, tasks=5):
    def add(state, task, result):
        state["sum"] += result

    passes = Passes(Threads(1, checkpoint=str(folder)), "work")
    return float(passes.run("pass", double, range(tasks), {"sum": np.zeros(())}, add)["sum"])


def file_of(folder):
    (file,) = folder.rglob("pass.npz")
    return file


def test_what_is_done_is_not_done_again(tmp_path):
    assert run(tmp_path) == 20
    np.savez(file_of(tmp_path), done=np.int64(3), sum=np.float64(1000))
    assert run(tmp_path) == 1000 + 6 + 8


@pytest.mark.parametrize("done", [6, -1, 10**6])
def test_more_than_all_cannot_be_done(tmp_path, done):
    run(tmp_path)
    np.savez(file_of(tmp_path), done=np.int64(done), sum=np.float64(1000))
    with pytest.raises(InputError, match=r"the checkpoint of pass is damaged\. Remove the folder and start again"):
        run(tmp_path)


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    run(tmp_path)
    file = file_of(tmp_path)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match=r"pass\.npz: is a device or a pipe, not a file on a disk"):
        run(tmp_path)
