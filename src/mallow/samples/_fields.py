"""A file and the field that holds its texts, written as one: human.jsonl:body."""

from __future__ import annotations

import os

from mallow.samples._shard_files import is_glob, is_url

_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".npz", ".eval")


def split_field(source: str) -> tuple[str, str | None]:
    """The path and the field of FILE:FIELD; None for the field where a path names none.

    A path that exists is a path, whatever its name. Otherwise the part after the last colon is a field if the part before
    it is standard input, an existing file or folder, or ends as a file with fields does.

    Examples
    --------
    >>> split_field("human.jsonl:body"), split_field("human.jsonl"), split_field("-:body")
    (('human.jsonl', 'body'), ('human.jsonl', None), ('-', 'body'))
    >>> split_field("s3://bucket/part-*.jsonl.gz:body")
    ('s3://bucket/part-*.jsonl.gz', 'body')
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
