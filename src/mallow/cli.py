"""The command line: parse, call, print. Results on standard output, everything else on standard error.

Exit 0 when it worked, 1 when it failed, 2 when the command was wrong.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from mallow import divergence, samples
from mallow.audit import Audit, audit
from mallow.embed.cache import Cache, default_cache
from mallow.embed.features import features
from mallow.embed.named import named
from mallow.embed.protocol import AnyEmbedder
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Quantize
from mallow.samples import Samples
from mallow.score import MAUVE_2021, MAUVE_STAR, SUMMARIES, Measure, Score, score

__all__ = ["main"]

Command = TypeVar("Command", bound=Callable[..., Any])

_MEASURES = {"mauve-star": MAUVE_STAR, "mauve-2021": MAUVE_2021}
_DIVERGENCES = {
    "kl": divergence.KL,
    "chi2": divergence.CHI2,
    "tv": divergence.TV,
    "hellinger2": divergence.HELLINGER2,
    "js": divergence.JS,
    "le-cam": divergence.LE_CAM,
}
_TITLES = {"mauve": "MAUVE", "frontier_integral": "integral", "midpoint": "mid-point"}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="mallow", message="mallow %(version)s")
def cli() -> None:
    """How far are a generative model's samples from the data they should match?"""


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", EstimateWarning)
        warnings.showwarning = _show_warning
        sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        cli(prog_name="mallow", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:  # with the code 2 where the command was wrong
        error.show()
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("mallow: stopped", err=True)
        return 130
    except InputError as error:
        click.echo(f"mallow: {error}", err=True)
        return 1
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _show_warning(message: Warning | str, *rest: object, **more: object) -> None:
    click.echo(f"mallow: warning: {message}", err=True)


# --- options that several commands share


@dataclass(frozen=True)
class _Reading:
    field: str | None
    skip_bad: bool
    limit: int | None

    def __call__(self, path: str) -> Samples:
        found = samples.read(path, field=self.field, skip_bad=self.skip_bad, limit=self.limit)
        if found.skipped:
            more = f" and {len(found.skipped) - 1} more" if len(found.skipped) > 1 else ""
            click.echo(f"mallow: {path}: {len(found.skipped)} left out: {found.skipped[0]}{more}", err=True)
        return found


def _stacked(options: Iterable[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(list(options)):
            command = option(command)
        return command

    return apply


_reading_options = _stacked(
    [
        click.option("--field", metavar="NAME", help="Field or column with the text.  [default: text]"),
        click.option("--skip-bad", is_flag=True, help="Leave bad entries out, and say how many."),
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Take the first N samples of each file."),
    ]
)
_embedder_options = _stacked(
    [
        click.option(
            "--embedder",
            "-e",
            metavar="NAME",
            help="minilm, glove, ngram, subsequence, inception, sentence:NAME, a transformers model (NAME or NAME@REVISION), "
            "a model's folder or file (.gguf, .onnx, .pt, GloVe text), or package.module:object."
            "  [default: minilm for texts, inception for images]",
        ),
        click.option(
            "--embedder-option",
            "-E",
            "embedder_options",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the embedder, such as pooling=mean or max_length=512. May be repeated.",
        ),
    ]
)
_repeat_options = _stacked(
    [
        click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Runs to average."),
        click.option(
            "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all randomness."
        ),
    ]
)
_format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How results are printed.",
)


def _embedder(spec: str | None, options: tuple[str, ...], kind: str) -> AnyEmbedder | None:
    """The embedder of the command line; None for features."""
    if kind == "features" and spec is None:
        return None
    if spec is not None and ":" in spec:
        sys.path.insert(0, os.getcwd())  # package.module:object may lie in the working folder
    changes = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise click.UsageError(f"--embedder-option takes KEY=VALUE; got {option!r}.")
        changes[key.strip()] = _value(value)
    return named(spec, kind=kind, options=changes)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


# --- commands


@cli.command("score")
@click.argument("reference")
@click.argument("model")
@_embedder_options
@_reading_options
@click.option("--measure", type=click.Choice(list(_MEASURES)), default="mauve-star", show_default=True)
@click.option("--divergence", "name", type=click.Choice(list(_DIVERGENCES)), default="kl", show_default=True)
@click.option("--bins", type=click.IntRange(min=1), metavar="K", help="Bins of the quantiser.  [default: n/10]")
@click.option("--scale", type=float, metavar="C", help="The constant c of the area.  [default: 5]")
@_repeat_options
@_format_option
def score_command(
    reference: str,
    model: str,
    embedder: str | None,
    embedder_options: tuple[str, ...],
    field: str | None,
    skip_bad: bool,
    limit: int | None,
    measure: str,
    name: str,
    bins: int | None,
    scale: float | None,
    repeats: int,
    seed: int,
    form: str,
) -> None:
    """Score the samples of MODEL against those of REFERENCE.

    Both are files (.jsonl, .txt, .csv, .parquet, .npy, .npz, also with .gz), folders of images, or - for standard input.
    """
    read = _Reading(field, skip_bad, limit)
    if reference == model == "-":
        raise click.UsageError("Only one of REFERENCE and MODEL can be standard input.")
    x, y = read(reference), read(model)
    _check_kinds(x, y)
    how = _embedder(embedder, embedder_options, x.kind)
    result = score(x, y, measure=_measure(measure, name, bins, scale), embedder=how, repeats=repeats, rng=seed)
    click.echo(result.to_json() if form == "json" else _score_text(result))


def _check_kinds(x: Samples, y: Samples) -> None:
    if x.kind != y.kind:
        raise InputError(f"Both must hold samples of one kind; {x.source} holds {x.kind}, {y.source} {y.kind}.")


def _measure(measure: str, name: str, bins: int | None, scale: float | None) -> Measure:
    chosen = _MEASURES[measure]
    smoothing = chosen.estimator.smoothing if isinstance(chosen.estimator, Quantize) else None
    if bins is not None and smoothing is not None:
        chosen = Measure(Quantize(bins=bins, smoothing=smoothing))
    return Measure(chosen.estimator, _DIVERGENCES[name], scale)


def _score_text(result: Score) -> str:
    lines = [f"{'':<10} {'score':>8} {'std':>7}  {'95 % interval':<18} {'debiased':>8} {'floor':>8}"]
    for each in SUMMARIES:
        pair = result.interval[each]
        shown = "none near identity" if pair is None else f"{pair[0]:.4f} to {pair[1]:.4f}"
        bare = f"{result.debiased[each]:8.4f}" if each in result.debiased else f"{'':8}"
        lines.append(
            f"{_TITLES[each]:<10} {getattr(result, each):8.4f} {result.std[each]:7.4f}  {shown:<18} {bare} "
            f"{result.noise_floor[each]:8.4f}"
        )
    return "\n".join([*lines, "", result.signature])


@cli.command("embed")
@click.argument("source", metavar="SAMPLES")
@click.option("--out", "-o", required=True, metavar="FILE", help="Where to write the features: .npz or .npz.gz.")
@_embedder_options
@_reading_options
def embed_command(
    source: str,
    out: str,
    embedder: str | None,
    embedder_options: tuple[str, ...],
    field: str | None,
    skip_bad: bool,
    limit: int | None,
) -> None:
    """Write the features of SAMPLES, with ids and provenance, for use in place of the samples."""
    given = _Reading(field, skip_bad, limit)(source)
    how = _embedder(embedder, embedder_options, given.kind)
    if how is None or hasattr(how, "points"):
        reason = "holds features already" if how is None else "has no features of its own: kernels compare two sets"
        raise InputError(f"{source if how is None else embedder} {reason}. There is nothing to embed.")
    if not Path(out).parent.is_dir():
        raise InputError(f"{out}: the folder {Path(out).parent} does not exist. Make it first.")
    found = features(given, how)
    samples.write(found, out)
    n, width = found.features.shape
    click.echo(f"{out}: {n} x {width}, {(found.provenance or {})['embedder']}", err=True)


@cli.command("audit")
@click.argument("reference")
@_embedder_options
@_reading_options
@_repeat_options
@_format_option
def audit_command(
    reference: str,
    embedder: str | None,
    embedder_options: tuple[str, ...],
    field: str | None,
    skip_bad: bool,
    limit: int | None,
    repeats: int,
    seed: int,
    form: str,
) -> None:
    """Say what an embedder sees in texts like those of REFERENCE.

    One half is scored against the other, untouched and with words shuffled, cut off, repeated or lower-cased.
    """
    given = _Reading(field, skip_bad, limit)(reference)
    if given.kind != "text":
        raise InputError(f"{reference} must hold texts to be audited; got {given.kind} samples.")
    how = _embedder(embedder, embedder_options, "text")
    result = audit(given, how, repeats=repeats, rng=seed)
    click.echo(json.dumps(result.to_dict(), indent=1) if form == "json" else _audit_text(result))


def _audit_text(result: Audit) -> str:
    lines = [f"{'edit':<16} {'MAUVE':>7}  {'change (95 % interval)':<28} seen"]
    lines.append(f"{'untouched':<16} {result.floor:7.4f}  (the noise floor)")
    for effect in result.effects:
        change = f"{effect.difference:+.3f} ({effect.low:+.3f} to {effect.high:+.3f})"
        lines.append(f"{effect.edit:<16} {effect.mauve:7.4f}  {change:<28} {effect.seen}")
    blind = [effect.edit for effect in result.effects if effect.seen == "no"]
    lines += ["", f"{result.embedder}: 2 x {result.n} texts, {result.rate:.3g} texts/s"]
    if blind:
        lines.append(f"No score with this embedder will tell: {', '.join(blind)}.")
    return "\n".join(lines)


@cli.group("cache", invoke_without_command=True)
@click.pass_context
def cache_group(ctx: click.Context) -> None:
    """Show, prune or clear the features kept on disk. MALLOW_CACHE names the folder; MALLOW_CACHE=off keeps nothing."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(cache_show)


@cache_group.command("show")
def cache_show() -> None:
    """List what is kept, an embedder a line."""
    cache = _the_cache()
    entries = cache.entries()
    click.echo(f"{cache.folder}: {_bytes(sum(entry.size for entry in entries))}")
    for entry in entries:
        day = time.strftime("%Y-%m-%d", time.localtime(entry.used))
        click.echo(f"{_bytes(entry.size):>9} {entry.rows:>9} rows  used {day}  {entry.name}")


@cache_group.command("prune")
@click.option("--unused-days", type=click.FloatRange(min=0), metavar="D", help="Remove what nobody used for D days.")
@click.option("--keep-mb", type=click.FloatRange(min=0), metavar="MB", help="Then the least recently used, down to MB.")
def cache_prune(unused_days: float | None, keep_mb: float | None) -> None:
    """Remove old features, and what killed processes left behind."""
    keep = None if keep_mb is None else int(keep_mb * 1e6)
    click.echo(f"removed {_bytes(_the_cache().prune(unused_days=unused_days, keep_bytes=keep))}")


@cache_group.command("clear")
def cache_clear() -> None:
    """Remove all features."""
    click.echo(f"removed {_bytes(_the_cache().clear())}")


def _the_cache() -> Cache:
    cache = default_cache()
    if cache is None:
        raise InputError("There is no cache: MALLOW_CACHE is off.")
    return cache


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
