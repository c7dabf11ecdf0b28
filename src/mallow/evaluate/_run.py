"""The engine room that all evaluations share: repeats of an estimator, their summaries, the noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import Quantize, as_features, same_width, split_size
from mallow.evaluate._measure import SUMMARIES, Measure
from mallow.inference import BinEvidence, collect_evidence
from mallow.samples import Samples
from mallow.theory import Frontier, Masses

__all__ = [
    "Run",
    "bin_evidence",
    "generator_for",
    "mean_frontier",
    "noise_floor",
    "pair_points",
    "run_repeats",
    "summary_values",
]


@dataclass(frozen=True, eq=False)
class Run:
    """One system against the reference, estimated: what its score and its differences are built from.

    Attributes
    ----------
    reference, model : Samples
        With features; for several generations, those of one.
    masses : list of Masses
        One per repeat.
    prepared : object
        What the estimator's `prepare` returned.
    evidence : BinEvidence or None
        None for estimators without bins.
    """

    reference: Samples
    model: Samples
    masses: list[Masses]
    prepared: Any
    evidence: BinEvidence | None


def generator_for(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose, so that asking for one thing more changes nothing else."""
    return np.random.default_rng([seed, *purpose.encode()])


def pair_points(reference: Samples, model: Samples) -> tuple[NDArray[Any], NDArray[Any]]:
    """The features of both sides as estimators take them; that they are finite was checked when they came in."""
    x, y = (as_features(name, side.require_features()) for name, side in (("reference", reference), ("model", model)))
    same_width(x, y)
    return x, y


def run_repeats(measure: Measure, prepared: Any, repeats: int, seed: int) -> list[Masses]:
    """The masses of every repeat. Estimators without randomness run once."""
    estimator = measure.estimator
    count = 1 if getattr(estimator, "deterministic", False) else repeats
    return [estimator.masses(prepared, child) for child in generator_for(seed, "clustering").spawn(count)]


def summary_values(measure: Measure, runs: Sequence[Masses]) -> dict[str, tuple[float, ...]]:
    """Each summary in every repeat."""
    summaries = [measure.summarise(masses) for masses in runs]
    return {name: tuple(float(one[name]) for one in summaries) for name in SUMMARIES}


def bin_evidence(measure: Measure, runs: Sequence[Masses], seed: int) -> BinEvidence | None:
    """What intervals and differences are made from; None for estimators without bins."""
    partitions = [masses.partition for masses in runs if masses.partition is not None]
    if not partitions:
        return None
    return collect_evidence(
        partitions,
        summary_values(measure, runs),
        divergence=measure.divergence,
        scale=measure.area_scale,
        rng=generator_for(seed, "intervals"),
    )


def noise_floor(
    measure: Measure, reference: Samples, m: int, prepared: Any, repeats: int, seed: int
) -> dict[str, float]:
    """What the reference scores against itself, split in the proportion of n and m: the mean over one split per repeat."""
    estimator = measure.estimator
    x = as_features("reference", reference.require_features())
    cut = split_size(len(x), m)
    summaries = []
    for child in generator_for(seed, "noise floor").spawn(repeats):
        if isinstance(estimator, Quantize):
            masses = estimator.against_itself(prepared, child)
        else:
            order = child.permutation(len(x))
            masses = estimator.masses(estimator.prepare(x[order[:cut]], x[order[cut:]]), child)
        summaries.append(measure.summarise(masses))
    return {name: float(np.mean([one[name] for one in summaries])) for name in SUMMARIES}


def mean_frontier(curves: Sequence[Frontier]) -> tuple[Frontier, tuple[Frontier, Frontier] | None]:
    """The mean of the curves and, where there are several on one grid, the two between which all of them lie."""
    mean = curves[0]
    if len(curves) == 1 or any(len(curve.lam) != len(mean.lam) for curve in curves):
        return mean, None
    p, q = np.array([(curve.p_to_mix, curve.q_to_mix) for curve in curves]).swapaxes(0, 1)
    mean, low, high = (replace(mean, p_to_mix=f(p, axis=0), q_to_mix=f(q, axis=0)) for f in (np.mean, np.min, np.max))
    return mean, (low, high)
