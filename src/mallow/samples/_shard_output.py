"""Shards out: written once, completely or not at all, on disks and in object stores alike."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np

from mallow._files import make_folder, parse_json, write_text
from mallow.errors import InputError
from mallow.samples._samples import Samples
from mallow.samples._shard_files import file_system, is_url, open_shard
from mallow.samples._write import write, write_features


def make_shard_folder(folder: str) -> str:
    """The folder, created where it does not exist; in object stores a folder needs no creation."""
    if is_url(folder):
        return folder.rstrip("/")
    return str(make_folder(folder))


def join(folder: str, name: str) -> str:
    """The path or URL of a file in a folder."""
    return f"{folder}/{name}" if is_url(folder) else os.path.join(folder, name)


def write_shard(samples: Samples, name: str) -> None:
    """Write features with ids, prompts and provenance to a .npz file; the file appears completely, or not at all."""
    if not is_url(name):
        write(samples, name)
        return
    content = io.BytesIO()
    write_features(content, samples, "npz")
    _put(name, content.getvalue())


def read_provenance(name: str) -> dict[str, object] | None:
    """What made the features of a .npz shard; None if there is no such file, or no readable one."""
    if not shard_exists(name):
        return None
    try:
        with open_shard(name) as stream, np.load(stream) as arrays:
            values: dict[str, object] = json.loads(str(arrays["provenance"][()]))
            return values
    except Exception:  # of a damaged file, numpy, zipfile and zlib may raise anything
        return None


def write_record(name: str, values: dict[str, object]) -> None:
    """Write a small JSON file beside the shards."""
    content = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    if is_url(name):
        _put(name, content.encode())
    else:
        write_text(name, content)


def read_record(name: str) -> dict[str, object] | None:
    """What `write_record` wrote; None if there is no such file, or no readable one."""
    if not shard_exists(name):
        return None
    try:
        with open_shard(name) as stream:
            values = parse_json(stream.read())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def shard_exists(name: str) -> bool:
    """Whether there is a file of this path or URL."""
    if not is_url(name):
        return Path(name).is_file()
    system, path = file_system(name)
    system.invalidate_cache()
    return bool(system.isfile(path))


def _put(name: str, content: bytes) -> None:
    """Object stores show an object when all of it has arrived."""
    system, path = file_system(name)
    try:
        system.pipe_file(path, content)
    except Exception as error:  # each store has errors of its own
        raise InputError(
            f"{name}: cannot be written: {str(error).rstrip('.') or type(error).__name__}. Check the address and your rights."
        ) from error
