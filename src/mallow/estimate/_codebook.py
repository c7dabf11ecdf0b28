"""A partition of feature space that is fitted once and reused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.engine import single_threaded_blas
from mallow.errors import InputError
from mallow.estimate._features import Features, checked_features
from mallow.estimate._nearest import SMALL_TILE, nearest_centres
from mallow.theory import Array

__all__ = ["Codebook", "label_rows"]

Labels = NDArray[np.int64]

_ROWS = 4096  # chosen: rows reduced at once, a multiple of `SMALL_TILE`


@dataclass(frozen=True, eq=False)
class Codebook:
    """A partition of feature space, fitted once and reused: `Quantize.fit` makes it, `Quantize(codebook=…)` uses it.

    Attributes
    ----------
    centres : array (bins, d′)
        In the reduced space.
    axes, mean : array (d′, d), (d,) or None
        Features are reduced as (row − mean) @ axes.T. None where the features were clustered without reduction.
    normalise : bool
        Whether rows are scaled to length 1 first.
    exponent : int
        Features are divided by 2**exponent first; 0 unless they are extremely large or small.
    """

    centres: Features
    axes: Array | None
    mean: Array | None
    normalise: bool
    exponent: int = 0

    def __repr__(self) -> str:
        return f"Codebook(bins={len(self.centres)})"

    def reduce(self, features: Any) -> Features:
        """Features in the space of the centres, (n, d′)."""
        return _reduce(self, self._checked(features), _ROWS)

    def labels(self, features: Any) -> Labels:
        """The bin of each row of features: that of the nearest centre."""
        return label_rows(self, self._checked(features))

    def count(self, features: Any) -> Labels:
        """How many rows of features fall into each bin, (bins,).

        Unlike in `labels`, the bin of a row never depends on the rows beside it, however near it is to the border between
        two bins: the counts of a sample are the sum of the counts of its parts.
        """
        rows = self._checked(features)
        counts = np.zeros(len(self.centres), np.int64)
        with single_threaded_blas():
            for start in range(0, len(rows), _ROWS):
                part = rows[start : start + _ROWS]
                # Products of exactly this many rows: in another shape, a row may be rounded differently.
                padded = np.pad(part, ((0, -len(part) % SMALL_TILE), (0, 0)))
                points = _reduce(self, padded, SMALL_TILE)[: len(part)]
                counts += np.bincount(nearest_centres(points, self.centres, any_batch=True), minlength=len(counts))
        return counts

    def _checked(self, features: Any) -> Features:
        rows = checked_features("features", features, least=1)
        _check_width(self, rows)
        return rows


def label_rows(codebook: Codebook, rows: Features) -> Labels:
    """The bin of each row of features that are known to be finite."""
    _check_width(codebook, rows)
    return nearest_centres(_reduce(codebook, rows, _ROWS), codebook.centres)


def _check_width(codebook: Codebook, rows: Features) -> None:
    width = codebook.centres.shape[1] if codebook.mean is None else len(codebook.mean)
    if rows.shape[1] != width:
        raise InputError(
            f"`features` must be {width} wide, like those the codebook was fitted on; got {rows.shape[1]}."
        )


def _reduce(codebook: Codebook, rows: Features, step: int) -> Features:
    """Rows in the space of the centres, by products of `step` rows."""
    if codebook.axes is None or codebook.mean is None:
        return rows
    reduced = np.empty((len(rows), len(codebook.axes)), rows.dtype)
    for start in range(0, len(rows), step):
        block = np.ldexp(rows[start : start + step].astype(np.float64), -codebook.exponent)
        if codebook.normalise:
            largest = np.abs(block).max(axis=1, keepdims=True)
            block /= np.where(largest > 0, largest, 1.0)
            norm = np.linalg.norm(block, axis=1, keepdims=True)
            block /= np.where(norm > 0, norm, 1.0)
        reduced[start : start + step] = (block - codebook.mean) @ codebook.axes.T
    return reduced
