"""Many systems against one reference: scores, paired differences, rank ranges, and where the variance comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from mallow.caveats import align_samples, rename_system, system_size_caveats, unique_caveats
from mallow.embed import AnyEmbedder, JointEmbedder, add_spaces, embed_all, read_all, resolve_embedder
from mallow.engine import AnyEngine, settle
from mallow.errors import InputError, warn_about
from mallow.evaluate._comparison import Comparison, Difference
from mallow.evaluate._evaluation import Evaluation, evaluate_systems, open_systems, shares_bins
from mallow.evaluate._order import rank_systems
from mallow.evaluate._run import Run, Settings, mean_frontier, summary_values
from mallow.evaluate._score import Score, build_scores
from mallow.evidence import MAUVE_STAR, NORMAL, SUMMARIES, HeldOut, Measure, Pairs, holm, run_systems
from mallow.results import Estimate
from mallow.samples import Samples, read


def compare(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    prompts: str = "joint",
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
    baseline: str | None = None,
    engine: AnyEngine = None,
    align: str | Sequence[str] = (),
) -> Comparison:
    """Score several systems against one reference and test which differences are real.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data.
    systems : mapping name → the same, or array (prompts, generations, d)
        Samples with the same id (or prompt, without ids) belong together. Samples with neither are independent. With
        several generations per prompt (three axes, or ids that repeat), published scores are means over the
        generations, whose variance is reported separately; evidence uses all of them at once.
    measure : Measure
        With ``Quantize(codebook="shared")`` one partition serves the reference and all systems; otherwise each system
        has its own. ``bins="auto"`` is one number for all systems, taken from the smallest.
    embedder :
        The embedder, by name or as an object. None takes the default for the kind of samples, as in `score`.
    paired :
        Whether row i of each set belongs to row i of the others, as in `score`.
    prompts :
        "joint": evidence is about texts with their prompts; "ignore": without, as in `score`.
    repeats :
        How many clusterings are averaged, as in `score`.
    rng :
        The seed of the clusterings, as in `score`.
    baseline : str or None
        Only compare all systems with this one. None: compare all pairs.
    engine :
        As in `score`. ``Quantize(codebook="shared")`` needs all samples in memory.
    align :
        Differences unrelated to the model that are removed from all sets first, as in `score`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(size=(1000, 8))
    >>> near, far = rng.normal(0.1, 1, size=(1000, 8)), rng.normal(0.6, 1, size=(1000, 8))
    >>> comparison = compare(human, {"near": near, "far": far})
    >>> comparison.winner, comparison.ranks
    ('near', {'near': (1, 1), 'far': (2, 2)})
    """
    settings = Settings.checked(measure, repeats, rng, align)
    if baseline is not None and baseline not in systems:
        raise InputError(f"`baseline` must be one of the systems ({', '.join(systems)}); got {baseline!r}.")
    pairs = embed_pairs(
        reference, systems, embedder, settings.measure, lazy=True, paired=paired, prompts=prompts, align=align
    )
    comparison = compare_pairs(pairs, settings, baseline=baseline, engine=engine)
    warn_about(comparison.caveats)
    return comparison


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
    prompts: str | None = "joint",
    align: str | Sequence[str] = (),
) -> Pairs:
    """Each system with the reference, embedded.

    The features of a joint embedder, such as a string kernel, depend on all samples that it gets. Each system is
    embedded only with the reference, so that it gets the same score as in `score`. Bins shared by all systems need one
    space. With `lazy`, features in shards are not read. With ``prompts=None``, evidence only uses the features.
    """
    _check_names(systems)
    # The reference comes first, under a name that differs from all systems.
    sets = read_all(generations_as_samples({"": reference, **systems}), embedder, lazy=lazy, paired=paired)
    sets = align_samples(sets, align)
    chosen = resolve_embedder(sets, embedder)
    if isinstance(chosen, JointEmbedder) and not shares_bins(measure):
        by_system = {name: embed_all({"": sets[""], name: sets[name]}, chosen, prompts=prompts) for name in systems}
        return {name: (both[""], both[name]) for name, both in by_system.items()}
    embedded = sets if chosen is None else embed_all(sets, chosen)
    embedded = embedded if prompts is None else add_spaces(embedded, chosen, prompts=prompts)
    return {name: (embedded[""], embedded[name]) for name in systems}


def compare_pairs(
    pairs: Pairs, settings: Settings, *, baseline: str | None = None, engine: AnyEngine = None
) -> Comparison:
    """The comparison of systems that were embedded with the reference, with caveats in the result."""
    with open_systems(pairs, settings.measure, engine) as systems:
        return _compare_systems(evaluate_systems(systems, settings, split=True), baseline)


def _compare_systems(evaluation: Evaluation, baseline: str | None) -> Comparison:
    sizes = system_size_caveats(
        {name: sum(len(run.model) for run in of_system) for name, of_system in evaluation.runs.items()}
    )
    names, held_out = list(evaluation.runs), evaluation.held_out
    tasks = [partial(build_scores, evaluation, name) for name in names]
    outcomes = run_systems(tasks, held_out.samples.values(), progress=("scoring", names))
    scores = {name: _mean_score(name, of_system) for name, of_system in zip(names, outcomes, strict=True)}
    order = sorted(scores, key=lambda name: (-scores[name].certified["mauve"].value, -scores[name].mauve))
    against = [(name, baseline) for name in scores if name != baseline] if baseline else list(combinations(scores, 2))
    differences = _all_differences(held_out, against)
    variance = _all_variances(evaluation.settings.measure, evaluation.runs, scores)
    ranks, groups = ({}, ()) if baseline else rank_systems(order, differences)
    return Comparison(
        scores={name: scores[name] for name in order},
        differences=differences,
        ranks=ranks,
        groups=groups,
        variance={name: variance[name] for name in order},
        baseline=baseline,
        signature=scores[order[0]].signature,
        caveats=unique_caveats([*sizes, *(caveat for score in scores.values() for caveat in score.caveats)]),
    )


def _mean_score(name: str, scores: list[Score]) -> Score:
    """The score of a system: the mean over its generations."""
    caveats = unique_caveats(rename_system([caveat for score in scores for caveat in score.caveats], name))
    if len(scores) == 1:
        return replace(scores[0], caveats=caveats)
    values = {name: tuple(np.mean([score.values[name] for score in scores], axis=0).tolist()) for name in SUMMARIES}
    mean, _ = mean_frontier([score.frontier for score in scores])
    _, band = mean_frontier([curve for score in scores for curve in (score.band or (score.frontier,))])
    return replace(
        scores[0],
        mauve=float(np.mean(values["mauve"])),
        frontier_integral=float(np.mean(values["frontier_integral"])),
        midpoint=float(np.mean(values["midpoint"])),
        values=values,
        std={name: float(np.std(repeats, ddof=1)) if len(repeats) > 1 else 0.0 for name, repeats in values.items()},
        interval={name: _mean_ends([score.interval[name] for score in scores]) for name in scores[0].interval},
        debiased={
            name: Estimate(*_mean_ends([astuple(score.debiased[name]) for score in scores]))
            for name in scores[0].debiased
        },
        frontier=mean,
        band=band,
        signature=replace(scores[0].signature, generations=len(scores)),
        caveats=caveats,
    )


def _mean_ends(ends: Sequence[tuple[float, ...]]) -> Any:
    return tuple(float(end) for end in np.mean(ends, axis=0))


def _all_differences(held_out: HeldOut, pairs: Sequence[tuple[str, str]]) -> tuple[Difference, ...]:
    """The differences of the pairs, with p-values corrected over all of them."""
    tasks = [partial(held_out.difference, first, second) for first, second in pairs]
    alone = bool(held_out.measure.witness.views)
    compared = run_systems(tasks, held_out.samples.values(), alone=alone)  # most do not need their own witness
    adjusted = {name: holm([outcome.p_value[name] for outcome in compared]) for name in SUMMARIES}
    return tuple(
        Difference(
            first,
            second,
            difference=outcome.value,
            interval=outcome.interval,
            p_value=outcome.p_value,
            adjusted={name: adjusted[name][i] for name in SUMMARIES},
        )
        for i, ((first, second), outcome) in enumerate(zip(pairs, compared, strict=True))
    )


def _all_variances(
    measure: Measure, runs: Mapping[str, list[Run]], scores: Mapping[str, Score]
) -> dict[str, dict[str, float]]:
    """The parts of the variance of the published area: seeds of clustering, samples, generations."""
    variance = {}
    for name, parts in runs.items():
        score = scores[name]
        variance[name] = {"clustering": score.std["mauve"] ** 2}
        if score.interval:
            low, high = score.interval["mauve"]  # for a difference of two draws, each with the noise of its seeds
            total = ((high - low) / (2.0 * NORMAL)) ** 2 / 2.0
            seeds = variance[name]["clustering"] / len(score.values["mauve"])
            variance[name]["sampling"] = max(0.0, total - seeds)
        if len(parts) > 1:
            means = [np.mean(summary_values(measure, run.masses)["mauve"]) for run in parts]
            variance[name]["generation"] = float(np.var(means, ddof=1))
    return settle(variance)


def generations_as_samples(sources: Mapping[str, Any]) -> dict[str, Any]:
    """The sources, with arrays (prompts, generations, d) turned into samples with one id per prompt.

    The ids are the row numbers of the reference. The reference, which comes first, gets the same ids if it is an array.
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
