"""How much memory may be used for data: MALLOW_MEMORY, or half of the machine."""

from __future__ import annotations

import os
import re

from mallow.errors import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_UNKNOWN = 4 * 10**9  # bytes, where the system does not say what it has


def memory_budget() -> int:
    """Bytes that data may take: ``MALLOW_MEMORY`` ("4GB", "512 MiB" or a number of bytes), otherwise half of the machine.

    Examples
    --------
    >>> memory_budget() > 0
    True
    """
    text = os.environ.get("MALLOW_MEMORY", "").strip()
    if not text:
        return _machine() // 2
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]I?)?B?", text.upper())
    if match is None or not float(match[1]):
        raise InputError(f"MALLOW_MEMORY must be a number of bytes, such as 4000000000, 4GB or 512MiB; got {text!r}.")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def _machine() -> int:
    """Bytes of memory that this machine has, or that a container allows."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        return 2 * _UNKNOWN
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            return min(total, int(file.read()))
    except (OSError, ValueError):  # no such limit, or "max"
        return total
