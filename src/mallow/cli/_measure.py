"""Commands that measure: score, compare, baselines, plan, check."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._options import (
    Embedding,
    Reading,
    command,
    embedding,
    format_option,
    measuring,
    new_file,
    new_picture,
    reading,
    repeats_option,
    result_text,
    save_figure,
    say_findings,
    seed_option,
    systems_argument,
    systems_of,
    terminal_width,
    write_text,
)

if TYPE_CHECKING:
    from mallow.evaluate import Comparison, Measure, Score

__all__ = ["COMMANDS", "comparison_text"]

_TITLES = {"mauve": "MAUVE", "frontier_integral": "integral", "midpoint": "mid-point"}


@command("score", "How near one system is to the reference.", example="mallow score human.jsonl model.jsonl")
@click.argument("reference")
@click.argument("model")
@embedding
@reading
@measuring
@repeats_option
@seed_option
@click.option("--plot", "picture", metavar="FILE", help="Draw the frontier: .png, .pdf or .svg.")
@format_option("text", "json", "markdown", "latex")
def score_command(
    reference: str,
    model: str,
    embedder: Embedding,
    read: Reading,
    measure: Measure,
    repeats: int,
    seed: int,
    picture: str | None,
    form: str,
) -> None:
    """Score the samples of MODEL against those of REFERENCE.

    Both are files (.jsonl, .txt, .csv, .parquet, .npy, .npz, also with .gz), folders of images, or - for standard input.
    """
    from mallow.evaluate import score

    if reference == model == "-":
        raise click.UsageError("Only one of REFERENCE and MODEL can be standard input.")
    target = None if picture is None else new_picture(picture)
    x, y = read(reference), read(model)
    findings = say_findings(x, {"model": y})
    result = score(x, y, measure=measure, embedder=embedder(x.kind), repeats=repeats, rng=seed)
    result = replace(result, warnings=(*result.warnings, *(one.message for one in findings)))
    if target is not None:
        save_figure(target, result.plot)
    click.echo(result.to_json() if form == "json" else _score_table(result, form))


def _score_table(result: Score, form: str) -> str:
    from mallow.evaluate import SUMMARIES
    from mallow.results import rendered

    head = ["", "score", "std", "95 % interval", "debiased", "floor"]
    rows = []
    for each in SUMMARIES:
        bare = f"{result.debiased[each]:.4f}" if each in result.debiased else ""
        values = [f"{getattr(result, each):.4f}", f"{result.std[each]:.4f}", _interval(result, each), bare]
        rows.append([_TITLES[each], *values, f"{result.noise_floor[each]:.4f}"])
    table = rendered(form, head, rows, width=terminal_width())
    return f"{table}\n\n{result.signature}" if form == "text" else table


def _interval(result: Score, summary: str) -> str:
    pair = result.interval[summary]
    return "none near identity" if pair is None else f"{pair[0]:.4f} to {pair[1]:.4f}"


@command(
    "compare",
    "Rank systems, and say which differences are real.",
    example="mallow compare human.jsonl small=small.jsonl large=large.jsonl",
)
@click.argument("reference")
@systems_argument
@embedding
@reading
@measuring
@repeats_option
@seed_option
@click.option("--baseline", metavar="NAME", help="Compare all others with this system alone.")
@click.option("--plot", "picture", metavar="FILE", help="Draw the scores: .png, .pdf or .svg.")
@click.option("--out", "-o", metavar="FILE", help="Keep the whole comparison: .json, for `mallow report`.")
@format_option("text", "json", "markdown", "latex")
def compare_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: Embedding,
    read: Reading,
    measure: Measure,
    repeats: int,
    seed: int,
    baseline: str | None,
    picture: str | None,
    out: str | None,
    form: str,
) -> None:
    """Rank several systems against one REFERENCE, and say which differences are real.

    A system is NAME=PATH, or a PATH that is named after its file.
    """
    from mallow.evaluate import compare

    target = None if picture is None else new_picture(picture)
    kept = None if out is None else new_file(out, ".json")
    x, others = systems_of(systems, reference, read)
    if baseline is not None and baseline not in others:
        raise click.UsageError(f"--baseline must be one of {', '.join(others)}; got {baseline!r}.")
    findings = say_findings(x, others)
    found = compare(x, others, measure=measure, embedder=embedder(x.kind), repeats=repeats, rng=seed, baseline=baseline)
    said = (f"{one.system or 'reference'}: {one.message}" for one in findings)
    found = replace(found, warnings=(*found.warnings, *said))
    if target is not None:
        save_figure(target, found.plot)
    if kept is not None:
        write_text(kept, found.to_json())
        click.echo(f"{kept}: written", err=True)
    click.echo(found.to_json() if form == "json" else comparison_text(found, form))


def comparison_text(found: Comparison, form: str) -> str:
    """The table; in text with what it means, and the signature."""
    if form != "text":
        return found.table(form)
    lines = [found.table(width=terminal_width()), ""]
    if found.baseline is not None:
        for one in found.differences:
            low, high = one.interval["mauve"]
            change = f"{one.difference['mauve']:+.4f} ({low:+.4f} to {high:+.4f})"
            lines.append(f"{one.first} − {one.second}: {change}{'' if one.significant else ', inside the noise'}")
    return "\n".join([*lines, found.verdict, found.signature])


@command(
    "baselines",
    "Every other measure, side by side.",
    example="mallow baselines human.jsonl small=small.jsonl large=large.jsonl --format markdown",
)
@click.argument("reference")
@systems_argument
@embedding
@reading
@click.option(
    "--tokenize",
    type=click.Choice(["whitespace", "regex"]),
    default="whitespace",
    show_default=True,
    help="What a token is to the statistics of texts.",
)
@repeats_option
@seed_option
@format_option("text", "json", "markdown", "latex")
def baselines_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: Embedding,
    read: Reading,
    tokenize: Any,
    repeats: int,
    seed: int,
    form: str,
) -> None:
    """Put every other measure beside MAUVE: text statistics, Fréchet, precision and recall, transport and more.

    The value closest to the reference is marked.
    """
    from mallow.baselines import table

    x, others = systems_of(systems, reference, read)
    say_findings(x, others)
    found = table(x, others, embedder=embedder(x.kind), tokenize=tokenize, repeats=repeats, rng=seed)
    made = {"text": found.to_text, "markdown": found.to_markdown, "latex": found.to_latex}
    click.echo(json.dumps(found.to_dict(), indent=1, ensure_ascii=False) if form == "json" else made[form]())


@command(
    "plan",
    "How many samples are needed to tell two systems apart.",
    example="mallow plan human.jsonl small.jsonl large.jsonl --detect 0.01",
)
@click.argument("reference")
@click.argument("model_a")
@click.argument("model_b")
@click.option("--detect", type=float, default=0.01, show_default=True, help="The difference in MAUVE to be found.")
@click.option("--power", type=float, default=0.8, show_default=True, help="How surely it is to be found.")
@embedding
@reading
@measuring
@repeats_option
@seed_option
@format_option("text", "json", "markdown", "latex")
def plan_command(
    reference: str,
    model_a: str,
    model_b: str,
    detect: float,
    power: float,
    embedder: Embedding,
    read: Reading,
    measure: Measure,
    repeats: int,
    seed: int,
    form: str,
) -> None:
    """Say how many samples are needed to tell MODEL_A from MODEL_B, from a pilot of each.

    Some hundred samples of each make a pilot.
    """
    from mallow.evaluate import plan_samples

    x, a, b = read(reference), read(model_a), read(model_b)
    found = plan_samples(
        x, a, b, detect=detect, power=power, measure=measure, embedder=embedder(x.kind), repeats=repeats, rng=seed
    )
    click.echo(result_text(found, form))


@command(
    "check",
    "Exit 1 if a score has really dropped: for CI.",
    example="mallow check human.jsonl new.jsonl --baseline result.json --max-drop 0.02",
)
@click.argument("reference")
@click.argument("model")
@click.option("--baseline", required=True, metavar="FILE", help="An earlier `mallow score --format json`.")
@click.option("--max-drop", type=float, default=0.02, show_default=True, help="How far MAUVE may fall.")
@click.option("--same-reference", is_flag=True, help="The baseline was scored against these very samples: less noise.")
@embedding
@reading
@seed_option
@format_option("text", "json", "markdown", "latex")
@click.pass_context
def check_command(
    ctx: click.Context,
    reference: str,
    model: str,
    baseline: str,
    max_drop: float,
    same_reference: bool,
    embedder: Embedding,
    read: Reading,
    seed: int,
    form: str,
) -> None:
    """Exit 1 if MODEL scores worse than a kept result by more than --max-drop, and that is outside the noise.

    For continuous integration. It measures as the baseline was measured. Whatever else goes wrong exits 1 too, with a
    message on standard error.
    """
    from mallow.evaluate import check_regression, read_baseline

    kept = read_baseline(baseline)
    x, y = read(reference), read(model)
    how = embedder(x.kind)
    found = check_regression(x, y, kept, max_drop=max_drop, embedder=how, same_reference=same_reference, rng=seed)
    click.echo(result_text(found, form))
    ctx.exit(0 if found.ok else 1)


COMMANDS = (score_command, compare_command, baselines_command, plan_command, check_command)
