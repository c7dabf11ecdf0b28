"""Many systems against one reference: scores, paired differences, rank ranges, and where the variance comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from mallow._checks import seed_from, whole
from mallow.caveats import check_samples, refuse_without_answer, rename_system, system_size_caveats, unique_caveats
from mallow.embed import AnyEmbedder, JointEmbedder, embed_all, read_all, resolve_embedder
from mallow.engine import AnyEngine, open_engine, settle
from mallow.errors import Caveat, InputError, warn_about
from mallow.estimate import Codebook, Quantize
from mallow.evaluate._comparison import Comparison, Difference, rank_systems
from mallow.evaluate._run import Run, Settings, mean_frontier, reduction_of, run_repeats, summary_values
from mallow.evaluate._score import Score, build_score
from mallow.evaluate._score_shards import StreamedSystems, must_stream, stream_systems
from mallow.evaluate._self_score import self_score
from mallow.evidence import (
    MAUVE_STAR,
    NORMAL,
    SUMMARIES,
    HeldOut,
    Measure,
    Pairs,
    find_units,
    generator_for,
    hold_out,
    holm,
    measure_for,
    pair_points,
    run_systems,
)
from mallow.explain import find_reasons
from mallow.results import Estimate
from mallow.samples import Samples, read
from mallow.theory import Masses


def compare(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
    baseline: str | None = None,
    engine: AnyEngine = None,
) -> Comparison:
    """Score several systems against one reference and say which differences are real.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data.
    systems : mapping name → the same, or array (prompts, generations, d)
        Samples with the same id (or prompt, without ids) belong together; without either, they are independent. With
        several generations per prompt (three axes, or ids that repeat), published scores are means over the
        generations, whose variance is reported separately; evidence uses all of them at once.
    measure : Measure
        With ``Quantize(codebook="shared")`` one partition serves the reference and all systems; otherwise each system
        has its own. ``bins="auto"`` is one number for all systems, that of the smallest.
    embedder, paired, repeats, rng :
        As in `score`.
    baseline : str or None
        Compare all systems with this one only. None: compare all pairs.
    engine :
        As in `score`. ``Quantize(codebook="shared")`` needs all samples in memory.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(size=(1000, 8))
    >>> near, far = rng.normal(0.1, 1, size=(1000, 8)), rng.normal(0.6, 1, size=(1000, 8))
    >>> comparison = compare(human, {"near": near, "far": far})
    >>> comparison.winner, comparison.ranks
    ('near', {'near': (1, 1), 'far': (2, 2)})
    """
    settings = Settings(measure, repeats, seed_from(rng))
    comparison = compare_quietly(
        reference, systems, settings, embedder=embedder, paired=paired, baseline=baseline, engine=engine
    )
    warn_about(comparison.caveats)
    return comparison


def compare_quietly(
    reference: Any,
    systems: Mapping[str, Any],
    settings: Settings,
    *,
    embedder: AnyEmbedder | str | None,
    paired: bool = False,
    baseline: str | None = None,
    engine: AnyEngine = None,
) -> Comparison:
    """What `compare` returns, without warnings: for callers that pass the caveats on."""
    if baseline is not None and baseline not in systems:
        raise InputError(f"`baseline` must be one of the systems ({', '.join(systems)}); got {baseline!r}.")
    whole("repeats", settings.repeats, least=1)
    measure = settings.measure
    pairs = embed_pairs(reference, systems, embedder, measure, lazy=True, paired=paired)
    references = [own for own, _ in pairs.values()]
    one_reference = all(own is references[0] for own in references)
    sets = [references[0], *(samples for _, samples in pairs.values())]
    if one_reference and not _shares_bins(measure) and must_stream(measure, sets, engine):
        with open_engine(engine) as opened:
            streamed = stream_systems(opened, pairs, measure)
            comparison = compare_pairs(streamed.pairs, settings, baseline=baseline, streamed=streamed)
            streamed.passes.finish()
            return comparison
    loaded = {id(samples): samples.load() for samples in (*references, *sets)}
    pairs = {name: (loaded[id(own)], loaded[id(samples)]) for name, (own, samples) in pairs.items()}
    return compare_pairs(pairs, settings, baseline=baseline)


def _check_names(systems: Mapping[str, Any]) -> None:
    if not isinstance(systems, Mapping) or not systems:
        raise InputError(f"`systems` must map at least one name to samples; got {type(systems).__name__}.")
    for name in systems:
        if not isinstance(name, str) or not name:
            raise InputError(f"`systems` must have names that are strings; got {name!r}.")


def embed_pairs(
    reference: Any,
    systems: Mapping[str, Any],
    embedder: AnyEmbedder | str | None,
    measure: Measure,
    *,
    lazy: bool = False,
    paired: bool = False,
) -> Pairs:
    """Each system with the reference, embedded.

    The features of a joint embedder, a string kernel, depend on all samples that it sees. Each system is embedded with
    the reference alone, so that its score is the one that `score` gives; bins shared by all systems need one space.
    With `lazy`, features in shards are not read.
    """
    _check_names(systems)
    # The reference comes first, under a name that no system has.
    sets = read_all(generations_as_samples({"": reference, **systems}), embedder, lazy=lazy, paired=paired)
    chosen = resolve_embedder(sets, embedder)
    if isinstance(chosen, JointEmbedder) and not _shares_bins(measure):
        each = {name: embed_all({"": sets[""], name: sets[name]}, chosen) for name in systems}
        return {name: (both[""], both[name]) for name, both in each.items()}
    embedded = sets if chosen is None else embed_all(sets, chosen)
    return {name: (embedded[""], embedded[name]) for name in systems}


def _shares_bins(measure: Measure) -> bool:
    return isinstance(measure.estimator, Quantize) and measure.estimator.codebook == "shared"


def compare_pairs(
    pairs: Pairs, settings: Settings, *, baseline: str | None = None, streamed: StreamedSystems | None = None
) -> Comparison:
    """The comparison of systems that were embedded with the reference; caveats are in the result.

    With `streamed`, published scores are computed chunk by chunk, and `pairs` are the samples that are in memory.
    """
    measure, seed = measure_for(settings.measure, next(iter(pairs.values()))[0]), settings.seed
    points = [pair_points(*pair) for pair in pairs.values()]
    refuse_without_answer(measure, [points[0][0], *(y for _, y in points)])
    checked = check_samples(pairs) if streamed is None else streamed.caveats()
    caveats = {name: rename_system(own, name) for name, own in checked.items()}
    generations = {}
    for name, (reference, samples) in pairs.items():
        ordered, doubts = match_prompts(reference, samples)
        caveats[name] += rename_system(doubts, name)
        generations[name] = [(reference, part) for part in split_generations(ordered)]
    if streamed is not None and not streamed.complete:
        generations = {name: [pair] for name, pair in streamed.whole.items()}
    sizes = system_size_caveats({name: len(parts[0][1]) * len(parts) for name, parts in generations.items()})
    held_out = hold_out(measure, pairs, seed) if streamed is None else streamed.hold_out(measure, seed)
    measure = _with_one_number_of_bins(measure, generations)
    settings = replace(settings, measure=measure)
    known: dict[tuple[int, int], dict[str, float]] = {}
    if streamed is None:
        runs = _all_runs(settings, generations)
    else:
        runs = streamed.runs(measure, generations, settings.repeats, seed, known)
    scores = _all_scores(settings, runs, held_out, caveats, known)
    order = sorted(scores, key=lambda name: (-scores[name].certified["mauve"].value, -scores[name].mauve))
    against = [(name, baseline) for name in pairs if name != baseline] if baseline else list(combinations(pairs, 2))
    differences = _all_differences(held_out, against)
    variance = _all_variances(measure, runs, scores)
    ranks, groups = ({}, ()) if baseline else rank_systems(order, differences)
    return Comparison(
        scores={name: scores[name] for name in order},
        differences=differences,
        ranks=ranks,
        groups=groups,
        variance={name: variance[name] for name in order},
        baseline=baseline,
        signature=scores[order[0]].signature,
        caveats=unique_caveats([*sizes, *(caveat for name in pairs for caveat in scores[name].caveats)]),
    )


def _with_one_number_of_bins(measure: Measure, generations: Mapping[str, Sequence[tuple[Samples, Samples]]]) -> Measure:
    """The measure with as many bins for all systems as the smallest of them allows.

    Otherwise sizes would make a winner.
    """
    estimator = measure.estimator
    if not isinstance(estimator, Quantize) or estimator.bins != "auto" or isinstance(estimator.codebook, Codebook):
        return measure
    sizes = [(len(reference), len(model)) for parts in generations.values() for reference, model in parts]
    bins = {estimator.bins_for(n, m) for n, m in sizes}
    return measure if len(bins) == 1 else replace(measure, estimator=replace(estimator, bins=min(bins)))


def _all_runs(settings: Settings, generations: Mapping[str, Sequence[tuple[Samples, Samples]]]) -> dict[str, list[Run]]:
    """The runs of each system, one per generation."""
    measure = settings.measure
    if _shares_bins(measure):
        return _shared_runs(settings, generations)

    def run(reference: Samples, model: Samples) -> Run:
        prepared = measure.estimator.prepare(*pair_points(reference, model))
        masses = run_repeats(measure, prepared, settings.repeats, settings.seed)
        return Run(reference, model, masses, reduction_of(prepared), find_units(reference, model))

    places = [(name, pair) for name, parts in generations.items() for pair in parts]
    own_code = not isinstance(measure.estimator, Quantize)
    done = run_systems(
        [partial(run, *pair) for _, pair in places],
        [pair for _, pair in places],
        alone=own_code,
        progress=("clustering", [name for name, _ in places]),
    )
    runs: dict[str, list[Run]] = {name: [] for name in generations}
    for (name, _), one in zip(places, done, strict=True):
        runs[name].append(one)
    return runs


def _shared_runs(
    settings: Settings, generations: Mapping[str, Sequence[tuple[Samples, Samples]]]
) -> dict[str, list[Run]]:
    """One partition of the reference and all systems in each repeat."""
    estimator = settings.measure.estimator
    if not isinstance(estimator, Quantize):
        raise InputError(f"Shared bins need Quantize; the estimator is {estimator!r}.")
    places = [(name, *pair) for name, parts in generations.items() for pair in parts]
    points = [pair_points(reference, model) for _, reference, model in places]
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
    runs: dict[str, list[Run]] = {name: [] for name in generations}
    for (name, reference, model), own in zip(places, masses, strict=True):
        runs[name].append(Run(reference, model, own, reduction_of(prepared), find_units(reference, model)))
    return runs


def _all_scores(
    settings: Settings,
    runs: Mapping[str, list[Run]],
    held_out: HeldOut,
    caveats: Mapping[str, list[Caveat]],
    known: dict[tuple[int, int], dict[str, float]],
) -> dict[str, Score]:
    """The score of each system; `known` are self-scores by reference and size: the model plays no part."""
    measure, repeats, seed = settings.measure, settings.repeats, settings.seed
    last = {name: parts[-1] for name, parts in runs.items()}
    keys = {name: (id(run.reference), len(run.model)) for name, run in last.items()}
    for name, key in keys.items():
        if key not in known:
            known[key] = self_score(measure, last[name].reference, len(last[name].model), repeats=repeats, seed=seed)

    def score(name: str) -> Score:
        evidence, certificate = held_out.evidence[name], held_out.certificates[name]
        reasons = find_reasons(*held_out.samples[name], held_out.evidence_in_memory(name))
        each = [
            build_score(
                measure, run, known[keys[name]], seed, evidence=evidence, certificate=certificate, reasons=reasons
            )
            for run in runs[name]
        ]
        mean = each[0] if len(each) == 1 else _mean_score(each)
        own = rename_system([caveat for one in each for caveat in one.caveats], name)
        return replace(mean, caveats=unique_caveats([*caveats[name], *own]))

    every = run_systems(
        [partial(score, name) for name in runs], held_out.samples.values(), progress=("scoring", list(runs))
    )
    return dict(zip(runs, every, strict=True))


def _mean_score(scores: list[Score]) -> Score:
    """The mean over generations."""
    values = {name: tuple(np.mean([one.values[name] for one in scores], axis=0).tolist()) for name in SUMMARIES}
    mean, _ = mean_frontier([one.frontier for one in scores])
    _, band = mean_frontier([curve for one in scores for curve in (one.band or (one.frontier,))])
    return replace(
        scores[0],
        mauve=float(np.mean(values["mauve"])),
        frontier_integral=float(np.mean(values["frontier_integral"])),
        midpoint=float(np.mean(values["midpoint"])),
        values=values,
        std={name: float(np.std(each, ddof=1)) if len(each) > 1 else 0.0 for name, each in values.items()},
        interval={name: _mean_ends([one.interval[name] for one in scores]) for name in scores[0].interval},
        debiased={
            name: Estimate(*_mean_ends([astuple(one.debiased[name]) for one in scores])) for name in scores[0].debiased
        },
        frontier=mean,
        band=band,
        signature=replace(scores[0].signature, generations=len(scores)),
    )


def _mean_ends(ends: Sequence[tuple[float, ...]]) -> Any:
    return tuple(float(end) for end in np.mean(ends, axis=0))


def _all_differences(held_out: HeldOut, pairs: Sequence[tuple[str, str]]) -> tuple[Difference, ...]:
    """The differences of the pairs, with p-values corrected over all of them."""
    tasks = [partial(held_out.difference, first, second) for first, second in pairs]
    alone = bool(held_out.measure.witness.views)
    each = run_systems(tasks, held_out.samples.values(), alone=alone)  # most need no witness of their own
    adjusted = {name: holm([one.p_value[name] for one in each]) for name in SUMMARIES}
    return tuple(
        Difference(
            first,
            second,
            difference=one.value,
            interval=one.interval,
            p_value=one.p_value,
            adjusted={name: adjusted[name][i] for name in SUMMARIES},
        )
        for i, ((first, second), one) in enumerate(zip(pairs, each, strict=True))
    )


def _all_variances(
    measure: Measure, runs: Mapping[str, list[Run]], scores: Mapping[str, Score]
) -> dict[str, dict[str, float]]:
    """Where the variance of the published area comes from: seeds of clustering, samples, generations."""
    variance = {}
    for name, parts in runs.items():
        score = scores[name]
        variance[name] = {"clustering": score.std["mauve"] ** 2}
        if score.interval:
            low, high = score.interval["mauve"]  # of a difference of two draws, each with the noise of its seeds
            total = ((high - low) / (2.0 * NORMAL)) ** 2 / 2.0
            seeds = variance[name]["clustering"] / len(score.values["mauve"])
            variance[name]["sampling"] = max(0.0, total - seeds)
        if len(parts) > 1:
            means = [np.mean(summary_values(measure, run.masses)["mauve"]) for run in parts]
            variance[name]["generation"] = float(np.var(means, ddof=1))
    return settle(variance)


def generations_as_samples(sources: Mapping[str, Any]) -> dict[str, Any]:
    """Sources in which arrays (prompts, generations, d) became samples with one id per prompt, like the reference's
    rows.

    The reference, which comes first, gets the same ids if it is an array.
    """
    axes = {name: getattr(source, "ndim", None) for name, source in sources.items()}
    prompts = {len(sources[name]) for name, count in axes.items() if count == 3 and _is_numeric(sources[name])}
    if not prompts:
        return dict(sources)
    changed = dict(sources)
    first = next(iter(sources))
    for name, source in sources.items():
        if axes[name] == 3 and _is_numeric(source):
            array = np.asarray(source)
            ids = [f"prompt {i}" for i in range(array.shape[0]) for _ in range(array.shape[1])]
            changed[name] = Samples(features=array.reshape(-1, array.shape[2]), ids=tuple(ids), source="array")
        elif name == first and axes[name] in (1, 2):
            rows = read(source)
            changed[name] = Samples.trusted(
                features=rows.features, ids=tuple(f"prompt {i}" for i in range(len(rows))), source=rows.source
            )
    return changed


def _is_numeric(source: Any) -> bool:
    return getattr(getattr(source, "dtype", None), "kind", "") in tuple("biuf")


def match_prompts(reference: Samples, samples: Samples) -> tuple[Samples, list[Caveat]]:
    """Samples in the order of the reference's ids, generation by generation, with what was doubtful about it.

    Without ids, with ids that the reference does not have, or where some samples are missing, the order stays as it is.
    """
    times = samples.generations
    if not (reference.ids and samples.ids and times):
        return _as_one(samples), []
    prompts = len(reference)
    if len(set(reference.ids)) < prompts or len(samples) != prompts * times:
        return _as_one(samples), []
    place = {each: i for i, each in enumerate(reference.ids)}
    missing = sorted(set(samples.ids) - set(place))
    if missing:
        if place.keys().isdisjoint(samples.ids):
            return _as_one(samples), []
        count = f"{len(missing)} ids, such as {missing[0]!r}, are" if len(missing) > 1 else f"the id {missing[0]!r} is"
        text = f"{count} not in the reference: only samples whose ids the reference has are paired with it."
        return _as_one(samples), [Caveat("unmatched ids", text, values={"ids": len(missing)})]
    order = np.argsort([place[each] for each in samples.ids], kind="stable")
    order = order.reshape(prompts, times).T.ravel()  # one generation after the other
    return (samples if np.array_equal(order, np.arange(len(order))) else samples.take(order)), []


def _as_one(samples: Samples) -> Samples:
    """Samples that cannot be matched with prompts count as one generation: without ids, nothing is split."""
    return samples if samples.generations == 1 else Samples.trusted(**vars(samples) | {"ids": None, "prompts": None})


def split_generations(samples: Samples) -> list[Samples]:
    """The samples of each generation; they come one generation after the other, as `match_prompts` puts them."""
    times = samples.generations if samples.ids else 1
    if not times or times == 1:
        return [samples]
    size = len(samples) // times
    return [samples.take(range(start, start + size)) for start in range(0, len(samples), size)]
