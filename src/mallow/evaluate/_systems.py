"""Results about several systems: tables of their scores, their order by significant differences, sentences on it."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from mallow.evaluate._score import Score
from mallow.results import (
    Axes,
    Result,
    TableData,
    draw,
    interval_cell,
    join_names,
    merge_caveats,
    number_cell,
    p_cell,
    render,
)

CERTIFIED = ("certified\nMAUVE", "95% upper\nbound")  # the titles of the first columns
_MOST_PAIRS = 10  # chosen: the differences of more pairs do not fit a screen
_NOT_COMPUTED = "not computed"
# The columns available to tables of scores.
_COLUMNS: dict[str, Callable[[Score], str]] = {
    "certified\nMAUVE": lambda score: number_cell(score.certified["mauve"].value),
    "95% upper\nbound": lambda score: number_cell(score.certified["mauve"].high, rounded="up"),
    "integral\nat least": lambda score: number_cell(score.certified["frontier_integral"].low, rounded="down"),
    "p-value\n(no gap)": lambda score: p_cell(score.p_value),
    "published\nMAUVE": lambda score: number_cell(score.mauve, 3) if score.is_published else _NOT_COMPUTED,
    "published\n(self-score)": lambda score: (
        f"{score.mauve:.3f} ({score.self_score['mauve']:.3f})" if score.is_published else _NOT_COMPUTED
    ),
    "95% of\nrepeat samples": lambda score: interval_cell(*score.interval["mauve"], 3) if score.interval else "–",
    "samples": lambda score: f"{score.n[0]:,} and {score.n[1]:,}",
}


class ScoredSystems(Result, ABC):
    """The common part of results about several scores: systems, checkpoints, decoders, groups, or pairs.

    A subclass has a `verdict`, `caveats`, and `scores` by name, or defines `_scored` if it keeps them elsewhere. Its
    main table has the `COLUMNS`, one row per score, unless it defines another one.
    """

    ALSO: ClassVar[tuple[str, ...]] = ("verdict",)
    COLUMNS: ClassVar[tuple[str, ...]]

    def __str__(self) -> str:
        blocks = [self.verdict, *self._tables()]
        lines = [line for block in blocks for line in (block, "")]
        return self._with_caveats(lines)

    @property
    @abstractmethod
    def verdict(self) -> str:
        """The conclusions from the scores, in a few sentences."""

    def _scored(self) -> dict[str, Score]:
        scores: dict[str, Score] = self.scores  # type: ignore[attr-defined]
        return scores

    def _table(self) -> TableData:
        rows = [[name, *score_cells(score, self.COLUMNS)] for name, score in self._scored().items()]
        return TableData(["", *self.COLUMNS], rows)

    def _blocks(self, width: int | None) -> list[str]:
        verdict = self.verdict if width is None else textwrap.fill(self.verdict, width)
        signature = getattr(getattr(self, "comparison", self), "signature", "")  # "" where scores have no common one
        return [*filter(None, [verdict, *self._tables(width=width), str(signature)])]

    def caveat_lines(self) -> list[str]:
        """The caveats, with equal caveats of several systems merged into one line."""
        return merge_caveats(getattr(self, "caveats", ()), list(self._scored()))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each published score with its interval, and the certified value; returns the axes."""
        ax = draw.axes(ax)
        draw.scores(ax, self._scored())
        return ax


class OrderedSystems:
    """The common part of results about ordered systems: `scores`, best first, `differences` and `ranks`."""

    scores: Mapping[str, Any]
    differences: tuple[Any, ...]
    ranks: Mapping[str, tuple[int, int]]

    @property
    def winner(self) -> str | None:
        """The system that is significantly better than all others; None if there is none."""
        first = next(iter(self.scores))
        return first if len(self.scores) > 1 and self.ranks.get(first) == (1, 1) else None

    @property
    def best(self) -> tuple[str, ...]:
        """The first system, and the systems that do not differ from it significantly."""
        return self._tied_with(next(iter(self.scores)))

    @property
    def last(self) -> str | None:
        """The system that is significantly worse than all others; None if there is none."""
        *_, name = self.scores
        count = len(self.scores)
        return name if count > 1 and self.ranks.get(name) == (count, count) else None

    @property
    def worst(self) -> tuple[str, ...]:
        """The last system, after the systems that do not differ from it significantly."""
        return self._tied_with(list(self.scores)[-1])

    def _tied_with(self, name: str) -> tuple[str, ...]:
        apart = {pair.systems for pair in self.differences if pair.significant}
        return tuple(other for other in self.scores if frozenset((name, other)) not in apart)

    def _rank_text(self, name: str) -> str:
        """The ranks that a system may have; "" if they are not known."""
        best, worst = self.ranks.get(name, (0, 0))
        return "" if not best else f"{best}" if best == worst else f"{best} to {worst}"

    def _order_sentences(self, best: str, others: str, last: str) -> str:
        """The winner, or the systems that may be first, and the last, in the words of the result."""
        level = "(5% level, corrected for all pairs)"
        if self.winner is not None:
            text = f"{best}: {self.winner}. Every other system has {others} {level}."
        else:
            noun = best.split(" ", 1)[1]
            alike = f"no difference was shown between the {noun}s of {join_names(self.best)}"
            text = f"There is no clear winner: {alike} {level}."
        if len(self.scores) == 2:
            return text
        if self.last is not None:
            return f"{text} {last}: {self.last}."
        if not set(self.best) & set(self.worst):
            return f"{text} {last}s: {join_names(self.worst)}, which were not shown to differ."
        return text


class OrderedScores(OrderedSystems, ScoredSystems):
    """The common part of comparisons of scores, which have a table of scores and a table of differences."""

    ALSO = ("winner", "last", "verdict")

    @abstractmethod
    def difference_table(self, form: str = "text", *, width: int | None = None) -> str:
        """The differences as a table."""

    def _tables(self, form: str = "text", width: int | None = None) -> list[str]:
        return [self.table(form, width=width), self.difference_table(form, width=width)]


class SystemPair(ABC):
    """The common part of differences between two systems, `first` minus `second`."""

    first: str
    second: str

    @property
    def systems(self) -> frozenset[str]:
        """Both names."""
        return frozenset((self.first, self.second))

    @property
    @abstractmethod
    def significant(self) -> bool:
        """Whether it is significant after correction."""

    @property
    @abstractmethod
    def better(self) -> str | None:
        """The name of the better system."""


Pair = TypeVar("Pair", bound=SystemPair)


def shown_pairs(pairs: Sequence[Pair], order: Iterable[str]) -> tuple[str, list[Pair]]:
    """The pairs for a table of differences, if there are many only neighbours in this order, and its first title."""
    neighbours = set(pairwise(order))
    shown = [pair for pair in pairs if len(pairs) <= _MOST_PAIRS or (pair.first, pair.second) in neighbours]
    return "difference" if len(shown) == len(pairs) else f"difference\n(neighbours, of {len(pairs)} pairs)", shown


def rank_systems(
    order: Sequence[str], differences: Sequence[SystemPair]
) -> tuple[dict[str, tuple[int, int]], tuple[tuple[str, ...], ...]]:
    """Rank ranges, and the largest sets of neighbours in which no two differ significantly.

    Both are empty without differences.
    """
    if not differences and len(order) > 1:
        return {}, ()
    significant = [pair for pair in differences if pair.significant]
    apart = {pair.systems for pair in significant}
    ranks = {}
    for name in order:
        mine = [pair for pair in significant if name in pair.systems]
        beaten_by = sum(pair.better != name for pair in mine)
        ranks[name] = (1 + beaten_by, len(order) - (len(mine) - beaten_by))
    groups: list[tuple[str, ...]] = []
    for i in range(len(order)):
        group = [order[i]]
        for other in order[i + 1 :]:
            if all(frozenset((name, other)) not in apart for name in group):
                group.append(other)
        if not any(set(group) <= set(earlier) for earlier in groups):
            groups.append(tuple(group))
    return ranks, tuple(groups)


def score_cells(score: Score, columns: Iterable[str]) -> list[str]:
    """The cells of a table about a score, by the titles of their columns."""
    return [_COLUMNS[title](score) for title in columns]


def score_record(score: Score) -> dict[str, Any]:
    """The numbers of a score for a row of a data frame."""
    certified = score.certified["mauve"]
    values = {"mauve": score.mauve, "certified": certified.value, "certified_high": certified.high}
    return {**values, "p_value": score.p_value, "n": score.n[0], "m": score.n[1]}


def render_differences(
    title: str,
    rows: Iterable[tuple[str, str, float, float, float, float]],
    form: str,
    width: int | None,
    digits: int | None = None,
) -> str:
    """Differences of the certified area as a table: two names, the difference, its interval, and a p-value."""
    head = [title, "certified\nMAUVE", "95% interval\nof the difference", "p, corrected\nfor all pairs"]
    cells = [
        [
            f"{first} − {second}",
            number_cell(value, rounded="signed"),
            interval_cell(low, high, rounded="signed"),
            p_cell(p_value),
        ]
        for first, second, value, low, high, p_value in rows
    ]
    return render(form, TableData(head, cells), width=width, digits=digits)
