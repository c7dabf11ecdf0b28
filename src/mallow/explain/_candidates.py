"""Candidates for a reason: traits of every sample, their p-values, and their wording.

This module has the candidates for features and prompts, and the similarity of answers to one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mallow.embed import shares_prompts
from mallow.evidence import Evidence, holm
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.results import join_names
from mallow.samples import Samples
from mallow.theory import Array

_COSINES = "mean cosine {}, reference {}"
_TAIL = 0.025  # chosen: share of the samples at either end whose trait is clipped to the next value

Kind = Literal["words", "length", "trait", "region"]
Phrase = Callable[[float, float], tuple[str, dict[str, float]]]
"""(mean of the trait over the model's samples, over the reference) → the phrase, and its numbers by name.

It is empty if the difference is too small to be mentioned, however significant."""

_ROWS = 256  # rows of features that are converted at once; chosen: they stay in the cache
_TRIED = 32  # columns that are tested over units; chosen: those with the largest differences
_RATIO = 1.05  # chosen: smaller differences of distances are not mentioned
_SHOWN = 3  # columns in a phrase; chosen
_CONSTANT = 1e-6  # times its mean: a column that varies less is constant; rounding of single precision
Rows = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A trait that may be a reason. P-values are for "the trait does not differ between the sides"."""

    kind: Kind
    trait: Array  # (n + m,): one number per sample, the reference first; without tails once it is tested
    phrase: Phrase
    means: tuple[float, float] = (0.0, 0.0)  # of the whole trait, of the model and of the reference, for the phrase
    p_value: float = 1.0
    adjusted: float = 1.0  # for everything that was tested together
    terms: tuple[str, ...] = ()  # the words in the phrase
    effect: float = 0.0  # the difference of the means in standard deviations within the sides, if it is known


def judge_traits(tests: UnitTests, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with the p-values of their differences."""
    if not candidates:
        return []
    traits = np.stack([candidate.trait for candidate in candidates], axis=1)
    columns = np.stack([clip_tails(trait) for trait in traits.T], axis=1)
    means = tests.side_means(traits)
    delta, z = tests.difference(columns)
    p_values = two_sided(z)
    p_values[delta * (means[:, 0] - means[:, 1]) <= 0] = 1.0  # phrases show plain means
    adjusted = holm(p_values.tolist())
    return [
        replace(
            candidate,
            trait=columns[:, column],
            means=(float(means[column, 1]), float(means[column, 0])),
            p_value=float(p_values[column]),
            adjusted=adjusted[column],
        )
        for column, candidate in enumerate(candidates)
    ]


def clip_tails(trait: Array) -> Array:
    """The trait with its few largest and smallest values clipped, so that no single sample decides.

    A trait that nearly all samples share does not change, since nothing would be left of it.
    """
    low, high = np.quantile(trait, [_TAIL, 1.0 - _TAIL])
    clipped: Array = np.clip(trait, low, high)
    return clipped if low < high else trait


def numbers_apart(model: float, reference: float) -> tuple[str, str]:
    """Two numbers with just enough decimals to show their difference, and two digits of the larger.

    Examples
    --------
    >>> numbers_apart(4.331, 4.744), numbers_apart(151.2, 152.9), numbers_apart(0.484, -0.0004)
    (('4.3', '4.7'), ('151', '153'), ('0.48', '0.00'))
    """
    largest = max(abs(model), abs(reference))
    start = 0 if largest >= 10 else 1 if largest >= 1 else 2
    for decimals in range(start, 7):
        first, second = (round(value, decimals) + 0.0 for value in (model, reference))  # + 0.0: no minus sign before 0
        if abs(first - second) >= abs(model - reference) / 2.0:
            break
    return f"{first:.{decimals}f}", f"{second:.{decimals}f}"


def contrast(more: str, less: str, numbers: str, *, times: float = 1.0, least: float = 1.0) -> Phrase:
    """The phrase for a trait of which the model has more, or less, than the reference.

    `numbers` gets the two means, each multiplied by `times`. There is no phrase for a ratio below `least`.

    Examples
    --------
    >>> contrast("longer words", "shorter words", "{} letters, reference {}")(4.3, 4.7)
    ('shorter words (4.3 letters, reference 4.7)', {'model': 4.3, 'reference': 4.7})
    """

    def phrase(model: float, reference: float) -> tuple[str, dict[str, float]]:
        shown = numbers.format(*numbers_apart(times * model, times * reference))
        text = f"{more if model > reference else less} ({shown})"
        clear = max(model, reference) >= least * min(model, reference)
        return (text if clear else ""), {"model": model, "reference": reference}

    return phrase


@dataclass(frozen=True, eq=False)
class Standardised:
    """Features of both sides, and the moments of their columns.

    Centre and scale are in single precision, so that the order of the rows does not matter.
    """

    sides: tuple[Rows, Rows]  # (n, d) and (m, d)
    means: Array  # (2, d): of the reference and of the model
    deviations: Array  # (2, d)
    centre: NDArray[np.float32]  # (d,): the middle between both means
    scale: NDArray[np.float32]  # (d,): the standard deviation within the sides; infinite for a constant column

    def columns(self, places: NDArray[np.intp]) -> Array:
        """Some standardised columns of both sides, (n + m, places)."""
        some = np.concatenate([side[:, places].astype(np.float64) for side in self.sides])
        centre, scale = (moments[places].astype(np.float64) for moments in (self.centre, self.scale))
        return (some - centre) / scale

    def distances(self) -> Array:
        """The mean square of the standardised columns of each row, (n + m,): about 1."""
        factor = 1.0 / self.scale
        parts = []
        for side in self.sides:
            for block in _blocks(side, np.float32):
                scaled = (block - self.centre) * factor
                parts.append(np.einsum("ij,ij->i", scaled, scaled))
        distances: Array = np.concatenate(parts).astype(np.float64) / max(int(np.count_nonzero(factor)), 1)
        return distances


def standardise(x: Rows, y: Rows) -> Standardised:
    """The features with the moments of their columns."""
    moments = []
    for side in (x, y):
        total, squares = np.zeros((2, side.shape[1]))
        shift = x[0].astype(np.float64)  # so that squares of large numbers do not cancel
        for block in _blocks(side, np.float64):
            moved = block - shift
            total += moved.sum(axis=0)
            squares += np.einsum("ij,ij->j", moved, moved)
        mean = total / len(side)
        moments.append((mean + shift, np.sqrt(np.maximum(squares / len(side) - mean**2, 0.0))))
    means, deviations = (np.stack(pair) for pair in zip(*moments, strict=True))
    within = np.sqrt((deviations**2).mean(axis=0))
    scale = np.where(within > _CONSTANT * np.abs(means).max(axis=0), within, np.inf)
    return Standardised((x, y), means, deviations, means.mean(axis=0).astype(np.float32), scale.astype(np.float32))


def _blocks(rows: Rows, dtype: type[np.floating[Any]]) -> Iterator[NDArray[Any]]:
    for low in range(0, len(rows), _ROWS):
        yield rows[low : low + _ROWS].astype(dtype)


def distance_candidate(features: Standardised) -> Candidate:
    """The distance of samples from the common centre: a model that lacks variety stays near it."""
    numbers = "mean squared distance from the centre {}, reference {}"
    phrase = contrast("features that vary more", "features that vary less", numbers, least=_RATIO)
    return Candidate("region", features.distances(), phrase)


def prompt_candidate(reference: Samples, model: Samples) -> list[Candidate]:
    """The candidate for the similarity of texts to their prompts, if evidence used it: none or one."""
    spaces = [(side.spaces or {}).get("prompts") for side in (reference, model)]
    if spaces[0] is None or spaces[1] is None or not shares_prompts(reference, model):
        return []
    cosines = np.concatenate([side[:, 0] for side in spaces if side is not None])
    return [Candidate("region", cosines, contrast("nearer to their prompts", "farther from their prompts", _COSINES))]


def column_candidates(features: Standardised, tests: UnitTests, level: float) -> list[Candidate]:
    """At most two candidates: all columns with different means, and all columns with different spreads.

    The columns whose means (or variances) are farthest apart are tested over units, with a correction for the means and
    spreads of all columns. The trait is the sum of the columns below `level`, each times its difference.
    """
    scale = features.scale.astype(np.float64)
    shifts = (features.means[0] - features.means[1]) / scale
    spreads = (features.deviations[0] ** 2 - features.deviations[1] ** 2) / scale**2
    candidates = []
    for name, differences, moments, amounts in (
        ("mean", shifts, features.means, ("larger values", "smaller values")),
        ("standard deviation", spreads, features.deviations, ("more spread", "less spread")),
    ):
        tried = np.argsort(-np.abs(differences), kind="stable")[:_TRIED]
        columns = features.columns(tried)
        if differences is spreads:
            columns = columns**2
        columns = np.apply_along_axis(clip_tails, 0, columns)
        delta, z = tests.difference(columns)
        p_values = two_sided(z)
        p_values[delta * differences[tried] <= 0] = 1.0
        adjusted = np.minimum(2.0 * len(scale) * p_values, 1.0)
        clear = np.flatnonzero(adjusted < level)
        if len(clear):
            shown = clear[np.argsort(p_values[clear], kind="stable")][:_SHOWN]
            together, phrase = columns[:, clear] @ delta[clear], _column_phrase(tried[shown], moments, amounts, name)
            p_value, corrected = float(p_values[shown].max()), float(adjusted[shown].max())
            candidates.append(Candidate("trait", together, phrase, p_value=p_value, adjusted=corrected))
    return candidates


def _column_phrase(columns: NDArray[np.intp], moments: Array, amounts: tuple[str, str], name: str) -> Phrase:
    reference, model = moments[:, columns].tolist()
    values: dict[str, float] = {}
    for column, moment, moment_reference in zip(columns.tolist(), model, reference, strict=True):
        values |= {f"column {column}": moment, f"column {column}, reference": moment_reference}
    shown, shown_reference = numbers_apart(model[0], reference[0])
    numbers = f"{name} {shown}, reference {shown_reference}"
    if len(columns) == 1:
        text = f"{amounts[model[0] < reference[0]]} in column {columns[0]} ({numbers})"
    else:
        what = "means" if name == "mean" else "spreads"
        text = f"other {what} in columns {join_names(list(map(str, columns)))} (column {columns[0]}: {numbers})"
    return lambda *_: (text, values)


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
    likeness = _mean_cosines(reference, model, evidence)
    more, less = (f"answers to one prompt that are {amount} alike" for amount in ("more", "less"))
    return [] if likeness is None else [Candidate("region", likeness, contrast(more, less, _COSINES))]


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
