"""SIGTERM, by which schedulers and service managers end a process, stops a command as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM has come. What cleans up after Ctrl-C cleans up after this."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Inside the block SIGTERM is an exception: what is embedded is stored, half-written files are removed.

    Without effect outside of the main thread, where Python takes no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def exit_code_of(error: BaseException) -> int:
    """The exit code of a command that was stopped, as shells count: 128 and the number of the signal."""
    cause = error.__cause__ or error  # click wraps an interruption
    return 128 + (signal.SIGTERM if isinstance(cause, _TerminatedError) else signal.SIGINT)


def _stop(_number: int, _frame: object) -> NoReturn:
    raise _TerminatedError
