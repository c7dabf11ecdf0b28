"""Metrics and people side by side: what the page shows where a ranking is given."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from mallow.errors import Caveat, EstimateWarning, InputError
from mallow.evaluate import Comparison
from mallow.human import Correlation, Correlations, JudgedRanking, Ranking, Rankings, correlate
from mallow.report._svg import Scale

__all__ = ["AnyRanking", "People", "Scatter", "compare_with_people", "ranking_caveats"]

AnyRanking = Ranking | Rankings | JudgedRanking

_FEWEST = 3  # systems for a correlation
_LINE = 13.0  # the height of a line of names in the drawing


@dataclass(frozen=True)
class Scatter:
    """A metric against people's scores; positions are in a square of 200, lengths of both arms included.

    Attributes
    ----------
    title : str
    x, y : Scale
        The axes of the metric and of people.
    points : tuple of (name, x, y, left, right, bottom, top, label)
        `label` is the height of the name, moved where two would overlap.
    """

    title: str
    x: Scale
    y: Scale
    points: tuple[tuple[str, float, float, float, float, float, float, float], ...]


@dataclass(frozen=True)
class People:
    """What the page says about people.

    Attributes
    ----------
    rankings : dict
        Question → Ranking.
    systems : tuple of str
        All systems that people or metrics know, in the order of the comparison, then of the ranking.
    correlations : tuple of Correlation
        How far the metrics agree with people.
    note : str
        Why there are no correlations; "" where there are.
    scatters : tuple of Scatter
        One per question.
    """

    rankings: dict[str, Ranking]
    systems: tuple[str, ...]
    correlations: tuple[Correlation, ...]
    note: str
    scatters: tuple[Scatter, ...]


def compare_with_people(comparison: Comparison, ranking: AnyRanking) -> People:
    """The rankings, and how far the scores of the comparison agree with them."""
    rankings = _by_question(ranking)
    voted = dict.fromkeys(name for one in rankings.values() for name in one.scores)
    common = [name for name in comparison.scores if name in voted]
    if not common:
        raise InputError(
            f"`ranking` must be of the systems compared ({', '.join(comparison.scores)}); people voted on {', '.join(voted)}."
        )
    systems = (*comparison.scores, *(name for name in voted if name not in comparison.scores))
    if len(common) < _FEWEST:
        return People(rankings, systems, (), f"With fewer than {_FEWEST} common systems there is no correlation.", ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # the page says it in its own words
        try:
            table = correlate(comparison, Rankings(rankings))
        except InputError:  # all values are equal
            return People(rankings, systems, (), "All scores are equal: there is no correlation.", ())
    return People(rankings, systems, table.correlations, "", tuple(_scatter(table, name) for name in rankings))


def ranking_caveats(ranking: AnyRanking | None) -> tuple[Caveat, ...]:
    """The caveats of a ranking, for the list of all."""
    return () if ranking is None else ranking.caveats


def _by_question(ranking: AnyRanking) -> dict[str, Ranking]:
    if isinstance(ranking, Rankings):
        return ranking.rankings
    if isinstance(ranking, JudgedRanking):
        ranking = ranking.ranking
    if not isinstance(ranking, Ranking):
        raise InputError(f"`ranking` must be a Ranking, Rankings or JudgedRanking; got {type(ranking).__name__}.")
    return {ranking.question or "people": ranking}


def _scatter(table: Correlations, question: str) -> Scatter:
    """Certified MAUVE against people, or the published one where nothing was certified."""
    metric = "certified MAUVE" if "certified MAUVE" in table.metrics else "published MAUVE"
    people, own = table.people[question], table.metrics[metric]
    rows = [(name, *own[name], *people[name]) for name in own if name in people]
    low, high = ([min(max(value + side * error, 0.0), 1.0) for _, value, error, _, _ in rows] for side in (-1, 1))
    x = Scale.around([*low, *high], most_ticks=5)
    y = Scale.around([value + side * error for _, _, _, value, error in rows for side in (-1, 1)], most_ticks=6)
    heights = _label_heights([200 - 2 * y(value) for _, _, _, value, _ in rows])
    points = tuple(
        (name, 2 * x(a), 200 - 2 * y(b), 2 * x(left), 2 * x(right), 200 - 2 * y(b - db), 200 - 2 * y(b + db), height)
        for (name, a, _, b, db), left, right, height in zip(rows, low, high, heights, strict=True)
    )
    return Scatter(f"{metric} against people: {question}", x, y, points)


def _label_heights(heights: list[float]) -> list[float]:
    """Where to write the names of points at these heights, so that each line is free."""
    free, placed = -1e9, dict[int, float]()
    for place in sorted(range(len(heights)), key=lambda i: heights[i]):
        free = max(heights[place] - 5, free + _LINE)
        placed[place] = round(free, 1)
    return [placed[place] for place in range(len(heights))]
