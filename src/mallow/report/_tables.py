"""The tables of the page as plain values: what each column is about, and each cell with the number that it is sorted by."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from mallow.evaluate import Comparison, Score
from mallow.report._filters import format_number, group_letters, typeset
from mallow.results import at_least, at_most, p_number

CERTAIN, PAPERS = "What is certain", "As in papers"
_TITLES = {"mauve": "MAUVE", "frontier_integral": "Frontier integral", "midpoint": "Mid-point"}


@dataclass(frozen=True)
class Column:
    """A column: its heading, whether it holds numbers, and the heading above it that it shares with its neighbours."""

    title: str
    numeric: bool = True
    group: str = ""


@dataclass(frozen=True)
class Cell:
    """What a cell shows: a text, and small tags beside it; `value` sorts the column, None sorts by the text."""

    text: str
    value: float | None = None
    strong: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table: what it is about, its columns, which of them names the row, and its rows."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    named_by: int = 0

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """The headings above the columns with the number of columns of each; empty where no column has one."""
        runs = tuple((title, len(list(run))) for title, run in groupby(column.group for column in self.columns))
        return runs if any(title for title, _ in runs) else ()


_NOTHING = Cell("–", float("inf"))


def _number(value: float, digits: int = 3) -> Cell:
    return Cell(format_number(value, digits), value)


def _p(value: float) -> Cell:
    return Cell(typeset(p_number(value)), value)


def _range(pair: tuple[float, float] | None) -> Cell:
    return _NOTHING if pair is None else Cell(f"{format_number(pair[0])} to {format_number(pair[1])}", pair[0])


def _certified(score: Score, summary: str) -> tuple[Cell, Cell]:
    """What is certified of a summary, and its limit."""
    one = score.certified.get(summary)
    if one is None:
        return _NOTHING, _NOTHING
    limit = one.high if summary == "mauve" else one.low
    text = f"at most {at_most(limit)}" if summary == "mauve" else f"at least {at_least(limit)}"
    return Cell(format_number(one.value, 4), one.value, strong=True), Cell(text, limit)


def ranking_table(comparison: Comparison) -> Table:
    """The systems in their order: what is certain about each, and apart from it the score as papers give it."""
    ranked, grouped = bool(comparison.ranks), bool(comparison.groups)
    columns = [
        *([Column("Rank", numeric=False)] if ranked else []),
        Column("System", numeric=False),
        *([Column("Group", numeric=False)] if grouped else []),
        Column("Certified MAUVE", group=CERTAIN),
        Column("With 95 % confidence", group=CERTAIN),
        Column("p of no gap", group=CERTAIN),
        Column("Published MAUVE", group=PAPERS),
        Column("95 % of other draws", group=PAPERS),
        Column("Self-score", group=PAPERS),
        Column("Samples"),
    ]
    rows = []
    for name, score in comparison.scores.items():
        letters = (group_letters(place) for place, group in enumerate(comparison.groups) if name in group)
        tags = ("baseline",) if name == comparison.baseline else ()
        rows.append(
            (
                *([rank_cell(comparison.ranks[name])] if ranked else []),
                Cell(name, tags=tags),
                *([Cell("", tags=tuple(letters))] if grouped else []),
                *_certified(score, "mauve"),
                _p(score.p_value),
                _number(score.mauve),
                _range(score.interval.get("mauve")),
                _number(score.self_score["mauve"]),
                Cell(f"{score.n[1]:,}", score.n[1]),
            )
        )
    caption = "The systems, the one closest to the reference first" if len(rows) > 1 else "Evidence and score"
    return Table(caption, tuple(columns), tuple(rows), named_by=int(ranked))


def rank_cell(ranks: tuple[int, int]) -> Cell:
    """The best and the worst rank that a system may have."""
    best, worst = ranks
    return Cell(f"{best}" if best == worst else f"{best}–{worst}", best + worst / 1000)


def difference_table(comparison: Comparison) -> Table:
    """All pairs that were tested: the difference in certified MAUVE, and whether it is more than chance."""
    columns = (
        Column("First", numeric=False),
        Column("Second", numeric=False),
        Column("Difference"),
        Column("95 % interval of it"),
        Column("p"),
        Column("p, corrected for all pairs"),
        Column("Verdict", numeric=False),
    )
    rows = []
    for one in comparison.ordered_differences():
        value, (low, high) = one.difference["mauve"], one.interval["mauve"]
        closer = one.first if value > 0 else one.second
        rows.append(
            (
                Cell(one.first),
                Cell(one.second),
                _number(value, 4),
                Cell(f"{format_number(low, 4)} to {format_number(high, 4)}", low),
                _p(one.p_value["mauve"]),
                _p(one.adjusted["mauve"]),
                Cell(f"{closer} is closer", strong=True) if one.significant else Cell("cannot be told apart"),
            )
        )
    return Table("First minus second, in certified MAUVE", columns, tuple(rows))


def summary_table(scores: dict[str, Score]) -> Table:
    """All three summaries of every system."""
    columns = (
        Column("System", numeric=False),
        Column("Summary", numeric=False),
        Column("Certified", group=CERTAIN),
        Column("With 95 % confidence", group=CERTAIN),
        Column("Published", group=PAPERS),
        Column("95 % of other draws", group=PAPERS),
        Column("Spread over seeds", group=PAPERS),
        Column("Self-score", group=PAPERS),
        Column("Bias-corrected", group="Behind the samples"),
        Column("95 % interval of it", group="Behind the samples"),
    )
    rows = []
    for name, score in scores.items():
        for key, title in _TITLES.items():
            corrected = score.debiased.get(key)
            rows.append(
                (
                    Cell(name),
                    Cell(title),
                    *_certified(score, key),
                    _number(getattr(score, key)),
                    _range(score.interval.get(key)),
                    _number(score.std[key]),
                    _number(score.self_score[key]),
                    _NOTHING if corrected is None else _number(corrected.value),
                    _range(None if corrected is None else (corrected.low, corrected.high)),
                )
            )
    return Table("Every summary of every system", columns, tuple(rows))
