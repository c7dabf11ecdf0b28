"""A progress bar on the terminal for long work; nothing is shown elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Show no progress bars inside this context, nor in functions called from it."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


@contextmanager
def bar(verb: str, total: int, *, done: int = 0, wanted: bool | None = None) -> Iterator[Callable[[int, str], None]]:
    """Show a progress bar; yields a function to call with how much of `total` is done and a note to show beside the bar.

    Parameters
    ----------
    verb : str
        What is being done, such as "embedding"; shown before the bar.
    total : int
        How much there is to do, in any unit.
    done : int
        How much of it was done earlier.
    wanted : bool or None
        Whether to show a bar. None: only if standard error is a terminal. Inside `quiet` there is never a bar.
    """
    visible = wanted is True or (wanted is None and sys.stderr is not None and sys.stderr.isatty())
    if done >= total or not visible or _QUIET.get():
        yield lambda completed, note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(verb), BarColumn(), TextColumn("{task.fields[note]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, completed=done, note="")
        yield lambda completed, note: progress.update(task, completed=completed, note=note)
