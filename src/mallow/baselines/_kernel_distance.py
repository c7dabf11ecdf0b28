"""Kernel distances of two samples of features (KID, CMMD), and the Vendi score of one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mallow._checks import positive, whole
from mallow.baselines._points import (
    ROWS,
    Doubles,
    Indices,
    as_generator,
    check_pair,
    check_sample,
    largest_entry,
    thread_count,
)
from mallow.engine import ordered_map, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import Features

# Features up to this size are multiplied in float32; chosen: the cube of u·v/d is then at most 1e24, far from 3e38.
_SINGLE_LIMIT = 1e4

_SCALE = 1000.0  # as published, so that usual values have digits before the point


def kernel_distance(reference: Any, model: Any) -> float:
    """The unbiased squared maximum mean discrepancy of the kernel κ(u, v) = (u·v/d + 1)³ over all points.

    This is the kernel distance (KID) of Bińkowski et al. (2018):

        Σ_{i≠j} κ(x_i, x_j) / n(n − 1)  +  Σ_{i≠j} κ(y_i, y_j) / m(m − 1)  −  2 Σ_{i,j} κ(x_i, y_j) / nm.

    If the distributions are the same, its mean over samples of any size is 0, so that it is negative about half of the
    time. It is not clipped at 0. There is no upper limit. The kernel detects differences in the first three moments.
    It depends on the origin: shifting all features together changes the distance. Constant samples are allowed.

    All pairs are used, which is less noisy than the mean over subsets in the literature; for that see
    `kernel_distances`.

    Parameters
    ----------
    reference : array (n, d)
        The features of at least 2 real samples. For float32 features, products are computed in float32 and sums in
        float64.
    model : array (n, d)
        The features of at least 2 samples of the model.

    Examples
    --------
    >>> kernel_distance([[0.0], [0.0]], [[1.0], [1.0]])  # κ = 1, 8 and 1
    7.0
    """
    with single_threaded_blas():
        return _squared_mmd(*check_pair(reference, model), threads=thread_count())


@dataclass(frozen=True)
class KernelDistances:
    """Kernel distances of random subsets, as reported in most publications.

    Attributes
    ----------
    mean : float
    std : float
        The standard deviation over subsets (divided by their number). It is not the error of the mean, because subsets
        overlap.
    subsets : int
        The number of subsets.
    size : int
        How many samples of each side a subset holds.
    """

    mean: float
    std: float
    subsets: int
    size: int


def kernel_distances(
    reference: Any, model: Any, *, subsets: int = 100, size: int = 1000, rng: int | np.random.Generator | None = 0
) -> KernelDistances:
    """Mean and spread of `kernel_distance` over random subsets, drawn without replacement (Bińkowski et al. 2018).

    Parameters
    ----------
    reference : array (n, d)
        The features of at least `size` real samples.
    model : array (n, d)
        The features of at least `size` samples of the model.
    subsets : int
        The number of subsets; 100 as published.
    size : int
        How many samples of each side a subset holds; 1,000 as published.
    rng : int, numpy.random.Generator or None
        For the choice of the subsets; None gives a different choice each time.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    >>> kernel_distances(x, y, subsets=5, size=60).std < 1e-12  # every subset is the whole sample
    True
    """
    x, y = check_pair(reference, model)
    whole("subsets", subsets, least=1)
    whole("size", size, least=2)
    if size > min(len(x), len(y)):
        raise InputError(
            f"`size` must be at most the size of the smaller sample, {min(len(x), len(y))}; got {size}. "
            "kernel_distance uses all samples at once."
        )
    generator = as_generator(rng)
    chosen = [[generator.choice(len(side), size, replace=False) for side in (x, y)] for _ in range(subsets)]

    def subset_distance(rows: list[Indices]) -> float:
        return _squared_mmd(x[rows[0]], y[rows[1]], threads=1)

    with single_threaded_blas():
        distances = np.array(list(ordered_map(subset_distance, chosen, thread_count())))
    return KernelDistances(float(distances.mean()), float(distances.std()), subsets, size)


def _squared_mmd(x: Features, y: Features, *, threads: int) -> float:
    n, m = len(x), len(y)
    # Mean kernels minus 1: the ones would cancel, and would cost digits until then.
    within = (
        _kernel_sum(x, x, threads, same=True) / (n * (n - 1)),
        _kernel_sum(y, y, threads, same=True) / (m * (m - 1)),
    )
    return within[0] + within[1] - 2.0 * _kernel_sum(x, y, threads, same=False) / (n * m)


def _kernel_sum(x: Features, y: Features, threads: int, *, same: bool) -> float:
    """Σ κ(x_i, y_j) − 1 over all pairs; for a sample with itself (`same`), over those with i ≠ j."""
    exact = np.float64 in (x.dtype, y.dtype) or max(largest_entry(x), largest_entry(y)) > _SINGLE_LIMIT
    dtype = np.dtype(np.float64 if exact else np.float32)
    starts = [(i, j) for i in range(0, len(x), ROWS) for j in range(i if same else 0, len(y), ROWS)]

    def tile_sum(start: tuple[int, int]) -> float:
        i, j = start
        t = x[i : i + ROWS].astype(dtype, copy=False) @ y[j : j + ROWS].astype(dtype, copy=False).T
        t /= dtype.type(x.shape[1])
        power = t + dtype.type(3)
        power *= t
        power += dtype.type(3)
        power *= t  # (t + 1)³ − 1 = ((t + 3) t + 3) t
        total = float(power.sum(dtype=np.float64))
        if not same:
            return total
        return total - float(np.trace(power, dtype=np.float64)) if i == j else 2.0 * total

    return math.fsum(ordered_map(tile_sum, starts, threads))


def gaussian_kernel_distance(reference: Any, model: Any, *, bandwidth: float = 10.0) -> float:
    """1000 times the squared maximum mean discrepancy of the kernel exp(−‖u − v‖² / 2σ²) (Jayasumana et al. 2024).

    With the features of CLIP this is their CMMD; here it is computed from the given features, each divided by its
    length, as published. Like the published code, it averages over all pairs, including each sample with itself. 0 =
    equal. For two samples of one distribution it is a little above 0. Unlike the Fréchet distance it assumes no
    normal distribution, and it settles with fewer samples.

    Parameters
    ----------
    reference : array (n, d)
        The features of at least 2 real samples. A row of zeros stays as it is.
    model : array (n, d)
        The features of at least 2 samples of the model.
    bandwidth : float
        σ. The published 10 is large compared with the length 1 of a row, so the distance is nearly the distance of
        the means.

    Examples
    --------
    >>> gaussian_kernel_distance([[1.0, 0.0]] * 2, [[0.0, 3.0]] * 2)  # 2000 (1 − exp(−2/200))
    19.90033
    """
    positive("bandwidth", bandwidth)
    sides = [side.astype(np.float64) for side in check_pair(reference, model)]
    lengths = [np.sqrt(np.einsum("ij,ij->i", side, side)) for side in sides]
    x, y = (side / np.where(length > 0, length, 1.0)[:, None] for side, length in zip(sides, lengths, strict=True))
    with single_threaded_blas():
        within = _mean_kernel(x, x, bandwidth) + _mean_kernel(y, y, bandwidth)
        return _SCALE * (within - 2.0 * _mean_kernel(x, y, bandwidth))


def _mean_kernel(x: Doubles, y: Doubles, bandwidth: float) -> float:
    """The mean kernel minus 1: the ones would cancel later, and would cost digits until then."""
    norms = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    starts = [(i, j) for i in range(0, len(x), ROWS) for j in range(0, len(y), ROWS)]

    def tile_sum(start: tuple[int, int]) -> float:
        rows, columns = (slice(first, first + ROWS) for first in start)
        squared = norms[0][rows, None] + norms[1][columns] - 2.0 * (x[rows] @ y[columns].T)
        return float(np.expm1(-np.maximum(squared, 0.0) / (2.0 * bandwidth**2)).sum())

    return math.fsum(ordered_map(tile_sum, starts, thread_count())) / (len(x) * len(y))


def vendi_score(points: Any) -> float:
    """The effective number of different samples: exp(entropy of the eigenvalues of K/n) (Friedman and Dieng 2023).

    K holds the cosines of all pairs of samples. 1 = all samples point in one direction, n = all are orthogonal; at most
    n and at most the number of features. It needs no reference. Higher is not better, since noise is diverse.
    Compare it with the value of real data of the same size.

    Parameters
    ----------
    points : array (n, d)
        At least 2 samples; none may be zero, which has no direction.

    Examples
    --------
    >>> vendi_score([[1, 0], [2, 0], [0, 1], [0, 5]])
    2.0
    """
    array = check_sample("points", points).astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", array, array))
    if not lengths.all():
        raise InputError(
            f"`points` must not contain rows of zeros, which have no direction; row {int(np.argmin(lengths))} is one."
        )
    array /= lengths[:, None]
    with single_threaded_blas():
        # Both products have the same eigenvalues, apart from zeros, and the smaller one is cheaper.
        product = array @ array.T if len(array) < array.shape[1] else array.T @ array
        values = np.linalg.eigvalsh(product / len(array))
    values = values[values > 0]
    return float(np.exp(-(values * np.log(values)).sum()))
