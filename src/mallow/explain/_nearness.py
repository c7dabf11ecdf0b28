"""The distances of samples to training data, relative to the distances of fresh data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow.engine import cores, ordered_map, single_threaded_blas
from mallow.theory import Array

_BLOCK = 1 << 20  # chosen: distances that are held at once
_LEAST = 700.0  # no density is below the exponential of minus this
_SPARE = 4  # chosen: additional candidates, since products are rounded

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest training samples of each sample.

    A ratio is small for a copy, whatever the scale of the features and the local density of the data, and about 1 for a
    sample that merely lies among the data.
    """

    nearest: Indices  # (n,): the row of the nearest training sample
    distance: Array  # (n,): to it
    ratio: Array  # (n,): the distance divided by the distance to the next training samples


def find_neighbours(
    points: Array, pool: Array, count: int, *, units: tuple[Indices, Indices] | None = None
) -> Neighbours:
    """The nearest of the pool for each point (n, d); `count` further neighbours give the scale of its ratio.

    `units` are the units of the points and of the pool. A point is not compared with its own unit.
    """
    count = min(count + 1, len(pool))
    wanted = min(count + _SPARE, len(pool))
    squares = np.einsum("ij,ij->i", pool, pool)

    def task(low: int) -> tuple[Indices, Array]:
        block = points[low : low + step]
        far = squares - 2.0 * (block @ pool.T)
        if units is not None:
            far[units[0][low : low + step, None] == units[1]] = np.inf
        near = np.argpartition(far, wanted - 1, axis=1)[:, :wanted] if wanted < len(pool) else np.argsort(far, axis=1)
        exact = np.sqrt(np.square(block[:, None] - pool[near]).sum(axis=2))
        exact[np.isinf(np.take_along_axis(far, near, axis=1))] = np.inf
        order = np.argsort(exact, axis=1, kind="stable")[:, :count]
        return near[np.arange(len(block)), order[:, 0]], np.take_along_axis(exact, order, axis=1)

    step = max(1, min(_BLOCK // len(pool), _BLOCK // (wanted * pool.shape[1])))
    with single_threaded_blas():
        parts = list(ordered_map(task, range(0, len(points), step), cores()))
    nearest, distance = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    scale = distance[:, -1] if count > 1 else np.ones(len(points))
    ratio = np.divide(distance[:, 0], scale, out=np.zeros(len(points)), where=(scale > 0) & np.isfinite(scale))
    return Neighbours(nearest.astype(np.int64), distance[:, 0], ratio)


def closest_shares(ratio: Array, shares: tuple[float, ...]) -> Array:
    """Whether each sample is among the closest 1%, 2%, …: 1 or 0, (n, shares)."""
    ordered = np.sort(ratio)
    cuts = [ordered[min(len(ratio), max(1, round(share * len(ratio)))) - 1] for share in shares]
    flags: Array = (ratio[:, None] <= np.array(cuts)).astype(np.float64)
    return flags


def neighbour_counts(neighbours: Neighbours, flags: Array, size: int) -> Array:
    """The number of flagged samples for which each of the pool is the nearest, (size, flags)."""
    counts = np.zeros((size, flags.shape[1]))
    np.add.at(counts, neighbours.nearest, flags)
    return counts


def kernel_likelihoods(
    points: Array, samples: Array, bandwidth: float, *, units: tuple[Indices, Indices] | None = None
) -> Array:
    """The kernel density at each point: log mean over samples of exp(−distance²/2h²), (n,).

    `units` are the units of the points and of the samples. The samples of a point's own unit are left out.
    """
    squares = np.einsum("ij,ij->i", samples, samples)

    def task(low: int) -> Array:
        block = points[low : low + step]
        far = np.einsum("ij,ij->i", block, block)[:, None] + squares - 2.0 * (block @ samples.T)
        terms = -np.maximum(far, 0.0) / (2.0 * bandwidth**2)
        if units is not None:
            terms[units[0][low : low + step, None] == units[1]] = -np.inf
        top = np.maximum(terms.max(axis=1), -_LEAST)
        likelihoods: Array = top + np.log(np.exp(terms - top[:, None]).mean(axis=1) + np.exp(-_LEAST))
        return likelihoods

    step = max(1, _BLOCK // len(samples))
    with single_threaded_blas():
        return np.concatenate(list(ordered_map(task, range(0, len(points), step), cores())))
