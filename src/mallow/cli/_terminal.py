"""Standard output and standard error: nothing raw from a file reaches them, and nothing that was computed is lost in them."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import sys
from typing import TextIO

import click

from mallow._visible import visible
from mallow.errors import InputError

__all__ = ["check_output", "finish_output", "is_broken_pipe", "prepare_streams", "say", "tell"]

_HANDLER = "mallow.nearest"
# What stands for a character that the terminal's encoding lacks; above all, a number keeps its sign.
_NEAREST = {"−": "-", "–": "-", "—": "-", "±": "+/-", "×": "x", "≤": "<=", "≥": ">=", "…": "...", "²": "2", "→": "->"}
_NEAREST |= {"λ": "lambda", "χ": "chi", "’": "'", "‘": "'", "“": '"', "”": '"', "√": "sqrt", "é": "e"}


def say(text: str) -> None:
    """Print a result to standard output; control characters in it become visible."""
    check_output()
    click.echo(visible(text))


def tell(text: str) -> None:
    """Print a message to standard error. Where that is closed or full, the work goes on without it."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(visible(text), err=True)


def check_output() -> None:
    """Refuse to begin work whose result nobody could read."""
    if sys.stdout is None:
        raise InputError("standard output is closed, so that no result can be printed. Redirect it to a file.")


def prepare_streams() -> None:
    """Make both streams take any text, and see that no file takes the place of a stream that is closed."""
    codecs.register_error(_HANDLER, _nearest)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)
    while True:  # otherwise the first file that is opened would be what other programs take for standard output
        place = os.open(os.devnull, os.O_RDWR)
        if place > 2:
            os.close(place)
            return


def finish_output() -> None:
    """Write what standard output still holds; an OSError if it cannot be written."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
        raise


def _discard(stream: TextIO) -> None:
    """Let the stream end nowhere: otherwise Python would try to write the rest of it once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        place = os.open(os.devnull, os.O_WRONLY)
        os.dup2(place, stream.fileno())
        os.close(place)


def is_broken_pipe(error: OSError) -> bool:
    """Whether the program that reads our output has ended, such as `head`: no failure of ours."""
    return error.errno in (errno.EPIPE, errno.ESHUTDOWN)


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """The error handler of both streams: a similar character, or a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_NEAREST.get(letter, "?") for letter in lost), error.end
