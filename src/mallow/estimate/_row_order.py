"""Orders and names for the rows of two samples that depend only on their values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mallow.engine import cores, ordered_map
from mallow.estimate._features import Features
from mallow.samples import Samples

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

BLOCK = 1024  # chosen: rows per task
_DIGITS = 10  # row numbers have fewer digits, so they are below 2³²


@dataclass(frozen=True)
class CanonicalOrder:
    """The pooled rows (x, then y), sorted only by their values.

    Swapping x and y, or shuffling the rows, gives the same sequence of rows. Equal rows are adjacent.

    Attributes
    ----------
    order : int64 array (n + m,)
        Pooled index of the row at each position.
    distinct : int64 array (g,)
        Pooled index of one row of each group of equal rows, in canonical order.
    group : int64 array (n + m,)
        Position in ``distinct`` of each pooled row: a result for distinct rows goes back to all rows as
        ``result[group]``.
    counts : int64 array (g,)
        Size of each group.
    """

    order: Indices
    distinct: Indices
    group: Indices
    counts: Indices


NO_ROWS = CanonicalOrder(*np.empty((4, 0), np.int64))


def common_dtype(*arrays: Array) -> np.dtype[Any]:
    """float64 if any array needs it, otherwise float32."""
    return np.dtype(np.result_type(np.float32, *(array.dtype for array in arrays)))


def take_rows(x: Array, y: Array, rows: Indices, dtype: np.dtype[Any]) -> Array:
    """A copy of some pooled rows, without concatenating the samples."""
    block = np.empty((len(rows), x.shape[1]), dtype)
    first = rows < len(x)
    block[first] = np.take(x, rows[first], axis=0)
    block[~first] = np.take(y, rows[~first] - len(x), axis=0)
    return block


def canonical_order(x: Array, y: Array, *, threads: int | None = None) -> CanonicalOrder:
    """The order of the pooled rows of ``x`` (n, d) and ``y`` (m, d), which depends only on the multiset of rows.

    Rows are sorted by a 64-bit hash of their values in the common precision of both samples; rows with equal
    hashes are compared in full. 0.0 equals −0.0.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([[1.0], [2.0]]), np.array([[2.0], [3.0]])
    >>> canonical_order(x, y).counts.sum(), canonical_order(x, y).distinct.size
    (np.int64(4), 3)
    """
    dtype = common_dtype(x, y)
    key = np.concatenate([hash_rows(x, dtype, threads or cores()), hash_rows(y, dtype, threads or cores())])
    order = np.argsort(key, kind="stable")

    def rows(at: Indices) -> Array:
        return take_rows(x, y, at, dtype)

    new = np.ones(len(order), np.bool_)  # whether the row differs from the one before
    same_key = np.flatnonzero(key[order[1:]] == key[order[:-1]]) + 1
    collided = False
    for low in range(0, len(same_key), BLOCK):
        at = same_key[low : low + BLOCK]
        new[at] = (rows(order[at]) != rows(order[at - 1])).any(axis=1)
        collided = collided or bool(new[at].any())
    if collided:
        new[same_key] = _resolve(rows, key, order, same_key)
    starts = np.flatnonzero(new)
    group = np.empty_like(order)
    group[order] = np.cumsum(new) - 1
    return CanonicalOrder(order, order[starts], group, np.diff(np.append(starts, len(order))))


def row_keys(rows: Array) -> npt.NDArray[np.uint64]:
    """A 64-bit number for each row of ``rows`` (n, d) that depends only on its values; 0.0 equals −0.0."""
    return hash_rows(rows, np.dtype(np.float64), cores())


def choose_rows(keys: npt.NDArray[np.uint64], most: int) -> npt.NDArray[np.int64] | None:
    """The rows, in order, whose keys, mixed once more, are the smallest: about `most` of them. None: all."""
    if len(keys) <= most:
        return None
    mixed = mix_keys(keys)
    last = np.partition(mixed, most - 1)[most - 1]
    return np.flatnonzero(mixed <= last)  # copies of a row are all in or all out


def mix_keys(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Keys scattered over all 64-bit numbers (the finaliser of splitmix64)."""
    mixed = keys.copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed


def unit_keys(rows: Array, threads: int | None = None) -> npt.NDArray[np.uint64]:
    """As `row_keys`, but equal for rows that differ by a power of two, whatever the unit of measurement."""
    return hash_rows(rows, np.dtype(np.float64), threads or cores(), scaled=True)


def hash_rows(array: Array, dtype: np.dtype[Any], threads: int, *, scaled: bool = False) -> npt.NDArray[np.uint64]:
    """A 64-bit multilinear hash of every row, in this precision; `scaled`: of rows between 1/2 and 1."""
    width = -(-array.shape[1] * dtype.itemsize // 8)  # in 64-bit words. The last one is padded with zeros
    odd = np.random.default_rng(0x6D616C6C6F77).integers(2**64, size=width, dtype=np.uint64) | np.uint64(1)

    def block(low: int) -> npt.NDArray[np.uint64]:
        part = array[low : low + BLOCK]
        values = np.zeros((len(part), width * 8 // dtype.itemsize), dtype)
        np.add(part, dtype.type(0), out=values[:, : array.shape[1]])  # -0.0 becomes 0.0
        if scaled:
            np.ldexp(values, -np.frexp(np.abs(values).max(axis=1, keepdims=True))[1], out=values)
        words = values.view(np.uint64)
        words ^= words >> np.uint64(32)  # otherwise the high bits of a word would barely reach the sum of products
        words *= odd
        words ^= words >> np.uint64(29)
        sums: npt.NDArray[np.uint64] = words.sum(axis=1, dtype=np.uint64)
        return sums

    parts = list(ordered_map(block, range(0, len(array), BLOCK), threads))
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _resolve(
    rows: Callable[[Indices], Array], key: npt.NDArray[np.uint64], order: Indices, same_key: Indices
) -> npt.NDArray[np.bool_]:
    """Sort rows of equal hash by their bytes, in place. Returns which of `same_key` differ from the row before."""
    for low in same_key[~np.isin(same_key - 1, same_key)] - 1:
        high = low + 1
        while high < len(order) and key[order[high]] == key[order[low]]:
            high += 1
        contents = [row.tobytes() for row in rows(order[low:high]) + 0.0]
        order[low:high] = order[low:high][sorted(range(high - low), key=contents.__getitem__)]
    return np.array([bool((rows(order[[at]]) != rows(order[[at - 1]])).any()) for at in same_key], np.bool_)


@dataclass(frozen=True, eq=False)
class Oriented:
    """Two samples with their rows in canonical order, called first and second only according to their values.

    Anything computed from them is the same to the last bit when x and y are swapped or their rows shuffled.

    Attributes
    ----------
    points : float64 array (g, d)
        The distinct rows of both samples.
    first, second : int array
        For each row of the sample, in ascending order, its index in `points`.
    places : pair of int arrays
        The indices of these rows in x and y.
    flipped : bool
        Whether `first` is y, the model.
    """

    points: Array
    first: Indices
    second: Indices
    places: tuple[Indices, Indices]
    flipped: bool


def orient(x: Features, y: Features) -> Oriented:
    """The samples x (n, d) and y (m, d) in canonical order and orientation."""
    pooled = canonical_order(x, y)
    points = np.concatenate([x, y])[pooled.distinct].astype(np.float64)
    sides = pooled.group[: len(x)], pooled.group[len(x) :]
    places = tuple(np.argsort(side, kind="stable") for side in sides)
    times = [np.bincount(side, minlength=len(points)) for side in sides]
    differ = np.flatnonzero(times[0] != times[1])  # none: the samples are equal, and the orientation does not matter
    flipped = bool(len(differ)) and bool(times[0][differ[0]] < times[1][differ[0]])
    a, b = (1, 0) if flipped else (0, 1)
    return Oriented(points, sides[a][places[a]], sides[b][places[b]], (places[a], places[b]), flipped)


def hash_names(names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """A 64-bit number for the unit of each name. "row 7" is a row number and not a name: its number is 7."""

    def digest(name: str) -> bytes:
        number = name.removeprefix(Samples.ROW)
        if len(number) < len(name) and number.isdecimal() and len(number) < _DIGITS:
            return int(number).to_bytes(8, "little")
        return hashlib.blake2b(name.encode(), digest_size=8).digest()

    digests = b"".join(map(digest, names))
    return np.frombuffer(digests, "<u8").astype(np.uint64)
