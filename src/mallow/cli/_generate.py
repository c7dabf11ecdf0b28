"""The commands with language models and other measures: generate, sweep, baselines, likelihoods."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from mallow.cli._commands import command, result_command
from mallow.cli._models import ModelChoice, model_options, scorer_options, surrogate_options
from mallow.cli._options import (
    EmbedderChoice,
    Run,
    bundle,
    embedder_options,
    option,
    paired_option,
    reader_options,
    repeats_option,
    rng_option,
    run_options,
    systems_argument,
)
from mallow.cli._samples import SampleReader, name_systems, read_systems
from mallow.cli._terminal import print_message

if TYPE_CHECKING:
    from mallow.baselines import Likelihoods, Table
    from mallow.embed import AnyEmbedder
    from mallow.evaluate import Sweep
    from mallow.generate import GenerationPlan
    from mallow.samples import Samples


def _make_plan(n: int, max_new: int, min_new: int, rng: int) -> GenerationPlan:
    from mallow.generate import GenerationPlan

    return GenerationPlan(n, max_new, min_new, rng)


_plan_options = bundle(
    "plan",
    _make_plan,
    option("-n", "n", least=1, default=1, help="Number of texts per prompt."),
    option("--max-new", least=1, default=128, help="Maximum number of new tokens."),
    option("--min-new", least=0, default=1, help="Minimum number of new tokens."),
    rng_option,
)
_tokens_option = option(
    "--tokens",
    "--prompt-tokens",
    "tokens",
    least=1,
    default=35,
    metavar="K",
    help="Length of the prompts: the first K tokens of each text.",
)
_skip_short_option = option("--skip-short", is_flag=True, help="Leave out texts with fewer than K tokens.")
_batch_option = option("--batch", least=1, default=64, help="Texts that are generated together.")


@command(
    "generate",
    "Continue texts with a language model.",
    example="mallow generate human.jsonl --model ngram --tokens 8 --decoder nucleus:0.95 --out model.jsonl",
)
@click.argument("prompts")
@model_options
@option(
    "--decoder", "--decode", "decoder_name", default="nucleus:0.95", metavar="DECODER", help="How tokens are chosen."
)
@option("--out", "-o", required=True, metavar="FILE", help="The .jsonl file to write. An existing file is continued.")
@_plan_options
@_tokens_option
@_skip_short_option
@_batch_option
@option("--whole-prompts", is_flag=True, help="Continue each text from its end instead.")
@option("--with-prompt", is_flag=True, help="Write each text with its prompt.")
@option("--overwrite", is_flag=True, help="Start again if the file exists.")
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

    DECODER is ancestral, greedy, temperature:T, top-k:K, nucleus:P, typical:TAU, eta:EPSILON or min-p:P, several of
    these joined by +, or beam:WIDTH, contrastive:K:PENALTY or adversarial:PERPLEXITY.

    Rerun the same command to resume after an interruption. No text is lost or generated twice.
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
    print_message(f"{out}: {total} texts, {added} of them new; {loaded.name}, {chosen.name}")


@result_command(
    "sweep",
    "Score a grid of decoders.",
    example="mallow sweep human.jsonl --model ngram --tokens 8 --decoders nucleus:0.8,0.95 --decoders greedy --out "
    "sweep",
    plot="the scores",
)
@click.argument("reference")
@model_options
@option(
    "--decoders",
    "--decode",
    "patterns",
    multiple=True,
    required=True,
    metavar="DECODERS",
    help="Decoders, as for `mallow generate`, with several numbers separated by commas: nucleus:0.8,0.9,0.95. May be "
    "repeated.",
)
@option(
    "--out",
    "-o",
    required=True,
    metavar="FOLDER",
    help="Where the texts of each decoder are written, and read if they exist.",
)
@_plan_options
@_tokens_option
@_skip_short_option
@_batch_option
@run_options("embedder", "read", "measure", "repeats")
def sweep_command(
    reference: str,
    model: ModelChoice,
    patterns: tuple[str, ...],
    out: str,
    plan: GenerationPlan,
    tokens: int,
    skip_short: bool,
    batch: int,
    run: Run,
) -> Sweep:
    """Score decoders against the texts of REFERENCE, whose beginnings they continue.

    The texts stay in FOLDER. An interrupted run can be resumed, and a run with more decoders generates only new texts.
    """
    from mallow.evaluate import grid, sweep

    names = grid(patterns)  # before a model is loaded
    texts = run.read(reference)
    shared = {"tokens": tokens, "skip_short": skip_short, "batch": batch, **run.settings(texts.kind)}
    return sweep(texts, model(texts), names, out, plan, **shared)


@result_command(
    "baselines",
    "Print other measures, side by side.",
    example="mallow baselines human.jsonl small=small.jsonl large=large.jsonl --format markdown",
    plot="the rank of each system by each measure",
)
@click.argument("reference")
@systems_argument
@embedder_options
@reader_options
@option(
    "--tokenize",
    type=click.Choice(["whitespace", "regex"]),
    default="whitespace",
    help="What a token is for text statistics.",
)
@option("--all", "every", is_flag=True, help="Show every measure. Only the eight usual ones have an interval.")
@option(
    "--tokenizer",
    metavar="PATH",
    help="A tokenizer for text statistics, instead of --tokenize: a tokenizer.json, or a folder with one or with "
    "GPT-2's vocab.json and merges.txt, as published.",
)
@option(
    "--save-statistics",
    metavar="NAME",
    help="Save the mean and covariance of the reference, under a name or in a .npz file. NAME can then replace "
    "REFERENCE.",
)
@scorer_options
@paired_option
@repeats_option
@rng_option
def baselines_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: EmbedderChoice,
    read: SampleReader,
    tokenize: Literal["whitespace", "regex"],
    every: bool,
    tokenizer: str | None,
    save_statistics: str | None,
    scorer: ModelChoice | None,
    paired: bool,
    repeats: int,
    rng: int,
) -> Table:
    """Print other measures beside MAUVE: text statistics, Fréchet distance, precision and recall and more. --all adds
    optimal transport and every divergence.

    The eight usual measures have 95% intervals for sampling noise. The system closest to the reference is marked if its
    lead is larger than this noise.

    REFERENCE may also be saved statistics: the .npz file of an FID tool, with mu and sigma, or the NAME of
    --save-statistics. Only the Fréchet distance and FD∞ can then be measured.
    """
    from mallow.baselines import find_statistics, load_statistics, table
    from mallow.caveats import find_confounds
    from mallow.models import TokenFile

    if find_statistics(reference) is not None:
        if save_statistics is not None:
            raise click.UsageError(f"--save-statistics needs samples; {reference} holds statistics already.")
        others = {name: read(path) for name, path in name_systems(systems).items()}
        chosen = embedder(next(iter(others.values())).kind)
        return table(load_statistics(reference), others, embedder=chosen, rng=rng)
    x, others = read_systems(read, reference, systems)
    if (scorer is not None or tokenizer is not None) and x.kind != "text":
        raise click.UsageError(f"--scorer and --tokenizer are for texts; {reference} holds {x.kind} samples.")
    split = tokenize if tokenizer is None else TokenFile(tokenizer)
    judge = None if scorer is None else scorer(x)
    rows: Literal["main", "all with noise"] = "all with noise" if every else "main"
    chosen = embedder(x.kind)
    if save_statistics is not None:
        x = _save_statistics(x, chosen, save_statistics)
    run = partial(table, embedder=chosen, paired=paired, repeats=repeats, rng=rng, rows=rows)
    measures = run(x, others, tokenize=split, scorer=judge)
    # A score looks for confounds by itself, but the table does not.
    return replace(measures, caveats=(*find_confounds(x, others), *measures.caveats))


def _save_statistics(reference: Samples, embedder: AnyEmbedder | None, name: str) -> Samples:
    """The samples with their features; their mean and covariance are saved under a name."""
    from mallow.baselines import Moments, save_statistics
    from mallow.embed import embed_all

    samples = embed_all({"": reference}, embedder)[""]
    moments = replace(Moments.of(samples.require_features()), embedder=samples.embedder)
    print_message(f"mallow: statistics written to {save_statistics(moments, name)}")
    return samples


@result_command(
    "likelihoods",
    "Print the likelihoods that language models give the texts.",
    example="mallow likelihoods human.jsonl model.jsonl --model ngram:3 --train model.jsonl --surrogate ngram "
    "--surrogate-train human.jsonl",
)
@click.argument("reference")
@click.argument("generated")
@model_options
@surrogate_options
@option("--decoder", default="ancestral", metavar="NAME", help="How GENERATED was decoded: rules or greedy.")
@option("--epsilon", type=float, default=1e-5, help="What ε-perplexity adds to every probability.")
@reader_options
def likelihoods_command(
    reference: str,
    generated: str,
    model: ModelChoice,
    surrogate: ModelChoice | None,
    decoder: str,
    epsilon: float,
    read: SampleReader,
) -> Likelihoods:
    """Print what the model thinks of human text, and what a surrogate of the human distribution thinks of both.

    For the model with its decoder, it prints perplexity, ε-perplexity, sparsemax score and JS. With --surrogate, it
    also prints the generation perplexity (Gen. PPL) of both and the direct estimate of the frontier. Do not rank models
    by any of these.
    """
    from mallow.baselines import likelihoods

    human, machine = read(reference), read(generated)
    return likelihoods(
        model(machine),
        human.require_texts(),
        machine.require_texts(),
        surrogate=None if surrogate is None else surrogate(human),
        decoder=decoder,
        epsilon=epsilon,
    )
