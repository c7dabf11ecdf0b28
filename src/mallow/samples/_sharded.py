"""Samples from a source in shards: features stay where they are, texts are read one file after another."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from mallow._files import files_below
from mallow._optional import optional
from mallow.errors import InputError
from mallow.samples._entries import Options, Row, at_index, at_line, gather_texts
from mallow.samples._features import read_features
from mallow.samples._media import MEDIA_SUFFIXES
from mallow.samples._samples import Samples
from mallow.samples._shard_files import list_shards, open_shard, shard_suffix
from mallow.samples._shards import find_shards
from mallow.samples._streams import decode_lines, decompress
from mallow.samples._text_files import line_rows, parquet_rows


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
    if suffix.removesuffix(".gz") in (".jsonl", ".ndjson") or (suffix == ".parquet" and not _has_lists(names[0])):
        return _read_texts(names, source, options)
    shards = find_shards(source, options.field, names=names)
    provenance = None if shards.embedder is None else {"embedder": shards.embedder}
    if options.skip_bad:  # which rows are bad is known only when all are read
        rows = read_features(shards.read(finite=False), source, options)
        return Samples.trusted(features=rows.features, source=source, skipped=rows.skipped, provenance=provenance)
    return Samples.trusted(shards=shards, source=source, provenance=provenance).first(options.limit)


def _has_lists(name: str) -> bool:
    """Whether a parquet file has a column of lists, which may be features."""
    arrow, parquet = optional("pyarrow", extra="tables"), optional("pyarrow.parquet", extra="tables")
    try:
        with open_shard(name) as stream:
            kinds = [field.type for field in parquet.ParquetFile(stream).schema_arrow]
    except arrow.ArrowInvalid as error:
        raise InputError(f"{name}: not a readable shard: {error}. Is it complete? Write it again.") from error
    types = arrow.types
    return any(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) for kind in kinds)


def _read_texts(names: tuple[str, ...], source: str, options: Options) -> Samples:
    """The texts of all files, one after another."""
    parts = []
    left = options.limit
    for name in names:
        with open_shard(name) as stream:
            if shard_suffix(name) == ".parquet":
                parts.append(gather_texts(parquet_rows(stream, name, options), at_index(name), name, options))
            else:
                lines = decode_lines(decompress(_buffered(stream), name, options.limits), name, options.limits)
                rows: Iterator[Row] = line_rows("jsonl", lines, name, options)
                parts.append(gather_texts(rows, at_line(name), name, options))
        if left is not None and sum(map(len, parts)) >= left:
            break
    whole: dict[str, object] = {"source": source, "skipped": tuple(one for part in parts for one in part.skipped)}
    for label in ("texts", "ids", "prompts"):
        values = [getattr(part, label) for part in parts]
        if all(own is not None for own in values):
            whole[label] = tuple(one for own in values for one in own)
    return Samples.trusted(**whole).first(left)


def _buffered(stream: BinaryIO) -> BinaryIO:
    return stream if hasattr(stream, "peek") else cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", stream)))
