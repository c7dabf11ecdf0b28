"""The folder of one embedder in the cache: its name, its files, and what killed processes left in it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mallow._files import atomic_file
from mallow.embed._cache_file import CacheFile, DamageError

ABOUT = "embedder.json"
DATA_FILES = "[0-9]*.rows"
OLD_FILES = "[0-9]*.npy"  # of versions that wrote no digests; never read


def folder_name(name: str) -> str:
    """The name of the folder of an embedder."""
    return hashlib.sha256(name.encode()).hexdigest()[:24]


def read_name(home: Path) -> str | None:
    """The embedder of a folder; None if its file is missing or damaged."""
    try:
        name = json.loads((home / ABOUT).read_text(encoding="utf-8"))["name"]
        return name if folder_name(name) == home.name else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def write_name(home: Path, name: str) -> None:
    """Make the folder of an embedder say whose it is; a damaged file is replaced."""
    if read_name(home) != name:
        with atomic_file(home / ABOUT) as stream:
            stream.write(json.dumps({"name": name}).encode())


def data_files(home: Path) -> list[Path]:
    """The files with rows, the oldest first."""
    return sorted(home.glob(DATA_FILES))


def statuses(files: Iterable[Path]) -> dict[Path, os.stat_result]:
    """File → its size and times, without files that another process has removed."""
    known = {}
    for file in files:
        with suppress(FileNotFoundError):
            known[file] = file.stat()
    return known


def count_rows(file: Path) -> int:
    """The number of rows of a file; 0 if it is damaged."""
    try:
        return CacheFile.open(file).rows
    except (DamageError, OSError):
        return 0


def age(file: Path) -> float:
    """Seconds since the file was used; 0 if it is gone."""
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def remove(file: Path) -> int:
    """Remove a file and return its size; 0 if it cannot be removed."""
    try:
        size = file.stat().st_size
        file.unlink()
    except OSError:
        return 0
    return size
