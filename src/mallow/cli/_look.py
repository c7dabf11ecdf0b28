"""Commands that explain: report, diagnose, audit, demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mallow.cli._measure import comparison_text
from mallow.cli._options import (
    Embedding,
    Reading,
    command,
    embedding,
    format_option,
    measuring,
    new_file,
    reading,
    repeats_option,
    result_text,
    say_findings,
    seed_option,
    systems_of,
)
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.confounds import Finding
    from mallow.evaluate import Comparison, Measure
    from mallow.explain import Audit

__all__ = ["COMMANDS"]


@command(
    "report",
    "One page with the ranking, the frontiers and the reasons.",
    example="mallow report human.jsonl small=small.jsonl large=large.jsonl --out report.html",
)
@click.argument("reference")
@click.argument("systems", nargs=-1, metavar="NAME=PATH...")
@click.option("--out", "-o", default="report.html", show_default=True, metavar="FILE", help="The page: .html.")
@click.option("--title", metavar="TEXT", help="Its heading.")
@embedding
@reading
@measuring
@repeats_option
@seed_option
def report_command(
    reference: str,
    systems: tuple[str, ...],
    out: str,
    title: str | None,
    embedder: Embedding,
    read: Reading,
    measure: Measure,
    repeats: int,
    seed: int,
) -> None:
    """Write one page with the ranking, the frontiers, the noise, and where the gaps are.

    Alone, REFERENCE is a comparison that `mallow compare --out` has kept; the page is then without examples.
    """
    from mallow import report
    from mallow.evaluate import compare
    from mallow.explain import diagnose

    page = new_file(out, ".html", ".htm")
    if not systems:
        found = _kept_comparison(reference)
        report.write(page, found, title=title)
    else:
        x, others = systems_of(systems, reference, read)
        how = embedder(x.kind)
        findings = say_findings(x, others)
        found = compare(x, others, measure=measure, embedder=how, repeats=repeats, rng=seed)
        reasons = {name: diagnose(x, each, embedder=how, measure=measure, rng=seed) for name, each in others.items()}
        report.write(page, found, diagnoses=reasons, findings=findings, title=title)
    click.echo(comparison_text(found, "text"))
    click.echo(f"{page}: written", err=True)


def _kept_comparison(path: str) -> Comparison:
    from mallow.evaluate import Comparison

    if not Path(path).exists():
        raise InputError(f"{path}: no such file.")
    if Path(path).suffix != ".json":
        raise click.UsageError("Name the systems: mallow report REFERENCE NAME=PATH ...")
    try:
        return Comparison.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: is no comparison. Write one: mallow compare … --out {Path(path).name}") from error


@command(
    "diagnose", "Where the gap is: what is missed, what is invented.", example="mallow diagnose human.jsonl model.jsonl"
)
@click.argument("reference")
@click.argument("model")
@click.option("--regions", type=click.IntRange(min=1), default=5, show_default=True, help="How many of either kind.")
@click.option("--examples", type=click.IntRange(min=1), default=3, show_default=True, help="Samples of each side.")
@click.option("--grids", metavar="FOLDER", help="Draw each region of images there: missed-1.png, invented-1.png ...")
@embedding
@reading
@measuring
@seed_option
@format_option("text", "json", "markdown", "latex")
def diagnose_command(
    reference: str,
    model: str,
    regions: int,
    examples: int,
    grids: str | None,
    embedder: Embedding,
    read: Reading,
    measure: Measure,
    seed: int,
    form: str,
) -> None:
    """Say where the gap is: what MODEL misses and what it invents, with examples."""
    from mallow._files import make_folder
    from mallow.explain import diagnose

    x, y = read(reference), read(model)
    if grids is not None and x.kind != "image":
        raise click.UsageError(f"--grids is for images; {reference} holds {x.kind} samples.")
    folder = None if grids is None else make_folder(grids)
    found = diagnose(x, y, embedder=embedder(x.kind), measure=measure, regions=regions, examples=examples, rng=seed)
    click.echo(result_text(found, form))
    if folder is not None:
        click.echo(f"{folder}: {len(found.draw_images(folder))} pictures written", err=True)


@command(
    "audit",
    "What may spoil a score: in the samples, and in the embedder.",
    example="mallow audit human.jsonl small=small.jsonl large=large.jsonl",
)
@click.argument("reference")
@click.argument("systems", nargs=-1, metavar="[NAME=PATH]...")
@embedding
@reading
@repeats_option
@seed_option
@format_option("text", "json", "markdown", "latex")
def audit_command(
    reference: str, systems: tuple[str, ...], embedder: Embedding, read: Reading, repeats: int, seed: int, form: str
) -> None:
    """Say what differs between REFERENCE and the systems beside the model, before anything is scored.

    Lengths, cut ends, copies, empty texts, prompts, file formats: with numbers, and nothing is embedded. Every score and
    report looks for the same.

    Without systems: what the embedder sees in texts like those of REFERENCE. One half is scored against the other,
    untouched and with words shuffled, cut off, repeated or lower-cased.
    """
    if systems:
        from mallow.confounds import find_confounds

        found = find_confounds(*systems_of(systems, reference, read))
        click.echo(json.dumps([one.to_dict() for one in found], indent=1) if form == "json" else _findings(found, form))
        return
    from mallow.explain import audit_embedder

    result = audit_embedder(read(reference), embedder("text"), repeats=repeats, rng=seed)
    click.echo(json.dumps(result.to_dict(), indent=1) if form == "json" else _audit_table(result, form))


def _findings(found: tuple[Finding, ...], form: str) -> str:
    from mallow.results import rendered

    if not found:
        return "Nothing was found that differs beside the model."
    if form == "text":
        return "\n".join(map(str, found))
    rows = [[one.system or "reference", one.kind, one.message] for one in found]
    return rendered(form, ["samples", "what", "finding"], rows)


def _audit_table(result: Audit, form: str) -> str:
    from mallow.results import rendered

    rows = [["untouched", f"{result.floor:.4f}", "(the noise floor)", ""]]
    for effect in result.effects:
        change = f"{effect.difference:+.3f} ({effect.low:+.3f} to {effect.high:+.3f})"
        rows.append([effect.edit, f"{effect.mauve:.4f}", change, effect.seen])
    table = rendered(form, ["edit", "MAUVE", "change (95 % interval)", "seen"], rows)
    if form != "text":
        return table
    blind = [effect.edit for effect in result.effects if effect.seen == "no"]
    lines = [table, "", f"{result.embedder}: 2 x {result.n} texts, {result.rate:.3g} texts/s"]
    if blind:
        lines.append(f"No score with this embedder will tell: {', '.join(blind)}.")
    return "\n".join(lines)


@command("demo", "A demonstration that needs nothing but the install.", example="mallow demo --out mallow-demo")
@click.option("--out", "-o", default="mallow-demo", show_default=True, metavar="FOLDER", help="Where the page goes.")
@seed_option
def demo_command(out: str, seed: int) -> None:
    """Measure n-gram models against Python's own documentation, and sampled digits against real ones.

    Needs nothing but the install; about a minute.
    """
    from mallow.demo import demo

    for part in demo(out, rng=seed):
        click.echo(part)


COMMANDS = (report_command, diagnose_command, audit_command, demo_command)
