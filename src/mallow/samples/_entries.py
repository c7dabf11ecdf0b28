"""Entries of any source of texts: their texts, ids and prompts, their problems, and skipped ones."""

from __future__ import annotations

import json
import numbers
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mallow.errors import InputError
from mallow.samples._samples import Samples
from mallow.samples._value_checks import DEFAULT_LIMITS, Limits, is_missing, label_fault

_WAY_OUT = "Fix it, or skip bad entries with `skip_bad=True`."

# Names of the text in evaluation tools and chat formats, used if a file has just one of these.
_USUAL = ("output", "response", "completion", "generated_text", "messages")

Row = tuple[int | str, object]  # place; a text, a list of texts, a mapping that holds one of them, or a BadEntryError


@dataclass(frozen=True)
class Options:
    """The options of `read`, checked."""

    field: str | None
    skip_bad: bool
    limit: int | None
    limits: Limits = DEFAULT_LIMITS
    label: str = "prompt"  # the field that is read as the prompt. A different one in `read_column`

    def text_field(self, names: Iterable[object]) -> str:
        """The name of the field with the text: the requested one, "text", or the only usual name among these."""
        if self.field is not None:
            return self.field
        known = set(names)
        usual = [name for name in _USUAL if name in known]
        return usual[0] if len(usual) == 1 and "text" not in known else "text"


class BadEntryError(Exception):
    """The reason why an entry cannot be used; `line` is the decodable part of a line that is not UTF-8."""

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(reason)
        self.line = line


class Skips(list[str]):
    """The entries skipped so far, each with its place and the reason."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self._allowed = options.skip_bad

    def add(self, place: str, reason: object) -> None:
        """Skip an entry. An InputError if bad entries may not be skipped."""
        if not self._allowed:
            raise InputError(f"{place}: {reason}. {_WAY_OUT}")
        self.append(f"{place}: {reason}")

    def nothing_left(self, name: str) -> InputError:
        """The error for a source without a single valid sample."""
        if not self:
            return InputError(f"{name}: contains no samples; at least one is needed.")
        return InputError(
            f"{name}: contains no valid samples (bad entries skipped: {len(self)}). The first: {self[0]}."
        )


def message_of(error: Exception) -> str:
    """The message of an error without its full stop, to be part of another sentence."""
    return str(error).rstrip(".")


def list_names(names: Iterable[object]) -> str:
    """Names from the data in quotation marks, separated by commas; "none" if there are none."""
    return ", ".join(f"'{name}'" for name in names) or "none"


def gather_texts(rows: Iterable[Row], name: str, options: Options, *, form: str = "[{}]") -> Samples:
    """The texts of all rows, with their ids and prompts. Messages name a row by `name` and its place in this form."""
    texts: list[str] = []
    ids: list[str] = []
    prompts: list[str] = []
    entries = array("q")  # the number of the row that each text comes from
    counted: set[object] = set()  # the prompts so far, which the limit counts
    beyond: list[tuple[str, BadEntryError]] = []  # bad rows after the last prompt: part of it or of the next
    skips, grouped, field = Skips(options), False, options.field
    for entry, (place, row) in enumerate(rows, start=1):
        if field is None and isinstance(row, Mapping):
            field = options.text_field(row)  # for all rows, decided by the first one
        try:
            value, id_, prompt = _split_row(row, field or "text", options.label)
            if texts:
                _check_consistent("id", id_, ids)
                _check_consistent(options.label, prompt, prompts)
        except BadEntryError as reason:
            if len(counted) == options.limit:
                beyond.append((name + form.format(place), reason))
            else:
                skips.add(name + form.format(place), reason)
            continue
        several = isinstance(value, list | tuple | np.ndarray)
        grouped |= several
        alone = id_ is None and (grouped or prompt is None)  # the row is a separate prompt
        unit = entry if alone else prompt if id_ is None else id_
        if len(counted) == options.limit and unit not in counted:
            break
        for bad in beyond:
            skips.add(*bad)
        beyond.clear()
        for generation, text in enumerate(value, start=1) if several else ((0, value),):
            if (fault := _text_fault(text)) is not None:
                which = f" (generation {generation} of {len(value)})" if several else ""
                skips.add(name + form.format(place), fault + which)
                continue
            texts.append(str(text))
            entries.append(entry)
            if options.limit is not None:
                counted.add(unit)
            if id_ is not None:
                ids.append(id_)
            if prompt is not None:
                prompts.append(prompt)
        if len(counted) == options.limit and alone:
            break  # not even the next row is read
    if not texts:
        raise skips.nothing_left(name)
    units = tuple(ids) or (tuple(map(str, entries)) if grouped else None)
    samples = Samples.trusted(
        texts=tuple(texts), ids=units, prompts=tuple(prompts) or None, source=name, skipped=tuple(skips)
    )
    return samples.first(options.limit)  # if all have the same prompt, samples are counted


def _split_row(row: object, field: str, label: str) -> tuple[Any, str | None, str | None]:
    """The text or texts of a row, its id and its prompt."""
    if isinstance(row, BadEntryError):
        raise row
    if isinstance(row, Mapping) and field not in row and "." in field:
        row = _with_inner_field(row, field)
    if isinstance(row, Mapping) and field not in row:
        raise BadEntryError(
            f"no field '{field}'; available fields: {list_names(row)}; choose one with `field`, or write FILE:FIELD "
            "for a single file"
        )
    if isinstance(row, Mapping) and field == "messages" and isinstance(row[field], list | tuple | np.ndarray):
        row = _with_last_answer(row, label)
    value = row[field] if isinstance(row, Mapping) else row
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()  # an array with no axis is a single value
    if isinstance(value, list | tuple | np.ndarray) and len(value) == 0:
        raise BadEntryError("the list of texts is empty")
    if not isinstance(row, Mapping):
        return value, None, None
    if "." in label:
        row = _with_inner_field(row, label)
    id_, prompt = (None if field == name else _label(name, row.get(name)) for name in ("id", label))
    return value, id_, prompt


def _with_last_answer(row: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    """A chat as a row: the last turn of the assistant under "messages", the conversation before it as its prompt."""
    turns = [(message.get("role"), _content(message)) for message in row["messages"] if isinstance(message, Mapping)]
    last = max((place for place, (role, _) in enumerate(turns) if role == "assistant"), default=None)
    if last is None or len(turns) != len(row["messages"]):
        raise BadEntryError(
            '`messages` must be messages such as {"role": "user", "content": "…"}, one of them with the role assistant'
        )
    before = turns[:last]
    only = len(before) == 1 and before[0][0] == "user"
    conversation = before[0][1] if only else "\n".join(f"{role}: {content}" for role, content in before)
    return {label: conversation or None, **row, "messages": turns[last][1]}


def _content(message: Mapping[str, Any]) -> Any:
    """The text of a message, or of its text parts if it has several."""
    content = message.get("content")
    if isinstance(content, list | tuple | np.ndarray):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    return content


def _with_inner_field(row: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """The row with the value at a path such as ``output.completion`` under that name; unchanged if there is none."""
    value: object = row
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return row
        value = value[name]
    return {**row, field: value}


def _label(name: str, value: object) -> str | None:
    """An id or prompt as text: ids are often numbers, and prompts may be lists of messages."""
    if is_missing(value):
        return None
    if (fault := label_fault(value)) is not None:
        raise BadEntryError(f"`{name}` must be a text or a number; {fault}")
    if isinstance(value, numbers.Number):
        return str(value)
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # keys that are not texts, lists that contain themselves
        raise BadEntryError(f"`{name}` must be a text, a number, or something that JSON can hold; {error}") from None
    if (fault := _unicode_fault(text)) is not None:
        raise BadEntryError(f"`{name}`: {fault}")
    return text


def _check_consistent(name: str, label: str | None, earlier: list[str]) -> None:
    if (label is not None) != bool(earlier):
        here, before = ("present", "missing") if label is not None else ("missing", "present")
        raise BadEntryError(
            f"`{name}` is {here} here but {before} in the entries before it. All entries must have it, or none"
        )


def _text_fault(text: object) -> str | None:
    """The problem with a text, or None."""
    if isinstance(text, str):
        return _unicode_fault(text) if text else "empty text"  # `confounds` counts entries by these two words
    if is_missing(text):
        return "the text is missing (null)"
    hint = "; decode it first: text.decode()" if isinstance(text, bytes | bytearray) else ""
    return f"the text must be a string; got {repr(text)[:40]} ({type(text).__name__}){hint}"


def _unicode_fault(text: str) -> str | None:
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = "half of a surrogate pair, or a byte that could not be decoded"
        return f"not valid Unicode: {text[error.start]!a} at character {error.start} ({reason})"
    return None
