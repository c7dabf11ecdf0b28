"""Bins of points that are not those of k-means: which cells are occupied, and where other points belong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mallow.estimate._features import Features
from mallow.theory import Array

Labels = NDArray[np.int64]

_ENTRIES = 1 << 22  # chosen: distances held at once, 32 MB


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition fitted to points.

    Attributes
    ----------
    labels : int64 array (points,)
        The bin of each point, from 0 to bins − 1; every bin has a point.
    centres : array (bins, d)
        The mean of the points of each bin.
    assign : callable
        From other points (n, d) to their bins.
    """

    labels: Labels
    centres: Features
    assign: Callable[[Features], Labels]


class Quantiser(Protocol):
    """How points are divided into bins: k-means where `Quantize(method=None)`, or one of these."""

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Cells:
        """At most `bins` cells of distinct points (g, d), which occur so many `times` (g,)."""


def occupied_cells(points: Features, times: Labels, code: Callable[[Features], Labels]) -> Cells:
    """The cells that a code, a number for each point, divides the points into.

    A code may have many more values than any point takes. Only those that occur are bins, since smoothing would give mass to
    the others, alike on both sides; a point whose code is none of them belongs to the bin with the nearest centre.
    """
    codes, labels = np.unique(code(points), return_inverse=True)
    labels = labels.astype(np.int64)
    weight = np.bincount(labels, times)
    rows = points.astype(np.float64)
    centres = np.stack([np.bincount(labels, times * column) / weight for column in rows.T], axis=1)

    def assign(others: Features) -> Labels:
        other_codes = code(others)
        place = np.minimum(np.searchsorted(codes, other_codes), len(codes) - 1).astype(np.int64)
        unknown = codes[place] != other_codes
        if unknown.any():
            place[unknown] = nearest_of(others[unknown], centres)
        return place

    return Cells(labels, centres, assign)


def nearest_of(points: Features, centres: Array) -> Labels:
    """The nearest centre of each point, the first of equals."""
    from scipy.spatial.distance import cdist

    step = max(1, _ENTRIES // len(centres))
    parts = [cdist(points[low : low + step], centres).argmin(axis=1) for low in range(0, len(points), step)]
    return np.concatenate(parts).astype(np.int64)
