"""Files of texts: jsonl, plain lines, csv and parquet, read as streams of rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from mallow._optional import optional
from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Options, Row, Skips, message_of
from mallow.samples._eval_logs import eval_rows, object_rows, plain_harness_rows
from mallow.samples._json_arrays import array_rows, begins_with
from mallow.samples._limits import Limits, check_expansion, depth_fault
from mallow.samples._tables import choose_columns

_BATCH = 64  # rows of a parquet file in memory at a time; chosen: more are hardly faster


def line_rows(form: str, lines: Iterable[Row], name: str, options: Options) -> Iterator[Row]:
    """The rows of a jsonl, txt or csv file, from its decoded lines; the place of a row is its first line."""
    return _LINE_FORMATS[form](lines, name, options)


def json_rows(form: str, stream: BinaryIO, name: str, options: Options) -> Iterator[Row]:
    """The rows of a .json file (an array, objects in lines, or a log of Inspect) or of an .eval file, numbered from 0."""
    if form == "eval":
        return eval_rows(stream, name, options.limits)
    if begins_with(stream, name) == "{":
        return plain_harness_rows(object_rows(stream, name, options.limits))
    return plain_harness_rows(array_rows(stream, name, options))


def parquet_rows(stream: BinaryIO, name: str, options: Options) -> Iterator[Row]:
    """The rows of a parquet file, numbered from 0."""
    parquet = optional("pyarrow.parquet", extra="tables")
    stored = stream.seek(0, io.SEEK_END)
    try:
        file = parquet.ParquetFile(stream)
        names = file.schema_arrow.names
    except Exception as error:  # the parser may raise anything on a damaged header
        raise InputError(f"{name}: not a readable parquet file: {message_of(error)}. Is the file complete?") from error
    columns = choose_columns(names, name, options)
    size = place = 0
    try:
        for batch in file.iter_batches(columns=columns, batch_size=_BATCH):
            for row in batch.to_pylist():
                size += sum(map(_text_size, row.values()))  # a value that is stored once may stand in many rows
                check_expansion(name, size, stored, options.limits)
                yield place, row
                place += 1
    except (InputError, MemoryError, GeneratorExit):
        raise
    except Exception as error:
        raise InputError(f"{name}: cannot be read to the end: {message_of(error)}. Is the file complete?") from error


def _text_size(value: object) -> int:
    """About the bytes of a text, or of a list of texts."""
    return sum(map(_text_size, value)) if isinstance(value, list) else len(value) if isinstance(value, str) else 8


def _jsonl_rows(lines: Iterable[Row], name: str, options: Options) -> Iterator[Row]:
    return plain_harness_rows(_json_lines(lines, options))


def _json_lines(lines: Iterable[Row], options: Options) -> Iterator[Row]:
    for number, line in lines:
        if not isinstance(line, str):
            yield number, line
        elif not line.isspace():
            yield number, _json_object(line, options.limits)


def _json_object(line: str, limits: Limits) -> object:
    if (fault := depth_fault(line, limits)) is not None:
        return BadEntryError(fault)
    try:
        value = json.loads(line.rstrip())  # with its line end, the column of an early end would be in the next line
    except json.JSONDecodeError as error:
        array = line.lstrip().startswith("[")
        hint = " (is the file a single JSON array instead of one object per line?)" if array else ""
        return BadEntryError(f"invalid JSON: {error.msg} at column {error.colno}{hint}")
    except (ValueError, RecursionError) as error:  # numbers with thousands of digits, very deep nesting
        return BadEntryError(f"invalid JSON: {message_of(error)}")
    if not isinstance(value, dict):
        return BadEntryError(f'must be a JSON object such as {{"text": "…"}}; got {line.strip()[:40]}')
    return value


def _txt_rows(lines: Iterable[Row], name: str, options: Options) -> Iterator[Row]:
    for number, line in lines:
        yield number, line.removesuffix("\n").removesuffix("\r") if isinstance(line, str) else line


def _csv_rows(lines: Iterable[Row], name: str, options: Options) -> Iterator[Row]:
    skips = Skips(options)

    def decoded() -> Iterator[str]:
        for number, line in lines:
            if isinstance(line, BadEntryError):  # it may be part of an entry: only the parser can tell which
                skips.add(f"{name}:{number}", line)
                yield line.line
            else:
                yield str(line)

    # Strict: otherwise a quotation mark that is never closed would swallow the rest of the file silently.
    yield from _csv_entries(csv.reader(decoded(), strict=True), name, options)


def _next_cells(reader: Any, options: Options) -> list[str] | None:
    """The cells of the next entry; None at the end."""
    former = csv.field_size_limit(min(options.limits.line_bytes, (1 << 31) - 1))  # of the whole process
    try:
        cells: list[str] | None = next(reader, None)
        return cells
    finally:
        csv.field_size_limit(former)


def _csv_entries(reader: Any, name: str, options: Options) -> Iterator[Row]:
    try:
        header = _next_cells(reader, options)
    except csv.Error as error:
        raise InputError(f"{name}:1: invalid CSV in the header: {error}. Is it a CSV file?") from error
    if not header:
        return
    places = [(header.index(column), column) for column in choose_columns(header, name, options)]
    while True:
        first = reader.line_num + 1
        try:
            cells = _next_cells(reader, options)
        except csv.Error as error:
            if "field limit" in str(error):  # where the entry ends is not known: it cannot be skipped
                raise InputError(
                    f"{name}:{first}: the entry is longer than {options.limits.line_mb:g} MB. Is a quotation mark missing? Or "
                    "allow longer ones with limits=Limits(line_mb=…) (--max line-mb=…)."
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


_LINE_FORMATS: dict[str, Callable[[Iterable[Row], str, Options], Iterator[Row]]] = {
    "jsonl": _jsonl_rows,
    "txt": _txt_rows,
    "csv": _csv_rows,
}
