"""The database of the annotation page as a writer of the crash harness: every statement fails, or the process ends at it.

SQLite writes its files by itself, so points are statements here. What a commit does inside SQLite is disturbed by
`tests/annotate/test_crash.py`, which cuts and changes its log at every place.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annotation_page import make_study
from crash_points import Writer, hand_over, reach
from mallow import annotate
from mallow.human import write_study
from store_calls import Calls

ANSWERS = {"interesting": 1, "sensible": -2, "human-like": 0}


class TracedConnection(sqlite3.Connection):
    """A connection whose statements are points."""

    def __init__(self, path: Any, **options: Any) -> None:
        hand_over(path)
        super().__init__(path, **options)
        super().execute(quick("PRAGMA synchronous = FULL"))

    def execute(self, statement: str, *values: Any) -> Any:
        reach(statement, sqlite3.OperationalError("disk I/O error"))
        return super().execute(quick(statement), *values)


def quick(statement: str) -> str:
    """The statement; waiting for the disk takes time, and a process that is killed loses nothing without it."""
    return "PRAGMA synchronous = OFF" if statement == "PRAGMA synchronous = FULL" else statement


def prepare_study(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    write_study(make_study(per_pair=4, systems=1, votes=1), folder / "study.json")
    (folder / "acknowledged").write_bytes(b"0")


@contextmanager
def connections(kind: type[sqlite3.Connection]) -> Iterator[None]:
    """Connections of another kind."""
    connect = sqlite3.connect
    sqlite3.connect = lambda *place, **options: connect(*place, factory=kind, **options)
    try:
        yield
    finally:
        sqlite3.connect = connect


def run_study(folder: Path, kind: type[sqlite3.Connection] = TracedConnection) -> None:
    """A study from its first minute: each call is one transaction, and counts as acknowledged when it returns."""
    count = os.open(folder / "acknowledged", os.O_RDWR)
    with connections(kind):
        store = annotate.open_study(folder / "study.json")
        for number, _ in enumerate(story(store), start=1):
            os.pwrite(count, str(number).encode(), 0)
        # Not closed: closing moves the log into the main file, which a process that is killed does not do.


def story(store: annotate.Store) -> Iterator[object]:
    """What an annotator does: comes, reads, answers, corrects the answer, skips; then the owner closes the study."""
    ann = str(Calls(store).join("link", "Ann", "Ann", session="", trusted=True, now=1.0))
    yield ann
    yield Calls(store).get_ready(ann, 2.0)
    yield Calls(store).current(ann, 3.0)
    yield Calls(store).submit(ann, 1, "page 1", ANSWERS, 1.5, 4.0)
    yield Calls(store).submit(ann, 1, "page 2", ANSWERS | {"sensible": 2}, 2.5, 5.0)
    yield Calls(store).current(ann, 6.0)
    yield Calls(store).skip(ann, 2, "Something else", 7.0)
    yield store.set_open(False)


def stored(folder: Path) -> tuple[str, int]:
    """All tables, without what is drawn at random, and how many calls had returned."""
    with connections(TracedConnection):
        store = annotate.open_study(folder / "study.json")
    tables, is_open = store.dump(), store.is_open()
    store.close()
    ids = {row["id"] for row in tables["annotators"]}
    text = repr((tables, is_open))
    for own in ids:
        text = text.replace(own, "ann")
    swapped = text.replace("'swapped': 1", "'swapped': 0")  # drawn from the id
    return swapped, int((folder / "acknowledged").read_bytes())


def states(folder: Path) -> list[str]:
    """What is stored before the story and after each of its calls."""
    prepare_study(folder)
    with connections(TracedConnection):
        store = annotate.open_study(folder / "study.json")
    seen = [stored(folder)[0]]
    seen += [stored(folder)[0] for _ in story(store)]
    store.close()
    return seen


def is_between(known: list[str]) -> Any:
    """Whether what is stored is a state between two calls, and nothing that was acknowledged is missing."""

    def allows(before: object, after: object, seen: tuple[str, int]) -> bool:
        text, acknowledged = seen
        return text in known[acknowledged : acknowledged + 2]

    return allows


def study_writer(folder: Path) -> Writer:
    """The writer; the folder, which is empty, is for finding out what may be stored."""
    return Writer(prepare_study, run_study, stored, is_between(states(folder)))


class CarelessConnection(TracedConnection):
    """Without transactions: the harness must notice."""

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.startswith(("BEGIN", "COMMIT")):
            return sqlite3.Connection.execute(self, "SELECT 1")
        return super().execute(statement, *values)


def careless_study_writer(folder: Path) -> Writer:
    """A study that opens, by such a connection."""

    def run(folder: Path) -> None:
        with connections(CarelessConnection):
            annotate.open_study(folder / "study.json")

    return Writer(prepare_study, run, stored)
