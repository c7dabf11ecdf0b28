"""Studies in files, and servers on loopback that end with their test."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from annotation_page import Served, make_study
from mallow import annotate
from mallow.human import Study, write_study

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def study_file(tmp_path):
    """Writes a study and returns its path."""

    def write(study: Study | None = None, **options: object) -> Path:
        path = tmp_path / "study.json"
        write_study(study or make_study(**options), path)
        return path

    return write


@pytest.fixture
def serve():
    """Serves a study in this process, on loopback, until the test ends."""
    with contextlib.ExitStack() as stack:

        def start(path: Path, *, lease: float = 1800.0, port: int = 0, url: str | None = None, **settings: object):
            settings.setdefault("limits", annotate.Limits(rate=1000.0, burst=1000.0))  # tests are faster than people
            store = annotate.open_study(path, lease=lease)
            ready, state = threading.Event(), {}

            def on_ready(base, port, stop):
                state.update(port=port, stop=stop)
                ready.set()

            address = annotate.Address(port=port, url=url)
            run = threading.Thread(
                target=annotate.serve,
                args=(store, path, address, annotate.Settings(**settings)),
                kwargs={"ready": on_ready},
            )
            run.start()
            assert ready.wait(60)

            def stop() -> None:
                state["stop"]()
                run.join(60)
                store.close()

            stack.callback(stop)
            return Served(f"http://127.0.0.1:{state['port']}", store, stop)

        yield start


def end_with_parent() -> None:
    """The process is killed if the tests are: nothing stays behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@pytest.fixture
def run_server():
    """Runs `mallow annotate` as a process of its own: the process, and the beginning of its links."""
    started = []

    def start(path: Path, *options: str, **process: object):
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "mallow", "annotate", str(path), "--port", "0", *options]
        log = (path.parent / "server.log").open("ab")
        run = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            preexec_fn=end_with_parent,
            **process,
        )
        log.close()
        started.append(run)
        line = run.stdout.readline()
        assert line.startswith("study: http://127.0.0.1:"), (path.parent / "server.log").read_text()
        owner = run.stdout.readline()
        assert owner.startswith("owner: ")
        return run, line.split()[1].rstrip("/")

    yield start
    for run in started:
        run.kill()
        run.wait()
        run.stdout.close()
