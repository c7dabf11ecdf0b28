"""A bar on the terminal for long work; silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["bar", "quiet"]

_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """No bars in here, nor in what is called from here."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


@contextmanager
def bar(verb: str, total: int, *, done: int = 0, wanted: bool | None = None) -> Iterator[Callable[[int, str], None]]:
    """A function to call with how much of `total` is done and what to say beside the bar; time left is shown too.

    `wanted` None: a bar if standard error is a terminal.
    """
    shown_at_all = wanted is True or (wanted is None and sys.stderr.isatty())
    if done >= total or not shown_at_all or _QUIET.get():
        yield lambda completed, said: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(verb), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total, completed=done, said="")
        yield lambda completed, said: shown.update(task, completed=completed, said=said)
