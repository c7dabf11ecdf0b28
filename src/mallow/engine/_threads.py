"""Tasks on threads, with BLAS limited to one thread: results do not depend on the number of threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


_TASK = threading.local()  # whether this thread works on one of several tasks, and the crew that it belongs to


@contextmanager
def one_core() -> Iterator[None]:
    """Let `cores` be 1 in this thread: beside other tasks, a task does not spread its work again."""
    before = getattr(_TASK, "alone", False)
    _TASK.alone = True
    try:
        yield
    finally:
        _TASK.alone = before


def cores() -> int:
    """The number of processors that this process may use; 1 inside `one_core`."""
    if getattr(_TASK, "alone", False):
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Task(Future[Result]):
    """A task of a crew: whoever of the crew waits for it, before anybody has begun it, does it."""

    def __init__(self, function: Callable[[], Result]) -> None:
        super().__init__()
        self._function: Callable[[], Result] | None = function
        self._begun = threading.Lock()

    def run(self) -> bool:
        """Do it, unless somebody has begun it; whether it was done here."""
        if not self._begun.acquire(blocking=False):
            return False
        if self._function is None:
            raise AssertionError("a task that was dropped has begun")
        try:
            self.set_result(self._function())
        except BaseException as error:
            self.set_exception(error)
        self._function = None  # what it holds may be large
        return True

    def result(self, timeout: float | None = None) -> Result:
        """The result, computed here if nobody has begun."""
        if _crew() is not None:
            self.run()
        return super().result(timeout)

    def drop(self) -> None:
        """Nobody needs the result: do not begin, and wait if somebody has."""
        if self._begun.acquire(blocking=False):
            self._function = None
        else:
            self.exception()


class Crew:
    """A few threads that share all tasks, also those that their tasks begin: no processor is idle while there is work.

    A task that waits for another one does it itself if nobody has begun it, so that tasks may wait for tasks however
    few threads there are.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, initializer=self._join)

    def _join(self) -> None:
        _TASK.crew = self

    def begin(self, function: Callable[[], Result]) -> _Task[Result]:
        """Begin a task as soon as a thread is free."""
        task = _Task(function)
        self._pool.submit(task.run)
        return task

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task], waiting: int) -> Iterator[Result]:
        """The results of ``function`` in the order of ``tasks``, of which at most `waiting` wait to be consumed."""
        pending = iter(tasks)
        queue = [self.begin(partial(function, task)) for task in islice(pending, waiting)]
        try:
            while queue:
                if _crew() is not None:  # do what others have not begun, rather than wait for what they have
                    while not queue[0].done() and any(task.run() for task in queue):
                        pass
                yield queue.pop(0).result()
                queue.extend(self.begin(partial(function, task)) for task in islice(pending, 1))
        finally:
            for task in queue:
                task.drop()

    def close(self) -> None:
        """Wait for what has begun, drop the rest, and end the threads."""
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def crew_of(threads: int) -> Iterator[Crew]:
    """The crew that this thread belongs to, or a new one of so many threads."""
    known = _crew()
    crew = known or Crew(threads)
    try:
        yield crew
    finally:
        if known is None:
            crew.close()


def _crew() -> Crew | None:
    """The crew that this thread belongs to, if it may share its work."""
    return None if getattr(_TASK, "alone", False) else getattr(_TASK, "crew", None)


def ordered_map(
    function: Callable[[Task], Result], tasks: Iterable[Task], threads: int, *, ahead: int = 2
) -> Iterator[Result]:
    """The results of ``function`` in the order of ``tasks``, on ``threads`` threads or by the crew of this thread.

    At most ``ahead * threads`` results wait to be consumed, which bounds the memory.
    """
    if threads == 1:
        yield from map(function, tasks)
        return
    with crew_of(threads) as crew:
        yield from crew.map(function, tasks, ahead * threads)


def start(function: Callable[[], Result]) -> Future[Result]:
    """The result of ``function``, which starts at once on a thread of its own: `Future.result` waits for it.

    Inside `one_core` it is computed here and now; a crew does it when somebody is free or waits for it.
    """
    if getattr(_TASK, "alone", False):
        return run_now(function)
    if (crew := _crew()) is not None:
        return crew.begin(function)
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function)
    pool.shutdown(wait=False)
    return future


def run_now(function: Callable[[], Result]) -> Future[Result]:
    """The result of ``function`` like `start`, but computed here and now: for work that needs the memory for itself."""
    future: Future[Result] = Future()
    future.set_result(function())
    return future


class _OneThread:
    """Counts the callers that need a single-threaded BLAS: the first one sets the limit, the last one removes it.

    The number of BLAS threads belongs to the whole process. Without the count, two overlapping calls would restore each
    other's setting, and could leave the process at one thread for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callers = 0
        self._before: list[tuple[Any, int]] = []  # each BLAS library, and its number of threads

    def enter(self) -> None:
        with self._lock:
            if self._callers == 0:
                import scipy.linalg  # noqa: F401 - it loads a BLAS of its own, which must be loaded to be limited
                from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

                libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self._before = [(library, library.num_threads) for library in libraries]
                for library, _ in self._before:
                    _set_threads(library, 1)
            self._callers += 1

    def leave(self) -> None:
        with self._lock:
            self._callers -= 1
            if self._callers == 0:
                for library, threads in self._before:
                    _set_threads(library, threads)


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads of a BLAS library, from any thread.

    threadpoolctl 3.8 accepts changes to OpenBLAS from only one thread of the process and silently ignores all others: a
    call from a worker thread would not be limited, or never restored. The lock of `_OneThread` orders the callers here.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_ONE_THREAD = _OneThread()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit every BLAS call of the process to one thread.

    A BLAS that splits a product over its own threads may round it differently for each number of threads. With one
    thread, the bits depend on the operands and their shapes alone; the work is parallel over blocks of fixed shape
    instead.
    """
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()
