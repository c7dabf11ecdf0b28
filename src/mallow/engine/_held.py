"""Arrays that stay where they were computed, to be used again and again: together too large for one process."""

from __future__ import annotations

import mmap
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mallow.engine._engine import Engine, memory_budget
from mallow.engine._ray import Held
from mallow.errors import InputError

_PART = (
    4  # of the memory allowed, one in so many may be held in it; chosen: two sets of arrays, and as much again for work
)

Array = NDArray[Any]
Task = TypeVar("Task")
Result = TypeVar("Result")


def hold(engine: Engine, function: Callable[[Task], Array], tasks: Sequence[Task], *, size: int) -> Held:
    """What the function makes of each task, held where it is made: by an engine that can, or in this process.

    An engine that can has a method ``hold(function, tasks)``. Otherwise arrays are held in memory, or in a temporary file
    if their `size` in bytes is more than a fourth of what ``MALLOW_MEMORY`` allows.

    Examples
    --------
    >>> from mallow.engine import Threads
    >>> held = hold(Threads(2), np.arange, [2, 3], size=40)
    >>> list(held.map(lambda array, add: int(array.sum()) + add, [(1, 10), (0, 20)]))
    [13, 21]
    """
    own: Any = getattr(engine, "hold", None)
    if own is not None:
        return cast(Held, own(function, tasks))
    return _HeldHere(engine, engine.map(function, tasks), size)


class _HeldHere:
    """Arrays in this process: in memory, or in a file that has no name and ends with the process."""

    def __init__(self, engine: Engine, arrays: Iterator[Array], size: int) -> None:
        self._engine = engine
        self._arrays = list(arrays) if size <= memory_budget() // _PART else _write(engine, arrays, size)

    def __len__(self) -> int:
        return len(self._arrays)

    def map(self, function: Callable[[Array, Any], Result], tasks: Iterable[tuple[int, Any]]) -> Iterator[Result]:
        pairs = ((self._arrays[place], extra) for place, extra in tasks)
        return self._engine.map(partial(_apply, function), pairs)

    def hold(self, function: Callable[[Array], Array], *, size: int) -> Held:
        return _HeldHere(self._engine, self._engine.map(function, iter(self._arrays)), size)


def _apply(function: Callable[[Array, Any], Result], pair: tuple[Array, Any]) -> Result:
    return function(*pair)


def _write(engine: Engine, arrays: Iterator[Array], size: int) -> list[Array]:
    """The arrays, mapped from a file: in the folder of the checkpoint, or among the temporary files."""
    chosen: str | None = getattr(engine, "checkpoint", None)
    folder = Path(tempfile.gettempdir() if chosen is None else chosen)
    free = shutil.disk_usage(folder).free
    if free < size:
        raise _no_room(folder, size, f"only {free / 1e9:.3g} GB are free")
    places: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for array in arrays:
            places.append((file.tell(), array.dtype, array.shape))
            try:
                file.write(np.ascontiguousarray(array).data)
                file.write(bytes(-file.tell() % 64))
                file.flush()
            except OSError as error:
                raise _no_room(folder, size, error.strerror or str(error)) from error
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # it stays after the file is closed
    return [
        np.frombuffer(mapped, dtype, int(np.prod(shape)), offset=start).reshape(shape) for start, dtype, shape in places
    ]


def _no_room(folder: Path, size: int, reason: str) -> InputError:
    return InputError(
        f"{folder}: points to cluster do not fit the memory allowed ({memory_budget() / 1e9:.3g} GB) and take {size / 1e9:.3g} GB "
        f"here instead: {reason}. Free some space, name a folder on a larger disk (--checkpoint, or TMPDIR), set MALLOW_MEMORY, or "
        "cluster fewer rows with Quantize(sample=1_000_000). What is done stays in the checkpoint."
    )
