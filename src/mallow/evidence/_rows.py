"""Where the rows of many samples are: an array in memory, or anything that can be read a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.estimate import Features
from mallow.evidence._blocks import ROWS
from mallow.evidence._units import Indices

Numbers = NDArray[np.integer[Any]]
Result = TypeVar("Result")


@runtime_checkable
class Rows(Protocol):
    """Rows of features that need not be in memory."""

    @property
    def width(self) -> int:
        """The number of features."""

    def __len__(self) -> int: ...

    def take(self, places: Indices) -> Features:
        """Some rows, few enough for the memory."""

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """``function(rows, *along)`` for chunks of all rows, with the places of each chunk.

        The last axis of the arrays `along` has an entry for each row; the function gets those of its chunk. It may be
        called in another process.
        """


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """The rows of an array."""

    values: NDArray[Any]

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values)

    def take(self, places: Indices) -> Features:
        """Some rows."""
        return self.values[places]

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """See `Rows.scan`; on all threads."""
        slices = [slice(low, low + ROWS) for low in range(0, len(self), ROWS)]

        def task(at: slice) -> Result:
            return function(self.values[at], *(own[..., at] for own in along))

        with single_threaded_blas():
            yield from zip(slices, ordered_map(task, slices, cores()), strict=True)
