"""One shard on a worker: its samples are embedded a part at a time, and each part is written once."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mallow.embed._cache import sample_key
from mallow.embed._embed import embed_samples, embedder_name
from mallow.embed._names import find_embedder
from mallow.embed._protocol import AnyEmbedder, JointEmbedder
from mallow.errors import InputError
from mallow.models import keep_model
from mallow.samples import (
    Limits,
    Samples,
    is_url,
    join,
    read_parts,
    read_provenance,
    read_record,
    shard_exists,
    shard_suffix,
    stamp_of,
    write_record,
    write_shard,
)

_THREAD = threading.local()  # of a worker of an engine: its model stays in memory, since one task follows another


@dataclass(frozen=True, eq=False)
class Work:
    """What is to be done with every shard; small, since each worker gets it."""

    folder: str
    embedder: AnyEmbedder | str | None
    rows: int
    field: str | None
    skip_bad: bool
    limits: Limits
    home: str | None  # of relative paths, on a worker of an engine, which may run elsewhere; None: here

    def locate(self, path: str) -> str:
        """Where a path or URL of the caller is."""
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
        """The name of the file that says that the task is done; readers of shards ignore it."""
        return f"_{self.label}.{self.stripe}-of-{self.stripes}.json"


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    names: tuple[str, ...] = ()  # of output shards, all of them
    written: int = 0  # of these, by this run
    skipped: tuple[str, ...] = ()
    fault: str = ""


def kind_of(source: str) -> str:
    """The kind of the samples of an input shard, by its name."""
    return "text" if shard_suffix(source) not in ("", ".tar") else "image"


def single_embedder(embedder: AnyEmbedder | str | None, kind: str) -> AnyEmbedder:
    """The embedder that a name stands for; an InputError if it cannot embed each sample by itself."""
    chosen = find_embedder(embedder, kind=kind) if embedder is None or isinstance(embedder, str) else embedder
    if isinstance(chosen, JointEmbedder):
        raise InputError(
            f"`embedder` must embed each sample by itself; {embedder_name(chosen)} embeds all at once. Use another, such as "
            "'minilm'."
        )
    return chosen


def embed_shard(work: Work, task: ShardTask) -> Outcome:
    """Embed the parts of a shard that are not there yet. What is wrong with the shard is returned, not raised."""
    if work.home is None:
        return _embed_parts(work, task)
    if not hasattr(_THREAD, "model"):
        _THREAD.model = {}
    with keep_model(_THREAD.model):
        return _embed_parts(work, task)


def _embed_parts(work: Work, task: ShardTask) -> Outcome:
    folder = work.locate(work.folder)
    names: list[str] = []
    skipped: list[str] = []
    written = 0
    try:
        embedder = single_embedder(work.embedder, kind_of(task.source))
        expected = {
            "embedder": embedder_name(embedder),
            "rows": work.rows,
            "field": work.field,
            "skip_bad": work.skip_bad,
            "stamp": _stamp(work.locate(task.source)),
        }
        there = _names_of_finished(join(folder, task.record), expected)
        if there and all(shard_exists(join(folder, name)) for name in there):
            return Outcome(there)
        for first, part in _numbered_parts(work, task):
            name = f"{task.label}-{first // work.rows:05d}.npz"
            written += _embed_part(part, first, embedder, join(folder, name), task.source)
            skipped += part.skipped
            names.append(name)
        write_record(join(folder, task.record), {**expected, "source": task.source, "names": names})
    except InputError as error:
        fault = str(error) if task.source in str(error) else f"{task.source}: {error}"
        if work.home is not None and isinstance(error.__cause__, ImportError):
            fault = (
                f"{fault.rstrip('.')}, on all machines of the cluster; {socket.gethostname()} lacks it. Or pass "
                "mallow.Ray(runtime_env={'pip': [...]})"
            )
        return Outcome(tuple(names), written, tuple(skipped), fault)
    return Outcome(tuple(names), written, tuple(skipped))


def _names_of_finished(record: str, expected: dict[str, object]) -> tuple[str, ...]:
    """The output shards of a task, if a record says that this very task is done."""
    values = read_record(record) or {}
    names = values.get("names")
    if not isinstance(names, list) or any(values.get(key) != value for key, value in expected.items()):
        return ()
    return tuple(map(str, names))


def _numbered_parts(work: Work, task: ShardTask) -> Iterator[tuple[int, Samples]]:
    """The parts of a task, each with the place of its first sample in the shard."""
    source = work.locate(task.source)
    parts = read_parts(source, work.rows, field=work.field, skip_bad=work.skip_bad, limits=work.limits)
    for number, part in enumerate(parts):
        if number % task.stripes == task.stripe:
            yield number * work.rows, part


def _embed_part(part: Samples, first: int, embedder: AnyEmbedder, name: str, source: str) -> int:
    """Write the features of a part, unless they are there: 1 if they were written."""
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
    features = embedded.require_features()
    digest = hashlib.sha256(features.tobytes()).hexdigest()
    provenance = made_of | {"source": source, "first": first, "n": len(part), "features": digest}
    write_shard(_replace_provenance(embedded, provenance), name)
    return 1


def _replace_provenance(samples: Samples, provenance: dict[str, object]) -> Samples:
    """The features, ids and prompts with another provenance."""
    return samples.bare().with_features(samples.require_features(), provenance=provenance)


def _stamp(source: str) -> list[object]:
    """Size and time of an input shard; of a folder of images, those of all files."""
    path = Path(source)
    if not is_url(source) and path.is_dir():
        every = [file.stat() for file in sorted(path.rglob("*")) if file.is_file()]
        return [sum(status.st_size for status in every), str(max((status.st_mtime_ns for status in every), default=0))]
    return list(stamp_of(source))
