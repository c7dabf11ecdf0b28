"""The similarity of answers to one prompt, on each side: a model that lacks variety repeats itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.evidence import Evidence
from mallow.explain._candidates import Candidate, numbers_apart
from mallow.samples import Samples
from mallow.theory import Array

_FEWEST_UNITS = 5  # as for the test within units: with fewer prompts, a mean over them says little


def compare_answers(reference: Samples, model: Samples, evidence: Evidence) -> dict[str, float]:
    """The mean cosine of the features of two answers to one prompt: of the "model" and of the "reference".

    The mean is over the prompts (ids) to which both sides have several answers. Empty with fewer than five of them.
    """
    likeness = _mean_cosines(reference, model, evidence)
    if likeness is None:
        return {}
    n = len(evidence.reference_units)
    return {"model": float(likeness[n:].mean()), "reference": float(likeness[:n].mean())}


def answers_candidate(reference: Samples, model: Samples, evidence: Evidence) -> list[Candidate]:
    """The candidate for the similarity of each sample to the other answers to its prompt: none or one."""

    def phrase(model: float, reference: float) -> tuple[str, dict[str, float]]:
        model_numbers, other = numbers_apart(model, reference)
        amount = "more" if model > reference else "less"
        text = f"answers to one prompt that are {amount} alike (mean cosine {model_numbers}, reference {other})"
        return text, {"model": model, "reference": reference}

    likeness = _mean_cosines(reference, model, evidence)
    return [] if likeness is None else [Candidate("region", likeness, phrase)]


def _mean_cosines(reference: Samples, model: Samples, evidence: Evidence) -> Array | None:
    """The mean cosine of each sample with the other samples of its unit and side, (n + m,).

    Samples of units with fewer than two samples of either side get the mean of their side.
    """
    count, units = len(evidence.keys), (evidence.reference_units, evidence.model_units)
    several = np.minimum(*(np.bincount(unit_of_side, minlength=count) for unit_of_side in units)) >= 2
    if np.count_nonzero(several) < _FEWEST_UNITS:
        return None
    sides = []
    for samples, unit in zip((reference, model), units, strict=True):
        inside = several[unit]
        cosines = _cosines_within(samples.require_features()[inside], unit[inside])
        mean_cosines = np.full(len(unit), cosines.mean())
        mean_cosines[inside] = cosines
        sides.append(mean_cosines)
    return np.concatenate(sides)


def _cosines_within(features: NDArray[Any], unit: NDArray[np.int64]) -> Array:
    """The mean cosine of each row with the other rows of its unit."""
    order = np.argsort(unit, kind="stable")
    rows = features[order].astype(np.float64)
    rows /= max(float(np.abs(rows).max()), 1e-300)  # squares must neither overflow nor vanish
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    _, starts, place, sizes = np.unique(unit[order], return_index=True, return_inverse=True, return_counts=True)
    sums = np.add.reduceat(rows, starts, axis=0)[place]
    lengths = np.einsum("ij,ij->i", rows, rows)  # 1, or 0 for a row of zeros
    cosines = np.empty(len(rows))
    cosines[order] = (np.einsum("ij,ij->i", rows, sums) - lengths) / (sizes[place] - 1)
    return cosines
