"""One model against the reference: the score, and what is needed to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mallow._checks import seed_from, whole
from mallow.confounds import find_confounds
from mallow.embed import AnyEmbedder, embed_all
from mallow.errors import Caveat, warn_about
from mallow.evaluate._caveats import bin_caveats, size_caveats, unique_caveats
from mallow.evaluate._measure import MAUVE_STAR, SUMMARIES, Measure
from mallow.evaluate._run import Run, bin_evidence, mean_frontier, noise_floor, pair_points, run_repeats, summary_values
from mallow.evaluate._signature import Signature, make_signature
from mallow.inference import score_interval
from mallow.results import Result, TableData, draw
from mallow.samples import Samples
from mallow.theory import Frontier, Masses, compute_frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Score", "build_score", "score", "score_embedded"]

_TITLES = {"mauve": "MAUVE", "frontier_integral": "integral", "midpoint": "mid-point"}  # fits 80 columns


@dataclass(frozen=True, eq=False, repr=False)
class Score(Result):
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
        A 95 % interval for the population value of each summary, bias-corrected, so that it need not contain the score
        itself. None where the model is too close to the reference for one, or the estimator has no bins to resample.
    debiased : dict
        Each summary, bias-corrected; empty for estimators without bins.
    noise_floor : dict
        What the reference scores against itself: the best that a perfect model could get with so few samples.
    frontier : Frontier
        Mean curve over repeats.
    masses : Masses
        Of the first repeat, with its partition.
    signature : Signature
        Everything that the number depends on.
    caveats : tuple of Caveat
        Reasons to doubt the number.
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

    KIND: ClassVar[str] = "score"

    mauve: float
    frontier_integral: float
    midpoint: float
    std: dict[str, float]
    interval: dict[str, tuple[float, float] | None]
    debiased: dict[str, float]
    noise_floor: dict[str, float]
    frontier: Frontier
    masses: Masses
    signature: Signature
    caveats: tuple[Caveat, ...]
    n: tuple[int, int]
    scale: float
    values: dict[str, tuple[float, ...]]
    band: tuple[Frontier, Frontier] | None = None

    def __repr__(self) -> str:
        interval = self.interval["mauve"]
        span = "" if interval is None else f", interval {interval[0]:.4f} to {interval[1]:.4f}"
        floor = self.noise_floor["mauve"]
        return f"Score(mauve={self.mauve:.4f}, std {self.std['mauve']:.4f}{span}, noise floor {floor:.4f}, n={self.n})"

    def __str__(self) -> str:
        lines = [
            f"MAUVE {self.mauve:.4f} (1 = indistinguishable), standard deviation {self.std['mauve']:.4f} over "
            f"{len(self.values['mauve'])} clusterings",
            f"{self.interval_label} {self.interval_text('mauve')}",
            f"noise floor {self.noise_floor['mauve']:.4f}: what the reference scores against itself",
        ]
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())])

    def __format__(self, spec: str) -> str:
        return format(self.mauve, spec) if spec else str(self)

    @property
    def interval_label(self) -> str:
        """What `interval` is about, in words."""
        return "95 % interval of the bias-corrected value:"

    def interval_text(self, name: str) -> str:
        """The interval of a summary, or in words why there is none."""
        pair = self.interval[name]
        if pair is not None:
            return f"{pair[0]:.4f} to {pair[1]:.4f}"
        return "none so close to the reference" if self.debiased else "not available without bins"

    def _table(self) -> TableData:
        rows = []
        for name in SUMMARIES:
            corrected = f"{self.debiased[name]:.4f}" if self.debiased else "–"
            numbers = [f"{getattr(self, name):.4f}", f"{self.std[name]:.4f}", corrected, self.interval_text(name)]
            rows.append([_TITLES[name], *numbers, f"{self.noise_floor[name]:.4f}"])
        return TableData(["", "score", "std", "bias-corrected", "95 % interval of it", "noise floor"], rows)

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for name in SUMMARIES:
            low, high = self.interval[name] or (float("nan"), float("nan"))
            records.append(
                {
                    "summary": name,
                    "score": getattr(self, name),
                    "std": self.std[name],
                    "debiased": self.debiased.get(name, float("nan")),
                    "low": low,
                    "high": high,
                    "noise_floor": self.noise_floor[name],
                }
            )
        return records

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw the exponentiated frontier with the area below it shaded; returns the axes.

        With several repeats the curve has a band: the curves of all repeats lie between its edges.
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
    rng: int | np.random.Generator | None = 0,
) -> Score:
    """How close the model's samples are to the reference: a number, its spread, an interval and a noise floor.

    Parameters
    ----------
    reference, model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data and the model's samples, of one kind: texts, images, or features with one row per sample.
    measure : Measure
        MAUVE* of the paper by default.
    embedder : Embedder, callable, name or None
        Turns samples into features; `mallow.embed` has them, and a function from a list of samples to an array is one. A
        name is looked up as on the command line. None: the default for texts or images; features need none.
    repeats : int
        Runs with different seeds, whose mean is the score. They share embedding and reduction.
    rng : int, numpy Generator or None
        Seed: the same seed gives the same numbers, on any number of threads. A generator draws one, None takes a fresh
        one; the signature names the seed in use.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, machine = rng.normal(size=(1000, 8)), rng.normal(0.5, 1.0, size=(1000, 8))
    >>> result = score(human, machine)
    >>> 0.4 < result.mauve < 0.55 < 0.95 < result.noise_floor["mauve"]
    True
    """
    whole("repeats", repeats, least=1)
    seed = seed_from(rng)
    sides = embed_all({"reference": reference, "model": model}, embedder)
    result = score_embedded(sides["reference"], sides["model"], measure=measure, repeats=repeats, seed=seed)
    warn_about(result.caveats)
    return result


def score_embedded(reference: Samples, model: Samples, *, measure: Measure, repeats: int, seed: int) -> Score:
    """The score of samples that have features; caveats are in the result, and nothing is warned about."""
    x, y = pair_points(reference, model)
    caveats = [
        *find_confounds(reference, {"model": model}),
        *reference.caveats,
        *model.caveats,
        *size_caveats(len(x), len(y)),
    ]
    prepared = measure.estimator.prepare(x, y)
    masses = run_repeats(measure, prepared, repeats, seed)
    run = Run(reference, model, masses, prepared, bin_evidence(measure, masses, seed))
    floor = noise_floor(measure, reference, len(y), prepared, repeats, seed)
    return build_score(measure, run, floor, seed, caveats=caveats)


def build_score(
    measure: Measure, run: Run, floor: dict[str, float], seed: int, *, caveats: Sequence[Caveat] = ()
) -> Score:
    """The score of all repeats of a run, with the caveats of its masses and bins after those given."""
    values = summary_values(measure, run.masses)
    curves = [compute_frontier(masses, measure.divergence) for masses in run.masses]
    mean, band = mean_frontier(curves)
    first = run.masses[0]
    every = [
        *caveats,
        *(caveat for masses in run.masses for caveat in masses.caveats),
        *(caveat for curve in curves for caveat in curve.caveats),
        *bin_caveats(first.partition),
    ]
    return Score(
        **{name: float(np.mean(each)) for name, each in values.items()},
        std={name: float(np.std(each, ddof=1)) if len(each) > 1 else 0.0 for name, each in values.items()},
        interval=dict.fromkeys(SUMMARIES) if run.evidence is None else score_interval(run.evidence),
        debiased={} if run.evidence is None else run.evidence.score,
        noise_floor=floor,
        frontier=mean,
        masses=first,
        signature=make_signature(measure, run.reference, len(run.model), first, len(run.masses), seed),
        caveats=unique_caveats(every),
        n=(len(run.reference), len(run.model)),
        scale=measure.area_scale,
        values=values,
        band=band,
    )
