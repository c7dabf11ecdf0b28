"""Optional packages, imported where they are used; entry points of other packages; suggestions for names."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mallow.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

# These settings keep packages from reporting their use to their makers or to model hosts.
_HUB = {"HF_HUB_DISABLE_TELEMETRY": "1"}
_NO_TELEMETRY = {
    "onnxruntime": {"ORT_DISABLE_TELEMETRY": "1"},
    "transformers": _HUB,
    "sentence_transformers": _HUB,
    "huggingface_hub": _HUB,
    "datasets": _HUB,
    "ray": {"RAY_USAGE_STATS_ENABLED": "0"},
    "mlflow": {"MLFLOW_DISABLE_TELEMETRY": "true"},
    "wandb": {"WANDB_ERROR_REPORTING": "false"},
    "trackio": {"GRADIO_ANALYTICS_ENABLED": "False", **_HUB},
}

INSTALL = "in a clone of mallow, run pip install '.[{}]'"  # once it is on PyPI: "pip install 'mallow[{}]'"
"""The command that installs an extra, in every message and page and in the README."""


def install_line(extra: str) -> str:
    """The words with which a message ends if an extra is missing.

    Examples
    --------
    >>> install_line("plot")
    "in a clone of mallow, run pip install '.[plot]'"
    """
    return INSTALL.format(extra)


def optional(module: str, *, extra: str) -> Any:
    """An optional module; if it is missing, the error message ends with the line that installs it.

    Before it is imported, its telemetry is switched off, unless the user's environment says otherwise.
    """
    package = module.partition(".")[0]
    for variable, value in _NO_TELEMETRY.get(package, {}).items():
        os.environ.setdefault(variable, value)
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{module.partition('.')[0]} is needed for this and is not installed: {install_line(extra)}"
        ) from error
    if package == "onnxruntime" and os.environ["ORT_DISABLE_TELEMETRY"] == "1":  # it may have been imported before
        getattr(imported, "disable_telemetry_events", lambda: None)()
    return imported


def require_all(packages: Mapping[str, str], *, purpose: str, extra: str) -> None:
    """Raise an InputError that names all missing packages at once; `packages` is module → package on PyPI."""
    missing = [package for module, package in packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        *others, last = missing
        listed = f"{', '.join(others)} and {last}" if others else last
        verb = "are" if others else "is"
        raise InputError(f"{purpose} needs {listed}, which {verb} not installed: {install_line(extra)}")


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A question that suggests the nearest known name, with a space before it; "" where none is near.

    Examples
    --------
    >>> did_you_mean("quantise", ["quantize", "gaussian"])
    ' Did you mean quantize?'
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]}?" if near else ""


def plugin_names(kind: str) -> tuple[str, ...]:
    """The names that other packages offer, in alphabetical order; `kind` is "embedders", "estimators" or "metrics"."""
    return tuple(sorted({entry.name for entry in _plugins(kind)}))


def _plugins(kind: str) -> EntryPoints:
    from importlib.metadata import entry_points  # it takes longer to import than most of mallow's own modules

    return entry_points(group=f"mallow.{kind}")


def find_plugin(kind: str, name: str) -> Any:
    """The object that another package offers under this name, a class called without arguments; None without one.

    Examples
    --------
    >>> find_plugin("embedders", "no such name") is None
    True
    """
    entries = [entry for entry in _plugins(kind) if entry.name == name]
    if not entries:
        return None
    if len({entry.value for entry in entries}) > 1:
        owners = " and ".join(sorted(str(entry.dist.name if entry.dist else entry.value) for entry in entries))
        raise InputError(f"`{kind[:-1]}`: {name!r} is offered by several packages: {owners}. Uninstall one of them.")
    try:
        loaded = entries[0].load()
        return loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # importing a module runs it, which may raise anything
        raise InputError(
            f"`{kind[:-1]}`: {name!r} of another package ({entries[0].value}) cannot be loaded: "
            f"{type(error).__name__}: {error}."
        ) from error
