"""Centres to start k-means from: greedy k-means++ on a sample of the points."""

from __future__ import annotations

import numpy as np

from mallow.estimate._nearest import TILE, Array, Data, Labels, Workers

__all__ = ["seed_centres"]

SEEDS_PER_BIN = 4  # chosen: k-means++ runs on a sample of this many points per bin
CANDIDATES = 4  # chosen: draws per greedy step
LARGEST_TABLE = (
    8 * TILE
)  # chosen: up to this many sampled points, all distances between them are kept (256 MB in float32)


def seed_centres(data: Data, bins: int, rng: np.random.Generator, workers: Workers) -> Array:
    """Centres from greedy k-means++ on a random sample of rows.

    Each step draws `CANDIDATES` rows with probability proportional to weight × squared distance to the nearest centre so
    far, and keeps the one that lowers the objective most. All distances within the sample come from one matrix product,
    so that a step costs a few vector operations.
    """
    size = min(len(data.rows), max(SEEDS_PER_BIN * bins, TILE))
    sample = np.sort(rng.choice(len(data.rows), size, replace=False))
    rows = data.rows[sample, :-1]
    mass = data.mass[sample].astype(rows.dtype)
    square = data.square[sample].astype(rows.dtype)[:, None]
    one = np.ones_like(square)
    left, right = (
        np.hstack([rows * -2, square, one]),
        np.hstack([rows, one, square]).T.copy(),
    )  # |a|² - 2<a,b> + |b|²
    uneven = bool((mass != 1).any())

    keep_all = size <= LARGEST_TABLE
    table = np.empty((size, size) if keep_all else (0, 0), rows.dtype)

    def fill(at: slice) -> None:
        np.maximum(np.matmul(left[at], right, out=table[at]), 0, out=table[at])

    if keep_all:
        workers.tiles(fill, size)

    def distances(drawn: Labels) -> Array:
        return table[drawn] if keep_all else np.maximum(left[drawn] @ right, 0)

    chosen = np.empty(bins, np.int64)
    chosen[0] = rng.choice(size, p=data.mass[sample] / data.mass[sample].sum())
    nearest = distances(chosen[:1])[0]
    draws = rng.random((bins, CANDIDATES))
    for step in range(1, bins):
        ladder = (nearest * mass if uneven else nearest).cumsum()
        drawn = np.minimum(ladder.searchsorted(draws[step] * ladder[-1], side="right"), size - 1)
        after = np.minimum(distances(drawn), nearest)
        best = int((after * mass if uneven else after).sum(axis=1).argmin())
        chosen[step] = drawn[best]
        nearest = after[best]
        nearest[drawn[best]] = 0
    return rows[chosen]
