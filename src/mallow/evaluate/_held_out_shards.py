"""Held-out evidence about rows in shards: of all rows where they fit the memory, otherwise of some of their units."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mallow.engine import Passes, memory_budget
from mallow.errors import Caveat
from mallow.estimate import fetch_rows
from mallow.evaluate._shard_evidence import ShardRows, streams_evidence
from mallow.evidence import HeldOut, Measure, Units, choose_units, hold_out, hold_out_sources
from mallow.samples import Samples, Shards

_LOG = logging.getLogger("mallow")

# Bytes that evidence takes, measured with 20,000 to 200,000 rows of 128 features:
_PER_ROW = 8_000
_PER_ENTRY = 40
_MOST_ROWS = 100_000  # of a subset, of all sets together; chosen: about half a minute


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
        f"the certificate, the p-value, the reasons and the checks of the samples rest on {count:,} of {total:,} rows, chosen by a "
        f"hash, since all of them do not fit the memory ({memory_budget() / 1e9:.3g} GB). They are valid, but more rows would "
        "certify more: set MALLOW_MEMORY. The published score uses all rows."
    )
    if not evidence:
        text = (
            f"the reasons and the checks of the samples rest on {count:,} of {total:,} rows, chosen by a hash, since all of them do "
            f"not fit the memory ({memory_budget() / 1e9:.3g} GB). The scores, the certificate and the p-value use all rows."
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
