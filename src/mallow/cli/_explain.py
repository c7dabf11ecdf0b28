"""The commands of `mallow.explain`, reasons for a score: diagnose, audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mallow.cli._choices import EmbedderChoice
from mallow.cli._commands import result_command
from mallow.cli._options import embedder_options, measure_options, reader_options, repeats_option, rng_option
from mallow.cli._samples import SampleReader, read_arguments, read_systems
from mallow.cli._terminal import tell

if TYPE_CHECKING:
    from mallow.cli._plain_results import Confounds
    from mallow.evaluate import Audit
    from mallow.evidence import Measure
    from mallow.explain import Diagnosis


@result_command(
    "diagnose",
    "Where the gap is: what the model misses and what it invents.",
    example="mallow diagnose human.jsonl model.jsonl",
    plot="the share of the gap that each region has",
)
@click.argument("reference")
@click.argument("model")
@click.option(
    "--regions",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many regions of either kind to show.",
)
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="How many samples of each side to show.",
)
@click.option(
    "--grids", metavar="FOLDER", help="Draw each region of images into this folder: missed-1.png, invented-1.png, ..."
)
@embedder_options
@reader_options
@measure_options
@rng_option
def diagnose_command(
    reference: str,
    model: str,
    regions: int,
    examples: int,
    grids: str | None,
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    rng: int,
) -> Diagnosis:
    """Show where the gap is: the regions that MODEL misses and those that it invents, with examples.

    Without --bins there are √(n + m) bins here, fewer than for a score: a region should be a topic.
    """
    from mallow._files import make_folder
    from mallow.explain import diagnose

    x, y = read_arguments(read, REFERENCE=reference, MODEL=model)
    if grids is not None and x.kind != "image":
        raise click.UsageError(f"--grids is for images; {reference} holds {x.kind} samples.")
    folder = None if grids is None else make_folder(grids)
    diagnosis = diagnose(x, y, embedder=embedder(x.kind), measure=measure, regions=regions, examples=examples, rng=rng)
    if folder is not None:
        tell(f"{folder}: {len(diagnosis.draw_images(folder))} pictures written")
    return diagnosis


@result_command(
    "audit",
    "What may spoil a score: in the samples, or in the embedder.",
    example="mallow audit human.jsonl small=small.jsonl large=large.jsonl",
)
@click.argument("reference")
@click.argument("systems", nargs=-1, metavar="[NAME=PATH]...")
@embedder_options
@reader_options
@measure_options
@repeats_option
@rng_option
def audit_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    repeats: int,
    rng: int,
) -> Confounds | Audit:
    """List the differences between REFERENCE and the systems that are unrelated to the model, before anything is scored.

    Lengths, truncated ends, copies, empty texts, prompts, file formats: counted without embedding anything. The options
    of the embedder and of the measure are not used. `mallow score`, `compare` and `report` make the same checks.

    Without systems: show what the embedder sees in texts like those of REFERENCE. One half is scored against the other,
    untouched and with its words shuffled, cut off, repeated or in lower case.
    """
    if systems:
        from mallow.caveats import find_confounds
        from mallow.cli._plain_results import Confounds

        x, others = read_systems(read, reference, systems)
        return Confounds(tuple(others), find_confounds(x, others))
    from mallow.evaluate import audit_embedder

    texts = read(reference)
    return audit_embedder(texts, embedder("text"), measure=measure, repeats=repeats, rng=rng)


COMMANDS = (diagnose_command, audit_command)
