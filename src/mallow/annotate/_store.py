"""The state of a running study: its annotators, their next pairs and the time for them, and every answer."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mallow.annotate._database import Database, Execute, StorageError, open_database
from mallow.annotate._queue import Given, Queue
from mallow.annotate._tokens import Signer, new_secret
from mallow.errors import InputError
from mallow.human import Study

T = TypeVar("T")
_SCHEMA = "1"


@dataclass(frozen=True)
class Annotator:
    """A person who takes part. `id` is random and is exported; `name` is shown to the owner only."""

    id: str
    name: str
    source: str
    ready: bool


@dataclass(frozen=True)
class Assignment:
    """A pair that was given to an annotator.

    Its state is "open", "done", "skipped", "late" (answered after the time-out, when the quota was full) or "lost" (not
    answered, and given to somebody else).
    """

    place: int  # 1 for the annotator's first pair
    task: str
    kind: str  # "task", "gold" or "repeat"
    swapped: bool  # whether the sides are exchanged
    state: str
    answers: dict[str, int]  # the latest answers by question; empty if there are none
    back: int | None  # the previous place


@dataclass(frozen=True)
class Finished:
    """There is no pair for the annotator: "limit", "all done", "waiting" (others have the rest) or "closed"."""

    reason: str


def open_store(url: str, study: Study, *, lease: float = 1800.0) -> Store:
    """The store of a study in a database; one that holds the answers of another study is refused.

    Parameters
    ----------
    lease : float
        Seconds after which a pair that was given out and not answered may be given to somebody else.
    """
    database = open_database(url)
    try:
        with database.transaction() as execute:
            known = dict(execute("SELECT name, value FROM settings"))
            if not known:
                known = {"study": study.digest, "secret": new_secret(), "open": "yes", "schema": _SCHEMA}
                for name, value in known.items():
                    execute("INSERT INTO settings (name, value) VALUES (?, ?)", (name, value))
    except StorageError as error:
        database.close()
        raise InputError(f"the database cannot be used: {error}") from error
    problem = None
    missing = [name for name in ("study", "secret", "open", "schema") if name not in known]
    if missing:
        problem = f"is damaged: its setting `{missing[0]}` is missing. Restore a copy of the file."
    elif known["schema"] != _SCHEMA:
        problem = f"was made by a different version of mallow (schema {known['schema']}, not {_SCHEMA})."
    elif known["study"] != study.digest:
        problem = (
            f"holds the answers of another study ({known['study']}; this one is {study.digest}). Pass another "
            "file with --database, or the study that the answers belong to."
        )
    if problem is not None:
        database.close()
        raise InputError(f"the database {problem}")
    return Store(database, study, Signer(known["secret"]), lease)


@dataclass(frozen=True)
class View:
    """The data for a page with a pair."""

    annotator: str
    assignment: Assignment | None  # None if the pair was never given to the annotator, or has gone to somebody else
    judged: int  # how many pairs the annotator has judged
    renew: bool = False  # whether the time of the pair has to be renewed, which needs a transaction that writes


class Ledger:
    """Reads and changes the tables of a study. Every method works in a transaction that the caller began."""

    def __init__(self, study: Study, lease: float) -> None:
        self.study, self.lease = study, lease
        self._tasks = {task.id for task in (*study.tasks, *study.gold)}
        self._queue = Queue(study)
        self._lent: tuple[Execute | None, Counter[str]] = (None, Counter())

    def forget(self) -> None:
        """Forget the notes of a transaction that was undone."""
        self._queue, self._lent = Queue(self.study), (None, Counter())

    def join(
        self, execute: Execute, source: str, external: str | None, name: str, *, session: str, trusted: bool, now: float
    ) -> str | None:
        """The id of an annotator, new or known.

        `external` is the id of the person at `source`; None always makes a new annotator. A known annotator who
        comes with a different `session` is refused (None), unless the caller trusts that it is the same person.
        """
        rows = execute("SELECT id, session FROM annotators WHERE source = ? AND external = ?", (source, external))
        if rows:
            return rows[0][0] if trusted or rows[0][1] == session else None
        id_ = f"a{secrets.token_hex(6)}"
        values = (id_, name, source, id_ if external is None else external, session, now)
        execute(
            "INSERT INTO annotators (id, name, source, external, session, joined) VALUES (?, ?, ?, ?, ?, ?)", values
        )
        return id_

    def annotator(self, execute: Execute, id_: str) -> Annotator | None:
        """An annotator by id."""
        rows = execute("SELECT name, source, ready FROM annotators WHERE id = ?", (id_,))
        return Annotator(id_, rows[0][0], rows[0][1], rows[0][2] is not None) if rows else None

    def get_ready(self, execute: Execute, annotator: str, now: float) -> None:
        """Note that the annotator has seen the instructions."""
        execute("UPDATE annotators SET ready = ? WHERE id = ? AND ready IS NULL", (now, annotator))

    def current(self, execute: Execute, annotator: str, now: float) -> int | Finished:
        """The place of the pair to judge now, given out if there is none; or the reason why there is none."""
        mine = "SELECT place, task, kind, state, expires FROM assignments WHERE annotator = ? ORDER BY place"
        rows = execute(mine, (annotator,))
        for place, task, kind, state, expires in rows:
            if state == "open" and self._keep(execute, annotator, place, (task, kind, expires), now):
                return int(place)
        history = [Given(task, kind, state) for _, task, kind, state, _ in rows]
        judged = sum(given.state in ("done", "late") for given in history)
        if not _is_open(execute):
            return Finished("closed")
        if self.study.per_annotator is not None and judged >= self.study.per_annotator:
            return Finished("limit")
        choice = self._queue.choose(annotator, history, self._fullness(execute, now))
        if choice is None:
            others = execute("SELECT 1 FROM assignments WHERE state = 'open' AND expires > ? LIMIT 1", (now,))
            return Finished("waiting" if others else "all done")
        place = len(rows) + 1
        swapped = int(choice.kind == "repeat")
        values = (annotator, place, choice.task, choice.kind, swapped, choice.state, now + self.lease)
        columns = "annotator, place, task, kind, swapped, state, expires"
        execute(f"INSERT INTO assignments ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        self._count_again(execute, choice.task, now)
        return place

    def view(self, execute: Execute, annotator: str, place: int, now: float, *, keep: bool = True) -> View | None:
        """The data for a page with a pair; None if there is no such annotator.

        With `keep`, the time of the pair is renewed at once if it has to be. Without it, nothing is written.
        """
        if self.annotator(execute, annotator) is None:
            return None
        judged, row = self.progress(execute, annotator), self._find(execute, annotator, place)
        if row is None or row[3] == "lost":
            return View(annotator, None, judged)
        task, kind, swapped, state, expires = row
        renew = state == "open" and expires - now <= self.lease / 2
        if renew and keep and not self._keep(execute, annotator, place, (task, kind, expires), now):
            return View(annotator, None, judged)
        latest = _latest(execute, annotator, place)
        before = "SELECT MAX(place) FROM assignments WHERE annotator = ? AND place < ? AND state <> 'lost'"
        back = execute(before, (annotator, place))[0][0]
        answers = json.loads(latest[2]) if latest else {}
        assignment = Assignment(place, task, kind, bool(swapped), state, answers, back)
        return View(annotator, assignment, judged, renew and not keep)

    def submit(
        self,
        execute: Execute,
        annotator: str,
        place: int,
        page: str,
        answers: dict[str, int],
        seconds: float,
        now: float,
    ) -> str | None:
        """Keep the answers to a pair, and return its new state; None if the annotator was never given it.

        When this returns, the answers are on disk. The same answers from the same page are kept once, however often
        they are sent. Different answers are a correction, and the latest answers count.
        """
        row = self._find(execute, annotator, place)
        if row is None:
            return None
        task, kind, _, state, _ = row
        text = json.dumps(answers, sort_keys=True)
        latest = _latest(execute, annotator, place)
        if latest is None or (latest[1], latest[2]) != (page, text):
            number = 1 if latest is None else latest[0] + 1
            values = (annotator, place, number, page, text, seconds, now)
            columns = "annotator, place, number, page, answers, seconds, received"
            execute(f"INSERT INTO submissions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        if state not in ("done", "late"):
            held = self._held(execute, task, now, annotator)
            state = "done" if kind != "task" or held < self.study.votes else "late"
            self._set_state(execute, annotator, place, state)
            self._count_again(execute, task, now)
        return str(state)

    def last_action(self, execute: Execute, annotator: str, place: int) -> float:
        """When the annotator last answered a pair other than this one, or skipped any pair; 0 if never.

        A person judges one pair at a time, so time before that moment does not count for this pair.
        """
        answered = "SELECT MAX(received) FROM submissions WHERE annotator = ? AND place <> ?"
        skipped = "SELECT MAX(expires) FROM assignments WHERE annotator = ? AND reason IS NOT NULL"
        moments = execute(answered, (annotator, place))[0][0], execute(skipped, (annotator,))[0][0]
        return max(moment or 0.0 for moment in moments)

    def skip(self, execute: Execute, annotator: str, place: int, reason: str, now: float) -> str | None:
        """Give a pair back with a reason, so that others get it; None if the annotator was never given it."""
        row = self._find(execute, annotator, place)
        if row is None or row[3] != "open":
            return None if row is None else str(row[3])
        # A pair that is given back has no time-out any more: from now on the column holds the time of the skip.
        update = "UPDATE assignments SET state = 'skipped', reason = ?, expires = ? WHERE annotator = ? AND place = ?"
        execute(update, (reason, now, annotator, place))
        self._count_again(execute, row[0], now)
        return "skipped"

    def progress(self, execute: Execute, annotator: str) -> int:
        """How many pairs the annotator has judged."""
        states = "SELECT COUNT(*) FROM assignments WHERE annotator = ? AND state IN ('done', 'late')"
        return int(execute(states, (annotator,))[0][0])

    def last_place(self, execute: Execute, annotator: str) -> int | None:
        """The place of the last pair that the annotator judged or gave back."""
        query = "SELECT MAX(place) FROM assignments WHERE annotator = ? AND state IN ('done', 'late', 'skipped')"
        place = execute(query, (annotator,))[0][0]
        return None if place is None else int(place)

    def _find(self, execute: Execute, annotator: str, place: int) -> tuple[Any, ...] | None:
        if not 0 < place < 1 << 31:  # the range of the column
            return None
        columns = "task, kind, swapped, state, expires"
        rows = execute(f"SELECT {columns} FROM assignments WHERE annotator = ? AND place = ?", (annotator, place))
        return rows[0] if rows and rows[0][0] in self._tasks else None

    def _count_again(self, execute: Execute, task: str, now: float) -> None:
        """Note that a task was given out or came back, for later choices in the same transaction."""
        if self._lent[0] is execute:
            lent = (
                "SELECT COUNT(*) FROM assignments WHERE state = 'open' AND kind = 'task' AND task = ? AND expires > ?"
            )
            self._lent[1][task] = execute(lent, (task, now))[0][0]

    def _fullness(self, execute: Execute, now: float) -> Callable[[str], bool]:
        """A function: whether all votes of a task are given or in progress."""
        if self._lent[0] is not execute:  # how many annotators hold each task now, asked once per transaction
            held = """SELECT task, COUNT(*) FROM assignments
                WHERE state = 'open' AND kind = 'task' AND expires > ? GROUP BY task"""
            self._lent = (execute, Counter(dict(execute(held, (now,)))))
        lent = self._lent[1]
        given = "SELECT COUNT(*) FROM assignments WHERE task = ? AND kind = 'task' AND state = 'done'"

        def is_full(task: str) -> bool:
            if lent[task] >= self.study.votes:
                return True
            done = execute(given, (task,))[0][0]
            if done >= self.study.votes:
                self._queue.finish(task)
            return bool(done + lent[task] >= self.study.votes)

        return is_full

    def _held(self, execute: Execute, task: str, now: float, besides: str) -> int:
        """How many other annotators have judged a task or hold it now."""
        counted = """SELECT COUNT(*) FROM assignments WHERE task = ? AND kind = 'task' AND annotator <> ?
            AND (state = 'done' OR (state = 'open' AND expires > ?))"""
        return int(execute(counted, (task, besides, now))[0][0])

    def _keep(self, execute: Execute, annotator: str, place: int, pair: tuple[str, str, float], now: float) -> bool:
        """Whether an open pair (task, kind, time of expiry) is still the annotator's. Its time is then renewed."""
        task, kind, expires = pair
        if kind == "task" and expires <= now and self._held(execute, task, now, annotator) >= self.study.votes:
            self._set_state(execute, annotator, place, "lost")
            self._count_again(execute, task, now)
            return False
        if expires - now <= self.lease / 2:  # otherwise it is long enough, and most pages are shown without writing
            renew = "UPDATE assignments SET expires = ? WHERE annotator = ? AND place = ?"
            execute(renew, (now + self.lease, annotator, place))
            self._count_again(execute, task, now)
        return True

    def _set_state(self, execute: Execute, annotator: str, place: int, state: str) -> None:
        execute("UPDATE assignments SET state = ? WHERE annotator = ? AND place = ?", (state, annotator, place))


class Store:
    """The database of a running study. Jobs that run together share one transaction, see `run`."""

    def __init__(self, database: Database, study: Study, signer: Signer, lease: float) -> None:
        self.study, self.signer = study, signer
        self.database = database
        self.ledger = Ledger(study, lease)

    @property
    def owner_token(self) -> str:
        """The token of the owner's page. The same for as long as the database exists."""
        return self.signer.mac("owner link", self.study.digest)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def is_open(self) -> bool:
        """Whether pairs are given out."""
        return self._run(_is_open, write=False)

    def set_open(self, wanted: bool) -> None:
        """Close the study, or open it again. Pairs that are out may still be answered."""
        update = "UPDATE settings SET value = ? WHERE name = 'open'"
        self._run(lambda execute: execute(update, ("yes" if wanted else "no",)))

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """All annotators, assignments and submissions, in the order in which they came."""
        tables = {
            "annotators": ("id, name, source, external, session, joined, ready", "joined, id"),
            "assignments": ("annotator, place, task, kind, swapped, state, expires, reason", "annotator, place"),
            "submissions": ("annotator, place, number, page, answers, seconds, received", "annotator, place, number"),
        }

        def read(execute: Execute, columns: str, order: str, table: str) -> list[dict[str, Any]]:
            names, rows = columns.split(", "), execute(f"SELECT {columns} FROM {table} ORDER BY {order}")
            return [dict(zip(names, row, strict=True)) for row in rows]

        return self._run(
            lambda execute: {table: read(execute, *query, table) for table, query in tables.items()}, write=False
        )

    def run(self, jobs: Sequence[Callable[[Execute], Any]], *, write: bool = True) -> list[Any]:
        """Call the functions one after the other in one transaction, and return their results."""
        try:
            with self.database.transaction(write=write) as execute:
                return [job(execute) for job in jobs]
        except BaseException:
            if write:
                self.ledger.forget()
            raise

    def _run(self, job: Callable[[Execute], T], *, write: bool = True) -> T:
        result: T = self.run([job], write=write)[0]
        return result


def _is_open(execute: Execute) -> bool:
    return bool(execute("SELECT value FROM settings WHERE name = 'open'")[0][0] == "yes")


def _latest(execute: Execute, annotator: str, place: int) -> tuple[Any, ...] | None:
    query = (
        "SELECT number, page, answers FROM submissions WHERE annotator = ? AND place = ? ORDER BY number DESC LIMIT 1"
    )
    rows = execute(query, (annotator, place))
    return rows[0] if rows else None
