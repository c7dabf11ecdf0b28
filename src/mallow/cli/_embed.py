"""The commands of `mallow.embed`, features and where they are stored: embed, cache."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from mallow.cli._commands import check_output_file, command
from mallow.cli._options import EmbedderChoice, embedder_options, option, reader_options
from mallow.cli._printing import print_message, print_output
from mallow.cli._samples import SampleReader, parse_limits
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.embed import Cache
    from mallow.engine import Engine


_OTHER_FORMATS = (".csv", ".gz", ".json", ".jsonl", ".ndjson", ".parquet", ".safetensors", ".tar", ".txt", ".zip")


@command("embed", "Turn samples into features, once.", example="mallow embed human.jsonl -o human.npz")
@click.argument("source", metavar="SAMPLES")
@option(
    "--out",
    "-o",
    required=True,
    metavar="FILE|FOLDER",
    help="Where to write the features: a .npz or .npz.gz file, or a folder (or URL), which gets one file per part of "
    "the samples.",
)
@option(
    "--engine",
    metavar="ENGINE",
    help="With a folder: where the work runs, as for `mallow score`.  [default: this machine]",
)
@option("--workers", least=1, metavar="N", help="With an engine: the maximum number of workers.")
@option(
    "--gpus", type=click.FloatRange(min=0), metavar="G", help="With an engine: GPUs of each worker, such as 1 or 0.25."
)
@option("--rows", least=1, metavar="N", help="With a folder: samples per file.  [default: 2048]")
@embedder_options
@reader_options
def embed_command(
    source: str,
    out: str,
    engine: str | None,
    workers: int | None,
    gpus: float | None,
    rows: int | None,
    embedder: EmbedderChoice,
    read: SampleReader,
) -> None:
    """Write the features of SAMPLES, with ids and provenance, to a file that can be used instead of the samples.

    If --out is a folder, SAMPLES may be a folder, a glob or a URL of many files: .jsonl, .jsonl.gz, .parquet, or .tar
    with images. Each part becomes a separate file. Rerun the same command to resume after an interruption.
    """
    if not out.lower().endswith((".npz", ".npz.gz", ".npy", ".npy.gz")):
        if out.lower().endswith(_OTHER_FORMATS):  # before the work begins. A folder may well be called v1.2
            raise InputError(
                f"{out}: must end in .npz or .npz.gz, or be a folder; features are written in no other format."
            )
        _embed_to_folder(source, out, _engine(engine, workers, gpus), rows, embedder, read)
        return
    if any(option is not None for option in (engine, workers, gpus, rows)):
        raise click.UsageError(
            f"--engine, --workers, --gpus and --rows are for folders; {out} is a file. Pass --out FOLDER."
        )
    _embed_to_file(source, out, embedder, read)


def _embed_to_file(source: str, out: str, embedder: EmbedderChoice, read: SampleReader) -> None:
    from mallow.embed import JointEmbedder, embed_samples
    from mallow.samples import write

    check_output_file(out)
    samples = read(source)
    chosen = embedder(samples.kind)
    if chosen is None:
        raise InputError(f"{source}: holds features already. There is nothing to embed.")
    if isinstance(chosen, JointEmbedder):
        raise InputError(
            f"--embedder: {embedder.name} has no features for a single set: a kernel compares two. Pass it to "
            "`mallow score`."
        )
    embedded = embed_samples(samples, chosen)
    write(embedded, out)
    n, width = embedded.require_features().shape
    print_message(f"{out}: {n} x {width}, {embedded.embedder}")


def _embed_to_folder(
    source: str, out: str, engine: Engine | None, rows: int | None, embedder: EmbedderChoice, read: SampleReader
) -> None:
    from mallow.embed import embed_shards, shard_kind
    from mallow.samples import split_field

    if read.limit is not None:
        raise click.UsageError("--limit is for a single file of features; write one with --out FILE.npz.")
    source, own_field = split_field(source)
    more = {} if rows is None else {"rows": rows}
    features = embed_shards(
        source,
        out,
        embedder=embedder(shard_kind(source)) if embedder.options or embedder.fast else embedder.allowed_name(),
        engine=engine,
        field=own_field or read.field,
        skip_bad=read.skip_bad,
        limits=parse_limits(read.limits),
        **more,
    )
    read.report_skipped(source, features)
    files = 0 if features.shards is None else len(features.shards.shards)
    print_message(
        f"{out}: {files} {'file' if files == 1 else 'files'}, {len(features)} x {features.width}, {features.embedder}"
    )


def _engine(name: str | None, workers: int | None, gpus: float | None) -> Engine | None:
    """The engine that the options describe; None is this machine."""
    if name is None:
        if workers is not None or gpus is not None:
            raise click.UsageError("--workers and --gpus are options of an engine: pass --engine ray too.")
        return None
    from mallow.engine import Ray, resolve_engine

    engine = resolve_engine(name)
    if isinstance(engine, Ray):
        return replace(engine, workers=workers, gpus=gpus or 0)
    return engine


@click.group(
    "cache",
    short_help="Show, verify, prune or clear the features on disk.",
    invoke_without_command=True,
    epilog="\b\nExample:\n  mallow cache prune --unused-days 30",
)
@click.pass_context
def cache_group(ctx: click.Context) -> None:
    """Show, verify, prune or clear the features on disk.

    The environment variable MALLOW_CACHE sets the folder. MALLOW_CACHE=off disables the cache.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(cache_show)


@cache_group.command("show")
def cache_show() -> None:
    """List the contents, one embedder per line."""
    cache = _require_cache()
    entries = cache.entries()
    print_output(f"{cache.folder}: {_megabytes(sum(entry.size for entry in entries))}")
    for entry in entries:
        day = time.strftime("%Y-%m-%d", time.localtime(entry.used))
        print_output(f"{_megabytes(entry.size):>9} {entry.rows:>9} rows  used {day}  {entry.name}")


@cache_group.command("verify")
@option("--repair", is_flag=True, help="Remove damaged files and keep their intact rows.")
@click.pass_context
def cache_verify(ctx: click.Context, repair: bool) -> None:
    """Compare all features with their digests. Exit 1 if some are damaged.

    The same check runs whenever features are read. Damaged features are embedded again and never used.
    """
    cache = _require_cache()
    outcome = cache.verify(repair=repair)
    for damage in outcome.damaged:
        print_output(f"{damage.path}: {damage.reason}")
    verdict = f"{len(outcome.damaged)} damaged" if outcome.damaged else "all intact"
    print_output(f"{cache.folder}: {outcome.files} files, {outcome.rows} rows, {_megabytes(outcome.size)}: {verdict}")
    ctx.exit(1 if outcome.damaged else 0)


@cache_group.command("prune")
@option("--unused-days", type=click.FloatRange(min=0), metavar="D", help="Remove features not used for D days.")
@option(
    "--keep-mb",
    type=click.FloatRange(min=0),
    metavar="MB",
    help="Then remove the least recently used features until at most MB megabytes are left.",
)
def cache_prune(unused_days: float | None, keep_mb: float | None) -> None:
    """Remove old features, and files that killed processes left behind."""
    keep = None if keep_mb is None else int(keep_mb * 1e6)
    print_output(f"removed {_megabytes(_require_cache().prune(unused_days=unused_days, keep_bytes=keep))}")


@cache_group.command("clear")
def cache_clear() -> None:
    """Remove all features."""
    print_output(f"removed {_megabytes(_require_cache().clear())}")


def _require_cache() -> Cache:
    from mallow.embed import default_cache

    cache = default_cache()
    if cache is None:
        raise InputError("There is no cache: MALLOW_CACHE is off.")
    return cache


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
