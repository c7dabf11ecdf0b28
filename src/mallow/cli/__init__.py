"""The command line: parse, call, print. Results on standard output, everything else on standard error.

Exit 0 when it worked, 1 when it failed, 2 when the command was wrong. The modules of this package import what they need
inside their commands, so that help opens at once.
"""

from __future__ import annotations

import difflib
import shutil
import sys
import warnings
from typing import NoReturn

import click

from mallow.cli import _look as look
from mallow.cli import _make as make
from mallow.cli import _measure as measure
from mallow.errors import EstimateWarning, InputError

__all__ = ["main"]


class _Suggesting(click.Group):
    """A group of commands that suggests the nearest name for one it does not know."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.commands, n=1)
            more = f" Did you mean {near[0]}?" if near else f" There are {', '.join(self.commands)}."
            ctx.fail(f"No such command {args[0]!r}.{more}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of use, not of the alphabet


@click.group(
    cls=_Suggesting,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`mallow COMMAND --help` has an example of each. `mallow demo` needs nothing but the install.",
)
@click.version_option(package_name="mallow", message="mallow %(version)s")
def cli() -> None:
    """How far are a generative model's samples from the data they should match?"""


for _command in (*measure.COMMANDS, *look.COMMANDS, *make.COMMANDS):
    cli.add_command(_command)


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", EstimateWarning)
        warnings.showwarning = _show_warning
        sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        # click wraps help at 50 columns at least.
        narrow = {"terminal_width": columns} if (columns := shutil.get_terminal_size().columns) < 50 else {}
        # What a command gave to `exit`, if it did. click leaves with 1, silently, where the reader of a pipe has gone.
        code = cli(prog_name="mallow", standalone_mode=False, **narrow)
    except click.ClickException as error:  # with the code 2 where the command was wrong
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("mallow: stopped", err=True)
        return 130
    except InputError as error:
        click.echo(f"mallow: {error}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _show_warning(message: Warning | str, *rest: object, **more: object) -> None:
    click.echo(f"mallow: warning: {message}", err=True)
