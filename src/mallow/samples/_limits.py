"""Limits for the sizes of lines, files and images, each with a name."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from dataclasses import dataclass

from mallow._checks import positive, whole
from mallow.errors import InputError

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
    """The depth of nested lists and objects in a JSON text; brackets inside strings do not count.

    Examples
    --------
    >>> nesting_depth('{"a": [[1], "[[["]}')
    3
    """
    depth = deepest = 0
    for mark in _BRACKETS.finditer(line):
        if mark[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark[0] in "]}":
            depth -= 1
    return deepest
