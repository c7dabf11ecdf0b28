"""How sure a score is: intervals, tests and resampling, all from the bins of the samples, never from features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.inference._calibration import NAMES, Estimate, Influence, correlation, estimate, influence
from mallow.theory import Array, Divergence, Partition

__all__ = [
    "NORMAL",
    "Evidence",
    "PairDifference",
    "evidence",
    "holm",
    "interval",
    "pair_difference",
    "permutation_p_value",
    "resampled",
    "resampled_counts",
]

_CERTAIN = 1.0  # an integral below so many of its standard errors gets no interval
NORMAL = 1.959963984540054  # of 95 %

Labels = NDArray[np.int64]
Summaries = dict[str, float | Array]
OfCounts = Callable[[Array, Array], Summaries]  # counts (..., bins) of both sides → summaries


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the bins of one system say about its summaries: an estimate freed of bias, and what each sample adds to it.

    `shift` moves the estimate from the first partition to the mean of all; `seed_error` is what the choice of seeds
    leaves uncertain in that mean.
    """

    estimate: Estimate
    influence: Influence
    shift: Array
    seed_error: Array

    @property
    def score(self) -> dict[str, float]:
        """Each summary, freed of most of its bias."""
        moved = self.estimate.score + self.shift
        limits = [(0.0, 1.0), (0.0, np.inf), (0.0, np.inf)]
        return {name: float(np.clip(v, *ends)) for name, v, ends in zip(NAMES, moved, limits, strict=True)}


def evidence(
    partitions: Sequence[Partition],
    values: Mapping[str, Sequence[float]],
    *,
    divergence: Divergence,
    scale: float,
    rng: np.random.Generator,
) -> Evidence:
    """The evidence of a system's partitions, in which its summaries were `values`."""
    first = partitions[0]
    found = estimate(first.p_counts, first.q_counts, rng=rng, divergence=divergence, scale=scale)
    seen = np.array([values[name] for name in NAMES])  # (3, repeats)
    spread = seen.std(axis=1, ddof=1) / math.sqrt(seen.shape[1]) if seen.shape[1] > 1 else np.zeros(len(NAMES))
    return Evidence(found, influence(first, divergence, scale), seen.mean(axis=1) - seen[:, 0], spread)


def interval(found: Evidence) -> dict[str, tuple[float, float] | None]:
    """A 95 % interval of each summary's population value; None for all where the system is too near to tell.

    Very near identity the score is at the end of its range and its error has no known shape.
    """
    one = found.estimate
    ends = _ends(found, NORMAL, 1.0)
    if one.value[1] + found.shift[1] < _CERTAIN * one.error[1] or ends[0][0] >= 1.0:
        return dict.fromkeys(NAMES)
    most = np.array([1.0, np.inf, np.inf])
    pairs = zip(*(np.clip(end, 0.0, most) for end in ends), strict=True)
    return {name: (float(x), float(y)) for name, (x, y) in zip(NAMES, pairs, strict=True)}


def _ends(found: Evidence, z: Array | float, factor: Array | float) -> tuple[Array, Array]:
    """Both ends at z standard errors, around the mean of all partitions; the noise of the seeds widens both arms."""
    centre = found.estimate.score
    low, high = found.estimate.ends(z, factor)
    seeds = z * found.seed_error
    return (
        centre - np.hypot(centre - low, seeds) + found.shift,
        centre + np.hypot(high - centre, seeds) + found.shift,
    )


@dataclass(frozen=True)
class PairDifference:
    """First minus second: value, interval and two-sided p-value of each summary."""

    value: dict[str, float]
    interval: dict[str, tuple[float, float]]
    p_value: dict[str, float]


def pair_difference(first: Evidence, second: Evidence, *, paired: bool) -> PairDifference:
    """The difference of two systems' scores against the same reference.

    The interval joins those of the two scores, which need not be symmetric (the method of variance estimates recovery);
    the p-value is that of the widest interval that leaves 0 out, so that both always agree.

    `paired`: sample i of the reference and of both systems belong together.
    """
    shared, factor_a, factor_b = correlation(first.influence, second.influence, paired)
    centre_a, centre_b = first.estimate.score + first.shift, second.estimate.score + second.shift
    value = centre_a - centre_b

    def ends(z: Array | float) -> tuple[Array, Array]:
        (low_a, high_a), (low_b, high_b) = _ends(first, z, factor_a), _ends(second, z, factor_b)
        down = _joined(centre_a - low_a, high_b - centre_b, shared)
        return value - down, value + _joined(high_a - centre_a, centre_b - low_b, shared)

    small, large = np.zeros(len(NAMES)), np.full(len(NAMES), 40.0)
    for _ in range(50):
        z = (small + large) / 2.0
        low, high = ends(z)
        out = (low > 0) | (high < 0)
        small, large = np.where(out, z, small), np.where(out, large, z)
    low, high = ends(NORMAL)
    return PairDifference(
        value={name: float(v) for name, v in zip(NAMES, value, strict=True)},
        interval={name: (float(x), float(y)) for name, x, y in zip(NAMES, low, high, strict=True)},
        p_value={name: math.erfc(float(x) / math.sqrt(2.0)) for name, x in zip(NAMES, small, strict=True)},
    )


def _joined(x: Array, y: Array, shared: Array) -> Array:
    found: Array = np.sqrt(np.maximum(x**2 + y**2 - 2.0 * shared * x * y, 0.0))
    return found


def resampled_counts(labels: Labels, bins: int, index: NDArray[np.integer]) -> Array:
    """The histogram of each resample, (resamples, bins), of samples whose bins are `labels`.

    `index` (resamples, n) says which samples a resample holds; the same index for paired samples keeps pairs together.
    """
    rows = labels[index] + bins * np.arange(len(index))[:, None]
    return np.bincount(rows.ravel(), minlength=bins * len(index)).reshape(len(index), bins).astype(np.float64)


def resampled(
    partitions: Mapping[str, Sequence[Partition]],
    of_counts: OfCounts,
    *,
    resamples: int = 1000,
    rng: int | np.random.Generator = 0,
) -> dict[str, Summaries]:
    """Every system's summaries in the same bootstrap resamples of the samples, (resamples,) each.

    Where all systems have as many samples as the reference, sample i of each belongs together and is drawn together;
    otherwise each side is drawn on its own. With several partitions of a system the resamples are shared out among
    them, and each is centred on its own mean: the spread is that of sampling, not of clustering.
    """
    whole("resamples", resamples, least=2)
    rng = np.random.default_rng(rng)
    sizes = {len(part.q_labels) for parts in partitions.values() for part in parts}
    n = len(next(iter(partitions.values()))[0].p_labels)
    paired = sizes == {n}
    reference = rng.integers(n, size=(resamples, n))
    found: dict[str, Summaries] = {}
    for name, parts in partitions.items():
        m = len(parts[0].q_labels)
        model = reference if paired else rng.integers(m, size=(resamples, m))
        pieces = []
        for part, rows in zip(parts, np.array_split(np.arange(resamples), len(parts)), strict=True):
            if len(rows):
                counts_p = resampled_counts(part.p_labels, part.bins, reference[rows])
                pieces.append(of_counts(counts_p, resampled_counts(part.q_labels, part.bins, model[rows])))
        found[name] = {key: _centred([np.asarray(piece[key]) for piece in pieces]) for key in pieces[0]}
    return found


def _centred(pieces: list[Array]) -> Array:
    """Joined, each piece moved so that its mean is that of all."""
    mean = float(np.mean(np.concatenate(pieces)))
    return np.concatenate([piece - piece.mean() + mean for piece in pieces])


def permutation_p_value(
    partition: Partition, of_counts: OfCounts, *, permutations: int = 999, rng: int | np.random.Generator = 0
) -> float:
    """The chance, were reference and model one distribution, of an integral summary as large as the one seen.

    Exact: the partition depends on the pooled samples alone, so that exchanging their sides leaves it as it is.
    """
    whole("permutations", permutations, least=1)
    rng = np.random.default_rng(rng)
    p_counts, q_counts = partition.p_counts, partition.q_counts
    pooled = (p_counts + q_counts).astype(np.int64)
    drawn = rng.multivariate_hypergeometric(pooled, int(p_counts.sum()), size=permutations).astype(np.float64)
    seen = float(of_counts(p_counts, q_counts)["frontier_integral"])
    others = np.asarray(of_counts(drawn, pooled - drawn)["frontier_integral"])
    return float((1 + np.count_nonzero(others >= seen * (1 - 1e-12))) / (permutations + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: they keep the chance of any false alarm below the level.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise InputError(f"`p_values` must lie between 0 and 1; got {list(p_values)}.")
    found = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        found[place] = largest
    return found
