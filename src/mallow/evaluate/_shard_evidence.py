"""Held-out evidence about all rows in shards: sums over chunks, on any engine, with the bits of one array in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.engine import Passes, memory_budget
from mallow.estimate import Features, fetch_rows
from mallow.evidence import Measure, Units, are_many
from mallow.samples import Chunk, Shards

_PER_ROW = 150  # bytes that evidence keeps of a row: fold, unit, rank, bins, length, score; measured
_NUMBERS = 2**24  # chosen: of a chunk, 64 MB in float32

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ShardRows:
    """The rows of shards, read a chunk at a time on the engine of some passes."""

    passes: Passes
    shards: Shards

    @property
    def width(self) -> int:
        """The number of features."""
        return self.shards.width

    def __len__(self) -> int:
        return len(self.shards)

    def take(self, places: NDArray[np.int64]) -> Features:
        """Some rows."""
        return fetch_rows(self.passes, [self.shards], places, self.shards.dtype)

    def scan(self, function: Callable[..., Result], *along: NDArray[Any]) -> Iterator[tuple[slice, Result]]:
        """See `mallow.evidence._blocks.Rows.scan`."""
        chunks = list(self.shards.chunks(max(1024, _NUMBERS // self.width)))
        places = [slice(chunk.start, chunk.start + len(chunk)) for chunk in chunks]
        tasks = ((chunk, [own[..., at] for own in along]) for chunk, at in zip(chunks, places, strict=True))
        yield from zip(places, self.passes.engine.map(partial(_call, function), tasks), strict=True)


def _call(function: Callable[..., Result], task: tuple[Chunk, list[NDArray[Any]]]) -> Result:
    chunk, along = task
    return function(chunk.read(), *along)


def streams_evidence(measure: Measure, units: Units) -> bool:
    """Whether evidence can be learned from all rows chunk by chunk: they are many, and what is kept of each fits the memory."""
    return are_many(measure.witness, units) and sum(map(len, units.sets)) * _PER_ROW <= memory_budget()
