"""Everything that a number depends on, as a value: results are comparable where their signatures agree."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from mallow._visible import one_line
from mallow.evidence._measure import Measure
from mallow.samples import Samples
from mallow.theory import Masses


@dataclass(frozen=True)
class Signature:
    """Everything that a score depends on; `str` gives it in one line.

    Attributes
    ----------
    version : str
        Of mallow.
    measure : str
        The repr of the `Measure`.
    embedder : str
        The name of the embedder, "features" where it is not known.
    width : int
        Of the features.
    n, m : int
        Samples of the reference and of the model.
    bins : int or None
        None for estimators without bins.
    repeats, rng : int
        Runs that were averaged, and the seed in use.
    generations : int
        Samples per prompt over which scores were averaged.
    codebook : str or None
        Identifies bins that were fixed beforehand.
    tolerance : float or None
        By how much held-out scores may differ on another processor, or with another version of numpy. 0: nothing differs,
        to the last bit; None: not known, as for estimators without bins.
    libraries : str
        Where something may differ, the versions of numpy and of its BLAS, with the kernel for this processor.

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

    def __str__(self) -> str:
        codebook = "" if self.codebook is None else f", codebook {self.codebook}"
        bins = "" if self.bins is None else f", bins={self.bins}"
        generations = "" if self.generations == 1 else f", generations={self.generations}"
        parts = [
            f"mallow {self.version}",
            self.measure,
            f"{self.embedder}, width={self.width}{codebook}",
            f"n={self.n}, m={self.m}{bins}",
            f"repeats={self.repeats}, rng={self.rng}{generations}",
            f"held-out scores ±{self.tolerance:.0e}" if self.tolerance else "",
            self.libraries,
        ]
        return one_line(" | ".join(filter(None, parts)))


def make_signature(
    measure: Measure, reference: Samples, m: int, masses: Sequence[Masses], seed: int, *, tolerance: float = 0.0
) -> Signature:
    """The signature of a score against a reference, with m samples and one `Masses` per repeat; `tolerance` is that of its evidence."""
    partition = masses[0].partition
    known = tolerance if partition is not None else None
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
    )


@functools.cache
def _libraries() -> str:
    """numpy and the BLAS that it has loaded."""
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    own = [library for library in blas if "numpy" in library["filepath"]] or blas  # scipy may have loaded another
    parts = [f"numpy {np.__version__}"]
    for library in own[:1]:
        parts.append(" ".join(filter(None, [library["internal_api"], library["version"], library.get("architecture")])))
    return ", ".join(parts)
