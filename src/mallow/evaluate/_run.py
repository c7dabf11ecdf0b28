"""The engine room that all evaluations share: repeats of an estimator and their summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.engine import bar, cores, crew_of, one_core, ordered_map, run_now, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import Quantize, Reduction, as_features, same_width
from mallow.evaluate._measure import SUMMARIES, Measure
from mallow.inference import Units
from mallow.samples import Samples
from mallow.theory import Frontier, Masses

__all__ = [
    "Run",
    "fits_several",
    "generator_for",
    "is_safe_on_threads",
    "mean_frontier",
    "pair_points",
    "parts_of_a_score",
    "reduction_of",
    "run_repeats",
    "run_systems",
    "summary_values",
]

_AT_ONCE = 2**26  # chosen: numbers of a reference and a system up to which several tasks run at once

Outcome = TypeVar("Outcome")


class Begin(Protocol):
    """Begins a task; its result may already be there."""

    def __call__(self, task: Callable[[], Outcome], /) -> Future[Outcome]: ...


@dataclass(frozen=True, eq=False)
class Run:
    """One system against the reference, estimated: what its score and its differences are built from.

    Attributes
    ----------
    reference, model : Samples
        With features; for several generations, those of one.
    masses : list of Masses
        One per repeat.
    reduction : Reduction or None
        The axes that the estimator works on, without points, if it has any.
    units : Units
        Of the reference and the model.
    seen : pair of Samples or None
        Those that are in memory and can be checked, where not all are. None: all.
    """

    reference: Samples
    model: Samples
    masses: list[Masses]
    reduction: Reduction | None
    units: Units
    seen: tuple[Samples, Samples] | None = None


def generator_for(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose, so that asking for one thing more changes nothing else."""
    return np.random.default_rng([seed, *purpose.encode()])


def pair_points(reference: Samples, model: Samples) -> tuple[NDArray[Any], NDArray[Any]]:
    """The features of both sides as estimators take them; that they are finite was checked when they came in."""
    x, y = (as_features(name, side.require_features()) for name, side in (("reference", reference), ("model", model)))
    same_width(x, y)
    return x, y


@dataclass(frozen=True)
class Parts:
    """How the parts of a score begin: the library's own work; that of the estimator; one of its repeats."""

    own: Begin
    estimate: Begin
    repeat: Begin


@contextmanager
def parts_of_a_score(measure: Measure, pair: tuple[Samples, Samples]) -> Iterator[Parts]:
    """How the parts of a score share the processors: whichever is free takes the next task, of any part.

    All run one after the other, each spreading its work, where there is not memory for several. So does an estimator that a
    user brought: it need not be safe on threads.
    """
    if not fits_several([pair]) or cores() == 1:
        yield Parts(run_now, run_now, run_now)
        return
    with crew_of(cores()) as crew:
        safe = is_safe_on_threads(measure)
        yield Parts(crew.begin, crew.begin, crew.begin) if safe else Parts(crew.begin, _run_here, _run_here)


def is_safe_on_threads(measure: Measure) -> bool:
    """Whether the estimator is the library's own, of which several tasks may run at once."""
    return isinstance(measure.estimator, Quantize) and measure.estimator.method is None


def _run_here(task: Callable[[], Outcome]) -> Future[Outcome]:
    """Like `run_now`, on one processor: other tasks keep the others busy."""
    return run_now(partial(_run_alone, task))


def _run_alone(task: Callable[[], Outcome]) -> Outcome:
    """The result of a task that does not spread its work."""
    with one_core():
        return task()


def run_repeats(measure: Measure, prepared: Any, repeats: int, seed: int, *, begin: Begin = run_now) -> list[Masses]:
    """The masses of every repeat. Estimators without randomness run once."""
    estimator = measure.estimator
    count = 1 if getattr(estimator, "deterministic", False) else repeats
    children = generator_for(seed, "clustering").spawn(count)
    tasks = [partial(estimator.masses, prepared, child) for child in children]
    if begin is not run_now and count > 1:  # as many tasks as there are repeats are enough to share
        tasks = [partial(_run_alone, task) for task in tasks]
    runs = [task.result() for task in [begin(task) for task in tasks]]
    for masses in runs:
        if not isinstance(masses, Masses):
            raise InputError(
                f"`estimator` must return Masses; {type(estimator).__name__}.masses returned {type(masses).__name__}."
            )
    return runs


def fits_several(pairs: Iterable[tuple[Samples, Samples]]) -> bool:
    """Whether there is memory for several tasks at once, each on a reference and a system."""
    return max(sum(side.require_features().size for side in pair) for pair in pairs) <= _AT_ONCE


def reduction_of(prepared: Any) -> Reduction | None:
    """The axes of what an estimator's `prepare` returned; the points, which take memory, are not kept."""
    reduction = getattr(prepared, "reduction", None)
    return reduction.without_points() if isinstance(reduction, Reduction) else None


def run_systems(
    tasks: Sequence[Callable[[], Outcome]],
    pairs: Iterable[tuple[Samples, Samples]],
    *,
    alone: bool = False,
    uneven: bool = False,
    progress: tuple[str, Sequence[str]] | None = None,
) -> list[Outcome]:
    """The results of one task per system, several at once: one task does not keep all processors busy all the time.

    They run one by one where there would not be memory for several, or with `alone`, for functions that a user brought and
    that need not be safe on threads. With `uneven`, few of the tasks take long: each may be shared by all processors, not only
    the last ones. `progress` is a verb, and the name of each task, for a bar.
    """
    verb, names = progress or ("", [])
    outcomes: list[Outcome] = []
    with single_threaded_blas():
        threads = 1 if alone or not fits_several(pairs) else max(1, min(cores(), len(tasks)))
        if threads == cores() > 1 and not uneven:  # tasks that share nothing are faster while there are enough of them
            even = len(tasks) - len(tasks) % threads
            tasks = [*(partial(_run_alone, task) for task in tasks[:even]), *tasks[even:]]
        began = time.monotonic()
        with bar(verb, len(tasks) if progress else 0) as show:
            for outcome in ordered_map(_call, tasks, threads, ahead=1):
                outcomes.append(outcome)
                done = len(outcomes)
                rate = 60 * done / max(time.monotonic() - began, 1e-9)
                if progress:
                    show(done, f"{names[done - 1]}: {done}/{len(tasks)} systems, {rate:.0f}/min")
    return outcomes


def _call(task: Callable[[], Outcome]) -> Outcome:
    return task()


def summary_values(measure: Measure, runs: Sequence[Masses]) -> dict[str, tuple[float, ...]]:
    """Each summary in every repeat."""
    summaries = [measure.summarise(masses) for masses in runs]
    return {name: tuple(float(one[name]) for one in summaries) for name in SUMMARIES}


def mean_frontier(curves: Sequence[Frontier]) -> tuple[Frontier, tuple[Frontier, Frontier] | None]:
    """The mean of the curves and, where there are several on one grid, the two between which all of them lie."""
    mean = curves[0]
    if len(curves) == 1 or any(len(curve.lam) != len(mean.lam) for curve in curves):
        return mean, None
    p, q = np.array([(curve.p_to_mix, curve.q_to_mix) for curve in curves]).swapaxes(0, 1)
    mean, low, high = (replace(mean, p_to_mix=f(p, axis=0), q_to_mix=f(q, axis=0)) for f in (np.mean, np.min, np.max))
    return mean, (low, high)
