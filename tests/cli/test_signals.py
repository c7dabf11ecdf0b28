"""SIGTERM stops a command as Ctrl-C does: what was embedded is kept, nothing half-written is left."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mallow.cli import exit_code_of, stop_on_sigterm

MODULE = """
import sys, time
import numpy as np

class Slow:
    name = "Slow(test)"
    kind = "text"

    def stream(self, texts):
        for place, text in enumerate(texts):
            if place == 3 and sys.argv[-1] != "--quiet":
                print("ready", flush=True)
                time.sleep(60)
            yield np.array([place]), np.array([[float(len(text)), float(place)]])

    def __call__(self, texts):
        raise NotImplementedError
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_what_was_embedded_is_kept(tmp_path, number, code):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "texts.jsonl").write_text("".join(f'{{"text": "{"a" * i}"}}\n' for i in range(1, 6)))
    environment = os.environ | {"MALLOW_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "mallow", "embed", "texts.jsonl", "-e", "mine:Slow", "-o", "out.npz"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()  # without effect on a process that has ended
    assert process.returncode == code
    assert err.splitlines()[-1] == "mallow: stopped"
    assert "Traceback" not in err
    assert not (tmp_path / "out.npz").exists()
    assert [file for file in tmp_path.rglob("*") if file.name.endswith(".tmp")] == []
    shown = subprocess.run(
        [*command[:3], "cache"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert " 3 rows " in shown.stdout
    again = subprocess.run(
        [*command, "--quiet"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert Path(tmp_path, "out.npz").exists()


def test_the_former_handler_comes_back():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt) as stopped, stop_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert (exit_code_of(stopped.value), exit_code_of(KeyboardInterrupt())) == (143, 130)


def test_other_threads_take_no_signals():
    errors = []

    def work():
        try:
            with stop_on_sigterm():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
