"""Bins: partitions of the samples by a few rounds of k-means, whichever side they are of."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from mallow.engine import cores, ordered_map
from mallow.evidence._blocks import ROWS, Values
from mallow.evidence._units import Indices
from mallow.theory import Array

PARTITIONS_OF_MANY = 4  # the same with many samples, which depend less on luck
_VARIANCE = 0.9  # share of the variance in which bins are made, as published,
AXES = 32  # on so many axes at most; chosen: more take time and change little
_MOST_BINS = 200  # chosen: more take time
_FITTING_UNITS = 1000  # that move the centres; chosen: all samples get a bin
_ROUNDS = 3  # of k-means; chosen: bins need not be the best ones
PARTITIONS = 8  # of each number of bins; chosen: several poor ones see more than one good one, and depend less on luck


def find_partitions(points: Values, variances: Array, unit: Indices, pair: int, seed: int) -> tuple[Indices, ...]:
    """The bin of each sample, (partitions, rows), in several partitions with few bins and several with many.

    Parameters
    ----------
    points : array (rows, width)
        On their principal axes, units one after the other.
    variances : array (width,)
    unit : int64 array (rows,)
        The unit of each row, rising.
    pair : int
        How many distinct samples two sides have together. The bins follow it, not the number of systems.
    """
    leading = np.ascontiguousarray(points[:, : leading_axes(variances, float(variances.sum()))])
    every = find_centres(leading, unit, pair, seed)
    labels = list(ordered_map(lambda own: label_points(leading, own), every, cores()))
    return tuple(np.stack(labels[low : low + PARTITIONS]) for low in range(0, len(labels), PARTITIONS))


def leading_axes(variances: Array, total: float) -> int:
    """How many axes bins are made on, from the largest variances along axes and the sum of all."""
    share = np.cumsum(variances) / max(total, np.finfo(float).tiny)
    return min(int(np.searchsorted(share, _VARIANCE)) + 1, AXES)


def find_centres(points: Values, unit: Indices, pair: int, seed: int, *, partitions: int = PARTITIONS) -> list[Values]:
    """The centres of all partitions, those with few bins first, so many `partitions` with each number of bins."""
    # A few dozen samples per bin see broad shifts, twenty see narrow ones.
    sizes = min(round(math.sqrt(pair) / 2), _MOST_BINS // 2), min(pair // 20, _MOST_BINS)
    counts = sorted({max(2, count) for count in sizes})
    tasks = [(place, count, times) for place, count in enumerate(counts) for times in range(partitions)]

    def task(one: tuple[int, int, int]) -> Values:
        place, count, times = one
        return _cluster(points, unit, count, np.random.default_rng([seed, 1, place, times]))

    return list(ordered_map(task, tasks, cores()))


def _cluster(points: Values, unit: Indices, count: int, rng: np.random.Generator) -> Values:
    """Centres of bins. They start at samples of random units, so that copies of a sample change nothing."""
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    sizes = np.diff(starts, append=len(unit))
    order = rng.permutation(len(starts))
    drawn = order[np.arange(count) % len(starts)]
    centres = points[starts[drawn] + (rng.random(count) * sizes[drawn]).astype(np.int64)]
    chosen = np.zeros(len(starts), np.bool_)
    chosen[order[:_FITTING_UNITS]] = True
    some = points if chosen.all() else points[chosen[unit]]
    for _ in range(_ROUNDS):
        labels = label_points(some, centres)
        members = np.bincount(labels, minlength=count)[:, None]
        sums = membership(labels[None], count).T @ some
        centres = np.where(members > 0, sums / np.maximum(members, 1), centres).astype(points.dtype)
    return centres


def label_points(points: Values, centres: Values) -> Indices:
    """The nearest centre of each point."""
    table, half = np.ascontiguousarray(centres.T), np.einsum("ij,ij->i", centres, centres) / 2.0
    labels = np.empty(len(points), np.int64)
    for low in range(0, len(points), ROWS):
        labels[low : low + ROWS] = (points[low : low + ROWS] @ table - half).argmax(axis=1)
    return labels


def membership(partitions: Indices, bins: int) -> sparse.csr_array:
    """Ones where a row is in a bin, (rows, partitions × bins), from the bins of rows (partitions, rows)."""
    count, rows = partitions.shape
    places = (partitions + bins * np.arange(count)[:, None]).T.ravel()
    return sparse.csr_array(
        (np.ones(rows * count), places, np.arange(0, rows * count + 1, count)), shape=(rows, count * bins)
    )
