"""Programs that run with the packages of tests/integrations.txt, which the other tests do not see; none reaches a network."""

from __future__ import annotations

import importlib.machinery
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(sys.prefix, "integrations")  # where tools/install.py puts them
ROOT = Path(__file__).resolve().parent.parent

# Anything but this machine is refused, and told, in case that the package goes on without an answer.
_START = """
import os, sys, warnings
def guard(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in ("127.0.0.1", "::1", "localhost"):
        print("network:", arguments[1], file=sys.stderr, flush=True)
        raise OSError("tests have no network")
sys.addaudithook(guard)
warnings.simplefilter("ignore")  # those of other packages
folder = sys.argv[1]
"""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "GIT_PYTHON_REFRESH": "quiet", "OMP_NUM_THREADS": "1"}


@contextmanager
def beside(package: str, *needs: str) -> Iterator[types.ModuleType]:
    """A package of the folder in this process; afterwards neither it nor what it needs is found."""
    sys.path.append(str(FOLDER))
    try:
        yield pytest.importorskip(package, reason=f"needs {package}, of tests/integrations.txt: make test installs it")
    finally:
        sys.path.remove(str(FOLDER))
        for name in [name for name in sys.modules if name.partition(".")[0] in (package, *needs)]:
            del sys.modules[name]


def run_program(package: str, code: str, folder: Path, **environment: str) -> Any:
    """What a program prints last, read as JSON; it is started in `folder`, which is `folder` in it too.

    The test is skipped where the package is neither in the environment nor in the folder beside it; `make test` then fails.
    """
    path = [str(ROOT / "src"), str(FOLDER), str(ROOT / "tests")]
    if importlib.machinery.PathFinder.find_spec(package, [*sys.path, str(FOLDER)]) is None:
        pytest.skip(f"needs {package}, of tests/integrations.txt: make test installs it")
    run = subprocess.run(
        [sys.executable, "-c", _START + code, str(folder)],
        cwd=folder,
        env=os.environ | _OFFLINE | {"PYTHONPATH": os.pathsep.join(path), "HF_HOME": str(folder / "hf")} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "network:" not in run.stderr, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])
