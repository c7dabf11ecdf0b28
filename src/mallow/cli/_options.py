"""Options that several commands share. A bundle of options becomes one argument of the command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from mallow.cli._choices import (
    DIVERGENCES,
    ESTIMATORS,
    MEASURES,
    EmbedderChoice,
    find_measure,
    find_measure_if_named,
)
from mallow.cli._samples import SampleReader

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]


def bundle(argument: str, options: Mapping[str, Decorator], make: Function) -> Decorator:
    """Options, by the names of their values, which reach the command as one argument: `make(*values)`, in this order."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call_with_bundle(*args: Any, **values: Any) -> Any:
            own = [values.pop(name) for name in options]
            return function(*args, **values, **{argument: make(*own)})

        decorated: Function = call_with_bundle
        for option in reversed(list(options.values())):
            decorated = option(decorated)
        return decorated

    return decorate


_reader_options = bundle(
    "read",
    {
        "field": click.option(
            "--field",
            metavar="NAME",
            help="The field or column that holds the text; a file may have its own: FILE:FIELD.  [default: text]",
        ),
        "skip_bad": click.option("--skip-bad", is_flag=True, help="Skip bad entries and print how many there were."),
        "limit": click.option(
            "--limit",
            type=click.IntRange(min=1),
            metavar="N",
            help="Read only the first N samples of each file; samples with the same id or prompt count as one.",
        ),
        "limits": click.option(
            "--max",
            "limits",
            multiple=True,
            metavar="NAME=VALUE",
            help="Read larger files than usual: line-mb=64, expansion=100 (of compressed files), depth=100 (of JSON), "
            "pixels=89478485, wait=10 (seconds for a pipe). May be repeated.",
        ),
    },
    SampleReader,
)

_embedder_options = bundle(
    "embedder",
    {
        "embedder_name": click.option(
            "--embedder",
            "-e",
            "embedder_name",
            metavar="NAME",
            help="minilm, glove, ngram, subsequence, efficientnet, inception, mel, sentence:NAME, a transformers model (NAME or NAME@REVISION), "
            "the folder or file of a model (.gguf, .onnx, .pt, GloVe text), or package.module:object."
            "  [default: minilm for texts, efficientnet for images, mel for recordings]",
        ),
        "embedder_fields": click.option(
            "--embedder-option",
            "-E",
            "embedder_fields",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the embedder, such as pooling=mean or max_length=512. May be repeated.",
        ),
        "match": click.option(
            "--match",
            type=click.Choice(["torch-fidelity", "pytorch-fid", "clean-fid"]),
            help="With --embedder inception: resize images as this tool does, so that the Fréchet distance is its FID.",
        ),
    },
    EmbedderChoice,
)


def _measure_bundle(make: Function, default: Callable[[str], str]) -> Decorator:
    """The options that describe a measure; `default` turns the usual default into what the help says."""
    return bundle(
        "measure",
        {
            "measure": click.option(
                "--measure",
                type=click.Choice(list(MEASURES)),
                help=f"The published measure to start from.  [default: {default('mauve-star')}]",
            ),
            "estimator": click.option(
                "--estimator",
                metavar="NAME",
                help=f"{', '.join(ESTIMATORS)}, or package.module:object.  [default: {default('quantize')}]",
            ),
            "divergence": click.option(
                "--divergence",
                type=click.Choice(list(DIVERGENCES)),
                help=f"The divergence of the frontier.  [default: {default('kl')}]",
            ),
            "bins": click.option(
                "--bins",
                type=click.IntRange(min=1),
                metavar="K",
                help=f"The number of bins of the quantiser.  [default: {default('n/10')}]",
            ),
            "scale": click.option(
                "--scale",
                type=float,
                metavar="C",
                help=f"The constant c of the area.  [default: {default('that of the estimator')}]",
            ),
            "no_normalise": click.option(
                "--no-normalise",
                is_flag=True,
                help="Do not scale the rows of features to length 1, as the published measures do.",
            ),
        },
        make,
    )


_measure_options = _measure_bundle(find_measure, lambda usual: usual)
_measure_options_of_baseline = _measure_bundle(find_measure_if_named, lambda usual: "see above")


def reader_options(function: Function) -> Function:
    """Options that reach the command as `read`, a `SampleReader`."""
    return _reader_options(function)


def embedder_options(function: Function) -> Function:
    """Options that reach the command as `embedder`, an `EmbedderChoice`."""
    return _embedder_options(function)


def measure_options(function: Function) -> Function:
    """Options that reach the command as `measure`, a `Measure`."""
    return _measure_options(function)


def measure_options_of_baseline(function: Function) -> Function:
    """The same options for a command whose help says what holds without them: `measure` is then None."""
    return _measure_options_of_baseline(function)


def repeats_option(function: Function) -> Function:
    """How many runs are averaged."""
    return click.option(
        "--repeats",
        type=click.IntRange(min=1),
        default=5,
        show_default=True,
        help="Runs with different seeds, whose mean is the score.",
    )(function)


def rng_option(function: Function) -> Function:
    """The seed; --seed is its former name."""
    return click.option(
        "--rng",
        "--seed",
        "rng",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="The seed: the same seed gives the same numbers.",
    )(function)


def _make_engine(engine: str | None, checkpoint: str | None) -> Any:
    """The engine that the options name; None stands for the threads of this machine."""
    if engine is None and checkpoint is None:
        return None
    from dataclasses import replace

    from mallow.engine import resolve_engine

    return replace(resolve_engine(engine), checkpoint=checkpoint)  # type: ignore[type-var]


_engine_options = bundle(
    "engine",
    {
        "engine": click.option(
            "--engine",
            metavar="ENGINE",
            help="Where the work is done: ray (Ray on this machine, or the cluster in RAY_ADDRESS) or the address of a cluster "
            "(ray://host:10001). The result is the same.  [default: the threads of this machine]",
        ),
        "checkpoint": click.option(
            "--checkpoint",
            metavar="FOLDER",
            help="Keep what is done of a long work in this folder: after an interruption, the same command continues.",
        ),
    },
    _make_engine,
)


def engine_options(function: Function) -> Function:
    """Options that reach the command as `engine`."""
    return _engine_options(function)


def sample_option(function: Function) -> Function:
    """How many rows are clustered."""
    return click.option(
        "--sample",
        type=click.IntRange(min=2),
        metavar="N",
        help="Cluster N rows at most, chosen by a hash; the bins then take all rows.  [default: 10000000]",
    )(function)


def systems_argument(function: Function) -> Function:
    """Systems, at least one, to be read by `read_systems`."""
    return click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")(function)
