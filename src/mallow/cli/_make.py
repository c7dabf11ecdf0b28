"""Commands that make and keep files: embed, generate, sweep, cache."""

from __future__ import annotations

import json
import os
import time
import warnings
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._measure import comparison_text
from mallow.cli._options import (
    Embedding,
    Reading,
    bundle,
    command,
    embedding,
    format_option,
    measuring,
    new_file,
    new_picture,
    reading,
    repeats_option,
    save_figure,
    seed_option,
)
from mallow.errors import EstimateWarning, InputError

if TYPE_CHECKING:
    from mallow.embed import Cache
    from mallow.evaluate import Measure, Sweep
    from mallow.generate import NextToken, Plan
    from mallow.samples import Samples

__all__ = ["COMMANDS"]


@command("embed", "Turn samples into features, once.", example="mallow embed human.jsonl -o human.npz")
@click.argument("source", metavar="SAMPLES")
@click.option("--out", "-o", required=True, metavar="FILE", help="Where to write the features: .npz or .npz.gz.")
@embedding
@reading
def embed_command(source: str, out: str, embedder: Embedding, read: Reading) -> None:
    """Write the features of SAMPLES, with ids and provenance, for use in place of the samples."""
    from mallow import samples
    from mallow.embed import features

    new_file(out)
    given = read(source)
    how = embedder(given.kind)
    if how is None or hasattr(how, "points"):
        reason = "holds features already" if how is None else "has no features of its own: kernels compare two sets"
        raise InputError(f"{source if how is None else embedder.spec} {reason}. There is nothing to embed.")
    found = features(given, how)
    samples.write(found, out)
    n, width = found.features.shape
    click.echo(f"{out}: {n} x {width}, {(found.provenance or {})['embedder']}", err=True)


# --- generation


class _Model:
    """The language model of the command line."""

    def __init__(self, spec: str, train: str | None, device: str | None, dtype: Any) -> None:
        self.spec, self.train, self.device, self.dtype = spec, train, device, dtype

    def __call__(self, given: Samples) -> NextToken:
        """Loaded, or fitted on the texts to train on, by default those given."""
        from mallow import samples
        from mallow.generate import CausalModel, NGram

        word, _, order = self.spec.partition(":")
        if word != "ngram":
            if self.train is not None:
                raise click.UsageError("--train is for --model ngram; other models are trained already.")
            whole = os.path.exists(os.path.expanduser(self.spec))
            name, _, revision = (self.spec, "", "") if whole else self.spec.partition("@")
            return CausalModel(name, revision or None, self.dtype, self.device).loaded()
        if order and not order.isdecimal():
            raise click.UsageError(f"--model ngram:ORDER takes a whole number; got {order!r}.")
        if self.train is None:
            warnings.warn(
                "the n-gram model is fitted on the very texts that it continues. Fit it on others with --train.",
                EstimateWarning,
                stacklevel=2,
            )
        texts = given.texts if self.train is None else samples.read(self.train).texts
        return NGram.fit(texts, order=int(order) if order else 5)


_model = bundle(
    "model",
    {
        "model_name": click.option(
            "--model",
            "-m",
            "model_name",
            required=True,
            metavar="NAME",
            help="A transformers model (NAME or NAME@REVISION), its folder or .gguf file; or ngram or ngram:ORDER, fitted here.",
        ),
        "train": click.option(
            "--train", metavar="FILE", help="Texts to fit the n-gram model on.  [default: those to be continued]"
        ),
        "device": click.option("--device", metavar="NAME", help="As torch names it.  [default: cuda, mps or cpu]"),
        "dtype": click.option(
            "--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help="[default: by device]"
        ),
    },
    _Model,
)


def _plan(n: int, max_new: int, min_new: int, seed: int) -> Plan:
    from mallow.generate import Plan

    return Plan(n, max_new, min_new, seed)


_planning = bundle(
    "plan",
    {
        "n": click.option(
            "-n", "n", type=click.IntRange(min=1), default=1, show_default=True, help="Texts for each prompt."
        ),
        "max_new": click.option(
            "--max-new", type=click.IntRange(min=1), default=128, show_default=True, help="Most new tokens."
        ),
        "min_new": click.option(
            "--min-new", type=click.IntRange(min=0), default=1, show_default=True, help="Fewest new tokens."
        ),
        "seed": seed_option,
    },
    _plan,
)
_prompt_tokens = click.option(
    "--prompt-tokens",
    type=click.IntRange(min=1),
    default=35,
    show_default=True,
    metavar="K",
    help="Begin from the first K tokens of each text. With --skip-bad shorter texts are left out.",
)
_batch = click.option("--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Texts at a time.")


@command(
    "generate",
    "Continue texts with a language model.",
    example="mallow generate human.jsonl --model ngram --prompt-tokens 8 --decode nucleus:0.95 --out model.jsonl",
)
@click.argument("prompts")
@_model
@click.option("--decode", "how", default="nucleus:0.95", show_default=True, metavar="DECODER", help="How to decode.")
@click.option("--out", "-o", required=True, metavar="FILE", help="Where to write: .jsonl. A file there is continued.")
@_planning
@_prompt_tokens
@_batch
@click.option("--whole-prompts", is_flag=True, help="Continue each text from its end.")
@click.option("--with-prompt", is_flag=True, help="Write each text with its prompt.")
@click.option("--overwrite", is_flag=True, help="Begin again where the file exists.")
@reading
def generate_command(
    prompts: str,
    model: _Model,
    how: str,
    out: str,
    plan: Plan,
    prompt_tokens: int,
    batch: int,
    whole_prompts: bool,
    with_prompt: bool,
    overwrite: bool,
    read: Reading,
) -> None:
    """Continue the beginnings of the texts in PROMPTS.

    DECODER is ancestral, greedy, temperature:T, top-k:K, nucleus:P, typical:TAU, eta:EPSILON, min-p:P, several of these
    joined by +, beam:WIDTH, contrastive:K:PENALTY or adversarial:PERPLEXITY.

    A run that was stopped goes on where it was when it is started again; no text is lost and none is generated twice.
    """
    from dataclasses import replace

    from mallow.generate import check_out, decoder, generate_file, prompts_of

    check_out(out)  # before a model is loaded
    chosen = decoder(how)
    given = read(prompts)
    loaded = model(given)
    found = prompts_of(given, loaded, tokens=None if whole_prompts else prompt_tokens, skip_short=read.skip_bad)
    plan = replace(plan, with_prompt=with_prompt)
    new = generate_file(loaded, found, chosen, out, plan, batch=batch, overwrite=overwrite)
    click.echo(f"{out}: {len(found) * plan.n} texts, {new} of them new; {loaded.name}, {chosen.name}", err=True)


@command(
    "sweep",
    "Score a grid of decoders.",
    example="mallow sweep human.jsonl --model ngram --prompt-tokens 8 --decode nucleus:0.8,0.95 --decode greedy --out sweep",
)
@click.argument("reference")
@_model
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
@_planning
@_prompt_tokens
@_batch
@embedding
@reading
@measuring
@repeats_option
@format_option("text", "json", "markdown", "latex")
def sweep_command(
    reference: str,
    model: _Model,
    patterns: tuple[str, ...],
    out: str,
    picture: str | None,
    plan: Plan,
    prompt_tokens: int,
    batch: int,
    embedder: Embedding,
    read: Reading,
    measure: Measure,
    repeats: int,
    form: str,
) -> None:
    """Score decoders against the texts of REFERENCE, whose beginnings they continue.

    Texts stay in FOLDER: a run that was stopped goes on, and one with more decoders generates only theirs.
    """
    from mallow.evaluate import grid, sweep

    names = grid(patterns)  # before a model is loaded
    target = None if picture is None else new_picture(picture)
    given = read(reference)
    found = sweep(
        given,
        model(given),
        names,
        out,
        plan,
        tokens=prompt_tokens,
        skip_short=read.skip_bad,
        measure=measure,
        embedder=embedder(given.kind),
        repeats=repeats,
        batch=batch,
    )
    if target is not None:
        save_figure(target, found.plot)
    click.echo(json.dumps(found.to_dict(), indent=1) if form == "json" else _sweep_table(found, form))


def _sweep_table(found: Sweep, form: str) -> str:
    from dataclasses import replace

    in_order = {name: found.comparison.scores[name] for name in found.decoders}
    return comparison_text(replace(found.comparison, scores=in_order), form)


# --- cache


@click.group(
    "cache",
    short_help="Show, prune or clear the features kept on disk.",
    invoke_without_command=True,
    epilog="\b\nExample:\n  mallow cache prune --unused-days 30",
)
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
    from mallow.embed import default_cache

    cache = default_cache()
    if cache is None:
        raise InputError("There is no cache: MALLOW_CACHE is off.")
    return cache


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


COMMANDS = (generate_command, sweep_command, embed_command, cache_group)
