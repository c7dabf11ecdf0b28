"""What makes a function a command: --quiet, --debug and an example for all; --plot, --format and printing for results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._config import tell_config
from mallow.cli._failures import say_as_options
from mallow.cli._output_files import check_picture_file, save_pending, save_picture
from mallow.cli._printing import FORMATS, be_quiet, call_and_hold_warnings, result_text, show_caveats, summary_text
from mallow.cli._terminal import check_output, say
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
