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
from mallow.errors import EstimateWarning, InputError, optional
from mallow.estimate import Quantize
from mallow.generate.causal import CausalModel
from mallow.generate.files import Plan, check_out, generate_file, prompts_of
from mallow.generate.ngram import NGram
from mallow.generate.protocol import NextToken
from mallow.generate.search import decoder
from mallow.samples import Samples
from mallow.score import MAUVE_2021, MAUVE_STAR, SUMMARIES, Measure, Score, score
from mallow.sweep import Sweep, grid, sweep

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
    how = _embedder(embedder, embedder_options, x.kind)
    result = score(x, y, measure=_measure(measure, name, bins, scale), embedder=how, repeats=repeats, rng=seed)
    click.echo(result.to_json() if form == "json" else _score_text(result))


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


# --- generation

_model_options = _stacked(
    [
        click.option(
            "--model",
            "-m",
            "spec",
            required=True,
            metavar="NAME",
            help="A transformers model (NAME or NAME@REVISION), its folder or .gguf file; or ngram or ngram:ORDER, fitted here.",
        ),
        click.option(
            "--train", metavar="FILE", help="Texts to fit the n-gram model on.  [default: those to be continued]"
        ),
        click.option("--device", metavar="NAME", help="As torch names it.  [default: cuda, mps or cpu]"),
        click.option("--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help="[default: by device]"),
    ]
)
_plan_options = _stacked(
    [
        click.option(
            "-n", "n", type=click.IntRange(min=1), default=1, show_default=True, help="Texts for each prompt."
        ),
        click.option(
            "--prompt-tokens",
            type=click.IntRange(min=1),
            default=35,
            show_default=True,
            metavar="K",
            help="Begin from the first K tokens of each text. With --skip-bad shorter texts are left out.",
        ),
        click.option("--max-new", type=click.IntRange(min=1), default=128, show_default=True, help="Most new tokens."),
        click.option("--min-new", type=click.IntRange(min=0), default=1, show_default=True, help="Fewest new tokens."),
        click.option("--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Texts at a time."),
    ]
)


def _next_token(spec: str, train: str | None, device: str | None, dtype: Any, given: Samples) -> NextToken:
    """The model of the command line."""
    word, _, order = spec.partition(":")
    if word != "ngram":
        if train is not None:
            raise click.UsageError("--train is for --model ngram; other models are trained already.")
        name, _, revision = (spec, "", "") if os.path.exists(os.path.expanduser(spec)) else spec.partition("@")
        return CausalModel(name, revision or None, dtype, device).loaded()
    if order and not order.isdecimal():
        raise click.UsageError(f"--model ngram:ORDER takes a whole number; got {order!r}.")
    if train is None:
        warnings.warn(
            "the n-gram model is fitted on the very texts that it continues. Fit it on others with --train.",
            EstimateWarning,
            stacklevel=2,
        )
    texts = given.texts if train is None else samples.read(train).texts
    return NGram.fit(texts, order=int(order) if order else 5)


@cli.command("generate")
@click.argument("prompts")
@_model_options
@click.option("--decode", "how", default="nucleus:0.95", show_default=True, metavar="DECODER", help="How to decode.")
@click.option("--out", "-o", required=True, metavar="FILE", help="Where to write: .jsonl. A file there is continued.")
@_plan_options
@click.option("--whole-prompts", is_flag=True, help="Continue each text from its end.")
@click.option("--with-prompt", is_flag=True, help="Write each text with its prompt.")
@click.option("--overwrite", is_flag=True, help="Begin again where the file exists.")
@_reading_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all randomness.")
def generate_command(
    prompts: str,
    spec: str,
    train: str | None,
    device: str | None,
    dtype: str | None,
    how: str,
    out: str,
    n: int,
    prompt_tokens: int,
    max_new: int,
    min_new: int,
    batch: int,
    whole_prompts: bool,
    with_prompt: bool,
    overwrite: bool,
    field: str | None,
    skip_bad: bool,
    limit: int | None,
    seed: int,
) -> None:
    """Continue the beginnings of the texts in PROMPTS.

    DECODER is ancestral, greedy, temperature:T, top-k:K, nucleus:P, typical:TAU, eta:EPSILON, min-p:P, several of these
    joined by +, beam:WIDTH, contrastive:K:PENALTY or adversarial:PERPLEXITY.

    A run that was stopped goes on where it was when it is started again; no text is lost and none is generated twice.
    """
    check_out(out)  # before a model is loaded
    chosen = decoder(how)
    plan = Plan(n, max_new, min_new, seed, with_prompt)
    given = _Reading(field, skip_bad, limit)(prompts)
    model = _next_token(spec, train, device, dtype, given)
    found = prompts_of(given, model, tokens=None if whole_prompts else prompt_tokens, skip_short=skip_bad)
    new = generate_file(model, found, chosen, out, plan, batch=batch, overwrite=overwrite)
    click.echo(f"{out}: {len(found) * n} texts, {new} of them new; {model.name}, {chosen.name}", err=True)


@cli.command("sweep")
@click.argument("reference")
@_model_options
@click.option(
    "--decode",
    "patterns",
    multiple=True,
    required=True,
    metavar="DECODERS",
    help="As for generate, with commas between numbers: nucleus:0.8,0.9,0.95. May be repeated.",
)
@click.option("--out", "-o", required=True, metavar="FOLDER", help="Where the texts of each decoder are kept.")
@click.option("--plot", "picture", metavar="FILE", help="Draw the scores: .png, .pdf or .svg.")
@_plan_options
@_embedder_options
@_reading_options
@click.option("--measure", type=click.Choice(list(_MEASURES)), default="mauve-star", show_default=True)
@_repeat_options
@_format_option
def sweep_command(
    reference: str,
    spec: str,
    train: str | None,
    device: str | None,
    dtype: str | None,
    patterns: tuple[str, ...],
    out: str,
    picture: str | None,
    n: int,
    prompt_tokens: int,
    max_new: int,
    min_new: int,
    batch: int,
    embedder: str | None,
    embedder_options: tuple[str, ...],
    field: str | None,
    skip_bad: bool,
    limit: int | None,
    measure: str,
    repeats: int,
    seed: int,
    form: str,
) -> None:
    """Score decoders against the texts of REFERENCE, whose beginnings they continue.

    Texts stay in FOLDER: a run that was stopped goes on, and one with more decoders generates only theirs.
    """
    names = grid(patterns)  # before a model is loaded
    plan = Plan(n, max_new, min_new, seed)
    figure = None if picture is None else _figure(picture)
    given = _Reading(field, skip_bad, limit)(reference)
    how = _embedder(embedder, embedder_options, given.kind)
    found = sweep(
        given,
        _next_token(spec, train, device, dtype, given),
        names,
        out,
        plan,
        tokens=prompt_tokens,
        skip_short=skip_bad,
        measure=_MEASURES[measure],
        embedder=how,
        repeats=repeats,
        batch=batch,
    )
    if picture is not None and figure is not None:
        found.plot(figure.subplots())
        figure.savefig(picture)
        click.echo(f"{picture}: drawn", err=True)
    click.echo(json.dumps(found.to_dict(), indent=1) if form == "json" else _sweep_text(found))


def _figure(picture: str) -> Any:
    """An empty figure; refused where it could not be written in the end."""
    figure = optional("matplotlib.figure", extra="plot").Figure(layout="constrained")
    known = sorted(figure.canvas.get_supported_filetypes())
    if Path(picture).suffix[1:].lower() not in known:
        raise InputError(f"{picture}: a picture must end in one of {', '.join(known)}; got {Path(picture).suffix!r}.")
    if not Path(picture).parent.is_dir():
        raise InputError(f"{picture}: the folder {Path(picture).parent} does not exist. Make it first.")
    return figure


def _sweep_text(found: Sweep) -> str:
    width = max(len(name) for name in found.decoders)
    lines = [f"{'':<{width}} {'MAUVE':>7} {'std':>7}  {'95 % interval':<18} {'floor':>7}  rank"]
    for name in found.decoders:
        one = found.comparison.scores[name]
        pair = one.interval["mauve"]
        shown = "none near identity" if pair is None else f"{pair[0]:.4f} to {pair[1]:.4f}"
        low, high = found.comparison.ranks.get(name, (0, 0))
        rank = "" if not low else f"{low}" if low == high else f"{low} to {high}"
        floor = one.noise_floor["mauve"]
        lines.append(f"{name:<{width}} {one.mauve:7.4f} {one.std['mauve']:7.4f}  {shown:<18} {floor:7.4f}  {rank}")
    return "\n".join([*lines, "", found.verdict, found.comparison.signature])
