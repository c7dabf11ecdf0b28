"""Features on disk, identified by the sample and by the name of the embedder.

Each embedder has a folder with files of (key, row) pairs. A file is written under a hidden name, renamed when it is
complete, and never changed afterwards. So several processes can add files at the same time, and a process that is killed
leaves at most a hidden file, which is never read. Several files may hold the same key; their rows are equal.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._files import atomic_file
from mallow.embed._protocol import Points
from mallow.errors import EstimateWarning, InputError

__all__ = ["Cache", "Entry", "default_cache", "sample_key"]

_KEY = 16  # bytes; chosen: two of a trillion samples share a key with probability 1e-15
_ABOUT = "embedder.json"
_STALE = 3600.0  # seconds; chosen: no process takes that long to write a file, so an older hidden file was abandoned


@dataclass(frozen=True)
class Entry:
    """What the cache holds for one embedder.

    Attributes
    ----------
    name : str
        The embedder.
    rows, size : int
        Number of samples, and of bytes.
    used : float
        Time of the last read or write, in seconds since 1970.
    folder : Path
        Where its files are.
    """

    name: str
    rows: int
    size: int
    used: float
    folder: Path


@dataclass(frozen=True)
class Cache:
    """A folder of features; it need not exist yet.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache, keys = Cache(Path(folder)), [sample_key("one"), sample_key("two")]
    ...     cache.store("my embedder", keys[:1], np.array([[1.0, 2.0]], np.float32))
    ...     sorted(cache.load("my embedder", keys)) == keys[:1]
    True
    """

    folder: Path

    def load(self, name: str, keys: Sequence[bytes]) -> dict[bytes, NDArray[Any]]:
        """The rows of those keys that the cache holds for the embedder of this name."""
        wanted, rows = set(keys), {}
        for file in self._files(self._home(name)):
            shard = _open_shard(file)
            if shard is None:
                continue
            places = [(key, place) for place, key in enumerate(shard["key"].tolist()) if key in wanted]
            if places:
                with suppress(OSError):
                    os.utime(file)  # pruning removes what was not read for long
            # Copied, so that no file stays mapped.
            rows.update({key: np.array(shard["row"][place]) for key, place in places})
            wanted.difference_update(rows)
            if not wanted:
                break
        return rows

    def store(self, name: str, keys: Sequence[bytes], rows: Points) -> None:
        """Add rows to the cache, all of them or none."""
        if len(keys) == 0:
            return
        home = self._home(name)
        table = np.empty(len(keys), [("key", f"V{_KEY}"), ("row", rows.dtype, (rows.shape[1],))])
        table["key"], table["row"] = np.frombuffer(b"".join(keys), f"V{_KEY}"), rows
        try:
            home.mkdir(parents=True, exist_ok=True)
            about = home / _ABOUT
            if not about.exists():
                with atomic_file(about) as stream:
                    stream.write(json.dumps({"name": name}).encode())
            with atomic_file(home / f"{time.time_ns():020d}-{secrets.token_hex(4)}.npy") as stream:
                np.lib.format.write_array(stream, table, allow_pickle=False)
        except OSError as error:
            raise InputError(
                f"The cache {self.folder} cannot be written: {error.strerror or error}. "
                "Set MALLOW_CACHE to another folder, or to off."
            ) from error

    def entries(self) -> list[Entry]:
        """What the cache holds, one entry per embedder, the largest first."""
        entries = []
        for about in sorted(self.folder.glob(f"features/*/{_ABOUT}")):
            files = self._files(about.parent)
            shards = [(file.stat(), _open_shard(file)) for file in files]
            entries.append(
                Entry(
                    name=json.loads(about.read_text(encoding="utf-8"))["name"],
                    rows=sum(len(shard) for _, shard in shards if shard is not None),
                    size=sum(status.st_size for status, _ in shards),
                    used=max((status.st_mtime for status, _ in shards), default=about.stat().st_mtime),
                    folder=about.parent,
                )
            )
        return sorted(entries, key=lambda entry: (-entry.size, entry.name))

    def prune(self, *, unused_days: float | None = None, keep_bytes: int | None = None) -> int:
        """Remove features and return the number of bytes removed.

        Files that killed processes left behind are always removed.

        Parameters
        ----------
        unused_days : float or None
            Remove what has not been used for this many days.
        keep_bytes : int or None
            Then remove the least recently used files until at most this many bytes are left.
        """
        removed = sum(_remove(file) for file in self.folder.glob("features/*/.*.tmp") if _age(file) > _STALE)
        files = sorted((file for home in self._homes() for file in self._files(home)), key=_age, reverse=True)
        total = sum(file.stat().st_size for file in files)
        for file in files:
            old = unused_days is not None and _age(file) > unused_days * 86400
            if old or (keep_bytes is not None and total > keep_bytes):
                size = _remove(file)
                total, removed = total - size, removed + size
        self._drop_empty()
        return removed

    def clear(self) -> int:
        """Remove all features and return the number of bytes removed. Other files in the folder stay."""
        files = [file for home in self._homes() for pattern in ("*.npy", ".*.tmp") for file in home.glob(pattern)]
        removed = sum(_remove(file) for file in files)
        self._drop_empty()
        return removed

    def _home(self, name: str) -> Path:
        return self.folder / "features" / hashlib.sha256(name.encode()).hexdigest()[:24]

    def _homes(self) -> Iterator[Path]:
        return (about.parent for about in self.folder.glob(f"features/*/{_ABOUT}"))

    def _files(self, home: Path) -> list[Path]:
        return sorted(home.glob("[0-9]*.npy"))

    def _drop_empty(self) -> None:
        for home in list(self._homes()):
            if not any(home.glob("*.npy")):
                with suppress(OSError):
                    (home / _ABOUT).unlink()
                    home.rmdir()


def default_cache() -> Cache | None:
    """The cache in the folder MALLOW_CACHE, or in the user's cache folder if that is not set; None if it is "off"."""
    folder = os.environ.get("MALLOW_CACHE", "")
    if folder == "off":
        return None
    if folder:
        return Cache(Path(folder).expanduser())
    import platformdirs

    return Cache(Path(platformdirs.user_cache_dir("mallow", appauthor=False)))


def sample_key(sample: str | os.PathLike[str]) -> bytes:
    """A hash of a text, or of the content of an image file."""
    if isinstance(sample, str):
        return hashlib.blake2b(sample.encode("utf-8", "surrogatepass"), digest_size=_KEY, person=b"text").digest()
    try:
        content = Path(sample).read_bytes()
    except OSError as error:
        raise InputError(f"{os.fspath(sample)}: cannot be read: {error.strerror or error}.") from error
    return hashlib.blake2b(content, digest_size=_KEY, person=b"image").digest()


def _open_shard(file: Path) -> NDArray[Any] | None:
    """The (key, row) pairs of a file; a damaged file is removed, because its rows can be computed again."""
    try:
        shard: NDArray[Any] = np.load(file, mmap_mode="r")
        if shard.dtype.names != ("key", "row"):
            raise ValueError("no keys")
    except FileNotFoundError:  # another process has pruned it
        return None
    except (EOFError, OSError, ValueError):
        warnings.warn(
            f"The cache file {file} was damaged, so it was removed. Its samples are embedded again.",
            EstimateWarning,
            stacklevel=4,
        )
        _remove(file)
        return None
    return shard


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _remove(file: Path) -> int:
    """Remove a file and return its size; 0 if it cannot be removed."""
    try:
        size = file.stat().st_size
        file.unlink()
    except OSError:
        return 0
    return size
