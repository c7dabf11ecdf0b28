"""Embedders, estimators and metrics of other packages, by the entry points that they declare."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from mallow.errors import InputError


def plugin_names(kind: str) -> tuple[str, ...]:
    """The names that other packages offer, in alphabetical order; `kind` is "embedders", "estimators" or "metrics"."""
    return tuple(sorted({entry.name for entry in entry_points(group=f"mallow.{kind}")}))


def find_plugin(kind: str, name: str) -> Any:
    """What another package offers under this name, a class called without arguments; None if there is nothing.

    Examples
    --------
    >>> find_plugin("embedders", "no such name") is None
    True
    """
    entries: list[EntryPoint] = [entry for entry in entry_points(group=f"mallow.{kind}") if entry.name == name]
    if not entries:
        return None
    if len({entry.value for entry in entries}) > 1:
        owners = " and ".join(sorted(str(entry.dist.name if entry.dist else entry.value) for entry in entries))
        raise InputError(f"`{kind[:-1]}`: {name!r} is offered by several packages: {owners}. Uninstall one of them.")
    try:
        loaded = entries[0].load()
        return loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # a module runs when it is imported, and may raise anything
        raise InputError(
            f"`{kind[:-1]}`: {name!r} of another package ({entries[0].value}) cannot be loaded: "
            f"{type(error).__name__}: {error}."
        ) from error
