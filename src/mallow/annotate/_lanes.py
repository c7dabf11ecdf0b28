"""The path from the event loop to the database: waiting work is done together, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from mallow.annotate._database import Execute, StorageError
from mallow.annotate._store import Store

T = TypeVar("T")
Job = Callable[[Execute], Any]


class Lane:
    """Runs functions of one kind, those that write or those that read, on a thread of their own.

    Jobs that arrive while a transaction waits for the disk share the next transaction. An answer therefore costs a
    fraction of a commit if many arrive at once, and none is acknowledged before the commit. If the database is
    locked, all waiting jobs fail together instead of one after another.
    """

    def __init__(self, store: Store, *, write: bool) -> None:
        self._store, self._write = store, write
        self._thread = ThreadPoolExecutor(1, "write" if write else "read")
        self._waiting: list[tuple[Job, asyncio.Future[Any]]] = []
        self._busy = False

    async def __call__(self, job: Callable[..., T], *values: Any, **options: Any) -> T:
        """What the function returns for the transaction and these values, once it is committed."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((lambda execute: job(execute, *values, **options), future))
        if not self._busy:
            self._start()
        return await future

    def _start(self) -> None:
        entries, self._waiting, self._busy = self._waiting, [], True
        run = asyncio.get_running_loop().run_in_executor(self._thread, self._run, [job for job, _ in entries])
        run.add_done_callback(partial(self._finish, entries))

    def _finish(self, entries: list[tuple[Job, asyncio.Future[Any]]], run: asyncio.Future[list[Any]]) -> None:
        self._busy = False
        outcomes = run.result()
        for (_, future), outcome in zip(entries, outcomes, strict=True):
            _resolve(future, outcome)
        if isinstance(outcomes[0], _UnreachableError):
            for _, future in self._waiting:
                _resolve(future, outcomes[0])
            self._waiting = []
        if self._waiting:
            self._start()

    def _run(self, jobs: Sequence[Job]) -> list[Any]:
        """The result of each job, or its exception."""
        begun = False

        def note(_: Execute) -> None:
            nonlocal begun
            begun = True

        try:
            return self._store.run([note, *jobs], write=self._write)[1:]
        except StorageError as error:
            if not begun:
                return [_UnreachableError(str(error))] * len(jobs)
            failure: Exception = error
        except Exception as error:
            failure = error
        # One job failed, and nothing was kept. Now each gets its own transaction, so that the others do not fail.
        return [failure] if len(jobs) == 1 else [self._run([job])[0] for job in jobs]


class _UnreachableError(StorageError):
    """No transaction could begin."""


def _resolve(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():  # the visitor has gone away
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
