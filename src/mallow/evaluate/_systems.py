"""Tables of the scores of several systems, and of the differences between them."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from mallow.evaluate._order import OrderedSystems, SystemPair
from mallow.evaluate._score import Score
from mallow.results import (
    Axes,
    Result,
    TableData,
    draw,
    interval_cell,
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


class OrderedScores(OrderedSystems, ScoredSystems):
    """The common part of comparisons of scores, which have a table of scores and a table of differences."""

    ALSO = ("winner", "last", "verdict")

    @abstractmethod
    def difference_table(self, form: str = "text", *, width: int | None = None) -> str:
        """The differences as a table."""

    def _tables(self, form: str = "text", width: int | None = None) -> list[str]:
        return [self.table(form, width=width), self.difference_table(form, width=width)]


Pair = TypeVar("Pair", bound=SystemPair)


def shown_pairs(pairs: Sequence[Pair], order: Iterable[str]) -> tuple[str, list[Pair]]:
    """The pairs for a table of differences, if there are many only neighbours in this order, and its first title."""
    neighbours = set(pairwise(order))
    shown = [pair for pair in pairs if len(pairs) <= _MOST_PAIRS or (pair.first, pair.second) in neighbours]
    return "difference" if len(shown) == len(pairs) else f"difference\n(neighbours, of {len(pairs)} pairs)", shown


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
