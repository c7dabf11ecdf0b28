"""The measures of a table, in groups, with the caveats about them, and the noise of sampling in the measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from mallow.baselines._clipped import clipped_shares
from mallow.baselines._corpus import Tokenize
from mallow.baselines._discriminator import discriminator_accuracy
from mallow.baselines._frechet import Moments, frechet_distance, frechet_limit
from mallow.baselines._kernel_distance import gaussian_kernel_distance, kernel_distance, vendi_score
from mallow.baselines._likelihoods import perplexity
from mallow.baselines._ngram_mauve import ngram_mauve
from mallow.baselines._precision_recall import precision_recall
from mallow.baselines._statistics import distinct, repetition, text_statistics
from mallow.baselines._table import distance_from
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
    "5-gram MAUVE": 1.0,
    "Fréchet distance": 0.0,
    "kernel distance": 0.0,
    "FD∞": 0.0,
    "Gaussian kernel distance": 0.0,
    "sliced transport": 0.0,
    "precision": 1.0,
    "recall": 1.0,
    "density": 1.0,
    "coverage": 1.0,
    "clipped density": 1.0,
    "clipped coverage": 1.0,
    "discriminator": 0.5,
    "transport": 0.0,
    "quantised transport": 0.0,
    "MAUVE_OT": 1.0,
    "MAUVE_OT bary": 1.0,
    **{f"MAUVE* {name}": 1.0 for name in _DIVERGENCES},
    **{f"{title} {name}": 0.0 for title in ("FI", "Mid") for name in _DIVERGENCES},
    **{f"{name}*": 0.0 for name in _PLAIN},
}
"""The values of two equal distributions, for all measures of which the reference has no value of its own."""


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
    values = {
        "Fréchet distance": frechet,
        "kernel distance": kernel_distance(x, y),
        "precision": shares.precision,
        "recall": shares.recall,
        "density": shares.density,
        "coverage": shares.coverage,
    }
    return values, list(caveats)


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
    by_title[""] = {
        f"{name}*": float(np.mean([divergence(masses) for masses in all_masses])) for name, divergence in _PLAIN.items()
    }
    return {name: value for values in by_title.values() for name, value in values.items()}, caveats


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
    statistics: dict[str, Callable[[Sequence[str]], float]] = {
        "repetition": lambda texts: repetition(texts, tokenize=tokenize),
        "distinct-4": lambda texts: distinct(texts, 4, tokenize=tokenize),
    }
    for name, statistic in statistics.items():
        if name in measures:
            values[name], references[name] = statistic(y.require_texts()), statistic(x.require_texts())
    distances, _ = _measure_distances(x.require_features(), y.require_features())
    return values | {name: value for name, value in distances.items() if name in measures}, references


def _half(replicates: Sequence[float]) -> float:
    """The half-width of a 95% interval by the jackknife that leaves out a group."""
    values = np.asarray(replicates, dtype=np.float64)
    return float(_T * math.sqrt((GROUPS - 1) / GROUPS * np.sum((values - values.mean()) ** 2)))
