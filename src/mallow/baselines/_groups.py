"""The measures of a table, in groups: each function returns values by name, with the caveats about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mallow.baselines._corpus import Tokenize
from mallow.baselines._discriminator import discriminator_accuracy
from mallow.baselines._frechet import Moments, frechet_distance
from mallow.baselines._frechet_limit import frechet_limit
from mallow.baselines._gaussian_distance import gaussian_kernel_distance
from mallow.baselines._kernel_distance import kernel_distance
from mallow.baselines._ngram_mauve import ngram_mauve
from mallow.baselines._perplexity import perplexity
from mallow.baselines._precision_recall import precision_recall
from mallow.baselines._statistics import text_statistics
from mallow.baselines._vendi import vendi_score
from mallow.errors import Caveat, InputError
from mallow.estimate import Features
from mallow.evaluate import summary_values
from mallow.evidence import MAUVE_STAR, Measure
from mallow.generate import NextToken
from mallow.theory import (
    CHI2,
    HELLINGER2,
    JS,
    KL,
    LE_CAM,
    TV,
    Divergence,
    Frontier,
    Masses,
    area,
    frontier,
)
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
"""Returns the masses of MAUVE* for every repeat; they are computed at the first call."""

_DIVERGENCES: dict[str, Divergence] = {
    "KL": KL,
    "χ²": CHI2,
    "TV": TV,
    "Hellinger²": HELLINGER2,
    "JS": JS,
    "Le Cam": LE_CAM,
}
_SIZES = 6  # sample sizes for FD∞ in a table; chosen: the published 15 take longer than everything else together
_SUMMARY_TITLES = {"mauve": "MAUVE*", "frontier_integral": "FI", "midpoint": "Mid"}

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
    "discriminator": 0.5,
    "transport": 0.0,
    "quantised transport": 0.0,
    "MAUVE_OT": 1.0,
    "MAUVE_OT bary": 1.0,
    **{f"MAUVE* {name}": 1.0 for name in _DIVERGENCES},
    **{f"{title} {name}": 0.0 for title in ("FI", "Mid") for name in _DIVERGENCES},
}
"""The values of two equal distributions, for all measures of which the reference has no value of its own."""


def measure_texts(texts: Sequence[str], tokenize: Tokenize, scorer: NextToken | None) -> Outcome:
    """Text statistics of one set of texts; the perplexity too if there is a scorer."""
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
    """MAUVE of two 5-gram models; left out if there are too few different texts to fit them to some and score others."""
    try:
        masses = ngram_mauve(reference, model)
    except InputError as error:
        return {}, [Caveat("left out", f"5-gram MAUVE is left out: {error}")]
    curve = frontier.quiet(masses)
    return {"5-gram MAUVE": _area(curve)}, [*masses.caveats, *curve.caveats]


def measure_features(x: Features, y: Features, seed: int) -> Outcome:
    """Metrics of two samples of features."""
    shares = precision_recall(x, y)
    frechet, caveats = frechet_distance.quiet(x, y)
    values = {
        "Fréchet distance": frechet,
        "kernel distance": kernel_distance(x, y),
        "precision": shares.precision,
        "recall": shares.recall,
        "density": shares.density,
        "coverage": shares.coverage,
        "discriminator": discriminator_accuracy(x, y, rng=seed),
    }
    return values, list(caveats)


def measure_more_features(x: Features, y: Features, seed: int) -> Outcome:
    """Further metrics of two samples of features."""
    limit, caveats = measure_limit(x, y, seed)
    values = {
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
    """How many different samples there are, in effect; left out if a sample has no direction."""
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
    """MAUVE*, FI and Mid for every divergence: means over repeats."""
    all_masses = runs()
    caveats = [caveat for masses in all_masses for caveat in masses.caveats]
    by_title: dict[str, dict[str, float]] = {title: {} for title in _SUMMARY_TITLES.values()}
    for name, divergence in _DIVERGENCES.items():
        values = summary_values(Measure(MAUVE_STAR.estimator, divergence), all_masses)
        for summary, title in _SUMMARY_TITLES.items():
            by_title[title][f"{title} {name}"] = float(np.mean(values[summary]))
        caveats += [caveat for masses in all_masses for caveat in frontier.quiet(masses, divergence).caveats]
    return {name: value for values in by_title.values() for name, value in values.items()}, caveats


def _area(curve: Frontier) -> float:
    return float(area(curve, scale=MAUVE_STAR.area_scale))
