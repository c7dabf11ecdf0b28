"""Systems in shards, or on a cluster, with the same bits as for arrays in memory."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.caveats import check_samples, size_caveats
from mallow.engine import Engine, Passes, memory_budget
from mallow.errors import Caveat, InputError
from mallow.estimate import (
    Features,
    Quantize,
    Survey,
    as_features,
    fetch_rows,
    hash_names,
    quantize_shards,
    split_size,
    survey_rows,
)
from mallow.evaluate._run import Generations, Parts, Run, Settings, split_rows, summary_values
from mallow.evidence import (
    SUMMARIES,
    HeldOut,
    Measure,
    Pairs,
    Units,
    are_many,
    choose_units,
    generator_for,
    hold_out,
    hold_out_rows,
    units_of_surveys,
)
from mallow.samples import Chunk, Samples, Shards

_KEPT_PER_ROW = 150  # bytes that evidence keeps per row: fold, unit, rank, bins, length, score; measured
_NUMBERS = 2**24  # chosen: numbers in a chunk, 64 MB in float32

Result = TypeVar("Result")
_LOG = logging.getLogger("mallow")
# Bytes that evidence needs, measured with 20,000 to 200,000 rows of 128 features:
_PER_ROW = 8_000
_PER_ENTRY = 40
_MOST_ROWS = 100_000  # rows of a subset, for all sets together; chosen: about half a minute


@dataclass(frozen=True, eq=False)
class SurveyedSet:
    """Samples as shards, with the results of one pass over them."""

    samples: Samples
    shards: Shards
    survey: Survey


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
        """The rows at these places."""
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
    """Whether evidence is learned from all rows in chunks: there are many, and what is kept per row fits memory."""
    return are_many(measure.witness, units) and sum(map(len, units.sets)) * _KEPT_PER_ROW <= memory_budget()


@dataclass(frozen=True, eq=False)
class SamplesInMemory:
    """The samples that are in memory: all, or some units of each set. The reference is called ""."""

    samples: dict[str, Samples]
    caveats: tuple[Caveat, ...]  # one if not all samples were used
    places: dict[str, NDArray[np.int64]] = field(default_factory=dict)  # their indices among all; empty if all are here

    @property
    def complete(self) -> bool:
        """Whether all rows are in memory."""
        return not self.caveats


def fits_memory(rows: int, width: int) -> bool:
    """Whether this many rows can be evaluated in memory."""
    return rows * (_PER_ROW + _PER_ENTRY * width) <= memory_budget()


def load_some(
    passes: Passes, sets: Mapping[str, SurveyedSet], units: Units, *, evidence: bool = True
) -> SamplesInMemory:
    """All samples, if they fit into memory; otherwise only some units, chosen by a hash of their ids or values.

    `evidence` is whether they are used for evidence.
    """
    total = sum(len(one.shards) for one in sets.values())
    width = next(iter(sets.values())).shards.width
    if fits_memory(total, width):
        return SamplesInMemory({name: one.samples.load() for name, one in sets.items()}, ())
    most = max(200, min(_MOST_ROWS, int(memory_budget() / 2 / (_PER_ROW + _PER_ENTRY * width))))
    chosen = choose_units(units, most)
    some, chosen_places = {}, {}
    for numbers, (name, one) in zip(units.sets, sets.items(), strict=True):
        places = chosen_places[name] = np.flatnonzero(chosen[numbers])
        rows = fetch_rows(passes, [one.shards], places, one.shards.dtype)
        ids = tuple(f"{key:016x}" for key in units.keys[numbers[places]].tolist())
        kept = vars(one.samples.take(places)) | {"features": rows, "ids": ids, "shards": None}
        some[name] = Samples.trusted(**kept)
    count = sum(map(len, some.values()))
    subject, rest = "the reasons", "The scores, the certificate and the p-value use all rows."
    if evidence:
        subject = "the certificate, the p-value, the reasons"
        rest = "They are valid, but more rows would certify more: set MALLOW_MEMORY. The published score uses all rows."
    text = (
        f"{subject} and the checks of the samples rest on {count:,} of {total:,} rows, chosen by a hash, since all of "
        f"them do not fit the memory ({memory_budget() / 1e9:.3g} GB). {rest}"
    )
    return SamplesInMemory(some, (Caveat("subset of rows", text, values={"rows": count, "n": total}),), chosen_places)


def survey_sets(
    engine: Engine, sets: Mapping[str, Samples], within: Passes | None = None
) -> tuple[dict[str, SurveyedSet], Passes]:
    """One pass over each set, the reference first, and the passes, whose checkpoint the caller removes at the end."""
    shards = {name: _as_shards(name or "reference", samples) for name, samples in sets.items()}
    first = next(iter(shards.values()))
    for name, own in shards.items():
        if own.width != first.width:
            raise InputError(
                f"`reference` and `{name}` must have features of the same width; got {first.width} and {own.width}. "
                "Were they embedded by the same model?"
            )
    dtypes = [np.dtype(np.float64), *(own.dtype for own in shards.values())]
    passes = Passes(engine, _describe(engine, list(shards.values())), within)
    surveyed = {}
    for place, (name, own) in enumerate(shards.items()):
        survey, names = survey_rows(passes, f"survey-{place}", own, dtypes), sets[name].unit_names
        survey = survey if names is None else replace(survey, ids=hash_names(names))
        surveyed[name] = SurveyedSet(sets[name], own, survey)
    return surveyed, passes


def check_in_memory(seen: SamplesInMemory, sets: Mapping[str, SurveyedSet]) -> dict[str, list[Caveat]]:
    """Caveats about the samples of each system. Sizes count all rows."""
    reference = seen.samples[""]
    names = [name for name in seen.samples if name]
    caveats = check_samples({name: (reference, seen.samples[name]) for name in names})
    if seen.complete:
        return caveats
    n = len(sets[""].shards)
    return {
        name: [
            *(one for one in caveats[name] if one.kind not in ("few samples", "unequal sizes")),
            *size_caveats(n, len(sets[name].shards)),
        ]
        for name in names
    }


def run_sharded(
    passes: Passes,
    settings: Settings,
    reference: SurveyedSet,
    model: SurveyedSet,
    seen: tuple[Samples, Samples] | None,
) -> Run:
    """All repeats of the estimator and the summaries of the reference against itself, as work of `passes`."""
    measure, repeats, seed = settings.measure, settings.repeats, settings.seed
    estimator = measure.estimator
    if not isinstance(estimator, Quantize):
        raise InputError(
            f"Shards beyond the memory need an estimator with bins, Quantize, but this one is {estimator!r}."
        )
    shards, surveys = (reference.shards, model.shards), (reference.survey, model.survey)
    children = generator_for(seed, "self-score").spawn(repeats)
    alone = units_of_surveys(surveys[:1])
    rows = np.lexsort([surveys[0].keys["float64"], alone.keys[alone.sets[0]]])
    size = split_size(*map(len, shards))
    splits = [split_rows(alone, rows, size, child) for child in children]
    rngs = generator_for(seed, "clustering").spawn(repeats)
    own = Passes(passes.engine, _describe(passes.engine, shards, repr(measure), repeats, seed), within=passes)
    streamed = quantize_shards(own, estimator, shards, surveys, rngs, splits, children)
    itself = {name: float(np.mean(each)) for name, each in summary_values(measure, streamed.itself).items()}
    units = units_of_surveys(surveys)
    return Run(reference.samples, model.samples, streamed.masses, streamed.reduction, units, seen, itself)


def _as_shards(name: str, samples: Samples) -> Shards:
    """The features of samples as shards."""
    if samples.shards is None:
        return Shards.from_array(as_features(name, samples.require_features()), name)
    if len(samples) < 2:
        raise InputError(f"`{name}` must hold at least 2 samples; got {len(samples)}. Aim for 1,000 or more.")
    return samples.shards


def _describe(engine: Engine, shards: Sequence[Shards], *settings: object) -> str:
    """The settings on which passes over these shards depend, for their checkpoint."""
    if getattr(engine, "checkpoint", None) is None:
        return ""
    files = [
        [shard.name, shard.stamp, astuple(shard.content), "" if shard.values is None else _digest(shard.values)]
        for each in shards
        for shard in each.shards
    ]
    return json.dumps([version("mallow"), settings, files])


def _digest(values: NDArray[Any]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class StreamedSystems:
    """Systems and their reference, surveyed, with their samples that are in memory."""

    passes: Passes
    sets: dict[str, SurveyedSet]  # the reference is called ""
    units: Units
    seen: SamplesInMemory

    @property
    def complete(self) -> bool:
        """Whether all samples are in memory."""
        return self.seen.complete

    @property
    def pairs(self) -> Pairs:
        """Each system with the reference, only the samples in memory."""
        return {name: (self.seen.samples[""], own) for name, own in self.seen.samples.items() if name}

    @property
    def whole(self) -> Pairs:
        """Each system with the reference, all of their samples."""
        return {name: (self.sets[""].samples, one.samples) for name, one in self.sets.items() if name}

    def hold_out(self, measure: Measure) -> HeldOut:
        """The evidence about each system: from all rows, unless only some of them can be used."""
        began = time.monotonic()
        if self.complete or not streams_evidence(measure, self.units):
            held_out = hold_out(measure, self.pairs)
        else:
            rows = {name: ShardRows(self.passes, surveyed.shards) for name, surveyed in self.sets.items()}
            places = {name: (self.seen.places[""], self.seen.places[name]) for name in self.pairs}
            held_out = hold_out_rows(measure, rows, self.whole, self.units, self.pairs, places)
        _LOG.info("%s: %.1f s", "evidence", time.monotonic() - began)
        return held_out

    def caveats(self) -> dict[str, list[Caveat]]:
        """What gives reason to doubt the samples of each system."""
        checked = check_in_memory(self.seen, self.sets)
        return {name: [*self.seen.caveats, *of_system] for name, of_system in checked.items()}

    def runs(self, settings: Settings, generations: Generations, begin: Parts) -> dict[str, list[Run]]:
        """The runs of each system, one per generation, chunk by chunk."""
        runs: dict[str, list[Run]] = {}
        for name, parts in generations.items():
            runs[name] = []
            for reference, model in parts:
                seen = None if self.complete else self.pairs[name]
                sets = {"": self.sets[""], name: self.sets[name]}
                if self.complete and model is not self.seen.samples[name]:  # one generation, or in a different order
                    sets, _ = survey_sets(self.passes.engine, {"": reference, name: model}, within=self.passes)
                if not settings.repeats:
                    itself = dict.fromkeys(SUMMARIES, float("nan"))
                    runs[name].append(Run(reference, model, [], None, self.units, seen, itself))
                    continue
                run = run_sharded(self.passes, settings, sets[""], sets[name], seen)
                runs[name].append(replace(run, reference=reference, model=model))
        return runs


def stream_systems(engine: Engine, pairs: Pairs, measure: Measure) -> StreamedSystems:
    """Survey the reference and all systems, and read as many of their samples as fit into memory.

    The caller removes the checkpoint at the end (`passes.finish`).
    """
    reference = next(iter(pairs.values()))[0]
    sets, passes = survey_sets(engine, {"": reference, **{name: samples for name, (_, samples) in pairs.items()}})
    units = units_of_surveys([one.survey for one in sets.values()])
    seen = load_some(passes, sets, units, evidence=not streams_evidence(measure, units))
    return StreamedSystems(passes, sets, units, seen)
