"""What an estimate gives reason to doubt: crowded bins, few directions, lengths that are ignored, a gap that it does not see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.caveats import ignores_lengths
from mallow.errors import Caveat
from mallow.estimate import Reduction
from mallow.evaluate._caveats import bin_caveats
from mallow.evidence import Measure
from mallow.results import at_most
from mallow.samples import Samples
from mallow.theory import Array, Masses, Partition
from mallow.theory.smoothing import krichevsky_trofimov

_DIRECTIONS = 2  # how many directions may not hold nearly everything
_DIRECTION_SHARE = 0.8  # of the variance; measured: at most 0.53 in real text (GloVe) and 0.31 in digits
_LEAST_WIDTH = 16  # chosen: features as narrow as this may well lie along one or two directions
_HIDDEN_GAP = 0.1  # chosen: how far lengths alone must be below the score. Halves of real text: lengths above the score
_STANDARD_ERRORS = 4.0  # chosen, as in `mallow.caveats`
_MOST_LENGTH_BINS = 10  # on each side of the middle
_SAMPLES_PER_LENGTH_BIN = 100  # chosen: a fifth of the bins that the score itself has per sample
_LEAST_LENGTH_RATIO = 0.05  # of the logarithm; chosen: lengths that differ by less are counted as equal
_SAME_AS_ITSELF = 0.02  # chosen: how far below the self-score a score still is as good as a perfect one
_ROWS = 1024  # converted to double precision together; chosen: they stay in the cache
_SIGNIFICANT = 0.01  # chosen: a caveat needs more than the usual 5 %


def check_estimate(
    measure: Measure,
    reference: Samples,
    model: Samples,
    *,
    reduction: Reduction | None,
    partition: Partition | None,
    mauve: float,
) -> list[Caveat]:
    """Caveats about one estimate of a score: its bins, its directions, and the lengths of rows that it ignores.

    Parameters
    ----------
    reference, model : Samples
        With features.
    reduction : Reduction or None
        The axes that the estimator works on.
    partition : Partition or None
        The bins of one repeat; None for estimators without bins.
    mauve : float
        The score.
    """
    return [
        *bin_caveats(partition),
        *_direction_caveats(reduction),
        *_normalisation_caveats(measure, reference, model, mauve),
    ]


def blindness_caveats(mauve: float, self_score: float, p_value: float, limit: float) -> list[Caveat]:
    """A caveat if the published score sees nothing of a gap that the held-out evidence shows.

    Parameters
    ----------
    mauve, self_score : float
        The score, and that of the reference against itself.
    p_value : float
        Of the test that there is no gap.
    limit : float
        The certified upper limit of MAUVE.
    """
    if p_value > _SIGNIFICANT or mauve < self_score - _SAME_AS_ITSELF or limit > mauve - _HIDDEN_GAP:
        return []
    text = (
        f"the published score does not see the gap: {mauve:.3f} is about what a perfect model gets ({self_score:.3f}), but the held-out "
        f"evidence shows that MAUVE is at most {at_most(limit, 3)}. Judge by the evidence; an embedder that knows more about such "
        "samples, or more of them in more bins, may show the gap in the score too."
    )
    values = {"mauve": mauve, "self_score": self_score, "p_value": p_value, "limit": limit}
    return [Caveat("blind score", text, values=values)]


def _direction_caveats(reduction: Reduction | None) -> Iterator[Caveat]:
    """A caveat if one or two directions hold nearly all variance that the bins are made from."""
    if reduction is None or reduction.axes.shape[1] < _LEAST_WIDTH or reduction.variances[0] <= 0:
        return
    width, total = reduction.axes.shape[1], float(reduction.variances.sum()) / reduction.explained
    shares = np.cumsum(reduction.variances[:_DIRECTIONS]) / total
    enough = np.flatnonzero(shares >= _DIRECTION_SHARE)
    if len(enough):
        count, share = int(enough[0]) + 1, float(shares[enough[0]])
        directions = "1 direction" if count == 1 else f"{count} directions"
        yield Caveat(
            "few directions",
            f"{directions} of {width} hold{'s' if count == 1 else ''} {share:.0%} of the variance of the features, and the bins "
            "see little else. Standardise the columns of all samples together, or use another embedder, layer or pooling.",
            values={"directions": count, "share": share, "width": width},
        )


def _normalisation_caveats(measure: Measure, reference: Samples, model: Samples, mauve: float) -> Iterator[Caveat]:
    """A caveat if rows are scaled to length 1 and that hides a gap.

    MAUVE of any function of the samples is at least MAUVE of the samples (the data-processing inequality). Where the
    lengths of the rows alone score lower than the directions do, the score misses what the lengths show.
    """
    if not ignores_lengths(measure):
        return
    x, y = reference.require_features(), model.require_features()
    remedy = "pass measure=Measure(Quantize(reduce=Reduce(normalise=False)))"
    if x.shape[1] == 1:
        yield Caveat(
            "length normalisation",
            f"the features have width 1, and the measure scales every row to length 1, so that only signs are left: {remedy}.",
            values={"width": 1},
        )
        return
    lengths = _row_lengths(x), _row_lengths(y)
    p_counts, q_counts = _count_lengths(*lengths, independent=min(_independent(reference), _independent(model)))
    independent = _independent(reference) / len(reference), _independent(model) / len(model)
    if not _counts_differ(independent[0] * p_counts, independent[1] * q_counts):
        return
    masses = Masses.from_histograms(krichevsky_trofimov(p_counts), krichevsky_trofimov(q_counts))
    alone = float(measure.summarise(masses)["mauve"])
    if alone < mauve - _HIDDEN_GAP:
        own, other = float(np.median(lengths[1])), float(np.median(lengths[0]))
        yield Caveat(
            "length normalisation",
            f"the measure scales every row to length 1, and that hides a gap: by the lengths of the rows alone (median {own:.4g}, "
            f"reference: {other:.4g}) the score would be {alone:.3f}, not {mauve:.3f}. If the lengths mean something, {remedy}; "
            "certificate and p-value use the rows as they are.",
            values={"length": own, "length_reference": other, "mauve_of_lengths": alone, "mauve": mauve},
        )


def _independent(samples: Samples) -> int:
    labels = samples.unit_names
    return len(samples) if labels is None else len(set(labels))


def _row_lengths(features: NDArray[Any]) -> Array:
    """The Euclidean length of every row."""
    parts = []
    for low in range(0, len(features), _ROWS):
        block = features[low : low + _ROWS].astype(np.float64)
        largest = max(float(block.max()), -float(block.min())) or 1.0  # squares must neither overflow nor vanish
        block /= largest
        parts.append(largest * np.sqrt(np.einsum("ij,ij->i", block, block)))
    return np.concatenate(parts)


def _count_lengths(x: Array, y: Array, *, independent: int) -> tuple[Array, Array]:
    """Histograms of the logarithms of lengths: more bins for more samples, around the pooled median."""
    half = min(max(independent // _SAMPLES_PER_LENGTH_BIN, 1), _MOST_LENGTH_BINS)
    pooled = np.concatenate([x, y])
    positive = pooled[pooled > 0]
    floor = max(float(positive.min()) * 1e-3, np.finfo(np.float64).tiny) if len(positive) else 1.0
    logs = np.log(np.maximum(pooled, floor))  # rows of zeros are far below the others
    low, middle, high = np.quantile(logs, (0.05, 0.5, 0.95))
    step = max(float(high - low) / (2 * half), _LEAST_LENGTH_RATIO)
    places = np.clip(np.rint((logs - middle) / step), -half, half).astype(np.int64) + half
    p, q = (np.bincount(part, minlength=2 * half + 1).astype(np.float64) for part in np.split(places, [len(x)]))
    return p, q


def _counts_differ(p: Array, q: Array) -> bool:
    """Whether two histograms differ beyond chance: the chi-squared statistic against its mean and standard deviation."""
    seen = (p + q) > 0
    p, q = p[seen], q[seen]
    ratio = math.sqrt(q.sum() / p.sum())
    statistic, freedom = float(np.sum((ratio * p - q / ratio) ** 2 / (p + q))), len(p) - 1
    return statistic > freedom + _STANDARD_ERRORS * math.sqrt(2.0 * freedom)
