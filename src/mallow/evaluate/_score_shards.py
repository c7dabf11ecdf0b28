"""The score of samples in shards, or on a cluster: passes over chunks of rows, the same bits as of one array in memory."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from functools import partial
from importlib.metadata import version

import numpy as np

from mallow.engine import AnyEngine, Passes, open_engine, single_threaded_blas, start
from mallow.errors import Caveat, InputError
from mallow.estimate import (
    Quantize,
    StreamedQuantization,
    Survey,
    as_features,
    quantize_shards,
    split_size,
    survey_rows,
)
from mallow.evaluate._caveats import size_caveats
from mallow.evaluate._held_out_shards import Seen, fits_memory, hold_out_seen, look_at
from mallow.evaluate._measure import SUMMARIES, Measure
from mallow.evaluate._no_answer import refuse_without_answer
from mallow.evaluate._run import Run, generator_for
from mallow.evaluate._sample_checks import check_samples
from mallow.evaluate._self_score import split_rows
from mallow.evaluate._shard_units import units_of_surveys
from mallow.inference import Certificate, Evidence
from mallow.reasons import Reason, find_reasons
from mallow.samples import Samples, Shards

__all__ = ["ShardedRun", "evaluate_shards", "must_stream"]


@dataclass(frozen=True, eq=False)
class ShardedRun:
    """What a score of shards is built from."""

    run: Run
    itself: dict[str, float]
    evidence: Evidence
    certificate: Certificate
    reasons: tuple[Reason, ...]
    caveats: tuple[Caveat, ...]


def must_stream(measure: Measure, sets: list[Samples], engine: AnyEngine) -> bool:
    """Whether samples are evaluated chunk by chunk: on an engine, in shards beyond the memory, or beyond what is clustered."""
    estimator = measure.estimator
    rows, width = sum(map(len, sets)), sets[0].width
    if not isinstance(estimator, Quantize) or rows < 2 * width:
        return False  # other estimators need all rows at once; and so few rows fit anywhere
    beyond = any(samples.shards is not None for samples in sets) and not fits_memory(rows, width)
    return engine is not None or beyond or rows > estimator.sample


def as_shards(name: str, samples: Samples) -> Shards:
    """The features of samples as shards."""
    if samples.shards is not None:
        shards = samples.shards
    else:
        shards = Shards.from_array(as_features(name, samples.require_features()), name)
    if len(shards) < 2:
        raise InputError(f"`{name}` must hold at least 2 samples; got {len(shards)}. Aim for 1,000 or more.")
    return shards


def evaluate_shards(
    reference: Samples, model: Samples, *, measure: Measure, repeats: int, seed: int, engine: AnyEngine
) -> ShardedRun:
    """All that a score needs of samples that are evaluated chunk by chunk."""
    shards = as_shards("reference", reference), as_shards("model", model)
    if shards[0].width != shards[1].width:
        raise InputError(
            f"`reference` and `model` must have features of the same width; got {shards[0].width} and {shards[1].width}. "
            "Were they embedded by the same model?"
        )
    with open_engine(engine) as opened, single_threaded_blas():
        passes = Passes(opened, _describe_work(shards, measure, repeats, seed))
        surveys = survey_sides(passes, shards)
        units = units_of_surveys(surveys)
        seen = look_at(passes, {"": (reference, shards[0]), "model": (model, shards[1])}, units)
        x, y = (
            as_features(name, own.require_features())
            for name, own in zip(("reference", "model"), seen.samples.values(), strict=True)
        )
        refuse_without_answer(measure, (x, y))
        evidence_task = start(partial(hold_out_seen, measure, seen, seed))
        streamed = run_shards(passes, measure, shards, surveys, repeats, seed)
        held_out = evidence_task.result()
        passes.finish()
    evidence, certificate = held_out.evidence["model"], held_out.certificates["model"]
    looked = seen.samples[""], seen.samples["model"]
    summaries = [measure.summarise(one) for one in streamed.itself]
    return ShardedRun(
        run=Run(reference, model, streamed.masses, streamed.prepared, units, looked),
        itself={name: float(np.mean([one[name] for one in summaries])) for name in SUMMARIES},
        evidence=evidence,
        certificate=certificate,
        reasons=find_reasons(*looked, evidence),
        caveats=(*seen.caveats, *_sample_caveats(seen, len(reference), len(model))),
    )


def survey_sides(passes: Passes, shards: tuple[Shards, Shards]) -> tuple[Survey, Survey]:
    """One pass over each side."""
    pair, double = np.result_type(shards[0].dtype, shards[1].dtype), np.dtype(np.float64)
    first = survey_rows(passes, "survey-0", shards[0], [pair, shards[0].dtype, double])
    return first, survey_rows(passes, "survey-1", shards[1], [pair, double])


def run_shards(
    passes: Passes,
    measure: Measure,
    shards: tuple[Shards, Shards],
    surveys: tuple[Survey, Survey],
    repeats: int,
    seed: int,
) -> StreamedQuantization:
    """All repeats of the estimator, and the reference against itself."""
    estimator = measure.estimator
    if not isinstance(estimator, Quantize):
        raise InputError(
            f"Shards beyond the memory need an estimator with bins, such as Quantize; this one is {estimator!r}."
        )
    children = generator_for(seed, "self-score").spawn(repeats)
    alone = units_of_surveys(surveys[:1])
    rows = np.lexsort([surveys[0].keys["float64"], alone.keys[alone.sets[0]]])
    size = split_size(*map(len, shards))
    splits = [split_rows(alone, rows, size, child) for child in children]
    rngs = generator_for(seed, "clustering").spawn(repeats)
    return quantize_shards(passes, estimator, shards, surveys, rngs, splits, children)


def _sample_caveats(seen: Seen, n: int, m: int) -> list[Caveat]:
    """What gives reason to doubt the samples; sizes are those of all rows."""
    caveats = check_samples({"model": (seen.samples[""], seen.samples["model"])})["model"]
    if seen.complete:
        return caveats
    return [*(one for one in caveats if one.kind not in ("few samples", "unequal sizes")), *size_caveats(n, m)]


def _describe_work(shards: tuple[Shards, ...], measure: Measure, repeats: int, seed: int) -> str:
    """Everything that the passes depend on."""
    files = [[shard.name, shard.stamp, astuple(shard.content)] for each in shards for shard in each.shards]
    return json.dumps([version("mallow"), repr(measure), repeats, seed, files])
