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
@repeats_option
@rng_option
def baselines_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: EmbedderChoice,
    read: SampleReader,
    tokenize: Literal["whitespace", "regex"],
    every: bool,
    repeats: int,
    rng: int,
) -> Table:
    """Print other measures beside MAUVE: text statistics, Fréchet distance, precision and recall and more; --all adds
    transport and every divergence.

    The eight measures that are printed have 95 % intervals of the noise of sampling. The value closest to that of the
    reference is marked if its lead is larger than that noise.
    """
    from mallow.baselines import table
    from mallow.confounds import find_confounds

    x, others = read_systems(read, reference, systems)
    rows: Literal["main", "all with noise"] = "all with noise" if every else "main"
    measures = table(x, others, embedder=embedder(x.kind), tokenize=tokenize, repeats=repeats, rng=rng, rows=rows)
    # A score looks for confounds by itself; the table does not.
    return replace(measures, caveats=(*find_confounds(x, others), *measures.caveats))


COMMANDS = (baselines_command,)
