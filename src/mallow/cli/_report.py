"""The commands that write a page: report, demo."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mallow._files import parse_json, read_text
from mallow.cli._choices import EmbedderChoice
from mallow.cli._commands import command, result_command
from mallow.cli._options import embedder_options, measure_options, reader_options, repeats_option, rng_option
from mallow.cli._output_files import check_output_file
from mallow.cli._samples import SampleReader, read_systems
from mallow.cli._terminal import say, tell
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.evaluate import Comparison
    from mallow.evidence import Measure
    from mallow.human import JudgedRanking, Ranking, Rankings


@result_command(
    "report",
    "One page with the ranking, the frontiers and the reasons.",
    example="mallow report human.jsonl small=small.jsonl large=large.jsonl --out report.html",
    plot="the scores",
)
@click.argument("reference")
@click.argument("systems", nargs=-1, metavar="NAME=PATH...")
@click.option("--out", "-o", default="report.html", show_default=True, metavar="FILE", help="Where to write: .html.")
@click.option("--title", metavar="TEXT", help="The heading of the page.")
@click.option("--ranking", metavar="FILE", help="What people said of the same systems: .json of `mallow rank --out`.")
@embedder_options
@reader_options
@measure_options
@repeats_option
@rng_option
def report_command(
    reference: str,
    systems: tuple[str, ...],
    out: str,
    title: str | None,
    ranking: str | None,
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    repeats: int,
    rng: int,
) -> Comparison:
    """Write one page with the ranking, the frontiers, the noise, and where the gaps are.

    Without systems, REFERENCE is a comparison that `mallow compare --out` saved; the page then has no examples.
    """
    from mallow import report

    page = check_output_file(out, ".html", ".htm")
    people = None if ranking is None else _read_ranking(ranking)
    if systems:
        x, others = read_systems(read, reference, systems)
        comparison, diagnoses = report.compare_and_diagnose(
            x, others, measure=measure, embedder=embedder(x.kind), repeats=repeats, rng=rng
        )
    else:
        comparison, diagnoses = _read_comparison(reference), {}
    report.write(page, comparison, diagnoses=diagnoses, ranking=people, title=title)
    tell(f"{page}: written")
    return replace(comparison, caveats=report.collect_caveats(comparison, diagnoses))


def _read_ranking(path: str) -> Ranking | Rankings | JudgedRanking:
    from mallow.human import JudgedRanking, Ranking, Rankings

    try:
        text = read_text(path)
        kind = parse_json(text).get("kind")
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: is not a ranking: {str(error).rstrip('.')}. Save one with: mallow rank VOTES --out ranking.json"
        ) from None
    for result in (Ranking, Rankings, JudgedRanking):
        if kind == f"mallow {result.KIND}":
            return result.from_json(text)
    raise InputError(f"{path}: is not a ranking but {kind!r}. Save one with: mallow rank VOTES --out {path}")


def _read_comparison(path: str) -> Comparison:
    from mallow.evaluate import Comparison

    file = Path(os.path.expanduser(path))
    if not file.exists():
        raise InputError(f"{path}: no such file.")
    if file.suffix != ".json":
        raise click.UsageError("Name the systems: mallow report REFERENCE NAME=PATH ...")
    try:
        return Comparison.from_json(read_text(file))
    except InputError as error:
        raise InputError(
            f"{path}: is not a comparison: {error} Save one with: mallow compare ... --out {file.name}"
        ) from error


@command("demo", "A demonstration that needs no data and no download.", example="mallow demo --out mallow-demo")
@click.option(
    "--out", "-o", default="mallow-demo", show_default=True, metavar="FOLDER", help="Where to write the page."
)
@rng_option
def demo_command(out: str, rng: int) -> None:
    """Score n-gram models against Python's own documentation, and sampled digits against real ones.

    It needs no data and no download, and takes about a minute.
    """
    from mallow.demo import demo

    for part in demo(out, rng=rng):
        say(part)


COMMANDS = (report_command, demo_command)
