"""The examples that need more than one process, run as users run them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_a_monitor_over_two_processes_ends_by_itself_with_the_bits_of_one():
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / "distributed_monitor.py"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert "step 0: 100 samples, p = 1.0000\n" in run.stdout
    assert "step 7: 800 samples, p = 0.0001, ALARM\n" in run.stdout
    assert run.stdout.endswith("One process with all samples: the same bits.\n")
