"""Products with many rows, in blocks of fixed shape: the same bits on any number of threads.

The rows of many samples are an array in memory, or anything that can be read in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.estimate import Features
from mallow.evidence._units import Indices
from mallow.theory import Array

Values = NDArray[np.floating[Any]]
Result = TypeVar("Result")

ROWS = 1024  # chosen: rows per task


def at_once(numbers: int, size: int) -> int:
    """How many items with `each` numbers are processed at once, at least one."""
    return max(1, numbers // size)


def multiply(weights: Values, rows: Values, *, squares: bool = False) -> Values:
    """``weights @ rows.T``, or weights @ the squares of the rows: the same bits on any number of threads."""
    factor = np.ascontiguousarray(weights, dtype=rows.dtype)
    product = np.empty((len(factor), len(rows)), rows.dtype)

    def task(low: int) -> None:
        block = rows[low : low + ROWS]
        product[:, low : low + ROWS] = factor @ (np.square(block) if squares else block).T

    each_block(task, len(rows), ROWS)
    return product


def sum_blocks(task: Callable[[int], Values], shape: tuple[int, ...], size: int, step: int) -> Array:
    """The sum of ``task(low)`` over blocks of `size`, in float64 and in a fixed order."""
    total = np.zeros(shape)
    for part in _each(task, size, step):
        total += part
    return total


def each_block(task: Callable[[int], None], size: int, step: int) -> None:
    """Run a task for each block of `step` rows, on all threads."""
    for _ in _each(task, size, step):
        pass


def _each(task: Callable[[int], Result], size: int, step: int) -> Iterator[Result]:
    starts = range(0, size, step)
    with single_threaded_blas():
        yield from ordered_map(task, starts, min(cores(), len(starts)))


@runtime_checkable
class Rows(Protocol):
    """Rows of features, not necessarily in memory."""

    @property
    def width(self) -> int:
        """The number of features."""

    def __len__(self) -> int: ...

    def take(self, places: Indices) -> Features:
        """The rows at these places, few enough for memory."""

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """``function(rows, *along)`` for chunks of all rows, with the places of each chunk.

        The last axis of the arrays `along` has an entry for each row. The function gets the entries of its chunk. It
        may be called in a different process.
        """


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """The rows of an array, of which `step` make a chunk."""

    values: NDArray[Any]
    step: int = ROWS

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values)

    def take(self, places: Indices) -> Features:
        """The rows at these places."""
        return self.values[places]

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """See `Rows.scan`; runs on all threads."""
        slices = [slice(low, low + self.step) for low in range(0, len(self), self.step)]

        def task(at: slice) -> Result:
            return function(self.values[at], *(values[..., at] for values in along))

        with single_threaded_blas():
            yield from zip(slices, ordered_map(task, slices, cores()), strict=True)


@dataclass(frozen=True, eq=False)
class WideRows:
    """Rows with more columns, which are in memory."""

    rows: Rows
    more: NDArray[Any]

    @property
    def width(self) -> int:
        """The number of features, and of the columns beside them."""
        return self.rows.width + int(self.more.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Indices) -> Features:
        """Some rows."""
        return _join(self.rows.take(places), self.more[places])

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """See `Rows.scan`."""
        yield from self.rows.scan(partial(_call_wide, function), self.more.T, *along)


@dataclass(frozen=True, eq=False)
class SomeColumns:
    """Rows with only some of their columns."""

    rows: Rows
    columns: Indices

    @property
    def width(self) -> int:
        """The number of these columns."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Indices) -> Features:
        """Some rows."""
        return self.rows.take(places)[:, self.columns]

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """See `Rows.scan`."""
        yield from self.rows.scan(partial(_call_some, function, self.columns), *along)


def _call_some(function: Callable[..., Result], columns: Indices, rows: Features, *along: NDArray[Any]) -> Result:
    return function(rows[:, columns], *along)


def select_columns(rows: Features | Rows, columns: Indices) -> Features | Rows:
    """Rows with only these columns, in memory if they were."""
    return rows[:, columns] if isinstance(rows, np.ndarray) else SomeColumns(rows, columns)


def _call_wide(function: Callable[..., Result], rows: Features, more: NDArray[Any], *along: NDArray[Any]) -> Result:
    return function(_join(rows, more.T), *along)


def _join(rows: Features, more: NDArray[Any]) -> Features:
    return np.concatenate([rows, more], axis=1, dtype=np.result_type(np.float32, rows.dtype))
