"""Reading and writing files of votes, whatever their format."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mallow._files import parse_json, read_text, write_text
from mallow.errors import InputError
from mallow.human._vote_formats import DroppedRow, find_format
from mallow.human._votes import Vote, Votes

FASTEST = 25.0  # seconds; paper: answers faster than this were dropped in the published analysis


def read_votes(
    path: str | os.PathLike[str], *, min_seconds: float = FASTEST, columns: Mapping[str, str] | None = None
) -> Votes:
    """The votes in a file; what is left out is counted in `Votes.dropped`.

    The columns tell the format: the own export (left, right, answer, …), Mechanical Turk batches of the published study
    (Input.model_a, Answer.q1, Answer.te), arena battles (model_a, model_b, winner), arena battles with judges (first, second,
    human, one column per judge), and Label Studio exports (data, annotations).

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
    dropped: dict[str, Counter[str]] = defaultdict(Counter)  # by question; "": of all
    seen: set[Vote] = set()
    reader = None
    for where, row in _rows(file):
        if columns:
            row = _renamed(row, columns, f"{file}:{where}")
        try:
            reader = find_format(list(row)) if reader is None else reader
            missing = [name for name in reader.needs if name not in row]
            if missing:
                raise InputError(f"`{missing[0]}` is missing.")
            own = list(reader.votes(row))
        except DroppedRow as reason:
            dropped[""][str(reason)] += 1
            continue
        except InputError as error:
            raise InputError(f"{file}:{where}: {error}") from None
        for vote in own:
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
        reader = csv.DictReader(io.StringIO(text, newline=""))
        try:
            for row in reader:
                if None in row or None in row.values():
                    raise InputError(f"{file}:{reader.line_num}: has more or fewer cells than the heading.")
                yield str(reader.line_num), dict(row)
        except csv.Error as error:
            raise InputError(f"{file}:{reader.line_num + 1}: is not csv: {error}.") from None
    elif suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield str(number), _object(line, f"{file}:{number}")
    elif suffix == ".json":
        entries = _parsed(text, str(file))
        if not isinstance(entries, list):
            raise InputError(
                f"{file}: must be a list of tasks, as Label Studio exports it; got {type(entries).__name__}."
            )
        for number, entry in enumerate(entries, start=1):
            if not isinstance(entry, dict):
                raise InputError(f"{file}:{number}: must be an object; got {type(entry).__name__}.")
            yield f"entry {number}", entry
    else:
        raise InputError(f"{file}: must end in .jsonl, .json or .csv, each also with .gz; got {file.name!r}.")


def _parsed(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{where}: is not JSON: {error}.") from None


def _object(line: str, where: str) -> dict[str, Any]:
    value = _parsed(line, where)
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be an object; got {type(value).__name__}.")
    return value
