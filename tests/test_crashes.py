"""Every writer under every fault at every point: what is read afterwards is old or new, never half."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crash_points import Writer, check_writer, reach

TESTS = Path(__file__).resolve().parent
# The names in crash_writers.py, which is run in a process of its own: it forks.
WRITERS = (
    "cache",
    "new cache",
    "repair of the cache",
    "samples.jsonl",
    "samples.csv.gz",
    "samples.parquet",
    "features.npz",
    "features.npy",
    "embed",
    "report",
    "generate",
    "generate again",
    "sweep",
)
CARELESS = {
    "in place": "torn at 1 (write 4): read b'ne', neither old nor new",
    "without sync": "undisturbed: out.txt is not synchronised",
    "without sync of the folder": "undisturbed: the folder of out.txt is not synchronised",
    "leaves its file": "error at 2 (fsync .tmp): .out.tmp was left behind",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, dict]:
    """What `check_writer` found for each writer."""
    command = [sys.executable, str(TESTS / "crash_writers.py"), str(tmp_path_factory.mktemp("crashes"))]
    # One thread: processes are forked, and a pool of threads does not survive that.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_what_is_read_after_a_fault_is_old_or_new(outcomes):
    for name in WRITERS:
        result = outcomes[name]
        assert result["wrong"] == [], name
        assert {point.split()[0] for point in result["points"]} >= {"create", "write", "fsync", "rename"}, name
        assert result["tried"] >= 3 * len(result["points"]), name


def test_careless_writers_are_found_out(outcomes):
    for name, complaint in CARELESS.items():
        assert complaint in outcomes[name]["wrong"]


def test_all_writers_are_checked(outcomes):
    assert set(outcomes) == {*WRITERS, *CARELESS}
    assert sum(outcomes[name]["tried"] for name in WRITERS) > 500


def test_steps_without_python_files_are_points(tmp_path):
    """What a database does between two files it says itself."""

    def write(folder):
        reach("begin")
        (folder / "a").write_text("1")
        reach("commit")
        (folder / "b").write_text("1")

    def read(folder):
        return sorted(file.name for file in folder.iterdir())

    reach("outside of a run")  # nothing happens
    found = check_writer(Writer(lambda folder: None, write, read), tmp_path)
    assert [point for point in found.points if point.startswith("reach")] == ["reach begin", "reach commit"]
    assert any(line.startswith("kill at 3 (reach commit): read ['a'], neither old nor new") for line in found.wrong)
