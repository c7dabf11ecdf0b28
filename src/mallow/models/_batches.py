"""Which samples go through a model together: by length, within a budget, and again with less when memory runs out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError

__all__ = ["in_batches", "ran_out_of_memory", "within_memory"]

T = TypeVar("T")

_OUT_OF_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "failed to allocate memory",
    "alloc_failed",
    "bad_alloc",
)


def in_batches(
    lengths: Sequence[int], budget: int, *, waste: float = 0.03, overhead: int = 0
) -> Iterator[NDArray[np.int64]]:
    """Places of the samples of each batch, longest first; each place once.

    A batch is a rectangle as wide as its longest sample. It holds at most `budget` cells (one sample always fits), of
    which at most the share `waste`, or `overhead` cells if these are more, is padding; samples of one length never pad.
    Longest first, so that memory that does not suffice shows at once.

    Parameters
    ----------
    lengths : sequence of int
        Length of each sample, at least 1.
    budget : int
        Cells (padded tokens) in one batch.
    waste : float
        Largest share of padding in a batch, in [0, 1).
    overhead : int
        What one more batch costs, in cells: so much padding is cheaper than a batch of few short samples.

    Examples
    --------
    >>> [batch.tolist() for batch in in_batches([3, 100, 3, 99, 50], 200)]
    [[1, 3], [4], [0, 2]]
    """
    sizes, order = _sorted(lengths, waste)
    whole("budget", budget, least=1)
    whole("overhead", overhead, least=0)
    start = 0
    while start < len(order):
        count = _count(sizes[start:], budget, waste, overhead)
        yield order[start : start + count]
        start += count


def within_memory(
    lengths: Sequence[int],
    budget: int,
    compute: Callable[[NDArray[np.int64]], T],
    *,
    waste: float = 0.03,
    overhead: int = 0,
    workers: int = 1,
    prepare: Callable[[], object] | None = None,
    release: Callable[[], object] | None = None,
    advice: str = "Use a smaller model or shorter samples.",
) -> Iterator[tuple[NDArray[np.int64], T]]:
    """The batches of `in_batches`, each with what `compute` makes of it; halved whenever memory runs out.

    A batch that does not fit is cut in half, and the budget with it for all that follow, which come one at a time. A single
    sample that does not fit is an InputError that ends with `advice`.

    Parameters
    ----------
    lengths, budget, waste, overhead
        As in `in_batches`.
    compute : callable
        Takes the places of one batch.
    workers : int
        Batches at a time, each in a thread. They are given in order, whatever the number.
    prepare : callable, optional
        Called first in each of these threads.
    release : callable, optional
        Called after memory ran out and before the next attempt, for example `torch.cuda.empty_cache`.
    advice : str
        The way out when one sample alone does not fit.
    """
    sizes, order = _sorted(lengths, waste)
    budget = whole("budget", budget, least=1)
    whole("overhead", overhead, least=0)
    at_once, start = whole("workers", workers, least=1), 0
    waiting: deque[tuple[int, int, Future[T]]] = deque()  # where each batch begins, its size and what it will be
    with ThreadPoolExecutor(workers, initializer=prepare) as pool:
        while start < len(order) or waiting:
            while start < len(order) and len(waiting) < at_once:
                count = _count(sizes[start:], budget, waste, overhead)
                waiting.append((start, count, pool.submit(compute, order[start : start + count])))
                start += count
            begin, count, future = waiting.popleft()
            places = order[begin : begin + count]
            error = future.exception()
            if error is None:
                yield places, future.result()
                continue
            short = ran_out_of_memory(error)
            if short and count == at_once == 1:
                raise InputError(
                    f"Memory ran out on a single sample of length {sizes[begin]} (sample {places[0]}). {advice}"
                ) from error
            _drop(waiting)
            if not short:
                raise error
            del error, future  # they hold on to the tensors of the attempt
            start, at_once = begin, 1
            budget = max(1, count // 2) * int(sizes[begin])
            if release is not None:
                release()


def _drop(waiting: deque[tuple[int, int, Future[T]]]) -> None:
    """Wait for what has begun and forget it."""
    for *_, future in waiting:
        if not future.cancel():
            future.exception()
    waiting.clear()


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether the error means that memory ran out, on any device.

    Without importing torch: its accelerator errors are told by class name (``OutOfMemoryError``), those of its CPU
    allocator, of older back ends and of onnxruntime by what they say.

    Examples
    --------
    >>> ran_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."))
    True
    >>> ran_out_of_memory(RuntimeError("shapes do not match"))
    False
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    said = str(error).lower()
    # Not RuntimeErrors alone: onnxruntime has exceptions of its own.
    return not isinstance(error, (ValueError, TypeError)) and any(words in said for words in _OUT_OF_MEMORY)


def _sorted(lengths: Sequence[int], waste: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not 0 <= waste < 1:
        raise InputError(f"`waste` must be at least 0 and below 1; got {waste!r}.")
    sizes = np.asarray(lengths, np.int64)
    if sizes.size and sizes.min() < 1:
        raise InputError(f"`lengths` must be at least 1; got {sizes.min()} at {int(sizes.argmin())}.")
    order = np.argsort(-sizes, kind="stable").astype(np.int64)  # stable: the same batches on every machine
    return sizes[order], order


def _count(sizes: NDArray[np.int64], budget: int, waste: float, overhead: int) -> int:
    """How many of the leading samples, sorted from the longest, make the next batch."""
    widest = int(sizes[0])
    some = sizes[: max(1, budget // widest)]
    cells = widest * np.arange(1, len(some) + 1)
    # Padding and its share only grow along sorted samples, so the first excess ends the batch.
    over = np.flatnonzero(cells - np.cumsum(some) > np.maximum(waste * cells, overhead))
    return int(over[0]) if over.size else len(some)
