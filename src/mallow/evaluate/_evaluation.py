"""The systems of an evaluation, one for a score and several for a comparison, and the parts of their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mallow.caveats import check_samples, refuse_without_answer
from mallow.engine import AnyEngine, expect, open_engine, overall, resolve_engine, single_threaded_blas, start
from mallow.errors import Caveat, InputError
from mallow.estimate import Codebook, Quantize, as_features, row_keys
from mallow.evaluate._run import (
    Generations,
    Parts,
    Run,
    Settings,
    is_published,
    is_safe_on_threads,
    parts_of_a_score,
    reduction_of,
    run_repeats,
    self_score,
)
from mallow.evaluate._shards import StreamedSystems, fits_memory, stream_systems
from mallow.evidence import (
    Certificate,
    HeldOut,
    Measure,
    Pairs,
    Units,
    find_units,
    generator_for,
    hold_out,
    measure_for,
    pair_points,
    run_systems,
)
from mallow.explain import Reason, compare_answers, find_reasons
from mallow.samples import Samples
from mallow.theory import Masses

# Seconds of two processors, for the bar: per row, bin and column, and per row and column. Measured at 200,000 × 128.
_CLUSTERING, _CHECKING = 4e-10, 2e-7


@dataclass(frozen=True, eq=False)
class LoadedSystems:
    """Systems whose samples are all in memory; `keys` has the `row_keys` of each set, by the id of its samples."""

    pairs: Pairs
    units: Units
    keys: dict[int, NDArray[np.uint64]]
    complete = True

    @classmethod
    def of(cls, pairs: Pairs) -> LoadedSystems:
        """The systems, with the keys of their rows, computed once."""
        sides = [samples for pair in pairs.values() for samples in pair]
        points = [side for pair in pairs.values() for side in pair_points(*pair)]
        keys = {id(samples): rows for samples, rows in zip(sides, points, strict=True)}
        keys = {name: row_keys(rows) for name, rows in keys.items()}
        every = [sides[0], *sides[1::2]]
        return cls(pairs, find_units(*every, keys=[keys[id(samples)] for samples in every]), keys)

    @property
    def whole(self) -> Pairs:
        """All of their samples, which are in memory."""
        return self.pairs

    def caveats(self) -> dict[str, list[Caveat]]:
        """The caveats about the samples of each system."""
        return check_samples(self.pairs)

    def hold_out(self, measure: Measure) -> HeldOut:
        """The evidence about each system."""
        return hold_out(measure, self.pairs, units=self.units)

    def score_itself(self, settings: Settings, generations: Generations) -> dict[str, dict[str, float]]:
        """The summaries of the reference of each system against itself: the same for models of the same size."""
        options = {"repeats": settings.repeats, "seed": settings.seed}

        @cache
        def itself(reference: Samples, m: int) -> dict[str, float]:
            return self_score(settings.measure, reference, m, keys=self.keys[id(reference)], **options)

        return {name: itself(parts[-1][0], len(parts[-1][1])) for name, parts in generations.items()}

    def runs(self, settings: Settings, generations: Generations, begin: Parts) -> dict[str, list[Run]]:
        """The runs of each system, one per generation."""
        names = [name for name, parts in generations.items() for _ in parts]
        pairs = [pair for parts in generations.values() for pair in parts]
        if not settings.repeats:  # evidence uses the units of all systems
            done = [Run(*pair, [], None, self.units) for pair in pairs]
        elif shares_bins(settings.measure) and len(pairs) > 1:
            done = _shared_runs(settings, pairs)
        else:
            tasks = [partial(self._run, settings, *pair, begin) for pair in pairs]
            progress = ("clustering", names) if len(pairs) > 1 else None
            own_code = not isinstance(settings.measure.estimator, Quantize)
            done = run_systems(tasks, pairs, alone=own_code, progress=progress)
        runs: dict[str, list[Run]] = {name: [] for name in generations}
        for name, run in zip(names, done, strict=True):
            runs[name].append(run)
        return runs

    def _run(self, settings: Settings, reference: Samples, model: Samples, begin: Parts) -> Run:
        """All repeats of the estimator for one system, or one generation of it."""
        measure = settings.measure
        prepared = begin.estimate(partial(measure.estimator.prepare, *pair_points(reference, model))).result()
        masses = run_repeats(measure, prepared, settings.repeats, settings.seed, begin=begin.repeat)
        alone = len(self.pairs) == 1 and model is self.pairs[next(iter(self.pairs))][1]
        units = self.units if alone else find_units(reference, model)
        return Run(reference, model, masses, reduction_of(prepared), units)


Systems = LoadedSystems | StreamedSystems


@contextmanager
def open_systems(pairs: Pairs, measure: Measure, engine: AnyEngine) -> Iterator[Systems]:
    """Systems that were embedded with the reference, to be evaluated in memory or, if necessary, in chunks."""
    engine = None if engine is None else resolve_engine(engine)
    references = [reference for reference, _ in pairs.values()]
    measure = measure_for(measure, references[0])
    one_reference = all(reference is references[0] for reference in references)
    sets = [references[0], *(samples for _, samples in pairs.values())]
    own_bins = len(pairs) == 1 or not shares_bins(measure)
    if one_reference and own_bins and must_stream(measure, sets, engine):
        with open_engine(engine) as opened:
            streamed = stream_systems(opened, pairs, measure)
            yield streamed
            streamed.passes.finish()
        return
    loaded = {id(samples): samples.load() for samples in (*references, *sets)}
    yield LoadedSystems.of(
        {name: (loaded[id(reference)], loaded[id(samples)]) for name, (reference, samples) in pairs.items()}
    )


def must_stream(measure: Measure, sets: Sequence[Samples], engine: AnyEngine) -> bool:
    """Whether samples are evaluated in chunks: on an engine, if they exceed the memory, or if not all are clustered."""
    estimator = measure.estimator
    rows, width = sum(map(len, sets)), sets[0].width
    if not isinstance(estimator, Quantize) or estimator.method is not None or min(map(len, sets)) < width:
        return False  # other estimators and quantisers need all rows at once, and so few rows fit anywhere
    beyond = any(samples.shards is not None for samples in sets) and not fits_memory(rows, width)
    return engine is not None or beyond or len(sets[0]) + max(map(len, sets[1:])) > estimator.sample


@dataclass(frozen=True, eq=False)
class Explained:
    """The explanation of the evidence about a system."""

    reasons: tuple[Reason, ...] = ()
    texts_alone: Certificate | None = None  # by the spaces that do not use prompts
    answers: dict[str, float] = field(default_factory=dict)  # how alike the answers to one prompt are


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The parts from which the scores of several systems are built, most of them by the name of the system."""

    settings: Settings  # with the measure in use
    runs: dict[str, list[Run]]  # one per generation
    self_scores: dict[str, dict[str, float]]  # the summaries of its reference against itself
    held_out: HeldOut  # the evidence about all systems
    explained: dict[str, Explained]
    caveats: dict[str, list[Caveat]]  # about its samples


def evaluate_systems(systems: Systems, settings: Settings, *, split: bool = False) -> Evaluation:
    """The runs, the evidence and the self-score of each system, without warnings.

    With `split`, each of several generations per prompt has its own run. The parts of a single system share the
    processors. With several systems, one part after the other runs for all systems at once.
    """
    pairs = systems.pairs
    reference = next(iter(pairs.values()))[0]
    measure = measure_for(settings.measure, reference)
    if not is_published(reference):
        settings, split = replace(settings, repeats=0), False
    _check_answer(measure, systems)
    generations, doubts = (
        _split_systems(systems) if split else ({name: [pair] for name, pair in systems.whole.items()}, {})
    )
    measure = _with_one_number_of_bins(measure, generations)
    settings = replace(settings, measure=measure)
    _expect_work(systems, settings)

    def gather() -> tuple[HeldOut, dict[str, Explained]]:
        held_out = systems.hold_out(measure)

        def explain(name: str) -> Explained:
            seen = *pairs[name], held_out.evidence_in_memory(name)
            return Explained(find_reasons(*seen), held_out.of_texts.get(name), compare_answers(*seen))

        tasks = [partial(explain, name) for name in pairs]
        own_code = bool(measure.witness.views)
        return held_out, dict(zip(pairs, run_systems(tasks, pairs.values(), alone=own_code), strict=True))

    def score_itself() -> dict[str, dict[str, float]]:
        return systems.score_itself(settings, generations) if isinstance(systems, LoadedSystems) else {}

    with overall(), single_threaded_blas(), _parts(measure, systems) as begin:
        # Chunks are read for one purpose at a time.
        evidence_task = begin.own(gather) if systems.complete else None
        # A user's estimator that fails must fail for the pair first, not for the reference.
        self_task = begin.estimate(score_itself) if is_safe_on_threads(measure) else None
        check_task = begin.own(systems.caveats)
        runs = systems.runs(settings, generations, begin)
        itself = {name: scored for name, of_repeats in runs.items() if (scored := of_repeats[-1].itself) is not None}
        itself |= (self_task or begin.estimate(score_itself)).result()
        caveats, (held_out, explained) = check_task.result(), (evidence_task or begin.own(gather)).result()
    caveats = {name: [*of_system, *doubts.get(name, ())] for name, of_system in caveats.items()}
    return Evaluation(settings, runs, itself, held_out, explained, caveats)


@contextmanager
def _parts(measure: Measure, systems: Systems) -> Iterator[Parts]:
    """The functions that start the parts of an evaluation."""
    if len(systems.pairs) > 1:
        yield Parts()
    elif isinstance(systems, StreamedSystems):
        yield Parts(own=start) if systems.complete else Parts()
    else:
        with parts_of_a_score(measure, *systems.pairs.values()) as begin:
            yield begin


def _expect_work(systems: Systems, settings: Settings) -> None:
    """Tell the progress bar roughly how long the parts take."""
    estimator, clustering, checking = settings.measure.estimator, 0.0, 0.0
    for reference, model in systems.whole.values():
        n, m, width = len(reference), len(model), reference.width
        checking += 1.0 + _CHECKING * (n + m) * width
        if isinstance(estimator, Quantize):
            rows = min(n + m, estimator.sample_for(n, m))
            clustering += _CLUSTERING * settings.repeats * rows * estimator.bins_for(n, m) * width
    if settings.repeats:
        expect("clustering", clustering)
    expect("checking the gap", checking, times=len(systems.whole))


def _check_answer(measure: Measure, systems: Systems) -> None:
    """Raise an InputError if the samples cannot be scored."""
    if systems.complete:
        points = [pair_points(*pair) for pair in systems.pairs.values()]
        refuse_without_answer(measure, [points[0][0], *(y for _, y in points)])
    else:
        loaded = [side.require_features() for pair in systems.pairs.values() for side in pair]
        refuse_without_answer(measure, [as_features("samples", side, least=1) for side in loaded])


def _split_systems(systems: Systems) -> tuple[Generations, dict[str, list[Caveat]]]:
    """The generations of each system, and the caveats about its prompts."""
    generations, doubts = {}, {}
    for name, (reference, samples) in systems.pairs.items():
        ordered, doubts[name] = match_prompts(reference, samples)
        generations[name] = [(reference, part) for part in split_generations(ordered)]
    if not systems.complete:
        generations = {name: [pair] for name, pair in systems.whole.items()}
    return generations, doubts


def _shared_runs(settings: Settings, pairs: Sequence[tuple[Samples, Samples]]) -> list[Run]:
    """One partition of the reference and all systems in each repeat."""
    estimator = settings.measure.estimator
    if not isinstance(estimator, Quantize):
        raise InputError(f"Shared bins need Quantize, but the estimator is {estimator!r}.")
    points = [pair_points(*pair) for pair in pairs]
    x, every = points[0][0], [y for _, y in points]
    alone = replace(estimator, codebook=None, bins=estimator.bins_for(len(x), min(len(y) for y in every)))
    prepared = alone.prepare(x, np.concatenate(every))
    cuts = np.cumsum([0, *(len(y) for y in every)])
    masses: list[list[Masses]] = [[] for _ in every]
    for child in generator_for(settings.seed, "clustering").spawn(settings.repeats):
        pooled = alone.masses(prepared, child)
        if pooled.partition is None:
            continue
        for i, (low, high) in enumerate(pairwise(cuts)):
            labels = pooled.partition.q_labels[low:high]
            counted = estimator.count(replace(pooled.partition, q_labels=labels))
            masses[i].append(replace(counted, caveats=pooled.caveats))
    reduction = reduction_of(prepared)
    return [Run(*pair, of_pair, reduction, find_units(*pair)) for pair, of_pair in zip(pairs, masses, strict=True)]


def shares_bins(measure: Measure) -> bool:
    """Whether all systems share the same bins."""
    return isinstance(measure.estimator, Quantize) and measure.estimator.codebook == "shared"


def _with_one_number_of_bins(measure: Measure, generations: Generations) -> Measure:
    """The measure with the number of bins of the smallest system, for all systems.

    Otherwise the sizes could decide the winner.
    """
    estimator = measure.estimator
    if not isinstance(estimator, Quantize) or estimator.bins != "auto" or isinstance(estimator.codebook, Codebook):
        return measure
    sizes = [(len(reference), len(model)) for parts in generations.values() for reference, model in parts]
    bins = {estimator.bins_for(n, m) for n, m in sizes}
    sample = min(estimator.sample_for(n, m) for n, m in sizes)
    alone = replace(estimator, bins=min(bins), sample=sample)
    return measure if len(bins) == 1 else replace(measure, estimator=alone)


def match_prompts(reference: Samples, samples: Samples) -> tuple[Samples, list[Caveat]]:
    """Samples in the order of the reference's ids, generation by generation, with caveats about this.

    Without ids, with ids that the reference does not have, or if some samples are missing, the order stays the same.
    """
    times = samples.generations
    if not (reference.ids and samples.ids and times):
        return _as_one(samples), []
    prompts = len(reference)
    if len(set(reference.ids)) < prompts or len(samples) != prompts * times:
        return _as_one(samples), []
    row_of = {id_: i for i, id_ in enumerate(reference.ids)}
    missing = sorted(set(samples.ids) - set(row_of))
    if missing:
        if row_of.keys().isdisjoint(samples.ids):
            return _as_one(samples), []
        count = f"{len(missing)} ids, such as {missing[0]!r}, are" if len(missing) > 1 else f"the id {missing[0]!r} is"
        text = f"{count} not in the reference: only samples whose ids the reference has are paired with it."
        return _as_one(samples), [Caveat("unmatched ids", text, values={"ids": len(missing)})]
    order = np.argsort([row_of[id_] for id_ in samples.ids], kind="stable")
    order = order.reshape(prompts, times).T.ravel()  # one generation after the other
    return (samples if np.array_equal(order, np.arange(len(order))) else samples.take(order)), []


def _as_one(samples: Samples) -> Samples:
    """Samples that cannot be matched with prompts count as one generation, so nothing is split without ids."""
    return samples if samples.generations == 1 else Samples.trusted(**vars(samples) | {"ids": None, "prompts": None})


def split_generations(samples: Samples) -> list[Samples]:
    """The samples of each generation. `match_prompts` has put one generation after the other."""
    times = samples.generations if samples.ids else 1
    if not times or times == 1:
        return [samples]
    size = len(samples) // times
    return [samples.take(range(start, start + size)) for start in range(0, len(samples), size)]
