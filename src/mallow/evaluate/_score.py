"""One model against the reference: the score with its spread, interval, noise floor, signature and warnings."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.embed import AnyEmbedder, all_features
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Estimator, Quantize, canonical_order, checked_pair, split_size
from mallow.inference import Evidence, evidence, interval, permutation_p_value
from mallow.results import draw, jsonable
from mallow.samples import Samples
from mallow.theory import KL, Array, Divergence, Frontier, Masses, Partition, area, frontier, integral, midpoint
from mallow.theory.smoothing import empirical

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MAUVE_2021", "MAUVE_STAR", "Measure", "Score", "permutation_test", "score"]

SUMMARIES = ("mauve", "frontier_integral", "midpoint")
_CURVE = ("lam", "p_to_mix", "q_to_mix", "exact")
_FEW_SAMPLES = 1000  # paper: sec:best-practices
_EMPTY_BINS = 0.2
_BINS_PER_SAMPLE = 0.2
_DUPLICATES = 0.01


@dataclass(frozen=True)
class Measure:
    """What is measured: an estimator, a divergence and the scale c. Its repr is part of every signature.

    Parameters
    ----------
    estimator : Estimator
        How features become masses: `Quantize`, `Neighbors`, `KernelDensity`, `Classifier` or `Gaussian`.
    divergence : Divergence
    scale : float or None
        The constant c of the area. None: the estimator's own, as in the paper (5 for `Quantize`).

    Examples
    --------
    >>> Measure(Quantize(bins=100))
    Measure(Quantize(bins=100, smoothing=krichevsky_trofimov, reduce=Reduce(variance=0.9, normalise=True)), KL, scale=5)
    """

    estimator: Estimator = field(default_factory=Quantize)
    divergence: Divergence = KL
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            positive("scale", self.scale)

    @property
    def c(self) -> float:
        """The scale in use."""
        return self.estimator.scale if self.scale is None else self.scale

    def __repr__(self) -> str:
        return f"Measure({self.estimator!r}, {self.divergence!r}, scale={self.c:g})"

    def summaries(self, masses: Masses) -> dict[str, float | Array]:
        """Area, integral and mid-point of masses, which may have leading axes."""
        if masses.p.ndim == 1 and tuple(masses.q) < tuple(masses.p):
            masses = masses.swap()  # all three are symmetric; so they are to the last bit
        curve = frontier(masses, self.divergence)
        whole = masses if masses.plain else curve
        return {
            "mauve": area(curve, scale=self.c),
            "frontier_integral": integral(whole, self.divergence),
            "midpoint": midpoint(curve),
        }

    def of_counts(self, p_counts: Array, q_counts: Array) -> dict[str, float | Array]:
        """The summaries of histograms of counts, for estimators that quantise; leading axes are kept."""
        if not isinstance(self.estimator, Quantize):
            raise InputError(f"Counts need an estimator with bins, such as Quantize; this one is {self.estimator!r}.")
        return self.summaries(self.estimator.smooth(p_counts, q_counts))


MAUVE_STAR = Measure()
"""MAUVE* of the paper: vector quantisation into n/10 bins, add-1/2 smoothing, KL, c = 5."""
MAUVE_2021 = Measure(Quantize(smoothing=empirical))
"""MAUVE as first published in 2021: the same without smoothing."""


@dataclass(frozen=True, eq=False)
class Score:
    """A score and what is needed to trust it.

    Attributes
    ----------
    mauve : float
        Area summary, mean over repeats: 1 = indistinguishable.
    frontier_integral, midpoint : float
        Integral and mid-point summary, means over repeats: 0 = indistinguishable.
    std : dict
        Standard deviation of each summary over repeats: the noise of clustering, not that of sampling.
    interval : dict
        A 95 % interval for the value behind each summary, freed of most of the plug-in bias, so that it need not contain
        the score itself; None where no honest one exists (very near 1) or the estimator has no bins to resample.
    debiased : dict
        Each summary freed of most of the plug-in bias; empty for estimators without bins.
    noise_floor : dict
        What the reference scores against itself: the best that a perfect model could get with so few samples.
    frontier : Frontier
        Mean curve over repeats.
    masses : Masses
        Of the first repeat, with its partition.
    signature : str
        Everything that the number depends on.
    warnings : tuple of str
        What makes the number doubtful.
    n : tuple of int
        Samples of the reference and of the model.
    scale : float
        The constant c.
    values : dict
        Each summary in every repeat.
    band : two Frontiers or None
        The least and the greatest cost over the repeats at each λ: the curves of all repeats lie between them. None for a
        single repeat.
    """

    mauve: float
    frontier_integral: float
    midpoint: float
    std: dict[str, float]
    interval: dict[str, tuple[float, float] | None]
    debiased: dict[str, float]
    noise_floor: dict[str, float]
    frontier: Frontier
    masses: Masses
    signature: str
    warnings: tuple[str, ...]
    n: tuple[int, int]
    scale: float
    values: dict[str, tuple[float, ...]]
    band: tuple[Frontier, Frontier] | None = None

    def __repr__(self) -> str:
        spread, floor = self.std["mauve"], self.noise_floor["mauve"]
        interval = self.interval["mauve"]
        shown = "no honest interval" if interval is None else f"interval {interval[0]:.4f} to {interval[1]:.4f}"
        return f"Score(mauve={self.mauve:.4f}, std {spread:.4f}, {shown}, noise floor {floor:.4f}, n={self.n})"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings, lists and dicts; `from_dict` gives the same score back."""
        return {
            "kind": "mallow score",
            **{name: getattr(self, name) for name in SUMMARIES},
            "std": self.std,
            "interval": {name: None if pair is None else list(pair) for name, pair in self.interval.items()},
            "debiased": self.debiased,
            "noise_floor": self.noise_floor,
            "frontier": jsonable.encoded(self.frontier, _CURVE),
            "band": None if self.band is None else [jsonable.encoded(curve, _CURVE) for curve in self.band],
            "masses": jsonable.encoded(self.masses, ("p", "q", "split", "weight")),
            "partition": None
            if self.masses.partition is None
            else jsonable.encoded(self.masses.partition, ("p_labels", "q_labels", "centres")),
            "signature": self.signature,
            "warnings": list(self.warnings),
            "n": list(self.n),
            "scale": self.scale,
            "values": {name: list(values) for name, values in self.values.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Score:
        """The score that `to_dict` wrote."""
        if data.get("kind") != "mallow score":
            raise InputError(f"`data` must be what Score.to_dict wrote; its kind is {data.get('kind')!r}.")
        band = data.get("band")  # files of the first versions have none
        partition = None if data["partition"] is None else Partition(**jsonable.decoded(data["partition"]))
        return cls(
            **{name: data[name] for name in SUMMARIES},
            std=data["std"],
            interval={name: None if pair is None else tuple(pair) for name, pair in data["interval"].items()},
            debiased=data["debiased"],
            noise_floor=data["noise_floor"],
            frontier=Frontier(**jsonable.decoded(data["frontier"])),
            masses=Masses(**jsonable.decoded(data["masses"]), partition=partition),
            signature=data["signature"],
            warnings=tuple(data["warnings"]),
            n=tuple(data["n"]),
            scale=data["scale"],
            values={name: tuple(values) for name, values in data["values"].items()},
            band=None
            if band is None
            else (Frontier(**jsonable.decoded(band[0])), Frontier(**jsonable.decoded(band[1]))),
        )

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Score:
        """The score that `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw the exponentiated frontier with the area below it shaded; returns the axes.

        With several repeats the curve has a band, between whose edges the curves of all repeats lie.
        """
        ax = draw.axes(ax)
        draw.exponentiated(ax, self, label=label or f"MAUVE = {self.mauve:.3f}")
        draw.legend(ax)
        return ax


def score(
    reference: Any,
    model: Any,
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    rng: int = 0,
    engine: None = None,
) -> Score:
    """How close the model's samples are to the reference: a number, its spread, an interval and a noise floor.

    Parameters
    ----------
    reference, model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data and the model's samples, of one kind: texts, images, or features, a row a sample.
    measure : Measure
        MAUVE* of the paper by default.
    embedder : Embedder, callable, name or None
        Turns samples into features; `mallow.embed` has them, and a function from a list of samples to an array is one. A name
        is looked up as on the command line. None: the default for texts or images; features need none.
    repeats : int
        Runs with different seeds, whose mean is the score. They share embedding and reduction.
    rng : int
        Seed: the same for the same numbers, on any number of threads.
    engine : None
        Reserved for running on a cluster; only None (this machine) is known.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, machine = rng.normal(size=(1000, 8)), rng.normal(0.5, 1.0, size=(1000, 8))
    >>> result = score(human, machine)
    >>> 0.4 < result.mauve < 0.55 < 0.95 < result.noise_floor["mauve"]
    True
    """
    if engine is not None:
        raise InputError(f"`engine` must be None: work runs on this machine; got {engine!r}.")
    whole("repeats", repeats, least=1)
    whole("rng", rng, least=0)
    (x, y), how = embedded({"reference": reference, "model": model}, embedder)
    x, y = checked_pair(x, y)
    with collected_doubts() as doubts:
        say_doubts(x, y)
        prepared = measure.estimator.prepare(x, y)
        runs = repeated(measure, prepared, repeats, rng)
        floor = noise_floor(measure, x, len(y), prepared, repeats, rng)
        found = evidence_of(measure, runs, rng)
        result = assembled(measure, runs, found, floor, (len(x), len(y)), described(how, x), rng)
    for text in doubts:
        warnings.warn(text, EstimateWarning, stacklevel=2)
    return replace(result, warnings=tuple(doubts))


def permutation_test(
    reference: Any,
    model: Any,
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    permutations: int = 999,
    rng: int = 0,
) -> float:
    """The p-value of the hypothesis that model and reference are one distribution: exact, by exchanging samples.

    Small means that the gap is real, however near 1 the score is. The estimator must be `Quantize`.
    """
    whole("rng", rng, least=0)
    (x, y), _ = embedded({"reference": reference, "model": model}, embedder)
    masses = measure.estimator(x, y, rng=generator(rng, "clustering"))
    if masses.partition is None:
        raise InputError(f"`measure` must quantise for a permutation test; its estimator is {measure.estimator!r}.")
    return permutation_p_value(
        masses.partition, measure.of_counts, permutations=permutations, rng=generator(rng, "permutations")
    )


# What follows is shared with `compare`.


def embedded(sources: Mapping[str, Any], embedder: AnyEmbedder | str | None) -> tuple[list[NDArray[Any]], str | None]:
    """The features of each source, which may be features already, and the name of what made them."""
    found, how = all_features(sources, embedder)
    return [each.features if isinstance(each, Samples) else each for each in found.values()], how


def repeated(measure: Measure, prepared: Any, repeats: int, rng: int) -> list[Masses]:
    """The masses of every repeat. Estimators without randomness run once."""
    estimator = measure.estimator
    count = 1 if getattr(estimator, "deterministic", False) else repeats
    return [estimator.masses(prepared, child) for child in generator(rng, "clustering").spawn(count)]


def noise_floor(measure: Measure, x: Any, m: int, prepared: Any, repeats: int, rng: int) -> dict[str, float]:
    """What the reference scores against itself, split as unevenly as n and m: the mean over a split each repeat."""
    estimator = measure.estimator
    cut = split_size(len(x), m)
    found = []
    for child in generator(rng, "noise floor").spawn(repeats):
        if isinstance(estimator, Quantize):
            masses = estimator.against_itself(prepared, child)
        else:
            order = child.permutation(len(x))
            masses = estimator(x[order[:cut]], x[order[cut:]], rng=child)
        found.append(measure.summaries(masses))
    return {name: float(np.mean([one[name] for one in found])) for name in SUMMARIES}


def assembled(
    measure: Measure,
    runs: list[Masses],
    found: Evidence | None,
    floor: dict[str, float],
    n: tuple[int, int],
    embedder: str,
    rng: int,
) -> Score:
    """The score of the repeats, without its warnings."""
    values = all_values(measure, runs)
    mean, band = mean_frontier([frontier(masses, measure.divergence) for masses in runs])
    first = runs[0]
    say_bin_doubts(first.partition)
    return Score(
        **{name: float(np.mean(each)) for name, each in values.items()},
        std={name: float(np.std(each, ddof=1)) if len(each) > 1 else 0.0 for name, each in values.items()},
        interval=dict.fromkeys(SUMMARIES) if found is None else interval(found),
        debiased={} if found is None else found.score,
        noise_floor=floor,
        frontier=mean,
        masses=first,
        signature=signature(measure, embedder, n, first, len(runs), rng),
        warnings=(),
        n=n,
        scale=measure.c,
        values=values,
        band=band,
    )


def mean_frontier(curves: Sequence[Frontier]) -> tuple[Frontier, tuple[Frontier, Frontier] | None]:
    """The mean of the curves and, where there are several on one grid, those between which all of them lie."""
    mean = curves[0]
    if len(curves) == 1 or any(len(curve.lam) != len(mean.lam) for curve in curves):
        return mean, None
    p, q = np.array([(curve.p_to_mix, curve.q_to_mix) for curve in curves]).swapaxes(0, 1)
    mean, low, high = (replace(mean, p_to_mix=f(p, axis=0), q_to_mix=f(q, axis=0)) for f in (np.mean, np.min, np.max))
    return mean, (low, high)


def all_values(measure: Measure, runs: list[Masses]) -> dict[str, tuple[float, ...]]:
    """Each summary in every repeat."""
    each = [measure.summaries(masses) for masses in runs]
    return {name: tuple(float(one[name]) for one in each) for name in SUMMARIES}


def evidence_of(measure: Measure, runs: list[Masses], rng: int) -> Evidence | None:
    """What intervals and differences are made from; None for estimators without bins."""
    partitions = [masses.partition for masses in runs if masses.partition is not None]
    if not partitions:
        return None
    values, random = all_values(measure, runs), generator(rng, "intervals")
    return evidence(partitions, values, divergence=measure.divergence, scale=measure.c, rng=random)


def signature(measure: Measure, embedder: str, n: tuple[int, int], masses: Masses, repeats: int, rng: int) -> str:
    """Everything that the number depends on, in one line."""
    bins = "" if masses.partition is None else f", bins={masses.partition.bins}"
    sizes = f"n={n[0]}, m={n[1]}{bins}"
    return f"mallow {_version()} | {measure!r} | {embedder} | {sizes} | repeats={repeats}, rng={rng}"


def described(how: str | None, features: NDArray[Any]) -> str:
    """The embedder, for the signature."""
    return f"{how or 'features'}, width={features.shape[1]}"


def generator(rng: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose, so that asking for one thing more changes nothing else."""
    return np.random.default_rng([rng, *purpose.encode()])


@contextmanager
def collected_doubts() -> Iterator[list[str]]:
    """Every EstimateWarning raised inside, once each, as text."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    for one in caught:
        if not issubclass(one.category, EstimateWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif str(one.message) not in found:
            found.append(str(one.message))


def say_doubts(x: Any, y: Any) -> None:
    """Warn about samples that are few, of different sizes, or repeat themselves."""
    n, m = len(x), len(y)
    if min(n, m) < _FEW_SAMPLES:
        _doubt(f"only {min(n, m)} samples: below {_FEW_SAMPLES} a side scores are biased and noisy.")
    if n != m:
        _doubt(f"the samples have different sizes, {n} and {m}: compare only scores of the same sizes.")
    for name, rows in (("reference", x), ("model", y)):
        repeats = 1.0 - len(canonical_order(rows, rows[:0]).distinct) / len(rows)
        if repeats > _DUPLICATES:
            _doubt(f"{repeats:.0%} of the {name} rows repeat another one.")


def say_bin_doubts(partition: Partition | None) -> None:
    """Warn about bins that are empty, or too many for so few samples."""
    if partition is None:
        return
    p, q = partition.p_counts, partition.q_counts
    empty = float(np.mean((p == 0) | (q == 0)))
    if empty > _EMPTY_BINS:
        _doubt(f"{empty:.0%} of the bins hold samples of one side only: the two are far apart, or the bins too many.")
    if partition.bins > _BINS_PER_SAMPLE * min(p.sum(), q.sum()):
        _doubt(f"{partition.bins} bins are many for {int(min(p.sum(), q.sum()))} samples: pass bins='auto' or fewer.")


def _doubt(text: str) -> None:
    warnings.warn(text, EstimateWarning, stacklevel=3)


def _version() -> str:
    from importlib.metadata import version

    return version("mallow")
