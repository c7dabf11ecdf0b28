"""The command line: parse, call, print. Results go to standard output, everything else to standard error.

Exit code 0: success; 1: failure; 2: wrong usage; 3 and 4: `check` found a drop, or cannot tell. Every failure is one
line on standard error; --debug shows where it happened. The modules import what they
need inside their commands, so that --help is fast.
"""

from __future__ import annotations

import io
import shutil
import sys
import traceback
import warnings
from typing import NoReturn

import click

from mallow._optional import did_you_mean
from mallow.cli import _embed, _evaluate, _explain, _generate, _human, _study
from mallow.cli._commands import config_option, debug_option
from mallow.cli._printing import (
    exit_code_of,
    explain_failure,
    finish_output,
    prepare_streams,
    print_message,
    show,
    stop_on_sigterm,
)
from mallow.errors import EstimateWarning

__all__ = ["main"]

_NARROWEST = 50  # columns: click itself wraps help no narrower than this


class _SuggestingGroup(click.Group):
    """A group of commands that suggests the nearest name for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = did_you_mean(args[0], self.commands) or f" The commands are {', '.join(self.commands)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of use, not alphabetical


@click.group(
    cls=_SuggestingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`mallow COMMAND --help` shows an example. `mallow demo` needs no data and no download.",
)
@click.version_option(package_name="mallow", message="mallow %(version)s")
def cli() -> None:
    """How far are a generative model's samples from the data they should match?"""


cli.params += [config_option(), debug_option()]
for _command in (
    *(_evaluate.score_command, _evaluate.compare_command, _evaluate.track_command, _evaluate.permutation_test_command),
    *(_evaluate.plan_command, _evaluate.check_command, _evaluate.robust_command, _evaluate.gaps_command),
    *(_evaluate.same_command, _evaluate.items_command),
    *(_explain.passport_group, _generate.baselines_command, _generate.fid_command, _generate.likelihoods_command),
    *(_explain.report_command, _explain.demo_command, _explain.diagnose_command, _explain.audit_command),
    *(_generate.generate_command, _generate.sweep_command, _embed.embed_command, _embed.cache_group),
    *(_study.study_group, _human.annotate_command),
    *(_human.rank_command, _human.correlate_command),
):
    cli.add_command(_command)


def main() -> NoReturn:
    """Run the command line and exit with its exit code."""
    prepare_streams()
    with warnings.catch_warnings(), stop_on_sigterm():
        warnings.simplefilter("always", EstimateWarning)
        warnings.showwarning = lambda message, *details, **options: show("warning", message)
        sys.exit(_run())


def _run() -> int:
    """The exit code, after one line about the failure that ended the command."""
    flags: set[str] = set()
    try:
        code = _call(flags)
        finish_output()
    except click.ClickException as error:  # its exit code is 2 for wrong usage
        text = io.StringIO()
        error.show(file=text)
        print_message(text.getvalue().rstrip())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        print_message("mallow: stopped")
        return exit_code_of(error)
    except (SystemExit, BrokenPipeError) as error:  # the reader of a pipe, such as `head`, has left
        return error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
    except BaseException as error:  # libraries in other languages raise errors that are not Exceptions
        if "debug" in flags:
            print_message("".join(traceback.format_exception(error)).rstrip())
        print_message(f"mallow: {explain_failure(error)}")
        return 1
    return code


def _call(flags: set[str]) -> int:
    columns = shutil.get_terminal_size().columns
    narrow = {"terminal_width": columns} if columns < _NARROWEST else {}
    # The value is what a command passed to `exit`, if it did. If the reader of a pipe has left, click exits with 1.
    code = cli(prog_name="mallow", standalone_mode=False, obj=flags, **narrow)
    return code if isinstance(code, int) else 0
