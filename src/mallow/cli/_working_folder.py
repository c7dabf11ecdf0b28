"""Modules in the working folder: imported only where package.module:object asks for one, and told of."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from mallow.cli._printing import show_note


def allow_working_folder(spec: str) -> None:
    """Let package.module:object be in the working folder; if it is there, say so before it runs.

    The folder is the last place that is searched: a file in it cannot stand for an installed package.
    """
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        return
    if folder not in sys.path:
        sys.path.append(folder)
    module = spec.partition(":")[0].partition(".")[0]
    try:
        module_spec = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):  # what is wrong with the name is said by whoever imports it
        return
    places = [] if module_spec is None else [module_spec.origin, *(module_spec.submodule_search_locations or ())]
    files = [Path(place) for place in places if place is not None and Path(place).parent == Path(folder)]
    if files:
        show_note(f"{spec} runs code of the working folder: {files[0].name}")
