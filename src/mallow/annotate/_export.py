"""What leaves the database: votes for `mallow rank`, annotators for their pay, and the owner's overview."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mallow.annotate._store import Store
from mallow.errors import InputError
from mallow.human import Study, Task, Vote, krippendorff_alpha

_CHECKS = ("gold_right", "gold", "repeats_same", "repeats")
_PERSON_COLUMNS = ("judged", "skipped", "late", "seconds", *_CHECKS)


def export_votes(store: Store) -> tuple[Vote, ...]:
    """All votes that count, in the order in which they were given; `annotator` is a random id, not a name.

    Answers that came after the time-out, when the pair had all its votes, are not among them.
    """
    return _votes(store.study, store.dump())


def votes_text(votes: tuple[Vote, ...]) -> str:
    """Votes as they are written to votes.jsonl: one per line; fields without a value are left out."""
    optional = ("expected", "left_length", "right_length")
    rows = (
        {key: value for key, value in asdict(vote).items() if key not in optional or value is not None}
        for vote in votes
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def annotator_table(store: Store) -> str:
    """One line per annotator as CSV: who they are, what they did, and their completion code."""
    table = io.StringIO()
    writer = csv.writer(table)
    identity = ("id", "name", "source", "external", "session")
    writer.writerow([*identity, *_PERSON_COLUMNS, "completion_code"])
    for person in overview(store).people:
        who = [harmless(str(person[name])) for name in identity]
        numbers = ["" if person[name] is None else person[name] for name in _PERSON_COLUMNS]
        writer.writerow([*who, *numbers, store.signer.completion_code(person["id"])])
    return table.getvalue()


@dataclass(frozen=True)
class Overview:
    """What the owner sees.

    Attributes
    ----------
    open : bool
    given, wanted : int
        Votes on pairs so far, and in the end.
    pairs : list of dict
        For each pair of systems: first, second, given, wanted.
    people : list of dict
        For each annotator: id, name, source, judged, skipped, late, seconds (median), gold, gold_right, repeats,
        repeats_same.
    agreement : list of dict
        For each question: among annotators who judged the same pair, the share of pairs of answers that prefer the same
        side (None without such pairs), how many there are, and Krippendorff's α of the five options. The same share for
        repeats and for gold pairs.
    seconds : tuple of float or None
        Lower quartile, median and upper quartile of the time per pair.
    skips : list of (reason, count)
    """

    open: bool
    given: int
    wanted: int
    pairs: list[dict[str, Any]]
    people: list[dict[str, Any]]
    agreement: list[dict[str, Any]]
    seconds: tuple[float, float, float] | None
    skips: list[tuple[str, int]]


def overview(store: Store) -> Overview:
    """Progress, agreement and times so far."""
    study, tables = store.study, store.dump()
    votes = _votes(study, tables)
    first = study.form.questions[0].name
    by_question: dict[str, list[Vote]] = {question.name: [] for question in study.form.questions}
    for vote in votes:
        by_question[vote.question].append(vote)
    pages = by_question[first]  # one vote per page
    tasks = [vote for vote in pages if vote.kind == "task"]
    counted = Counter(frozenset((vote.left, vote.right)) for vote in tasks)
    pairs = [
        {"first": a, "second": b, "given": counted[frozenset((a, b))], "wanted": count * study.votes}
        for (a, b), count in study.pair_counts.items()
    ]
    seconds = [vote.seconds for vote in tasks if vote.seconds is not None]
    quartiles = tuple(statistics.quantiles(seconds, n=4)) if len(seconds) > 1 else None
    reasons = Counter(row["reason"] for row in tables["assignments"] if row["state"] == "skipped")
    return Overview(
        open=store.is_open(),
        given=len(tasks),
        wanted=len(study.tasks) * study.votes,
        pairs=pairs,
        people=_people(tables, votes, first),
        agreement=[_agreement(name, asked) for name, asked in by_question.items()],
        seconds=quartiles,  # type: ignore[arg-type]
        skips=reasons.most_common(),
    )


def _votes(study: Study, tables: dict[str, list[dict[str, Any]]]) -> tuple[Vote, ...]:
    tasks = {task.id: task for task in (*study.tasks, *study.gold)}
    latest: dict[tuple[str, int], dict[str, Any]] = {}
    times: dict[tuple[str, int], dict[str, float]] = {}
    for row in tables["submissions"]:  # in the order of their numbers
        key = (row["annotator"], row["place"])
        latest[key] = row
        pages = times.setdefault(key, {})
        pages[row["page"]] = max(row["seconds"], pages.get(row["page"], 0.0))
    votes = []
    known = {row["id"] for row in tables["annotators"]}
    for row in tables["assignments"]:
        key = (row["annotator"], row["place"])
        if row["state"] == "done" and key in latest and row["task"] in tasks:
            seconds = sum(times[key].values())
            try:
                if row["annotator"] not in known:
                    raise ValueError("the annotator is missing")
                page = _page_votes(study, tasks[row["task"]], row, latest[key], seconds)
            except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
                raise InputError(
                    f"the database is damaged: the answer of annotator {key[0]} to pair {key[1]} cannot be read: "
                    f"{error}. Restore a copy of the file."
                ) from error
            votes.append((latest[key]["received"], key, page))
    votes.sort(key=lambda entry: entry[:2])
    return tuple(vote for *_, page in votes for vote in page)


def _page_votes(
    study: Study, task: Task, row: dict[str, Any], submission: dict[str, Any], seconds: float
) -> list[Vote]:
    """The votes of one page. All its questions share the time that the page was looked at."""
    left, right = (task.left, task.left_length), (task.right, task.right_length)
    if row["swapped"]:
        left, right = right, left
    answers, seconds = json.loads(submission["answers"]), round(seconds, 2)
    when = datetime.fromtimestamp(submission["received"], UTC).isoformat(timespec="seconds")
    return [
        Vote(
            left=left[0],
            right=right[0],
            answer=answers[question.name],
            question=question.name,
            annotator=row["annotator"],
            prompt=task.prompt,
            seconds=seconds,
            kind=row["kind"],
            task=task.id,
            expected=task.expected if row["kind"] == "gold" and question.gold else None,
            left_length=left[1],
            right_length=right[1],
            when=when,
        )
        for question in study.form.questions
        if question.name in answers
    ]


def _people(tables: dict[str, list[dict[str, Any]]], votes: tuple[Vote, ...], first: str) -> list[dict[str, Any]]:
    given: dict[str, list[Vote]] = {row["id"]: [] for row in tables["annotators"]}
    for vote in votes:
        given[vote.annotator].append(vote)
    states: dict[str, Counter[str]] = {id_: Counter() for id_ in given}
    for row in tables["assignments"]:
        states[row["annotator"]][row["state"]] += 1
    return [_person(row, given[row["id"]], states[row["id"]], first) for row in tables["annotators"]]


def _person(row: dict[str, Any], votes: list[Vote], states: Counter[str], first: str) -> dict[str, Any]:
    seconds = [vote.seconds for vote in votes if vote.question == first and vote.seconds is not None]
    return {
        **row,
        "judged": states["done"] + states["late"],
        "skipped": states["skipped"],
        "late": states["late"],
        "seconds": statistics.median(seconds) if seconds else None,
        **_quality_checks(votes),
    }


def _agreement(question: str, votes: list[Vote]) -> dict[str, Any]:
    """How far annotators agree in one question, from the votes about it."""
    tally = Counter([vote.task for vote in votes if vote.kind == "task"])
    groups: dict[str, list[Vote]] = {}
    for vote in votes:
        if vote.kind == "task" and tally[vote.task] > 1:  # most studies have one vote for a pair
            groups.setdefault(vote.task, []).append(vote)
    shared = list(groups.values())
    pairs = agreeing = 0
    for group in shared:
        counts = Counter(vote.winner for vote in group)
        pairs += len(group) * (len(group) - 1) // 2
        agreeing += sum(count * (count - 1) // 2 for count in counts.values())
    answers = [[vote.answer for vote in group] for group in shared]
    return {
        "question": question,
        "share": agreeing / pairs if pairs else None,
        "pairs": pairs,
        "alpha": krippendorff_alpha(answers, "ordinal") if pairs else None,
        **_quality_checks(votes),
    }


def _quality_checks(votes: list[Vote]) -> dict[str, int]:
    """How many gold pairs were answered as expected, and how many repeated ones as before, ties included."""
    gold = [np.sign(vote.answer) == np.sign(vote.expected) for vote in votes if vote.expected is not None]
    again = [(vote, (vote.annotator, vote.task, vote.question)) for vote in votes if vote.kind == "repeat"]
    repeated = {vote.task for vote, _ in again}
    before = {
        (vote.annotator, vote.task, vote.question): vote.winner
        for vote in votes
        if vote.task in repeated and vote.kind == "task"
    }
    repeats = [vote.winner == before[key] for vote, key in again if key in before]
    return dict(zip(_CHECKS, (int(sum(gold)), len(gold), sum(repeats), len(repeats)), strict=True))


def harmless(cell: str) -> str:
    """A cell that a spreadsheet does not take for a formula."""
    return "'" + cell if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
