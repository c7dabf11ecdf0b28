"""The common parts of work on several systems: their points, their random numbers, and parallel tasks."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow.embed import shares_prompts
from mallow.engine import bar, cores, one_core, ordered_map, single_threaded_blas
from mallow.estimate import as_features, same_width
from mallow.samples import Samples

_CONSTANT = 1e-6  # chosen: a column whose values differ by less, relative to their size, is ignored
_AT_ONCE = 2**26  # chosen: several tasks run at once if a reference and a system have at most this many numbers


Outcome = TypeVar("Outcome")


def generator_for(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose, so that an additional purpose changes nothing else."""
    return np.random.default_rng([seed, *purpose.encode()])


def pair_points(reference: Samples, model: Samples) -> tuple[NDArray[Any], NDArray[Any]]:
    """The features of both sides in the form for estimators; they were checked to be finite on input."""
    x, y = (as_features(name, side.require_features()) for name, side in (("reference", reference), ("model", model)))
    same_width(x, y)
    return x, y


def pair_spaces(
    reference: Samples, model: Samples, *, prompts: bool = True
) -> tuple[NDArray[Any], NDArray[Any], dict[str, int]]:
    """All columns that evidence uses, of both sides, and the number of columns of each space, by name.

    The first space, "", has the features, and the prompts if both sides have the same prompts: then the part of a text
    that its prompt determines is not noise. The other spaces that both sides have follow. Without `prompts`, only the
    texts are used.
    """
    sides = pair_points(reference, model)
    columns, widths = pair_columns(reference, model, prompts=prompts)
    widths[""] += sides[0].shape[1]
    if not columns[0]:
        return *sides, widths
    x, y = (
        np.concatenate([rows, *more], axis=1, dtype=np.result_type(np.float32, rows.dtype))
        for rows, more in zip(sides, columns, strict=True)
    )
    return x, y, widths


def pair_columns(
    reference: Samples, model: Samples, *, prompts: bool = True
) -> tuple[tuple[list[NDArray[Any]], list[NDArray[Any]]], dict[str, int]]:
    """What `pair_spaces` puts beside the features of both sides, and how many columns it adds to each space."""
    spaces_of = [dict(side.spaces or {}) for side in (reference, model)]
    if not prompts or not shares_prompts(reference, model):
        for spaces in spaces_of:
            spaces.pop("prompt", None)
            spaces.pop("prompts", None)
    names = [name for name in spaces_of[0] if name in spaces_of[1] and _varies(spaces_of[0][name], spaces_of[1][name])]
    others = [name for name in names if name != "prompt"]
    order = ["prompt", *others] if "prompt" in names else others
    widths = {"": spaces_of[0]["prompt"].shape[1] if "prompt" in names else 0}
    widths |= {name: spaces_of[0][name].shape[1] for name in others}
    first, second = ([spaces[name] for name in order] for spaces in spaces_of)
    return (first, second), widths


def _varies(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether two tables have the same columns, and at least one of these varies between samples."""
    if first.shape[1] != second.shape[1]:
        return False
    low, high = (
        function([first.min(axis=0), second.min(axis=0), first.max(axis=0), second.max(axis=0)], axis=0)
        for function in (np.min, np.max)
    )
    return bool((high - low > _CONSTANT * np.maximum(np.abs(low), np.abs(high))).any())


def run_alone(task: Callable[[], Outcome]) -> Outcome:
    """The result of a task that runs on one processor."""
    with one_core():
        return task()


def fits_several(pairs: Iterable[tuple[Samples, Samples]]) -> bool:
    """Whether memory suffices for several tasks at once, each on a reference and a system."""
    return max(sum(side.require_features().size for side in pair) for pair in pairs) <= _AT_ONCE


def run_systems(
    tasks: Sequence[Callable[[], Outcome]],
    pairs: Iterable[tuple[Samples, Samples]],
    *,
    alone: bool = False,
    progress: tuple[str, Sequence[str]] | None = None,
) -> list[Outcome]:
    """The results of one task per system, several at once, since one task cannot keep all processors busy.

    They run one by one without memory for several, or with `alone`, for a user's functions, which need not be safe on
    threads. `progress` is a verb and the name of each task, for a progress bar.
    """
    verb, names = progress or ("", [])
    outcomes: list[Outcome] = []
    with single_threaded_blas():
        threads = 1 if alone or not fits_several(pairs) else max(1, min(cores(), len(tasks)))
        began = time.monotonic()
        with bar(verb, len(tasks) if progress else 0) as show:
            for outcome in ordered_map(operator.call, tasks, threads, ahead=1):
                outcomes.append(outcome)
                done = len(outcomes)
                rate = 60 * done / max(time.monotonic() - began, 1e-9)
                if progress:
                    show(done, f"{names[done - 1]}: {done}/{len(tasks)} systems, {rate:.0f}/min")
    return outcomes
