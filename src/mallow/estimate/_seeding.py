"""Centres to start k-means from: greedy k-means++ on a sample of the points."""

from __future__ import annotations

import numpy as np

from mallow.estimate._nearest import TILE, Array, Data, Doubles, Labels, Workers

SEEDS_PER_BIN = 4  # chosen: k-means++ runs on a sample of this many points per bin
CANDIDATES = 4  # chosen: draws per greedy step
LARGEST_TABLE = (
    8 * TILE
)  # chosen: up to this many sampled points, all distances between them are kept (256 MB in float32)


def seed_centres(data: Data, bins: int, rng: np.random.Generator, workers: Workers) -> Array:
    """Centres from greedy k-means++ on a random sample of rows."""
    sample = draw_seeds(len(data.rows), bins, rng)
    return spread_centres(data.rows[sample, :-1], data.mass[sample], data.square[sample], bins, rng, workers)


def draw_seeds(count: int, bins: int, rng: np.random.Generator) -> Labels:
    """Some of so many rows, in order, from which centres are chosen."""
    size = min(count, max(SEEDS_PER_BIN * bins, TILE))
    return np.sort(rng.choice(count, size, replace=False))


def spread_centres(
    rows: Array, masses: Doubles, squares: Doubles, bins: int, rng: np.random.Generator, workers: Workers
) -> Array:
    """Some of the rows, chosen by greedy k-means++.

    Each step draws `CANDIDATES` rows with probability proportional to weight × squared distance to the nearest centre so
    far, and keeps the one that lowers the objective most. All distances within the sample come from one matrix product,
    so that a step costs a few vector operations.
    """
    size = len(rows)
    mass = masses.astype(rows.dtype)
    square = squares.astype(rows.dtype)[:, None]
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
    chosen[0] = rng.choice(size, p=masses / masses.sum())
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
