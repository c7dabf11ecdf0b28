"""Writing samples and shards to files, completely or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from mallow._files import atomic_file, is_url, make_folder, parse_json, write_text
from mallow._optional import optional
from mallow.errors import InputError
from mallow.samples._samples import Samples
from mallow.samples._shard_files import ask_store, file_system, open_shard
from mallow.samples._streams import file_format

_TEXT_FORMATS = ("jsonl", "json", "csv", "parquet", "txt")
_FEATURE_FORMATS = ("npz", "npy")


def write(samples: Samples, path: str | os.PathLike[str]) -> None:
    """Write samples to a file in the format of its suffix. The file appears completely, or not at all.

    Parameters
    ----------
    samples : Samples
        Samples with texts or features. Texts and images that were embedded have features.
    path : path
        For texts: .jsonl, .json, .csv or .parquet, which keep ids and prompts, or .txt, which keeps only the texts and
        refuses texts with line breaks. For features: .npz, which keeps ids, prompts and provenance, or .npy, which
        refuses features that have any of them. Add .gz to compress the file. The same samples always give the same
        bytes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mallow import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "samples.csv.gz")
    ...     write(read(["One.", "Two,\\nwith a line break."]), path)
    ...     read(path).texts
    ('One.', 'Two,\\nwith a line break.')
    """
    name = os.fspath(path)
    if not name or "\0" in name:
        raise InputError(f"`path` must be the path of a file; got {name!r}.")
    target = Path(os.path.realpath(os.path.expanduser(path)))  # a link stays a link
    form, zipped = file_format(target, name)
    if form == "eval":
        raise InputError(f"{name}: logs of Inspect are read, not written. Write .jsonl, .csv or .parquet.")
    if not isinstance(samples, Samples):
        raise InputError(f"`samples` must be Samples; got {type(samples).__name__}. Convert it with mallow.read first.")
    if len(samples) == 0:
        raise InputError(f"{name}: at least one sample is needed; got none.")
    _refuse_losses(samples, form, name)
    if not target.parent.is_dir():
        raise InputError(f"{name}: the folder {target.parent} does not exist. Create it first.")
    if target.is_dir():
        raise InputError(f"{name}: is a folder. Pass the path of a file in it.")
    try:
        with atomic_file(target) as stream:
            if zipped:  # without name and time, so that the bytes are always the same
                with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:
                    _write_to(cast("BinaryIO", compressed), samples, form)
            else:
                _write_to(stream, samples, form)
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error.strerror or error}. Nothing was written.") from error
    except UnicodeEncodeError as error:
        half = f"{error.object[error.start]!a}, half of a surrogate pair"
        raise InputError(f"{name}: texts must be valid Unicode; got {half}. Fix the text.") from error


def _refuse_losses(samples: Samples, form: str, name: str) -> None:
    """Raise an InputError if a format cannot hold the samples."""
    if form in _FEATURE_FORMATS:
        if samples.features is None:
            texts = f", or write the texts as {', '.join(_TEXT_FORMATS)}" if samples.kind == "text" else ""
            raise InputError(
                f"{name}: {form} files hold features, and these {samples.kind} samples have none. "
                f"Embed them first with `mallow.embed.embed_samples` or the command `mallow embed`{texts}."
            )
        losses = [label for label in ("ids", "prompts", "provenance") if getattr(samples, label) is not None]
        if form == "npy" and losses:
            raise InputError(f"{name}: npy files hold only features and would lose: {', '.join(losses)}. Write .npz.")
    elif samples.texts is None:
        way_out = (
            f"Write the features as {' or '.join(_FEATURE_FORMATS)}"
            if samples.features is not None
            else "Images are files already: copy them, or embed them and write .npz"
        )
        raise InputError(f"{name}: {form} files hold texts, and these {samples.kind} samples have none. {way_out}.")
    elif form == "txt" and any("\n" in text or "\r" in text for text in samples.texts):
        place = next(place for place, text in enumerate(samples.texts) if "\n" in text or "\r" in text)
        raise InputError(
            f"{name}: txt files hold one text per line; text {place} contains a line break. "
            "Write .jsonl, .csv or .parquet."
        )


def _write_to(stream: BinaryIO, samples: Samples, form: str) -> None:
    if form in ("parquet", *_FEATURE_FORMATS):
        # These need random access, which a gzip stream does not have.
        target = io.BytesIO() if isinstance(stream, gzip.GzipFile) else stream
        if form == "parquet":
            _write_parquet(target, samples)
        else:
            write_features(target, samples, form)
        if isinstance(target, io.BytesIO):
            stream.write(target.getbuffer())
        return
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    try:
        _write_texts(text, samples, form)
    finally:
        text.detach()


def _write_texts(text: io.TextIOWrapper, samples: Samples, form: str) -> None:
    if form == "txt":
        texts = samples.require_texts()
        if texts[0].startswith("\ufeff"):
            text.write("\ufeff")  # otherwise the first character would be read as a byte-order mark
        text.writelines(f"{line}\n" for line in texts)
    elif form == "csv":
        columns = list(next(_records(samples)))
        table = csv.DictWriter(text, columns)  # its line end is \r\n, so it quotes texts with either character
        table.writeheader()
        table.writerows(_records(samples))
    else:
        start, between, end = ("[\n", ",\n", "\n]\n") if form == "json" else ("", "\n", "\n")
        for number, record in enumerate(_records(samples)):
            text.write((between if number else start) + json.dumps(record, ensure_ascii=False))
        text.write(end)


def _records(samples: Samples) -> Iterator[dict[str, str]]:
    named = (("id", samples.ids), ("prompt", samples.prompts), ("text", samples.texts))
    columns = {name: values for name, values in named if values is not None}
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _write_parquet(stream: BinaryIO, samples: Samples) -> None:
    arrow, parquet = optional("pyarrow", extra="tables"), optional("pyarrow.parquet", extra="tables")
    records, columns = _records(samples), list(next(_records(samples)))
    with parquet.ParquetWriter(stream, arrow.schema([(name, arrow.string()) for name in columns])) as file:
        while batch := list(itertools.islice(records, 1024)):
            file.write_table(arrow.Table.from_pylist(batch, schema=file.schema))


def write_features(stream: BinaryIO, samples: Samples, form: str) -> None:
    """Write features to a stream with random access, as npy or npz."""
    features = samples.require_features()
    if form == "npy":
        np.save(stream, features, allow_pickle=False)
        return
    arrays: dict[str, Any] = {"features": features}
    if samples.ids is not None:
        arrays["ids"] = np.array(samples.ids, dtype=np.str_)
        for id_, stored in zip(samples.ids, arrays["ids"].tolist(), strict=True):
            if id_ != stored:
                raise InputError(f"`ids` must not end in NUL, which arrays of strings cannot store; got {id_!r}.")
    if samples.prompts is not None:
        # As one JSON text, since an array of strings would give every prompt the size of the longest.
        arrays["prompts"] = np.array(json.dumps(samples.prompts, ensure_ascii=False))
    if samples.provenance is not None:
        try:
            arrays["provenance"] = np.array(json.dumps(samples.provenance))
        except (TypeError, ValueError) as error:
            raise InputError(f"`provenance` must contain only values that JSON can store; {error}.") from None
    np.savez(stream, allow_pickle=False, **arrays)


def make_shard_folder(folder: str) -> str:
    """The folder, created if it does not exist. Object stores do not need this."""
    return folder.rstrip("/") if is_url(folder) else str(make_folder(folder))


def join(folder: str, name: str) -> str:
    """The path or URL of a file in a folder."""
    return f"{folder}/{name}" if is_url(folder) else os.path.join(folder, name)


def write_shard(samples: Samples, name: str) -> None:
    """Write features with ids, prompts and provenance to a .npz file. The file appears completely, or not at all."""
    if not is_url(name):
        write(samples, name)
        return
    content = io.BytesIO()
    write_features(content, samples, "npz")
    _put(name, content.getvalue())


def read_provenance(name: str) -> dict[str, object] | None:
    """The provenance of a .npz shard; None if the file is missing or unreadable."""
    if not shard_exists(name):
        return None
    try:
        with open_shard(name) as stream, np.load(stream) as arrays:
            values: dict[str, object] = parse_json(str(arrays["provenance"][()]))
            return values
    except Exception:  # for a damaged file, numpy, zipfile and zlib may raise anything
        return None


def write_record(name: str, values: dict[str, object]) -> None:
    """Write a small JSON file next to the shards."""
    content = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    if is_url(name):
        _put(name, content.encode())
    else:
        write_text(name, content)


def read_record(name: str) -> dict[str, object] | None:
    """The record from `write_record`; None if the file is missing or unreadable."""
    if not shard_exists(name):
        return None
    try:
        with open_shard(name) as stream:
            values = parse_json(stream.read())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def shard_exists(name: str) -> bool:
    """Whether a file exists at this path or URL."""
    if not is_url(name):
        return Path(name).is_file()
    system, path = file_system(name)
    system.invalidate_cache()
    try:
        return bool(ask_store(name, lambda: system.info(path))["type"] == "file")
    except FileNotFoundError:
        return False


def _put(name: str, content: bytes) -> None:
    """Object stores show an object only when it is complete."""
    system, path = file_system(name)
    try:
        ask_store(name, lambda: system.pipe_file(path, content), action="written")
    except FileNotFoundError as error:
        raise InputError(f"{name}: cannot be written: {error}. Check the address and your rights.") from error
