"""Write docs/commands.md, the help of every command: `make docs`. A test checks that the page is up to date.

An option that several commands share, with the same words, is described once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from mallow.cli import cli

PAGE = Path(__file__).with_name("commands.md")
WIDTH = 80
SHARED = 4
"""An option that at least this many commands have is described once."""

Entry = tuple[str, str]


def page_text() -> str:
    """The page as it should be."""
    every = [(name, context, _entries(context)) for name, context in _contexts()]
    counts = Counter(entry for _, _, entries in every for entry in entries)
    shared = [entry for entry, count in counts.items() if count >= SHARED]
    lines = ["# Commands", "", "What `mallow COMMAND --help` prints for each command. Written by `make docs`."]
    lines += ["Options of many commands are described once, in [shared options](#shared-options).", ""]
    for name, context, entries in every:
        words = name.split()[1:]
        lines += [] if not words else ["", f"{'#' * (1 + len(words))} {' '.join(words)}", ""]
        lines.append(_block(context, entries, shared if words else []))
    lines += ["", "## Shared options", "", _indented(_options("Options", shared))]
    return "\n".join(lines) + "\n"


def _contexts() -> Iterator[tuple[str, click.Context]]:
    """`mallow`, its commands and their commands, each with the context of its help."""
    whole = _context("mallow", cli, None)
    yield "mallow", whole
    for name, command in cli.commands.items():
        context = _context(name, command, whole)
        yield f"mallow {name}", context
        for inner, own in command.commands.items() if isinstance(command, click.Group) else ():
            yield f"mallow {name} {inner}", _context(inner, own, context)


def _context(name: str, command: click.Command, parent: click.Context | None) -> click.Context:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
    context.help_option_names = ["-h", "--help"]
    return context


def _entries(context: click.Context) -> list[Entry]:
    """Each option, as its help writes it, with its description."""
    options = (one for one in context.command.get_params(context) if isinstance(one, click.Option))
    records = (option.get_help_record(context) for option in options)
    return [record for record in records if record is not None]


def _block(context: click.Context, entries: list[Entry], shared: list[Entry]) -> str:
    """The help of a command, indented as code; of shared options, the names."""
    command, formatter = context.command, context.make_formatter()
    command.format_usage(context, formatter)
    command.format_help_text(context, formatter)
    text = formatter.getvalue().rstrip() + "\n"
    own = [entry for entry in entries if entry not in shared]
    text += "\n" + _options("Options", own) if own else ""
    names = [re.findall(r"--[-\w]+", entry[0])[0] for entry in entries if entry in shared]
    if names:
        formatter = click.HelpFormatter(width=WIDTH)
        with formatter.section("Shared options"):
            formatter.write_text(", ".join(names))
        text += "\n" + formatter.getvalue()
    formatter = context.make_formatter()
    if isinstance(command, click.Group):
        command.format_commands(context, formatter)
    command.format_epilog(context, formatter)
    return _indented(text.rstrip() + "\n\n" + formatter.getvalue().lstrip("\n"))


def _options(title: str, entries: list[Entry]) -> str:
    formatter = click.HelpFormatter(width=WIDTH)
    with formatter.section(title):
        formatter.write_dl(entries)
    return formatter.getvalue()


def _indented(text: str) -> str:
    return "\n".join(("    " + line).rstrip() for line in text.rstrip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
