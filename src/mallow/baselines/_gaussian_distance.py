"""The kernel distance with a Gaussian kernel (CMMD, if the features come from CLIP)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mallow._checks import positive
from mallow.baselines._points import ROWS, Doubles, check_pair, thread_count
from mallow.engine import ordered_map, single_threaded_blas

_SCALE = 1000.0  # as published, so that usual values have digits before the point


def gaussian_kernel_distance(reference: Any, model: Any, *, bandwidth: float = 10.0) -> float:
    """1000 times the squared maximum mean discrepancy of the kernel exp(−‖u − v‖² / 2σ²) (Jayasumana et al. 2024).

    With the features of CLIP this is their CMMD; here it is computed from the features that are given, each divided by its
    length, as published. Their code averages over all pairs, each sample with itself included, and so does this: 0 = equal,
    and for two samples of one distribution it is a little above 0. Unlike the Fréchet distance it assumes no normal
    distribution, and it settles with fewer samples.

    Parameters
    ----------
    reference, model : array (n, d)
        At least 2 samples each. A row of zeros stays as it is.
    bandwidth : float
        σ. The published 10 is large against the length 1 of a row: the distance is then nearly that of the means.

    Examples
    --------
    >>> gaussian_kernel_distance([[1.0, 0.0]] * 2, [[0.0, 3.0]] * 2)  # 2000 (1 − exp(−2/200))
    19.90033
    """
    positive("bandwidth", bandwidth)
    x, y = (_unit_rows(side.astype(np.float64)) for side in check_pair(reference, model))
    with single_threaded_blas():
        within = _mean_kernel(x, x, bandwidth) + _mean_kernel(y, y, bandwidth)
        return _SCALE * (within - 2.0 * _mean_kernel(x, y, bandwidth))


def _unit_rows(points: Doubles) -> Doubles:
    lengths = np.sqrt(np.einsum("ij,ij->i", points, points))
    return points / np.where(lengths > 0, lengths, 1.0)[:, None]


def _mean_kernel(x: Doubles, y: Doubles, bandwidth: float) -> float:
    """The mean kernel minus 1: the ones would cancel, and until then only cost digits of what differs."""
    norms = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    starts = [(i, j) for i in range(0, len(x), ROWS) for j in range(0, len(y), ROWS)]

    def tile_sum(start: tuple[int, int]) -> float:
        rows, columns = (slice(each, each + ROWS) for each in start)
        squared = norms[0][rows, None] + norms[1][columns] - 2.0 * (x[rows] @ y[columns].T)
        return float(np.expm1(-np.maximum(squared, 0.0) / (2.0 * bandwidth**2)).sum())

    return math.fsum(ordered_map(tile_sum, starts, thread_count())) / (len(x) * len(y))
