"""Vector quantisation: k-means on both samples jointly, then histograms of the bins (paper: alg:mauve:quant)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.engine import cores
from mallow.errors import Caveat, InputError, warn_about
from mallow.estimate._device import Device, check_device_name, open_device
from mallow.estimate._features import Features, checked_features, estimate_masses, same_width
from mallow.estimate._kmeans import Clustering, lloyd
from mallow.estimate._nearest import Grid, nearest_centres
from mallow.estimate._pca import Projection, Reduction
from mallow.estimate._quantisers import Quantiser, occupied_bins
from mallow.estimate._reduce import Reduce, distinct_points, project_rows
from mallow.estimate._row_order import CanonicalOrder, canonical_order, choose_rows, hash_rows
from mallow.theory import Array, Masses, Partition, extrapolated
from mallow.theory.smoothing import krichevsky_trofimov

Labels = NDArray[np.int64]

_PUBLISHED = 5_000  # samples up to which the automatic number of bins is a tenth of them, as published
_MOST_BINS = 1_000  # chosen: reached at 40,000 samples; k-means takes minutes beyond
_ROWS_PER_BIN = 40  # chosen: rows that are clustered, for each bin, where both numbers are automatic
_SAMPLE = 1_000_000  # rows that are clustered at most; chosen: more rows change the bins less than a new seed does
Smoothing = Callable[[Any], Array] | Callable[[Any, Any], Masses]


@dataclass(frozen=True, eq=False)
class Codebook:
    """A partition of feature space, fitted once and reused: `Quantize.fit` makes it, `Quantize(codebook=…)` uses it.

    Attributes
    ----------
    centres : array (bins, d′)
        The centres, in the reduced space.
    projection : Projection or None
        How features are reduced. None if they were clustered without reduction.
    grid : Grid or None
        The grid on which points and centres are compared. None: the finest around the centres.
    """

    centres: Features
    projection: Projection | None = None
    grid: Grid | None = None

    def __repr__(self) -> str:
        return f"Codebook(bins={len(self.centres)})"

    def reduce(self, features: Any) -> Features:
        """Features in the space of the centres, (n, d′)."""
        rows = self._checked(features)
        return project_rows(self.projection, rows.dtype, rows)

    def labels(self, features: Any, *, device: str | None = None) -> Labels:
        """The bin of each row of features, given by its nearest centre, whatever the other rows are.

        It is the same on any `device` (see `Quantize`).
        """
        return label_rows(self, self._checked(features), device)

    def count(self, features: Any, *, device: str | None = None) -> Labels:
        """The number of rows of features in each bin, (bins,). Counts of the parts of a sample may be added."""
        return np.bincount(self.labels(features, device=device), minlength=len(self.centres))

    def _checked(self, features: Any) -> Features:
        rows = checked_features("features", features, least=1)
        _check_width(self, rows)
        return rows


def label_rows(codebook: Codebook, rows: Features, device: str | None = None) -> Labels:
    """The bin of each row of features that are known to be finite."""
    _check_width(codebook, rows)
    points = project_rows(codebook.projection, rows.dtype, rows)
    return nearest_centres(points, codebook.centres, codebook.grid, device=open_device(device))


def _check_width(codebook: Codebook, rows: Features) -> None:
    width = codebook.centres.shape[1] if codebook.projection is None else codebook.projection.axes.shape[1]
    if rows.shape[1] != width:
        raise InputError(
            f"`features` must be {width} wide, like those the codebook was fitted on; got {rows.shape[1]}."
        )


@dataclass(frozen=True, eq=False)
class Prepared:
    """Two samples, ready to be clustered once for each repeat."""

    points: Features  # the distinct rows, reduced, in an order that depends only on the rows. None with a codebook
    group: NDArray[np.int64]  # (n + m,) the distinct row of each sample, or its bin with a codebook
    times: NDArray[np.int64]  # how often each distinct row occurs
    n: int
    m: int
    reduction: Reduction | None
    clustered: NDArray[np.int64] | None = None  # the points that k-means uses; None: all
    clustered_times: NDArray[np.int64] | None = None  # how often each of them counts
    order: CanonicalOrder | None = None  # of these points, for k-means


def split_size(n: int, m: int) -> int:
    """The number of reference samples, out of n, that act as the reference when it is scored against itself."""
    if n < 4:
        raise InputError(f"`reference` must hold at least 4 samples to be measured against itself; got {n}.")
    return min(max(round(n * n / (n + m)), 2), n - 2)


@dataclass(frozen=True)
class Quantize:
    """Estimate masses by vector quantisation: k-means on both samples jointly, then smoothed histograms.

    For the same `rng`, the score is exactly symmetric in the two samples and does not depend on the order of their
    rows, because the rows are sorted into a canonical order before anything is drawn.

    Parameters
    ----------
    bins : int or "auto"
        The number of clusters k. "auto": a tenth of the smaller sample, at least 2, as published, up to 500 for 5,000.
        Beyond 5,000 it grows with the cube root of the sample, as the theory advises, to 1,000 at 40,000 samples
        (mauve-text keeps a tenth). More bins detect finer differences but have more plug-in bias, which falls like
        bins/n.
    smoothing : callable
        A function of `mallow.theory.smoothing` (counts → probabilities), or `mallow.theory.extrapolated`. Add-1/2 is
        the paper's default (the starred scores); `smoothing.empirical` is the original of 2021.
    reduce : Reduce or None
        Reduction before clustering; by default the published one. None: cluster the features as they are.
    restarts : int
        Runs of k-means, of which the one with the smallest objective is kept. Averaging over repeats helps more than
        restarts.
    max_iter : int
        The largest number of rounds of k-means. It stops by itself when no label changes: after about 20 rounds for
        10,000 points and 130 for 400,000, of which the rounds after 40 lower the objective by less than 0.1%, half of
        the change from a new seed.
    codebook : None, "shared" or Codebook
        None: a partition for each pair of samples. "shared": in `compare`, one partition of the reference and all
        systems together. A `Codebook` fitted earlier: no clustering at all.
    sample : int
        `score` and `compare` cluster at most this many rows, chosen by a hash of their values. All rows are then
        assigned to the bins. With fewer rows, all are clustered. With an automatic number of bins beyond 5,000 samples,
        at most 40 rows per bin are clustered.
    device : str or None
        Where points are compared with centres and summed. None or "cpu": on this processor. "cuda", "cuda:1", "mps" and
        "xpu" are devices of torch; "torch:cpu", "cupy:0" and "array_api_strict" name the package too. It only changes
        the speed: labels are exact and equal everywhere, so it is not part of the signature (docs/scale.md).
    method : Quantiser or None
        How points are divided into bins. None: k-means. `mallow.estimate` has others for comparison: `RandomCentres`,
        `Product`, `Residual`, `Lattice` and the oracle `LevelSets`. They have no codebook, and keep only the bins with
        points, at most `bins`.
    """

    bins: int | Literal["auto"] = "auto"
    smoothing: Smoothing = krichevsky_trofimov
    reduce: Reduce | None = field(default_factory=Reduce)
    restarts: int = 1
    max_iter: int = 40
    codebook: Codebook | Literal["shared"] | None = None
    sample: int = _SAMPLE
    device: str | None = field(default=None, compare=False)
    method: Quantiser | None = None

    scale: ClassVar[float] = 5.0

    def __post_init__(self) -> None:
        if isinstance(self.bins, str) and self.bins != "auto":
            raise InputError(f"`bins` must be a number or 'auto'; got {self.bins!r}.")
        if self.bins != "auto":
            whole("bins", self.bins, least=1)
        whole("restarts", self.restarts, least=1)
        whole("max_iter", self.max_iter, least=1)
        whole("sample", self.sample, least=2)
        if not callable(self.smoothing):
            raise InputError(f"`smoothing` must be a function, as in mallow.theory.smoothing; got {self.smoothing!r}.")
        if not (self.codebook is None or self.codebook == "shared" or isinstance(self.codebook, Codebook)):
            raise InputError(f"`codebook` must be None, 'shared' or a Codebook; got {self.codebook!r}.")
        if self.device is not None:
            check_device_name(self.device)
        if self.method is not None and not hasattr(self.method, "fit"):
            raise InputError(f"`method` must be None or a quantiser such as Product(); got {self.method!r}.")
        if self.method is not None and self.codebook is not None:
            raise InputError("`codebook` needs the centres of k-means: leave out `method`, or pass no codebook.")

    def __repr__(self) -> str:
        name = getattr(self.smoothing, "__name__", repr(self.smoothing))
        parts = [f"bins={self.bins}", f"smoothing={name}", f"reduce={self.reduce}"]
        if self.restarts != 1:
            parts.append(f"restarts={self.restarts}")
        if self.max_iter != 40:
            parts.append(f"max_iter={self.max_iter}")
        if self.codebook is not None:
            parts.append(f"codebook={self.codebook}")
        if self.sample != _SAMPLE:
            parts.append(f"sample={self.sample}")
        if self.method is not None:
            parts.append(f"method={self.method}")
        return f"Quantize({', '.join(parts)})"

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator | None = 0) -> Masses:
        """Masses of the quantised samples, with their partition."""
        return estimate_masses(self, x, y, rng)

    def prepare(self, x: Features, y: Features) -> Prepared:
        """Order and reduce both samples: everything that needs no randomness."""
        self.bins_for(len(x), len(y))
        if isinstance(self.codebook, Codebook):
            labels = label_rows(self.codebook, np.concatenate([x, y]), self.device)
            return Prepared(np.empty((0, 0)), labels, np.empty(0, np.int64), len(x), len(y), None)
        points, pooled, reduction = distinct_points(self.reduce, x, y)
        options: dict[str, Any] = {}
        if self.method is None:
            seen = points
            if len(x) + len(y) > (most := self.sample_for(len(x), len(y))):
                dtype = np.result_type(x, y)
                rows = choose_rows(np.concatenate([hash_rows(side, dtype, cores()) for side in (x, y)]), most)
                options["clustered"], options["clustered_times"] = np.unique(pooled.group[rows], return_counts=True)
                seen = points[options["clustered"]]
            options["order"] = canonical_order(seen, seen[:0])
        return Prepared(points, pooled.group, pooled.counts, len(x), len(y), reduction, **options)

    def masses(self, prepared: Prepared, rng: int | np.random.Generator | None) -> Masses:
        """Cluster once and count."""
        n = prepared.n
        if isinstance(self.codebook, Codebook):
            return self.count(Partition(prepared.group[:n], prepared.group[n:], self.codebook.centres))
        labels, centres, caveats = self._bins(prepared, np.random.default_rng(rng))
        rows = labels[prepared.group]
        return replace(self.count(Partition(rows[:n], rows[n:], centres)), caveats=caveats)

    def against_itself(
        self,
        x: Features,
        splits: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
        m: int,
        rngs: Sequence[np.random.Generator],
    ) -> list[Masses]:
        """Masses of some rows of a reference x (n, d) against others, for each split, with the same bins per sample.

        Each part holds fewer samples than the reference or a model with m samples, so there are fewer bins: bias and
        noise depend on bins/n. A fixed codebook cannot shrink; with one, counts are drawn from the smoothed histogram
        of the reference.
        """
        n = len(x)
        self.bins_for(n, m)
        if isinstance(self.codebook, Codebook):
            counts = np.bincount(label_rows(self.codebook, x, self.device), minlength=len(self.codebook.centres))
            return draw_against_itself(self, counts, n, m, rngs)
        smaller = self.for_halves(n, m)
        whole = smaller.prepare(x[: n // 2], x[n // 2 :])  # ordered and reduced once for all splits
        prepared = [
            replace(whole, group=whole.group[np.concatenate(split)], n=len(split[0]), m=len(split[1]))
            for split in splits
        ]
        return [smaller.masses(half, rng) for half, rng in zip(prepared, rngs, strict=True)]

    def for_halves(self, n: int, m: int) -> Quantize:
        """The estimator for parts of a reference of n rows, as many rows per bin as with a model of m rows."""
        bins = max(2, round(self.bins_for(n, m) * n / (n + m)))
        return replace(self, bins=bins, codebook=None, sample=self.sample_for(n, m))

    def count(self, partition: Partition) -> Masses:
        """The masses of samples whose bins are already known."""
        return replace(self.smooth(partition.p_counts, partition.q_counts), partition=partition)

    def smooth(self, p_counts: Array, q_counts: Array) -> Masses:
        """The masses of two histograms of counts, with any leading axes."""
        if self.smoothing is extrapolated:
            return extrapolated(p_counts, q_counts)
        smooth_one: Callable[[Any], Array] = self.smoothing  # type: ignore[assignment]
        return Masses.from_histograms(smooth_one(p_counts), smooth_one(q_counts))

    def fit(self, x: Any, *others: Any, rng: int | np.random.Generator | None = 0) -> Codebook:
        """A codebook of one or more samples, for use with other samples later."""
        if self.method is not None:
            raise InputError(f"A codebook needs the centres of k-means; `method` is {self.method!r}. Leave it out.")
        first = checked_features("x", x)
        rest = [checked_features("others", other) for other in others] or [first]
        for sample in rest:
            same_width(first, sample, names=("x", "others"))
        prepared = replace(self, codebook=None).prepare(first, np.concatenate(rest))
        clustering, caveats = self.cluster(prepared, np.random.default_rng(rng))
        warn_about(caveats)
        reduction = prepared.reduction
        return Codebook(clustering.centres, None if reduction is None else reduction.projection, clustering.grid)

    def bins_for(self, n: int, m: int) -> int:
        """The number of bins for samples of these sizes."""
        if self.bins == "auto":
            return automatic_bins(min(n, m))
        if self.bins > n + m:
            raise InputError(
                f"`bins` must be at most n + m = {n + m} points; got {self.bins}. Leave out `bins`, or pass more "
                "samples."
            )
        return self.bins

    def sample_for(self, n: int, m: int) -> int:
        """The number of rows that `score` clusters at most."""
        if self.bins != "auto" or min(n, m) <= _PUBLISHED:
            return self.sample
        return min(self.sample, _ROWS_PER_BIN * self.bins_for(n, m))

    def _bins(self, prepared: Prepared, rng: np.random.Generator) -> tuple[Labels, Features, tuple[Caveat, ...]]:
        """The bin of each distinct point and the centre of each bin, by k-means or by another method."""
        if self.method is None:
            clustering, caveats = self.cluster(prepared, rng)
            return clustering.labels, clustering.centres, caveats
        points, times, bins = prepared.points, prepared.times, self.bins_for(prepared.n, prepared.m)
        codes = self.method.fit(points, times, min(bins, len(points)), rng)
        return *occupied_bins(points, times, codes), too_few_points(len(points), bins)

    @property
    def _opened(self) -> Device | None:
        return None if self.device is None else open_device(self.device)

    def cluster(self, prepared: Prepared, rng: np.random.Generator) -> tuple[Clustering, tuple[Caveat, ...]]:
        """The best of the runs of k-means, with at most as many bins as distinct points."""
        points, times, some = prepared.points, prepared.times, prepared.clustered
        if some is not None and prepared.clustered_times is not None:
            points, times = points[some], prepared.clustered_times
        bins, distinct = self.bins_for(prepared.n, prepared.m), len(points)
        caveats = too_few_points(distinct, bins)
        options: dict[str, Any] = {"weights": times, "order": prepared.order, "max_iter": self.max_iter}
        options["device"] = self._opened
        children = rng.spawn(self.restarts)
        runs = [lloyd(points, min(bins, distinct), rng=child, **options) for child in children]
        best = min(runs, key=lambda run: run.objective)
        if some is not None:
            labels = nearest_centres(prepared.points, best.centres, best.grid, device=self._opened)
            best = best._replace(labels=labels)
        return best, caveats


def published_bins(size: int) -> int:
    """The number of bins in the paper's experiments and in mauve-text: a tenth of the smaller sample."""
    return max(2, size // 10)


def automatic_bins(size: int) -> int:
    """The automatic number of bins for a smaller sample of this size.

    Up to 5,000 samples it is a tenth of them, as published. Statistical and quantisation errors balance at k = Θ(n^⅓)
    (paper: thm:est_error_ray). So beyond 5,000 it grows with the cube root, and the time of k-means does not grow like
    n².

    Examples
    --------
    >>> [automatic_bins(size) for size in (15, 900, 5000, 20_000, 40_000, 1_000_000)]
    [2, 90, 500, 794, 1000, 1000]
    """
    if size <= _PUBLISHED:
        return published_bins(size)
    return min(round(_PUBLISHED / 10 * math.cbrt(size / _PUBLISHED)), _MOST_BINS)


def draw_against_itself(
    quantize: Quantize, counts: NDArray[Any], n: int, m: int, rngs: Sequence[np.random.Generator]
) -> list[Masses]:
    """Masses of draws of n and of m samples from the smoothed histogram of a reference, one pair for each generator."""
    share = krichevsky_trofimov(counts)
    draws = [[rng.multinomial(size, share).astype(np.float64) for size in (n, m)] for rng in rngs]
    return [quantize.smooth(p_counts, q_counts) for p_counts, q_counts in draws]


def too_few_points(distinct: int, bins: int) -> tuple[Caveat, ...]:
    """A caveat if there are fewer distinct points than bins."""
    if bins <= distinct:
        return ()
    message = f"there are only {distinct} distinct points for {bins} bins, so that {distinct} bins are used."
    return (Caveat("few distinct points", message, values={"distinct": distinct, "bins": bins}),)
