"""Ways to divide points into bins other than k-means: random centres, products, residuals, level sets of a known ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mallow._checks import whole
from mallow.errors import InputError
from mallow.estimate._cells import Cells, Labels, nearest_of, occupied_cells
from mallow.estimate._features import Features
from mallow.estimate._kmeans import lloyd
from mallow.estimate._nearest import nearest_centres


@dataclass(frozen=True)
class RandomCentres:
    """Bins around points of the samples that are drawn at random: what k-means gains over this is due to its centres.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 3))
    >>> Quantize(bins=10, method=RandomCentres())(x, y).p.shape
    (10,)
    """

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Cells:
        """See `Quantiser.fit`."""
        drawn = rng.choice(len(points), size=min(bins, len(points)), replace=False, p=times / times.sum())
        centres = points[np.sort(drawn)].astype(np.float64)
        return occupied_cells(points, times, lambda rows: nearest_of(rows, centres))


@dataclass(frozen=True)
class Product:
    """Product quantisation: the axes in groups, k-means in each; a bin for each combination that occurs.

    With b bins in all, each of g groups has b^(1/g) clusters. Axes are dealt out in turn, so that the groups have about the
    same variance where the axes are principal components.

    Parameters
    ----------
    groups : int
        g; at most the number of axes are used.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 4))
    >>> len(Quantize(bins=16, method=Product())(x, y).p)  # 4 × 4
    16
    """

    groups: int = 2

    def __post_init__(self) -> None:
        whole("groups", self.groups, least=1)

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Cells:
        """See `Quantiser.fit`."""
        groups = min(self.groups, points.shape[1])
        each = _root(bins, groups)
        parts = [slice(first, None, groups) for first in range(groups)]
        runs = [
            lloyd(np.ascontiguousarray(points[:, part]), each, rng=child, weights=times, max_iter=40)
            for part, child in zip(parts, rng.spawn(groups), strict=True)
        ]

        def code(rows: Features) -> Labels:
            number = np.zeros(len(rows), np.int64)
            for part, run in zip(parts, runs, strict=True):
                number = number * each + nearest_centres(np.ascontiguousarray(rows[:, part]), run.centres, run.grid)
            return number

        return occupied_cells(points, times, code)


@dataclass(frozen=True)
class Residual:
    """Residual quantisation: k-means, then k-means of what is left, and so on; a bin for each combination that occurs.

    The hard assignment of a deep residual mixture model (DRMM, Hämäläinen and Solin, 2020), which the first MAUVE paper
    tried: 3 layers of 10 components are up to 1,000 bins. With b bins in all, each of l levels has b^(1/l) clusters.

    Parameters
    ----------
    levels : int
        l.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 3))
    >>> len(Quantize(bins=27, method=Residual())(x, y).p) <= 27
    True
    """

    levels: int = 3

    def __post_init__(self) -> None:
        whole("levels", self.levels, least=1)

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Cells:
        """See `Quantiser.fit`."""
        each = _root(bins, self.levels)
        rest, runs = points.astype(np.float64), []
        for child in rng.spawn(self.levels):
            run = lloyd(rest, each, rng=child, weights=times, max_iter=40)
            runs.append(run)
            rest = rest - run.centres[nearest_centres(rest, run.centres, run.grid)]

        def code(rows: Features) -> Labels:
            number, left = np.zeros(len(rows), np.int64), rows.astype(np.float64)
            for run in runs:
                nearest = nearest_centres(left, run.centres, run.grid)
                number, left = number * each + nearest, left - run.centres[nearest]
            return number

        return occupied_cells(points, times, code)


@dataclass(frozen=True)
class LevelSets:
    """The oracle: bins of points at which the likelihood ratio P/Q is about the same (paper: thm:quant_error_fdiv).

    No partition into so many bins loses less of a divergence, apart from rounding; it needs the true ratio, and so it serves
    to tell how far a real quantiser is from the best. `mallow.bounds.oracle_partition` does the same for known masses.

    Parameters
    ----------
    log_ratio : callable
        From points (n, d), as they reach the bins, to log p/q (n,). Pass ``Quantize(reduce=None, …)`` if it is known for
        features.

    Examples
    --------
    >>> from mallow import Quantize
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 1)), rng.normal(1.0, 1.0, size=(500, 1))
    >>> Quantize(bins=10, reduce=None, method=LevelSets(lambda points: 0.5 - points[:, 0]))(x, y).p.shape
    (10,)
    """

    log_ratio: Callable[[Any], Any]

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Cells:
        """See `Quantiser.fit`."""
        level = self._levels(points)
        order = np.argsort(level, kind="stable")
        share = np.cumsum(times[order]) / times.sum()
        edges = level[order][np.searchsorted(share, np.arange(1, bins) / bins - 1e-12)]
        return occupied_cells(points, times, lambda rows: np.searchsorted(edges, self._levels(rows)).astype(np.int64))

    def _levels(self, points: Features) -> Any:
        level = np.asarray(self.log_ratio(points), np.float64)
        if level.shape != (len(points),) or np.isnan(level).any():
            raise InputError(
                f"`log_ratio` must return a number for each of {len(points)} points; got shape {level.shape}"
                f"{', with NaN' if np.isnan(level).any() else ''}."
            )
        return level


def _root(bins: int, parts: int) -> int:
    """The largest number whose power stays within the bins; at least 2."""
    root: int = max(2, round(float(bins) ** (1.0 / parts)))
    return root - 1 if root > 2 and root**parts > bins else root
