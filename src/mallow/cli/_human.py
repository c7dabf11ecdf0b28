"""The commands of `mallow.human` that turn votes into results: rank, correlate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from mallow.cli._commands import result_command
from mallow.cli._options import rng_option
from mallow.cli._output_files import check_output_file, save_text_at_end

if TYPE_CHECKING:
    from mallow.human import Annotators, Correlations, JudgedRanking, Ranking, Rankings, Votes
    from mallow.results import Result


R = TypeVar("R", bound="Result")


@result_command(
    "rank",
    "Rank systems by the votes of people.",
    example="mallow rank votes.jsonl --question human-like --out ranking.json",
    plot="the scores",
)
@click.argument("votes")
@click.option("--question", metavar="NAME", help="The question to rank by.  [default: all, one ranking each]")
@click.option(
    "--ties",
    type=click.Choice(["half", "random", "davidson"]),
    default="half",
    show_default=True,
    help="A tie is half a win for both, a win for one at random (as published), or an outcome of its own.",
)
@click.option(
    "--effect",
    "effects",
    type=click.Choice(["left", "length"]),
    multiple=True,
    help="Take out the effect of the side or of the length. May be repeated.",
)
@click.option(
    "--min-seconds",
    type=click.FloatRange(min=0),
    default=25.0,
    show_default=True,
    help="Drop answers given faster than this; 0 keeps all.",
)
@click.option("--exclude", metavar="NAME", multiple=True, help="Leave out an annotator. May be repeated.")
@click.option("--exclude-flagged", is_flag=True, help="Leave out the annotators that --annotators flags.")
@click.option("--annotators", is_flag=True, help="Show the annotators instead: agreement, reliability, flags.")
@click.option("--judges", is_flag=True, help="Use the votes of judges that are programs beside those of people.")
@click.option(
    "--column",
    "columns",
    metavar="NAME=COLUMN",
    multiple=True,
    help="Where a file has other columns: --column model_a=left_bot. May be repeated.",
)
@click.option("--out", "-o", metavar="FILE", help="Save the result: .json, for `mallow correlate` and `mallow report`.")
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
    out: str | None,
    rng: int,
) -> Ranking | Rankings | JudgedRanking | Annotators:
    """Rank systems by the votes in VOTES: Bradley–Terry scores with intervals, ranks and groups.

    VOTES is an export of `mallow annotate`, a Mechanical Turk batch, a Label Studio export, or a file of arena battles (.jsonl,
    .json or .csv, each also as .gz).
    """
    from mallow.human import check_annotators, rank, rank_all, rank_with_judges, read_votes

    target = None if out is None else check_output_file(out, ".json")
    renamed = _columns(columns)
    if annotators:  # fast answers must be there to be seen
        everything = read_votes(votes, min_seconds=0.0, columns=renamed)
        return _saved(target, check_annotators(_asked(everything, question), min_seconds=min_seconds))
    given = read_votes(votes, min_seconds=min_seconds, columns=renamed)
    if judges:
        return _saved(target, rank_with_judges(given, question=question, rng=rng))
    left_out = set(exclude)
    if exclude_flagged:
        everything = read_votes(votes, min_seconds=0.0, columns=renamed)
        flagged = set(check_annotators(everything, min_seconds=min_seconds).flagged)
        left_out |= flagged & {vote.annotator for vote in given}
    if question is None and len(given.questions) > 1:
        return _saved(target, rank_all(given, ties=ties, effects=effects, exclude=left_out, rng=rng))
    return _saved(target, rank(given, question=question, ties=ties, effects=effects, exclude=left_out, rng=rng))


def _asked(votes: Votes, question: str | None) -> Votes:
    return votes if question is None else votes.of(question)


def _columns(columns: tuple[str, ...]) -> dict[str, str]:
    """NAME=COLUMN arguments."""
    renamed = {}
    for column in columns:
        name, equals, theirs = column.partition("=")
        if not (name and equals and theirs):
            raise click.UsageError(f"A column is written NAME=COLUMN, such as model_a=left_bot; got {column!r}.")
        renamed[name] = theirs
    return renamed


def _saved(target: Path | None, result: R) -> R:
    if target is not None:
        save_text_at_end(target, result.to_json())
    return result


@result_command(
    "correlate",
    "How far metrics agree with people.",
    example="mallow correlate metrics.csv ranking.json",
    plot="the metric that agrees best with the first criterion, against it",
)
@click.argument("metrics")
@click.argument("people")
@click.option(
    "--reference",
    metavar="NAME",
    help="The row of METRICS that holds the values of the reference: metrics that have one count by their distance from it.",
)
@rng_option
def correlate_command(metrics: str, people: str, reference: str | None, rng: int) -> Correlations:
    """Rank and linear correlations of metrics with the scores that people gave, with intervals and the worst case.

    METRICS is a comparison (`mallow compare --out`), a table of `mallow baselines --format json`, or a .csv file with a column for
    the system and one per metric, where a column "X std" holds the standard deviations of "X". PEOPLE is what `mallow rank
    --out` saved, or such a .csv file. Higher is better on both sides.
    """
    from mallow.human import correlate

    return correlate(metrics, people, reference=reference, rng=rng)


COMMANDS = (rank_command, correlate_command)
