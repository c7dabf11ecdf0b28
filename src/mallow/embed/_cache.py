"""Features on disk, identified by the sample and by the name of the embedder.

Each embedder has a folder with files of rows and their keys. A file is written under a hidden name, renamed when it is
complete, and never changed afterwards. So several processes can add files at the same time, and a process that is
killed leaves at most a hidden file, which is never read. Several files may hold the same key; their rows are equal.

A file begins with a line of JSON (format, type, width and number of rows) and a digest of that line. One record per row
follows: the key, a digest, the row. The digest of a record covers the first line, the key and the row. No value can
change, move or get a different meaning unnoticed, and a reader checks only the rows that it takes. Damaged rows are
dropped and embedded again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import warnings
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._files import atomic_file, create_folder
from mallow.embed._protocol import Points, read_bytes
from mallow.errors import EstimateWarning

KEY_BYTES = 16  # chosen: two of a trillion samples share a key with probability 1e-15
_DIGEST_BYTES = 16
_ROW_START = KEY_BYTES + _DIGEST_BYTES  # in a record
_FORMAT = "mallow features 2"
_LONGEST_HEADER = 200  # bytes. The numbers of the largest file need fewer
_BLOCK = 1 << 22  # bytes that are read at a time; chosen: fast, and small beside the features


class DamageError(Exception):
    """A file was changed or damaged after it was written."""


@dataclass(frozen=True)
class CacheFile:
    """A file of the cache, with its first line read and checked."""

    path: Path
    rows: int
    _record: np.dtype[Any]
    _start: int
    _seed: bytes

    @classmethod
    def open(cls, path: Path) -> CacheFile:
        """The file at `path`. A `DamageError` if its first line or its size is wrong."""
        with path.open("rb") as stream:
            header = stream.readline(_LONGEST_HEADER)
            if stream.read(_DIGEST_BYTES) != _digest(b"", header):
                raise DamageError("its first line has another digest")
            facts = json.loads(header)
            if facts["format"] != _FORMAT:
                raise DamageError(f"it has the format {facts['format']!r}, which this version does not read")
            record, start = _record_type(np.dtype(facts["dtype"]), facts["width"]), len(header) + _DIGEST_BYTES
            size, wanted = os.fstat(stream.fileno()).st_size, start + facts["rows"] * record.itemsize
        if size != wanted:
            raise DamageError(f"it has {size} bytes, not {wanted}")
        return cls(path, facts["rows"], record, start, header)

    def read(self, wanted: Container[bytes] | None = None) -> tuple[dict[bytes, NDArray[Any]], int]:
        """The undamaged rows of these keys (None: of all), as far as the file holds them, and the number of others."""
        rows: dict[bytes, NDArray[Any]] = {}
        damaged, size = 0, self._record.itemsize
        count = max(_BLOCK // size, 1)
        # Read, not mapped: a failing disk then raises an error instead of a signal that ends the process.
        with self.path.open("rb") as stream:
            stream.seek(self._start)
            for first in range(0, self.rows, count):
                content = memoryview(stream.read(min(count, self.rows - first) * size))
                if len(content) != min(count, self.rows - first) * size:
                    raise DamageError("it is shorter than it was")
                records = np.frombuffer(content, self._record)
                for place, key in enumerate(records["key"].tolist()):
                    if wanted is not None and key not in wanted:
                        continue
                    record = content[place * size : (place + 1) * size]
                    if _digest(self._seed, record[:KEY_BYTES], record[_ROW_START:]) == record[KEY_BYTES:_ROW_START]:
                        rows[key] = records["row"][place].copy()  # not a view that keeps the whole block in memory
                    else:
                        damaged += 1
        return rows, damaged


def write_cache_file(path: Path, keys: Sequence[bytes], rows: Points) -> None:
    """Write a file of the cache, all of it or nothing."""
    facts = {"format": _FORMAT, "dtype": rows.dtype.str, "width": rows.shape[1], "rows": len(keys)}
    header = json.dumps(facts).encode() + b"\n"
    records = np.empty(len(keys), _record_type(rows.dtype, rows.shape[1]))
    records["key"], records["row"] = np.frombuffer(b"".join(keys), f"V{KEY_BYTES}"), rows
    content, size = records.view(np.uint8).data, records.itemsize
    starts = range(0, len(content), size)
    digests = [_digest(header, content[s : s + KEY_BYTES], content[s + _ROW_START : s + size]) for s in starts]
    records["digest"] = np.frombuffer(b"".join(digests), f"V{_DIGEST_BYTES}")
    with atomic_file(path) as stream:
        stream.write(header + _digest(b"", header))
        content = records.view(np.uint8).data
        for start in range(0, len(content), _BLOCK):
            stream.write(content[start : start + _BLOCK])


def _record_type(dtype: np.dtype[Any], width: int) -> np.dtype[Any]:
    return np.dtype([("key", f"V{KEY_BYTES}"), ("digest", f"V{_DIGEST_BYTES}"), ("row", dtype, (width,))])


def _digest(*parts: bytes | memoryview) -> bytes:
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=b"mallow cache")
    for part in parts:
        total.update(part)
    return total.digest()


ABOUT = "embedder.json"
DATA_FILES = "[0-9]*.rows"
OLD_FILES = "[0-9]*.npy"  # of versions that wrote no digests; never read
_STALE = 3600.0  # seconds; chosen: no process takes that long to write a file, so an older hidden file was abandoned


class Entry(NamedTuple):
    """The entry of one embedder in the cache."""

    name: str
    rows: int
    size: int  # bytes
    used: float  # the time of the last read or write, in seconds since 1970
    folder: Path


class Damage(NamedTuple):
    """A damaged file of the cache, and the reason."""

    path: Path
    reason: str


class Verification(NamedTuple):
    """The result of a check of the whole cache: how many files, rows and bytes were checked, and the damaged files."""

    files: int
    rows: int
    size: int
    damaged: tuple[Damage, ...]


@dataclass(frozen=True)
class Cache:
    """A folder of features. It need not exist yet.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache, keys = Cache(Path(folder)), [sample_key("one"), sample_key("two")]
    ...     cache.store("my embedder", keys[:1], np.array([[1.0, 2.0]], np.float32))
    ...     sorted(cache.load("my embedder", keys)) == keys[:1]
    True
    """

    folder: Path

    def load(self, name: str, keys: Sequence[bytes]) -> dict[bytes, NDArray[Any]]:
        """The stored rows of these keys for the embedder of this name, as far as the cache holds them.

        Damaged files are removed with one warning for all, and their intact rows stay in the cache. A folder of a
        different user is not used, since its rows could be false; a warning reports it.
        """
        if (foreign := self._foreign_folder(name)) is not None:
            warnings.warn(
                f"The cache {self.folder} is not used: {foreign} belongs to another user. Set MALLOW_CACHE to a folder "
                "of your own, or to off.",
                EstimateWarning,
                stacklevel=3,
            )
            return {}
        wanted, rows, damaged = set(keys), dict[bytes, NDArray[Any]](), list[Damage]()
        for file in data_files(self._home(name)):
            try:
                selected, lost = CacheFile.open(file).read(wanted)
                fault = "a row has another digest" if lost else ""
            except FileNotFoundError:  # another process has pruned it
                continue
            except OSError as error:
                damaged.append(Damage(file, f"it cannot be read: {error.strerror or error}"))
                continue
            except DamageError as error:
                selected, fault = {}, str(error)
            if fault:
                damaged.append(Damage(file, fault))
                _rescue(file)
            if selected:
                with suppress(OSError):
                    os.utime(file)  # pruning removes files that were not read for long
            rows.update(selected)
            wanted.difference_update(rows)
            if not wanted:
                break
        if damaged:
            path, reason = damaged[0]
            what = f"The cache file {path} was damaged"
            if len(damaged) > 1:
                what = f"{len(damaged)} cache files were damaged, the first of them {path}"
            message = f"{what}: {reason}. What was damaged is embedded again; intact rows are kept."
            warnings.warn(message, EstimateWarning, stacklevel=3)
        return rows

    def store(self, name: str, keys: Sequence[bytes], rows: Points) -> None:
        """Add rows to the cache, all of them or none.

        A cache that cannot be written, for example on a full disk, gives a warning, since the caller has the rows
        anyway. Nothing is written to a folder of a different user, of which `load` warns.
        """
        if len(keys) == 0 or self._foreign_folder(name) is not None:
            return
        home = self._home(name)
        try:
            create_folder(home)
            if read_name(home) != name:  # new, or damaged
                with atomic_file(home / ABOUT) as stream:
                    stream.write(json.dumps({"name": name}).encode())
            write_cache_file(_new_file(home), keys, rows)
        except OSError as error:
            warnings.warn(
                f"The cache {self.folder} cannot be written: {error.strerror or error}. What is embedded is used, and "
                "embedded again next time. Set MALLOW_CACHE to another folder, or to off.",
                EstimateWarning,
                stacklevel=3,
            )

    def entries(self) -> list[Entry]:
        """The entries of the cache, one per embedder, the largest first."""
        entries = []
        for home in self._homes():
            if files := statuses(data_files(home)):
                name = read_name(home) or f"unknown: {home.name}/{ABOUT} is damaged"
                size = sum(status.st_size for status in files.values())
                used = max(status.st_mtime for status in files.values())
                entries.append(Entry(name, sum(map(count_rows, files)), size, used, home))
        return sorted(entries, key=lambda entry: (-entry.size, entry.name))

    def verify(self, *, repair: bool = False) -> Verification:
        """Read every file and compare every row with its digest.

        Parameters
        ----------
        repair : bool
            Remove damaged files and keep their intact rows, as `load` does.
        """
        rows = size = files = 0
        damaged: list[Damage] = []
        for home in self._homes():
            begun = data_files(home) or (home / ABOUT).exists()  # otherwise a process was killed before it wrote
            if read_name(home) is None and begun:
                damaged.append(Damage(home / ABOUT, "it is missing, or does not name the embedder of its folder"))
            for file, status in statuses(data_files(home)).items():
                files, size = files + 1, size + status.st_size
                try:
                    content = CacheFile.open(file)
                    rows += content.rows
                    if lost := content.read()[1]:
                        raise DamageError(f"{lost} of {content.rows} rows have another digest")
                except FileNotFoundError:
                    continue
                except (DamageError, OSError) as error:
                    damaged.append(Damage(file, str(getattr(error, "strerror", None) or error)))
                    if repair and isinstance(error, DamageError):
                        _rescue(file)
        return Verification(files, rows, size, tuple(damaged))

    def prune(self, *, unused_days: float | None = None, keep_bytes: int | None = None) -> int:
        """Remove features and return the number of bytes removed.

        Files of killed processes and of earlier versions are always removed.

        Parameters
        ----------
        unused_days : float or None
            Remove features that have not been used for this many days.
        keep_bytes : int or None
            Then remove the least recently used files until at most this many bytes are left.
        """
        now, hidden = time.time(), statuses(self.folder.glob("features/*/.*.tmp"))
        removed = sum(remove(file) for file, status in hidden.items() if now - status.st_mtime > _STALE)
        removed += sum(remove(file) for file in self.folder.glob(f"features/*/{OLD_FILES}"))
        status_of = statuses(file for home in self._homes() for file in data_files(home))
        total = sum(status.st_size for status in status_of.values())
        for file, status in sorted(status_of.items(), key=lambda item: item[1].st_mtime):
            old = unused_days is not None and now - status.st_mtime > unused_days * 86400
            if old or (keep_bytes is not None and total > keep_bytes):
                size = remove(file)
                total, removed = total - size, removed + size
        self._drop_empty()
        return removed

    def clear(self) -> int:
        """Remove all features and return the number of bytes removed. Other files in the folder stay."""
        patterns = (DATA_FILES, OLD_FILES, ".*.tmp")
        files = [file for home in self._homes() for pattern in patterns for file in home.glob(pattern)]
        removed = sum(remove(file) for file in files)
        self._drop_empty()
        return removed

    def _home(self, name: str) -> Path:
        return self.folder / "features" / folder_name(name)

    def _foreign_folder(self, name: str) -> Path | None:
        """A folder of the cache that another user could fill; None if all of them are this user's."""
        folders = (self.folder, self.folder / "features", self._home(name))
        owners = {folder: folder.stat().st_uid for folder in folders if folder.exists()}
        user = getattr(os, "geteuid", lambda: None)()  # Windows has none
        return next((folder for folder, owner in owners.items() if user not in (owner, None)), None)

    def _homes(self) -> list[Path]:
        return sorted(folder for folder in self.folder.glob("features/*") if folder.is_dir())

    def _drop_empty(self) -> None:
        for home in self._homes():
            with suppress(OSError):
                if not any(file.name != ABOUT for file in home.iterdir()):
                    (home / ABOUT).unlink(missing_ok=True)
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
    """A hash of a text, or of the content of a file: an image or a recording."""
    if isinstance(sample, str):
        return hashlib.blake2b(sample.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES, person=b"text").digest()
    return hashlib.blake2b(read_bytes(sample), digest_size=KEY_BYTES, person=b"image").digest()


def _new_file(home: Path) -> Path:
    return home / f"{time.time_ns():020d}-{secrets.token_hex(4)}.rows"


def _rescue(file: Path) -> None:
    """Replace a damaged file by one with its intact rows."""
    try:
        rows, _ = CacheFile.open(file).read()
    except (DamageError, OSError):
        remove(file)
        return
    with suppress(OSError):  # if the disk is full or read-only, the file stays and is reported again
        if rows:
            write_cache_file(_new_file(file.parent), list(rows), np.stack(list(rows.values())))
        remove(file)


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


def data_files(home: Path) -> list[Path]:
    """The files with rows, the oldest first."""
    return sorted(home.glob(DATA_FILES))


def statuses(files: Iterable[Path]) -> dict[Path, os.stat_result]:
    """File → its size and times, without files that another process has removed."""
    present = {}
    for file in files:
        with suppress(FileNotFoundError):
            present[file] = file.stat()
    return present


def count_rows(file: Path) -> int:
    """The number of rows of a file; 0 if it is damaged."""
    try:
        return CacheFile.open(file).rows
    except (DamageError, OSError):
        return 0


def remove(file: Path) -> int:
    """Remove a file and return its size; 0 if it cannot be removed."""
    try:
        size = file.stat().st_size
        file.unlink()
    except OSError:
        return 0
    return size
