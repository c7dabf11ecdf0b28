"""Where answers are kept: SQLite or PostgreSQL. One transaction at a time; what is committed is on disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from mallow._optional import optional
from mallow.errors import InputError

_PATIENCE = 5.0  # seconds to wait for another process that writes; chosen: an annotator may wait this long
_LOCK = 0x6D616C6C6F77  # "mallow": the advisory lock that makes transactions of PostgreSQL follow one another

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS annotators (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, source TEXT NOT NULL, external TEXT NOT NULL, session TEXT NOT NULL,
        joined DOUBLE PRECISION NOT NULL, ready DOUBLE PRECISION, UNIQUE (source, external))""",
    """CREATE TABLE IF NOT EXISTS assignments (
        annotator TEXT NOT NULL REFERENCES annotators (id), place INTEGER NOT NULL, task TEXT NOT NULL,
        kind TEXT NOT NULL, swapped INTEGER NOT NULL, state TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL,
        reason TEXT, PRIMARY KEY (annotator, place), UNIQUE (annotator, task, kind))""",
    "CREATE INDEX IF NOT EXISTS assignments_by_task ON assignments (task, kind, state, expires)",
    # Few of all pairs ever given are out at a time. Each choice asks for them, and this index is enough to answer.
    "CREATE INDEX IF NOT EXISTS assignments_open ON assignments (kind, task, expires) WHERE state = 'open'",
    """CREATE TABLE IF NOT EXISTS submissions (
        annotator TEXT NOT NULL, place INTEGER NOT NULL, number INTEGER NOT NULL, page TEXT NOT NULL,
        answers TEXT NOT NULL, seconds DOUBLE PRECISION NOT NULL, received DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (annotator, place, number),
        FOREIGN KEY (annotator, place) REFERENCES assignments (annotator, place))""",
)


# Runs one statement with ? for each value, and returns its rows: an empty list for a statement that returns none.
Execute = Callable[..., list[tuple[Any, ...]]]


class StorageError(Exception):
    """The database is locked, full or unreachable at the moment. Nothing of the transaction was kept."""


class Database(Protocol):
    """A database in which each transaction sees all earlier ones."""

    def transaction(self, *, write: bool = True) -> Any:
        """A context that yields an `Execute`. It is committed at the end, and undone if the block raises.

        One that writes waits for all others that write; one that only reads does not wait.
        """

    def close(self) -> None:
        """Close the connections."""


def open_database(url: str) -> Database:
    """The database at a path or a postgresql:// URL, created where it does not exist."""
    if url.startswith(("postgresql://", "postgres://")):
        database: Database = _Postgres(url)
    elif "://" in url:
        raise InputError(
            f"`database` must be the path of a file or a postgresql:// URL; got one of {url.split('://')[0]}://."
        )
    else:
        database = _SQLite(Path(url).expanduser())
    try:
        with database.transaction() as execute:
            for statement in _SCHEMA:
                execute(statement)
    except StorageError as error:
        raise InputError(f"the database cannot be used: {error}") from error
    return database


class _SQLite:
    """One connection that writes, since SQLite has one writer at a time anyway, and one that reads."""

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise InputError(f"{path}: the folder {path.parent} does not exist. Create it first.")
        try:
            # It holds the key that signs links, so only its owner may read it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            writer = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
            writer.execute("PRAGMA foreign_keys = ON")
            writer.execute("PRAGMA journal_mode = WAL")
            # With the usual NORMAL, a crash of the machine may undo the last commits; FULL waits for the disk each
            # time.
            writer.execute("PRAGMA synchronous = FULL")
            fault = writer.execute("PRAGMA quick_check(1)").fetchone()[0]
            if fault != "ok":
                raise sqlite3.DatabaseError(f"it is damaged: {fault}")
            reader = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{path}: cannot be used as a database: {reason}.") from error
        self._connections = {True: (writer, threading.Lock()), False: (reader, threading.Lock())}

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[Execute]:
        """See `Database`."""
        connection, lock = self._connections[write]
        with lock:
            try:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield lambda statement, values=(): connection.execute(statement, values).fetchall()
                connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                raise StorageError(f"{error}.") from error
            except sqlite3.DatabaseError as error:
                raise StorageError(f"the file is damaged or no database: {error}.") from error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """See `Database`."""
        for connection, lock in self._connections.values():
            with lock:
                connection.close()


class _Postgres:
    """Two connections as for SQLite, opened again after the server went away. An advisory lock admits one writer."""

    def __init__(self, url: str) -> None:
        self._psycopg = optional("psycopg", extra="postgres")
        self._url = url
        self._connections: dict[bool, Any] = {True: None, False: None}
        self._locks = {True: threading.Lock(), False: threading.Lock()}

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[Execute]:
        """See `Database`."""
        with self._locks[write]:
            try:
                connection = self._connect(write)
                with connection.transaction():
                    cursor = connection.cursor()
                    if write:
                        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))

                    def execute(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                        cursor.execute(statement.replace("?", "%s"), values)
                        return cursor.fetchall() if cursor.description else []

                    yield execute
            except self._psycopg.Error as error:
                reason = str(error).splitlines()[0] if str(error) else "no connection"
                raise StorageError(f"PostgreSQL: {reason}.") from None

    def _connect(self, write: bool) -> Any:
        connection = self._connections[write]
        if connection is None or connection.closed or connection.broken:
            if connection is not None:
                connection.close()
            seconds = max(1, int(_PATIENCE))
            connection = self._connections[write] = self._psycopg.connect(
                self._url, autocommit=True, connect_timeout=seconds, options=f"-c lock_timeout={seconds}s"
            )
        return connection

    def close(self) -> None:
        """See `Database`."""
        for write, connection in self._connections.items():
            if connection is not None:
                connection.close()
                self._connections[write] = None
