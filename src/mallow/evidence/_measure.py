"""The measure, and the signature.

A signature has everything that a number depends on, so results with equal signatures are comparable.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TypeVar

import numpy as np

from mallow._checks import positive
from mallow._optional import did_you_mean
from mallow.errors import InputError, one_line
from mallow.estimate import ESTIMATORS, Estimator, Neighbors, Quantize
from mallow.evidence._witness import Witness
from mallow.samples import Samples
from mallow.theory import (
    DIVERGENCES,
    Array,
    Divergence,
    Frontier,
    Masses,
    area,
    closed_integral,
    frontier,
    integral,
    midpoint,
)
from mallow.theory.smoothing import empirical

SUMMARIES = ("mauve", "frontier_integral", "midpoint")

Named = TypeVar("Named")
_WITNESS = Witness()


def find_named(argument: str, name: str, known: Mapping[str, Named]) -> Named:
    """The meaning of a word, in upper or lower case, with hyphens or underscores."""
    words = {key.lower().replace("_", "-"): value for key, value in known.items()}
    word = name.lower().replace("_", "-")
    if word not in words:
        raise InputError(f"`{argument}` must be one of {', '.join(words)}; got {name!r}.{did_you_mean(word, words)}")
    return words[word]


@dataclass(frozen=True, init=False)
class Measure:
    """A measure: an estimator, a divergence and the scale c. Its repr is part of every signature.

    Parameters
    ----------
    estimator : Estimator or str
        How features become masses: `Quantize`, `Neighbors`, `KernelDensity`, `Classifier` or `Gaussian`. The words of
        the command line, such as ``"neighbors"``, stand for estimators with their defaults.
    divergence : Divergence or str
        A divergence, or its name: ``"kl"``, ``"chi2"``, ``"tv"``, ``"hellinger2"``, ``"js"`` or ``"le-cam"``.
    scale : float or None
        The constant c of the area. None: the estimator's own, as in the paper (5 for `Quantize`).
    witness : Witness
        How held-out evidence is learned. Certificates, tests and differences depend on it, not on the estimator.

    Examples
    --------
    >>> Measure(Quantize(bins=100))
    Measure(Quantize(bins=100, smoothing=krichevsky_trofimov, reduce=Reduce(variance=0.9, normalise=True)), KL, scale=5)
    """

    estimator: Estimator
    divergence: Divergence
    scale: float | None
    witness: Witness

    def __init__(
        self,
        estimator: Estimator | str = "quantize",
        divergence: Divergence | str = "kl",
        scale: float | None = None,
        witness: Witness = _WITNESS,
    ) -> None:
        if isinstance(estimator, str):
            estimator = find_named("estimator", estimator, ESTIMATORS)()
        if isinstance(divergence, str):
            divergence = find_named("divergence", divergence, DIVERGENCES)
        if isinstance(estimator, type) or not hasattr(estimator, "masses"):
            raise InputError(f"`estimator` must be an estimator, such as Quantize(); got {estimator!r}.")
        if not isinstance(divergence, Divergence):
            raise InputError(f"`divergence` must be a Divergence or the name of one, such as 'kl'; got {divergence!r}.")
        if scale is not None:
            positive("scale", scale)
        values = {"estimator": estimator, "divergence": divergence, "scale": scale, "witness": witness}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def area_scale(self) -> float:
        """The constant c in use: `scale`, or the estimator's own."""
        return self.estimator.scale if self.scale is None else self.scale

    def __repr__(self) -> str:
        witness = "" if self.witness == _WITNESS else f", {self.witness!r}"
        return f"Measure({self.estimator!r}, {self.divergence!r}, scale={self.area_scale:g}{witness})"

    def summarise(self, masses: Masses) -> dict[str, float | Array]:
        """Area, integral and mid-point of masses, which may have leading axes."""
        return self.trace(masses)[1]

    def trace(self, masses: Masses) -> tuple[Frontier, dict[str, float | Array]]:
        """The frontier of masses, without warnings, and its area, integral and mid-point."""
        # All three are symmetric, and this way to the last bit.
        turned = masses.p.ndim == 1 and tuple(masses.q) < tuple(masses.p)
        masses = masses.swap() if turned else masses
        curve = frontier.quiet(masses, self.divergence)
        closed = masses.plain and closed_integral(self.divergence) is not None
        return curve.swap() if turned else curve, {
            "mauve": area(curve, scale=self.area_scale),
            "frontier_integral": integral(masses if closed else curve, self.divergence),
            "midpoint": midpoint(curve),
        }

    def summarise_counts(self, p_counts: Array, q_counts: Array) -> dict[str, float | Array]:
        """The summaries of histograms of counts, for estimators that quantise; leading axes are kept."""
        if not isinstance(self.estimator, Quantize):
            raise InputError(
                f"Counts need an estimator with bins, such as Quantize, but this one is {self.estimator!r}."
            )
        return self.summarise(self.estimator.smooth(p_counts, q_counts))


MAUVE_STAR = Measure()
"""MAUVE* of the paper: vector quantisation into n/10 bins (fewer beyond n = 5,000), add-1/2 smoothing, KL, c = 5."""
MAUVE_2021 = Measure(Quantize(smoothing=empirical))
"""MAUVE as first published in 2021, without smoothing."""
MAUVE_KERNEL = Measure(Neighbors(reduce=None, pooled=False))
"""MAUVE from the distances of a string kernel, as the paper computes it: nearest neighbours, KL, c = 10."""


MEASURES = {"mauve-star": MAUVE_STAR, "mauve-2021": MAUVE_2021, "mauve-kernel": MAUVE_KERNEL}
"""The published measures, by the names that they have on the command line."""


def find_measure(measure: Measure | str) -> Measure:
    """The measure, or the published measure with this name: "mauve-star", "mauve-2021" or "mauve-kernel"."""
    if isinstance(measure, str):
        return find_named("measure", measure, MEASURES)
    if not isinstance(measure, Measure):
        raise InputError(f"`measure` must be a Measure, or the name of one, such as 'mauve-star'; got {measure!r}.")
    return measure


def measure_for(measure: Measure, reference: Samples) -> Measure:
    """The measure in use: for features of a string kernel, `MAUVE_KERNEL` instead of the default, `MAUVE_STAR`.

    The features of a kernel have as many axes as there are texts, nearly all of the same length: k-means finds no
    clusters there (greedy decoding scores 0.92, but 0.07 with neighbours). Any other measure stays: pass
    ``Measure(Quantize())`` for bins.
    """
    of_kernel = bool((reference.provenance or {}).get("kernel"))
    return MAUVE_KERNEL if of_kernel and measure is MAUVE_STAR else measure


@dataclass(frozen=True)
class Signature:
    """Everything that a score depends on; `str` gives it in one line.

    Attributes
    ----------
    version : str
        The version of mallow.
    measure : str
        The repr of the `Measure`.
    embedder : str
        The name of the embedder, "features" if it is not known.
    width : int
        The width of the features.
    n : int
        The number of reference samples.
    m : int
        The number of model samples.
    bins : int or None
        None for estimators without bins.
    repeats : int
        The number of runs that were averaged.
    rng : int
        The seed in use.
    generations : int
        The number of samples per prompt over which scores were averaged.
    codebook : str or None
        Identifies bins that were fixed beforehand.
    tolerance : float or None
        The largest difference of held-out scores between processors or versions of numpy. 0: they are bit-equal. None:
        not known, as for estimators without bins.
    units : str
        The independent units, such as "60 pairs by prompt"; "" if no result depends on them.
    spaces : str
        The spaces that evidence used in addition to the features, such as "style, agreement"; "" for none.
    aligned : str
        The differences that were removed from both sides, such as "quotes, length"; "" for none.
    libraries : str
        If results may differ between machines, the versions of numpy and of its BLAS, with the kernel for this
        processor.

    Examples
    --------
    >>> print(Signature("0.1.0", "Measure(Quantize(…), KL, scale=5)", "minilm", 384, 500, 400, 40, 5, 0))
    mallow 0.1.0 | Measure(Quantize(…), KL, scale=5) | minilm, width=384 | n=500, m=400, bins=40 | repeats=5, rng=0
    """

    version: str
    measure: str
    embedder: str
    width: int
    n: int
    m: int
    bins: int | None
    repeats: int
    rng: int
    generations: int = 1
    codebook: str | None = None
    tolerance: float | None = 0.0
    libraries: str = ""
    units: str = ""
    spaces: str = ""
    aligned: str = ""

    def __str__(self) -> str:
        codebook = "" if self.codebook is None else f", codebook {self.codebook}"
        bins = "" if self.bins is None else f", bins={self.bins}"
        generations = "" if self.generations == 1 else f", generations={self.generations}"
        parts = [
            f"mallow {self.version}",
            self.measure,
            f"{self.embedder}, width={self.width}{codebook}",
            f"n={self.n}, m={self.m}{bins}",
            self.units,
            f"evidence also by {self.spaces}" if self.spaces else "",
            f"aligned in {self.aligned}" if self.aligned else "",
            f"repeats={self.repeats}, rng={self.rng}{generations}",
            f"held-out scores ±{self.tolerance:.0e}" if self.tolerance else "",
            self.libraries,
        ]
        return one_line(" | ".join(filter(None, parts)))


def make_signature(
    measure: Measure,
    reference: Samples,
    m: int,
    masses: Sequence[Masses],
    seed: int,
    *,
    tolerance: float = 0.0,
    units: str = "",
    spaces: Sequence[str] = (),
) -> Signature:
    """The signature of a score with m model samples and one `Masses` per repeat, none for evidence only.

    `tolerance`, `units` and `spaces` describe its evidence, as in `Signature`.
    """
    partition = masses[0].partition if masses else None
    known = tolerance if partition is not None or not masses else None
    return Signature(
        version=version("mallow"),
        measure=repr(measure),
        embedder=reference.embedder or "features",
        width=reference.width,
        n=len(reference),
        m=m,
        bins=None if partition is None else partition.bins,
        repeats=len(masses),
        rng=seed,
        tolerance=known,
        libraries="" if known == 0.0 else _libraries(),
        units=units,
        spaces=", ".join(spaces),
    )


@functools.cache
def _libraries() -> str:
    """The versions of numpy and of the BLAS that it has loaded."""
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    numpys = [library for library in blas if "numpy" in library["filepath"]] or blas  # scipy may have its own
    parts = [f"numpy {np.__version__}"]
    for library in numpys[:1]:
        parts.append(" ".join(filter(None, [library["internal_api"], library["version"], library.get("architecture")])))
    return ", ".join(parts)
