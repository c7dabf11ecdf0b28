"""Nothing that was acknowledged is lost, and nothing is doubled: kill -9 under load, restarts, databases that cannot write."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import resource
import signal
import sqlite3
import threading
import time
from collections import Counter

import pytest

from annotation_page import Person, hidden, make_study, place_of
from crash_database import TracedConnection, connections, prepare_study, states, stored, story
from mallow import annotate
from mallow.annotate._database import StorageError, open_database
from mallow.annotate._lanes import Lane
from mallow.annotate._store import Finished, open_store
from mallow.errors import InputError
from mallow.human import write_study
from store_calls import Calls

QUESTIONS = ("interesting", "sensible", "human-like")


class Worker(threading.Thread):
    """An annotator who answers at random, sends some answers twice, and remembers what was acknowledged."""

    def __init__(self, base: str, cookies: dict[str, str], number: int, stop: threading.Event) -> None:
        super().__init__()
        self.person, self.stop = Person(base, cookies), stop
        self.random = random.Random(number)
        self.acknowledged: dict[str, dict[str, int]] = {}
        self.sent: dict[str, dict[str, int]] = {}

    def run(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # the server was killed
            while not self.stop.is_set():
                status, _, text = self.person.get("/")
                if "Thank you" in text:
                    return
                if status == 429:  # faster than any person
                    time.sleep(0.2)
                    continue
                place = place_of(text)
                values = [str(self.random.randint(-2, 2)) for _ in QUESTIONS]
                answers = dict(zip(QUESTIONS, map(int, values), strict=True))
                fields = self.person.fields(text, values)
                for _ in range(self.random.choice([1, 1, 2])):
                    self.sent[place] = answers
                    status, _, _ = self.person.ask("POST", place, fields, follow=False)
                    assert status in (303, 429)
                    if status == 303:
                        self.acknowledged[place] = answers


def test_kill_9_under_load_loses_and_doubles_nothing(run_server, study_file):
    path = study_file(make_study(per_pair=22, systems=4, votes=2))
    names = [f"Person {number}" for number in range(6)]
    (path.parent / "people.txt").write_text("\n".join(names))
    cookies: dict[str, dict[str, str]] = {name: {} for name in names}
    known: dict[tuple[str, str], dict[str, int]] = {}
    unsure: dict[tuple[str, str], dict[str, int]] = {}
    for round_ in range(2):
        run, base = run_server(path, "--people", str(path.parent / "people.txt"))
        run.stdout.readline()
        links = dict(run.stdout.readline().strip().split(",") for _ in names)
        workers, stop = {}, threading.Event()
        for number, name in enumerate(names):
            person = Person(base, cookies[name])
            if not cookies[name]:
                text = person.get(links[name].removeprefix(base))[2]
                person.post("/start", {"csrf": hidden(text, "csrf")})
                cookies[name] = person.cookies
            workers[name] = Worker(base, cookies[name], 100 * round_ + number, stop)
        for worker in workers.values():
            worker.start()
        end = time.monotonic() + 60.0
        while sum(len(worker.acknowledged) for worker in workers.values()) < 15 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(random.Random(round_).random() / 10)
        os.kill(run.pid, signal.SIGKILL)  # at whatever moment this is
        run.wait()
        stop.set()
        for name, worker in workers.items():
            worker.join(60)
            known |= {(name, place): answers for place, answers in worker.acknowledged.items()}
            unsure |= {(name, place): answers for place, answers in worker.sent.items()}
    assert len(known) >= 15
    store = annotate.open_study(path)
    tables = store.dump()
    who = {row["id"]: row["name"] for row in tables["annotators"]}
    stored = {}
    for row in tables["submissions"]:
        key = (who[row["annotator"]], f"/pair/{row['place']}")
        stored[key] = json.loads(row["answers"])
    for key, answers in known.items():
        assert stored[key] == answers, key  # nothing is lost
    for key, answers in stored.items():
        assert answers == unsure[key], key  # nothing is invented
    votes = annotate.export_votes(store)
    counted = Counter((vote.annotator, vote.task, vote.question) for vote in votes)
    assert set(counted.values()) == {1}  # nothing is doubled
    quota = Counter((vote.task, vote.question) for vote in votes)
    assert max(quota.values()) <= 2
    held = Counter(row["task"] for row in tables["assignments"] if row["state"] in ("open", "done"))
    assert max(held.values()) <= 2
    store.close()


def test_a_log_that_is_cut_or_changed_anywhere_holds_whole_transactions(tmp_path):
    """What is left if the process is killed while SQLite writes, or if the disk changes a bit of what it has written."""
    known = states(tmp_path / "states")
    home = tmp_path / "study"
    prepare_study(home)
    with connections(TracedConnection):
        store = annotate.open_study(home / "study.json")
    for _ in story(store):
        pass
    files = {file.name: file.read_bytes() for file in home.iterdir()}
    store.close()
    log = files["study-answers.db-wal"]
    draw = random.Random(0)
    changed = bytearray(log)
    changed[draw.randrange(len(log) // 2, len(log))] ^= 1 << draw.randrange(8)
    places = [*range(0, len(log), 4096 + 24), *(draw.randrange(len(log)) for _ in range(20)), len(log)]
    seen = []
    for number, left in enumerate([*(log[:place] for place in sorted(places)), bytes(changed)]):
        copy = tmp_path / f"copy {number}"
        copy.mkdir()
        for name, content in files.items():
            if not name.endswith("-shm"):  # an index of the log, which is made again
                (copy / name).write_bytes(left if name.endswith("-wal") else content)
        seen.append(known.index(stored(copy)[0]))
    *cuts, damaged = seen
    assert cuts == sorted(cuts)
    assert (cuts[0], cuts[-1]) == (0, len(known) - 1)
    assert set(cuts) == set(range(len(known)))
    assert damaged < len(known) - 1


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM settings WHERE name = 'secret'", "the database is damaged: its setting `secret` is missing"),
        ("DELETE FROM settings WHERE name = 'study'", "the database is damaged: its setting `study` is missing"),
        ("UPDATE settings SET value = '2' WHERE name = 'schema'", r"a different version of mallow \(schema 2, not 1\)"),
        ("ALTER TABLE settings RENAME COLUMN value TO other", "the database cannot be used: no such column: value"),
        ("UPDATE submissions SET answers = '{'", r"the answer of annotator \w+ to pair 1 cannot be read: Expecting"),
        ("UPDATE submissions SET answers = '{\"sensible\": 9}'", "cannot be read: `answer` must be"),
        ("UPDATE submissions SET received = 1e300", "to pair 1 cannot be read: .*out of range"),
        ("DELETE FROM annotators", "to pair 1 cannot be read: the annotator is missing. Restore a copy"),
    ],
)
def test_a_damaged_database_is_told_in_one_line(tmp_path, statement, message):
    prepare_study(tmp_path)
    with connections(TracedConnection):
        store = annotate.open_study(tmp_path / "study.json")
    for _ in story(store):
        pass
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "study-answers.db", isolation_level=None)) as other:
        other.execute(statement)
    with pytest.raises(InputError, match=message):
        annotate.annotator_table(annotate.open_study(tmp_path / "study.json"))


def test_a_database_with_a_damaged_page_is_not_used(tmp_path):
    prepare_study(tmp_path)
    annotate.open_study(tmp_path / "study.json").close()
    path = tmp_path / "study-answers.db"
    content = bytearray(path.read_bytes())
    content[4096 : 4096 + 100] = bytes(range(100))
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"study-answers\.db: cannot be used as a database: "):
        annotate.open_study(tmp_path / "study.json")


def test_a_restart_in_between_keeps_sessions_and_answers(serve, study_file):
    path = study_file(per_pair=3, systems=1)
    served = serve(path)
    ann = served.person()
    text = ann.join()
    _, _, text = ann.answer(text, "2")
    port = served.port
    served.stop()
    with pytest.raises(OSError, match="refused"):
        ann.get("/")
    again = serve(path, port=port)
    _, _, text = ann.answer(text, "-2")  # the page was loaded before
    assert place_of(text) == "/pair/3"
    assert [vote.answer for vote in annotate.export_votes(again.store)] == [2, 2, 2, -2, -2, -2]


def test_a_locked_database_sends_the_answer_back(serve, study_file, monkeypatch):
    monkeypatch.setattr("mallow.annotate._database._PATIENCE", 0.2)
    path = study_file(per_pair=3, systems=1)
    served = serve(path)
    ann = served.person()
    text = ann.join()
    with contextlib.closing(sqlite3.connect(path.with_name("study-answers.db"), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        fields = ann.fields(text, "2")
        status, headers, page = ann.post("/pair/1", fields)
        assert (status, headers["retry-after"]) == (503, "10")
        assert "It is not lost: this page still has it." in page
        assert {name: hidden(page, name) for name in fields} == fields
        assert ann.get("/instructions")[0] == 200  # reading goes on
        other.execute("ROLLBACK")
    assert place_of(ann.post("/pair/1", fields)[2]) == "/pair/2"
    assert len(annotate.export_votes(served.store)) == 3


def test_a_locked_database_is_waited_for_once(serve, study_file, monkeypatch):
    """Eight answers at once: each one waits as long as one, and not for all before it."""
    monkeypatch.setattr("mallow.annotate._database._PATIENCE", 1.5)
    path = study_file(per_pair=20, systems=1)
    served = serve(path)
    people = [served.person() for _ in range(8)]
    forms = [person.fields(person.join()) for person in people]
    times, statuses = [], []

    def send(person, fields):
        begin = time.monotonic()
        statuses.append(person.post("/pair/1", fields)[0])
        times.append(time.monotonic() - begin)

    with contextlib.closing(sqlite3.connect(path.with_name("study-answers.db"), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        threads = [threading.Thread(target=send, args=pair) for pair in zip(people, forms, strict=True)]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join(60)
        other.execute("ROLLBACK")
    assert statuses == [503] * 8
    assert max(times) < 4.5
    for person, fields in zip(people, forms, strict=True):
        assert person.post("/pair/1", fields)[0] == 200
    assert len(annotate.export_votes(served.store)) == 8 * 3


def test_one_answer_that_fails_does_not_harm_those_beside_it(tmp_path):
    """Answers that wait share a transaction."""
    store = open_store(str(tmp_path / "x.db"), make_study(per_pair=4, systems=1))
    ids = [Calls(store).join("open", None, f"P{number}", session="", trusted=True, now=0.0) for number in range(3)]
    for id_ in ids:
        Calls(store).current(id_, 1.0)
    write = Lane(store, write=True)

    def keep(id_):
        return lambda execute: store.ledger.submit(execute, id_, 1, "page", dict.fromkeys(QUESTIONS, 1), 1.0, 2.0)

    def fail(execute):
        execute("UPDATE settings SET value = 'no' WHERE name = 'open'")
        raise ZeroDivisionError

    async def at_once():
        return await asyncio.gather(
            *map(write, [keep(ids[0]), keep(ids[1]), fail, keep(ids[2])]), return_exceptions=True
        )

    results = asyncio.run(at_once())
    assert [str(result) if not isinstance(result, Exception) else type(result) for result in results] == [
        "done",
        "done",
        ZeroDivisionError,
        "done",
    ]
    assert len(store.dump()["submissions"]) == 3
    assert store.is_open()
    store.close()


def test_what_was_undone_is_not_remembered(tmp_path):
    """A task whose last vote was undone is given out again."""
    study = make_study(per_pair=1, systems=1)
    store = open_store(str(tmp_path / "x.db"), study)
    first, second = (Calls(store).join("open", None, "x", session="", trusted=True, now=0.0) for _ in range(2))
    Calls(store).current(first, 1.0)

    def undo(execute):
        store.ledger.submit(execute, first, 1, "page", dict.fromkeys(QUESTIONS, 1), 1.0, 2.0)
        assert store.ledger.current(execute, second, 2.0) == Finished("all done")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.run([undo])
    assert Calls(store).skip(first, 1, "Something else", 3.0) == "skipped"
    assert Calls(store).current(second, 4.0) == 1
    store.close()


def test_a_full_disk_sends_the_answer_back_and_nothing_is_lost(run_server, study_file):
    """The process may write files of at most so many bytes: to SQLite, that is a full disk."""
    path = study_file(per_pair=20, systems=2)
    annotate.open_study(path).close()
    size = path.with_name("study-answers.db").stat().st_size + 120_000
    run, base = run_server(path)
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    ann = Person(base)
    text = ann.join()
    good = 0
    for _ in range(60):
        status, _, after = ann.answer(text)
        if status == 503:
            break
        good, text = good + 1, after
        time.sleep(0.02)
    assert status == 503
    if "It is not lost" in after:
        assert f'action="{place_of(text)}"' in after
        assert hidden(after, "q0") == "1"
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    status, _, after = ann.answer(text)  # there is room again
    assert status == 200
    store = annotate.open_study(path)
    assert len(annotate.export_votes(store)) == 3 * (good + 1)  # sent twice or once
    store.close()


def test_databases_that_cannot_be_used(study_file, tmp_path):
    path = study_file()
    with pytest.raises(InputError, match=r"the folder .*nowhere does not exist\. Create it first"):
        annotate.open_study(path, str(tmp_path / "nowhere" / "x.db"))
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough to be looked at" * 50)
    with pytest.raises(InputError, match="cannot be used as a database: file is not a database"):
        annotate.open_study(path, str(tmp_path / "text.db"))
    with pytest.raises(InputError, match="must be the path of a file or a postgresql:// URL; got one of mysql://"):
        annotate.open_study(path, "mysql://localhost/x")
    with pytest.raises(InputError, match="cannot be used as a database: Is a directory"):
        annotate.open_study(path, str(tmp_path))
    with pytest.raises(InputError, match="the database cannot be used: PostgreSQL: "):
        annotate.open_study(path, "postgresql://nobody@127.0.0.1:1/x")
    with pytest.raises(InputError, match="`lease` must be a finite number above 0"):
        annotate.open_study(path, lease=0)


def test_answers_of_another_study_are_refused(study_file, tmp_path):
    path = study_file()
    annotate.open_study(path).close()
    other = tmp_path / "other.json"
    write_study(make_study(per_pair=5), other)
    with pytest.raises(InputError, match=r"holds the answers of another study .* Pass another file with --database"):
        annotate.open_study(other, str(path.with_name("study-answers.db")))


def insert_and_fail(database, statement):
    with database.transaction() as execute:
        execute("INSERT INTO settings (name, value) VALUES (?, ?)", ("a", "b"))
        execute(statement)
        raise ZeroDivisionError


def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    database = open_database(str(tmp_path / "x.db"))
    with pytest.raises(StorageError, match="no such table"):
        insert_and_fail(database, "INSERT INTO nowhere VALUES (1)")
    with pytest.raises(ZeroDivisionError):
        insert_and_fail(database, "SELECT 1")
    with database.transaction() as execute:
        assert execute("SELECT * FROM settings") == []
        assert execute("PRAGMA journal_mode") == [("wal",)]
        assert execute("PRAGMA synchronous") == [(2,)]  # FULL
    database.close()


def test_many_threads_never_exceed_a_quota(tmp_path):
    study = make_study(per_pair=4, systems=2, votes=2)
    store = open_store(str(tmp_path / "x.db"), study, lease=100.0)

    def work(number: int) -> None:
        annotator = Calls(store).join("open", None, f"P{number}", session="", trusted=True, now=0.0)
        for _ in range(20):
            place = Calls(store).current(annotator, 1.0)
            if not isinstance(place, int):
                return
            assert Calls(store).submit(annotator, place, "page", dict.fromkeys(QUESTIONS, 1), 1.0, 2.0) == "done"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    votes = [vote for vote in annotate.export_votes(store) if vote.question == "sensible"]
    assert Counter(vote.task for vote in votes) == dict.fromkeys((task.id for task in study.tasks), 2)
    store.close()


def test_a_lease_ends_by_itself_and_is_renewed_by_looking(tmp_path):
    store = open_store(str(tmp_path / "x.db"), make_study(per_pair=1, systems=1), lease=100.0)
    ann, bob = (Calls(store).join("open", None, name, session="", trusted=True, now=0.0) for name in ("Ann", "Bob"))
    assert Calls(store).current(ann, 0.0) == 1
    assert Calls(store).current(bob, 99.0) == Finished("waiting")
    assert Calls(store).view(ann, 1, 60.0).assignment.state == "open"  # she looks at it again: until 160
    assert Calls(store).current(bob, 159.0) == Finished("waiting")
    assert Calls(store).current(bob, 161.0) == 1
    assert Calls(store).view(ann, 1, 162.0).assignment is None
    assert Calls(store).current(ann, 163.0) == Finished("waiting")
    store.close()
