"""Standard streams, which show control characters as text, and SIGTERM, which stops a command like Ctrl-C."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

from mallow._visible import visible
from mallow.errors import InputError

_HANDLER = "mallow.nearest"
# Replacements for characters that the terminal's encoding lacks. Most of all, a number must keep its sign.
_NEAREST = {"−": "-", "–": "-", "—": "-", "±": "+/-", "×": "x", "≤": "<=", "≥": ">=", "…": "...", "²": "2", "→": "->"}
_NEAREST |= {"λ": "lambda", "χ": "chi", "’": "'", "‘": "'", "“": '"', "”": '"', "√": "sqrt", "é": "e"}


def print_output(text: str) -> None:
    """Print a result to standard output; control characters in it become visible."""
    check_output()
    try:
        print(visible(text), flush=True)
    except OSError as error:
        raise _lost_output(error) from error


def print_message(text: str) -> None:
    """Print a message to standard error. If that is closed or full, the work continues without the message."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(visible(text), file=sys.stderr, flush=True)


def check_output() -> None:
    """Raise an InputError if standard output is closed, before any work begins."""
    if sys.stdout is None:
        raise InputError("standard output is closed, so that no result can be printed. Redirect it to a file.")


def prepare_streams() -> None:
    """Let both streams accept any text, and keep files from taking the number of a stream that is closed."""
    codecs.register_error(_HANDLER, _nearest)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)
    while True:  # otherwise the first opened file would get the number of standard output
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return


def finish_output() -> None:
    """Flush standard output."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        raise _lost_output(error) from error


def _lost_output(error: OSError) -> Exception:
    """The error if standard output cannot be written. A pipe that nobody reads is not our failure."""
    _discard(sys.stdout)
    if error.errno in (errno.EPIPE, errno.ESHUTDOWN):
        return BrokenPipeError(error.errno, error.strerror)
    return InputError(
        f"standard output cannot be written: {error.strerror or error}. What was computed is lost, except what is "
        "cached: free some space, or redirect the output to another disk."
    )


def _discard(stream: TextIO) -> None:
    """Redirect the stream to nowhere; otherwise Python would try again to write the rest when it exits."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """The error handler of both streams: a similar character, or a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_NEAREST.get(letter, "?") for letter in lost), error.end


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM was received. Code that cleans up after Ctrl-C also cleans up after it."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Inside the block SIGTERM raises an exception: finished features are stored and half-written files removed.

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
