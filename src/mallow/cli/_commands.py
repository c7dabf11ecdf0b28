"""Turns functions into commands: common options, printing, and files that are written completely or not at all."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from mallow._files import atomic_file, parse_json, read_text, refuse_special, write_text
from mallow._optional import optional
from mallow.cli._printing import (
    FORMATS,
    Option,
    be_quiet,
    call_and_hold_warnings,
    check_output,
    print_message,
    print_output,
    say_as_options,
    show,
    show_progress,
    terminal_width,
)
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.results import Result

_PENDING = "mallow.cli.files"  # keys in click's context
_CONFIG = "mallow.config"
_PROJECT = "pyproject.toml"
_QUIET = "Show no progress, warnings or caveats on standard error."


def command(name: str, summary: str, *, example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with --debug and --quiet, a summary for the list of commands, and an example at the end of its help."""
    epilog = "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def call_in_own_words(*args: Any, **options: Any) -> Any:
            ctx = click.get_current_context()
            if _CONFIG in ctx.meta:
                from mallow.cli._config import report_config

                report_config(ctx, *ctx.meta[_CONFIG])
            try:
                return function(*args, **options)
            except InputError as error:
                words, embedder = _written_as(made), str(options.get("embedder_name") or "")
                if embedder and embedder.rpartition(":")[2].partition("@")[0] in str(error):
                    words["model"] = "--embedder"  # the model that embeds, not the argument MODEL
                raise InputError(say_as_options(str(error), words)) from error

        made: click.Command = click.command(name, short_help=summary, epilog=epilog)(call_in_own_words)
        made.params += [debug_option(), _flag(["--quiet", "-q"], _QUIET, be_quiet)]
        return made

    return decorate


def result_command(
    name: str, summary: str, *, example: str, plot: str | None = None, exit_code: Callable[[Any], int] | None = None
) -> Callable[[Callable[..., Result]], click.Command]:
    """A command whose function returns a result, which is printed, with its caveats at the end on standard error.

    `plot` describes what --plot draws; without it there is no such option. `exit_code` is called with the result;
    its default is 0.
    """

    def decorate(function: Callable[..., Result]) -> click.Command:
        @functools.wraps(function)
        def print_result(
            *args: Any,
            form: str,
            digits: int | None = None,
            summary: bool = False,
            picture: str | None = None,
            **options: Any,
        ) -> None:
            check_output()
            if summary and form not in ("text", "json"):
                raise click.UsageError(f"--summary prints JSON, so it cannot be combined with --format {form}.")
            if digits is not None and form in ("text", "json"):
                raise click.UsageError(f"--digits is for tables: --format markdown, latex or siunitx; got {form}.")
            target = None if picture is None else check_picture_file(picture)
            with show_progress():
                result = call_and_hold_warnings(function, *args, **options)
            failure = None
            try:  # files first: the reader of standard output may leave
                save_pending()
                if target is not None:
                    save_picture(target, _drawing(result, target.stem))
            except InputError as error:  # the result is printed anyway
                failure = error
            width = terminal_width()
            print_output(result.brief_json() if summary else result.format(form, width=width, digits=digits))
            for line in result.caveat_lines():
                show("caveat", say_as_options(line, _code_of_options(made)))
            if failure is not None:
                raise failure
            if exit_code is not None:
                click.get_current_context().exit(exit_code(result))

        made = command(name, summary, example=example)(print_result)
        made.params[-2:-2] = _result_options(plot)
        return made

    return decorate


def _drawing(result: Any, name: str) -> Callable[..., Any]:
    """What draws the picture of this name: curves or ranks if the name says so and the result has them."""
    drawing: Callable[..., Any] = result.plot
    for word, method in (("frontier", "plot_frontiers"), ("rank", "plot_ranks")):
        if word in name.lower():
            drawing = getattr(result, method, drawing)
    return drawing


def _written_as(made: click.Command) -> dict[str, str]:
    """How each argument of a command is written: its longest option, or its name in capitals."""
    words: dict[str, str] = {}
    for parameter in made.params:
        if isinstance(parameter, click.Option):
            longest = max(parameter.opts, key=len)
            words |= dict.fromkeys([str(parameter.name), longest.strip("-").replace("-", "_")], longest)
        else:
            words[str(parameter.name)] = str(parameter.name).upper()
    words.pop("systems", None)  # NAME=PATH… is already clear
    return words | _code_of_options(made)


def _code_of_options(made: click.Command) -> dict[str, str]:
    """How the code that stands for options of a command in messages is written."""
    options = (parameter for parameter in made.params if isinstance(parameter, Option))
    return {code: written for parameter in options for code, written in parameter.python.items()}


def _flag(names: list[str], help_text: str, act: Callable[[click.Context], None]) -> click.Option:
    """A flag that acts by itself and is not passed to the command."""

    def on_flag(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted:
            act(ctx)

    return click.Option(names, is_flag=True, expose_value=False, callback=on_flag, help=help_text)


def config_option() -> click.Option:
    """--config: defaults for the options of all commands, by default from the project file, if there is one."""

    def on_config(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
        found = (_PROJECT, False) if path is None else (path, True)
        wanted = isinstance(ctx.command, click.Group) and not ctx.resilient_parsing
        if wanted and (path is not None or os.path.exists(_PROJECT)):
            from mallow.cli._config import read_defaults

            defaults = read_defaults(cast(click.Group, ctx.command), *found)
            if defaults is not None:
                ctx.default_map, ctx.meta[_CONFIG] = defaults, found

    help_text = "Options from a file: .toml, .yaml or .yml. [default: the section tool.mallow of pyproject.toml, "
    help_text += "if there is one]"
    return click.Option(
        ["--config"], metavar="FILE", expose_value=False, is_eager=True, callback=on_config, help=help_text
    )


def debug_option() -> click.Option:
    """--debug: the traceback of an error, in addition to the line that explains it."""
    help_text = "Also show the traceback of an error."
    return _flag(["--debug"], help_text, lambda ctx: ctx.ensure_object(set).add("debug"))


def _result_options(plot: str | None) -> list[click.Option]:
    """--plot, if there is something to draw, --format, --digits and --summary."""
    plot_help, form_help = f"Draw {plot}: .png, .pdf or .svg.", "How to print the result: as text, JSON or a table."
    summary_help = "Print only the main numbers, as about twenty lines of JSON."
    return [
        *([] if plot is None else [click.Option(["--plot", "picture"], metavar="FILE", help=plot_help)]),
        click.Option(
            ["--format", "form"], type=click.Choice(FORMATS), default="text", show_default=True, help=form_help
        ),
        click.Option(
            ["--digits"], type=click.IntRange(0, 12), metavar="N", help="Digits after the point in such a table."
        ),
        click.Option(["--summary"], is_flag=True, help=summary_help),
    ]


def check_output_file(path: str, *suffixes: str) -> Path:
    """The path of a file to write; refused before the work begins if it cannot be written."""
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
    """The path of a picture, in one of the formats that matplotlib writes; refused as `check_output_file` does."""
    canvas = optional("matplotlib.figure", extra="plot").Figure().canvas
    return check_output_file(path, *(f".{suffix}" for suffix in sorted(canvas.get_supported_filetypes())))


def out_option(help_text: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """--out FILE, which saves the result of a command after printing it; if there are several results, the score."""

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        @click.option("--out", "-o", metavar="FILE", help=help_text)
        @functools.wraps(function)
        def call_and_save(*args: Any, out: str | None, **options: Any) -> Result:
            target = None if out is None else check_output_file(out, ".json")
            result = function(*args, **options)
            if target is not None:
                do_at_end(save_text, target, getattr(result, "score", result).to_json())
            return result

        return call_and_save

    return decorate


def save_text(path: Path, content: str) -> None:
    """Write a text file and report that it is written."""
    write_text(path, content)
    print_message(f"{path}: written")


def do_at_end(task: Callable[..., None], *args: Any) -> None:
    """Write something after the result is printed, so that a full disk does not lose the result."""
    click.get_current_context().meta.setdefault(_PENDING, []).append(functools.partial(task, *args))


def save_pending() -> None:
    """Write the files that were to be written at the end."""
    for task in click.get_current_context().meta.pop(_PENDING, []):
        task()


def save_picture(path: Path, draw: Callable[[Any], object]) -> None:
    """Write the picture that `draw` makes on its axes, and report that it is written."""
    from mallow.results import draw as drawing

    figure = optional("matplotlib.figure", extra="plot").Figure(figsize=drawing.SIZE, layout="constrained")
    draw(figure.subplots())
    try:
        with atomic_file(path) as stream:
            figure.savefig(stream, format=path.suffix[1:].lower())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}.") from error
    print_message(f"{path}: written")


def read_saved(path: str, noun: str, command: str, *kinds: type[Result]) -> Any:
    """The result in a file that a command saved, one of these kinds. An error names the command that saves one."""
    try:
        text = read_text(path)
        data = parse_json(text)
        kind = data.get("kind") if isinstance(data, dict) else type(data).__name__
        for result in kinds:
            if kind == f"mallow {result.KIND}":
                return result.from_json(text)
    except ValueError as error:  # also of JSON
        raise InputError(f"{path}: is not {noun}: {str(error).rstrip('.')}. Save one with: {command}") from None
    raise InputError(f"{path}: is not {noun} but {kind!r}. Save one with: {command}")


def read_ranking(path: str, *, one: bool = False) -> Any:
    """The ranking, or the rankings, that `mallow rank --out` saved; with `one`, it must be for a single question."""
    from mallow.human import JudgedRanking, Ranking, Rankings

    if one:
        return read_saved(path, "a ranking", "mallow rank votes.jsonl --question NAME --out ranking.json", Ranking)
    return read_saved(path, "a ranking", "mallow rank VOTES --out ranking.json", Ranking, Rankings, JudgedRanking)
