"""A score that follows a model while it trains: the bins are fixed once, and every batch only adds to their counts."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.embed import AnyEmbedder, JointEmbedder, features, name_of, named
from mallow.engine import single_threaded_blas
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Codebook, Quantize, checked_features
from mallow.evaluate._score import (
    MAUVE_STAR,
    SUMMARIES,
    Measure,
    Score,
    assembled,
    collected_doubts,
    described,
    evidence_of,
    generator,
)
from mallow.samples import read
from mallow.theory import Array, Partition
from mallow.theory.smoothing import krichevsky_trofimov

__all__ = ["Monitor"]

_FITTING = 0.25  # of the reference rows; the others are counted
_FEWEST = 20  # reference rows
_DRAWS = 20  # of the noise floor
_BLOCK = 64  # rows of one matrix product. Its shape decides last bits, hence labels: it is never another.

Counts = NDArray[np.int64]


class Monitor:
    """The score of all samples of a model seen so far, for a training loop: `update` costs what its batch costs.

    A quarter of the reference, drawn at random, fits the bins; the other three quarters are counted in them, once. From
    then on the bins stay as they are: a batch is embedded, each sample falls into a bin, and the samples themselves are
    forgotten.

    The value is not that of `mallow.score`, which clusters both samples anew each time: follow one monitor's values,
    compare them with their own noise floor, and quote `score`. Bins that were fitted on real data alone are coarse
    where a model writes what nobody writes, so that strange samples cost less. For 990 continuations of 1,000 WebText
    prompts (GloVe, 75 bins) frozen and joint bins gave 0.86 and 0.82 for beam search, 0.91 and 0.82 for greedy
    decoding, 0.97 and 0.98 for contrastive search, 0.98 and 0.99 for nucleus sampling; for Gaussians in 64 dimensions a
    standard deviation apart along the first (n = 5,000), 0.69 and 0.66. To see what a model invents, fit a codebook on
    real data together with samples of an early model, ``Quantize(bins=500).fit(real, early)``, and pass
    ``Measure(Quantize(codebook=…))`` with other real data.

    The reference samples that fit the bins are not counted, since k-means evens their counts out: with them, a perfect
    model scored 0.962 over a noise floor of 0.944, behind which a small gap hides; without them 0.937 over 0.937 (means
    of 8, 2,000 and 1,000 samples, 200 bins). A quarter is enough to fit: half left fewer to count and a larger error.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data, at least 20 samples and better thousands; embedded once.
    embedder : Embedder, callable, name or None
        As in `mallow.score`. Its rows must not depend on the other samples: string kernels are refused. Batches are
        not cached, since a model in training never writes the same again.
    measure : Measure
        Its estimator must be `Quantize`. ``bins="auto"``: a tenth of the counted reference samples. A measure with a
        `Codebook` keeps that, and counts the whole reference: fit it on other data.
    rng : int
        Seed of the split, of the clustering, and of intervals and noise floor.

    Attributes
    ----------
    measure : Measure
        With the fitted codebook.
    reference_counts, counts : int array (bins,)
        How many samples of the reference and of the model fell into each bin.

    Notes
    -----
    A monitor pickles if its embedder does. For several workers make one, give each a copy (`copy.deepcopy`, or pickle),
    and `merge` them: the result is bit-equal to one pass over the same features, in any order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(rng.normal(size=(2000, 4)), measure=Measure(Quantize(bins=50)))
    >>> for step in range(10):
    ...     monitor.update(rng.normal(0.5, 1.0, size=(100, 4)))
    >>> found = monitor.compute()
    >>> found.n, found.mauve < found.noise_floor["mauve"]
    ((1500, 1000), True)
    """

    def __init__(
        self,
        reference: object,
        *,
        embedder: AnyEmbedder | str | None = None,
        measure: Measure = MAUVE_STAR,
        rng: int = 0,
    ) -> None:
        if not isinstance(measure.estimator, Quantize) or measure.estimator.codebook == "shared":
            raise InputError(
                f"`measure` must have Quantize as its estimator, with no shared codebook; got {measure.estimator!r}."
            )
        self._rng = whole("rng", rng, least=0)
        reference, self._embedder = _resolved(reference, embedder)
        rows, self._how = self._features("reference", reference)
        if len(rows) < _FEWEST:
            raise InputError(f"`reference` must hold at least {_FEWEST} samples, better thousands; got {len(rows)}.")
        self._codebook, counted = _fitted(rows, measure.estimator, self._rng)
        self._estimator = replace(measure.estimator, codebook=self._codebook)
        self.measure = replace(measure, estimator=self._estimator)
        self._about = described(self._how, rows)
        self.reference_counts = _counted(self._codebook, counted)
        self.counts = np.zeros_like(self.reference_counts)

    def __repr__(self) -> str:
        n, m = self.n
        return f"Monitor(bins={len(self.counts)}, reference={n}, model={m})"

    @property
    def n(self) -> tuple[int, int]:
        """Samples counted so far, of the reference and of the model."""
        return int(self.reference_counts.sum()), int(self.counts.sum())

    def update(self, batch: object) -> None:
        """Count more samples of the model, one or many, of the reference's kind."""
        rows, how = self._features("batch", batch)
        if how is not None and self._how is not None and how != self._how:
            raise InputError(f"`batch` must be embedded as the reference was, by {self._how}; got features by {how}.")
        self.counts = self.counts + _counted(self._codebook, rows)

    def compute(self) -> Score:
        """The score of all samples since the last reset, with interval and noise floor; it changes nothing.

        `Score.n` says how many were counted. `Score.std` is 0, since there is one partition; `Score.masses` has no
        partition, since samples are not kept. The time grows with the bins, not with the samples; most of it goes into
        the interval.
        """
        n, m = self.n
        if m == 0:
            raise InputError(
                "`compute` needs samples of the model; there are none since the start or the last reset. "
                "Call update(batch) first."
            )
        with collected_doubts() as doubts:
            bins, centres = np.arange(len(self.counts)), self._codebook.centres
            partition = Partition(np.repeat(bins, self.reference_counts), np.repeat(bins, self.counts), centres)
            run = self._estimator.count(partition)
            found = evidence_of(self.measure, [run], self._rng)
            about = f"{self._about}, codebook {self.key[:12]}"
            result = assembled(self.measure, [run], found, self._noise_floor(), (n, m), about, self._rng)
        for text in doubts:
            warnings.warn(text, EstimateWarning, stacklevel=2)
        return replace(result, masses=replace(run, partition=None), warnings=tuple(doubts))

    def reset(self) -> None:
        """Forget the model's samples; bins and reference stay."""
        self.counts = np.zeros_like(self.counts)

    def merge(self, other: Monitor) -> Monitor:
        """Add what another copy of this monitor has counted; returns this one. The other stays as it is."""
        if not isinstance(other, Monitor) or other is self:
            raise InputError(
                f"`other` must be another Monitor; got {'the same one' if other is self else repr(other)[:60]}."
            )
        if other.key != self.key:
            raise InputError(
                "`other` must have the same reference, bins, measure and embedder: make one Monitor, and give each worker a "
                "copy of it (copy.deepcopy, or pickle)."
            )
        self.counts = self.counts + other.counts
        return self

    @property
    def key(self) -> str:
        """Stands for codebook, reference counts, measure and embedder: equal for monitors that can be merged."""
        book = self._codebook
        total = hashlib.sha256(repr((self.measure, self._about, book.normalise, book.exponent)).encode())
        for part in (book.centres, book.axes, book.mean, self.reference_counts):
            if part is not None:
                total.update(repr((part.shape, part.dtype.str)).encode() + np.ascontiguousarray(part).tobytes())
        return total.hexdigest()

    def _features(self, name: str, source: object) -> tuple[NDArray[Any], str | None]:
        """The features of samples, and what made them where that is known."""
        if self._embedder is None:
            found = read(source)
            if found.kind != "features":
                raise InputError(f"`{name}` must hold features, as the reference does; got {found.kind} samples.")
        elif name == "reference":
            found = features(source, self._embedder)
        else:
            found = features(source, self._embedder, cache=None, progress=False)
        rows, how = found.features, (found.provenance or {}).get("embedder")
        doubled = (
            np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows
        )  # one sample is a batch, but no sample to estimate from
        return checked_features(name, doubled)[: len(rows)], None if how is None else str(how)

    def _noise_floor(self) -> dict[str, float]:
        """What the reference would score against itself with as many samples: both sides drawn from its histogram."""
        n, m = self.n
        rng, share = generator(self._rng, "noise floor"), krichevsky_trofimov(self.reference_counts)
        p, q = (rng.multinomial(size, share, size=_DRAWS).astype(np.float64) for size in (n, m))
        found = self.measure.of_counts(p, q)
        return {name: float(np.mean(found[name])) for name in SUMMARIES}


def _resolved(reference: object, embedder: AnyEmbedder | str | None) -> tuple[object, AnyEmbedder | None]:
    """The reference, and the embedder itself: None for features."""
    if embedder is None or isinstance(embedder, str):
        reference = read(reference)
        embedder = None if embedder is None and reference.kind == "features" else named(embedder, kind=reference.kind)
    if isinstance(embedder, JointEmbedder):
        raise InputError(
            f"`embedder` must embed each sample by itself; {name_of(embedder)} embeds all at once. Take another, such as "
            "'minilm'."
        )
    return reference, embedder


def _fitted(rows: NDArray[Any], estimator: Quantize, rng: int) -> tuple[Codebook, NDArray[Any]]:
    """The bins, and the rows that are to be counted in them."""
    if isinstance(estimator.codebook, Codebook):
        return estimator.codebook, rows
    fitting = round(_FITTING * len(rows))
    order = generator(rng, "split of the reference").permutation(len(rows))
    bins = max(2, (len(rows) - fitting) // 10) if estimator.bins == "auto" else estimator.bins
    if bins > fitting:
        raise InputError(
            f"`bins` must be at most the {fitting} of {len(rows)} reference samples that fit the codebook; got {bins}. Pass "
            "bins='auto' or a larger reference."
        )
    found = replace(estimator, bins=bins).fit(rows[order[:fitting]], rng=generator(rng, "clustering"))
    return found, rows[order[fitting:]]


def _counted(codebook: Codebook, rows: NDArray[Any]) -> Counts:
    """How many rows fall into each bin; the bin of a row does not depend on the rows beside it.

    A matrix product may round a row differently in products of different shapes. `Codebook.labels` has one shape for
    many rows and another for few, so that a row half-way between two centres could change its bin with the batch.
    """
    origin = codebook.centres.mean(axis=0, dtype=np.float64)
    centres = codebook.centres - origin
    exponent = -int(np.frexp(np.abs(centres).max())[1])  # squares must not overflow
    centres = np.ldexp(centres, exponent)
    half = (centres**2).sum(axis=1) / 2.0
    counts = np.zeros(len(centres), np.int64)
    block = np.zeros((_BLOCK, rows.shape[1]), rows.dtype)
    with single_threaded_blas():
        for low in range(0, len(rows), _BLOCK):
            part = rows[low : low + _BLOCK]
            block[: len(part)] = part
            points: Array = np.ldexp(codebook.reduce(block).astype(np.float64) - origin, exponent)
            nearest = (points @ centres.T - half).argmax(axis=1)[: len(part)]
            counts += np.bincount(nearest, minlength=len(counts))
    return counts
