"""How much of a measure is the noise of sampling: a jackknife over groups of units."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from mallow.baselines._corpus import Tokenize
from mallow.baselines._diversity import distinct
from mallow.baselines._frechet import frechet_distance
from mallow.baselines._kernel_distance import kernel_distance
from mallow.baselines._precision_recall import precision_recall
from mallow.baselines._repetition import repetition
from mallow.baselines._table import distance_from
from mallow.estimate import Features
from mallow.evaluate import summary_values
from mallow.evidence import MAUVE_STAR, find_units, generator_for, published_interval
from mallow.samples import Samples
from mallow.theory import Masses

GROUPS = 8
"""Groups of units that are left out in turn; chosen: fewer give wide intervals (t with 7 degrees: 2.36), more take longer."""
_T = 2.3646  # the 97.5 % quantile of Student's t with GROUPS − 1 degrees of freedom

_TEXT = ("repetition", "distinct-4")
_POINTS = ("Fréchet distance", "kernel distance", "precision", "recall", "density", "coverage", "discriminator")

Noise = dict[str, tuple[float, float]]
"""Measure → half-widths of the 95 % intervals of its value, and of its distance from that of the reference."""


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
    """The noise of the chosen measures, except MAUVE and the discriminator, by leaving out each group of units on both sides.

    Units are in one group with all their samples, so that shared prompts and several samples per prompt are allowed.
    """
    units = find_units(reference, model)
    group = generator_for(seed, "groups of units").permutation(units.count) % GROUPS
    values, distances = [], []
    for left_out in range(GROUPS):
        x, y = (
            side.take(np.flatnonzero(group[own] != left_out))
            for side, own in zip((reference, model), units.sets, strict=True)
        )
        mine, ideal = _measure(x, y, measures, ideals, tokenize, seed)
        values.append(mine)
        distances.append({name: distance_from(ideal[name], value) for name, value in mine.items()})
    return {name: (_half([one[name] for one in values]), _half([one[name] for one in distances])) for name in values[0]}


def accuracy_noise(reference: Samples, model: Samples, accuracy: float) -> tuple[float, float]:
    """The noise of the discriminator: that of the quarter of units that it is tested on, two of each kind added."""
    tested = find_units(reference, model).count / 4
    shrunk = (accuracy * tested + 2) / (tested + 4)  # otherwise an accuracy of 1 would have no noise
    half = 1.96 * math.sqrt(shrunk * (1 - shrunk) / tested)
    return half, half


def score_noise(reference: Samples, model: Samples, runs: Sequence[Masses]) -> tuple[float, float]:
    """The noise of MAUVE*, from the bins alone."""
    partitions = [run.partition for run in runs if run.partition is not None]
    low, high = published_interval(
        partitions,
        find_units(reference, model),
        summary_values(MAUVE_STAR, runs),
        smooth=MAUVE_STAR.estimator.smooth,  # type: ignore[attr-defined]
        divergence=MAUVE_STAR.divergence,
        scale=MAUVE_STAR.area_scale,
    )["mauve"]
    half = (high - low) / 2 / math.sqrt(2)  # the interval is that of another draw, which has noise of its own
    return half, half


def _measure(
    x: Samples, y: Samples, measures: Collection[str], ideals: dict[str, float], tokenize: Tokenize, seed: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The chosen measures of two sets, and those of the reference."""
    values: dict[str, float] = {}
    own = dict(ideals)
    statistics: dict[str, Callable[[Sequence[str]], float]] = {
        "repetition": lambda texts: repetition(texts, tokenize=tokenize),
        "distinct-4": lambda texts: distinct(texts, 4, tokenize=tokenize),
    }
    for name, statistic in statistics.items():
        if name in measures:
            values[name], own[name] = statistic(y.require_texts()), statistic(x.require_texts())
    return values | _measure_points(x.require_features(), y.require_features(), measures, seed), own


def _measure_points(x: Features, y: Features, measures: Collection[str], seed: int) -> dict[str, float]:
    values: dict[str, float] = {}
    if "Fréchet distance" in measures:
        values["Fréchet distance"] = frechet_distance.quiet(x, y).value
    if "kernel distance" in measures:
        values["kernel distance"] = kernel_distance(x, y)
    if {"precision", "recall", "density", "coverage"} & set(measures):
        shares = precision_recall(x, y)
        every = {name: getattr(shares, name) for name in ("precision", "recall", "density", "coverage")}
        values |= {name: value for name, value in every.items() if name in measures}
    return values


def _half(replicates: Sequence[float]) -> float:
    """The half-width of a 95 % interval by the jackknife that leaves out a group."""
    values = np.asarray(replicates, dtype=np.float64)
    return float(_T * math.sqrt((GROUPS - 1) / GROUPS * np.sum((values - values.mean()) ** 2)))
