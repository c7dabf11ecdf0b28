"""The commands that give reasons, write pages and check files: diagnose, audit, report, demo, passport."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mallow.cli._commands import check_output_file, command, read_ranking, read_saved, result_command
from mallow.cli._options import Run, option, rng_option, run_options
from mallow.cli._printing import print_message, print_output
from mallow.cli._samples import read_arguments, read_key, read_systems
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.evaluate import Comparison
    from mallow.results import Result


@result_command(
    "diagnose",
    "Show where the gap is: what the model misses and what it invents.",
    example="mallow diagnose human.jsonl model.jsonl",
    plot="the share of the gap that each region has",
)
@click.argument("reference")
@click.argument("model")
@option("--regions", least=1, default=5, help="How many regions of each kind to show.")
@option("--examples", least=0, default=3, help="How many samples of each side to show.")
@option(
    "--grids", metavar="FOLDER", help="Draw each region of images into this folder: missed-1.png, invented-1.png, ..."
)
@run_options("embedder", "read", "paired", "measure", "rng")
def diagnose_command(reference: str, model: str, regions: int, examples: int, grids: str | None, run: Run) -> Result:
    """Show where the gap is: the regions that MODEL misses and the regions that it invents, with examples.

    The default of --bins is √(n + m) here. This is less than for a score, because a region should be a topic.
    """
    from mallow._files import make_folder
    from mallow.explain import diagnose

    x, y = read_arguments(run.read, REFERENCE=reference, MODEL=model)
    if grids is not None and x.kind != "image":
        raise click.UsageError(f"--grids is for images; {reference} holds {x.kind} samples.")
    folder = None if grids is None else make_folder(grids)
    diagnosis = diagnose(x, y, regions=regions, examples=examples, **run.settings(x.kind))
    if folder is not None:
        print_message(f"{folder}: {len(diagnosis.draw_images(folder))} pictures written")
    return diagnosis


@result_command(
    "audit",
    "Find what may spoil a score, in the samples or in the embedder.",
    example="mallow audit human.jsonl small=small.jsonl large=large.jsonl",
)
@click.argument("reference")
@click.argument("systems", nargs=-1, metavar="[NAME=PATH]...")
@run_options("embedder", "read", "measure", "repeats", "rng")
def audit_command(reference: str, systems: tuple[str, ...], run: Run) -> Result:
    """List the differences between REFERENCE and the systems that are unrelated to the model, before anything is
    scored.

    It counts lengths, truncated ends, copies, empty texts, prompts and file formats, without embedding anything. The
    options of the embedder and the measure are not used. `mallow score`, `compare` and `report` make the same checks.

    Without systems, it tests which edits of the texts in REFERENCE the embedder detects. One half of the texts is
    scored against the other half, first untouched and then with words shuffled, cut off, repeated or in lower case.
    """
    if systems:
        from mallow.caveats import find_confounds
        from mallow.cli._results import Confounds

        x, others = read_systems(run.read, reference, systems)
        return Confounds(tuple(others), find_confounds(x, others))
    from mallow.evaluate import audit_embedder

    return audit_embedder(run.read(reference), **run.settings("text"))


@result_command(
    "report",
    "Write one page with the ranking, the frontiers and the telltale signs.",
    example="mallow report human.jsonl small=small.jsonl large=large.jsonl --out report.html",
    plot="the scores",
)
@click.argument("reference")
@click.argument("systems", nargs=-1, metavar="NAME=PATH...")
@option("--out", "-o", default="report.html", metavar="FILE", help="The .html file to write.")
@option("--title", metavar="TEXT", help="The heading of the page.")
@option("--ranking", metavar="FILE", help="Votes of people on the same systems: a result of `mallow rank --out`.")
@run_options("embedder", "read", "paired", "prompts", "measure", "repeats", "rng")
def report_command(
    reference: str, systems: tuple[str, ...], out: str, title: str | None, ranking: str | None, run: Run
) -> Result:
    """Write one page with the ranking, the frontiers, the noise, and where the gaps are.

    Without systems, REFERENCE is a result of `mallow compare --out`. The page then has no examples.
    """
    from mallow import report

    page = check_output_file(out, ".html", ".htm")
    people = None if ranking is None else read_ranking(ranking)
    if systems:
        x, others = read_systems(run.read, reference, systems)
        comparison, diagnoses = report.compare_and_diagnose(x, others, **run.settings(x.kind))
    else:
        comparison, diagnoses = _read_comparison(reference), {}
    report.write(page, comparison, diagnoses=diagnoses, ranking=people, title=title)
    print_message(f"{page}: written")
    return replace(comparison, caveats=report.collect_caveats(comparison, diagnoses))


def _read_comparison(path: str) -> Comparison:
    from mallow.evaluate import Comparison

    file = Path(os.path.expanduser(path))
    if not file.exists():
        raise InputError(f"{path}: no such file.")
    if file.suffix != ".json":
        raise click.UsageError("Name the systems: mallow report REFERENCE NAME=PATH ...")
    comparison: Comparison = read_saved(path, "a comparison", f"mallow compare ... --out {file.name}", Comparison)
    return comparison


@command("demo", "Show mallow at work. Needs no data and no download.", example="mallow demo --out mallow-demo")
@option("--out", "-o", default="mallow-demo", metavar="FOLDER", help="Where to write the page.")
@rng_option
def demo_command(out: str, rng: int) -> None:
    """Score n-gram models against Python's own documentation, and sampled digits against real ones.

    It needs no data and no download, and takes one to two minutes.
    """
    from mallow.demo import demo

    for part in demo(out, rng=rng):
        print_output(part)


@click.group(
    "passport",
    short_help="Check a file that `mallow score --passport` wrote.",
    epilog="\b\nExample:\n  mallow passport verify passport.json",
)
def passport_group() -> None:
    """Check a file that `mallow score --passport` wrote, without the data, the embedder or the model."""


@result_command(
    "verify",
    "Recompute the score from its passport.",
    example="mallow passport verify passport.json",
    exit_code=lambda check: 0 if check.consistent else 1,
)
@click.argument("file")
@option("--key", metavar="FILE", help="A file with the secret, or with the public Ed25519 key (PEM).")
def verify_command(file: str, key: str | None) -> Result:
    """Check the seals of a passport, and recompute the numbers that it allows. Exit 1 if something does not agree.

    Without a key, the check can show that a passport is consistent, but not who made it.
    """
    from mallow.evaluate import verify_passport

    return verify_passport(file, key=read_key(key))


passport_group.add_command(verify_command)
