"""Distances between the distinct points of two samples: fast approximate ones with an error bound, and exact ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.baselines._points import ROWS, Doubles, Indices, row_blocks
from mallow.estimate import Features, canonical_order

_PAIRS = 1 << 20  # entries of a block of differences; chosen: 8 MB in float64


@dataclass(frozen=True, eq=False)
class Cloud:
    """The distinct rows of a sample; without removing duplicates, a model that repeats itself would be full of ties.

    Attributes
    ----------
    rows : array (n, d)
        The sample itself.
    distinct : int64 array (g,)
        The places of the distinct rows.
    times : int64 array (g,)
        How often each of them occurs.
    centre : float64 array (d,)
    single : float32 array (g, d)
        The distinct rows minus `centre`.
    norms : float64 array (g,)
        Their squared lengths.
    """

    rows: Features
    distinct: Indices
    times: Indices
    centre: Doubles
    single: NDArray[np.float32]
    norms: Doubles

    def centred(self, block: slice) -> Doubles:
        """Some of the distinct rows minus `centre`, in float64."""
        return self.rows[self.distinct[block]] - self.centre

    def slack(self, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        """Bounds (g,) whose sum over two points bounds the error of their approximate squared distance.

        A product of d terms is off by at most d/2 units of rounding times |u||v| ≤ (|u|² + |v|²)/2, in any order of
        summation; all other rounding, also that of the points, adds a few units. `tiny` covers products that underflow.
        """
        info = np.finfo(dtype)
        return ((len(self.centre) + 32) * (float(info.eps) / 2 * self.norms + float(info.tiny))).astype(dtype)


def make_cloud(points: Features, centre: Doubles) -> Cloud:
    """The cloud of a sample."""
    order = canonical_order(points, points[:0])
    single = np.empty((len(order.distinct), points.shape[1]), np.float32)
    norms = np.empty(len(single))
    for block in row_blocks(len(single), ROWS):
        centred = points[order.distinct[block]] - centre
        norms[block] = (centred**2).sum(axis=1)
        single[block] = centred
    return Cloud(points, order.distinct, order.counts, centre, single, norms)


def approximate_distances(a: Cloud, rows: slice, b: Cloud, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """The squared distances (rows, g) of some points of `a` to all of `b`, by matrix products; their error: `slack`."""
    squared: NDArray[Any]
    if dtype is np.float32:
        squared = (a.single[rows] * np.float32(-2)) @ b.single.T
    else:
        left = a.centred(rows) * -2.0
        squared = np.concatenate([left @ b.centred(block).T for block in row_blocks(len(b.distinct), ROWS)], axis=1)
    squared += b.norms.astype(dtype)
    squared += a.norms[rows].astype(dtype)[:, None]
    return squared


def exact_distances(a: Cloud, i: Indices, b: Cloud, j: Indices) -> Doubles:
    """The squared distance of each pair (i, j), by differences in float64.

    It depends on the two rows alone, is the same from either side, and is 0 for duplicates.
    """
    squared = np.empty(len(i))
    for block in row_blocks(len(i), max(1, _PAIRS // a.rows.shape[1])):
        difference = a.rows[a.distinct[i[block]]].astype(np.float64)
        difference -= b.rows[b.distinct[j[block]]]
        difference *= difference
        squared[block] = difference.sum(axis=1)
    return squared
