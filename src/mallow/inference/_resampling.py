"""Resampling from the bins of the samples alone: bootstrap, and a permutation test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.theory import Array, Partition

__all__ = ["permutation_p_value", "resample_counts", "resample_summaries"]

Labels = NDArray[np.int64]
Summaries = dict[str, float | Array]
SummariseCounts = Callable[[Array, Array], Summaries]  # counts (..., bins) of both sides → summaries


def resample_counts(labels: Labels, bins: int, index: NDArray[np.integer]) -> Array:
    """The histogram of each resample, (resamples, bins), of samples whose bins are `labels`.

    `index` (resamples, n) lists the samples in each resample; the same index for paired samples keeps pairs together.
    """
    rows = labels[index] + bins * np.arange(len(index))[:, None]
    return np.bincount(rows.ravel(), minlength=bins * len(index)).reshape(len(index), bins).astype(np.float64)


def resample_summaries(
    partitions: Mapping[str, Sequence[Partition]],
    summarise_counts: SummariseCounts,
    *,
    resamples: int = 1000,
    rng: int | np.random.Generator = 0,
) -> dict[str, Summaries]:
    """The summaries of every system in the same bootstrap resamples, (resamples,) each.

    Where all systems have as many samples as the reference, sample i of each belongs together and is drawn together;
    otherwise each side is drawn on its own. With several partitions of a system, the resamples are divided among them
    and each part is centred on its own mean: the spread is that of sampling, not of clustering.
    """
    whole("resamples", resamples, least=2)
    rng = np.random.default_rng(rng)
    sizes = {len(part.q_labels) for parts in partitions.values() for part in parts}
    n = len(next(iter(partitions.values()))[0].p_labels)
    paired = sizes == {n}
    reference = rng.integers(n, size=(resamples, n))
    summaries: dict[str, Summaries] = {}
    for name, parts in partitions.items():
        m = len(parts[0].q_labels)
        model = reference if paired else rng.integers(m, size=(resamples, m))
        pieces = []
        for part, rows in zip(parts, np.array_split(np.arange(resamples), len(parts)), strict=True):
            if len(rows):
                p_counts = resample_counts(part.p_labels, part.bins, reference[rows])
                pieces.append(summarise_counts(p_counts, resample_counts(part.q_labels, part.bins, model[rows])))
        summaries[name] = {key: _centred([np.asarray(piece[key]) for piece in pieces]) for key in pieces[0]}
    return summaries


def _centred(pieces: list[Array]) -> Array:
    """All pieces in one array, each moved so that its mean is the overall mean."""
    mean = float(np.mean(np.concatenate(pieces)))
    return np.concatenate([piece - piece.mean() + mean for piece in pieces])


def permutation_p_value(
    partition: Partition,
    summarise_counts: SummariseCounts,
    *,
    permutations: int = 999,
    rng: int | np.random.Generator = 0,
) -> float:
    """The chance, if reference and model were one distribution, of an integral at least as large as the observed one.

    Exact for independent samples: the partition depends on the pooled samples alone, so exchanging their sides leaves
    it unchanged.
    """
    whole("permutations", permutations, least=1)
    rng = np.random.default_rng(rng)
    p_counts, q_counts = partition.p_counts, partition.q_counts
    pooled = (p_counts + q_counts).astype(np.int64)
    drawn = rng.multivariate_hypergeometric(pooled, int(p_counts.sum()), size=permutations).astype(np.float64)
    observed = float(summarise_counts(p_counts, q_counts)["frontier_integral"])
    others = np.asarray(summarise_counts(drawn, pooled - drawn)["frontier_integral"])
    return float((1 + np.count_nonzero(others >= observed * (1 - 1e-12))) / (permutations + 1))
