"""Caveats about an estimate and its evidence.

Samples on which no measure has a meaning are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.caveats._counts import STANDARD_ERRORS, count_independent
from mallow.errors import Caveat, InputError
from mallow.estimate import Codebook, Quantize, Reduction, automatic_bins, published_bins
from mallow.evidence import Evidence, Measure
from mallow.results import at_most
from mallow.samples import Samples
from mallow.theory import Array, Masses, Partition
from mallow.theory.smoothing import krichevsky_trofimov

_SAME_DIRECTION = 1e-6  # by which entries of rows of length 1 may differ and still be equal; chosen: float32 rounds
_ROWS_AT_ONCE = 256  # chosen: rows at once. The first few nearly always show that rows differ
_REMEDY = "Pass `measure=Measure(Quantize(reduce=Reduce(normalise=False)))`, which leaves the rows as they are."
_DIRECTIONS = 2  # this many directions must not hold nearly all variance
_DIRECTION_SHARE = 0.8  # of the variance; measured: at most 0.53 in real text (GloVe) and 0.31 in digits
_LEAST_WIDTH = 16  # chosen: features as narrow as this may well lie along one or two directions
_HIDDEN_GAP = (
    0.1  # chosen: how far only the lengths must be below the score. Halves of real text: lengths above the score
)
_MOST_LENGTH_BINS = 10  # on each side of the middle
_SAMPLES_PER_LENGTH_BIN = 100  # chosen: a fifth of the bins that the score itself has per sample
_LEAST_LENGTH_RATIO = 0.05  # of the logarithm; chosen: lengths that differ by less are counted as equal
_SAME_AS_ITSELF = 0.02  # chosen: a score this far below the self-score still counts as perfect
_ROWS = 1024  # converted to double precision together; chosen: they stay in the cache
_SIGNIFICANT = 0.01  # chosen: a caveat needs more than the usual 5%
_EMPTY_BINS = 0.2  # share of bins with samples of one side only; chosen: random halves of real text stay well below
_BINS_PER_SAMPLE = 0.2  # chosen: twice the published n/10
# A bin that holds more than both of these is not due to chance. Measured, 10 to 100 bins: at most 3.6/bins in real
# text (MiniLM, GloVe) and digits, 0.15 in Gaussian noise of width 1,000; 0.5 to 1 where an embedder collapses.
_LARGEST_BIN = 0.3  # share of each side
_LARGEST_BIN_RATIO = 5.0  # times 1/bins
_FEW_UNITS = 20  # chosen: with fewer units, errors of means over them are little more than guesses


def refuse_without_answer(measure: Measure, sides: Iterable[NDArray[Any]]) -> None:
    """Raise an InputError if all rows of all sides are the same, or would be once they are scaled to length 1.

    `sides` are the features of the reference and of every system, all of one width.
    """
    rows = list(sides)
    total = sum(map(len, rows))
    first = rows[0][0]
    if any(side.shape[1] != len(first) for side in rows):  # a separate error
        return
    if all(
        (side[low : low + _ROWS_AT_ONCE] == first).all() for side in rows for low in range(0, len(side), _ROWS_AT_ONCE)
    ):
        raise InputError(
            f"all {total} rows of features are the same, so that nothing can be said about the samples: any score "
            "would be 1, whatever they contain. Use a different embedder, or check how the features were made."
        )
    if not ignores_lengths(measure):
        return
    if len(first) == 1:
        raise InputError(
            "the features have width 1, and the measure scales every row to length 1, so that only their signs would "
            f"be compared. {_REMEDY}"
        )
    if _one_direction(rows):
        raise InputError(
            f"all {total} rows of features point in one direction and differ in length only, and the measure scales "
            f"every row to length 1, so that nothing would be left to compare. {_REMEDY}"
        )


def ignores_lengths(measure: Measure) -> bool:
    """Whether the measure scales every row to length 1."""
    estimator = measure.estimator
    if not isinstance(estimator, Quantize):
        return False
    if isinstance(estimator.codebook, Codebook):
        return estimator.codebook.projection is not None and estimator.codebook.projection.normalise
    return estimator.reduce is not None and estimator.reduce.normalise


def _one_direction(sides: list[NDArray[Any]]) -> bool:
    reference: NDArray[np.float64] | None = None
    for side in sides:
        for low in range(0, len(side), _ROWS_AT_ONCE):
            block = side[low : low + _ROWS_AT_ONCE].astype(np.float64)
            largest = np.abs(block).max(axis=1, keepdims=True)
            if not largest.all():  # a row of zeros has no direction, so it differs from the others
                return False
            block /= largest  # squares must neither overflow nor vanish
            block /= np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
            reference = block[0] if reference is None else reference
            if np.abs(block - reference).max() > _SAME_DIRECTION:
                return False
    return True


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

    The samples have features. The partition is from one repeat, and None for estimators without bins.
    """
    return [
        *bin_caveats(partition),
        *_automatic_bins_caveats(measure, partition),
        *_direction_caveats(reduction),
        *_normalisation_caveats(measure, reference, model, mauve),
    ]


def blindness_caveats(mauve: float, self_score: float, p_value: float, limit: float) -> list[Caveat]:
    """A caveat if the published score does not show a gap that evidence proves: by its p-value and limit of MAUVE."""
    if p_value > _SIGNIFICANT or mauve < self_score - _SAME_AS_ITSELF or limit > mauve - _HIDDEN_GAP:
        return []
    text = (
        f"the published score does not see the gap: {mauve:.3f} is about what a perfect model gets "
        f"({self_score:.3f}), but the held-out evidence shows that MAUVE is at most {at_most(limit)}. Judge by the "
        "evidence. An embedder that knows more about such samples, or more of them in more bins, may show the gap in "
        "the score too."
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
            f"{directions} of {width} hold{'s' if count == 1 else ''} {share:.0%} of the variance of the features, "
            "and the bins see little else. Standardise the columns of all samples together, or use a different "
            "embedder, layer or pooling.",
            values={"directions": count, "share": share, "width": width},
        )


def _normalisation_caveats(measure: Measure, reference: Samples, model: Samples, mauve: float) -> Iterator[Caveat]:
    """A caveat if rows are scaled to length 1 and that hides a gap.

    MAUVE of any function of the samples is at least MAUVE of the samples (the data-processing inequality). If the
    lengths of the rows score lower than the directions, the score misses a difference in the lengths.
    """
    if not ignores_lengths(measure):
        return
    x, y = reference.require_features(), model.require_features()
    remedy = "pass `measure=Measure(Quantize(reduce=Reduce(normalise=False)))`"
    if x.shape[1] == 1:
        yield Caveat(
            "length normalisation",
            (
                "the features have width 1, and the measure scales every row to length 1, so that only signs are left: "
                f"{remedy}."
            ),
            values={"width": 1},
        )
        return
    lengths = _row_lengths(x), _row_lengths(y)
    p_counts, q_counts = _count_lengths(
        *lengths, independent=min(count_independent(reference), count_independent(model))
    )
    independent = count_independent(reference) / len(reference), count_independent(model) / len(model)
    if not _counts_differ(independent[0] * p_counts, independent[1] * q_counts):
        return
    masses = Masses.from_histograms(krichevsky_trofimov(p_counts), krichevsky_trofimov(q_counts))
    alone = float(measure.summarise(masses)["mauve"])
    if alone < mauve - _HIDDEN_GAP:
        length, length_reference = float(np.median(lengths[1])), float(np.median(lengths[0]))
        yield Caveat(
            "length normalisation",
            "the measure scales every row to length 1, and that hides a gap: judged only by the lengths of the rows "
            f"(median {length:.4g}, reference: {length_reference:.4g}) the score would be {alone:.3f}, not "
            f"{mauve:.3f}. If the lengths mean something, {remedy}; certificate and p-value use the rows as they are.",
            values={"length": length, "length_reference": length_reference, "mauve_of_lengths": alone, "mauve": mauve},
        )


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
    """Whether two histograms differ beyond chance.

    The chi-squared statistic against its mean and standard deviation.
    """
    occupied = (p + q) > 0
    p, q = p[occupied], q[occupied]
    ratio = math.sqrt(q.sum() / p.sum())
    statistic, freedom = float(np.sum((ratio * p - q / ratio) ** 2 / (p + q))), len(p) - 1
    return statistic > freedom + STANDARD_ERRORS * math.sqrt(2.0 * freedom)


def bin_caveats(partition: Partition | None) -> list[Caveat]:
    """Caveats about bins: too many, with samples of one side only, or one that holds most samples."""
    if partition is None:
        return []
    p, q = partition.p_counts, partition.q_counts
    empty, smaller = float(np.mean((p == 0) != (q == 0))), int(min(p.sum(), q.sum()))
    caveats = []
    if empty > _EMPTY_BINS:
        text = (
            f"{empty:.0%} of the bins hold samples of one side only: the two are far apart, or there are too many bins."
        )
        caveats.append(Caveat("empty bins", text, values={"share": empty}))
    if partition.bins > _BINS_PER_SAMPLE * smaller:
        text = f"{partition.bins} bins are many for {smaller} samples: use fewer, or the default number."
        caveats.append(Caveat("many bins", text, values={"bins": partition.bins, "samples": smaller}))
    return [*caveats, *_largest_bin_caveats(partition)]


def _automatic_bins_caveats(measure: Measure, partition: Partition | None) -> Iterator[Caveat]:
    """A caveat if the automatic number of bins is not the published one: there are more than 5,000 samples."""
    estimator = measure.estimator
    if partition is None or not isinstance(estimator, Quantize) or estimator.bins != "auto":
        return
    size = min(len(partition.p_labels), len(partition.q_labels))
    bins, published = automatic_bins(size), published_bins(size)
    if bins == published or isinstance(estimator.codebook, Codebook):
        return
    yield Caveat(
        "automatic bins",
        f"the published score uses {bins:,} bins for {size:,} samples; mauve-text would use a tenth, {published:,}. "
        "Beyond 5,000 samples the automatic number grows with the cube root. Scores with different numbers of bins "
        f"cannot be compared. For the number of mauve-text, pass `Quantize(bins={published})` (--bins {published}).",
        values={"bins": bins, "samples": size, "published": published},
    )


def _largest_bin_caveats(partition: Partition) -> list[Caveat]:
    """A caveat if one bin holds most samples of both sides: a gap between the samples in it goes unnoticed."""
    p, q = partition.p_counts / len(partition.p_labels), partition.q_counts / len(partition.q_labels)
    largest = int(np.argmax(np.minimum(p, q)))
    share_p, share_q = float(p[largest]), float(q[largest])
    alone = partition.bins == 1
    if not alone and min(share_p, share_q) <= max(_LARGEST_BIN, _LARGEST_BIN_RATIO / partition.bins):
        return []
    text = (
        f"one of the {partition.bins} bins holds {share_p:.0%} of the reference samples and {share_q:.0%} of the "
        "model's, and differences within a bin do not count. Either most samples have nearly the same features, or "
        "outliers take up the other bins. Use a different embedder, or remove the outliers on both sides."
    )
    if alone:
        text = (
            "all samples fall into one bin, because all have the same features: the score is 1 whatever they contain. "
            "Use a different embedder."
        )
    return [Caveat("one bin", text, values={"share": share_q, "share_reference": share_p, "bins": partition.bins})]


def evidence_caveats(evidence: Evidence) -> Sequence[Caveat]:
    """Caveats about the evidence."""
    caveats = []
    count = len(set(evidence.reference_units.tolist()) | set(evidence.model_units.tolist()))
    if count < _FEW_UNITS:
        text = (
            f"only {count} independent units (samples that share an id or a prompt count as one): little can be "
            "certified. Use more prompts."
        )
        caveats.append(Caveat("few units", text, values={"units": count}))
    if evidence.test.permutations == 0:
        text = (
            "there is no p-value (it says 1): the samples of a side come in fewer than five groups, and the other side "
            "has none of their size. Give both sides the same prompts, or more prompts."
        )
        caveats.append(Caveat("no test", text))
    elif not evidence.test.exact:
        text = (
            "the groups of samples of both sides differ in size: the p-value holds, but it comes from a part of each "
            "large group. Give both sides the same prompts to use all."
        )
        caveats.append(Caveat("groups cut", text))
    return caveats
