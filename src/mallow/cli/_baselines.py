"""The command of `mallow.baselines`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click

from mallow.cli._choices import EmbedderChoice
from mallow.cli._commands import result_command
from mallow.cli._options import embedder_options, reader_options, repeats_option, rng_option, systems_argument
from mallow.cli._samples import SampleReader, read_systems

if TYPE_CHECKING:
    from mallow.baselines import Table

__all__ = ["COMMANDS"]


@result_command(
    "baselines",
    "Every other measure, side by side.",
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
@repeats_option
@rng_option
def baselines_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: EmbedderChoice,
    read: SampleReader,
    tokenize: Literal["whitespace", "regex"],
    repeats: int,
    rng: int,
) -> Table:
    """Print every other measure beside MAUVE: text statistics, Fréchet distance, precision and recall, transport and more.

    The value closest to that of the reference is marked.
    """
    from mallow.baselines import table
    from mallow.confounds import find_confounds

    x, others = read_systems(read, reference, systems)
    measures = table(x, others, embedder=embedder(x.kind), tokenize=tokenize, repeats=repeats, rng=rng)
    # A score looks for confounds by itself; the table does not.
    return replace(measures, caveats=(*find_confounds(x, others), *measures.caveats))


COMMANDS = (baselines_command,)
