"""Samples in and out: texts, images and features, from files, folders, tables and lists.

Nothing is left out in silence. A bad entry is an error that says where it is; with `skip_bad` it is left out,
and `Samples.skipped` says so.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import importlib
import importlib.util
import io
import itertools
import json
import numbers
import os
import secrets
import sys
import warnings
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._optional import optional
from mallow.errors import InputError

__all__ = ["Samples", "read", "write"]

_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
    ".csv": "csv",
    ".parquet": "parquet",
    ".npy": "npy",
    ".npz": "npz",
}
_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
# Pictures that are not read: in a folder of images they are bad entries, where a text file is none at all.
_OTHER_IMAGES = frozenset({".avif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm", ".svg", ".tga"})
_WAY_OUT = "Mend it, or leave bad entries out with skip_bad=True (--skip-bad)."
_CHUNK = 1 << 22  # values looked at once: a memory-mapped file is never held whole
_DAMAGED = (EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """Samples of one kind, in the order they were found.

    Attributes
    ----------
    kind : "text", "image" or "features"
    items : tuple of str, tuple of Path, or array (n, d)
        The samples; those of a .npy file stay on the disk until they are used. `texts`, `paths` and `features` give the
        same with the kind checked.
    ids : tuple of str or None
        One for each sample. The same id several times means several generations for one prompt.
    prompts : tuple of str or None
        One for each sample, as repeated as the ids.
    source : str
        Where they came from, for messages.
    skipped : tuple of str
        What was left out, and where: ``"human.jsonl:17: empty text"``.
    provenance : dict or None
        For features: what made them, e.g. the embedder with its revision. It can be written as JSON.
    """

    kind: Literal["text", "image", "features"]
    items: tuple[str, ...] | tuple[Path, ...] | NDArray[Any]
    ids: tuple[str, ...] | None = None
    prompts: tuple[str, ...] | None = None
    source: str = "samples"
    skipped: tuple[str, ...] = ()
    provenance: dict[str, object] | None = None

    def __post_init__(self) -> None:
        for name, labels in (("ids", self.ids), ("prompts", self.prompts)):
            if labels is not None and len(labels) != len(self.items):
                raise InputError(
                    f"`{name}` must have one entry for each of the {len(self.items)} samples; got {len(labels)}."
                )

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Samples({self.kind}, n={len(self)}, source={self.source!r}, skipped={len(self.skipped)})"

    @property
    def texts(self) -> tuple[str, ...]:
        """The items of text samples; other kinds are refused."""
        return cast("tuple[str, ...]", self._of_kind("text"))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The items of image samples; other kinds are refused."""
        return cast("tuple[Path, ...]", self._of_kind("image"))

    @property
    def features(self) -> NDArray[Any]:
        """The items of feature samples, an array (n, d); other kinds are refused."""
        return cast("NDArray[Any]", self._of_kind("features"))

    @property
    def generations(self) -> int | None:
        """How many samples each id has (each prompt, where there are no ids); None where that varies.

        Examples
        --------
        >>> read([{"id": 1, "text": ["a", "b"]}, {"id": 2, "text": ["c", "d"]}]).generations
        2
        """
        groups = self.ids or self.prompts
        times = set(Counter(groups).values()) if groups else {1}
        return times.pop() if len(times) == 1 else None

    def _of_kind(self, kind: str) -> object:
        if self.kind != kind:
            raise InputError(f"{self.source} must hold {kind} samples here; got {self.kind} samples.")
        return self.items


def read(source: object, *, field: str | None = None, skip_bad: bool = False, limit: int | None = None) -> Samples:
    """The samples that a file, a folder, standard input, a table, a list or an array holds.

    Parameters
    ----------
    source : path, "-", list, array or table
        - a file: .jsonl (.ndjson), .txt (one text a line), .csv (comma, with a header) or .parquet for texts; .npy or
          .npz for features; any of them compressed as .gz. Text is UTF-8, with or without a byte-order mark;
        - ``"-"``: standard input, jsonl if it begins with ``{`` and one text a line otherwise;
        - a folder of images (png, jpg, jpeg, webp, bmp, gif, tif, tiff), subfolders included, in the order of their
          names; hidden files and files that are no pictures are not samples. The ids are the paths inside the folder;
        - a list of texts, of dicts, or of paths to images;
        - an array (n, d) of features;
        - a pandas or polars DataFrame or Series, a pyarrow Table or a Hugging Face Dataset.
    field : str or None
        The field or column with the text; None: ``text``. In a .npz file the name of the array; None: ``features``, or
        the only one. Formats without fields ignore it. A field that holds a list of texts is several generations for
        one prompt: they follow one another with the same id, which is the number of the entry, from 1, where the
        entries have no ``id``. The fields ``id`` and ``prompt`` are read where all entries have them.
    skip_bad : bool
        Leave bad entries out and list them in `Samples.skipped`, instead of refusing the source. An entry is bad when
        it is no JSON, no UTF-8, no string, or empty; when it lacks the field; when an image cannot be opened; when
        features are not finite. White space alone is not empty: models do generate it.
    limit : int or None
        Take the first so many good samples, and look no further; None: all.

    Notes
    -----
    Files are read as a stream: beside the samples themselves, one line (of parquet: one batch) is held. A .npy file is
    mapped, not loaded. Images are opened for their header alone, if Pillow is installed. Pickles are never loaded.

    Examples
    --------
    >>> read(["A text.", "", "Another one."], skip_bad=True).skipped
    ('list[1]: empty text',)

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.jsonl")
    ...     _ = path.write_text('{"id": 7, "gen": ["One.", "Two."]}')
    ...     samples = read(path, field="gen")
    >>> samples.texts, samples.ids
    (('One.', 'Two.'), ('7', '7'))
    """
    options = _Options(field, skip_bad, None if limit is None else whole("limit", limit, least=1))
    if isinstance(source, Samples):
        return _first(source, options.limit)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if not isinstance(path, str):
            raise InputError(f"`source` must be a path as str or Path; got bytes. Use os.fsdecode({path!r:.60}).")
        return _read_standard_input(options) if path == "-" else _read_path(path, options)
    name = type(source).__name__
    if name == "LazyFrame":
        raise InputError("`source` must be a table that is there; got a LazyFrame. Call its .collect() first.")
    if not isinstance(source, bytes | bytearray | Mapping):
        if hasattr(source, "__getitem__") and (hasattr(source, "column_names") or hasattr(source, "columns")):
            return _read_table(source, name, options)
        if hasattr(source, "to_list") or hasattr(source, "to_pylist"):
            return _read_list(_column(source), name, options)
        if hasattr(source, "__array__"):
            return _read_array(np.asanyarray(source), name, options)
        if isinstance(source, Iterable):
            return _read_list(source, name, options)
    raise InputError(
        f"`source` must be a path, a list, an array or a table; got {name}. "
        "Of several sets, or several splits of a dataset, pass one."
    )


def write(samples: Samples, path: str | os.PathLike[str]) -> None:
    """Write samples to a file whose suffix says how; all of it appears there at once, or nothing.

    Parameters
    ----------
    samples : Samples
        Texts or features. Images are files already.
    path : path
        For texts .jsonl, .csv or .parquet, which keep ids and prompts, or .txt, which keeps the texts alone and refuses
        those with line breaks. For features .npz, which keeps ids and provenance, or .npy, which refuses to lose them.
        With .gz behind it is compressed, to the same bytes each time.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "samples.csv.gz")
    ...     write(read(["One.", "Two,\\nwith a line break."]), path)
    ...     read(path).texts
    ('One.', 'Two,\\nwith a line break.')
    """
    target = Path(os.path.realpath(os.path.expanduser(path)))  # a link stays a link
    form, zipped = _format(target, os.fspath(path))
    _check_writable(samples, form, os.fspath(path))
    if not target.parent.is_dir():
        raise InputError(f"{os.fspath(path)}: the folder {target.parent} does not exist. Make it first.")
    if target.is_dir():
        raise InputError(f"{os.fspath(path)}: is a folder, not a file. Name a file in it.")
    hidden = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        with hidden.open("xb") as stream:
            if zipped:  # without name and time
                with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as squeezed:
                    _write_to(cast("BinaryIO", squeezed), samples, form)
            else:
                _write_to(stream, samples, form)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(hidden, target)
    except UnicodeEncodeError as error:
        half = f"{error.object[error.start]!a}, half of a surrogate pair"
        raise InputError(f"{os.fspath(path)}: texts must be valid Unicode; got {half}. Mend the text.") from error
    finally:
        hidden.unlink(missing_ok=True)


# --- what every way in shares


@dataclass(frozen=True)
class _Options:
    field: str | None
    skip_bad: bool
    limit: int | None

    @property
    def text(self) -> str:
        """The name of the field with the text."""
        return "text" if self.field is None else self.field


class _BadEntryError(Exception):
    """Why an entry cannot be used; `line` is what can be had of one that is not UTF-8."""

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(reason)
        self.line = line


class _Skips(list[str]):
    """What was left out so far; refuses the first where nothing may be."""

    def __init__(self, options: _Options) -> None:
        super().__init__()
        self._allowed = options.skip_bad

    def add(self, where: str, reason: object) -> None:
        if not self._allowed:
            raise InputError(f"{where}: {reason}. {_WAY_OUT}")
        self.append(f"{where}: {reason}")

    def nothing_left(self, name: str) -> InputError:
        if not self:
            return InputError(f"{name}: holds no samples. At least one is needed.")
        return InputError(f"{name}: holds no good sample; {len(self)} bad ones were left out, the first: {self[0]}.")


_Row = tuple[int, object]  # place; a text, a list of texts, a mapping that holds one of them, or a _BadEntryError


def _first(samples: Samples, limit: int | None) -> Samples:
    if limit is None or limit >= len(samples):
        return samples
    ids, prompts = (labels and labels[:limit] for labels in (samples.ids, samples.prompts))
    return replace(samples, items=samples.items[:limit], ids=ids, prompts=prompts)


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _said(error: Exception) -> str:
    return str(error).rstrip(".")


def _listed(names: Iterable[object]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


# --- texts


def _gather(rows: Iterable[_Row], where: Callable[[int], str], name: str, options: _Options) -> Samples:
    """The texts of all rows, with their ids and prompts."""
    texts: list[str] = []
    ids: list[str] = []
    prompts: list[str] = []
    entries = array("q")  # the number of the row that each text comes from
    skips, grouped = _Skips(options), False
    for entry, (place, row) in enumerate(rows, start=1):
        try:
            value, id_, prompt = _parts(row, options.text)
            if texts:
                _check_same("id", id_, ids)
                _check_same("prompt", prompt, prompts)
        except _BadEntryError as reason:
            skips.add(where(place), reason)
            continue
        several = isinstance(value, list | tuple | np.ndarray)
        grouped |= several
        for which, text in enumerate(value, start=1) if several else ((0, value),):
            if (fault := _fault(text)) is not None:
                skips.add(where(place), f"{fault} (generation {which} of {len(value)})" if several else fault)
                continue
            texts.append(str(text))
            entries.append(entry)
            if id_ is not None:
                ids.append(id_)
            if prompt is not None:
                prompts.append(prompt)
            if len(texts) == options.limit:
                break
        if len(texts) == options.limit:
            break
    if not texts:
        raise skips.nothing_left(name)
    found = tuple(ids) or (tuple(map(str, entries)) if grouped else None)
    return Samples("text", tuple(texts), found, tuple(prompts) or None, name, tuple(skips))


def _parts(row: object, field: str) -> tuple[Any, str | None, str | None]:
    """The text or texts of a row, its id and its prompt."""
    if isinstance(row, _BadEntryError):
        raise row
    if isinstance(row, Mapping) and field not in row:
        raise _BadEntryError(f"no field `{field}`; its fields are {_listed(row)}: choose with field=… (--field)")
    value = row[field] if isinstance(row, Mapping) else row
    if isinstance(value, list | tuple | np.ndarray) and len(value) == 0:
        raise _BadEntryError("an empty list of texts")
    if not isinstance(row, Mapping):
        return value, None, None
    id_, prompt = (None if field == name else _label(name, row.get(name)) for name in ("id", "prompt"))
    return value, id_, prompt


def _label(name: str, value: object) -> str | None:
    """An id or prompt as text: prompts may be lists of messages, ids are often numbers."""
    if _missing(value):
        return None
    if isinstance(value, numbers.Number):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if (fault := _unicode_fault(text)) is not None:
        raise _BadEntryError(f"`{name}`: {fault}")
    return text


def _check_same(name: str, label: str | None, before: list[str]) -> None:
    if (label is not None) != bool(before):
        here, there = ("has an", "have none") if label is not None else ("has no", "have one")
        raise _BadEntryError(f"{here} `{name}`, but the entries before it {there}: give it to all of them or to none")


def _fault(text: object) -> str | None:
    """What is wrong with a text; None: nothing."""
    if isinstance(text, str):
        return _unicode_fault(text) if text else "empty text"
    if _missing(text):
        return "the text is missing (null)"
    return f"the text must be a string; got {repr(text)[:40]} ({type(text).__name__})"


def _unicode_fault(text: str) -> str | None:
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"not valid Unicode: {text[error.start]!a} at character {error.start}, half of a pair or a wrong byte"
    return None


# --- files


def _read_standard_input(options: _Options) -> Samples:
    raw = sys.stdin.buffer
    if hasattr(raw, "peek"):
        return _read_stream(_unzipped(raw), "standard input", options)
    buffered = io.BufferedReader(cast("io.RawIOBase", raw))
    try:
        return _read_stream(_unzipped(buffered), "standard input", options)
    finally:
        buffered.detach()  # otherwise it would close standard input when it is collected


def _read_stream(stream: BinaryIO, name: str, options: _Options) -> Samples:
    """Texts without a suffix that says how they are written: jsonl if they begin with a brace."""
    lines = _lines(stream, name)
    head: list[_Row] = []
    for line in lines:
        head.append(line)
        if not (isinstance(line[1], str) and line[1].isspace()):
            break
    begin = head[-1][1] if head else ""
    form = "jsonl" if isinstance(begin, str) and begin.lstrip().startswith("{") else "txt"
    return _gather(_ROWS[form](itertools.chain(head, lines), name, options), _at_line(name), name, options)


def _read_path(name: str, options: _Options) -> Samples:
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):
        return _read_folder(path, name, options)
    if not os.path.exists(path):
        raise _no_such_file(path, name)
    if path.suffix.lower() in _IMAGES:
        return _read_images([(name, path)], name, options)
    if not path.is_file():  # a pipe, such as /dev/fd/63
        with _opened(path, name) as stream:
            return _read_stream(stream, name, options)
    form, zipped = _format(path, name)
    if form in ("npy", "npz"):
        return _read_numpy(path, name, options)
    with _opened(path, name) as stream:
        if form == "parquet":
            rows = _parquet_rows(io.BytesIO(stream.read()) if zipped else stream, name, options)
            return _gather(rows, _at_index(name), name, options)
        return _gather(_ROWS[form](_lines(stream, name), name, options), _at_line(name), name, options)


def _at_line(name: str) -> Callable[[int], str]:
    return lambda place: f"{name}:{place}"


def _at_index(name: str) -> Callable[[int], str]:
    return lambda place: f"{name}[{place}]"


def _format(path: Path, name: str) -> tuple[str, bool]:
    """How a file is written, and whether it is compressed: by its suffix."""
    zipped = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if zipped else path).suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix], zipped
    hint = " If it holds one JSON object a line, rename it to .jsonl." if suffix == ".json" else ""
    raise InputError(
        f"{name}: the suffix must be one of {' '.join(_FORMATS)}, with or without .gz; got {repr(suffix) if suffix else 'none'}.{hint}"
    )


def _no_such_file(path: Path, name: str) -> InputError:
    shown = name if len(name) <= 200 else f"{name[:200]}…"
    where, texts = path.parent, "To measure texts themselves, pass a list of them."
    if not os.path.isdir(where):
        return InputError(f"{shown}: no such file, and no such folder as {str(where)[:200]}. {texts}")
    try:
        near = difflib.get_close_matches(path.name, os.listdir(where), n=3, cutoff=0.6)
    except OSError:
        near = []
    hint = f"Near it: {', '.join(near)}. " if near else ""
    return InputError(f"{shown}: no such file. {hint}{texts}")


@contextmanager
def _opened(path: Path, name: str) -> Iterator[BinaryIO]:
    try:
        raw = path.open("rb")
    except OSError as error:
        raise InputError(f"{name}: cannot be opened, {error.strerror}. Check who may read it.") from error
    with raw:
        yield _unzipped(raw)


def _unzipped(raw: Any) -> BinaryIO:
    # By content, not by suffix: downloads are often unpacked on the way, and standard input has no name.
    return cast("BinaryIO", gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw)


def _lines(stream: BinaryIO, name: str) -> Iterator[_Row]:
    """The number of each line, from 1, and its text with its line end. Only line feeds end a line."""
    offset = 0
    try:
        for number, raw in enumerate(stream, start=1):
            line = raw
            if number == 1:
                _refuse_utf16(line, name)
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                place = offset + len(raw) - len(line) + error.start
                reason = (
                    f"not UTF-8: byte 0x{line[error.start]:02x} at byte offset {place}; if it is Latin-1, re-encode "
                )
                way_out = "the file with iconv -f ISO-8859-1 -t UTF-8"
                yield number, _BadEntryError(reason + way_out, line.decode(errors="surrogateescape"))
            offset += len(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read to its end, {_said(error)}. Is the file complete?") from error


def _refuse_utf16(start: bytes, name: str) -> None:
    marked = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    even, odd = start[0:4:2], start[1:4:2]
    if marked or (odd and ((all(even) and not any(odd)) or (all(odd) and not any(even)))):
        raise InputError(f"{name}: must be UTF-8; it is UTF-16 or UTF-32. Re-encode it with iconv -f UTF-16 -t UTF-8.")


def _jsonl_rows(lines: Iterable[_Row], name: str, options: _Options) -> Iterator[_Row]:
    for number, line in lines:
        if not isinstance(line, str):
            yield number, line
        elif not line.isspace():
            yield number, _json_object(line)


def _json_object(line: str) -> object:
    try:
        value = json.loads(line.rstrip())  # or the column of an early end would be that of the next line
    except json.JSONDecodeError as error:
        hint = " (is the file one JSON array, not one object a line?)" if line.lstrip().startswith("[") else ""
        return _BadEntryError(f"bad JSON: {error.msg} at column {error.colno}{hint}")
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, endless nesting
        return _BadEntryError(f"bad JSON: {error}")
    if not isinstance(value, dict):
        return _BadEntryError(f'must be a JSON object such as {{"text": "…"}}; got {line.strip()[:40]}')
    return value


def _txt_rows(lines: Iterable[_Row], name: str, options: _Options) -> Iterator[_Row]:
    for number, line in lines:
        yield number, line.removesuffix("\n").removesuffix("\r") if isinstance(line, str) else line


def _csv_rows(lines: Iterable[_Row], name: str, options: _Options) -> Iterator[_Row]:
    skips = _Skips(options)

    def decoded() -> Iterator[str]:
        for number, line in lines:
            if isinstance(line, _BadEntryError):  # part of an entry: only the parser can tell which
                skips.add(f"{name}:{number}", line)
                yield line.line
            else:
                yield str(line)

    limit = csv.field_size_limit((1 << 31) - 1)
    try:
        # Strict: otherwise a quotation mark that is never closed would swallow the rest of the file in silence.
        yield from _csv_entries(csv.reader(decoded(), strict=True), name, options)
    finally:
        csv.field_size_limit(limit)


def _csv_entries(reader: Any, name: str, options: _Options) -> Iterator[_Row]:
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise InputError(f"{name}:1: bad CSV in the header, {error}. Is it a CSV file?") from error
    if not header:
        return
    places = [(header.index(column), column) for column in _chosen(header, name, options)]
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield first, _BadEntryError(f"bad CSV: {error} (lines {first} to {reader.line_num})")
            continue
        if not cells and len(header) == 1:
            cells = [""]  # of one column, a blank line is an empty text
        if len(cells) == len(header):
            yield first, {column: cells[place] for place, column in places}
        elif cells:
            yield first, _BadEntryError(f"{len(cells)} columns, where the header has {len(header)}")


def _parquet_rows(stream: BinaryIO, name: str, options: _Options) -> Iterator[_Row]:
    parquet = optional("pyarrow.parquet", extra="tables")
    try:
        file = parquet.ParquetFile(stream)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: not a readable parquet file, {_said(error)}. Is the file complete?") from error
    columns = _chosen(file.schema_arrow.names, name, options)
    batches = file.iter_batches(columns=columns, batch_size=1024)
    try:
        yield from enumerate(row for batch in batches for row in batch.to_pylist())
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be read to its end, {_said(error)}. Is the file complete?") from error


_ROWS: dict[str, Callable[[Iterable[_Row], str, _Options], Iterator[_Row]]] = {
    "jsonl": _jsonl_rows,
    "txt": _txt_rows,
    "csv": _csv_rows,
}


# --- tables and lists


def _chosen(names: Sequence[object], name: str, options: _Options) -> list[str]:
    """The columns to read: that of the text, and `id` and `prompt` where there are such."""
    text = options.text
    if text not in names:
        hint = " Only commas separate columns." if len(names) == 1 and {";", "\t"} & set(str(names[0])) else ""
        hint = hint or (" Features are passed as an array: its .to_numpy()." if name == "DataFrame" else "")
        raise InputError(
            f"{name}: no column `{text}`; its columns are {_listed(names)}: choose with field=… (--field).{hint}"
        )
    columns = [text, *(column for column in ("id", "prompt") if column in names and column != text)]
    for column in columns:
        if list(names).count(column) > 1:
            raise InputError(f"{name}: two columns are named `{column}`. Rename one of them.")
    return columns


def _column(values: Any) -> list[object]:
    for method in ("to_list", "to_pylist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def _read_table(table: Any, name: str, options: _Options) -> Samples:
    """A pandas or polars frame, a Hugging Face dataset, a pyarrow table: whatever names its columns."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    chosen = _chosen(names, name, options)
    columns = [_column(table[column]) for column in chosen]
    rows = (dict(zip(chosen, values, strict=True)) for values in zip(*columns, strict=True))
    return _gather(enumerate(rows), _at_index(name), name, options)


def _read_list(values: Iterable[object], name: str, options: _Options) -> Samples:
    """What a list holds: the first entry that is not missing tells."""
    iterator = iter(values)
    head: list[object] = []
    for value in iterator:
        head.append(value)
        if not _missing(value):
            break
    kind = head[-1] if head else None
    every = itertools.chain(head, iterator)
    if isinstance(kind, os.PathLike) or (isinstance(values, list | tuple) and _all_image_names(values)):
        return _read_images(((str(path), path) for path in every), name, options)
    if isinstance(kind, numbers.Number):
        raise InputError(f"{name}: must hold texts, paths to images or rows of features; got numbers such as {kind!r}.")
    rows_of_numbers = isinstance(kind, list | tuple) and bool(kind) and isinstance(kind[0], numbers.Number)
    if rows_of_numbers or (hasattr(kind, "__array__") and np.asarray(kind).dtype.kind in "biuf"):
        return _read_features(list(every), name, options)
    return _gather(enumerate(every), _at_index(name), name, options)


def _read_array(values: NDArray[Any], name: str, options: _Options) -> Samples:
    of_strings = values.ndim > 0 and values.dtype.kind in "OTU"
    return _read_list(values.tolist(), name, options) if of_strings else _read_features(values, name, options)


def _all_image_names(values: Sequence[object]) -> bool:
    # No set of texts looks like this, and measuring file names as if they were texts would be a silent disaster.
    return all(isinstance(value, str) and os.path.splitext(value)[1].lower() in _IMAGES for value in values)


# --- images


def _read_folder(folder: Path, name: str, options: _Options) -> Samples:
    every = sorted((path.relative_to(folder).as_posix(), path) for path in _walk(folder))
    images = [(id_, path) for id_, path in every if path.suffix.lower() in _IMAGES | _OTHER_IMAGES]
    if not images:
        holds = ", ".join(id_ for id_, _ in every[:3]) + (", …" if len(every) > 3 else "")
        raise InputError(
            f"{name}: a folder must hold images ({' '.join(sorted(_IMAGES))}); it holds {holds or 'no files'}. "
            "Of text and feature files, pass one."
        )
    return _read_images(images, name, options)


def _walk(folder: Path) -> Iterator[Path]:
    """All files that are not hidden; links are followed, but not in circles."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: the folder cannot be read, {error.strerror}. Check who may read it.")

    seen = set()
    for here, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(here)
        folders[:] = [] if real in seen else sorted(each for each in folders if not each.startswith("."))
        if real not in seen:
            seen.add(real)
            yield from (Path(here, file) for file in files if not file.startswith("."))


def _read_images(images: Iterable[tuple[str, object]], name: str, options: _Options) -> Samples:
    ids: list[str] = []
    paths: list[Path] = []
    skips = _Skips(options)
    for id_, entry in images:
        fault = _image_fault(entry)
        if fault is not None:
            skips.add(str(entry), fault)
            continue
        ids.append(id_)
        paths.append(Path(cast("str", entry)))
        if len(paths) == options.limit:
            break
    if not paths:
        raise skips.nothing_left(name)
    return Samples("image", tuple(paths), tuple(ids), source=name, skipped=tuple(skips))


def _image_fault(entry: object) -> str | None:
    """What is wrong with an image, as far as its name and header tell; None: nothing."""
    if not isinstance(entry, str | os.PathLike):
        return f"must be the path to an image; got {repr(entry)[:40]}"
    path = Path(entry)
    if path.suffix.lower() not in _IMAGES:
        return f"not an image that is read, by its suffix {path.suffix!r}: convert it to png or jpg"
    if not os.path.isfile(path):
        return "no such file"
    if path.stat().st_size == 0:
        return "an empty file, not an image"
    if importlib.util.find_spec("PIL") is None:
        return None
    pillow = importlib.import_module("PIL.Image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # very large images are legal
            pillow.open(path).close()
    except Exception as error:  # a decoder may raise anything on a corrupt header
        known = isinstance(error, pillow.UnidentifiedImageError)
        return "not an image that can be opened" + ("" if known else f": {error}")
    return None


# --- features


def _read_numpy(path: Path, name: str, options: _Options) -> Samples:
    try:
        with _opened(path, name) as stream:
            zipped = isinstance(stream, gzip.GzipFile)
            file: Any = io.BytesIO(stream.read()) if zipped else stream
            start = file.read(2)
            file.seek(0)
            if start != b"PK":
                return _read_features(np.load(file) if zipped else np.load(path, mmap_mode="r"), name, options)
            with np.load(file) as arrays:
                values = arrays[_array_name(arrays.files, name, options)]
                extra = {each: arrays[each] for each in ("ids", "provenance") if each in arrays}
    except InputError:
        raise
    except _DAMAGED as error:
        objects = "pickle" in str(error) or "Python objects" in str(error)
        reason = "it holds something else than numbers" if objects else _said(error)
        way_out = "Write it again with np.save; pickles are never loaded"
        raise InputError(f"{name}: not a readable npy or npz file, {reason}. {way_out}.") from error
    ids = extra.get("ids")
    if ids is not None and ids.shape != values.shape[:1]:
        raise InputError(
            f"{name}: `ids` must have one entry for each of the {len(values)} rows; got shape {ids.shape}."
        )
    labels = None if ids is None else tuple(map(str, ids.tolist()))
    return _read_features(values, name, options, labels, _provenance(extra.get("provenance"), name))


def _array_name(names: list[str], name: str, options: _Options) -> str:
    others = [each for each in names if each not in ("ids", "provenance")]
    wanted = options.field or (others[0] if len(others) == 1 else "features")
    if wanted not in names:
        raise InputError(
            f"{name}: no array `{wanted}`; its arrays are {_listed(names)}: choose with field=… (--field)."
        )
    return wanted


def _provenance(value: NDArray[Any] | None, name: str) -> dict[str, object] | None:
    if value is None:
        return None
    try:
        found = json.loads(str(value[()]))
    except ValueError as error:
        raise InputError(f"{name}: `provenance` must be a JSON object as text; {error}.") from None
    if not isinstance(found, dict):
        raise InputError(f"{name}: `provenance` must be a JSON object as text; got {str(value)[:40]!r}.")
    return found


def _read_features(
    values: object,
    name: str,
    options: _Options,
    ids: tuple[str, ...] | None = None,
    provenance: dict[str, object] | None = None,
) -> Samples:
    try:
        rows = np.asanyarray(values)  # (n, d); a mapped file stays mapped
    except ValueError as error:
        raise InputError(f"{name}: features must have rows of one length; {_said(error)}.") from None
    if rows.dtype.kind not in "biuf":
        raise InputError(f"{name}: features must be real numbers; got dtype {rows.dtype}.")
    if rows.ndim != 2:
        raise InputError(f"{name}: features must have shape (n, d), a row for each sample; got shape {rows.shape}.")
    if rows.size == 0:
        raise InputError(f"{name}: holds no samples; got shape {rows.shape}. At least one is needed.")
    skips = _Skips(options)
    finite = _finite_rows(rows, options.limit)
    good = np.flatnonzero(finite)[: options.limit]
    stop = int(good[-1]) + 1 if len(good) == options.limit else len(finite)
    for row in np.flatnonzero(~finite[:stop]):
        column = int(np.argmin(np.isfinite(rows[row])))
        skips.add(f"{name}[{row}]", f"features must be finite; got {rows[row, column]} in column {column}")
    if len(good) == 0:
        raise skips.nothing_left(name)
    rows = rows[good] if skips else rows[:stop]
    kept = None if ids is None else tuple(ids[row] for row in good)
    return Samples("features", rows, kept, source=name, skipped=tuple(skips), provenance=provenance)


def _finite_rows(rows: NDArray[Any], limit: int | None) -> NDArray[np.bool_]:
    """Which rows are finite, chunk by chunk, as far as the limit needs."""
    step = max(1, _CHUNK // rows.shape[1])
    found: list[NDArray[np.bool_]] = []
    total = 0
    for start in range(0, len(rows), step):
        found.append(np.isfinite(rows[start : start + step]).all(axis=1))
        total += int(found[-1].sum())
        if limit is not None and total >= limit:
            break
    return np.concatenate(found)


# --- writing


def _check_writable(samples: Samples, form: str, name: str) -> None:
    if not isinstance(samples, Samples):
        raise InputError(f"`samples` must be Samples; got {type(samples).__name__}. Pass read(…) of it.")
    if len(samples) == 0:
        raise InputError(f"{name}: at least one sample is needed; got none.")
    fitting = {"text": ("jsonl", "csv", "parquet", "txt"), "features": ("npz", "npy"), "image": ()}[samples.kind]
    if samples.kind == "image":
        raise InputError(f"{name}: images are files already. Copy them, or write their features.")
    if form not in fitting:
        raise InputError(f"{name}: {samples.kind} samples are written as {', '.join(fitting)}; got {form}.")
    if form == "npy" and (samples.ids is not None or samples.provenance is not None):
        raise InputError(f"{name}: npy would lose the ids and the provenance of these features. Write .npz.")
    if form == "txt":
        for place, text in enumerate(samples.texts):
            if "\n" in text or "\r" in text:
                raise InputError(
                    f"{name}: txt holds one text a line; text {place} has a line break. Write .jsonl, .csv or .parquet."
                )


def _write_to(stream: BinaryIO, samples: Samples, form: str) -> None:
    if form == "parquet":
        _seekable(stream, lambda file: _write_parquet(file, samples))
    elif form in ("npy", "npz"):
        _seekable(stream, lambda file: _write_features(file, samples, form))
    else:
        text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
        try:
            _WRITERS[form](text, samples)
        finally:
            text.detach()


def _seekable(stream: BinaryIO, work: Callable[[BinaryIO], None]) -> None:
    """Do the work on a stream that can go back, as zip and parquet files need; a gzip stream cannot."""
    if not isinstance(stream, gzip.GzipFile):
        work(stream)
        return
    held = io.BytesIO()
    work(held)
    stream.write(held.getbuffer())


def _records(samples: Samples) -> Iterator[dict[str, str]]:
    named = (("id", samples.ids), ("prompt", samples.prompts), ("text", samples.texts))
    columns = {name: values for name, values in named if values is not None}
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _write_jsonl(text: io.TextIOWrapper, samples: Samples) -> None:
    for record in _records(samples):
        text.write(json.dumps(record, ensure_ascii=False) + "\n")


def _write_csv(text: io.TextIOWrapper, samples: Samples) -> None:
    for number, record in enumerate(_records(samples)):
        if number == 0:
            table = csv.DictWriter(text, list(record))  # its line end, \r\n, makes it quote both characters
            table.writeheader()
        table.writerow(record)


def _write_txt(text: io.TextIOWrapper, samples: Samples) -> None:
    if samples.texts and samples.texts[0].startswith("\ufeff"):
        text.write("\ufeff")  # or the first character would be taken for the mark
    for line in samples.texts:
        text.write(line + "\n")


_WRITERS: dict[str, Callable[[io.TextIOWrapper, Samples], None]] = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "txt": _write_txt,
}


def _write_parquet(stream: BinaryIO, samples: Samples) -> None:
    arrow, parquet = optional("pyarrow", extra="tables"), optional("pyarrow.parquet", extra="tables")
    records = _records(samples)
    batch = list(itertools.islice(records, 1024))
    with parquet.ParquetWriter(stream, arrow.schema([(name, arrow.string()) for name in batch[0]])) as file:
        while batch:
            file.write_table(arrow.Table.from_pylist(batch, schema=file.schema))
            batch = list(itertools.islice(records, 1024))


def _write_features(stream: BinaryIO, samples: Samples, form: str) -> None:
    if form == "npy":
        np.save(stream, samples.features, allow_pickle=False)
        return
    arrays: dict[str, Any] = {"features": samples.features}
    if samples.ids is not None:
        arrays["ids"] = np.array(samples.ids, dtype=np.str_)
        if tuple(arrays["ids"].tolist()) != samples.ids:
            raise InputError("`ids` must not end in NUL characters: arrays of strings lose them.")
    if samples.provenance is not None:
        try:
            arrays["provenance"] = np.array(json.dumps(samples.provenance))
        except (TypeError, ValueError) as error:
            raise InputError(f"`provenance` must be what JSON can hold; {error}.") from None
    np.savez(stream, allow_pickle=False, **arrays)
