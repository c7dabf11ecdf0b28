"""Embeds many files of texts or images into files of features, here or on a cluster. A rerun resumes the work.

A task is an input shard. Its samples are embedded a part at a time, and each part becomes an output shard, which the
worker writes completely or not at all. A worker that dies loses only its current part: the task starts again
elsewhere and skips the parts that exist. The same call after an interruption does so too.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mallow._checks import whole
from mallow.embed._cache import sample_key
from mallow.embed._embed import embed_samples, embedder_name
from mallow.embed._names import find_embedder
from mallow.embed._protocol import AnyEmbedder, JointEmbedder
from mallow.engine import AnyEngine, Threads, bar, open_engine
from mallow.errors import InputError
from mallow.models import keep_model
from mallow.samples import (
    Limits,
    Samples,
    find_shards,
    holds_shards,
    is_url,
    join,
    list_shards,
    make_shard_folder,
    read_parts,
    read_provenance,
    read_record,
    shard_exists,
    shard_suffix,
    stamp_of,
    write_record,
    write_shard,
)

_LOG = logging.getLogger("mallow")
_ROWS = 2048  # chosen: a worker that dies loses a few seconds on a GPU, or a minute on a processor
_TASKS = 16  # on a cluster, fewer shards than this are each shared by several workers


def embed_shards(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    embedder: AnyEmbedder | str | None = None,
    engine: AnyEngine = None,
    rows: int = _ROWS,
    field: str | None = None,
    skip_bad: bool = False,
    limits: Limits | None = None,
) -> Samples:
    """The features of many files of texts or images, which stay on the disk: pass them to `mallow.score`.

    Every output shard is a .npz file of at most `rows` samples, with ids, prompts and provenance: the embedder, the
    input shard, the first sample, and digests of samples and features. Call it again after an interruption: existing
    parts are not embedded again.

    Parameters
    ----------
    source : path or URL
        A folder, a glob or a file: .jsonl(.gz), .parquet (texts), .tar (images, as of webdataset) or a folder of
        images; also as a URL that fsspec knows, such as s3://bucket/texts/*.jsonl.gz.
    folder : path or URL
        Where output shards are written. All workers must be able to write there.
    embedder : Embedder, callable, name or None
        As in `mallow.score`. Each worker loads it once. It must embed each sample by itself, which string kernels do
        not.
    engine : None, "ray", "ray://…" or an engine
        None: one shard after another, on all processors of this machine. On a cluster each worker embeds different
        shards, with the processors and GPUs that ``mallow.Ray(cpus=…, gpus=…)`` gives it.
    rows : int
        Samples per output shard. A worker that dies loses at most this many. Among them, samples of similar length
        go through the model together.
    field
        The field or column that holds the texts, as in `mallow.read`.
    skip_bad
        Whether damaged entries are left out and counted, as in `mallow.read`.
    limits
        Sizes beyond which a file is refused, as in `mallow.read`.

    Returns
    -------
    Samples
        Of kind "features". An `InputError` after all other shards are embedded if some could not be.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> def lengths(texts):
    ...     return [[float(len(text)), 1.0] for text in texts]
    >>> with tempfile.TemporaryDirectory() as home:
    ...     for number, text in enumerate(["One.", "Two!", "Three?"]):
    ...         _ = pathlib.Path(home, f"part-{number}.jsonl").write_text(json.dumps({"text": text}))
    ...     features = embed_shards(f"{home}/part-*.jsonl", f"{home}/features", embedder=lengths)
    ...     len(features), features.embedder, sorted(path.name for path in pathlib.Path(home, "features").glob("*.npz"))
    (3, 'lengths', ['part-0-00000.npz', 'part-1-00000.npz', 'part-2-00000.npz'])
    """
    whole("rows", rows, least=1)
    path = os.fspath(source)
    names = _find_inputs(path)
    single_embedder(embedder, kind_of(names[0]))  # its errors come before the work begins
    target = make_shard_folder(os.fspath(folder))
    with open_engine(engine) as opened:
        local = isinstance(opened, Threads)
        work = Work(target, embedder, rows, field, skip_bad, limits or Limits(), None if local else os.getcwd())
        stripes = 1 if local else -(-_TASKS // len(names))
        pairs = zip(names, _labels(names), strict=True)
        tasks = [ShardTask(name, label, stripe, stripes) for name, label in pairs for stripe in range(stripes)]
        run, outcomes = partial(embed_shard, work), list[Outcome]()
        # On this machine tasks follow one another, since an embedder uses all processors.
        with bar("embedding", len(tasks)) as show, keep_model({}):
            for outcome in map(run, tasks) if local else opened.map(run, tasks):
                outcomes.append(outcome)
                show(len(outcomes), f"{len(outcomes)}/{len(tasks)} shards")
    _report_faults(outcomes, tasks, path, target)
    written = tuple(sorted({join(target, name) for outcome in outcomes for name in outcome.names}))
    there = sum(len(outcome.names) - outcome.written for outcome in outcomes)
    if there:
        _LOG.info("%s: %d of %d output shards were there already", target, there, len(written))
    shards = find_shards(target, names=written)
    skipped = tuple(entry for outcome in outcomes for entry in outcome.skipped)
    return Samples.trusted(shards=shards, source=target, provenance={"embedder": shards.embedder}, skipped=skipped)


def _find_inputs(source: str) -> tuple[str, ...]:
    """The input shards."""
    path = Path(os.path.expanduser(source))
    if not is_url(source) and path.is_dir() and not holds_shards(path):
        return (str(path),)  # a folder of images
    names = list_shards(source)
    if shard_suffix(names[0]) in (".npy", ".npz", ".safetensors"):
        raise InputError(f"{source}: holds features already. There is nothing to embed.")
    return names


def _labels(names: Sequence[str]) -> list[str]:
    """The beginnings of the names of output shards: the parts in which the names of the inputs differ, without
    suffix."""
    paths = [(name.partition("://")[2] if is_url(name) else name).rstrip("/") for name in names]
    above = os.path.commonpath([os.path.dirname(path) for path in paths])
    relative = [os.path.relpath(path, above or ".") for path in paths]
    labels = [re.sub(r"[^A-Za-z0-9._-]+", "-", name.removesuffix(shard_suffix(name))) for name in relative]
    if len(set(labels)) < len(labels):  # part-0.jsonl and part-0.jsonl.gz
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InputError(
            f"two shards would give output shards of one name, {twice}. Embed them into different folders."
        )
    return labels


def _report_faults(outcomes: Sequence[Outcome], tasks: Sequence[ShardTask], source: str, folder: str) -> None:
    """Raise an InputError if shards could not be embedded."""
    faults = {task.source: outcome.fault for task, outcome in zip(tasks, outcomes, strict=True) if outcome.fault}
    if faults:
        total = len({task.source for task in tasks})
        done = sum(len(outcome.names) for outcome in outcomes)
        first = next(iter(faults.values()))
        end = "" if first.endswith((".", "?")) else "."
        raise InputError(
            f"{source}: {len(faults)} of {total} shards could not be embedded. {first}{end} {done} output shards are "
            f"in {folder}: the same call goes on from there."
        )


_THREAD = threading.local()  # of a worker of an engine: its model stays in memory, since one task follows another


@dataclass(frozen=True, eq=False)
class Work:
    """The common settings of all tasks; small, since each worker gets them."""

    folder: str
    embedder: AnyEmbedder | str | None
    rows: int
    field: str | None
    skip_bad: bool
    limits: Limits
    home: str | None  # of relative paths, on a worker of an engine, which may run elsewhere. None means here

    def locate(self, path: str) -> str:
        """The location of a path or URL of the caller."""
        return path if self.home is None or is_url(path) else os.path.join(self.home, path)


@dataclass(frozen=True)
class ShardTask:
    """One input shard, or every `stripes`-th part of it."""

    source: str
    label: str  # the beginning of the names of its output shards
    stripe: int = 0
    stripes: int = 1

    @property
    def record(self) -> str:
        """The name of the file that marks the task as done; readers of shards ignore it."""
        return f"_{self.label}.{self.stripe}-of-{self.stripes}.json"


@dataclass
class Outcome:
    """The outcome of a task."""

    names: list[str] = field(default_factory=list)  # of output shards, all of them
    written: int = 0  # of these, by this run
    skipped: list[str] = field(default_factory=list)
    fault: str = ""


def kind_of(source: str) -> str:
    """The kind of the samples of an input shard, by its name."""
    return "text" if shard_suffix(source) not in ("", ".tar") else "image"


def shard_kind(source: str | os.PathLike[str]) -> str:
    """The kind of the samples in a folder, a glob or a URL of files: "text" or "image"."""
    return kind_of(_find_inputs(os.fspath(source))[0])


def single_embedder(embedder: AnyEmbedder | str | None, kind: str) -> AnyEmbedder:
    """The embedder that a name stands for. An InputError if it cannot embed each sample by itself."""
    chosen = find_embedder(embedder, kind=kind) if embedder is None or isinstance(embedder, str) else embedder
    if isinstance(chosen, JointEmbedder):
        raise InputError(
            f"`embedder` must embed each sample by itself; {embedder_name(chosen)} embeds all at once. Use another, "
            "such as 'minilm'."
        )
    return chosen


def embed_shard(work: Work, task: ShardTask) -> Outcome:
    """Embed the missing parts of a shard. Errors of the shard are returned, not raised."""
    source, folder, outcome = work.locate(task.source), work.locate(work.folder), Outcome()
    kept = nullcontext() if work.home is None else keep_model(vars(_THREAD).setdefault("model", {}))
    try:
        with kept:
            embedder = single_embedder(work.embedder, kind_of(task.source))
            options = {"rows": work.rows, "field": work.field, "skip_bad": work.skip_bad}
            expected = {"embedder": embedder_name(embedder), **options, "stamp": _stamp(source)}
            record = read_record(join(folder, task.record)) or {}
            there = record.get("names") if all(record.get(key) == value for key, value in expected.items()) else None
            if isinstance(there, list) and there and all(shard_exists(join(folder, str(name))) for name in there):
                return Outcome(there)  # exactly this task is done
            parts = read_parts(source, work.rows, field=work.field, skip_bad=work.skip_bad, limits=work.limits)
            for number, part in enumerate(parts):
                if number % task.stripes == task.stripe:
                    name = f"{task.label}-{number:05d}.npz"
                    first = number * work.rows
                    outcome.written += _embed_part(part, first, embedder, join(folder, name), task.source)
                    outcome.skipped += part.skipped
                    outcome.names.append(name)
            write_record(join(folder, task.record), {**expected, "source": task.source, "names": outcome.names})
    except InputError as error:
        outcome.fault = str(error) if task.source in str(error) else f"{task.source}: {error}"
        if work.home is not None and isinstance(error.__cause__, ImportError):
            outcome.fault = (
                f"{outcome.fault.rstrip('.')}, on all machines of the cluster; {socket.gethostname()} lacks it. Or "
                "pass mallow.Ray(runtime_env={'pip': [...]})"
            )
    return outcome


def _embed_part(part: Samples, first: int, embedder: AnyEmbedder, name: str, source: str) -> int:
    """Write the features of a part, unless they exist: 1 if they were written."""
    total = hashlib.sha256()
    for item in part.items:
        total.update(sample_key(item))
    made_of = {"embedder": embedder_name(embedder), "samples": total.hexdigest()}
    before = read_provenance(name)
    if before is not None:
        if all(before.get(key) == value for key, value in made_of.items()):
            return 0
        other = "by another embedder" if before.get("embedder") != made_of["embedder"] else "of other samples"
        raise InputError(
            f"{name}: holds features {other}. Remove it, or write to another folder: an output shard is never replaced."
        )
    try:
        embedded = embed_samples(part, embedder, cache=None, progress=False)
    except InputError as error:
        raise InputError(f"{source}: samples {first} to {first + len(part) - 1}: {error}") from error.__cause__
    if embedded.embedder != made_of["embedder"]:
        raise InputError(f"{made_of['embedder']}: its weights were changed while they were used. Call it again.")
    features = embedded.require_features()
    digest = hashlib.sha256(features.tobytes()).hexdigest()
    provenance = made_of | {"source": source, "first": first, "n": len(part), "features": digest}
    write_shard(embedded.bare().with_features(features, provenance=provenance), name)
    return 1


def _stamp(source: str) -> list[object]:
    """Size and time of an input shard, or a digest of the names, sizes and times of all files in a folder of images."""
    path = Path(source)
    if not is_url(source) and path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        stamps = [(file.relative_to(path).as_posix(), *stamp_of(str(file))) for file in files]
        return [len(files), hashlib.sha256(ascii(stamps).encode()).hexdigest()[:16]]
    return list(stamp_of(source))
