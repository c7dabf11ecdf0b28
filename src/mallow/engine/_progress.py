"""The progress of work: one bar for all of its parts, on a terminal or in a notebook, and lines in a log.

Long work shows a `bar`. A bar inside another bar, on any thread, is part of the same work. People see one bar, the
current step, and one estimate of the time left.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

Show = Callable[[float, str], None]

_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
_LOG = logging.getLogger("mallow.progress")
_PATIENCE = 1.0  # seconds; chosen: shorter work needs no bar
_TICK = 0.2  # seconds between two looks at the work
_FIRST_LINE, _NEXT_LINES = 10.0, 30.0  # seconds; chosen: a log is read afterwards
_LATE = 0.5  # chosen: a part that takes longer than expected has this share of the expected time left


@dataclass
class _Part:
    """A part of the work with one name: `times` bars, of which `over` have ended."""

    seconds: float = 0.0  # expected; 0: not known
    times: int = 1
    over: int = 0
    began: float = 0.0  # 0: not yet
    share: float = 0.0  # of the present bar
    note: str = ""
    running: bool = False

    def left(self, now: float) -> float:
        """Remaining seconds, by the speed so far or else as expected."""
        share = min(1.0, (self.over + self.share) / self.times)
        if not self.began or share >= 1.0:
            return self.seconds if not self.began else 0.0
        spent = now - self.began
        return spent * (1.0 - share) / share if share else max(self.seconds - spent, _LATE * self.seconds)


@dataclass
class _Work:
    """All parts of a work, from the beginning of the outermost bar to its end."""

    visible: bool
    began: float = field(default_factory=lambda: time.monotonic())
    parts: dict[str, _Part] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def state(self) -> tuple[str, float, float]:
        """The current step, the share that is done, and the seconds left."""
        with self.lock:
            now, parts = time.monotonic(), list(self.parts.items())
        going = [(verb, part) for verb, part in parts if part.running]
        # Parts that run now share the time, and the others follow.
        left = max([part.left(now) for _, part in going], default=0.0)
        left += sum(part.left(now) for _, part in parts if not part.running)
        text = ", ".join(verb + (f" ({part.note})" if part.note else "") for verb, part in going)
        spent = now - self.began
        return text or "working", spent / max(spent + left, 1e-9) if left else 0.0, left

    def watch(self) -> None:
        """Show the state, again and again, until the work is over."""
        if self.over.wait(_PATIENCE):
            return
        if _in_notebook() or (sys.stderr is not None and sys.stderr.isatty()):
            self._draw()
            return
        pause = _FIRST_LINE - _PATIENCE
        while not self.over.wait(pause):
            text, share, left = self.state()
            _LOG.info("%s: %.0f%%, %s", text, 100.0 * share, time_left(left))
            pause = _NEXT_LINES

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[left]}"))
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("", total=1.0, left="")
            ended = False
            while True:
                text, share, left = self.state()
                progress.update(task, description=text, completed=share, left=time_left(left))
                if ended:
                    return
                ended = self.over.wait(_TICK)


_OPEN: list[_Work] = []  # the work that is shown at the moment, at most one
_OPENING = threading.Lock()


def _forget_threads() -> None:
    """In a forked process, the threads whose work was open, or that held a lock, do not exist."""
    global _OPENING
    _OPENING = threading.Lock()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def time_left(seconds: float) -> str:
    """The remaining time in words.

    Examples
    --------
    >>> [time_left(seconds) for seconds in (0.4, 42.0, 190.0, 9000.0)]
    ['a few seconds left', 'about 40 s left', 'about 3 min left', 'about 2.5 h left']
    """
    if seconds < 5:
        return "a few seconds left"
    if seconds < 90:
        return f"about {5 * round(seconds / 5)} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"


@contextmanager
def quiet() -> Iterator[None]:
    """Show no progress inside this context, nor in functions called from it."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


@contextmanager
def overall(wanted: bool | None = None) -> Iterator[None]:
    """One bar for everything that is done inside. Within an open bar it adds nothing."""
    with _join_work(wanted):
        yield


@contextmanager
def _join_work(wanted: bool | None) -> Iterator[_Work]:
    """The open work, or a new one. The open work may belong to another thread, and end at any time."""
    with _OPENING:
        is_new = not _OPEN
        if is_new:
            _OPEN.append(_Work(wanted is not False and not _QUIET.get()))
        work = _OPEN[0]
    if not is_new:
        yield work
        return
    watcher = threading.Thread(target=work.watch, name="mallow progress", daemon=True) if work.visible else None
    if watcher is not None:
        watcher.start()
    try:
        yield work
    finally:
        work.over.set()
        if watcher is not None:
            watcher.join()
        with suppress(ValueError):  # in a forked process it is no longer there
            _OPEN.remove(work)


def expect(verb: str, seconds: float = 0.0, *, times: int = 1) -> None:
    """Announce a coming part to the open bar: its approximate time, and its number of bars."""
    for work in _OPEN:
        with work.lock:
            work.parts.setdefault(verb, _Part(seconds, times))


@contextmanager
def bar(verb: str, total: float, *, done: float = 0, wanted: bool | None = None) -> Iterator[Show]:
    """Show the progress of a part of the work; yields a function that takes the amount done of `total` and a note.

    Parameters
    ----------
    verb : str
        The activity, such as "embedding".
    total : float
        How much there is to do, in any unit.
    done : float
        How much of it was done earlier.
    wanted : bool or None
        False: show nothing of this part. Otherwise there is a bar if standard error is a terminal, or in a notebook;
        elsewhere, lines go to the logger "mallow.progress". Inside `quiet` there is neither.
    """
    if done >= total or wanted is False:
        yield lambda completed, note: None
        return
    with _join_work(wanted) as work:
        with work.lock:
            part = work.parts.setdefault(verb, _Part())
            outer = not part.running
            if outer:
                part.running, part.share, part.began = True, 0.0, part.began or time.monotonic()

        def show(completed: float, note: str) -> None:
            if outer:
                part.share, part.note = (completed - done) / (total - done), note

        try:
            yield show
        finally:
            if outer:
                with work.lock:
                    part.running, part.share, part.over = False, 0.0, part.over + 1


def _in_notebook() -> bool:
    """Whether a bar can be drawn in the output of a notebook's cell."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
