"""Files of votes: their formats, reading and writing."""

from __future__ import annotations

import ast
import csv
import html
import io
import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mallow._checks import number_of
from mallow._files import parse_json, read_text, write_text
from mallow.errors import InputError
from mallow.human._votes import Vote, Votes

Row = Mapping[str, Any]

_PUBLISHED = {"q1": "interesting", "q2": "sensible", "q3": "human-like"}
_CODES = {"2a": -2, "1a": -1, "tie": 0, "0": 0, "1b": 1, "2b": 2}
_WINNERS = {
    **dict.fromkeys(("model_a", "a", "left", "first", "1"), -1),
    **dict.fromkeys(("tie", "tie (bothbad)", "both bad", "bothbad", "both good", "equal", "draw"), 0),
    **dict.fromkeys(("model_b", "b", "right", "second", "2"), 1),
}
_WORDS = {
    f"{strength} {side}": sign * size
    for strength, size in (("definitely", 2), ("slightly", 1))
    for sides, sign in ((("left", "a"), -1), (("right", "b"), 1))
    for side in sides
}
_TAG = re.compile(r"<[^>]*>")
FASTEST = 25.0  # seconds; paper: answers faster than this were dropped in the published analysis


class DroppedRow(Exception):  # noqa: N818 - it is not an error
    """A row without a vote. The reason is counted."""


@dataclass(frozen=True)
class Format:
    """A format of files: its name in messages, its required columns, and the function for the votes of one row."""

    name: str
    needs: tuple[str, ...]
    votes: Callable[[Row], Iterator[Vote]]


def _own(row: Row) -> Iterator[Vote]:
    """One vote per row, as `mallow annotate` exports it; in CSV all fields are strings."""
    names = {field.name for field in fields(Vote)}
    values = {name: value for name, value in row.items() if name in names and value not in (None, "")}
    for name in ("answer", "expected"):
        if name in values:
            values[name] = _whole(name, values[name])
    for name in ("seconds", "left_length", "right_length"):
        values[name] = _number(name, values.get(name))
    if "judge" in values:
        values["judge"] = _truth(values["judge"])
    texts = ("left", "right", "question", "annotator", "prompt", "task", "when", "kind")
    values |= {name: _text(name, values[name]) for name in texts if name in values}
    yield Vote(**({"question": "", "annotator": "", "prompt": ""} | values))


def _mturk(row: Row) -> Iterator[Vote]:
    """A row of a Mechanical Turk batch of the published study: Input.model_a, Input.model_b, Answer.q1, …, Answer.te.

    Codes: 2a definitely the first, 1a slightly, 1b slightly the second, 2b definitely. In the files of the study ties
    are stored as 1a.
    """
    if str(row.get("AssignmentStatus", "")).lower() == "rejected":
        raise DroppedRow("rejected assignment")
    questions = [name for name in row if re.fullmatch(r"Answer\.\w+", name) and name != "Answer.te"]
    published = {f"Answer.{name}" for name in _PUBLISHED} == set(questions)
    seconds = _number("Answer.te", row.get("Answer.te", row.get("WorkTimeInSeconds")))
    for name in questions:
        code = str(row[name]).strip()
        if not code:
            continue
        short = name.removeprefix("Answer.")
        yield Vote(
            _system(_text("Input.model_a", row["Input.model_a"])),
            _system(_text("Input.model_b", row["Input.model_b"])),
            _code(code, _CODES, name),
            question=_PUBLISHED[short] if published else short,
            annotator=_label(row, "WorkerId"),
            prompt=_label(row, "Input.idx", "Input.ctx"),
            seconds=seconds,
            task=_label(row, "HITId"),
            left_length=_words(row.get("Input.completiona")),
            right_length=_words(row.get("Input.completionb")),
        )


def _arena(row: Row) -> Iterator[Vote]:
    """model_a, model_b, winner: one battle per row."""
    yield Vote(
        _text("model_a", row["model_a"]),
        _text("model_b", row["model_b"]),
        _code(str(row["winner"]).strip(), _WINNERS, "winner"),
        question="preference",
        annotator=_label(row, "judge", "annotator"),
        prompt=_label(row, "question_id", "prompt"),
        seconds=None,
        task=_label(row, "id", "question_id"),
        when=_label(row, "tstamp"),
    )


def _arena_judges(row: Row) -> Iterator[Vote]:
    """first, second, human, and one column per judge that is a program."""
    for column, code in row.items():
        if column in ("id", "first", "second") or not str(code).strip():
            continue
        person = column == "human"
        yield Vote(
            _text("first", row["first"]),
            _text("second", row["second"]),
            _code(str(code).strip(), _WINNERS, column),
            question="preference",
            annotator="" if person else column,
            prompt="",
            seconds=None,
            task=_label(row, "id"),
            judge=not person,
        )


def _label_studio(row: Row) -> Iterator[Vote]:
    """One task of a Label Studio export; `Pairwise` controls, or `Choices` with the five published options."""
    data = row["data"]
    names = (("model_a", "model_b"), ("left_model", "right_model"), ("left", "right"))
    sides = next((pair for pair in names if set(pair) <= set(data)), None)
    if sides is None:
        raise InputError(
            f"each task's data must name the systems as model_a and model_b, but it has "
            f"{', '.join(map(str, data))}. Pass "
            "`columns={'model_a': …, 'model_b': …}`."
        )
    for annotation in row["annotations"]:
        who = annotation.get("completed_by", "")
        who = _label(who, "email", "id") if isinstance(who, Mapping) else _label(annotation, "completed_by")
        if annotation.get("was_cancelled"):
            continue
        for result in annotation.get("result", ()):
            value = result.get("value", {})
            answer = value.get("selected") if result.get("type") == "pairwise" else (value.get("choices") or [None])[0]
            if answer is None:
                continue
            yield Vote(
                _text(sides[0], data[sides[0]]),
                _text(sides[1], data[sides[1]]),
                _code(str(answer).strip(), _WINNERS | _WORDS, str(result.get("from_name"))),
                question=_label(result, "from_name"),
                annotator=who,
                prompt=_label(data, "prompt"),
                seconds=_number("lead_time", annotation.get("lead_time")),
                task=_label(row, "id"),
            )


FORMATS = (
    Format("mallow's own", ("left", "right", "answer"), _own),
    Format("Mechanical Turk", ("Input.model_a", "Input.model_b"), _mturk),
    Format("arena", ("model_a", "model_b", "winner"), _arena),
    Format("arena with judges", ("first", "second", "human"), _arena_judges),
    Format("Label Studio", ("data", "annotations"), _label_studio),
)


def find_format(columns: Iterable[str]) -> Format:
    """The format with these columns."""
    there = set(columns)
    for form in FORMATS:
        if set(form.needs) <= there:
            return form
    formats = "; ".join(f"{', '.join(form.needs)} ({form.name})" for form in FORMATS)
    raise InputError(
        f"these columns are of no known format of votes: {', '.join(sorted(map(str, there)))}. Known: {formats}. Name "
        "the columns with `columns={'model_a': …, 'model_b': …, 'winner': …}`."
    )


def _code(code: str, codes: Mapping[str, int], column: str) -> int:
    answer = codes.get(code.lower())
    if answer is None:
        raise InputError(f"{column} must be one of {', '.join(codes)}; got {code!r}.")
    return answer


def _float(value: Any) -> float:
    """The number that a value is or writes; nan for anything else."""
    try:
        return number_of(value)
    except (TypeError, ValueError):
        return math.nan


def _whole(name: str, value: Any) -> int:
    number = _float(value)
    if not number.is_integer():
        raise InputError(f"`{name}` must be a whole number from −2 to 2; got {value!r}.")
    return int(number)


def _number(name: str, value: Any) -> float | None:
    if value is None or value == "":
        return None
    number = _float(value)
    if not 0 <= number < math.inf:
        raise InputError(f"`{name}` must be a number of at least 0; got {value!r}.")
    return number


def _truth(value: Any) -> bool:
    word = str(value).lower()
    if word not in ("true", "1", "yes", "false", "0", "no"):
        raise InputError(f"`judge` must be true or false; got {value!r}.")
    return word in ("true", "1", "yes")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool) or value != value:
        raise InputError(f"`{name}` must be a text; got {value!r}.")
    return str(value)


def _label(row: Row, *names: str) -> str:
    """The first of these fields that is not missing, as a text; "" if all are: "None" would be one person or prompt."""
    name, value = next(((name, row[name]) for name in names if not _is_missing(row.get(name))), ("", ""))
    return _text(name, value) if isinstance(value, bool) else str(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _system(text: str) -> str:
    """("gpt2-xl", "p1.0"), a tuple in quotes, is gpt2-xl p1.0."""
    try:
        parts = ast.literal_eval(text) if text.startswith("(") else None
    except (SyntaxError, ValueError):
        return text
    return " ".join(map(str, parts)) if isinstance(parts, tuple) else text


def _words(text: Any) -> float | None:
    """The length in words, without markup."""
    return float(len(html.unescape(_TAG.sub(" ", str(text))).split())) if text else None


def read_votes(
    path: str | os.PathLike[str], *, min_seconds: float = FASTEST, columns: Mapping[str, str] | None = None
) -> Votes:
    """The votes in a file; `Votes.dropped` counts the votes that were left out.

    The columns determine the format: the export of `mallow annotate` (left, right, answer, …), Mechanical Turk batches
    of the published study (Input.model_a, Answer.q1, Answer.te), arena battles (model_a, model_b, winner), arena
    battles with judges (first, second, human, one column per judge), and Label Studio exports (data, annotations).

    Parameters
    ----------
    path : path
        .jsonl, .json or .csv, each also with .gz.
    min_seconds : float
        Answers given faster than this are dropped: 25 as published; 0 keeps all. Answers without a time are kept.
    columns : mapping or None
        Name of a column in one of the formats → its name in this file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "battles.csv"
    >>> _ = path.write_text("model_a,model_b,winner\\nsmall,large,model_b\\nsmall,large,tie\\n")
    >>> [vote.winner for vote in read_votes(path)]
    ['large', None]
    """
    if not min_seconds >= 0:
        raise InputError(f"`min_seconds` must be at least 0; got {min_seconds!r}.")
    file = Path(path).expanduser()
    votes: list[Vote] = []
    dropped: dict[str, Counter[str]] = defaultdict(Counter)  # by question; "" is for all
    seen: set[Vote] = set()
    reader = None
    for where, row in _rows(file):
        if columns:
            row = _renamed(row, columns, f"{file}:{where}")
        try:
            reader = find_format(row) if reader is None else reader
            missing = [name for name in reader.needs if name not in row]
            if missing:
                raise InputError(f"`{missing[0]}` is missing.")
            votes_of_row = list(reader.votes(row))
        except DroppedRow as reason:
            dropped[""][str(reason)] += 1
            continue
        except InputError as error:
            raise InputError(f"{file}:{where}: {error}") from None
        for vote in votes_of_row:
            if vote.seconds is not None and vote.seconds < min_seconds:
                dropped[vote.question][f"faster than {min_seconds:g} s"] += 1
            elif vote.annotator and vote.task and not vote.judge and vote in seen:
                dropped[vote.question]["sent twice"] += 1
            else:
                seen.add(vote)
                votes.append(vote)
    if not votes and not dropped:
        raise InputError(f"{file}: holds no votes.")
    return Votes(tuple(votes), {question: dict(counts) for question, counts in dropped.items()}, str(file))


def write_votes(path: str | os.PathLike[str], votes: Votes) -> None:
    """Write votes as .jsonl, one per line, as `mallow annotate` exports them; `read_votes` reads them."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in votes.to_rows()))


def _renamed(row: dict[str, Any], columns: Mapping[str, str], where: str) -> dict[str, Any]:
    inner = row["data"] if isinstance(row.get("data"), dict) else None
    for new, old in columns.items():
        target = row if old in row else inner
        if target is None or old not in target:
            raise InputError(
                f"{where}: `columns` must name columns of the file; {old!r} is not among {', '.join(row)}."
            )
        target[new] = target.pop(old) if new not in target else target[old]
    return row


def _rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with its place, "line 7" or "entry 3"."""
    text = read_text(file).removeprefix("\ufeff")
    suffix = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if suffix == ".csv":
        yield from ((str(number), row) for number, row in csv_rows(str(file), text))
    elif suffix == ".jsonl":
        yield from ((str(number), _object(value, f"{file}:{number}")) for number, value in json_lines(str(file), text))
    elif suffix == ".json":
        entries = parse_at(str(file), text)
        if not isinstance(entries, list):
            raise InputError(
                f"{file}: must be a list of tasks, as Label Studio exports it; got {type(entries).__name__}."
            )
        for number, entry in enumerate(entries, start=1):
            yield f"entry {number}", _object(entry, f"{file}:{number}")
    else:
        raise InputError(f"{file}: must end in .jsonl, .json or .csv, each also with .gz; got {file.name!r}.")


def csv_rows(name: str, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row of a csv file, with the number of its line."""
    # Strict, because otherwise an unclosed quotation mark would silently swallow the rest of the rows.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heading = [name.strip() for name in next(reader, [])]
        if len(set(heading)) < len(heading):
            raise InputError(f"{name}:1: two columns have one name. Rename one of them: {', '.join(heading)}.")
        for row in reader:
            if row and len(row) != len(heading):
                raise InputError(f"{name}:{reader.line_num}: has {len(row)} cells, and the heading has {len(heading)}.")
            if row:
                yield reader.line_num, dict(zip(heading, row, strict=True))
    except csv.Error as error:
        raise InputError(f"{name}:{reader.line_num + 1}: is not csv: {error}.") from None


def json_lines(name: str, text: str) -> Iterator[tuple[int, Any]]:
    """Each value of a JSON Lines file, with the number of its line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, parse_at(f"{name}:{number}", line)


def parse_at(where: str, text: str) -> Any:
    """The value of a JSON text. The error for anything else names the place."""
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{where}: is not JSON: {error}.") from None


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be an object; got {type(value).__name__}.")
    return value
