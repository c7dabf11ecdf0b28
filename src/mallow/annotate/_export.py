"""Exports of the database: votes for `mallow rank`, annotators for their pay, and the owner's overview."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import json
import operator
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from mallow.annotate._store import Store
from mallow.errors import InputError
from mallow.human import Question, Study, Task, Vote, krippendorff_alpha

_CHECKS = ("gold_right", "gold", "repeats_same", "repeats")
_PERSON_COLUMNS = ("judged", "skipped", "late", "seconds", *_CHECKS)


def export_votes(store: Store) -> tuple[Vote, ...]:
    """All votes that count, in the order in which they were given; `annotator` is a random id, not a name.

    Answers that came after the time-out, when the pair had all its votes, are not among them.
    """
    pages = _pages(store.study, store.dump())
    return tuple(vote for page in pages for vote in _page_votes(store.study, page))


def votes_text(votes: tuple[Vote, ...]) -> str:
    """Votes as they are written to votes.jsonl: one per line, without fields that have no value."""
    optional = ("expected", "left_length", "right_length")
    rows = (
        {key: value for key, value in asdict(vote).items() if key not in optional or value is not None}
        for vote in votes
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def annotator_table(store: Store) -> str:
    """One line per annotator as CSV: name, work done and completion code."""
    columns = ("id", "name", "source", "external", "session", *_PERSON_COLUMNS)
    people = overview(store).people
    rows = [[*(person[name] for name in columns), store.signer.completion_code(person["id"])] for person in people]
    return csv_text([[*columns, "completion_code"], *rows])


@dataclass(frozen=True)
class Overview:
    """The owner's overview of a study.

    `agreement` has, for each question and among annotators who judged the same pair, the share of pairs of answers that
    prefer the same side (None without such pairs), how many there are, and Krippendorff's α of the five options. It has
    the same share for repeats and for gold pairs.
    """

    open: bool
    given: int  # votes on pairs so far
    wanted: int  # and in the end
    pairs: list[dict[str, Any]]  # of systems: first, second, given, wanted
    people: list[dict[str, Any]]  # id, name, source, judged, skipped, late, seconds (median), and both kinds of checks
    agreement: list[dict[str, Any]]
    seconds: tuple[float, float, float] | None  # lower quartile, median and upper quartile of the time per pair
    skips: list[tuple[str, int]]  # reasons with their counts


def overview(store: Store) -> Overview:
    """Progress, agreement and times so far."""
    study, tables = store.study, store.dump()
    pages = _pages(study, tables)
    tasks = [page for page in pages if page.kind == "task"]
    counted = Counter(frozenset((page.task.left, page.task.right)) for page in tasks)
    pairs = [
        {"first": a, "second": b, "given": counted[frozenset((a, b))], "wanted": count * study.votes}
        for (a, b), count in study.pair_counts.items()
    ]
    seconds = [page.seconds for page in tasks]
    quartiles = tuple(statistics.quantiles(seconds, n=4)) if len(seconds) > 1 else None
    reasons = Counter(row["reason"] for row in tables["assignments"] if row["state"] == "skipped")
    return Overview(
        open=store.is_open(),
        given=len(tasks),
        wanted=len(study.tasks) * study.votes,
        pairs=pairs,
        people=_people(study, tables, pages),
        agreement=[_agreement(question, pages) for question in study.form.questions],
        seconds=quartiles,  # type: ignore[arg-type]
        skips=reasons.most_common(),
    )


class _Page(NamedTuple):
    """The latest answers of an annotator to a pair: one vote per question."""

    received: float
    annotator: str
    place: int
    task: Task
    kind: str
    swapped: bool
    answers: dict[str, int]
    seconds: float
    when: datetime

    def preferred(self, question: str) -> int:
        """The side of the task that was preferred, even if the sides were shown exchanged; 0 for a tie."""
        answer = self.answers[question]
        return (answer > 0) - (answer < 0) if not self.swapped else (answer < 0) - (answer > 0)


def _pages(study: Study, tables: dict[str, list[dict[str, Any]]]) -> list[_Page]:
    """Every pair that was answered and counts, in the order in which the answers came."""
    tasks = {task.id: task for task in (*study.tasks, *study.gold)}
    latest: dict[tuple[str, int], dict[str, Any]] = {}
    seconds: dict[tuple[str, int], float] = {}
    for key, rows in itertools.groupby(tables["submissions"], operator.itemgetter("annotator", "place")):
        longest: dict[str, float] = {}
        for latest[key] in rows:  # in the order of their numbers
            page = latest[key]["page"]
            longest[page] = max(latest[key]["seconds"], longest.get(page, 0.0))
        seconds[key] = round(sum(longest.values()), 2)

    @functools.cache  # annotators have few different answers
    def read_answers(text: str) -> dict[str, int]:
        given = json.loads(text)
        answers = {question.name: given[question.name] for question in study.form.questions if question.name in given}
        for name, answer in answers.items():
            Vote("left", "right", answer, name, "", "", None)  # raises an error if it is no answer
        return answers

    pages = []
    known = {row["id"] for row in tables["annotators"]}
    for row in tables["assignments"]:
        key = (row["annotator"], row["place"])
        if row["state"] == "done" and key in latest and row["task"] in tasks:
            try:
                if row["annotator"] not in known:
                    raise ValueError("the annotator is missing")
                answers, received = read_answers(latest[key]["answers"]), latest[key]["received"]
                when = datetime.fromtimestamp(received, UTC)
            except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
                raise InputError(
                    f"the database is damaged: the answer of annotator {key[0]} to pair {key[1]} cannot be read: "
                    f"{error}. Restore a copy of the file."
                ) from error
            task, swapped = tasks[row["task"]], bool(row["swapped"])
            pages.append(_Page(received, *key, task, row["kind"], swapped, answers, seconds[key], when))
    return sorted(pages, key=operator.itemgetter(0, 1, 2))


def _page_votes(study: Study, page: _Page) -> Iterator[Vote]:
    """The votes of one page. All its questions share the time that the page was looked at."""
    task = page.task
    left, right = (task.left, task.left_length), (task.right, task.right_length)
    if page.swapped:
        left, right = right, left
    when = page.when.isoformat(timespec="seconds")
    for question in study.form.questions:
        if question.name in page.answers:
            yield Vote(
                left=left[0],
                right=right[0],
                answer=page.answers[question.name],
                question=question.name,
                annotator=page.annotator,
                prompt=task.prompt,
                seconds=page.seconds,
                kind=page.kind,
                task=task.id,
                expected=_expected(page, question),
                left_length=left[1],
                right_length=right[1],
                when=when,
            )


def _expected(page: _Page, question: Question) -> int | None:
    return page.task.expected if page.kind == "gold" and question.gold else None


def _people(study: Study, tables: dict[str, list[dict[str, Any]]], pages: list[_Page]) -> list[dict[str, Any]]:
    """For each annotator, the row of the table with the work done."""
    given: dict[str, list[_Page]] = {row["id"]: [] for row in tables["annotators"]}
    for page in pages:
        given[page.annotator].append(page)
    states = Counter((row["annotator"], row["state"]) for row in tables["assignments"])
    first, people = study.form.questions[0].name, []
    for row in tables["annotators"]:
        done, late, skipped = (states[row["id"], state] for state in ("done", "late", "skipped"))
        seconds = [page.seconds for page in given[row["id"]] if first in page.answers]
        checks = [_quality_checks(question, given[row["id"]]) for question in study.form.questions]
        people.append(
            {
                **row,
                "judged": done + late,
                "skipped": skipped,
                "late": late,
                "seconds": statistics.median(seconds) if seconds else None,
                **{name: sum(check[name] for check in checks) for name in _CHECKS},
            }
        )
    return people


def _agreement(question: Question, pages: list[_Page]) -> dict[str, Any]:
    """How far annotators agree in one question."""
    name = question.name
    asked = [page for page in pages if page.kind == "task" and name in page.answers]
    groups: dict[str, list[_Page]] = {}
    for page in asked:
        groups.setdefault(page.task.id, []).append(page)
    shared = [group for group in groups.values() if len(group) > 1]
    pairs = agreeing = 0
    for group in shared:
        counts = Counter(page.preferred(name) for page in group)
        pairs += len(group) * (len(group) - 1) // 2
        agreeing += sum(count * (count - 1) // 2 for count in counts.values())
    answers = [[page.answers[name] for page in group] for group in shared]
    return {
        "question": name,
        "share": agreeing / pairs if pairs else None,
        "pairs": pairs,
        "alpha": krippendorff_alpha(answers, "ordinal") if pairs else None,
        **_quality_checks(question, pages),
    }


def _quality_checks(question: Question, pages: list[_Page]) -> dict[str, int]:
    """How many gold pairs were answered as expected, and how many repeated ones as before, ties included."""
    name = question.name
    checks = [page for page in pages if page.kind != "task" and name in page.answers]  # only a few pages are checks
    gold = [
        np.sign(page.answers[name]) == np.sign(expected)
        for page in checks
        if (expected := _expected(page, question)) is not None
    ]
    again = {(page.annotator, page.task.id): page.preferred(name) for page in checks if page.kind == "repeat"}
    repeated = {task for _, task in again}
    before = {
        (page.annotator, page.task.id): page.preferred(name)
        for page in (pages if repeated else ())
        if page.task.id in repeated and page.kind == "task" and name in page.answers
    }
    repeats = [preferred == before[key] for key, preferred in again.items() if key in before]
    return dict(zip(_CHECKS, (int(sum(gold)), len(gold), sum(repeats), len(repeats)), strict=True))


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV; no text in it is taken for a formula by a spreadsheet, and None is an empty cell."""
    table = io.StringIO()
    for row in rows:
        cells = (f"'{cell}" if str(cell)[:1] in ("=", "+", "-", "@", "\t", "\r") else cell for cell in row)
        csv.writer(table).writerow(cells)
    return table.getvalue()
