"""The output of commands: results on standard output; caveats, warnings and failures on standard error.

The streams show control characters as text. SIGTERM stops a command like Ctrl-C.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import logging
import os
import re
import shutil
import signal
import sys
import sysconfig
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO

import click

from mallow.errors import EstimateWarning, InputError, one_line, visible

if TYPE_CHECKING:
    from mallow.results import Result

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


_WAYS_OUT = {
    errno.ENOSPC: "Free some space, or write to another disk.",
    errno.EDQUOT: "Free some space, or write to another disk.",
    errno.EACCES: "Check its permissions.",
    errno.EPERM: "Check its permissions.",
    errno.EROFS: "Write to another folder.",
    errno.ENOENT: "Check the path.",
    errno.EISDIR: "Name a file in it.",
    errno.ENOTDIR: "Check the path.",
    errno.ELOOP: "It is a link that leads back to itself. Check the path.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EMFILE: "Close other files, or raise the limit with `ulimit -n`.",
    errno.ENFILE: "Close other programs.",
    errno.EIO: "The disk may be damaged: copy the file elsewhere and try again.",
}
_DEFECT = "Run the command again with --debug to see where, and report it if mallow is to blame."
_CODE = re.compile(r"`(([\w.]+)(?:=([^`]*))?)`")  # an argument in a message, and the value that is proposed for it
_ONLY_IN_PYTHON = " To pass texts themselves, put them into a list."
FORMATS = ("text", "json", "markdown", "latex", "siunitx")
_QUIET = "mallow.quiet"  # the key in click's context


class Option(click.Option):
    """An option of a command, and the code that stands for it in messages of Python.

    `python` maps code to its form with this option, unless that form is "--name value": an argument `bins=5` becomes
    --bins 5 without being listed.
    """

    def __init__(self, *args: Any, python: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.python = dict(python or {})


def explain_failure(error: BaseException) -> str:
    """One line for any exception that ends a command.

    Examples
    --------
    >>> explain_failure(OSError(errno.ENOSPC, "No space left on device", "points.npz"))
    'points.npz: No space left on device. Free some space, or write to another disk.'
    >>> explain_failure(RecursionError("maximum recursion depth exceeded"))
    'something in the input is nested too deeply. Flatten it, or remove what is not needed.'
    """
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"out of memory{_details(error)}. Read fewer samples with --limit, or use a machine with more memory."
    if isinstance(error, RecursionError):
        return "something in the input is nested too deeply. Flatten it, or remove what is not needed."
    if isinstance(error, OSError) and error.strerror:
        names = [name if isinstance(name, str) else repr(name) for name in (error.filename, error.filename2) if name]
        files = one_line(" → ".join(map(str, names))) or "a file or stream"
        return f"{files}: {error.strerror}. {_WAYS_OUT.get(error.errno or 0, _DEFECT)}"
    reason = one_line(f"{type(error).__name__}{_details(error)}")
    if (line_of_user := _line_of_user(error)) is not None:
        return f"{line_of_user}: {reason}. The error is in code that mallow was asked to run; --debug shows all of it."
    return f"unexpected error: {reason}. {_DEFECT}"


def say_as_options(message: str, options: Mapping[str, str]) -> str:
    """A message about arguments of Python, which stand in backticks, rewritten with the options of the command line.

    `options` maps an argument of Python to its form on the command line: the option or, if the value is written
    differently there, the option with a value.

    Examples
    --------
    >>> options = {"skip_bad": "--skip-bad", "bins": "--bins", "reference": "REFERENCE"}
    >>> say_as_options("Fix it, or skip bad entries with `skip_bad=True`.", options)
    'Fix it, or skip bad entries with --skip-bad.'
    >>> say_as_options("`bins` must be at most 5; got 7. Pass `bins=5` or more samples.", options)
    '--bins must be at most 5; got 7. Pass --bins 5 or more samples.'
    >>> say_as_options("no field 'bins'; available fields: 'prompt', 'reference'. `bins` must be 5.", options)
    "no field 'bins'; available fields: 'prompt', 'reference'. --bins must be 5."
    >>> say_as_options("Pass `limits=Limits(depth=…)`.", {"limits": "--max", "limits=Limits(depth=…)": "--max depth=…"})
    'Pass --max depth=….'
    >>> say_as_options("Use the same sizes, such as 50 samples on all sides (--limit 50).", options)
    'Use the same sizes, such as 50 samples on all sides (--limit 50).'
    """

    def write(match: re.Match[str]) -> str:
        code, name, value = match.groups()
        if code in options:
            return options[code]
        if name not in options:
            return match[0]
        return options[name] if value == "True" else f"{options[name]} {value.strip(chr(39))}"

    return _CODE.sub(write, message.replace(_ONLY_IN_PYTHON, ""))


def _details(error: BaseException) -> str:
    text = one_line(str(error)).rstrip(".")
    return f": {text[:500]}" if text else ""


def _line_of_user(error: BaseException) -> str | None:
    """The innermost line of code outside mallow, Python and installed packages; None if there is none."""
    foreign = [Path(__file__).resolve().parents[1], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))]
    foreign += [Path(sys.prefix), Path(sys.base_prefix)]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(os.path.realpath(frame.filename))
        if frame.filename.startswith("<") or any(path.is_relative_to(os.path.realpath(folder)) for folder in foreign):
            continue
        return f"{path.name}, line {frame.lineno}"
    return None


def terminal_width() -> int | None:
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


@contextmanager
def show_progress() -> Iterator[None]:
    """One progress bar for the whole command; if standard error is not a terminal, lines about each step."""
    from mallow.engine import overall

    log, lines = logging.getLogger("mallow.progress"), _Lines()
    before = log.level, log.propagate
    log.addHandler(lines)
    log.propagate = False
    log.setLevel(logging.INFO)
    try:
        with overall():
            yield
    finally:
        log.removeHandler(lines)
        log.setLevel(before[0])
        log.propagate = before[1]


class _Lines(logging.Handler):
    """Prints what is logged as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        print_message(one_line(f"mallow: {record.getMessage()}"))


def show(kind: Literal["caveat", "warning", "note"], text: object) -> None:
    """Print a caveat of a result, a warning about something else, or a note that is no reason to doubt."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or not ctx.meta.get(_QUIET):
        print_message(one_line(f"mallow: {kind}: {text}"))


def call_and_hold_warnings(function: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Call the function and return its result. Its warnings are shown at the end, except the caveats of the result.

    Public functions raise a Python warning for each caveat of their result. On the command line the caveats are
    printed with the result, and nothing should be printed twice.
    """
    caveats: set[str] = set()
    with warnings.catch_warnings(record=True) as held:
        try:
            result = function(*args, **options)
            caveats = {str(caveat) for caveat in getattr(result, "caveats", ())}
            return result
        finally:
            warnings_shown = Counter(str(warning.message) for warning in held if str(warning.message) not in caveats)
            for text, times in warnings_shown.items():
                show("warning", text if times == 1 else f"{text} ({times} times)")
