"""The commands of `mallow.baselines`: baselines, likelihoods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click

from mallow.cli._choices import EmbedderChoice
from mallow.cli._commands import result_command
from mallow.cli._models import ModelChoice, model_options, scorer_options, surrogate_options
from mallow.cli._options import embedder_options, reader_options, repeats_option, rng_option, systems_argument
from mallow.cli._samples import SampleReader, name_systems, read_systems
from mallow.cli._terminal import tell

if TYPE_CHECKING:
    from mallow.baselines import Likelihoods, Table
    from mallow.embed import AnyEmbedder
    from mallow.samples import Samples


@result_command(
    "baselines",
    "Other measures, side by side.",
    example="mallow baselines human.jsonl small=small.jsonl large=large.jsonl --format markdown",
    plot="the rank of each system by each measure",
)
@click.argument("reference")
@systems_argument
@embedder_options
@reader_options
@click.option(
    "--tokenize",
    type=click.Choice(["whitespace", "regex"]),
    default="whitespace",
    show_default=True,
    help="What a token is for text statistics.",
)
@click.option("--all", "every", is_flag=True, help="Show every measure; those beyond the eight have no interval.")
@click.option(
    "--tokenizer",
    metavar="PATH",
    help="Tokens for text statistics instead: a tokenizer.json, or a folder with one or with GPT-2's vocab.json and merges.txt, as published.",
)
@click.option(
    "--save-statistics",
    metavar="NAME",
    help="Keep the mean and covariance of the reference, under a name or in a .npz file: NAME can then replace REFERENCE.",
)
@scorer_options
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
    repeats: int,
    rng: int,
) -> Table:
    """Print other measures beside MAUVE: text statistics, Fréchet distance, precision and recall and more; --all adds
    transport and every divergence.

    The eight measures that are printed have 95 % intervals of the noise of sampling. The value closest to that of the
    reference is marked if its lead is larger than that noise.

    REFERENCE may also be statistics that were saved: the .npz file of an FID tool, with mu and sigma, or the NAME of
    --save-statistics. The Fréchet distance and FD∞ are then all that can be measured.
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
    measures = table(x, others, embedder=chosen, tokenize=split, scorer=judge, repeats=repeats, rng=rng, rows=rows)
    # A score looks for confounds by itself; the table does not.
    return replace(measures, caveats=(*find_confounds(x, others), *measures.caveats))


def _save_statistics(reference: Samples, embedder: AnyEmbedder | None, name: str) -> Samples:
    """The samples with their features, whose mean and covariance are kept under a name."""
    from mallow.baselines import Moments, save_statistics
    from mallow.embed import embed_all

    samples = embed_all({"": reference}, embedder)[""]
    moments = replace(Moments.of(samples.require_features()), embedder=samples.embedder)
    tell(f"mallow: statistics written to {save_statistics(moments, name)}")
    return samples


@result_command(
    "likelihoods",
    "What language models say about the texts.",
    example="mallow likelihoods human.jsonl model.jsonl --model ngram:3 --train model.jsonl --surrogate ngram --surrogate-train human.jsonl",
)
@click.argument("reference")
@click.argument("generated")
@model_options
@surrogate_options
@click.option(
    "--decoder",
    default="ancestral",
    show_default=True,
    metavar="NAME",
    help="How GENERATED was decoded: rules or greedy.",
)
@click.option(
    "--epsilon", type=float, default=1e-5, show_default=True, help="What ε-perplexity adds to every probability."
)
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

    Of the model with its decoder: perplexity, ε-perplexity, sparsemax score and JS. With --surrogate also the generation
    perplexity (Gen. PPL) of both and the direct estimate of the frontier. Models should not be ranked by any of these.
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


COMMANDS = (baselines_command, likelihoods_command)
