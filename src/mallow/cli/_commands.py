"""What makes a function a command: common options, printing of results, and files that are written completely or not at all."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mallow._files import atomic_file, refuse_special, write_text
from mallow._optional import optional
from mallow.cli._config import tell_config
from mallow.cli._printing import (
    FORMATS,
    be_quiet,
    call_and_hold_warnings,
    result_text,
    say_as_options,
    show_caveats,
    summary_text,
)
from mallow.cli._terminal import check_output, say, tell
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.results import Result


def command(name: str, summary: str, *, example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with --debug and --quiet, a summary for the list of commands, and an example at the end of its help."""
    epilog = "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def call_in_own_words(*args: Any, **options: Any) -> Any:
            tell_config()
            try:
                return function(*args, **options)
            except InputError as error:
                raise InputError(say_as_options(str(error), _written_as(made))) from error

        made: click.Command = click.command(name, short_help=summary, epilog=epilog)(call_in_own_words)
        made.params += [debug_option(), _quiet_option()]
        return made

    return decorate


def result_command(
    name: str, summary: str, *, example: str, plot: str | None = None, exit_code: Callable[[Any], int] | None = None
) -> Callable[[Callable[..., Result]], click.Command]:
    """A command whose function returns a result, which is printed, with its caveats at the end on standard error.

    `plot` says what --plot draws; None: there is no such option. `exit_code` is called with the result; None: 0.
    """

    def decorate(function: Callable[..., Result]) -> click.Command:
        @functools.wraps(function)
        def print_result(
            *args: Any, form: str, summary: bool = False, picture: str | None = None, **options: Any
        ) -> None:
            check_output()
            if summary and form not in ("text", "json"):
                raise click.UsageError(f"--summary prints JSON; it cannot be combined with --format {form}.")
            target = None if picture is None else check_picture_file(picture)
            result = call_and_hold_warnings(function, *args, **options)
            say(summary_text(result) if summary else result_text(result, form))
            show_caveats(result)
            save_pending()
            if target is not None:
                save_picture(target, result.plot)  # type: ignore[attr-defined]
            if exit_code is not None:
                click.get_current_context().exit(exit_code(result))

        made = command(name, summary, example=example)(print_result)
        made.params[-2:-2] = [*([] if plot is None else [_plot_option(plot)]), _format_option(), _summary_option()]
        return made

    return decorate


def _written_as(made: click.Command) -> dict[str, str]:
    """How each argument of a command is written: its longest option, or its name in capitals."""
    words: dict[str, str] = {}
    for parameter in made.params:
        if isinstance(parameter, click.Option):
            own = max(parameter.opts, key=len)
            words |= dict.fromkeys([str(parameter.name), own.strip("-").replace("-", "_")], own)
        else:
            words[str(parameter.name)] = str(parameter.name).upper()
    words.pop("systems", None)  # NAME=PATH…, which no message can say better
    return words


def _quiet_option() -> click.Option:
    def on_quiet(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted:
            be_quiet(ctx)

    help_text = "Show no progress, warnings or caveats on standard error."
    return click.Option(["--quiet", "-q"], is_flag=True, expose_value=False, callback=on_quiet, help=help_text)


def debug_option() -> click.Option:
    """--debug: the traceback of whatever ends the command, besides the line that explains it."""

    def on_debug(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.ensure_object(set).add("debug")

    help_text = "Show the traceback of an error, besides its message."
    return click.Option(["--debug"], is_flag=True, expose_value=False, callback=on_debug, help=help_text)


def _plot_option(subject: str) -> click.Option:
    return click.Option(["--plot", "picture"], metavar="FILE", help=f"Draw {subject}: .png, .pdf or .svg.")


def _summary_option() -> click.Option:
    help_text = "Print the main numbers alone, as JSON of about twenty lines."
    return click.Option(["--summary"], is_flag=True, help=help_text)


def _format_option() -> click.Option:
    choice = click.Choice(FORMATS)
    return click.Option(
        ["--format", "form"], type=choice, default="text", show_default=True, help="How to print the result."
    )


_PENDING = "mallow.cli.files"


def check_output_file(path: str, *suffixes: str) -> Path:
    """The path of a file to write; refused before the work begins if it could not be written at the end."""
    if not path:
        raise InputError("the name of the file to write must not be empty. Name a file.")
    file = Path(os.path.expanduser(path))
    if suffixes and file.suffix.lower() not in suffixes:
        raise InputError(f"{path}: must end in one of {', '.join(suffixes)}; got {file.suffix!r}.")
    if file.is_dir():
        raise InputError(f"{path}: is a folder, not a file. Name a file in it.")
    if not file.parent.is_dir():
        raise InputError(f"{path}: the folder {file.parent} does not exist. Create it first.")
    refuse_special(path)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written: permission denied.")
    return file


def check_picture_file(path: str) -> Path:
    """The path of a picture to draw, in one of the formats that matplotlib writes; refused as `check_output_file` does."""
    canvas = optional("matplotlib.figure", extra="plot").Figure().canvas
    return check_output_file(path, *(f".{suffix}" for suffix in sorted(canvas.get_supported_filetypes())))


def save_text(path: Path, content: str) -> None:
    """Write a text file and say so."""
    write_text(path, content)
    tell(f"{path}: written")


def save_text_at_end(path: Path, content: str) -> None:
    """Write a text file once the result is printed: if the disk is full, what was computed is not lost."""
    do_at_end(lambda: save_text(path, content))


def do_at_end(task: Callable[[], None]) -> None:
    """Have something written once the result is printed."""
    click.get_current_context().meta.setdefault(_PENDING, []).append(task)


def save_pending() -> None:
    """Write the files that were to be written at the end."""
    for task in click.get_current_context().meta.pop(_PENDING, []):
        task()


def save_picture(path: Path, draw: Callable[[Any], object]) -> None:
    """Write the picture that `draw` makes on the axes that it is called with, and say so."""
    from mallow.results import draw as drawing

    figure = optional("matplotlib.figure", extra="plot").Figure(figsize=drawing.SIZE, layout="constrained")
    draw(figure.subplots())
    try:
        with atomic_file(path) as stream:
            figure.savefig(stream, format=path.suffix[1:].lower())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}.") from error
    tell(f"{path}: written")
