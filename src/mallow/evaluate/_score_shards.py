"""Scores and comparisons of samples in shards, or on a cluster: the same bits as of arrays in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.caveats import check_samples, refuse_without_answer, size_caveats
from mallow.engine import AnyEngine, Engine, Passes, open_engine, single_threaded_blas, start
from mallow.errors import Caveat, InputError
from mallow.estimate import (
    Quantize,
    Survey,
    as_features,
    hash_names,
    quantize_shards,
    split_size,
    survey_rows,
)
from mallow.evaluate._held_out_shards import Seen, fits_memory, hold_out_shards, look_at, streams_evidence
from mallow.evaluate._run import Run
from mallow.evaluate._self_score import split_rows
from mallow.evidence import (
    SUMMARIES,
    Certificate,
    Evidence,
    HeldOut,
    Measure,
    Pairs,
    Units,
    generator_for,
    units_of_surveys,
)
from mallow.explain import Reason, find_reasons
from mallow.samples import Samples, Shards


@dataclass(frozen=True, eq=False)
class SurveyedSet:
    """Samples as shards, with what one pass over them tells."""

    samples: Samples
    shards: Shards
    survey: Survey


@dataclass(frozen=True, eq=False)
class ShardedRun:
    """What a score of shards is built from."""

    run: Run
    itself: dict[str, float]
    evidence: Evidence
    certificate: Certificate
    reasons: tuple[Reason, ...]
    caveats: tuple[Caveat, ...]


def must_stream(measure: Measure, sets: Sequence[Samples], engine: AnyEngine) -> bool:
    """Whether samples are evaluated in chunks: on an engine, beyond the memory, or beyond what is clustered."""
    estimator = measure.estimator
    rows, width = sum(map(len, sets)), sets[0].width
    if not isinstance(estimator, Quantize) or estimator.method is not None or min(map(len, sets)) < width:
        return False  # other estimators and quantisers need all rows at once; and so few rows fit anywhere
    beyond = any(samples.shards is not None for samples in sets) and not fits_memory(rows, width)
    return engine is not None or beyond or len(sets[0]) + max(map(len, sets[1:])) > estimator.sample


def evaluate_shards(
    reference: Samples, model: Samples, *, measure: Measure, repeats: int, seed: int, engine: AnyEngine
) -> ShardedRun:
    """All that a score needs of samples that are evaluated chunk by chunk."""
    with open_engine(engine) as opened, single_threaded_blas():
        systems = stream_systems(opened, {"model": (reference, model)}, measure)
        looked, sets, passes = systems.pairs["model"], systems.sets, systems.passes
        refuse_without_answer(measure, [as_features("samples", own.require_features(), least=1) for own in looked])
        gather = partial(systems.hold_out, measure, seed)
        evidence_task = start(gather) if systems.complete else None  # otherwise both would read at once
        run, itself = run_sharded(passes, measure, sets[""], sets["model"], repeats, seed, looked)
        held_out = gather() if evidence_task is None else evidence_task.result()
        passes.finish()
    evidence, certificate = held_out.evidence["model"], held_out.certificates["model"]
    reasons = find_reasons(*looked, held_out.evidence_in_memory("model"))
    return ShardedRun(run, itself, evidence, certificate, reasons, tuple(systems.caveats()["model"]))


def survey_sets(
    engine: Engine, sets: Mapping[str, Samples], within: Passes | None = None
) -> tuple[dict[str, SurveyedSet], Passes]:
    """One pass over each set, the reference first; and the passes, whose checkpoint the caller removes at the end."""
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


def see_samples(passes: Passes, sets: Mapping[str, SurveyedSet], units: Units, *, evidence: bool = True) -> Seen:
    """All samples, or those of some units, in memory; see `look_at`."""
    return look_at(passes, {name: (one.samples, one.shards) for name, one in sets.items()}, units, evidence=evidence)


def check_seen(seen: Seen, sets: Mapping[str, SurveyedSet]) -> dict[str, list[Caveat]]:
    """What gives reason to doubt the samples of each system; sizes are those of all rows."""
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
    measure: Measure,
    reference: SurveyedSet,
    model: SurveyedSet,
    repeats: int,
    seed: int,
    seen: tuple[Samples, Samples] | None,
) -> tuple[Run, dict[str, float]]:
    """All repeats of the estimator, and the summaries of the reference against itself; part of the work of `passes`."""
    estimator = measure.estimator
    if not isinstance(estimator, Quantize):
        raise InputError(f"Shards beyond the memory need an estimator with bins, Quantize; this one is {estimator!r}.")
    shards, surveys = (reference.shards, model.shards), (reference.survey, model.survey)
    children = generator_for(seed, "self-score").spawn(repeats)
    alone = units_of_surveys(surveys[:1])
    rows = np.lexsort([surveys[0].keys["float64"], alone.keys[alone.sets[0]]])
    size = split_size(*map(len, shards))
    splits = [split_rows(alone, rows, size, child) for child in children]
    rngs = generator_for(seed, "clustering").spawn(repeats)
    own = Passes(passes.engine, _describe(passes.engine, shards, repr(measure), repeats, seed), within=passes)
    streamed = quantize_shards(own, estimator, shards, surveys, rngs, splits, children)
    summaries = [measure.summarise(one) for one in streamed.itself]
    itself = {name: float(np.mean([one[name] for one in summaries])) for name in SUMMARIES}
    units = units_of_surveys(surveys)
    return Run(reference.samples, model.samples, streamed.masses, streamed.reduction, units, seen), itself


def _as_shards(name: str, samples: Samples) -> Shards:
    """The features of samples as shards."""
    if samples.shards is None:
        return Shards.from_array(as_features(name, samples.require_features()), name)
    if len(samples) < 2:
        raise InputError(f"`{name}` must hold at least 2 samples; got {len(samples)}. Aim for 1,000 or more.")
    return samples.shards


def _describe(engine: Engine, shards: Sequence[Shards], *settings: object) -> str:
    """Everything that passes over these shards depend on, for their checkpoint."""
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
    """Systems and their reference, surveyed, with those of their samples that are in memory."""

    passes: Passes
    sets: dict[str, SurveyedSet]  # the reference is called ""
    units: Units
    seen: Seen

    @property
    def complete(self) -> bool:
        """Whether all samples are in memory."""
        return self.seen.complete

    @property
    def pairs(self) -> Pairs:
        """Each system with the reference, as far as they are in memory."""
        return {name: (self.seen.samples[""], own) for name, own in self.seen.samples.items() if name}

    @property
    def whole(self) -> Pairs:
        """Each system with the reference, all of their samples."""
        return {name: (self.sets[""].samples, one.samples) for name, one in self.sets.items() if name}

    def hold_out(self, measure: Measure, seed: int) -> HeldOut:
        """The evidence about each system."""
        shards = {name: one.shards for name, one in self.sets.items()}
        return hold_out_shards(self.passes, measure, shards, self.units, self.seen, seed)

    def caveats(self) -> dict[str, list[Caveat]]:
        """What gives reason to doubt the samples of each system."""
        checked = check_seen(self.seen, self.sets)
        return {name: [*self.seen.caveats, *own] for name, own in checked.items()}

    def runs(
        self,
        measure: Measure,
        generations: Mapping[str, Sequence[tuple[Samples, Samples]]],
        repeats: int,
        seed: int,
        known: dict[tuple[int, int], dict[str, float]],
    ) -> dict[str, list[Run]]:
        """The runs of each system, one per generation; self-scores are put into `known` by reference and size."""
        runs: dict[str, list[Run]] = {}
        for name, parts in generations.items():
            runs[name] = []
            for reference, model in parts:
                seen = None if self.complete else self.pairs[name]
                sets = {"": self.sets[""], name: self.sets[name]}
                if self.complete and model is not self.seen.samples[name]:  # one generation, or in another order
                    sets, _ = survey_sets(self.passes.engine, {"": reference, name: model}, within=self.passes)
                run, itself = run_sharded(self.passes, measure, sets[""], sets[name], repeats, seed, seen)
                runs[name].append(Run(reference, model, run.masses, run.reduction, run.units, seen))
                known[(id(reference), len(model))] = itself
        return runs


def stream_systems(engine: Engine, pairs: Pairs, measure: Measure) -> StreamedSystems:
    """Survey the reference and all systems, and read those of their samples that fit the memory.

    The caller removes the checkpoint at the end (`passes.finish`).
    """
    reference = next(iter(pairs.values()))[0]
    sets, passes = survey_sets(engine, {"": reference, **{name: samples for name, (_, samples) in pairs.items()}})
    units = units_of_surveys([one.survey for one in sets.values()])
    seen = see_samples(passes, sets, units, evidence=not streams_evidence(measure, units))
    return StreamedSystems(passes, sets, units, seen)
