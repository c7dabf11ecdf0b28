"""How far annotators agree on the same pairs: Krippendorff's α."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.human._votes import Vote

Level = Literal["nominal", "ordinal"]
Floats = NDArray[np.float64]


def krippendorff_alpha(
    units: Mapping[str, Sequence[float]] | Sequence[Sequence[float]], level: Level = "nominal"
) -> float:
    """Krippendorff's α: 1 for perfect agreement, 0 for what chance gives, below 0 for systematic disagreement.

    α = 1 − Dₒ/Dₑ, the observed over the expected disagreement of two values of one unit (Krippendorff, Content Analysis, ch. 12).
    "nominal": values agree or not. "ordinal": the distance of two values is the number of values given between them, where
    each end counts half.

    Parameters
    ----------
    units : sequences of numbers
        The values that the annotators gave to each unit, in any order. A unit with fewer than two values plays no part.
    level : str
        "nominal" or "ordinal".

    Examples
    --------
    >>> krippendorff_alpha([[1, 1], [2, 2], [1, 1]])
    1.0
    >>> round(krippendorff_alpha([[1, 2], [2, 2], [1, 1], [3, 3]]), 3)
    0.667
    """
    if level not in ("nominal", "ordinal"):
        raise InputError(f"`level` must be nominal or ordinal; got {level!r}.")
    rows = [list(values) for values in (units.values() if isinstance(units, Mapping) else units)]
    rows = [values for values in rows if len(values) > 1]
    if not rows:
        raise InputError("`units` must hold a unit with at least two values: nobody rated the same thing twice.")
    categories = sorted({value for values in rows for value in values})
    place = {value: i for i, value in enumerate(categories)}
    counts = np.zeros((len(rows), len(categories)))
    for row, values in enumerate(rows):
        for value in values:
            counts[row, place[value]] += 1
    if len(categories) == 1:
        return 1.0
    sizes = counts.sum(axis=1)
    # Coincidences: every pair of values of a unit, weighted so that each value counts once.
    coincidence = (counts / (sizes - 1)[:, None]).T @ counts - np.diag((counts / (sizes - 1)[:, None]).sum(axis=0))
    totals = coincidence.sum(axis=1)
    n = totals.sum()
    distance = _distances(totals, level)
    observed = float((coincidence * distance).sum())
    expected = float((np.outer(totals, totals) * distance).sum()) / (n - 1)
    return float(1.0 - observed / expected)


def _distances(totals: Floats, level: Level) -> Floats:
    if level == "nominal":
        return 1.0 - np.eye(len(totals))
    middle = np.cumsum(totals) - totals / 2  # values below, and half of the own ones
    squares: Floats = (middle[:, None] - middle[None, :]) ** 2
    return squares


def oriented_answers(votes: Sequence[Vote]) -> dict[tuple[str, str, tuple[str, str], str], list[tuple[str, int]]]:
    """(question, prompt, pair, task) → who answered what, seen from the first system of the pair: 2 is definitely that one.

    Votes without a prompt and a task are about unknown texts and are left out.
    """
    units: dict[tuple[str, str, tuple[str, str], str], list[tuple[str, int]]] = {}
    for vote in votes:
        if not (vote.prompt or vote.task):
            continue
        answer = -vote.answer if vote.left == vote.pair[0] else vote.answer
        key = (vote.question, vote.prompt, vote.pair, vote.task if not vote.prompt else "")
        units.setdefault(key, []).append((vote.annotator, answer))
    return units


def alpha_of_votes(votes: Sequence[Vote], level: Level) -> tuple[float | None, int]:
    """α over pairs that several people judged, and how many these are; None where there are none.

    "nominal" asks who won or whether it was a tie; "ordinal" uses all five options.
    """
    units = []
    for answers in oriented_answers(votes).values():
        last = dict(answers)  # one value per person
        if len(last) > 1:
            units.append([float(a) if level == "ordinal" else math.copysign(1.0, a) * (a != 0) for a in last.values()])
    return (krippendorff_alpha(units, level), len(units)) if units else (None, 0)
