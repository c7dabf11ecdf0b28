"""Reading samples: every kind of source becomes `Samples`."""

from __future__ import annotations

import io
import itertools
import numbers
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mallow._checks import whole
from mallow._files import files_below, is_glob, is_url
from mallow._optional import did_you_mean
from mallow.engine import memory_budget
from mallow.errors import InputError
from mallow.samples._entries import BadEntryError, Options, Row, gather_texts
from mallow.samples._eval_logs import eval_rows, object_rows, plain_harness_rows
from mallow.samples._feature_arrays import read_features, read_numpy
from mallow.samples._media import MEDIA_SUFFIXES, read_folder, read_media
from mallow.samples._samples import Samples
from mallow.samples._shard_files import list_shards, open_shard, shard_suffix
from mallow.samples._shard_formats import has_lists
from mallow.samples._shards import find_shards
from mallow.samples._streams import decode_lines, decompress, file_format, open_file, seekable
from mallow.samples._text_files import array_rows, begins_with, column_values, line_rows, parquet_rows, read_table
from mallow.samples._value_checks import DEFAULT_LIMITS, Limits, detached, is_missing


def read(
    source: object,
    *,
    field: str | None = None,
    skip_bad: bool = False,
    limit: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Samples:
    """The samples in a file, a folder, standard input, a table, a list or an array.

    Parameters
    ----------
    source : path, "-", list, array, table or Samples
        - a file: .jsonl (.ndjson), .json (an array), .txt (one text per line), .csv (separated by commas, with a
          header) or .parquet for texts; .npy or .npz for features. Each may be compressed as .gz. Text is UTF-8, with
          or without a byte-order mark. ``"human.jsonl:body"`` is a file and its field;
        - a log of an evaluation: samples_*.jsonl of lm-evaluation-harness, .eval or .json of Inspect. The texts are the
          answers of the model; ``"log.eval:target"`` reads the expected ones;
        - ``"-"``: standard input, read as jsonl if it begins with ``{``, as a JSON array if it begins with ``[``, and
          as one text per line otherwise;
        - a folder, glob or URL (s3://…, gs://…) of shards: .npy, .npz, .parquet (a column of lists) or .safetensors for
          features, which are described here and read when they are used (`Samples.shards`); .jsonl or .jsonl.gz for
          texts;
        - a folder of images (png, jpg, jpeg, webp, bmp, gif, tif, tiff), including its subfolders, in the order of
          their names; or of recordings (wav, flac). Other files and hidden ones are ignored. The ids are the paths
          inside the folder;
        - a list of texts, of dicts, or of paths to images or recordings;
        - an array (n, d) of features; an array with one axis is n samples of one feature;
        - a pandas or polars DataFrame or Series, a pyarrow Table or a Hugging Face Dataset;
        - `Samples`, which are returned unchanged, up to the limit.
    field : str or None
        The field or column that holds the text; None means ``text``. A nested field is written with dots:
        ``output.completion``. In a .npz file it is the name of the array; None means ``features``, or the only array.
        Formats without fields ignore it. A field that holds a list of texts gives several generations for one prompt.
        They follow one another and share an id, which is the number of the entry, from 1, if the entries have no
        ``id``. The fields ``id`` and ``prompt`` are read if all entries have them. The arrays ``ids``, ``prompts`` and
        ``provenance`` of a .npz file are read as well.
    skip_bad : bool
        Skip bad entries and list them in `Samples.skipped`, instead of refusing the source. An entry is bad if it is
        not valid JSON, not UTF-8, not a string, or empty; if it lacks the field; if it is an image that cannot be
        decoded; or if its features are not finite. White space does not count as empty, since models generate it.
    limit : int or None
        Read only the first `limit` prompts with all of their samples, and nothing after them; None means all. Samples
        with the same id (the same prompt, if there are no ids) belong to one prompt, and in a file they follow one
        another, so reading ends where the next prompt begins. Without ids and prompts, or if all samples have the same
        one, valid samples are counted.

    limits : Limits
        The largest sizes of a line, a file and its expansion. Beyond them, reading ends with an error instead of
        filling the memory.

    Notes
    -----
    Files are read as streams: apart from the samples, only one line (one batch of a parquet file) is in memory at a
    time. A .npy file that is larger than the memory allows is read chunk by chunk, like shards. Only the header of an
    image is read (with `skip_bad` all of it), and only if Pillow is installed. Pickles are never loaded.

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
    if not isinstance(limits, Limits):
        raise InputError(f"`limits` must be Limits(…); got {type(limits).__name__}.")
    options = Options(field, skip_bad, None if limit is None else whole("limit", limit, least=1), limits)
    return _read(source, options)


def read_column(
    source: object,
    column: str,
    *,
    field: str | None = None,
    skip_bad: bool = False,
    limit: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[str, ...]:
    """A further column of a source of texts, one entry for each sample that `read` returns with the same options.

    Numbers are returned as text. All entries must have the column.
    """
    plain = read(source, field=field, skip_bad=skip_bad, limit=limit, limits=limits)
    if column == "id" and plain.ids:
        return plain.ids
    options = Options(field, skip_bad, None if plain.ids is None else limit, limits, column)
    values = None if isinstance(source, Samples) or plain.texts is None else _read(source, options).prompts
    if values is None:
        raise InputError(f"{plain.source}: no column '{column}'. Name a column that all entries have.")
    return values[: len(plain)]


def _read(source: object, options: Options) -> Samples:
    """`read` with checked options."""
    if isinstance(source, Samples):
        return source.first(options.limit)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if not isinstance(path, str):
            raise InputError(f"`source` must be a path of type str or Path; got bytes. Use os.fsdecode({path!r:.60}).")
        path, own_field = split_field(path)
        options = options if own_field is None else replace(options, field=own_field)
        if path != "-":
            return _read_path(path, options)
        stream, name = _peekable(sys.stdin.buffer), "standard input"
        try:
            return _read_stream(decompress(stream, name, options.limits), name, options)
        finally:
            if stream is not sys.stdin.buffer:
                stream.detach()  # otherwise it would close standard input when it is collected
    name = type(source).__name__
    if name == "LazyFrame":
        raise InputError("`source` must be a table in memory; got a LazyFrame. Call .collect() on it first.")
    if not isinstance(source, bytes | bytearray | Mapping):
        if hasattr(source, "__getitem__") and (hasattr(source, "column_names") or hasattr(source, "columns")):
            return read_table(source, name, options)
        if hasattr(source, "to_list") or hasattr(source, "to_pylist"):
            return _read_list(column_values(source), name, options)
        if hasattr(source, "__array__"):
            values = np.asanyarray(detached(source))
            if values.ndim > 0 and values.dtype.kind in "OTUS":
                return _read_list(values.tolist(), name, options)
            return read_features(values, name, options)
        if isinstance(source, Iterable):
            return _read_list(source, name, options)
    raise InputError(
        f"`source` must be a path, a list, an array or a table; got {name}. "
        "If it contains several sets, or several splits of a dataset, pass one of them."
    )


def _peekable(stream: Any) -> Any:
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)


def _read_stream(stream: BinaryIO, name: str, options: Options, form: str | None = None) -> Samples:
    """Texts from a decompressed stream.

    Without a known form they are a JSON array, jsonl if the stream begins with a brace, or one text per line.
    """
    if form in (None, "jsonl") and begins_with(stream, name) == "[":  # one JSON array, whatever the suffix
        form = "json"
    if form in ("parquet", "eval", "json"):
        if form == "parquet":
            rows = parquet_rows(seekable(stream, name), name, options)
        elif form == "eval":
            rows = eval_rows(seekable(stream, name), name, options.limits)
        elif begins_with(stream, name) == "{":
            rows = plain_harness_rows(object_rows(stream, name, options.limits))
        else:
            rows = plain_harness_rows(array_rows(stream, name, options))
        return gather_texts(rows, name, options)
    lines = decode_lines(stream, name, options.limits)
    if form is None:
        head: list[Row] = []
        for line in lines:
            head.append(line)
            if not (isinstance(line[1], str) and line[1].isspace()):
                break
        beginning = head[-1][1] if head else ""
        form = "jsonl" if isinstance(beginning, str) and beginning.lstrip().startswith("{") else "txt"
        lines = itertools.chain(head, lines)
    return gather_texts(line_rows(form, lines, name, options), name, options, form=":{}")


def _read_path(name: str, options: Options) -> Samples:
    if not name:
        raise InputError(
            "`source` must not be an empty path. Pass the path of a file or folder, or - for standard input."
        )
    path = Path(os.path.expanduser(name))
    if is_url(name) or (is_glob(name) and not os.path.exists(path)):
        return read_sharded(name, options)
    if os.path.isdir(path):
        if holds_shards(path):
            return read_sharded(name, options)
        texts = text_files(path)
        return _read_text_folder(path, texts, name, options) if texts else read_folder(path, name, options)
    if not os.path.exists(path):
        raise no_such_file(path, name)
    if path.suffix.lower() == ".safetensors":
        return read_sharded(name, options)
    if path.suffix.lower() in MEDIA_SUFFIXES:
        return read_media([(name, path)], name, options)
    if not path.is_file():  # a pipe, such as /dev/fd/63
        with open_file(path, name, options.limits) as stream:
            return _read_stream(stream, name, options)
    form, _ = file_format(path, name)
    if form == "npy" and path.suffix.lower() == ".npy" and path.stat().st_size > memory_budget():
        return read_sharded(name, options)  # chunk by chunk. A change in the meantime is an error
    if form in ("npy", "npz"):
        return read_numpy(path, name, options)
    with open_file(path, name, options.limits) as stream:
        return _read_stream(stream, name, options, form)


def text_files(folder: Path) -> list[Path]:
    """The .txt files of a folder that contains nothing else, sorted by name; empty for other folders."""
    files = []
    for file in files_below(folder):
        if file.suffix.lower() != ".txt":
            return []  # at the first one: a folder of pictures may be large
        files.append(file)
    return sorted(files)


def _read_text_folder(folder: Path, files: Sequence[Path], name: str, options: Options) -> Samples:
    """One text per file, without the last line end. File names are not ids, since they are often only numbers."""

    def rows() -> Iterator[Row]:
        for file in files:
            lines, place = [], file.relative_to(folder).as_posix()
            with open_file(file, str(file), options.limits) as stream:
                for _, line in decode_lines(stream, str(file), options.limits):
                    if isinstance(line, BadEntryError):
                        yield place, line
                        break
                    lines.append(str(line))
                else:
                    yield place, "".join(lines).removesuffix("\n").removesuffix("\r")

    return gather_texts(rows(), name, options, form="/{}")


def no_such_file(path: Path, name: str) -> InputError:
    """The error for a missing path, with the most similar existing name."""
    shown = name if len(name) <= 200 else f"{name[:200]}…"
    if os.path.islink(path):
        return InputError(f"{shown}: is a link that leads to no file, or back to itself. Check where it points.")
    folder, way_out = path.parent, "To pass texts themselves, put them into a list."
    if not os.path.isdir(folder):
        return InputError(f"{shown}: no such file. The folder {str(folder)[:200]} does not exist. {way_out}")
    try:
        suggestion = did_you_mean(path.name, os.listdir(folder))
    except OSError:  # a folder that may not be listed
        suggestion = ""
    return InputError(f"{shown}: no such file.{suggestion} {way_out}")


def _read_list(values: Iterable[object], name: str, options: Options) -> Samples:
    """The samples in a list. Its first entry that is not missing determines their kind."""
    iterator = iter(values)
    head: list[object] = []
    for value in iterator:
        head.append(value)
        if not is_missing(value):
            break
    example = head[-1] if head else None
    entries = itertools.chain(head, iterator)
    # Real texts do not look like names of media, and silently scoring file names as texts would be a serious error.
    if isinstance(example, os.PathLike) or (
        isinstance(values, list | tuple)
        and all(isinstance(value, str) and os.path.splitext(value)[1].lower() in MEDIA_SUFFIXES for value in values)
    ):
        return read_media(((str(path), path) for path in entries), name, options)
    if isinstance(example, numbers.Number):
        raise InputError(
            f"{name}: must contain texts, paths to images or recordings, or rows of features; got numbers such as "
            f"{example!r}. For samples of one feature, pass a numpy array."
        )
    rows_of_numbers = isinstance(example, list | tuple) and bool(example) and isinstance(example[0], numbers.Number)
    if rows_of_numbers or (hasattr(example, "__array__") and np.asarray(detached(example)).dtype.kind in "biuf"):
        return read_features(list(entries), name, options)
    return gather_texts(enumerate(entries), name, options)


def holds_shards(folder: Path) -> bool:
    """Whether a folder holds shards, and no images or recordings."""
    shards = False
    for file in files_below(folder):
        if file.suffix.lower() in MEDIA_SUFFIXES:
            return False
        shards = shards or (bool(shard_suffix(file.name)) and not file.name.startswith("_"))
    return shards


def read_sharded(source: str, options: Options) -> Samples:
    """The samples in a folder, a glob or a URL of shards."""
    names = list_shards(source)
    suffix = shard_suffix(names[0])
    if suffix == ".tar":
        raise InputError(
            f"{source}: archives of images are read while they are embedded: mallow embed {source} --engine ray"
        )
    if suffix.removesuffix(".gz") in (".jsonl", ".ndjson") or (suffix == ".parquet" and not has_lists(names[0])):
        return _read_texts(names, source, options)
    shards = find_shards(source, options.field, names=names)
    provenance = None if shards.embedder is None else {"embedder": shards.embedder}
    if options.skip_bad:  # which rows are bad is known only when all are read
        rows = read_features(shards.read(finite=False), source, options)
        return Samples.trusted(features=rows.features, source=source, skipped=rows.skipped, provenance=provenance)
    return Samples.trusted(shards=shards, source=source, provenance=provenance).first(options.limit)


def _read_texts(names: tuple[str, ...], source: str, options: Options) -> Samples:
    """The texts of all files, one after another."""
    parts = []
    left = options.limit
    for name in names:
        with open_shard(name) as stream:
            form = "parquet" if shard_suffix(name) == ".parquet" else "jsonl"
            expanded = stream if form == "parquet" else decompress(_peekable(stream), name, options.limits)
            parts.append(_read_stream(expanded, name, options, form))
        if left is not None and sum(map(len, parts)) >= left:
            break
    whole: dict[str, object] = {"source": source, "skipped": tuple(entry for part in parts for entry in part.skipped)}
    for label in ("texts", "ids", "prompts"):
        values = [getattr(part, label) for part in parts]
        if all(column is not None for column in values):
            whole[label] = tuple(itertools.chain.from_iterable(values))
    return Samples.trusted(**whole).first(left)


_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".npz", ".eval")


def split_field(source: str) -> tuple[str, str | None]:
    """The path and the field of FILE:FIELD; None for a path without a field.

    A path that exists is a path, whatever its name. Otherwise the part after the last colon is a field if the part
    before it is standard input, an existing file or folder, or ends as a file with fields does.
    """
    path, colon, field = source.rpartition(":")
    if not colon or not path or not field or "/" in field:
        return source, None
    if not is_url(source) and os.path.exists(os.path.expanduser(source)):
        return source, None
    has_fields = path.lower().removesuffix(".gz").endswith(_SUFFIXES)
    if has_fields or path == "-":
        return path, field
    is_there = not is_url(path) and not is_glob(path) and os.path.exists(os.path.expanduser(path))
    return (path, field) if is_there else (source, None)
