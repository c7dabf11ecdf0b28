"""A bar on the terminal for long work; silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar"]


@contextmanager
def bar(verb: str, total: int, *, done: int = 0, wanted: bool | None = None) -> Iterator[Callable[[int, str], None]]:
    """A function to call with how much of `total` is done and what to say beside the bar; time left is shown too.

    `wanted` None: a bar if standard error is a terminal.
    """
    if done >= total or not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda completed, said: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(verb), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total, completed=done, said="")
        yield lambda completed, said: shown.update(task, completed=completed, said=said)
