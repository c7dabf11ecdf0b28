"""The same store on a real PostgreSQL, started for the test on a socket and ended with it."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from annotation_page import make_study
from mallow import annotate
from mallow.annotate._database import StorageError
from mallow.annotate._store import Finished, open_store
from store_calls import Calls

BINARIES = [
    *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
    *(Path(p).parent for p in [shutil.which("postgres")] if p),
]
HOME = next((folder for folder in BINARIES if (folder / "initdb").exists()), None)
pytestmark = pytest.mark.skipif(HOME is None, reason="needs a server: apt-get install postgresql")
FILES = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
QUESTIONS = ("interesting", "sensible", "human-like")


@pytest.fixture(scope="module")
def server():
    """Starts and stops the server; its URL. It refuses to run as root, so that root runs it as nobody."""
    with tempfile.TemporaryDirectory(prefix="mallow-pg-") as name:
        folder = Path(name)
        user = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("nobody")
            os.chown(folder, account.pw_uid, account.pw_gid)
            user = {"user": account.pw_uid, "group": account.pw_gid}

        def run(program, *arguments):
            done = subprocess.run(
                [HOME / program, "-D", folder / "data", *arguments], cwd=folder, timeout=60, **FILES, **user
            )
            assert done.returncode == 0, (program, arguments)

        def start():
            options = f"-c listen_addresses= -k {folder} -c max_connections=20"
            run("pg_ctl", "-w", "-o", options, "-l", folder / "log", "start")

        def stop(mode):
            run("pg_ctl", "-m", mode, "stop")

        run("initdb", "-U", "owner", "-A", "trust", "--no-sync")
        start()
        yield f"postgresql://owner@/postgres?host={folder}", stop, start
        stop("fast")


def test_a_study_on_postgresql(server):
    url, stop, start = server
    study = make_study(per_pair=4, systems=2, votes=2)
    store = open_store(url, study, lease=100.0)
    again = open_store(url, study, lease=100.0)  # two processes
    assert store.owner_token == again.owner_token
    waiting = threading.Thread(target=again.set_open, args=(True,))
    with store.database.transaction():
        waiting.start()
        waiting.join(1.0)
        assert waiting.is_alive()  # one that writes waits for all others, in other processes too
    waiting.join(60)
    assert not waiting.is_alive()

    def work(number: int) -> None:
        own = (store, again)[number % 2]
        annotator = Calls(own).join("open", None, f"P{number}", session="", trusted=True, now=0.0)
        while isinstance(place := Calls(own).current(annotator, 1.0), int):
            if place == 2:
                Calls(own).skip(annotator, place, "Something else", 1.5)
                continue
            for _ in range(2):  # sent twice
                assert (
                    Calls(own).submit(annotator, place, f"page {place}", dict.fromkeys(QUESTIONS, 1), 1.0, 2.0)
                    == "done"
                )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    votes = [vote for vote in annotate.export_votes(store) if vote.question == "sensible"]
    assert Counter(vote.task for vote in votes) == dict.fromkeys((task.id for task in study.tasks), 2)
    assert all(row["number"] == 1 for row in store.dump()["submissions"])
    ann = Calls(store).join("prolific", "5f1", "5f1", session="x", trusted=False, now=3.0)
    assert Calls(again).join("prolific", "5f1", "5f1", session="x", trusted=False, now=3.0) == ann
    assert Calls(again).join("prolific", "5f1", "5f1", session="y", trusted=False, now=3.0) is None
    assert Calls(store).current(ann, 4.0) == Finished("all done")
    store.set_open(False)
    assert not again.is_open()
    stop("immediate")  # the server goes away, and comes back
    with pytest.raises(StorageError, match="PostgreSQL: "):
        store.is_open()
    start()
    for _ in range(2):
        try:
            assert not store.is_open()
        except StorageError:  # the broken connection is noticed once
            continue
    assert len(annotate.export_votes(store)) == 3 * len(votes)  # nothing is lost
    store.close()
    again.close()


def test_kill_9_of_the_server_loses_nothing_that_was_acknowledged(server, tmp_path):
    """All its processes are killed while six annotators answer; what was acknowledged is there afterwards, once."""
    psycopg = pytest.importorskip("psycopg")
    url, _, start = server
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE killed")
    own = url.replace("/postgres?", "/killed?")
    store = open_store(own, make_study(per_pair=20, systems=2, votes=2), lease=1000.0)
    joined = [Calls(store).join("open", None, f"P{number}", session="", trusted=True, now=0.0) for number in range(6)]
    acknowledged, stop = [], threading.Event()

    def work(annotator: int) -> None:
        place = None
        while not stop.is_set():
            try:
                place = place or Calls(store).current(annotator, 1.0)
                if not isinstance(place, int):
                    return
                Calls(store).submit(annotator, place, f"page {place}", dict.fromkeys(QUESTIONS, 1), 1.0, 2.0)
                acknowledged.append((annotator, place))
                place = None
            except StorageError:  # sent again, since nobody said that it was kept
                time.sleep(0.05)

    def wait_for(count: int) -> None:  # however busy the machine is
        latest = time.monotonic() + 60
        while len(acknowledged) < count and time.monotonic() < latest:
            time.sleep(0.01)
        assert len(acknowledged) >= count

    threads = [threading.Thread(target=work, args=(annotator,)) for annotator in joined]
    for thread in threads:
        thread.start()
    for count in (5, 15):
        wait_for(count)
        folder = Path(url.partition("host=")[2])
        leader = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        for process in (leader, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for _attempt in range(20):  # until the last process of the old server is gone
            time.sleep(0.5)
            with contextlib.suppress(AssertionError):
                start()
                break
        else:
            pytest.fail("the server did not start again")
    wait_for(25)
    stop.set()
    for thread in threads:
        thread.join(60)
    rows = [(row["annotator"], row["place"]) for row in store.dump()["submissions"]]
    assert set(acknowledged) <= set(rows)
    assert len(rows) == len(set(rows))  # sent again, and kept once
    store.close()
