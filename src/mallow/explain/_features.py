"""Where samples lie among the features: columns that differ, and how far from the centre samples are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.explain._candidate import Candidate, Phrase, clip_tails, numbers_apart
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.results import join_names
from mallow.theory import Array

_ROWS = 256  # of features that are converted at once; chosen: they stay in the cache
_TRIED = 32  # columns whose units are looked at; chosen: those with the largest differences
_RATIO = 1.05  # chosen: distances that differ by less are not worth telling
_SHOWN = 3  # columns in a phrase; chosen
_CONSTANT = 1e-6  # of its mean: a column that varies less is constant; rounding of single precision

Rows = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Standardised:
    """Features of both sides, and the moments of their columns.

    Attributes
    ----------
    sides : two arrays (n, d), (m, d)
    means, deviations : array (2, d)
        Of the reference and of the model.
    centre, scale : array (d,)
        Half-way between both means, and the standard deviation within the sides; in single precision, so that the order
        of the rows does not matter. The scale of a constant column is infinite.
    """

    sides: tuple[Rows, Rows]
    means: Array
    deviations: Array
    centre: NDArray[np.float32]
    scale: NDArray[np.float32]

    def columns(self, places: NDArray[np.intp]) -> Array:
        """Some standardised columns of both sides, (n + m, places)."""
        some = np.concatenate([side[:, places].astype(np.float64) for side in self.sides])
        centre, scale = (own[places].astype(np.float64) for own in (self.centre, self.scale))
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
    means, deviations = (np.stack(each) for each in zip(*moments, strict=True))
    within = np.sqrt((deviations**2).mean(axis=0))
    scale = np.where(within > _CONSTANT * np.abs(means).max(axis=0), within, np.inf)
    return Standardised((x, y), means, deviations, means.mean(axis=0).astype(np.float32), scale.astype(np.float32))


def _blocks(rows: Rows, dtype: type[np.floating[Any]]) -> Iterator[NDArray[Any]]:
    for low in range(0, len(rows), _ROWS):
        yield rows[low : low + _ROWS].astype(dtype)


def distance_candidate(features: Standardised) -> Candidate:
    """How far samples are from the centre of all: a model that lacks variety stays near it."""

    def phrase(model: float, reference: float) -> tuple[str, dict[str, float]]:
        own, other = numbers_apart(model, reference)
        amount = "more" if model > reference else "less"
        text = f"features that vary {amount} (mean squared distance from the centre {own}, reference {other})"
        values = {"model": model, "reference": reference}
        return (text if max(model, reference) >= _RATIO * min(model, reference) else ""), values

    return Candidate("region", features.distances(), phrase)


def column_candidates(features: Standardised, tests: UnitTests, level: float) -> list[Candidate]:
    """Two candidates at most: columns with other means, together, and columns with other spreads.

    Of all columns, those whose means (or variances) are farthest apart are tested over units, and corrected as if all
    had been, means and spreads. The trait is the sum of the columns below `level`, each times its difference.
    """
    scale = features.scale.astype(np.float64)
    shifts = (features.means[0] - features.means[1]) / scale
    spreads = (features.deviations[0] ** 2 - features.deviations[1] ** 2) / scale**2
    candidates = []
    for differences, phrase_of in ((shifts, _mean_phrase), (spreads, _spread_phrase)):
        tried = np.argsort(-np.abs(differences), kind="stable")[:_TRIED]
        columns = features.columns(tried)
        if phrase_of is _spread_phrase:
            columns = columns**2
        columns = np.apply_along_axis(clip_tails, 0, columns)
        delta, z = tests.difference(columns)
        p_values = two_sided(z)
        p_values[delta * differences[tried] <= 0] = 1.0
        adjusted = np.minimum(2.0 * len(scale) * p_values, 1.0)
        clear = np.flatnonzero(adjusted < level)
        if len(clear):
            shown = clear[np.argsort(p_values[clear], kind="stable")][:_SHOWN]
            together, phrase = columns[:, clear] @ delta[clear], phrase_of(features, tried[shown])
            p_value, corrected = float(p_values[shown].max()), float(adjusted[shown].max())
            candidates.append(Candidate("trait", together, phrase, p_value=p_value, adjusted=corrected))
    return candidates


def _mean_phrase(features: Standardised, places: NDArray[np.intp]) -> Phrase:
    return _column_phrase(places, features.means, ("larger values", "smaller values"), "mean")


def _spread_phrase(features: Standardised, places: NDArray[np.intp]) -> Phrase:
    return _column_phrase(places, features.deviations, ("more spread", "less spread"), "standard deviation")


def _column_phrase(places: NDArray[np.intp], moments: Array, amounts: tuple[str, str], name: str) -> Phrase:
    reference, model = moments[:, places].tolist()
    values: dict[str, float] = {}
    for place, own, other in zip(places.tolist(), model, reference, strict=True):
        values |= {f"column {place}": own, f"column {place}, reference": other}
    own, other = numbers_apart(model[0], reference[0])
    numbers = f"{name} {own}, reference {other}"
    if len(places) == 1:
        text = f"{amounts[model[0] < reference[0]]} in column {places[0]} ({numbers})"
    else:
        what = "means" if name == "mean" else "spreads"
        text = f"other {what} in columns {join_names([str(place) for place in places])} (column {places[0]}: {numbers})"
    return lambda *_: (text, values)
