"""Texts in files (jsonl, json, plain lines, csv, parquet) and in tables in memory, as streams of rows."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from mallow._files import explained, parse_json, unique_names
from mallow._optional import optional
from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Options, Row, Skips, gather_texts, list_names, message_of
from mallow.samples._eval_logs import plain_harness_rows
from mallow.samples._samples import Samples
from mallow.samples._streams import to_the_end
from mallow.samples._value_checks import Limits, check_expansion, depth_fault

_BATCH = 64  # rows of a parquet file in memory at a time; chosen: more is hardly faster


def line_rows(form: str, lines: Iterable[Row], name: str, options: Options) -> Iterator[Row]:
    """The rows of a jsonl, txt or csv file, from its decoded lines. The place of a row is its first line."""
    if form == "csv":
        return _csv_rows(lines, name, options)
    if form == "jsonl":
        return plain_harness_rows(json_lines(lines, options))
    return (
        (number, line.removesuffix("\n").removesuffix("\r") if isinstance(line, str) else line)
        for number, line in lines
    )


def parquet_rows(stream: BinaryIO, name: str, options: Options) -> Iterator[Row]:
    """The rows of a parquet file, numbered from 0."""
    parquet = optional("pyarrow.parquet", extra="tables")
    stored = stream.seek(0, io.SEEK_END)
    with explained(name, "not a readable parquet file", "Is the file complete?"):
        file = parquet.ParquetFile(stream)
        names = file.schema_arrow.names
    columns = choose_columns(names, name, options)
    size = place = 0
    with explained(name, "cannot be read to the end", "Is the file complete?"):
        for batch in file.iter_batches(columns=columns, batch_size=_BATCH):
            for row in batch.to_pylist():
                size += sum(map(_text_size, row.values()))  # a value that is stored once may occur in many rows
                check_expansion(name, size, stored, options.limits)
                yield place, row
                place += 1


def _text_size(value: object) -> int:
    """The approximate number of bytes of a text, or of a list of texts."""
    return sum(map(_text_size, value)) if isinstance(value, list) else len(value) if isinstance(value, str) else 8


def json_lines(lines: Iterable[Row], options: Options) -> Iterator[Row]:
    """The objects of a jsonl file, unchanged, one per line that is not blank."""
    for number, line in lines:
        if not isinstance(line, str):
            yield number, line
        elif not line.isspace():
            yield number, _json_object(line, options.limits)


def _json_object(line: str, limits: Limits) -> object:
    if (fault := depth_fault(line, limits)) is not None:
        return BadEntryError(fault)
    try:
        value = parse_json(line.rstrip())  # with its line end, the column of an early end would be in the next line
    except json.JSONDecodeError as error:
        return BadEntryError(f"invalid JSON: {error.msg} at column {error.colno}")
    except ValueError as error:  # numbers with thousands of digits, very deep nesting
        return BadEntryError(f"invalid JSON: {message_of(error)}")
    if not isinstance(value, dict):
        return BadEntryError(f'must be a JSON object such as {{"text": "…"}}; got {line.strip()[:40]}')
    return value


def _csv_rows(lines: Iterable[Row], name: str, options: Options) -> Iterator[Row]:
    skips = Skips(options)

    def decoded() -> Iterator[str]:
        for number, line in lines:
            if isinstance(line, BadEntryError):  # it may be part of an entry that only the parser can identify
                skips.add(f"{name}:{number}", line)
                yield line.line
            else:
                yield str(line)

    yield from _csv_entries(_CsvReader(decoded(), options.limits.line_bytes), name, options)


class _CsvReader:
    """The entries of a csv file, of which each has at most some number of characters."""

    def __init__(self, lines: Iterator[str], most: int) -> None:
        self._lines, self._most, self._size = lines, most, 0
        # Strict, because otherwise an unclosed quotation mark would silently swallow the rest of the file.
        self._reader = csv.reader(self._limited(), strict=True)

    def _limited(self) -> Iterator[str]:
        for line in self._lines:
            self._size += len(line)
            if self._size > self._most:
                raise csv.Error(_TOO_LONG)
            yield line

    @property
    def line_num(self) -> int:
        """The number of lines so far."""
        return self._reader.line_num

    def next_cells(self) -> list[str] | None:
        """The cells of the next entry; None at the end."""
        self._size = 0
        with _CELLS:
            return next(self._reader, None)


_TOO_LONG = "the entry is too long"
_LARGEST_CELL = (1 << 31) - 1  # characters; the largest limit that every system can count


class _AnyCell:
    """Lifts csv's own limit of a cell, which belongs to the whole process, while any thread reads an entry.

    Without the count of callers, two threads would restore each other's limit, and refuse good entries.
    """

    def __init__(self) -> None:
        self._before = 0
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)  # a thread that held the lock does not exist there

    def _start(self) -> None:
        self._lock, self._callers = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._callers == 0:
                self._before = csv.field_size_limit(_LARGEST_CELL)
            self._callers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._callers -= 1
            if self._callers == 0:
                csv.field_size_limit(self._before)


_CELLS = _AnyCell()


def _csv_entries(reader: _CsvReader, name: str, options: Options) -> Iterator[Row]:
    try:
        header = reader.next_cells()
    except csv.Error as error:
        raise InputError(f"{name}:1: invalid CSV in the header: {error}. Is it a CSV file?") from error
    if not header:
        return
    places = [(header.index(column), column) for column in choose_columns(header, name, options)]
    while True:
        first = reader.line_num + 1
        try:
            cells = reader.next_cells()
        except csv.Error as error:
            if str(error) == _TOO_LONG:  # the end of the entry is unknown, so it cannot be skipped
                raise InputError(
                    f"{name}:{first}: the entry is longer than {options.limits.line_mb:g} MB. Is a quotation mark "
                    "missing? Or allow longer ones with `limits=Limits(line_mb=…)`."
                ) from error
            yield first, BadEntryError(f"invalid CSV: {error} (lines {first} to {reader.line_num})")
            continue
        if cells is None:
            return
        if not cells and len(header) == 1:
            cells = [""]  # in a file with one column, a blank line is an empty text
        if len(cells) == len(header):
            yield first, {column: cells[place] for place, column in places}
        elif cells:
            yield first, BadEntryError(f"{len(cells)} columns, but the header has {len(header)}")


def read_table(table: Any, name: str, options: Options) -> Samples:
    """The texts of any table that names its columns, with their ids and prompts."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    chosen = choose_columns(names, name, options)
    columns = [column_values(table[column]) for column in chosen]
    rows = (dict(zip(chosen, values, strict=True)) for values in zip(*columns, strict=True))
    return gather_texts(enumerate(rows), name, options)


def choose_columns(names: Sequence[object], name: str, options: Options) -> list[str]:
    """The columns to read: the text, and `id` and `prompt` if they exist."""
    text = options.text_field(names)
    if text not in names:
        hint = " Columns must be separated by commas." if len(names) == 1 and {";", "\t"} & set(str(names[0])) else ""
        hint = hint or (" For features, pass the array that .to_numpy() returns." if name == "DataFrame" else "")
        raise InputError(
            f"{name}: no column '{text}'; available columns: {list_names(names)}. Choose one with `field`, or "
            f"write FILE:FIELD for a single file.{hint}"
        )
    columns = [text, *(column for column in ("id", options.label) if column in names and column != text)]
    for column in columns:
        if list(names).count(column) > 1:
            raise InputError(f"{name}: two columns are named `{column}`. Rename one of them.")
    return columns


def column_values(column: Any) -> list[object]:
    """The values of a column as Python objects."""
    for method in ("to_list", "to_pylist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


_CHUNK = 1 << 16  # bytes
_SPACE = " \t\n\r"


def begins_with(stream: BinaryIO, name: str) -> str:
    """The first visible character of a stream that can `peek`; "" if there is only white space at its start."""
    with to_the_end(name):
        head: bytes = stream.peek(256)[:256]  # type: ignore[attr-defined]
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1].decode("latin-1")


def array_rows(stream: BinaryIO, name: str, options: Options) -> Iterator[Row]:
    """The entries of a JSON array, numbered from 0.

    An entry that cannot be parsed ends the reading, since the start of the next one is unknown.
    """
    text, place = _Buffer(stream, name), 0
    if (sign := text.next_sign("[")) != "[":
        raise InputError(
            f'{name}: must be a JSON array, such as [{{"text": "…"}}, …], but it begins with {sign or "nothing"!r}. '
            "If it contains one JSON object per line, rename it to .jsonl."
        )
    decoder, sign = json.JSONDecoder(object_pairs_hook=unique_names), text.next_sign("]")
    while sign != "]":
        yield place, _next_entry(text, decoder, f"{name}[{place}]", options)
        place, sign = place + 1, text.next_sign(",]")
        if sign not in (",", "]"):
            raise InputError(
                f"{name}[{place - 1}]: a comma or ] must follow; got {sign or 'the end of the file'!r}. Is the "
                "file complete?"
            )
    if text.next_sign():
        raise InputError(f"{name}: must be one JSON array; something follows after its end.")


class _Buffer:
    """The part of a file that is not consumed yet, decoded."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name, self._decoder = stream, name, codecs.getincrementaldecoder("utf-8-sig")()
        self.text, self.start, self.ended = "", 0, False

    def more(self, count: int = 0) -> None:
        """Read at least `count` more bytes; `ended` means that there are no more."""
        with to_the_end(self._name):
            data = self._stream.read(max(_CHUNK, count))
        try:
            self.text = self.text[self.start :] + self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            way_out = "Re-encode it, for example with iconv."
            raise InputError(f"{self._name}: not UTF-8: {error.reason}. {way_out}") from error
        self.start, self.ended = 0, not data

    def next_sign(self, taken: str = "") -> str:
        """The next character that is not white space, consumed if it is one of `taken`; "" at the end."""
        while True:
            while self.start < len(self.text) and self.text[self.start] in _SPACE:
                self.start += 1
            if self.start < len(self.text):
                sign = self.text[self.start]
                self.start += sign in taken
                return sign
            if self.ended:
                return ""
            self.more()


def _may_go_on(value: object, rest: str) -> bool:
    """Whether a value may be the beginning of a longer number, given the following characters."""
    return not rest or (isinstance(value, int | float) and len(rest) < 3 and set(rest) <= set(".eE+-"))


def _next_entry(text: _Buffer, decoder: json.JSONDecoder, place: str, options: Options) -> object:
    """The next value, or a BadEntryError if it is nested too deeply; reads until the value is complete."""
    text.next_sign()
    while True:
        try:
            value, end = decoder.raw_decode(text.text, text.start)
            if text.ended or not _may_go_on(value, text.text[end : end + 3]):
                break
        except json.JSONDecodeError as error:
            if text.ended or (error.pos < len(text.text) - 32 and error.msg.startswith("Expecting")):
                raise InputError(f"{place}: invalid JSON: {error.msg}. Fix it; what follows cannot be read.") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{place}: invalid JSON: {message_of(error)}. Fix it; what follows cannot be read."
            ) from error
        size = len(text.text) - text.start
        if size > options.limits.line_bytes:
            raise InputError(
                f"{place}: the entry is longer than {options.limits.line_mb:g} MB. Allow longer ones with "
                "`limits=Limits(line_mb=…)`."
            )
        text.more(size)
    raw, text.start = text.text[text.start : end], end
    fault = depth_fault(raw, options.limits)
    return value if fault is None else BadEntryError(fault)
