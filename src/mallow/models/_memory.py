"""What to do when memory runs out: recognise the error, and try again with half as many items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from mallow.errors import InputError

# Parts of error messages, in lower case: of torch (CPU allocator and older back ends), cuBLAS, C++ and onnxruntime.
_MESSAGES = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "failed to allocate memory",
    "alloc_failed",
    "bad_alloc",
)


class _Items(Protocol):
    """A list, a tuple or an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Self: ...


Items = TypeVar("Items", bound=_Items)
Result = TypeVar("Result")


def halve_on_memory_error(
    compute: Callable[[Items], Result],
    items: Items,
    *,
    item: str = "sample",
    advice: str = "Use a smaller model or shorter samples.",
    release: Callable[[], object] | None = None,
) -> tuple[int, Result]:
    """How many of the first items fit into memory, and what `compute` returns for them.

    All items are tried first, then half of them, a quarter, and so on. Call it again for the items that are left.

    Parameters
    ----------
    compute : callable
        Takes the first items.
    items : list, tuple or array
        At least one.
    item : str
        What to call a single item in the InputError that is raised when even one does not fit.
    advice : str
        The last sentence of that error: the way out.
    release : callable, optional
        Called after memory ran out and before the next attempt, for example `torch.cuda.empty_cache`.

    Examples
    --------
    >>> def add(numbers):
    ...     if len(numbers) > 2:
    ...         raise MemoryError
    ...     return sum(numbers)
    >>> halve_on_memory_error(add, [1, 2, 3, 4, 5])
    (2, 3)
    """
    count = len(items)
    while True:
        try:
            return count, compute(items[:count])
        except Exception as error:
            if not ran_out_of_memory(error):
                raise
            if count == 1:
                raise InputError(f"Memory ran out on a single {item}. {advice}") from error
        # Outside the handler: the error holds the tensors of the attempt, which must be gone before the next one.
        count //= 2
        if release is not None:
            release()


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether the error means that memory ran out, on any device.

    It does not import torch: the accelerator errors of torch are recognised by their class name (``OutOfMemoryError``),
    those of its CPU allocator, of older back ends and of onnxruntime by their messages.

    Examples
    --------
    >>> ran_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."))
    True
    >>> ran_out_of_memory(RuntimeError("shapes do not match"))
    False
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    message = str(error).lower()
    # Not only RuntimeErrors: onnxruntime has exception classes of its own.
    return not isinstance(error, (ValueError, TypeError)) and any(part in message for part in _MESSAGES)
