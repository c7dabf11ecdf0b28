"""Batches of samples of similar length, within a budget of memory, and smaller ones if memory runs out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError

T = TypeVar("T")


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
    """The places of the samples in each batch, longest first, with the result of `compute` for them.

    A batch is a rectangle as wide as its longest sample. It has at most `budget` cells (padded tokens), unless it is a
    single sample. At most the share `waste` of them is padding (chosen: 3% keeps batches large at little cost), or
    `overhead` cells, the cost of one more batch, if that is more. The longest come first, so that a lack of memory
    shows at once. `workers` batches run at the same time, each in a thread that calls `prepare` first.

    If memory runs out, the batch is halved, and so is the budget for all later batches, which then run one at a time;
    `release` and `advice` are as in `halve_on_memory_error`.

    Examples
    --------
    >>> [places.tolist() for places, _ in within_memory([3, 100, 3, 99, 50], 200, len)]
    [[1, 3], [4], [0, 2]]
    """
    if not 0 <= waste < 1:
        raise InputError(f"`waste` must be at least 0 and below 1; got {waste!r}.")
    sizes = np.asarray(lengths, np.int64)
    if sizes.size and sizes.min() < 1:
        raise InputError(f"`lengths` must be at least 1; got {sizes.min()} at {int(sizes.argmin())}.")
    order = np.argsort(-sizes, kind="stable").astype(np.int64)  # stable: the same batches on every machine
    sizes = sizes[order]
    budget = whole("budget", budget, least=1)
    whole("overhead", overhead, least=0)
    at_once, start = whole("workers", workers, least=1), 0
    running: deque[tuple[int, NDArray[np.int64], Future[T]]] = deque()  # the start of each batch, and its places
    with ThreadPoolExecutor(workers, initializer=prepare) as pool:
        while start < len(order) or running:
            while start < len(order) and len(running) < at_once:
                batch = order[start : start + _batch_size(sizes[start:], budget, waste, overhead)]
                running.append((start, batch, pool.submit(compute, batch)))
                start += len(batch)
            begin, batch, future = running.popleft()
            error = future.exception()
            if error is None:
                yield batch, future.result()
                continue
            for *_, other in running:  # cancelled, or waited for if it has begun
                if not other.cancel():
                    other.exception()
            running.clear()
            if not ran_out_of_memory(error):
                raise error
            if len(batch) == 1 and at_once == 1:
                raise _no_memory(f"sample of length {sizes[begin]} (sample {batch[0]})", advice) from error
            del error, future  # they hold the tensors of the attempt
            at_once, start, budget = 1, begin, max(1, len(batch) // 2) * int(sizes[begin])
            if release is not None:
                release()


def _no_memory(item: str, advice: str) -> InputError:
    return InputError(f"Memory ran out on a single {item}. {advice}")


def _batch_size(sizes: NDArray[np.int64], budget: int, waste: float, overhead: int) -> int:
    """The number of samples, sorted from the longest, in the next batch."""
    widest = int(sizes[0])
    candidates = sizes[: max(1, budget // widest)]
    cells = widest * np.arange(1, len(candidates) + 1)
    # Padding and its share only grow along sorted samples, so the first excess ends the batch.
    over = np.flatnonzero(cells - np.cumsum(candidates) > np.maximum(waste * cells, overhead))
    return int(over[0]) if over.size else len(candidates)


# Parts of error messages, in lower case: of torch (CPU allocator and older back ends), cuBLAS, C++ and onnxruntime.
_MESSAGES = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "failed to allocate memory",
    "alloc_failed",
    "bad_alloc",
)


Result = TypeVar("Result")


def halve_on_memory_error(
    compute: Callable[[Any], Result],
    items: Sequence[Any] | NDArray[Any],
    *,
    item: str = "sample",
    advice: str = "Use a smaller model or shorter samples.",
    release: Callable[[], object] | None = None,
) -> tuple[int, Result]:
    """The number of first items that fit into memory, and the result of `compute` for them.

    All items are tried first, then half of them, a quarter, and so on. Call it again for the remaining items. `release`
    is called after memory ran out and before the next attempt. If a single item does not fit, the error names it as
    `item` and ends with `advice`.
    """
    count = len(items)
    while True:
        try:
            return count, compute(items[:count])
        except Exception as error:
            if not ran_out_of_memory(error):
                raise
            if count == 1:
                raise _no_memory(item, advice) from error
        # Outside the handler, since the error holds the tensors of the attempt, which must be freed before the next
        # one.
        count //= 2
        if release is not None:
            release()


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether the error means that memory ran out, on any device.

    It does not import torch: the accelerator errors of torch are recognised by their class name (``OutOfMemoryError``),
    and the errors of its CPU allocator, of older back ends and of onnxruntime by their messages.
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    message = str(error).lower()
    # Not only RuntimeErrors, since onnxruntime has its own exception classes.
    return not isinstance(error, (ValueError, TypeError)) and any(part in message for part in _MESSAGES)
