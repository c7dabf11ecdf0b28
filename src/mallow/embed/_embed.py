"""Samples of any kind become features: embed what the cache does not hold, show progress, keep the provenance."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, cast

import numpy as np

from mallow.embed._cache import Cache, default_cache, sample_key
from mallow.embed._names import named
from mallow.embed._protocol import AnyEmbedder, Embedder, JointEmbedder, Points, Rows, StreamingEmbedder
from mallow.engine import bar
from mallow.errors import InputError
from mallow.samples import Samples, read

__all__ = ["all_features", "features", "name_of", "of_one_kind"]

_FLUSH = 20.0  # seconds: at most so much work is lost when the process is killed


def features(
    samples: object, embedder: AnyEmbedder, *, cache: Cache | str | None = "default", progress: bool | None = None
) -> Samples:
    """The features of texts or images, with their ids, prompts and provenance.

    Parameters
    ----------
    samples : Samples, list, table or path
        Whatever `mallow.read` takes; or anything else that `embedder` takes, if it is a plain function.
    embedder : Embedder or callable
        A plain function is called once with a list of all samples, and nothing is cached. An embedder with a name is
        asked only for what the cache does not hold, and for equal samples once.
    cache : Cache, "default" or None
        "default": `mallow.embed.default_cache`. None: neither look nor keep.
    progress : bool or None
        Show a bar on standard error. None: if that is a terminal.

    Examples
    --------
    >>> texts = ["one two", "three"]
    >>> features(texts, lambda texts: [[len(text)] for text in texts]).features.tolist()
    [[7], [5]]
    """
    given = samples if _is_raw(samples) else read(samples)
    if not isinstance(given, Samples):
        rows = _checked(cast("Callable[[Any], Any]", embedder)(given), len(cast("Sequence[Any]", given)), "samples")
        return Samples("features", rows, source=type(given).__name__, provenance={"embedder": name_of(embedder)})
    if isinstance(embedder, JointEmbedder):
        rows = _checked(embedder.points(given.texts), len(given), given.source)
    elif isinstance(embedder, Embedder):
        kind = getattr(embedder, "kind", given.kind)
        if kind != given.kind:
            raise InputError(f"{given.source} holds {given.kind} samples, and {embedder.name} embeds {kind} samples.")
        store = default_cache() if cache == "default" else cast("Cache | None", cache)
        rows = _with_cache(given, embedder, store, progress)
    else:
        items = given.items if given.kind == "features" else list(given.items)
        rows = _checked(embedder(items), len(given), given.source)
    provenance: dict[str, object] = {"embedder": name_of(embedder), "source": given.source, "n": len(given)}
    return Samples("features", rows, given.ids, given.prompts, given.source, given.skipped, provenance)


def all_features(
    sources: Mapping[str, object], embedder: AnyEmbedder | str | None
) -> tuple[dict[str, Samples | Points], str | None]:
    """The features of several sets of samples by one embedder, and its name; None where the features came without one.

    Sets that are features already stay as they are. Features of two embedders, or samples of two kinds, are refused.
    """
    given, kind = of_one_kind(sources)
    if embedder is None and kind == "features":
        return cast("dict[str, Samples | Points]", given), _same_embedder(given)
    if embedder is None or isinstance(embedder, str):
        embedder = named(embedder, kind=kind)
    if isinstance(embedder, JointEmbedder):
        return _joint(cast("dict[str, Samples]", given), embedder), name_of(embedder)
    found: dict[str, Samples | Points] = {name: features(each, embedder) for name, each in given.items()}
    return found, name_of(embedder)


def of_one_kind(sources: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """Several sets of samples, read where they are not arrays, and their kind: "text", "image" or "features"."""
    given = {name: source if _is_raw(source) else read(source) for name, source in sources.items()}
    kinds = {name: each.kind if isinstance(each, Samples) else "features" for name, each in given.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name or 'reference'}: {kind}" for name, kind in kinds.items())
        raise InputError(f"All samples must be of one kind; got {listed}.")
    return given, next(iter(kinds.values()))


def _same_embedder(given: Mapping[str, object]) -> str | None:
    made = {
        name: str(each.provenance["embedder"])
        for name, each in given.items()
        if isinstance(each, Samples) and each.provenance and "embedder" in each.provenance
    }
    if len(set(made.values())) > 1:
        listed = "; ".join(f"{name or 'reference'} by {embedder}" for name, embedder in made.items())
        raise InputError(f"Features of different embedders cannot be compared: {listed}. Embed all with one.")
    return next(iter(made.values()), None)


def _joint(given: Mapping[str, Samples], embedder: JointEmbedder) -> dict[str, Samples | Points]:
    pooled = embedder.points([text for each in given.values() for text in each.texts])
    ends = np.cumsum([len(each) for each in given.values()])[:-1]
    provenance: dict[str, object] = {"embedder": embedder.name}
    return {
        name: Samples("features", rows, each.ids, each.prompts, each.source, each.skipped, provenance)
        for (name, each), rows in zip(given.items(), np.split(pooled, ends), strict=True)
    }


def name_of(embedder: AnyEmbedder) -> str:
    """The name of an embedder; of a plain function, its own."""
    name = getattr(embedder, "name", None)
    return str(name if isinstance(name, str) else getattr(embedder, "__qualname__", None) or repr(embedder))


def _is_raw(samples: object) -> bool:
    """Whether only the embedder knows what this is: an array, or a list of neither texts nor paths nor records."""
    if isinstance(samples, Samples | str | PathLike) or hasattr(samples, "columns") or hasattr(samples, "column_names"):
        return False
    if hasattr(samples, "to_list") or hasattr(samples, "to_pylist"):  # a column of a table
        return False
    if isinstance(samples, Sequence) and len(samples):
        return not isinstance(samples[0], str | PathLike | Mapping)
    return not isinstance(samples, Iterator)


def _with_cache(samples: Samples, embedder: Embedder, cache: Cache | None, progress: bool | None) -> Points:
    """The rows of all samples, each distinct one embedded at most once."""
    keys = [sample_key(item) for item in cast("Sequence[str]", samples.items)]
    name = embedder.name
    rows = {} if cache is None else cache.found(name, keys)
    first = {key: place for place, key in reversed(list(enumerate(keys))) if key not in rows}
    places = sorted(first.values())
    todo = [samples.items[place] for place in places]
    fresh: list[tuple[bytes, Points]] = []

    def flush() -> None:
        if cache is not None and fresh:
            cache.store(name, [key for key, _ in fresh], np.stack([row for _, row in fresh]))
            fresh.clear()

    flushed = time.monotonic()
    try:
        work = [len(item) + 20 if isinstance(item, str) else 1 for item in todo]  # long texts take longer
        done, spent, start = 0, 0, time.monotonic()
        with bar("embedding", sum(work), wanted=progress) as show:
            for at, part in _parts(embedder, todo) if todo else ():
                part = _checked(part, len(at), samples.source)
                fresh += [(keys[places[i]], part[row]) for row, i in enumerate(at)]
                rows.update(fresh[len(fresh) - len(at) :])
                done, spent = done + len(at), spent + sum(work[i] for i in at)
                rate = done / max(time.monotonic() - start, 1e-9)
                show(spent, f"{done}/{len(todo)} {samples.kind}s, {rate:.{0 if rate > 10 else 1}f}/s")
                if time.monotonic() - flushed > _FLUSH:
                    flush()
                    flushed = time.monotonic()
    finally:
        flush()
    missing = sum(key not in rows for key in keys)
    if missing:
        raise InputError(f"{name} must give features for all {len(keys)} samples; {missing} are missing.")
    widths = {row.shape for row in rows.values()}
    if len(widths) > 1:
        raise InputError(
            f"{name} gives rows of different widths, {sorted(shape[0] for shape in widths)}: two embedders have one "
            "name. Give each its own, and clear the cache: mallow cache clear."
        )
    return np.stack([rows[key] for key in keys])


def _parts(embedder: Embedder, samples: Sequence[Any]) -> Iterator[Rows]:
    if isinstance(embedder, StreamingEmbedder):
        yield from embedder.stream(samples)
    else:
        yield np.arange(len(samples)), np.asarray(embedder(samples))


def _checked(rows: object, n: int, source: str) -> Points:
    array = np.asarray(rows)
    if array.ndim != 2 or len(array) != n:
        raise InputError(f"The embedder must give an array (n, d) of {n} rows for {source}; got shape {array.shape}.")
    if array.dtype.kind not in "biuf":
        raise InputError(f"The embedder must give real numbers for {source}; got dtype {array.dtype}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int((~np.isfinite(array).all(axis=1)).sum())
        raise InputError(f"The embedder gave features that are not finite for {bad} of {n} samples of {source}.")
    return array
