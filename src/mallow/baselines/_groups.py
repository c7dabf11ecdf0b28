"""The measures of a table, in groups, with the caveats about them, and the noise of sampling in the measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import numpy as np

from mallow._optional import find_plugin, plugin_names
from mallow.baselines._clipped import clipped_shares
from mallow.baselines._corpus import Tokenize
from mallow.baselines._discriminator import discriminator_accuracy
from mallow.baselines._frechet import Moments, frechet_distance, frechet_limit
from mallow.baselines._kernel_distance import gaussian_kernel_distance, kernel_distance, vendi_score
from mallow.baselines._likelihoods import perplexity
from mallow.baselines._ngram_mauve import ngram_mauve
from mallow.baselines._precision_recall import precision_recall
from mallow.baselines._statistics import distinct, repetition, text_statistics
from mallow.engine import bar
from mallow.errors import Caveat, InputError
from mallow.estimate import Features
from mallow.evaluate import summary_values
from mallow.evidence import MAUVE_STAR, Measure, find_units, generator_for, published_interval
from mallow.generate import NextToken
from mallow.samples import Samples
from mallow.theory import DIVERGENCES, HELLINGER2, TV, Frontier, Masses, area, frontier
from mallow.theory.transport import (
    barycentric_frontier,
    entropic_cost,
    linear_frontier,
    quantized_cost,
    sliced_cost,
    transport_cost,
)

Outcome = tuple[dict[str, float], list[Caveat]]
"""Values by name of the measure, and caveats about them."""
Group = tuple[str, Sequence[str], Callable[[str], Outcome]]
"""The name of some measures, the systems that have them ("" is the reference), and how they are measured."""
Runs = Callable[[], Sequence[Masses]]
"""Returns the masses of MAUVE* for every repeat. They are computed at the first call."""

_TITLES = {"CHI2": "χ²", "HELLINGER2": "Hellinger²", "LE_CAM": "Le Cam"}
_SIZES = 6  # sample sizes for FD∞ in a table; chosen: the published 15 take longer than everything else together
_SUMMARY_TITLES = {"mauve": "MAUVE*", "frontier_integral": "FI", "midpoint": "Mid"}

GROUPS = 8
"""Groups of units that are left out in turn; chosen: fewer give wide intervals, more take longer."""
_T = 2.3646  # the 97.5% quantile of Student's t with GROUPS − 1 degrees of freedom

_TEXT = ("repetition", "distinct-4")
_POINTS = ("Fréchet distance", "kernel distance", "precision", "recall", "density", "coverage", "discriminator")

Noise = dict[str, tuple[float, float]]
"""Measure → half-widths of the 95% intervals of its value, and of its distance from the value of the reference."""
_DIVERGENCES = {_TITLES.get(name, name): divergence for name, divergence in DIVERGENCES.items()}
_PLAIN = {"TV": TV, "Hellinger²": HELLINGER2}  # divergences that the paper also reports without a frontier: table:fdiv

IDEALS = {
    **dict.fromkeys(("Fréchet distance", "kernel distance", "FD∞", "Gaussian kernel distance"), 0.0),
    **dict.fromkeys(("sliced transport", "transport", "quantised transport"), 0.0),
    **dict.fromkeys(("5-gram MAUVE", "MAUVE_OT", "MAUVE_OT bary"), 1.0),
    **dict.fromkeys(("precision", "recall", "density", "coverage", "clipped density", "clipped coverage"), 1.0),
    "discriminator": 0.5,
    **{f"MAUVE* {name}": 1.0 for name in _DIVERGENCES},
    **{f"{title} {name}": 0.0 for title in ("FI", "Mid") for name in _DIVERGENCES},
    **{f"{name}*": 0.0 for name in _PLAIN},
}
"""The values of two equal distributions, for all measures of which the reference has no value of its own."""


def distance_from(ideal: float, value: float) -> float:
    """|value − ideal|; 0 if both are infinite, and where an unbiased estimate of a distance fell below 0."""
    return 0.0 if value == ideal or value < ideal == 0.0 else abs(value - ideal)


def measure_texts(texts: Sequence[str], tokenize: Tokenize, scorer: NextToken | None) -> Outcome:
    """Text statistics of one set of texts. The perplexity too if there is a scorer."""
    statistics = text_statistics.quiet(texts, tokenize=tokenize)
    values = {
        "Zipf coefficient": statistics.zipf_coefficient,
        "repetition": statistics.repetition,
        "distinct-4": statistics.distinct,
        "diversity": statistics.diversity,
        "self-BLEU(4)": statistics.self_bleu,
    }
    if scorer is not None:
        values["perplexity"] = perplexity(scorer, texts)
    return values, list(statistics.caveats)


def measure_ngrams(reference: Sequence[str], model: Sequence[str]) -> Outcome:
    """MAUVE of two 5-gram models; left out if there are too few different texts for fitting and scoring."""
    try:
        masses = ngram_mauve(reference, model)
    except InputError as error:
        return {}, [Caveat("left out", f"5-gram MAUVE is left out: {error}")]
    curve = frontier.quiet(masses)
    return {"5-gram MAUVE": _area(curve)}, [*masses.caveats, *curve.caveats]


def measure_features(x: Features, y: Features, seed: int) -> Outcome:
    """Metrics of two samples of features."""
    distances, caveats = _measure_distances(x, y)
    return distances | {"discriminator": discriminator_accuracy(x, y, rng=seed)}, caveats


def _measure_distances(x: Features, y: Features) -> Outcome:
    frechet, caveats = frechet_distance.quiet(x, y)
    shares = precision_recall(x, y)
    values = {name: getattr(shares, name) for name in ("precision", "recall", "density", "coverage")}
    return {"Fréchet distance": frechet, "kernel distance": kernel_distance(x, y), **values}, list(caveats)


def measure_more_features(x: Features, y: Features, seed: int) -> Outcome:
    """Further metrics of two samples of features."""
    limit, caveats = measure_limit(x, y, seed)
    clipped = clipped_shares(x, y)
    values = {
        "clipped density": clipped.density,
        "clipped coverage": clipped.coverage,
        "Gaussian kernel distance": gaussian_kernel_distance(x, y),
        "sliced transport": sliced_cost(x, y, rng=seed),
    }
    diversity, doubts = measure_diversity(y) if x.any(axis=1).all() else ({}, [])
    return limit | values | diversity, [*caveats, *doubts]


def measure_limit(x: Features | Moments, y: Features, seed: int) -> Outcome:
    """FD∞; left out where there are too few samples to vary their number."""
    try:
        limit, caveats = frechet_limit.quiet(x, y, sizes=_SIZES, rng=seed)
        return {"FD∞": limit}, list(caveats)
    except InputError:
        return {}, [Caveat("left out", f"FD∞ is left out: {len(y)} samples are too few to vary their number")]


def measure_diversity(points: Features) -> Outcome:
    """The effective number of different samples; left out if a sample has no direction."""
    try:
        return {"Vendi score": vendi_score(points)}, []
    except InputError as error:
        return {}, [Caveat("left out", f"the Vendi score is left out: {error}")]


def measure_transport_of_reference(x: Features) -> Outcome:
    """The entropic cost of the reference to itself, which is not 0."""
    entropic = entropic_cost.quiet(x, x)
    return {"entropic transport": entropic.value}, list(entropic.caveats)


def measure_transport(x: Features, y: Features, runs: Runs) -> Outcome:
    """Transport costs of the points, and of the histograms without smoothing, as in the paper: means over repeats."""
    plugin, entropic = transport_cost.quiet(x, y), entropic_cost.quiet(x, y)
    caveats = [*plugin.caveats, *entropic.caveats]
    repeated: dict[str, list[float]] = {"quantised transport": [], "MAUVE_OT": [], "MAUVE_OT bary": []}
    for run in runs():
        if run.partition is None:  # for the type checker: MAUVE* always has bins
            continue
        p, q = run.partition.p_counts, run.partition.q_counts
        masses = Masses(p / p.sum(), q / q.sum(), partition=run.partition)
        quantised = quantized_cost.quiet(masses)
        linear, barycentric = linear_frontier.quiet(masses), barycentric_frontier.quiet(masses)
        repeated["quantised transport"].append(quantised.value)
        repeated["MAUVE_OT"].append(_area(linear))
        repeated["MAUVE_OT bary"].append(_area(barycentric))
        caveats += [*quantised.caveats, *linear.caveats, *barycentric.caveats]
    means = {name: float(np.mean(values)) for name, values in repeated.items()}
    return {"transport": plugin.value, "entropic transport": entropic.value} | means, caveats


def measure_frontiers(runs: Runs) -> Outcome:
    """MAUVE*, FI and Mid for every divergence, and TV and Hellinger² of the two histograms: means over repeats."""
    all_masses = runs()
    caveats = [caveat for masses in all_masses for caveat in masses.caveats]
    by_title: dict[str, dict[str, float]] = {title: {} for title in _SUMMARY_TITLES.values()}
    for name, divergence in _DIVERGENCES.items():
        values = summary_values(Measure(MAUVE_STAR.estimator, divergence), all_masses)
        for summary, title in _SUMMARY_TITLES.items():
            by_title[title][f"{title} {name}"] = float(np.mean(values[summary]))
        caveats += [caveat for masses in all_masses for caveat in frontier.quiet(masses, divergence).caveats]
    plain = {f"{name}*": float(np.mean([divergence(m) for m in all_masses])) for name, divergence in _PLAIN.items()}
    return {name: value for values in (*by_title.values(), plain) for name, value in values.items()}, caveats


def _area(curve: Frontier) -> float:
    return float(area(curve, scale=MAUVE_STAR.area_scale))


def main_measures(kind: str) -> tuple[str, ...]:
    """The eight measures that are shown first, for samples of this kind."""
    if kind == "text":
        return (*_TEXT, *(name for name in _POINTS if name not in ("density", "coverage")), "MAUVE* KL")
    return (*_POINTS, "MAUVE* KL")


def sampling_noise(
    reference: Samples,
    model: Samples,
    measures: Collection[str],
    ideals: dict[str, float],
    tokenize: Tokenize,
    seed: int,
) -> Noise:
    """The noise of measures other than MAUVE and the discriminator, by leaving out each group of units on both sides.

    Units are in one group with all their samples, so that shared prompts and several samples per prompt are allowed.
    """
    units = find_units(reference, model)
    group = generator_for(seed, "groups of units").permutation(units.count) % GROUPS
    values, distances = [], []
    for left_out in range(GROUPS):
        x, y = (
            side.take(np.flatnonzero(group[unit] != left_out))
            for side, unit in zip((reference, model), units.sets, strict=True)
        )
        mine, ideal = _measure(x, y, measures, ideals, tokenize)
        values.append(mine)
        distances.append({name: distance_from(ideal[name], value) for name, value in mine.items()})
    return {
        name: (_half([trial[name] for trial in values]), _half([trial[name] for trial in distances]))
        for name in values[0]
    }


def accuracy_noise(reference: Samples, model: Samples, accuracy: float) -> tuple[float, float]:
    """The sampling noise of the discriminator's accuracy, from the quarter of units that it is tested on."""
    tested = find_units(reference, model).count / 4
    shrunk = (accuracy * tested + 2) / (tested + 4)  # otherwise an accuracy of 1 would have no noise
    half = 1.96 * math.sqrt(shrunk * (1 - shrunk) / tested)
    return half, half


def score_noise(reference: Samples, model: Samples, runs: Sequence[Masses]) -> tuple[float, float]:
    """The noise of MAUVE*, computed from the bins only."""
    partitions = [run.partition for run in runs if run.partition is not None]
    low, high = published_interval(
        partitions,
        find_units(reference, model),
        summary_values(MAUVE_STAR, runs),
        smooth=MAUVE_STAR.estimator.smooth,  # type: ignore[attr-defined]
        divergence=MAUVE_STAR.divergence,
        scale=MAUVE_STAR.area_scale,
    )["mauve"]
    half = (high - low) / 2 / math.sqrt(2)  # the interval is for a repeat sample, which has its own noise
    return half, half


def _measure(
    x: Samples, y: Samples, measures: Collection[str], ideals: dict[str, float], tokenize: Tokenize
) -> tuple[dict[str, float], dict[str, float]]:
    """The chosen measures of two sets, and of the reference."""
    values: dict[str, float] = {}
    references = dict(ideals)
    for name, statistic in (("repetition", repetition), ("distinct-4", distinct)):
        if name in measures:
            values[name] = statistic(y.require_texts(), tokenize=tokenize)
            references[name] = statistic(x.require_texts(), tokenize=tokenize)
    distances, _ = _measure_distances(x.require_features(), y.require_features())
    return values | {name: value for name, value in distances.items() if name in measures}, references


def _half(replicates: Sequence[float]) -> float:
    """The half-width of a 95% interval by the jackknife that leaves out a group."""
    values = np.asarray(replicates, dtype=np.float64)
    return float(_T * math.sqrt((GROUPS - 1) / GROUPS * np.sum((values - values.mean()) ** 2)))


def find_noise(
    sets: Mapping[str, Samples],
    main: Sequence[str],
    ideals: dict[str, float],
    values: Mapping[str, dict[str, float]],
    tokenize: Tokenize,
    seed: int,
    runs: Callable[[str], list[Masses]],
) -> dict[str, dict[str, tuple[float, float]]]:
    """The noise of the main measures of every system."""
    noise = {}
    systems = [name for name in sets if name]
    with bar("intervals", len(systems)) as show:
        for done, name in enumerate(systems):
            show(done, f"{name}: {done}/{len(systems)} systems")
            noise[name] = sampling_noise(sets[""], sets[name], main, ideals, tokenize, seed)
            noise[name]["discriminator"] = accuracy_noise(sets[""], sets[name], values[name]["discriminator"])
            noise[name]["MAUVE* KL"] = score_noise(sets[""], sets[name], runs(name))
    return noise


def list_groups(
    sets: Mapping[str, Samples],
    tokenize: Tokenize,
    scorer: NextToken | None,
    seed: int,
    runs: Callable[[str], list[Masses]],
    *,
    transport: bool,
) -> list[Group]:
    """All groups of measures, in the order of the rows of the table."""
    systems = [name for name in sets if name]
    x, points = sets[""].require_features(), {name: sets[name].require_features() for name in systems}
    groups: list[Group] = []
    if sets[""].kind == "text":
        texts = {name: samples.require_texts() for name, samples in sets.items()}
        groups.append(("text", list(sets), lambda name: measure_texts(texts[name], tokenize, scorer)))
        groups.append(("5-grams", systems, lambda name: measure_ngrams(texts[""], texts[name])))
    groups.append(("features", systems, lambda name: measure_features(x, points[name], seed)))
    groups.append(("more features", [""], lambda name: measure_diversity(x)))
    groups.append(("more features", systems, lambda name: measure_more_features(x, points[name], seed)))
    for plugin in plugin_names("metrics"):
        metric = find_plugin("metrics", plugin)
        groups.append(("plugins", systems, partial(_measure_plugin, plugin, metric, x, points)))
    if transport:
        groups.append(("transport", [""], lambda name: measure_transport_of_reference(x)))
        groups.append(("transport", systems, lambda name: measure_transport(x, points[name], partial(runs, name))))
    groups.append(("frontier", systems, lambda name: measure_frontiers(partial(runs, name))))
    return groups


def _measure_plugin(
    name: str, metric: Callable[..., float], x: Features, points: Mapping[str, Features], system: str
) -> Outcome:
    """A metric of another package: a function of two arrays of features."""
    try:
        value = float(metric(x, points[system]))
    except Exception as error:  # code of other packages may raise anything
        return {}, [Caveat("left out", f"{name} is left out: it raised {type(error).__name__}: {error}")]
    return {name: value}, []
