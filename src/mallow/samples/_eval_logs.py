"""Logs of evaluation tools as samples: lm-evaluation-harness (samples_*.jsonl) and Inspect (.eval, .json).

Each record becomes a row with `text`, `id` and `prompt`, in addition to its own fields. So the answers of a run are
read without any option, and the expected answers with the field `target`.
"""

from __future__ import annotations

import importlib.util
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from io import BytesIO
from typing import Any, BinaryIO

from mallow._files import explained, parse_json
from mallow._optional import install_line, optional
from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Row, list_names, message_of
from mallow.samples._value_checks import Limits, check_archive, check_expansion, depth_fault

_SHOWN = 8  # names of fields in a message
_ZSTANDARD = 93  # the default compression of Inspect, a method of zip files that Python supports from 3.14 on
_LARGEST = 1_000_000_000  # bytes of a file that is one object; chosen, as for results


def plain_harness_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows, with a text, an id and a prompt added to rows of lm-evaluation-harness. Other rows do not change.

    A task with several filters writes the same answers once for each filter. Only the first filter is kept.
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
    responses = row.get("resps", row.get("filtered_resps"))
    answers = list(_leaves(responses))
    if "text" in row:
        return row
    if any(not isinstance(answer, str) for answer in answers) or _are_likelihoods(responses, row.get("arguments")):
        return BadEntryError(
            "the answers are likelihoods, not texts: only tasks that generate have samples to read (output_type "
            "generate_until)"
        )
    prompt = _first_text(row.get("arguments"))
    more = {} if prompt is None or "prompt" in row else {"prompt": prompt}
    return {**row, "text": answers[0] if len(answers) == 1 else answers, "id": row["doc_id"], **more}


def _are_likelihoods(responses: object, requests: object) -> bool:
    """Whether answers are numbers, written as strings: ["-1.5", "False"] for a choice, or "-1.5" for a text.

    Requests for texts have a dict of options, so the answer to such a request is always a text.
    """
    if not isinstance(requests, dict | list) or not requests:
        return False
    if any(isinstance(part, dict) for request in _entries(requests) for part in _entries(request)):
        return False
    return all(_is_number(answer) or answer in ("True", "False") for answer in _leaves(responses))


def _entries(value: object) -> list[object]:
    """The values of a dict or of a list; newer logs have dicts instead of lists."""
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _is_number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True


def _leaves(value: object) -> Iterator[object]:
    """The items of nested lists, in order."""
    if isinstance(value, list):
        for entry in value:
            yield from _leaves(entry)
    else:
        yield value


def _first_text(arguments: object) -> str | None:
    """The prompt: the first text of the first request, which is a list or, in newer logs, a dict."""
    while isinstance(arguments, list | dict):
        values = _entries(arguments)
        if not values:
            return None
        arguments = values[0]
    return arguments if isinstance(arguments, str) else None


def object_rows(stream: BinaryIO, name: str, limits: Limits) -> Iterator[Row]:
    """The samples of a .json file that is one object, an Inspect log; or that holds one object per line."""
    try:
        data = stream.read(_LARGEST + 1)
        text = data.decode("utf-8-sig")
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read as UTF-8: {message_of(error)}. Is the file complete?") from error
    if len(data) > _LARGEST:
        raise InputError(
            f"{name}: a file that is one JSON object is read as a whole, and must have at most {_LARGEST / 1e9:g} GB. "
            "Write one JSON object per line to a .jsonl file."
        )
    try:
        value = parse_json(text)
    except ValueError as error:
        if "Extra data" in str(error):
            lines = enumerate(text.split("\n"))
            return ((place, _parse(line, limits, f" in line {place + 1}")) for place, line in lines if line.strip())
        raise InputError(f"{name}: invalid JSON: {message_of(error)}. Is the file complete?") from error
    if (fault := depth_fault(text, limits)) is not None:
        raise InputError(f"{name}: {fault}.")
    if isinstance(value, dict) and isinstance(value.get("samples"), list) and "eval" in value:
        return ((place, _inspect_row(sample)) for place, sample in enumerate(value["samples"]))
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return iter([(0, value)])
    names = list(value)
    fields = list_names(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    raise InputError(
        f"{name}: must be a JSON array, one JSON object per line, or a log of Inspect, but it is an object with the "
        f"fields {fields}. Write the list of samples to a file of its own."
    )


def _parse(text: str, limits: Limits, where: str) -> object:
    """The value of a JSON text, or a BadEntryError."""
    if (fault := depth_fault(text, limits)) is not None:
        return BadEntryError(fault)
    try:
        return parse_json(text)
    except ValueError as error:
        return BadEntryError(f"invalid JSON{where}: {message_of(error)}")


def eval_rows(stream: BinaryIO, name: str, limits: Limits) -> Iterator[Row]:
    """The samples of an .eval file of Inspect, in the order of their ids and epochs."""
    # zipfile, zlib, lzma and bz2 have their own errors for a damaged archive
    with explained(name, "not a readable .eval file", "Is it complete?"), zipfile.ZipFile(stream) as archive:
        check_archive(archive)
        members = [member for member in archive.infolist() if re.fullmatch(r"samples/.*\.json", member.filename, re.S)]
        stored, size = sum(member.compress_size for member in members), 0
        for place, member in enumerate(sorted(members, key=lambda member: _natural(member.filename))):
            size += member.file_size
            check_expansion(name, size, stored, limits)
            try:
                row = _parse(_contents(archive, member, name).decode("utf-8-sig"), limits, "")
            except UnicodeDecodeError as error:
                row = BadEntryError(f"not UTF-8: {message_of(error)}")
            yield place, row if isinstance(row, BadEntryError) else _inspect_row(row)


def _contents(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> bytes:
    """The bytes of a member, with any compression of Inspect."""
    try:
        return archive.read(member)
    except NotImplementedError as error:
        if member.compress_type != _ZSTANDARD:
            way_out = "Convert it: inspect log convert --to json."
            raise InputError(f"{name}: is compressed in a way that this Python cannot read. {way_out}") from error
    stored = copy(member)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, member.compress_size
    del stored.CRC  # it belongs to the expanded bytes
    data = _expand(archive.read(stored), member.file_size + 1, name)
    if zlib.crc32(data) != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {member.filename!r}")
    return data


def _expand(data: bytes, most: int, name: str) -> bytes:
    """At most this many bytes from zstandard data, by the package that Inspect brings or by pyarrow."""
    if importlib.util.find_spec("zstandard") is not None:
        reader = optional("zstandard", extra="tables").ZstdDecompressor().stream_reader(data, read_across_frames=True)
        return bytes(reader.read(most))
    if importlib.util.find_spec("pyarrow") is not None:
        return bytes(optional("pyarrow", extra="tables").input_stream(BytesIO(data), compression="zstd").read(most))
    raise InputError(
        f"{name}: is compressed with zstandard, which Python itself reads from 3.14 on. Convert it with "
        f"inspect log convert --to json, or {install_line('tables')}"
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key in which numbers count as numbers, 2 before 10, compared by length and digits, however long."""
    numbers = [number.lstrip("0") for number in re.findall("[0-9]+", name)]
    return [(len(number), number) for number in numbers] + [(0, name)]


def _inspect_row(sample: object) -> object:
    if not isinstance(sample, dict) or "output" not in sample:
        return BadEntryError("must be a sample of Inspect, with the fields 'input' and 'output'")
    output = sample["output"]
    text = inner(output, "completion") or _content(inner(output, "choices", 0, "message", "content"))
    row = {**sample, "text": text, "prompt": sample.get("input")}
    return row if sample.get("id") is not None else {key: value for key, value in row.items() if key != "id"}


def inner(value: object, *path: str | int) -> Any:
    """The value at a path of names and numbers; "" if there is none."""
    for step in path:
        entries = dict(enumerate(value)) if isinstance(value, list) else value
        if not isinstance(entries, dict) or step not in entries:
            return ""
        value = entries[step]
    return value


def _content(content: object) -> object:
    """The text of a message, whose content may be a list of parts."""
    if not isinstance(content, list):
        return content
    texts = [inner(part, "text") for part in content if inner(part, "type") == "text"]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else texts
