"""Write docs/commands.md, the help of every command: `make docs`. A test checks that the page is up to date."""

from __future__ import annotations

from pathlib import Path

import click

from mallow.cli import cli

PAGE = Path(__file__).with_name("commands.md")
WIDTH = 100


def page_text() -> str:
    """The page as it should be."""
    lines = ["# Commands", "", "What `mallow COMMAND --help` prints for each command. Written by `make docs`.", ""]
    lines += [_block("mallow", cli, None)]
    for name, command in cli.commands.items():
        lines += ["", f"## {name}", "", _block(f"mallow {name}", command, cli)]
        for inner, own in command.commands.items() if isinstance(command, click.Group) else ():
            lines += ["", f"### {name} {inner}", "", _block(f"mallow {name} {inner}", own, command)]
    return "\n".join(lines) + "\n"


def _block(name: str, command: click.Command, parent: click.Command | None) -> str:
    """The help of a command, indented as code."""
    path = " ".join(name.split()[:-1])
    above = None if parent is None else click.Context(parent, info_name=path, terminal_width=WIDTH)
    context = click.Context(command, info_name=name.split()[-1], parent=above, terminal_width=WIDTH)
    context.help_option_names = ["-h", "--help"]
    return "\n".join(("    " + line).rstrip() for line in command.get_help(context).splitlines())


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
