"""Logs of evaluation tools as samples: lm-evaluation-harness (samples_*.jsonl) and Inspect (.eval, .json).

Each record becomes a row with `text`, `id` and `prompt`, beside its own fields; so the answers of a run are read without
any option, and the answers that were expected with the field `target`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Row, list_names, message_of
from mallow.samples._limits import Limits, check_expansion

__all__ = ["eval_rows", "object_rows", "plain_harness_rows"]

_SHOWN = 8  # names of fields in a message


def plain_harness_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of which those that lm-evaluation-harness wrote have a text, an id and a prompt; others are as they were.

    A task with several filters writes the same answers once for each: those of the first filter are kept.
    """
    kept: object = None
    for place, row in rows:
        if not (isinstance(row, dict) and "doc_id" in row and ("resps" in row or "filtered_resps" in row)):
            yield place, row
            continue
        filter_name = row.get("filter", "")
        kept = filter_name if kept is None else kept
        if filter_name == kept:
            yield place, _harness_row(row)


def _harness_row(row: Mapping[str, Any]) -> object:
    answers = list(_leaves(row.get("resps", row.get("filtered_resps"))))
    if "text" in row:
        return row
    if any(not isinstance(answer, str) for answer in answers):
        return BadEntryError(
            "the answers are likelihoods, not texts: only tasks that generate have samples to read (output_type generate_until)"
        )
    prompt = _first_text(row.get("arguments"))
    more = {} if prompt is None or "prompt" in row else {"prompt": prompt}
    return {**row, "text": answers[0] if len(answers) == 1 else answers, "id": row["doc_id"], **more}


def _leaves(value: object) -> Iterator[object]:
    """What nested lists contain, in order."""
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _first_text(arguments: object) -> str | None:
    """The prompt: the first text of the first request, which is a list or, in newer logs, a dict."""
    while isinstance(arguments, list | dict):
        values = list(arguments.values()) if isinstance(arguments, dict) else arguments
        if not values:
            return None
        arguments = values[0]
    return arguments if isinstance(arguments, str) else None


def object_rows(stream: BinaryIO, name: str) -> Iterator[Row]:
    """The samples of a .json file that is one object, an Inspect log; or the lines of one that holds an object per line."""
    try:
        text = stream.read().decode("utf-8-sig")
    except (UnicodeDecodeError, EOFError, OSError) as error:
        raise InputError(f"{name}: cannot be read as UTF-8: {message_of(error)}. Is the file complete?") from error
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if "Extra data" in str(error):
            return _lines(text)
        raise InputError(f"{name}: invalid JSON: {message_of(error)}. Is the file complete?") from error
    if isinstance(value, dict) and isinstance(value.get("samples"), list) and "eval" in value:
        return ((place, _inspect_row(one)) for place, one in enumerate(value["samples"]))
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return iter([(0, value)])
    names = list(value)
    fields = list_names(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    raise InputError(
        f"{name}: must be a JSON array, one JSON object per line, or a log of Inspect; it is an object with the fields {fields}. "
        "Write the list of samples to a file of its own."
    )


def _lines(text: str) -> Iterator[Row]:
    for place, line in enumerate(text.split("\n")):
        if line.strip():
            try:
                yield place, json.loads(line)
            except (ValueError, RecursionError) as error:
                yield place, BadEntryError(f"invalid JSON in line {place + 1}: {message_of(error)}")


def eval_rows(stream: BinaryIO, name: str, limits: Limits) -> Iterator[Row]:
    """The samples of an .eval file of Inspect, in the order of their ids and epochs."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = [one for one in archive.infolist() if one.filename.startswith("samples/")]
            members = [one for one in members if one.filename.endswith(".json")]
            stored, size = sum(one.compress_size for one in members), 0
            for place, member in enumerate(sorted(members, key=lambda one: _natural(one.filename))):
                size += member.file_size
                check_expansion(name, size, stored, limits)
                yield place, _inspect_row(json.loads(archive.read(member)))
    except NotImplementedError as error:  # zstandard, which zipfile knows from Python 3.14 on
        raise InputError(
            f"{name}: is compressed in a way that this Python cannot read. Convert it: inspect log convert --to json."
        ) from error
    except (zipfile.BadZipFile, ValueError, RecursionError, OSError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: not a readable .eval file: {message_of(error)}. Is it complete?") from error


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name count as numbers: 2 before 10."""
    digits = "".join(letter if letter.isdigit() else " " for letter in name).split()
    return [(int(number), "") for number in digits] + [(0, name)]


def _inspect_row(sample: object) -> object:
    if not isinstance(sample, dict) or "output" not in sample:
        return BadEntryError("must be a sample of Inspect, with the fields `input` and `output`")
    output = sample["output"] if isinstance(sample["output"], dict) else {}
    text = output.get("completion")
    if not text:
        choices = output.get("choices") or [{}]
        text = _content(choices[0].get("message", {}).get("content", ""))
    row = {**sample, "text": text, "prompt": sample.get("input")}
    return row if sample.get("id") is not None else {key: value for key, value in row.items() if key != "id"}


def _content(content: object) -> object:
    """The text of a message, whose content may be a list of parts."""
    if not isinstance(content, list):
        return content
    return "".join(part.get("text", "") for part in content if isinstance(part, dict) and part.get("type") == "text")
