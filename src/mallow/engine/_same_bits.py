"""Work with the same results on any processor and any number of threads.

Tasks run on threads, with BLAS limited to one thread.

Sums of products of integers are exact, so they do not depend on their order: in float64 while no partial sum reaches
2^53, and in float32 while none reaches 2^24; by Cauchy and Schwarz it is enough that the product of the norms stays
below. The bits are then the same for every processor, BLAS, number of threads and shape of the blocks. All other
operations here are single correctly rounded ones on each number (+, −, ×, ÷, square root, rounding), which are the same
everywhere too.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Task = TypeVar("Task")
Result = TypeVar("Result")


_TASK = threading.local()  # whether this thread runs one of several tasks


@contextmanager
def one_core() -> Iterator[None]:
    """Let `cores` be 1 in this thread, so that a task that runs beside others does not spread its work again."""
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


@contextmanager
def worker_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for tasks that do not spread their own work. Tasks that have not begun at the end are dropped.

    There is one flat pool. Threads that take over each other's tasks would make a score on two cores 6% faster (five
    alternating runs of (5,000 + 5,000) × 1,024: 3.04 instead of 3.23 s), which is not worth the extra code.
    """
    pool = ThreadPoolExecutor(threads, initializer=_work_alone)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _work_alone() -> None:
    _TASK.alone = True


def ordered_map(
    function: Callable[[Task], Result], tasks: Iterable[Task], threads: int, *, ahead: int = 2
) -> Iterator[Result]:
    """The results of ``function`` in the order of ``tasks``, on ``threads`` threads; inside `one_core`, on this thread.

    At most ``ahead * threads`` results wait to be consumed, which bounds the memory.
    """
    if threads == 1 or getattr(_TASK, "alone", False):
        yield from map(function, tasks)
        return
    pending = iter(tasks)
    with worker_pool(threads) as pool:
        queue = deque(pool.submit(function, task) for task in islice(pending, ahead * threads))
        while queue:
            yield queue.popleft().result()
            queue.extend(pool.submit(function, task) for task in islice(pending, 1))


def start(function: Callable[[], Result]) -> Future[Result]:
    """The result of ``function``, which starts at once on its own thread; `Future.result` waits for it.

    Inside `one_core` it is computed here and now.
    """
    if getattr(_TASK, "alone", False):
        return run_now(function)
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function)
    pool.shutdown(wait=False)
    return future


def run_now(function: Callable[[], Result]) -> Future[Result]:
    """The result of ``function`` like `start`, but computed here and now, for work that needs all memory."""
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
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._unlock)
        self._callers = 0
        self._before: list[tuple[Any, int]] = []  # each BLAS library, and its number of threads

    def _unlock(self) -> None:
        """In a forked process the thread that held the lock does not exist. Its limit of threads stays."""
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            if self._callers == 0:
                import scipy.linalg  # noqa: F401 - it loads a BLAS of its own, which must be loaded to be limited

                self._before = [(library, library.num_threads) for library in _blas_libraries(len(sys.modules))]
                for library, _ in self._before:
                    _set_threads(library, 1)
            self._callers += 1

    def leave(self) -> None:
        with self._lock:
            self._callers -= 1
            if self._callers == 0:
                for library, threads in self._before:
                    _set_threads(library, threads)


@lru_cache(maxsize=1)
def _blas_libraries(_modules: int) -> list[Any]:
    """The BLAS libraries of the process. More modules may bring more of them, so the search is then made again.

    It takes 3 ms with the packages of a score loaded, and a score of a few hundred samples would make it four times.
    """
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


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
    thread, the bits depend only on the operands and their shapes. The work is parallel over blocks of fixed shape
    instead.
    """
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()


SINGLE = 2.0**24  # integers up to here are exact in float32
DOUBLE = 2.0**53  # and up to here in float64

Values = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Value = TypeVar("Value")


def bits_for_squares(count: int) -> int:
    """The largest b for which `count` squares of integers up to 2^b have an exact sum in float64."""
    return (53 - max(count, 1).bit_length()) // 2


def round_to(values: Values, exponent: int) -> Doubles:
    """The values in units of 2^exponent, rounded to integers."""
    return np.rint(np.ldexp(np.asarray(values, np.float64), -exponent))


def unit_rows(rows: Values) -> Doubles:
    """Rows (n, d) of length 1, in float64; rows of zeros stay zeros. Each result depends only on its own row, to the
    last bit.

    The numbers of a row are rounded to integers first, relative to the largest, so that the sum of their squares is
    exact.
    """
    values = np.array(rows, np.float64)
    largest = np.maximum(values.max(axis=1, initial=0.0), -values.min(axis=1, initial=0.0))
    exponent = bits_for_squares(values.shape[1]) - np.frexp(largest)[1]
    half = exponent // 2  # in two steps: one power of two might overflow for the smallest numbers
    values *= np.ldexp(1.0, half)[:, None]
    values *= np.ldexp(1.0, exponent - half)[:, None]
    np.rint(values, out=values)
    norm = np.sqrt(np.einsum("ij,ij->i", values, values))
    norm[norm == 0] = 1.0
    values /= norm[:, None]
    return values


def settle(value: Value, digits: int = 10, *, least: float = 0.0) -> Value:
    """The value without the last digits of its numbers, in which processors may differ by rounding.

    Numbers may be in tuples, lists, dictionaries, arrays and frozen dataclasses. Those smaller than `least` are
    rounding errors, and become 0.

    Examples
    --------
    >>> settle(0.1 + 0.2), settle({"a": (2 / 3, 1)}, 4)
    (0.3, {'a': (0.6667, 1)})
    """
    return cast(Value, _settle(value, digits, least))


def _settle(value: object, digits: int, least: float) -> object:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if abs(value) >= least else 0.0
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array([_settle(each, digits, least) for each in value.ravel().tolist()]).reshape(value.shape)
    if isinstance(value, dict):
        return {key: _settle(each, digits, least) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_settle(each, digits, least) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: _settle(getattr(value, each.name), digits, least) for each in fields(value)}
        )
    return value
