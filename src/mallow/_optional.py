"""Optional packages, imported where they are used, and suggestions for names that do not exist."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any

from mallow.errors import InputError


def optional(module: str, *, extra: str) -> Any:
    """An optional module; if it is missing, the error message ends with the line that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{module.partition('.')[0]} is needed for this and is not installed: pip install 'mallow[{extra}]'"
        ) from error


def require_all(packages: Mapping[str, str], *, purpose: str, extra: str) -> None:
    """Raise an InputError that names all missing packages at once; `packages` is module → package on PyPI."""
    missing = [package for module, package in packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        *others, last = missing
        listed = f"{', '.join(others)} and {last}" if others else last
        verb = "are" if others else "is"
        raise InputError(f"{purpose} needs {listed}, which {verb} not installed: pip install 'mallow[{extra}]'")


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A question that suggests the nearest known name, with a space before it; "" where none is near.

    Examples
    --------
    >>> did_you_mean("quantise", ["quantize", "gaussian"])
    ' Did you mean quantize?'
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]}?" if near else ""
