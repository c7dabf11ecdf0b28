"""Features in many files, or more than fit into memory: described here, and read chunk by chunk when they are used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._files import is_url
from mallow.engine import memory_budget
from mallow.errors import InputError
from mallow.samples._shard_files import Stamp, gone, list_shards, stamp_of
from mallow.samples._shard_formats import PROMPTS, Content, describe_shard, read_ids, read_rows

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Shard:
    """One file of features, or one array in memory."""

    name: str
    content: Content
    stamp: Stamp = (0, "")  # of the file when it was described; a file that changes during the work is an error
    values: Array | None = None  # of an array in memory

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.content.rows


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a shard: small, picklable, read when needed. `start` is the place of the first among all rows."""

    shard: Shard
    low: int
    high: int
    start: int

    def __len__(self) -> int:
        return self.high - self.low

    def read(self, *, finite: bool = True) -> Array:
        """The rows, in float32 or float64. An InputError if the shard is gone or has changed.

        Entries that are not finite are also an error, unless `finite` is False.
        """
        if self.shard.values is not None:
            return _floats(self.shard.values[self.low : self.high])
        try:
            rows = _floats(read_rows(self.shard.name, self.shard.content, self.low, self.high))
        except FileNotFoundError as error:
            raise gone(self.shard.name) from error
        except InputError:
            self._check_unchanged()  # which explains most of them
            raise
        self._check_unchanged()  # after reading, so that the rows belong to the described file
        if finite and not np.isfinite(rows).all():
            row = int(np.argmin(np.isfinite(rows).all(axis=1)))
            column = int(np.argmin(np.isfinite(rows[row])))
            raise InputError(
                f"{self.shard.name}: features must be finite; row {self.low + row} has {rows[row, column]} in column "
                f"{column}. Remove such rows and write the shard again."
            )
        return rows

    def take(self, places: NDArray[np.int64]) -> Array:
        """The rows at some places of the chunk; if a file allows it, no others are read."""
        direct = self.shard.values is None and self.shard.content.offset >= 0 and not is_url(self.shard.name)
        if not direct or 4 * len(places) > len(self):
            rows: Array = self.read()[places]
            return rows
        name, content, low = self.shard.name, self.shard.content, self.low
        parts = [read_rows(name, content, low + place, low + place + 1) for place in places.tolist()]
        self._check_unchanged()
        return _floats(np.concatenate(parts))

    def ids(self) -> list[str] | None:
        """The ids of the rows; None if the shard has none."""
        ids = read_ids(self.shard.name, self.shard.content, self.low, self.high)
        if ids is not None:
            self._check_unchanged()
        return ids

    def _check_unchanged(self) -> None:
        now = stamp_of(self.shard.name)
        if now != self.shard.stamp:
            before, after = self.shard.stamp[0], now[0]
            sizes = "it was written again" if before == after else f"it had {before:,} bytes and has {after:,}"
            raise InputError(
                f"{self.shard.name}: the shard has changed since it was described: {sizes}. Do not write to shards "
                "while they are used; start again."
            )


@dataclass(frozen=True, eq=False)
class Shards:
    """Features in many files, never merged into one array.

    Examples
    --------
    >>> shards = Shards.from_array(np.zeros((10, 3)))
    >>> len(shards), shards.width, [len(chunk) for chunk in shards.chunks(4)]
    (10, 3, [4, 4, 2])
    """

    source: str  # a folder, a glob or a URL
    shards: tuple[Shard, ...]

    @classmethod
    def from_array(cls, values: Array, source: str = "array") -> Shards:
        """An array in memory, as shards whose chunks contain their rows."""
        content = Content(len(values), values.shape[1], values.dtype.str)
        return cls(source, (Shard(source, content, values=values),))

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def width(self) -> int:
        """The number of features of a row."""
        return self.shards[0].content.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64, the precision of chunks."""
        stored = self.shards[0].content.dtype
        return np.dtype(np.float32) if stored == "bfloat16" else _floats(np.empty((0, 1), stored)).dtype

    @property
    def size(self) -> int:
        """Bytes of all rows after reading."""
        return len(self) * self.width * self.dtype.itemsize

    @property
    def embedder(self) -> str | None:
        """The embedder of the features, if the shards name it."""
        return self.shards[0].content.embedder or None

    @cached_property
    def has_ids(self) -> bool:
        """Whether the rows have ids, or prompts that are not all the same."""
        if not self.has_prompts:
            return bool(self.shards[0].content.ids)
        seen: set[str] = set()
        for chunk in self.chunks(1 << 20):
            seen.update(chunk.ids() or ())
            if len(seen) > 1:
                return True
        return False

    @property
    def has_prompts(self) -> bool:
        """Whether prompts replace the ids."""
        return self.shards[0].content.ids == PROMPTS

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows in order, at most `rows` at a time; shards that can only be read whole (.npz) are not divided."""
        start = 0
        for shard in self.shards:
            whole = shard.values is None and shard.content.offset < 0 and shard.name.lower().endswith(".npz")
            step = shard.rows if whole else rows
            for low in range(0, shard.rows, step):
                high = min(low + step, shard.rows)
                if shard.values is None:
                    yield Chunk(shard, low, high, start + low)
                else:  # a task must not carry the whole array
                    content = replace(shard.content, rows=high - low)
                    yield Chunk(
                        replace(shard, values=shard.values[low:high], content=content), 0, high - low, start + low
                    )
            start += shard.rows

    def first(self, count: int) -> Shards:
        """The first rows."""
        kept: list[Shard] = []
        for shard in self.shards:
            if count > 0:
                kept.append(replace(shard, content=replace(shard.content, rows=min(shard.rows, count))))
                count -= shard.rows
        return replace(self, shards=tuple(kept))

    def read(self, *, finite: bool = True) -> Array:
        """All rows as one array. An InputError if they take more memory than allowed."""
        if self.size > memory_budget():
            raise InputError(
                f"{self.source}: {len(self):,} rows of {self.width} features take {self.size / 1e9:.3g} GB, more than "
                f"the {memory_budget() / 1e9:.3g} GB allowed. `score` and `compare` need not hold them in memory; for "
                "other functions use fewer shards, or set MALLOW_MEMORY."
            )
        rows = np.empty((len(self), self.width), self.dtype)
        for chunk in self.chunks(max(1, (1 << 22) // self.width)):
            rows[chunk.start : chunk.start + len(chunk)] = chunk.read(finite=finite)
        return rows

    def ids(self) -> tuple[str, ...] | None:
        """The ids of all rows; None without any."""
        if not self.has_ids:
            return None
        return tuple(id_ for chunk in self.chunks(1 << 20) for id_ in chunk.ids() or ())


def find_shards(source: str, field: str | None = None, *, names: Sequence[str] | None = None) -> Shards:
    """The shards of features in a folder, a glob or a URL, described and checked against one another.

    The features are in the array, tensor or column `field`; None means ``features``, or the only one. `names` are the
    files, if they are already known.
    """
    shards = []
    for name in list_shards(source) if names is None else names:
        stamp = stamp_of(name)
        shards.append(Shard(name, describe_shard(name, field), stamp))
        first, last = shards[0].content, shards[-1].content
        for what in ("width", "dtype", "embedder"):
            ours, theirs = getattr(last, what), getattr(first, what)
            if ours != theirs:
                raise InputError(
                    f"{name}: all shards must have the same {what}, but this one has {ours or 'none'}, and "
                    f"{shards[0].name} has {theirs or 'none'}. Were they embedded by the same model? Choose shards "
                    "that belong together, or write this one again."
                )
        if len({(bool(content.ids), content.ids == PROMPTS) for content in (first, last)}) > 1:
            raise InputError(f"{name}: either all shards have ids, or none; {shards[0].name} differs. Write it again.")
    return Shards(source, tuple(shards))


def _floats(rows: Array) -> Array:
    """float16 becomes float32; integers and longer floats become float64. All in the machine's byte order."""
    if rows.dtype.kind != "f" or rows.dtype.itemsize > 8:
        return rows.astype(np.float64)
    return rows.astype(np.float32 if rows.dtype.itemsize <= 4 else np.float64, copy=False)
