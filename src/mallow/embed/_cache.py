"""Features on the disk, found again by what was embedded and how.

A folder for each embedder holds files of (key, row) pairs. A file is written under a hidden name and renamed when it is
whole, and is never changed afterwards: processes that run at once add files and do not meet, and one that is killed leaves
at most a hidden file, which nobody reads. Several files may hold the same key; any of them is right.
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

from mallow.embed._protocol import Points
from mallow.errors import EstimateWarning, InputError

__all__ = ["Cache", "Entry", "default_cache", "sample_key"]

_KEY = 16  # bytes: two of a trillion samples share a key with probability 1e-15
_ABOUT = "embedder.json"
_STALE = 3600.0  # seconds after which a hidden file belongs to nobody


@dataclass(frozen=True)
class Entry:
    """What the cache holds of one embedder.

    Attributes
    ----------
    name : str
        The embedder.
    rows, size : int
        How many samples, in how many bytes.
    used : float
        When it was last read or written, in seconds since 1970.
    folder : Path
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
    ...     sorted(cache.found("my embedder", keys)) == keys[:1]
    True
    """

    folder: Path

    def found(self, name: str, keys: Sequence[bytes]) -> dict[bytes, NDArray[Any]]:
        """The rows of those keys that are there."""
        wanted, rows = set(keys), {}
        for file in self._files(self._home(name)):
            shard = _opened(file)
            if shard is None:
                continue
            places = [(key, place) for place, key in enumerate(shard["key"].tolist()) if key in wanted]
            if places:
                with suppress(OSError):
                    os.utime(file)  # so that pruning takes what nobody reads
            # Copied out, so that no file stays mapped.
            rows.update({key: np.array(shard["row"][place]) for key, place in places})
            wanted.difference_update(rows)
            if not wanted:
                break
        return rows

    def store(self, name: str, keys: Sequence[bytes], rows: Points) -> None:
        """Add rows, all of them or none."""
        if len(keys) == 0:
            return
        home = self._home(name)
        table = np.empty(len(keys), [("key", f"V{_KEY}"), ("row", rows.dtype, (rows.shape[1],))])
        table["key"], table["row"] = np.frombuffer(b"".join(keys), f"V{_KEY}"), rows
        try:
            home.mkdir(parents=True, exist_ok=True)
            about = home / _ABOUT
            if not about.exists():
                _write_whole(about, json.dumps({"name": name}).encode())
            _write_whole(home / f"{time.time_ns():020d}-{secrets.token_hex(4)}.npy", table)
        except OSError as error:
            raise InputError(
                f"The cache {self.folder} cannot be written: {error.strerror or error}. "
                "Point MALLOW_CACHE at another folder, or set MALLOW_CACHE=off."
            ) from error

    def entries(self) -> list[Entry]:
        """What is there, an entry for each embedder, the largest first."""
        found = []
        for about in sorted(self.folder.glob(f"features/*/{_ABOUT}")):
            files = self._files(about.parent)
            facts = [(file.stat(), _opened(file)) for file in files]
            found.append(
                Entry(
                    name=json.loads(about.read_text(encoding="utf-8"))["name"],
                    rows=sum(len(shard) for _, shard in facts if shard is not None),
                    size=sum(fact.st_size for fact, _ in facts),
                    used=max((fact.st_mtime for fact, _ in facts), default=about.stat().st_mtime),
                    folder=about.parent,
                )
            )
        return sorted(found, key=lambda entry: (-entry.size, entry.name))

    def prune(self, *, unused_days: float | None = None, keep_bytes: int | None = None) -> int:
        """Remove what has not been used for so many days, then the least recently used until so many bytes are left.

        Returns the bytes removed. What a killed process left behind goes in any case.
        """
        removed = sum(_removed(file) for file in self.folder.glob("features/*/.*.tmp") if _age(file) > _STALE)
        files = sorted((file for home in self._homes() for file in self._files(home)), key=_age, reverse=True)
        total = sum(file.stat().st_size for file in files)
        for file in files:
            old = unused_days is not None and _age(file) > unused_days * 86400
            if old or (keep_bytes is not None and total > keep_bytes):
                size = _removed(file)
                total, removed = total - size, removed + size
        self._drop_empty()
        return removed

    def clear(self) -> int:
        """Remove all features; returns the bytes removed. Other files in the folder stay."""
        files = [file for home in self._homes() for pattern in ("*.npy", ".*.tmp") for file in home.glob(pattern)]
        removed = sum(_removed(file) for file in files)
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
    """The cache in the folder that MALLOW_CACHE names, or the platform's; None where MALLOW_CACHE is "off"."""
    named = os.environ.get("MALLOW_CACHE", "")
    if named == "off":
        return None
    if named:
        return Cache(Path(named).expanduser())
    import platformdirs

    return Cache(Path(platformdirs.user_cache_dir("mallow", appauthor=False)))


def sample_key(sample: str | os.PathLike[str]) -> bytes:
    """A hash of a text, or of the content of an image's file."""
    if isinstance(sample, str):
        return hashlib.blake2b(sample.encode("utf-8", "surrogatepass"), digest_size=_KEY, person=b"text").digest()
    try:
        content = Path(sample).read_bytes()
    except OSError as error:
        raise InputError(f"{os.fspath(sample)}: cannot be read: {error.strerror or error}.") from error
    return hashlib.blake2b(content, digest_size=_KEY, person=b"image").digest()


def _opened(file: Path) -> NDArray[Any] | None:
    """The (key, row) pairs of a file; a damaged one is removed, since its rows can be made again."""
    try:
        shard: NDArray[Any] = np.load(file, mmap_mode="r")
        if shard.dtype.names != ("key", "row"):
            raise ValueError("no keys")
    except FileNotFoundError:  # another process has pruned it
        return None
    except (EOFError, OSError, ValueError):
        warnings.warn(f"the cache file {file} is damaged and was removed.", EstimateWarning, stacklevel=4)
        _removed(file)
        return None
    return shard


def _write_whole(target: Path, content: bytes | NDArray[Any]) -> None:
    hidden = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with hidden.open("xb") as stream:
            if isinstance(content, bytes):
                stream.write(content)
            else:
                np.lib.format.write_array(stream, content, allow_pickle=False)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(hidden, target)
    finally:
        hidden.unlink(missing_ok=True)


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _removed(file: Path) -> int:
    """The size of a file that is now gone; 0 where it cannot be removed."""
    try:
        size = file.stat().st_size
        file.unlink()
    except OSError:
        return 0
    return size
