"""The commands that write texts with a language model: generate, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mallow.cli._choices import EmbedderChoice
from mallow.cli._commands import command, result_command
from mallow.cli._models import ModelChoice, model_options
from mallow.cli._options import (
    bundle,
    embedder_options,
    measure_options,
    reader_options,
    repeats_option,
    rng_option,
)
from mallow.cli._samples import SampleReader
from mallow.cli._terminal import tell

if TYPE_CHECKING:
    from mallow.evaluate import Sweep
    from mallow.evidence import Measure
    from mallow.generate import GenerationPlan


def _make_plan(n: int, max_new: int, min_new: int, rng: int) -> GenerationPlan:
    from mallow.generate import GenerationPlan

    return GenerationPlan(n, max_new, min_new, rng)


_plan_options = bundle(
    "plan",
    {
        "n": click.option(
            "-n", "n", type=click.IntRange(min=1), default=1, show_default=True, help="Number of texts per prompt."
        ),
        "max_new": click.option(
            "--max-new",
            type=click.IntRange(min=1),
            default=128,
            show_default=True,
            help="Maximum number of new tokens.",
        ),
        "min_new": click.option(
            "--min-new", type=click.IntRange(min=0), default=1, show_default=True, help="Minimum number of new tokens."
        ),
        "rng": rng_option,
    },
    _make_plan,
)
_tokens_option = click.option(
    "--tokens",
    "--prompt-tokens",
    "tokens",
    type=click.IntRange(min=1),
    default=35,
    show_default=True,
    metavar="K",
    help="Length of the prompts: the first K tokens of each text.",
)
_skip_short_option = click.option("--skip-short", is_flag=True, help="Leave out texts with fewer than K tokens.")
_batch_option = click.option(
    "--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Texts that are generated together."
)


@command(
    "generate",
    "Continue texts with a language model.",
    example="mallow generate human.jsonl --model ngram --tokens 8 --decoder nucleus:0.95 --out model.jsonl",
)
@click.argument("prompts")
@model_options
@click.option(
    "--decoder",
    "--decode",
    "decoder_name",
    default="nucleus:0.95",
    show_default=True,
    metavar="DECODER",
    help="How tokens are chosen.",
)
@click.option(
    "--out", "-o", required=True, metavar="FILE", help="Where to write: .jsonl. An existing file is continued."
)
@_plan_options
@_tokens_option
@_skip_short_option
@_batch_option
@click.option("--whole-prompts", is_flag=True, help="Continue each text from its end instead.")
@click.option("--with-prompt", is_flag=True, help="Write each text with its prompt.")
@click.option("--overwrite", is_flag=True, help="Start again if the file exists.")
@reader_options
def generate_command(
    prompts: str,
    model: ModelChoice,
    decoder_name: str,
    out: str,
    plan: GenerationPlan,
    tokens: int,
    skip_short: bool,
    batch: int,
    whole_prompts: bool,
    with_prompt: bool,
    overwrite: bool,
    read: SampleReader,
) -> None:
    """Continue the beginnings of the texts in PROMPTS.

    DECODER is ancestral, greedy, temperature:T, top-k:K, nucleus:P, typical:TAU, eta:EPSILON or min-p:P, several of these
    joined by +, or beam:WIDTH, contrastive:K:PENALTY or adversarial:PERPLEXITY.

    A run that was interrupted continues when the same command is run again: no text is lost or generated twice.
    """
    from dataclasses import replace

    from mallow.generate import check_output_path, decoder, generate_file, prompts_of

    check_output_path(out)  # before a model is loaded
    chosen = decoder(decoder_name)
    texts = read(prompts)
    loaded = model(texts)
    beginnings = prompts_of(texts, loaded, tokens=None if whole_prompts else tokens, skip_short=skip_short)
    plan = replace(plan, with_prompt=with_prompt)
    added = generate_file(loaded, beginnings, chosen, out, plan, batch=batch, overwrite=overwrite)
    total = len(beginnings) * plan.n
    tell(f"{out}: {total} texts, {added} of them new; {loaded.name}, {chosen.name}")


@result_command(
    "sweep",
    "Score a grid of decoders.",
    example="mallow sweep human.jsonl --model ngram --tokens 8 --decoders nucleus:0.8,0.95 --decoders greedy --out sweep",
    plot="the scores",
)
@click.argument("reference")
@model_options
@click.option(
    "--decoders",
    "--decode",
    "patterns",
    multiple=True,
    required=True,
    metavar="DECODERS",
    help="As DECODER of `mallow generate`, with several numbers separated by commas: nucleus:0.8,0.9,0.95. May be repeated.",
)
@click.option(
    "--out",
    "-o",
    required=True,
    metavar="FOLDER",
    help="Where to write the texts of each decoder, and to find them again.",
)
@_plan_options
@_tokens_option
@_skip_short_option
@_batch_option
@embedder_options
@reader_options
@measure_options
@repeats_option
def sweep_command(
    reference: str,
    model: ModelChoice,
    patterns: tuple[str, ...],
    out: str,
    plan: GenerationPlan,
    tokens: int,
    skip_short: bool,
    batch: int,
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    repeats: int,
) -> Sweep:
    """Score decoders against the texts of REFERENCE, whose beginnings they continue.

    The texts stay in FOLDER: a run that was interrupted continues, and a run with more decoders generates only theirs.
    """
    from mallow.evaluate import grid, sweep

    names = grid(patterns)  # before a model is loaded
    texts = read(reference)
    return sweep(
        texts,
        model(texts),
        names,
        out,
        plan,
        tokens=tokens,
        skip_short=skip_short,
        measure=measure,
        embedder=embedder(texts.kind),
        repeats=repeats,
        batch=batch,
    )


COMMANDS = (generate_command, sweep_command)
