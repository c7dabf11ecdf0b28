"""Checks of input values: texts, paths, labels, and features, whose entries must be finite."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.errors import InputError

_CHUNK = 1 << 22  # entries tested at a time; chosen: 32 MB of float64


def checked_texts(values: Sequence[str]) -> tuple[str, ...]:
    """The texts as a tuple of str."""
    return tuple(map(str, _checked_entries("texts", values, str, "strings")))  # numpy's strings become Python's


def checked_paths(name: str, values: Sequence[str | PathLike[str]]) -> tuple[Path, ...]:
    """The paths of images or recordings as a tuple of Path. The files are not opened."""
    return tuple(map(Path, _checked_entries(name, values, (str, PathLike), "paths")))


def _checked_entries(name: str, values: Sequence[Any], kinds: type | tuple[type, ...], noun: str) -> tuple[Any, ...]:
    _refuse_single(name, values)
    entries = tuple(values)
    for place, entry in enumerate(entries):
        if not isinstance(entry, kinds):
            raise InputError(
                f"`{name}` must contain {noun}; got {repr(entry)[:40]} ({type(entry).__name__}) at place {place}."
            )
    return entries


def checked_labels(name: str, values: Sequence[object]) -> tuple[str, ...]:
    """Ids or prompts as a tuple of str."""
    _refuse_single(name, values)
    labels = tuple(values)
    for place, label in enumerate(labels):
        if (fault := label_fault(label)) is not None:
            rule = "not contain missing values" if is_missing(label) else "be texts or numbers"
            raise InputError(f"`{name}` must {rule}; {fault} at place {place}.")
    return tuple(map(str, labels))


def is_missing(value: object) -> bool:
    """Whether a value is None, or a mark of missing values in tables: NaN, NaT or pandas' NA."""
    if isinstance(value, float | np.floating | np.datetime64 | np.timedelta64):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")  # of pandas


def label_fault(label: object) -> str | None:
    """The reason why a value cannot be an id or prompt, or None. As text, missing ids would all be one unit."""
    if is_missing(label):
        return f"got {label}"
    return f"got {label}" if isinstance(label, bool | np.bool_) else None


def _refuse_single(name: str, values: object) -> None:
    """Raise an InputError for a single text or path, which would be read as a list of characters."""
    if isinstance(values, str | bytes | PathLike):
        raise InputError(f"`{name}` must be a list; got a single {type(values).__name__}. Put it into a list.")


def detached(values: object) -> Any:
    """Tensors of torch, or a list of them, as tensors that numpy can read: without gradients, on the CPU, not bfloat16.

    Everything else is returned as it is.
    """
    if isinstance(values, list | tuple) and values and hasattr(values[0], "detach"):
        return [detached(row) for row in values]
    if not (hasattr(values, "detach") and hasattr(values, "requires_grad")):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def feature_array(subject: str, values: object) -> NDArray[Any]:
    """Numbers as an array (n, d), without a check that they are finite. One axis means n samples of one feature.

    Messages begin with `subject`.
    """
    try:
        rows: NDArray[Any] = np.asanyarray(detached(values))  # a mapped file stays mapped
    except ValueError as error:
        raise InputError(f"{subject} must have rows of equal length; {str(error).rstrip('.')}.") from None
    if isinstance(rows, np.ma.MaskedArray):  # numpy would silently ignore masked entries
        if np.ma.is_masked(rows):
            raise InputError(f"{subject} must be complete; {int(np.sum(rows.mask))} entries are masked.")
        rows = rows.data
    if rows.dtype.kind not in "biuf":
        raise InputError(f"{subject} must be real numbers; got dtype {rows.dtype}.")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2:
        raise InputError(f"{subject} must have shape (n, d), one row per sample; got shape {rows.shape}.")
    if rows.size == 0:
        raise InputError(f"{subject} must have at least one row and one column; got shape {rows.shape}.")
    return rows


def finite_features(subject: str, values: object) -> NDArray[Any]:
    """Features (n, d), all of them finite."""
    rows = feature_array(subject, values)
    finite = finite_rows(rows, None)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(rows[row])))
        raise InputError(
            f"{subject} must be finite; {int((~finite).sum())} of {len(rows)} rows contain NaN or infinite entries, "
            f"the first {rows[row, column]} in row {row}, column {column}. "
            "Remove these rows, or let mallow.read skip them with `skip_bad=True`."
        )
    return rows


def finite_rows(rows: NDArray[Any], limit: int | None) -> NDArray[np.bool_]:
    """Which rows are finite, for all rows or for enough chunks to contain `limit` finite ones."""
    step = max(1, _CHUNK // rows.shape[1])
    parts: list[NDArray[np.bool_]] = []
    total = 0
    for start in range(0, len(rows), step):
        parts.append(np.isfinite(rows[start : start + step]).all(axis=1))
        total += int(parts[-1].sum())
        if limit is not None and total >= limit:
            break
    return np.concatenate(parts)


ALWAYS_ALLOWED = 64_000_000
"""Bytes that any compressed file may expand to; chosen: a few seconds of work on any machine."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True)
class Limits:
    """The limits of `mallow.read`, which keep it from filling the memory or waiting forever.

    Parameters
    ----------
    line_mb : float
        Megabytes of one line, or of one entry of a csv file.
    expansion : float
        The largest ratio of expanded to compressed size of a file (.gz, .npz, .parquet). The first 64 MB are always
        allowed. Texts expand by a factor of 3 to 10, features by less.
    depth : int
        The largest depth of nested objects and lists in a jsonl line.
    wait : float
        Seconds to wait for a program that writes to a named pipe.

    Notes
    -----
    The largest number of pixels of an image is Pillow's own setting, ``PIL.Image.MAX_IMAGE_PIXELS``. On the command
    line all limits are set by ``--max NAME=VALUE``.

    Examples
    --------
    >>> Limits(line_mb=500).line_mb
    500
    """

    line_mb: float = 64
    expansion: float = 100
    depth: int = 100
    wait: float = 10

    def __post_init__(self) -> None:
        for name in ("line_mb", "expansion", "wait"):
            positive(name, getattr(self, name))
        whole("depth", self.depth, least=1)

    @property
    def line_bytes(self) -> int:
        """Bytes of the longest line."""
        return int(self.line_mb * 1e6)


DEFAULT_LIMITS = Limits()


def check_expansion(name: str, size: int, stored: int, limits: Limits) -> None:
    """Raise an InputError if `stored` bytes of a file expand to more than is allowed."""
    if size > ALWAYS_ALLOWED and size > limits.expansion * stored:
        raise InputError(
            f"{name}: expands to more than {limits.expansion:g} times its size, {size / 1e6:,.0f} MB or more from "
            f"{stored / 1e6:,.2f} MB. If you trust the file, allow more with `limits=Limits(expansion=…)`."
        )


def check_archive(archive: zipfile.ZipFile) -> None:
    """Raise a ValueError if two members of an archive have one name: programs disagree about which of them counts."""
    names = Counter(name.removesuffix(".npy") for name in archive.namelist())
    name, count = next(iter(names.most_common(1)), ("", 0))
    if count > 1:
        raise ValueError(f"two of its members are called {name!r}")


def depth_fault(text: str, limits: Limits) -> str | None:
    """The problem with a JSON text that is nested too deeply; None if it is not."""
    if text.count("[") + text.count("{") <= limits.depth or nesting_depth(text) <= limits.depth:
        return None
    return f"lists and objects must be nested at most {limits.depth} deep; allow more with `limits=Limits(depth=…)`"


def nesting_depth(line: str) -> int:
    """The depth of nested lists and objects in a JSON text; brackets inside strings do not count."""
    depth = deepest = 0
    for mark in _BRACKETS.finditer(line):
        if mark[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark[0] in "]}":
            depth -= 1
    return deepest
