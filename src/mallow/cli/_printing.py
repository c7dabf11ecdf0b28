"""What a command prints: its result on standard output; caveats and warnings on standard error."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mallow._visible import one_line
from mallow.cli._failures import say_as_options
from mallow.cli._terminal import tell
from mallow.errors import EstimateWarning

if TYPE_CHECKING:
    from mallow.results import Result


FORMATS = ("text", "json", "markdown", "latex")
_QUIET = "mallow.quiet"  # the key in click's context


def result_text(result: Result, form: str) -> str:
    """A result in one of `FORMATS`, without its caveats."""
    if form == "json":
        return result.to_json()
    if form != "text":
        return result.table(form)
    from mallow.cli._score_parts import ScoreParts
    from mallow.evaluate import Comparison, Score, Sweep, Track

    if isinstance(result, ScoreParts):
        return "\n\n".join(result_text(part, form) for part in result.parts)
    if not isinstance(result, Score | Comparison | Sweep | Track):
        return str(replace(result, caveats=()) if hasattr(result, "caveats") else result)  # type: ignore[type-var]
    width = _terminal_width()
    verdict = result.verdict if width is None else textwrap.fill(result.verdict, width)
    if isinstance(result, Score):
        return "\n\n".join([verdict, result.mauve_table(width=width), str(result.signature)])
    comparison = result if isinstance(result, Comparison) else result.comparison
    differences = (
        result.change_table(width=width) if isinstance(result, Track) else comparison.difference_table(width=width)
    )
    parts = [verdict, result.table(width=width), *([differences] if differences else []), str(comparison.signature)]
    return "\n\n".join(parts)


def summary_text(result: Result) -> str:
    """The main numbers of a result as JSON for people and scripts: one line per number or system."""
    lines = []
    for key, value in result.brief().items():
        if isinstance(value, dict) and any(isinstance(entry, dict) for entry in value.values()):
            inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _terminal_width() -> int | None:
    """The width of the terminal that results go to; None if they go to a file or to another program."""
    if sys.stdout is None:
        return None
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else None


def be_quiet(ctx: click.Context) -> None:
    """Hide caveats, warnings and progress until the command has ended."""
    from mallow.engine import quiet

    ctx.meta[_QUIET] = True
    ctx.with_resource(quiet())
    warnings.simplefilter("ignore", EstimateWarning)


def show_caveats(result: Result) -> None:
    """Print the caveats of a result, each one once, in the words of the command line."""
    for line in result.caveat_lines():
        _show("caveat", say_as_options(line, {}))


def show_warning(text: object) -> None:
    """Print a warning that does not belong to a result."""
    _show("warning", str(text))


def show_note(text: str) -> None:
    """Print something that the user should know and that is no reason to doubt."""
    _show("note", text)


def _show(kind: str, text: str) -> None:
    ctx = click.get_current_context(silent=True)
    if ctx is None or not ctx.meta.get(_QUIET):
        tell(one_line(f"mallow: {kind}: {text}"))


def call_and_hold_warnings(function: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """What the function returns. Its warnings are shown when it has ended, except those that are caveats of the result.

    Public functions raise a Python warning for each caveat of what they return; on the command line the caveats are
    printed with the result, and nothing should be said twice.
    """
    caveats: set[str] = set()
    with warnings.catch_warnings(record=True) as held:
        try:
            result = function(*args, **options)
            caveats = {str(caveat) for caveat in getattr(result, "caveats", ())}
            return result
        finally:
            told = Counter(str(warning.message) for warning in held if str(warning.message) not in caveats)
            for text, times in told.items():
                show_warning(text if times == 1 else f"{text} ({times} times)")
