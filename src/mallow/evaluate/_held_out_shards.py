"""Held-out evidence about rows in shards: of all rows, in memory or in chunks, otherwise of some of their units."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.engine import Passes, memory_budget
from mallow.errors import Caveat
from mallow.estimate import Features, fetch_rows
from mallow.evidence import HeldOut, Measure, Units, are_many, choose_units, hold_out, hold_out_sources
from mallow.samples import Chunk, Samples, Shards

_KEPT_PER_ROW = 150  # bytes that evidence keeps of a row: fold, unit, rank, bins, length, score; measured
_NUMBERS = 2**24  # chosen: of a chunk, 64 MB in float32

Result = TypeVar("Result")
_LOG = logging.getLogger("mallow")
# Bytes that evidence takes, measured with 20,000 to 200,000 rows of 128 features:
_PER_ROW = 8_000
_PER_ENTRY = 40
_MOST_ROWS = 100_000  # of a subset, of all sets together; chosen: about half a minute


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
        """See `mallow.evidence._rows.Rows.scan`."""
        chunks = list(self.shards.chunks(max(1024, _NUMBERS // self.width)))
        places = [slice(chunk.start, chunk.start + len(chunk)) for chunk in chunks]
        tasks = ((chunk, [own[..., at] for own in along]) for chunk, at in zip(chunks, places, strict=True))
        yield from zip(places, self.passes.engine.map(partial(_call, function), tasks), strict=True)


def _call(function: Callable[..., Result], task: tuple[Chunk, list[NDArray[Any]]]) -> Result:
    chunk, along = task
    return function(chunk.read(), *along)


def streams_evidence(measure: Measure, units: Units) -> bool:
    """Whether evidence is learned from all rows in chunks: they are many, and what is kept of each fits the memory."""
    return are_many(measure.witness, units) and sum(map(len, units.sets)) * _KEPT_PER_ROW <= memory_budget()


@dataclass(frozen=True, eq=False)
class Seen:
    """The samples that are in memory: all, or some units of each set.

    Attributes
    ----------
    samples : dict
        Name → samples with features; the reference is called "".
    caveats : tuple of Caveat
        That not all were seen.
    places : dict
        Name → the places of these samples among all; nothing where all are there.
    """

    samples: dict[str, Samples]
    caveats: tuple[Caveat, ...]
    places: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all rows are there."""
        return not self.caveats


def fits_memory(rows: int, width: int) -> bool:
    """Whether so many rows can be evaluated in memory."""
    return rows * (_PER_ROW + _PER_ENTRY * width) <= memory_budget()


def look_at(passes: Passes, sets: Mapping[str, tuple[Samples, Shards]], units: Units, *, evidence: bool = True) -> Seen:
    """All samples, if they fit the memory; otherwise those of some units, chosen by a hash of their ids or values.

    `evidence` says whether evidence will rest on them.
    """
    total = sum(len(shards) for _, shards in sets.values())
    width = next(iter(sets.values()))[1].width
    if fits_memory(total, width):
        return Seen({name: samples.load() for name, (samples, _) in sets.items()}, ())
    most = max(200, min(_MOST_ROWS, int(memory_budget() / 2 / (_PER_ROW + _PER_ENTRY * width))))
    chosen = choose_units(units, most)
    some, chosen_places = {}, {}
    for numbers, (name, (samples, shards)) in zip(units.sets, sets.items(), strict=True):
        places = chosen_places[name] = np.flatnonzero(chosen[numbers])
        rows = fetch_rows(passes, [shards], places, shards.dtype)
        ids = tuple(f"{key:016x}" for key in units.keys[numbers[places]].tolist())
        some[name] = Samples.trusted(features=rows, ids=ids, source=samples.source, provenance=samples.provenance)
    count = sum(map(len, some.values()))
    text = (
        f"the certificate, the p-value, the reasons and the checks of the samples rest on {count:,} of {total:,} rows, "
        f"chosen by a hash, since all of them do not fit the memory ({memory_budget() / 1e9:.3g} GB). They are valid, "
        "but more rows would certify more: set MALLOW_MEMORY. The published score uses all rows."
    )
    if not evidence:
        text = (
            f"the reasons and the checks of the samples rest on {count:,} of {total:,} rows, chosen by a hash, since "
            f"all of them do not fit the memory ({memory_budget() / 1e9:.3g} GB). The scores, the certificate and the "
            "p-value use all rows."
        )
    return Seen(some, (Caveat("subset of rows", text, values={"rows": count, "n": total}),), chosen_places)


def hold_out_shards(
    passes: Passes, measure: Measure, sets: Mapping[str, Shards], units: Units, seen: Seen, seed: int
) -> HeldOut:
    """The evidence about each system against the reference: from all rows, unless only some of them can be used."""
    reference = seen.samples[""]
    pairs = {name: (reference, samples) for name, samples in seen.samples.items() if name}
    began = time.monotonic()
    if seen.complete or not streams_evidence(measure, units):
        held_out = hold_out(measure, pairs, seed)
    else:
        rows = {name: ShardRows(passes, shards) for name, shards in sets.items()}
        sources = {name: (rows[""], rows[name]) for name in pairs}
        places = {name: (seen.places[""], seen.places[name]) for name in pairs}
        held_out = hold_out_sources(measure, sources, units, pairs, places, seed)
    _LOG.info("%s: %.1f s", "evidence", time.monotonic() - began)
    return held_out
