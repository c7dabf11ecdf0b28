"""Two samples in an order, and with names, that depend on their values alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow.estimate._features import Features
from mallow.estimate._row_order import canonical_order
from mallow.theory import Array

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Oriented:
    """Two samples with their rows in canonical order, called first and second according to their values alone.

    Whatever is computed from them is the same to the last bit when x and y are swapped or their rows shuffled.

    Attributes
    ----------
    points : float64 array (g, d)
        The distinct rows of both samples.
    first, second : int array
        For each row of the sample, in ascending order, its index in `points`.
    places : pair of int arrays
        Where these rows were in x and y.
    flipped : bool
        Whether `first` is y, the model.
    """

    points: Array
    first: Indices
    second: Indices
    places: tuple[Indices, Indices]
    flipped: bool


def orient(x: Features, y: Features) -> Oriented:
    """The samples x (n, d) and y (m, d) in canonical order and orientation."""
    pooled = canonical_order(x, y)
    points = np.concatenate([x, y])[pooled.distinct].astype(np.float64)
    sides = pooled.group[: len(x)], pooled.group[len(x) :]
    places = tuple(np.argsort(side, kind="stable") for side in sides)
    times = [np.bincount(side, minlength=len(points)) for side in sides]
    differ = np.flatnonzero(times[0] != times[1])  # none: the samples are equal, and the orientation does not matter
    flipped = bool(len(differ)) and bool(times[0][differ[0]] < times[1][differ[0]])
    a, b = (1, 0) if flipped else (0, 1)
    return Oriented(points, sides[a][places[a]], sides[b][places[b]], (places[a], places[b]), flipped)
