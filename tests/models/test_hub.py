"""A hub that cannot be reached: an answer within seconds, and none of the client's retries."""

import http.server
import os
import socket
import subprocess
import sys
import threading

import pytest

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: pip install 'mallow[text]'")

ASK = """
import time
from mallow.errors import InputError
from mallow.models import Source
import huggingface_hub, huggingface_hub.errors, huggingface_hub.utils
huggingface_hub.hf_hub_download, huggingface_hub.utils.get_session()  # imported at first use
start = time.monotonic()
try:
    Source("nosuch/model", extra={extra!r}).config_file
except InputError as error:
    print(error)
print(time.monotonic() - start)
"""


def ask(endpoint: str, tmp_path, extra: str = "text", **settings: str) -> tuple[str, float]:
    """What is said about an unknown model, and the seconds that it took; the packages are imported before."""
    removed = ("HF_HUB_OFFLINE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    environment = {name: value for name, value in os.environ.items() if name not in removed}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), **settings}
    command = [sys.executable, "-c", ASK.format(extra=extra)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "Retrying" not in run.stderr
    message, seconds = run.stdout.splitlines()
    return message, float(seconds)


UNREACHABLE = (
    "`model` nosuch/model is not among the downloaded models, and the hub cannot be reached. Check the name, or "
)


def test_nobody_listens(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    message, seconds = ask(f"http://127.0.0.1:{port}", tmp_path)
    assert message == UNREACHABLE + "connect. Or pass a local folder or a .gguf file."
    assert seconds < 10


def test_the_name_of_the_hub_is_unknown(tmp_path):
    message, seconds = ask("https://hub.invalid", tmp_path, extra="sentence")
    assert message == UNREACHABLE + "connect. Or pass a local folder."
    assert seconds < 10


def test_nobody_answers(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        message, seconds = ask(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
    assert message.startswith(UNREACHABLE)
    assert seconds < 10


def test_it_is_known_to_be_offline(tmp_path):
    message, seconds = ask("https://hub.invalid", tmp_path, HF_HUB_OFFLINE="1")
    assert message == UNREACHABLE + "unset HF_HUB_OFFLINE. Or pass a local folder or a .gguf file."
    assert seconds < 3


class NotFound(http.server.BaseHTTPRequestHandler):
    """A hub that has no model at all."""

    def do_HEAD(self):
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_):
        pass


def test_a_hub_that_answers_is_asked(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        message, _ = ask(f"http://127.0.0.1:{server.server_port}", tmp_path)
        server.shutdown()
    assert message.startswith("`model` must be on the hub, but there is no nosuch/model that you have access to.")
