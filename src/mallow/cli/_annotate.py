"""The command `annotate`, which shows a study in the browser."""

from __future__ import annotations

from typing import Any

import click

from mallow.cli._commands import command
from mallow.cli._output_files import check_output_file, save_text
from mallow.cli._samples import read_lines
from mallow.cli._terminal import say, tell


@command(
    "annotate", "Show a study to annotators in the browser.", example="mallow annotate study.json --people names.txt"
)
@click.argument("study")
@click.option(
    "--database",
    metavar="FILE|URL",
    help="Where answers are kept: an SQLite file or postgresql://….  [default: beside STUDY]",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="What to listen on; 0.0.0.0 opens it to the network."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option(
    "--url", metavar="URL", help="How people reach the page, if by another address: https://study.example.org."
)
@click.option("--people", metavar="FILE", help="Names, one per line: each gets a personal link, printed as CSV.")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="How long personal links are valid.",
)
@click.option("--invited-only", is_flag=True, help="No open link: only personal links, Prolific and MTurk.")
@click.option(
    "--lease",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="MINUTES",
    help="After so long, a pair without an answer goes to somebody else.",
)
@click.option(
    "--completion-code", metavar="CODE", help="One code for all, as Prolific wants it.  [default: one per annotator]"
)
@click.option("--export", metavar="FILE", help="Write the votes so far (.jsonl) and end, without a server.")
@click.option("--accept-edits", is_flag=True, help="Take a study file as it is, although it was edited by hand.")
def annotate_command(
    study: str,
    database: str | None,
    host: str,
    port: int,
    url: str | None,
    people: str | None,
    days: float,
    invited_only: bool,
    lease: float,
    completion_code: str | None,
    export: str | None,
    accept_edits: bool,
) -> None:
    """Show the study in the file STUDY to annotators, until Ctrl-C.

    The links are printed on standard output. Every answer is on disk before it is acknowledged; the page may be stopped
    and started again at any time. It listens on this machine only, unless --host says otherwise.
    """
    from mallow import annotate

    target = None if export is None else check_output_file(export, ".jsonl")
    names = [] if people is None else read_lines(people)
    address = annotate.Address(host, port, url)
    store = annotate.open_study(study, database, lease=60.0 * lease, create=target is None, accept_edits=accept_edits)
    try:
        if target is not None:
            save_text(target, annotate.votes_text(annotate.export_votes(store)))
            return
        if not address.is_local and not address.is_secure:
            tell("mallow: warning: anyone in the network can read along: put a proxy with https before it.")

        def show_links(base: str, _port: int, _stop: Any) -> None:
            links = annotate.make_links(store, base, names, days=days)
            say(f"study: {links.study}{'  (by invitation)' if invited_only else ''}")
            say(f"owner: {links.owner}")
            if names:
                say("\n".join(links.to_csv().splitlines()))

        settings = annotate.Settings(open_link=not invited_only, completion_code=completion_code)
        annotate.serve(store, study, address, settings, ready=show_links)
    finally:
        store.close()


COMMANDS = (annotate_command,)
