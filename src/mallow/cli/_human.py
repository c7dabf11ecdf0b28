"""The commands of studies with people: rank, correlate, annotate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from mallow.cli._commands import check_output_file, command, out_option, result_command, save_text
from mallow.cli._options import option, rng_option
from mallow.cli._printing import print_message, print_output
from mallow.cli._samples import read_lines

if TYPE_CHECKING:
    from mallow.results import Result


@result_command(
    "rank",
    "Rank systems by the votes of people.",
    example="mallow rank votes.jsonl --question human-like --out ranking.json",
    plot="the scores",
)
@click.argument("votes")
@option("--question", metavar="NAME", help="The question to rank by.  [default: all, one ranking each]")
@option(
    "--ties",
    type=click.Choice(["half", "random", "davidson"]),
    default="half",
    help="Count a tie as half a win for both, as a win for one at random (as published), or as a third outcome.",
)
@option(
    "--effect",
    "effects",
    type=click.Choice(["left", "length"]),
    multiple=True,
    help="Remove the effect of the side or of the length. May be repeated.",
)
@option(
    "--min-seconds",
    type=click.FloatRange(min=0),
    default=25.0,
    help="Drop answers given faster than this. 0 keeps all.",
)
@option("--exclude", metavar="NAME", multiple=True, help="Leave out an annotator. May be repeated.")
@option("--exclude-flagged", is_flag=True, help="Leave out the annotators that --annotators flags.")
@option("--annotators", is_flag=True, help="Show the annotators instead: agreement, reliability, flags.")
@option("--judges", is_flag=True, help="Use the votes of judges that are programs, in addition to the votes of people.")
@option(
    "--column",
    "columns",
    metavar="NAME=COLUMN",
    multiple=True,
    help="The name of a column in the file, such as model_a=left_bot. May be repeated.",
    python={
        "columns={'model_a': …, 'model_b': …, 'winner': …}": "--column model_a=NAME",
        "columns={'model_a': …, 'model_b': …}": "--column model_a=NAME",
    },
)
@out_option("Save the result as .json, for `mallow correlate` and `mallow report`.")
@rng_option
def rank_command(
    votes: str,
    question: str | None,
    ties: Literal["half", "random", "davidson"],
    effects: tuple[Literal["left", "length"], ...],
    min_seconds: float,
    exclude: tuple[str, ...],
    exclude_flagged: bool,
    annotators: bool,
    judges: bool,
    columns: tuple[str, ...],
    rng: int,
) -> Result:
    """Rank systems by the votes in VOTES: Bradley–Terry scores with intervals, ranks and groups.

    VOTES is an export of `mallow annotate`, a Mechanical Turk batch, a Label Studio export, or a file of arena battles
    (.jsonl, .json or .csv, each also as .gz).
    """
    from mallow.human import check_annotators, rank, rank_all, rank_with_judges, read_votes

    renamed = _columns(columns)
    if annotators:  # fast answers must be kept to be reported
        everything = read_votes(votes, min_seconds=0.0, columns=renamed)
        asked = everything if question is None else everything.of(question)
        return check_annotators(asked, min_seconds=min_seconds)
    all_votes = read_votes(votes, min_seconds=min_seconds, columns=renamed)
    if judges:
        return rank_with_judges(all_votes, question=question, rng=rng)
    left_out = set(exclude)
    if exclude_flagged:
        everything = read_votes(votes, min_seconds=0.0, columns=renamed)
        flagged = set(check_annotators(everything, min_seconds=min_seconds).flagged)
        left_out |= flagged & {vote.annotator for vote in all_votes}
    if question is None and len(all_votes.questions) > 1:
        return rank_all(all_votes, ties=ties, effects=effects, exclude=left_out, rng=rng)
    return rank(all_votes, question=question, ties=ties, effects=effects, exclude=left_out, rng=rng)


def _columns(columns: tuple[str, ...]) -> dict[str, str]:
    """NAME=COLUMN arguments."""
    renamed = {}
    for column in columns:
        name, equals, theirs = column.partition("=")
        if not (name and equals and theirs):
            raise click.UsageError(f"A column is written NAME=COLUMN, such as model_a=left_bot; got {column!r}.")
        renamed[name] = theirs
    return renamed


@result_command(
    "correlate",
    "Show how well metrics agree with people.",
    example="mallow correlate metrics.csv ranking.json",
    plot="the metric that agrees best with the first criterion, against it",
)
@click.argument("metrics")
@click.argument("people")
@option(
    "--reference",
    metavar="NAME",
    help="The row of METRICS with the values of the reference. Metrics with such a value are ranked by their "
    "distance from it.",
)
@rng_option
def correlate_command(metrics: str, people: str, reference: str | None, rng: int) -> Result:
    """Print rank and linear correlations of metrics with people's scores, with intervals and the worst case.

    METRICS is a result of `mallow compare --out` or `mallow baselines --format json`, or a .csv file with one column
    for the system and one per metric. A column "X std" holds the standard deviations of "X". PEOPLE is a result of
    `mallow rank --out`, or such a .csv file. Higher is better on both sides.
    """
    from mallow.human import correlate

    return correlate(metrics, people, reference=reference, rng=rng)


@command(
    "annotate", "Show a study to annotators in the browser.", example="mallow annotate study.json --people names.txt"
)
@click.argument("study")
@option(
    "--database",
    metavar="FILE|URL",
    help="Where answers are stored: an SQLite file or postgresql://….  [default: beside STUDY]",
)
@option("--host", default="127.0.0.1", help="The address to listen on. 0.0.0.0 opens the page to the network.")
@option("--port", type=click.IntRange(0, 65535), default=8000, help="The port to listen on. 0 takes any free port.")
@option("--url", metavar="URL", help="The address at which people reach the page, such as https://study.example.org.")
@option("--people", metavar="FILE", help="A file of names, one per line. Each gets a personal link, printed as CSV.")
@option("--days", type=click.FloatRange(min=0, min_open=True), default=60.0, help="How long personal links are valid.")
@option("--invited-only", is_flag=True, help="Allow only personal links, and the platforms of --platform.")
@option(
    "--platform",
    "platforms",
    type=click.Choice(["prolific", "mturk"]),
    multiple=True,
    help="With --invited-only, also let in the workers of a platform. May be repeated.",
)
@option(
    "--known-as",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="An additional name of this machine that people use in the address. May be repeated.",
)
@option(
    "--lease",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    metavar="MINUTES",
    help="How long a pair waits for an answer before it goes to somebody else.",
)
@option(
    "--completion-code", metavar="CODE", help="One code for all, as Prolific wants it.  [default: one per annotator]"
)
@option("--export", metavar="FILE", help="Write the votes so far (.jsonl) and end, without a server.")
@option("--accept-edits", is_flag=True, help="Accept a study file that was edited by hand.")
def annotate_command(
    study: str,
    database: str | None,
    host: str,
    port: int,
    url: str | None,
    people: str | None,
    days: float,
    invited_only: bool,
    platforms: tuple[str, ...],
    hosts: tuple[str, ...],
    lease: float,
    completion_code: str | None,
    export: str | None,
    accept_edits: bool,
) -> None:
    """Show the study in the file STUDY to annotators, until Ctrl-C.

    The links are printed on standard output. Every answer is on disk before it is acknowledged, so the page may be
    stopped and restarted at any time. It listens only on this machine, unless --host is given.
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
            print_message("mallow: warning: the network can read the traffic. Put a proxy with https in front of it.")

        def show_links(base: str, _port: int, _stop: Any) -> None:
            links = annotate.make_links(store, base, names, days=days)
            print_output(f"study: {links.study}{'  (by invitation)' if invited_only else ''}")
            print_output(f"owner: {links.owner}")
            if names:
                print_output("\n".join(links.to_csv().splitlines()))

        settings = annotate.Settings(
            open_link=not invited_only,
            platforms=frozenset(platforms) if platforms or invited_only else None,
            hosts=frozenset(hosts),
            completion_code=completion_code,
        )
        annotate.serve(store, study, address, settings, ready=show_links)
    finally:
        store.close()
