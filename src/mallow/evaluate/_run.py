"""The common part of all evaluations: repeats of an estimator, their summaries, and the self-score of the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import seed_from, whole
from mallow.caveats import chosen_alignments
from mallow.embed import suggest_embedder
from mallow.engine import bar, cores, run_now, worker_pool
from mallow.errors import InputError
from mallow.estimate import Quantize, Reduction, as_features, row_keys, split_size
from mallow.evidence import (
    SUMMARIES,
    Certificate,
    Measure,
    Signature,
    Units,
    debiased_estimate,
    find_measure,
    find_units,
    fits_several,
    generator_for,
    published_interval,
    run_alone,
)
from mallow.results import Estimate
from mallow.samples import Samples
from mallow.theory import Frontier, Masses

Begin = Callable[[Callable[[], Any]], Future[Any]]
"""Starts a task, whose result may already exist."""


@dataclass(frozen=True)
class Settings:
    """The settings of an evaluation: a measure, the repeats of its estimator, a seed, and what was aligned before."""

    measure: Measure
    repeats: int
    seed: int
    aligned: str = ""

    @classmethod
    def checked(
        cls,
        measure: Measure | str,
        repeats: int,
        rng: int | np.random.Generator | None,
        align: str | Sequence[str] = (),
    ) -> Settings:
        """The settings that a user gave."""
        measure, seed = find_measure(measure), seed_from(rng)
        return cls(measure, whole("repeats", repeats, least=1), seed, ", ".join(chosen_alignments(align)))


def is_published(reference: Samples) -> bool:
    """Whether papers score such features. Features of `mallow.embed.style` and `texture` are only for evidence."""
    return (reference.provenance or {}).get("published") is not False


Generations = Mapping[str, Sequence[tuple[Samples, Samples]]]  # system → the reference and each of its generations


@dataclass(frozen=True, eq=False)
class Run:
    """The estimates for one system against the reference, from which its score and its differences are built.

    The samples have features, and are of one generation if there are several.
    """

    reference: Samples
    model: Samples
    masses: list[Masses]  # one per repeat; empty without a published score
    reduction: Reduction | None  # the axes that the estimator works on, without points, if it has any
    units: Units
    seen: tuple[Samples, Samples] | None = None  # the samples that are in memory and can be checked; None: all of them
    itself: dict[str, float] | None = None  # the summaries of the reference against itself, if they are known


@dataclass(frozen=True)
class Parts:
    """The functions that start the parts of a score: the library's own work, the estimator, and one of its repeats."""

    own: Begin = run_now
    estimate: Begin = run_now
    repeat: Begin = run_now


@contextmanager
def parts_of_a_score(measure: Measure, pair: tuple[Samples, Samples]) -> Iterator[Parts]:
    """How the parts of a score share the processors: a free processor takes the next task of any part.

    Without memory for several tasks, they run one after the other, each on all processors. A user's estimator also runs
    this way, since it need not be safe on threads.
    """
    if not fits_several([pair]) or cores() == 1:
        yield Parts()
        return
    with worker_pool(cores()) as pool:
        safe = is_safe_on_threads(measure)
        yield Parts(pool.submit, pool.submit, pool.submit) if safe else Parts(pool.submit, _run_here, _run_here)


def is_safe_on_threads(measure: Measure) -> bool:
    """Whether the estimator belongs to the library, so that several of its tasks may run at once."""
    return isinstance(measure.estimator, Quantize) and measure.estimator.method is None


def _run_here(task: Callable[[], Any]) -> Future[Any]:
    """Like `run_now`, on one processor: other tasks keep the others busy."""
    return run_now(partial(run_alone, task))


def run_repeats(measure: Measure, prepared: Any, repeats: int, seed: int, *, begin: Begin = run_now) -> list[Masses]:
    """The masses of every repeat. Estimators without randomness run once."""
    estimator = measure.estimator
    count = 1 if getattr(estimator, "deterministic", False) else repeats
    children = generator_for(seed, "clustering").spawn(count)
    tasks = [partial(estimator.masses, prepared, child) for child in children]
    runs: list[Masses] = []
    with bar("clustering", count) as show:
        for task in [begin(task) for task in tasks]:
            runs.append(task.result())
            show(len(runs), f"{len(runs)}/{count}")
    for masses in runs:
        if not isinstance(masses, Masses):
            raise InputError(
                f"`estimator` must return Masses; {type(estimator).__name__}.masses returned {type(masses).__name__}."
            )
    return runs


def reduction_of(prepared: Any) -> Reduction | None:
    """The axes in the result of an estimator's `prepare`, without the points, which take memory."""
    reduction = getattr(prepared, "reduction", None)
    return reduction.without_points() if isinstance(reduction, Reduction) else None


def summary_values(measure: Measure, runs: Sequence[Masses]) -> dict[str, tuple[float, ...]]:
    """Each summary in every repeat."""
    return by_summary([measure.summarise(masses) for masses in runs])


def by_summary(summaries: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, ...]]:
    """The values of each summary, from the summaries of every repeat."""
    return {name: tuple(float(values[name]) for values in summaries) for name in SUMMARIES}


def mean_frontier(curves: Sequence[Frontier]) -> tuple[Frontier, tuple[Frontier, Frontier] | None]:
    """The mean of the curves and, if several are on one grid, their lower and upper envelope."""
    mean = curves[0]
    if len(curves) == 1 or any(len(curve.lam) != len(mean.lam) for curve in curves):
        return mean, None
    p, q = np.array([(curve.p_to_mix, curve.q_to_mix) for curve in curves]).swapaxes(0, 1)
    mean, low, high = (replace(mean, p_to_mix=f(p, axis=0), q_to_mix=f(q, axis=0)) for f in (np.mean, np.min, np.max))
    return mean, (low, high)


Rows = NDArray[np.int64]
Keys = NDArray[np.uint64]


def self_score(
    measure: Measure, reference: Samples, m: int, *, repeats: int, seed: int, keys: Keys | None = None
) -> dict[str, float]:
    """Each summary of the reference against itself, split in the ratio of its own size to m, averaged over `repeats`.

    The number depends on the measure, the reference, m and the seed. It does not depend on the order of the rows or on
    any model, since the reference is reduced and clustered by itself. Samples with the same id or prompt stay on one
    side. `keys` are the `row_keys` of the reference, if they are known.
    """
    if not repeats:
        return dict.fromkeys(SUMMARIES, float("nan"))
    x = as_features("reference", reference.require_features())
    keys = row_keys(x) if keys is None else keys
    units = find_units(reference, keys=[keys])
    size = split_size(len(x), m)
    # Equal rows have equal keys, so their order among themselves does not matter.
    rows = np.lexsort([keys, units.keys[units.sets[0]]])
    children = generator_for(seed, "self-score").spawn(repeats)
    splits = [split_rows(units, rows, size, child) for child in children]
    estimator = measure.estimator
    if isinstance(estimator, Quantize):
        masses = estimator.against_itself(x, splits, m, children)
    else:
        pairs = zip(splits, children, strict=True)
        masses = [estimator.masses(estimator.prepare(x[half], x[other]), child) for (half, other), child in pairs]
    return {name: float(np.mean(values)) for name, values in summary_values(measure, masses).items()}


def split_rows(units: Units, rows: Rows, size: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Both parts of a random split of rows, about `size` in the first; units stay whole if there are enough.

    `rows` lists all rows in an order that does not depend on their current order.
    """
    of_unit = units.sets[0][rows]
    ordered, first_seen = np.unique(of_unit, return_index=True)
    position = np.empty(units.count, np.int64)
    position[ordered[np.argsort(first_seen)]] = rng.permutation(len(ordered))
    shuffled = rows[np.argsort(position[of_unit], kind="stable")]
    ends = np.cumsum(np.bincount(position[of_unit]))[:-1]  # the end of each unit
    ends = ends[(ends >= 2) & (ends <= len(rows) - 2)]
    if not len(ends):
        shuffled, ends = rng.permutation(rows), np.array([size])
    cut = ends[np.argmin(np.abs(ends - size))]
    return shuffled[:cut], shuffled[cut:]


def spread(values: tuple[float, ...]) -> float:
    """The standard deviation over repeats; 0 for one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def no_frontier(certificate: Certificate | None) -> Frontier:
    """A curve without costs, in place of a published one."""
    lam = np.empty(0) if certificate is None else certificate.frontier.lam
    nothing = np.full(lam.shape, math.nan)
    return Frontier(lam, nothing, nothing)


def published_errors(
    measure: Measure, run: Run, values: dict[str, tuple[float, ...]]
) -> tuple[dict[str, tuple[float, float]], dict[str, Estimate]]:
    """The interval of each summary for another draw, and its value behind the samples. Nothing without bins."""
    partitions = [masses.partition for masses in run.masses if masses.partition is not None]
    if not partitions:
        return {}, {}
    units: Units = run.units
    smooth = measure.estimator.smooth  # type: ignore[attr-defined]
    divergence, scale = measure.divergence, measure.area_scale
    interval = published_interval(partitions, units, values, smooth=smooth, divergence=divergence, scale=scale)
    return interval, debiased_estimate(partitions, units, divergence=divergence, scale=scale)


def where_published(signature: Signature) -> str:
    """How to get a published score, where the embedder of the signature has none."""
    return f"not with {signature.embedder.partition('-')[0]}: choose {suggest_embedder(signature.embedder)}"
