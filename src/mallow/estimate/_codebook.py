"""A partition of feature space that is fitted once and reused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate._device import open_device
from mallow.estimate._features import Features, checked_features
from mallow.estimate._nearest import Grid, nearest_centres
from mallow.estimate._pca import Projection

Labels = NDArray[np.int64]

_ROWS = 1024  # chosen: rows reduced at once


@dataclass(frozen=True, eq=False)
class Codebook:
    """A partition of feature space, fitted once and reused: `Quantize.fit` makes it, `Quantize(codebook=…)` uses it.

    Attributes
    ----------
    centres : array (bins, d′)
        In the reduced space.
    projection : Projection or None
        How features are reduced. None where they were clustered as they are.
    grid : Grid or None
        On which points and centres are compared. None: the finest around the centres.
    """

    centres: Features
    projection: Projection | None = None
    grid: Grid | None = None

    def __repr__(self) -> str:
        return f"Codebook(bins={len(self.centres)})"

    def reduce(self, features: Any) -> Features:
        """Features in the space of the centres, (n, d′)."""
        return _reduce(self, self._checked(features))

    def labels(self, features: Any, *, device: str | None = None) -> Labels:
        """The bin of each row of features: that of the nearest centre, whatever rows are beside it.

        It is the same on any `device` (see `Quantize`).
        """
        return label_rows(self, self._checked(features), device)

    def count(self, features: Any, *, device: str | None = None) -> Labels:
        """How many rows of features fall into each bin, (bins,): the counts of a sample are the sum of those of its parts."""
        return np.bincount(self.labels(features, device=device), minlength=len(self.centres))

    def _checked(self, features: Any) -> Features:
        rows = checked_features("features", features, least=1)
        _check_width(self, rows)
        return rows


def label_rows(codebook: Codebook, rows: Features, device: str | None = None) -> Labels:
    """The bin of each row of features that are known to be finite."""
    _check_width(codebook, rows)
    opened = open_device(device)
    return nearest_centres(_reduce(codebook, rows), codebook.centres, codebook.grid, device=opened)


def _check_width(codebook: Codebook, rows: Features) -> None:
    width = codebook.centres.shape[1] if codebook.projection is None else codebook.projection.axes.shape[1]
    if rows.shape[1] != width:
        raise InputError(
            f"`features` must be {width} wide, like those the codebook was fitted on; got {rows.shape[1]}."
        )


def _reduce(codebook: Codebook, rows: Features) -> Features:
    """Rows in the space of the centres."""
    projection = codebook.projection
    if projection is None:
        return rows
    reduced = np.empty((len(rows), len(projection.axes)), rows.dtype)

    def task(low: int) -> None:
        reduced[low : low + _ROWS] = projection(rows[low : low + _ROWS])

    with single_threaded_blas():
        for _ in ordered_map(task, range(0, len(rows), _ROWS), cores()):
            pass
    return reduced
