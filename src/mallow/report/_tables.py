"""The tables of the page as plain values, with metrics and people side by side if there is a ranking."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from mallow.errors import EstimateWarning, InputError
from mallow.evaluate import Comparison, Score
from mallow.explain import Diagnosis
from mallow.human import Correlation, Correlations, JudgedRanking, Ranking, Rankings, correlate
from mallow.report._sentences import format_number, group_letters, shorten_text, typeset
from mallow.report._svg import Scale
from mallow.results import at_least, at_most, p_number

CERTAIN, PAPERS = "Proven", "As in papers"
_TITLES = {"mauve": "MAUVE", "frontier_integral": "Frontier integral", "midpoint": "Mid-point"}
AnyRanking = Ranking | Rankings | JudgedRanking
_PEOPLE = "people"  # the name of an unnamed question
_FEWEST = 3  # systems for a correlation
_LINE = 13.0  # the height of a line of names in the drawing


@dataclass(frozen=True)
class Column:
    """A column: its heading, whether it holds numbers, and the shared heading above it."""

    title: str
    numeric: bool = True
    group: str = ""


@dataclass(frozen=True)
class Cell:
    """The content of a cell: a text, and small tags; `value` sorts the column, and None sorts by the text."""

    text: str
    value: float | None = None
    strong: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table: its subject, its columns, the column that names the row, and its rows."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    named_by: int = 0

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """The shared headings with the number of columns of each; empty if no column has one."""
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
    """The certified value of a summary, and its limit."""
    estimate = score.certified.get(summary)
    if estimate is None:
        return _NOTHING, _NOTHING
    limit = estimate.high if summary == "mauve" else estimate.low
    text = f"at most {at_most(limit)}" if summary == "mauve" else f"at least {at_least(limit)}"
    return Cell(format_number(estimate.value, 4), estimate.value, strong=True), Cell(text, limit)


def _columns(words: Sequence[str], numbers: Mapping[str, Sequence[str]]) -> tuple[Column, ...]:
    """Columns of words, then columns of numbers by the heading above them."""
    numeric = (Column(title, group=group) for group, titles in numbers.items() for title in titles)
    return (*(Column(title, numeric=False) for title in words), *numeric)


def ranking_table(comparison: Comparison) -> Table:
    """The systems in their order: the proven gap of each, and separately the score as in papers."""
    ranked, grouped = bool(comparison.ranks), bool(comparison.groups)
    columns = _columns(
        [*(["Rank"] if ranked else []), "System", *(["Group"] if grouped else [])],
        {
            CERTAIN: ["Certified MAUVE", "95% upper bound", "p-value"],
            PAPERS: ["Published MAUVE", "95% of repeat samples", "Self-score"],
            "": ["Samples"],
        },
    )
    rows = []
    for name, score in comparison.scores.items():
        letters = (group_letters(number) for number, group in enumerate(comparison.groups) if name in group)
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
    caption = "The systems, the one with the smallest proven gap first" if len(rows) > 1 else "Evidence and score"
    return Table(caption, columns, tuple(rows), named_by=int(ranked))


def off_topic_table(diagnosis: Diagnosis) -> Table | None:
    """Texts that are farther from their prompts than the reference's texts, with these prompts."""
    if not diagnosis.off_topic:
        return None
    rows = [
        (
            Cell(shorten_text(one.prompt)),
            Cell(shorten_text(one.text or "")),
            _number(one.cosine, 2),
            _number(one.reference, 2),
        )
        for one in diagnosis.off_topic
    ]
    caption = "Texts that are farther from their prompts than the reference's texts for the same prompts"
    return Table(caption, _columns(["Prompt", "Text"], {"": ["Cosine", "Reference"]}), tuple(rows))


def rank_cell(ranks: tuple[int, int]) -> Cell:
    """The best and the worst rank that a system may have."""
    best, worst = ranks
    return Cell(f"{best}" if best == worst else f"{best}–{worst}", best + worst / 1000)


def difference_table(comparison: Comparison) -> Table:
    """All tested pairs: the difference in certified MAUVE, and whether it is more than chance."""
    titles = ["Difference", "95% interval", "p", "p, corrected for all pairs"]
    columns = (*_columns(["First", "Second"], {"": titles}), Column("Verdict", numeric=False))
    rows = []
    for pair in comparison.ordered_differences():
        value, (low, high) = pair.difference["mauve"], pair.interval["mauve"]
        closer = pair.first if value > 0 else pair.second
        rows.append(
            (
                Cell(pair.first),
                Cell(pair.second),
                _number(value, 4),
                Cell(f"{format_number(low, 4)} to {format_number(high, 4)}", low),
                _p(pair.p_value["mauve"]),
                _p(pair.adjusted["mauve"]),
                Cell(f"the gap of {closer} is smaller", strong=True)
                if pair.significant
                else Cell("no difference was shown"),
            )
        )
    return Table("First minus second, in certified MAUVE", columns, tuple(rows))


def summary_table(scores: dict[str, Score]) -> Table:
    """All three summaries of every system."""
    columns = _columns(
        ["System", "Summary"],
        {
            CERTAIN: ["Certified", "95% bound"],
            PAPERS: ["Published", "95% of repeat samples", "Spread over seeds", "Self-score"],
            "With unlimited samples": ["Bias-corrected", "95% interval"],
        },
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


@dataclass(frozen=True)
class Scatter:
    """A metric against people's scores; positions are in a square of 200, lengths of both arms included.

    A point is (name, x, y, left, right, bottom, top, label); `label` is the height of the name, moved to avoid
    overlaps.
    """

    title: str
    x: Scale
    y: Scale
    points: tuple[tuple[str, float, float, float, float, float, float, float], ...]


@dataclass(frozen=True)
class People:
    """The page's part about people: the scores of people and metrics in a table, and their agreement."""

    rankings: dict[str, Ranking]  # by question
    systems: tuple[str, ...]  # in the order of the comparison, then of the ranking
    correlations: tuple[Correlation, ...]
    note: str  # the reason for missing correlations; "" otherwise
    scatters: tuple[Scatter, ...]  # one per question
    table: Table
    agreement: Table


def compare_with_people(comparison: Comparison, ranking: AnyRanking) -> People:
    """The rankings, and the agreement of the comparison's scores with them."""
    rankings = _by_question(ranking)
    voted = dict.fromkeys(name for votes in rankings.values() for name in votes.scores)
    common = [name for name in comparison.scores if name in voted]
    if not common:
        raise InputError(
            f"`ranking` must be of the systems compared ({', '.join(comparison.scores)}); people voted on "
            f"{', '.join(voted)}."
        )
    systems = (*comparison.scores, *(name for name in voted if name not in comparison.scores))

    def people(
        correlations: tuple[Correlation, ...] = (), note: str = "", scatters: tuple[Scatter, ...] = ()
    ) -> People:
        tables = _score_table(rankings, systems, comparison), _agreement_table(correlations)
        return People(rankings, systems, correlations, note, scatters, *tables)

    if len(common) < _FEWEST:
        return people(note=f"With fewer than {_FEWEST} common systems there is no correlation.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # the page has its own words for it
        try:
            table = correlate(comparison, Rankings(rankings))
        except InputError:  # all values are equal
            return people(note="All scores are equal: there is no correlation.")
    return people(table.correlations, scatters=tuple(_scatter(table, name) for name in rankings))


def _score_table(rankings: dict[str, Ranking], systems: tuple[str, ...], comparison: Comparison) -> Table:
    """The scores of each system by people and by metrics."""
    columns = [Column("System", numeric=False)]
    for question in rankings:
        said = "People" if question == _PEOPLE else f"People: {question}"
        columns += [Column("Score", group=said), Column("95% interval", group=said)]
        columns += [Column("Rank by people", numeric=False, group=said)]
    columns += [Column("Certified MAUVE", group="Metrics"), Column("Published MAUVE", group="Metrics")]
    nothing = Cell("–", float("-inf"))
    rows = []
    for name in systems:
        row = [Cell(name)]
        for ranking in rankings.values():
            if name not in ranking.scores:
                row += [nothing, nothing, Cell("–", float("inf"))]
                continue
            low, high = ranking.interval[name]
            row += [_signed(ranking.scores[name], "{:+.1f}"), _signed(low, "{:+.1f} to {:+.1f}", high)]
            row += [rank_cell(ranking.ranks[name])]
        score = comparison.scores.get(name)
        certified = score.certified.get("mauve") if score else None
        row += [Cell(format_number(certified.value), certified.value) if certified else nothing]
        row += [Cell(format_number(score.mauve), score.mauve) if score else nothing]
        rows.append(tuple(row))
    return Table("What people say, and what metrics say", tuple(columns), tuple(rows))


def _agreement_table(correlations: tuple[Correlation, ...]) -> Table:
    """The agreement of the metrics with people."""
    titles = ["Spearman correlation", "95% interval", "Worst case", "Systems"]
    columns = _columns(["Metric", "Question"], {"": titles})
    rows = tuple(
        (
            Cell(correlation.metric),
            Cell(correlation.criterion),
            _signed(correlation.spearman.value, "{:.2f}"),
            _signed(correlation.spearman.low, "{:.2f} to {:.2f}", correlation.spearman.high),
            _signed(correlation.worst_case, "{:.2f}"),
            Cell(f"{len(correlation.systems)}", len(correlation.systems)),
        )
        for correlation in correlations
    )
    return Table("How far the metrics agree with people", columns, rows)


def _signed(value: float, form: str, *more: float) -> Cell:
    """Numbers with real minus signs, sorted by the first."""
    return Cell(form.format(value, *more).replace("-", "\u2212"), value)


def _by_question(ranking: AnyRanking) -> dict[str, Ranking]:
    if isinstance(ranking, Rankings):
        return ranking.rankings
    if isinstance(ranking, JudgedRanking):
        ranking = ranking.ranking
    if not isinstance(ranking, Ranking):
        raise InputError(f"`ranking` must be a Ranking, Rankings or JudgedRanking; got {type(ranking).__name__}.")
    return {ranking.question or _PEOPLE: ranking}


def _scatter(table: Correlations, question: str) -> Scatter:
    """Certified MAUVE against people, or published MAUVE if nothing was certified."""
    metric = "certified MAUVE" if "certified MAUVE" in table.metrics else "published MAUVE"
    people, scores = table.people[question], table.metrics[metric]
    rows = [(name, *scores[name], *people[name]) for name in scores if name in people]
    low, high = ([min(max(value + side * error, 0.0), 1.0) for _, value, error, _, _ in rows] for side in (-1, 1))
    x = Scale.around([*low, *high], most_ticks=5)
    y = Scale.around([value + side * error for _, _, _, value, error in rows for side in (-1, 1)], most_ticks=6)
    heights = _label_heights([200 - 2 * y(value) for _, _, _, value, _ in rows])
    points = tuple(
        (name, 2 * x(a), 200 - 2 * y(b), 2 * x(left), 2 * x(right), 200 - 2 * y(b - db), 200 - 2 * y(b + db), height)
        for (name, a, _, b, db), left, right, height in zip(rows, low, high, heights, strict=True)
    )
    title = f"{metric[:1].upper()}{metric[1:]} against people" + ("" if question == _PEOPLE else f": {question}")
    return Scatter(title, x, y, points)


def _label_heights(heights: list[float]) -> list[float]:
    """Heights for the names of points at these heights, without overlaps."""
    free, placed = -1e9, dict[int, float]()
    for point in sorted(range(len(heights)), key=lambda i: heights[i]):
        free = max(heights[point] - 5, free + _LINE)
        placed[point] = round(free, 1)
    return [placed[point] for point in range(len(heights))]
