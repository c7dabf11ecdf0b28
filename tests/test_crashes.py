"""Every writer under every fault at every point: what is read afterwards is old or new, never half."""

import json
import os
import subprocess
import sys
from pathlib import Path

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
    "statistics",
    "embed",
    "embed shards",
    "checkpoint",
    "votes",
    "report",
    "generate",
    "generate again",
    "sweep",
)
CARELESS = {
    "in place": "torn at 1 (write 4): read b'ne', neither old nor new",
    "without sync": "undisturbed: out.txt is not synchronised",
    "without sync of the folder": "undisturbed: the folder of out.txt is not synchronised",
    "two steps": "kill at 3 (reach commit): read b'half', neither old nor new",
    "leaves its file": "error at 2 (fsync .tmp): .out.tmp was left behind",
    "study without transactions": (
        "kill at 13 (step INSERT INTO settings (name, value) VALUE): cannot be read: the database is damaged: its setting "
        "`secret` is missing. Restore a copy of the file."
    ),
}


def test_what_is_read_after_a_fault_is_old_or_new(tmp_path):
    command = [sys.executable, str(TESTS / "crash_writers.py"), str(tmp_path)]
    # One thread: processes are forked, and a pool of threads does not survive that.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    outcomes = json.loads(run.stdout)
    assert set(outcomes) == {*WRITERS, *CARELESS, "study"}
    for name in WRITERS:
        points = outcomes[name]["points"]
        assert outcomes[name]["wrong"] == [], name
        assert {point.split()[0] for point in points} >= {"create", "write", "fsync", "rename"}, name
        assert outcomes[name]["tried"] >= 3 * len(points), name
    assert sum(outcomes[name]["tried"] for name in WRITERS) > 500
    study = outcomes["study"]  # a database: its points are statements
    assert study["wrong"] == []
    assert sum(point == "step COMMIT" for point in study["points"]) == 2 + 8  # schema, settings, and each call
    assert "step PRAGMA synchronous = FULL" in study["points"]
    assert study["tried"] >= 2 * len(study["points"]) > 100
    for name, complaint in CARELESS.items():  # the check can fail
        assert complaint in outcomes[name]["wrong"], outcomes[name]["wrong"]
