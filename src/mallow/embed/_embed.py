"""Adds features to samples of any kind; samples that are not in the cache are embedded, with a progress bar."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from mallow._files import file_stamp
from mallow.embed._cache import Cache, default_cache, sample_key
from mallow.embed._names import find_embedder
from mallow.embed._protocol import AnyEmbedder, Embedder, JointEmbedder, Points, Rows
from mallow.embed._style import Style, style
from mallow.embed._texture import Texture, texture
from mallow.engine import bar, expect
from mallow.errors import Caveat, InputError
from mallow.samples import Samples, read, read_provenance, shard_suffix

_FLUSH = 20.0  # seconds; chosen: at most this much work is lost when the process is killed
_NAMELESS = ("samples", "list", "tuple", "ndarray")  # sources without a meaning for people
UNMATCHED = 0.05  # chosen: share of prompts that may lack a partner, since most files miss a few samples
_LONGEST = 30  # characters of a name beside a bar


def embed_samples(
    samples: object, embedder: AnyEmbedder | str, *, cache: Cache | str | None = "default", progress: bool | None = None
) -> Samples:
    """The same samples with their features and with the name of the embedder.

    Parameters
    ----------
    samples : Samples, list, table or path
        Whatever `mallow.read` takes; or anything else that `embedder` takes, if it is a plain function.
    embedder : Embedder, callable or str
        A plain function is called once with a list of all samples, and nothing is cached. An embedder with a name
        gets only samples that are not in the cache, and equal samples once. A str is a name of
        `mallow.embed.find_embedder`.
    cache : Cache, "default" or None
        "default" is `mallow.embed.default_cache`. None disables the cache.
    progress : bool or None
        Whether to show a progress bar on standard error. None: only on a terminal.

    Examples
    --------
    >>> embedded = embed_samples(["one two", "three"], lambda texts: [[len(text)] for text in texts])
    >>> embedded.texts, embedded.features.tolist()
    (('one two', 'three'), [[7], [5]])
    """
    if isinstance(embedder, str):
        samples = read(samples)
        embedder = find_embedder(embedder, kind=samples.kind)
    if _is_foreign(samples):
        rows = _checked(cast("Callable[[Any], Any]", embedder)(samples), len(cast("Sequence[Any]", samples)), "samples")
        provenance: dict[str, object] = {"embedder": embedder_name(embedder)}
        return Samples.trusted(features=rows, source=type(samples).__name__, provenance=provenance)
    loaded = read(samples).load()
    if isinstance(embedder, JointEmbedder):
        return _embed_jointly({"": loaded}, embedder)[""]
    return _embed_set(loaded, embedder, cache, progress)


def _embed_set(
    samples: Samples,
    embedder: Embedder | Callable[[Any], Any],
    cache: Cache | str | None = "default",
    progress: bool | None = None,
) -> Samples:
    """The result of `embed_samples` for samples in memory."""
    if isinstance(embedder, Embedder):
        kind = getattr(embedder, "kind", samples.kind)
        if kind != samples.kind:
            raise InputError(
                f"{samples.source} holds {samples.kind} samples, but {embedder.name} embeds {kind} samples."
            )
        wanted = cache if getattr(embedder, "cached", True) else None
        store = default_cache() if wanted == "default" else cast("Cache | None", wanted)
        name = embedder.name
        rows = _embed_with_cache(samples, embedder, name, store, progress)
    else:
        plain = samples.items if samples.kind == "features" else list(samples.items)
        rows, name = _checked(embedder(plain), len(samples), samples.source), embedder_name(embedder)
    provenance = {"embedder": name, "source": samples.source, "n": len(samples)}
    if not getattr(embedder, "published", True):
        provenance["published"] = False
    return samples.with_features(rows, provenance=provenance, caveats=_caveats(embedder, samples))


def embed_all(
    sources: Mapping[str, object],
    embedder: AnyEmbedder | str | None = None,
    *,
    lazy: bool = False,
    paired: bool = False,
    prompts: str | None = None,
) -> dict[str, Samples]:
    """Several sets of samples with their features, all by one embedder.

    Without an `embedder`, sets that have features already do not change. Features of two embedders, or samples of
    two kinds, are an error. With `lazy`, features in shards are not read. With `paired`, row i of all sets belongs
    together. With `prompts`, "joint" or "ignore", texts and images also get the spaces of `add_spaces`.
    """
    sets = read_all(sources, embedder, lazy=lazy, paired=paired)
    embedder = resolve_embedder(sets, embedder)
    if isinstance(embedder, JointEmbedder):
        sets = _embed_jointly(sets, embedder)
    elif embedder is not None:
        name = embedder_name(embedder)  # `read_all` has embedded samples without items already
        todo = {key for key, samples in sets.items() if samples.kind != "features" or samples.embedder != name}
        expect("embedding", times=len(todo))
        sets = {key: _embed_set(samples, embedder) if key in todo else samples for key, samples in sets.items()}
        _refuse_two_embedders(sets)  # the weights may have been replaced meanwhile
    return sets if prompts is None else add_spaces(sets, embedder, prompts=prompts)


def add_spaces(sets: Mapping[str, Samples], embedder: AnyEmbedder | None, *, prompts: str) -> dict[str, Samples]:
    """Sets of texts or images, the reference first, with the additional spaces that evidence uses.

    Texts get their style. With ``prompts="joint"``, a set with the prompts of the reference also gets the features
    of the prompts and two measures of agreement between text and prompt: the cosines of their features and of their
    styles. Images get their texture, if their files are there and Pillow is installed.
    """
    check_prompts(prompts)
    first = next(iter(sets.values()))
    shown = {id(samples): samples for samples in sets.values() if samples.texts is not None}
    spaces: dict[int, dict[str, Points]] = {}
    if not _is_style(embedder, first):
        spaces = {key: {"style": style(samples.require_texts())} for key, samples in shown.items()}
    if not isinstance(embedder, Texture) and importlib.util.find_spec("PIL") is not None:
        for samples in sets.values():
            if samples.images is not None and all(path.is_file() for path in samples.images):
                spaces[id(samples)] = {"texture": _embed_set(samples, texture).require_features()}
    if (
        prompts == "joint"
        and id(first) in shown
        and any(shares_prompts(first, other) for other in list(sets.values())[1:])
    ):
        known: dict[tuple[str, ...], tuple[Points | None, Points | None]] = {}
        for key, samples in shown.items():
            if shares_prompts(first, samples):
                styles = spaces.get(key, {}).get("style")
                spaces.setdefault(key, {}).update(_prompt_spaces(samples, styles, embedder, known))
    return {
        name: samples.with_spaces({**spaces[id(samples)], **(samples.spaces or {})})  # spaces of the user first
        if id(samples) in spaces
        else _doubt_shards(samples)
        for name, samples in sets.items()
    }


def _is_style(embedder: AnyEmbedder | None, samples: Samples) -> bool:
    """Whether the features of samples are their style."""
    return isinstance(embedder, Style) or (embedder is None and samples.embedder == style.name)


def check_prompts(prompts: str) -> None:
    """Raise an InputError for an unknown value of `prompts`."""
    if prompts not in ("joint", "ignore"):
        raise InputError(f'`prompts` must be "joint" or "ignore"; got {prompts!r}.')


def _doubt_shards(samples: Samples) -> Samples:
    """Shards of the features of texts get a caveat. Others stay as they are."""
    name = "" if samples.shards is None else samples.shards.shards[0].name
    source = (read_provenance(name) or {}).get("source") if name.lower().endswith(".npz") else None
    if source is None or shard_suffix(str(source)) in ("", ".tar"):  # a folder or an archive of images
        return samples
    message = (
        "evidence looks at the embedder's features only: neither at the style of the texts nor at their prompts, which "
        "are not read with the features. Where the texts fit the memory, pass the texts themselves."
    )
    return Samples.trusted(**vars(samples) | {"caveats": (*samples.caveats, Caveat("features alone", message))})


def spaces_of_texts(samples: Samples, embedder: AnyEmbedder | None, *, prompts: bool) -> dict[str, Points]:
    """The spaces of texts that have features: their style and, with `prompts`, their agreement with their prompts."""
    if samples.texts is None:
        return {}
    spaces = {} if _is_style(embedder, samples) else {"style": style(samples.texts)}
    if prompts and samples.prompts is not None:
        made = _prompt_spaces(samples, spaces.get("style"), embedder, {})
        spaces |= {name: rows for name, rows in made.items() if name == "prompts"}
    return spaces


def shares_prompts(reference: Samples, model: Samples) -> bool:
    """Whether both sides answer the same prompts, more than one. A few may be missing on either side."""
    if reference.prompts is None or model.prompts is None:
        return False
    sides = set(reference.prompts), set(model.prompts)
    shared = len(sides[0] & sides[1])
    return shared > 1 and shared >= (1.0 - UNMATCHED) * max(map(len, sides))


def _prompt_spaces(
    samples: Samples,
    styles: Points | None,
    embedder: AnyEmbedder | None,
    known: dict[tuple[str, ...], tuple[Points | None, Points | None]],
) -> dict[str, Points]:
    """The features of each sample's prompt, if the embedder can make them, and the agreement of its text with it.

    `known` keeps the features and the styles of prompts for sets that have the same ones.
    """
    distinct = {prompt: place for place, prompt in enumerate(dict.fromkeys(samples.prompts or ()))}
    rows = np.array([distinct[prompt] for prompt in samples.prompts or ()])
    prompts, features = tuple(distinct), samples.features
    if prompts not in known:
        asked = Samples.trusted(texts=prompts, source=f"prompts of {samples.source}")
        embeds = isinstance(embedder, Embedder) and features is not None
        known[prompts] = (
            _embed_set(asked, cast("Embedder", embedder)).require_features() if embeds else None,
            None if styles is None else style(prompts),
        )
    of_prompts, styles_of_prompts = known[prompts]
    spaces, agreement = {}, []
    if of_prompts is not None and features is not None:
        spaces["prompt"] = of_prompts[rows]
        agreement.append(_cosines(features, spaces["prompt"]))
    if styles is not None and styles_of_prompts is not None:
        agreement.append(_cosines(styles, styles_of_prompts[rows]))
    if agreement:
        spaces["prompts"] = np.stack(agreement, axis=1)
    return spaces


def _cosines(first: Points, second: Points) -> Points:
    """The cosine of each row of one table with the same row of the other; 0 if one of them is 0."""
    a, b = (rows.astype(np.float64) for rows in (first, second))
    lengths = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    cosines: Points = np.divide((a * b).sum(axis=1), lengths, out=np.zeros(len(a)), where=lengths > 0)
    return cosines


def read_all(
    sources: Mapping[str, object],
    embedder: AnyEmbedder | str | None = None,
    *,
    lazy: bool = False,
    paired: bool = False,
) -> dict[str, Samples]:
    """Several sets of samples of one kind, each read once. Samples that only the embedder can read are embedded at
    once.

    Features in shards are read, unless `lazy`. With `paired`, row i of all sets belongs together.
    """
    sets = _read_each(sources, embedder, lazy=lazy)
    return _pair_rows(sets) if paired else sets


def _pair_rows(sets: Mapping[str, Samples]) -> dict[str, Samples]:
    """The sets with ids that link row i of each to row i of the others."""
    for name, samples in sets.items():
        if samples.unit_kind is not None:
            raise InputError(
                f"`paired` says that row i belongs to row i, but {name or 'reference'} has {samples.unit_kind}s, which "
                "already say what belongs together. Leave out `paired`, or remove them."
            )
    sizes = {name or "reference": len(samples) for name, samples in sets.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise InputError(f"`paired` needs sets of equal length; got {listed}. Give the samples ids or prompts instead.")
    return {name: samples.with_row_ids() for name, samples in sets.items()}


def _read_each(sources: Mapping[str, object], embedder: AnyEmbedder | str | None, *, lazy: bool) -> dict[str, Samples]:
    function = None if embedder is None or isinstance(embedder, str | JointEmbedder) else embedder
    foreign = {name for name, source in sources.items() if function is not None and _is_foreign(source)}
    sets = {}
    for name, source in sources.items():
        try:
            if name not in foreign:
                sets[name] = read(source)
        except InputError as error:
            if isinstance(source, str | PathLike):
                raise
            raise InputError(f"{name or 'reference'}: {error}") from None  # lists and arrays have no name
    if not lazy or embedder is not None:
        sets = {name: samples.load() for name, samples in sets.items()}
    kinds = {name: "features" if name in foreign else sets[name].kind for name in sources}
    if embedder is None and all(map(_has_features, sets.values())):
        return (
            sets if len(set(kinds.values())) == 1 else {name: samples.load().bare() for name, samples in sets.items()}
        )
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name or 'reference'}: {kind}" for name, kind in kinds.items())
        raise InputError(f"All samples must be of one kind; got {listed}.")
    if function is not None:
        sets |= {name: embed_samples(sources[name], function) for name in foreign}
    return {name: sets[name] for name in sources}


def resolve_embedder(sets: Mapping[str, Samples], embedder: AnyEmbedder | str | None) -> AnyEmbedder | None:
    """The embedder of this name; None if all sets have features and no embedder is requested."""
    if embedder is None and all(map(_has_features, sets.values())):
        _refuse_two_embedders(sets)
        return None
    if embedder is None or isinstance(embedder, str):
        return find_embedder(embedder, kind=next(iter(sets.values())).kind)
    return embedder


def _has_features(samples: Samples) -> bool:
    return samples.features is not None or samples.shards is not None


def embedder_name(embedder: AnyEmbedder) -> str:
    """The name of an embedder; for a plain function, its own."""
    name = getattr(embedder, "name", None)
    return str(name if isinstance(name, str) else getattr(embedder, "__qualname__", None) or repr(embedder))


def _refuse_two_embedders(sets: Mapping[str, Samples]) -> None:
    names = {name: samples.embedder for name, samples in sets.items() if samples.embedder is not None}
    if len(set(names.values())) > 1:
        listed = "; ".join(f"{name or 'reference'} by {embedder}" for name, embedder in names.items())
        raise InputError(f"Features of different embedders cannot be compared: {listed}. Embed all with one.")


def _embed_jointly(sets: Mapping[str, Samples], embedder: JointEmbedder) -> dict[str, Samples]:
    pooled = np.asarray(embedder.points([text for samples in sets.values() for text in samples.require_texts()]))
    ends = np.cumsum([len(samples) for samples in sets.values()])[:-1]
    parts = zip(sets.items(), np.split(pooled, ends), strict=True)
    return {
        name: samples.with_features(
            _checked(rows, len(samples), samples.source),
            provenance={"embedder": embedder.name, "kernel": True},
            caveats=_caveats(embedder, samples),
        )
        for (name, samples), rows in parts
    }


def _caveats(embedder: AnyEmbedder, samples: Samples) -> tuple[Caveat, ...]:
    """The embedder's own caveats about these samples, if it has any."""
    opinion = getattr(embedder, "caveats", None)
    return tuple(opinion(samples.items)) if callable(opinion) else ()


def _is_foreign(samples: object) -> bool:
    """Whether only the embedder can read this: an array, or a list of neither texts nor paths nor records."""
    if isinstance(samples, Samples | str | PathLike) or hasattr(samples, "columns") or hasattr(samples, "column_names"):
        return False
    if hasattr(samples, "to_list") or hasattr(samples, "to_pylist"):  # a column of a table
        return False
    if isinstance(samples, Sequence) and len(samples):
        return not isinstance(samples[0], str | PathLike | Mapping)
    sized = isinstance(samples, Sized) and getattr(samples, "ndim", 1) > 0  # an array with no axis has no length
    return sized and not isinstance(samples, Iterator | Mapping | bytes | bytearray)


def _embed_with_cache(
    samples: Samples, embedder: Embedder, name: str, cache: Cache | None, progress: bool | None
) -> Points:
    """The rows of all samples, each distinct one embedded at most once, by the embedder while it has this name.

    The name identifies the weights on the disk. If it has changed, nothing is stored under it.
    """

    def stamp_of(item: object) -> tuple[int, ...] | None:
        """What shows that a file has changed since its key was made; None for a text."""
        return file_stamp(item) if isinstance(item, PathLike) and os.path.exists(item) else None

    stamps = [stamp_of(item) for item in samples.items]
    keys = [sample_key(item) for item in samples.items]
    rows = {} if cache is None else cache.load(name, keys)
    first = {key: place for place, key in reversed(list(enumerate(keys))) if key not in rows}
    places = sorted(first.values())
    fresh: list[tuple[bytes, Points]] = []

    def flush() -> None:
        if cache is not None and fresh and embedder.name == name:
            cache.store(name, [key for key, _ in fresh], np.stack([row for _, row in fresh]))
            fresh.clear()

    flushed = time.monotonic()
    try:
        for at, part in _with_progress(embedder, [samples.items[place] for place in places], samples, progress):
            for place in (places[i] for i in at):
                if stamp_of(samples.items[place]) != stamps[place]:
                    raise InputError(f"{samples.items[place]}: was changed while it was embedded. Embed it again.")
            fresh += [(keys[places[i]], part[row]) for row, i in enumerate(at)]
            rows.update(fresh[len(fresh) - len(at) :])
            if time.monotonic() - flushed > _FLUSH:
                flush()
                flushed = time.monotonic()
    finally:
        flush()
    if places and embedder.name != name:
        raise InputError(f"{name}: its weights were changed while they were used. Embed the samples again.")
    missing = sum(key not in rows for key in keys)
    if missing:
        raise InputError(f"{name} must return features for all {len(keys)} samples; {missing} are missing.")
    widths = {row.shape for row in rows.values()}
    if len(widths) > 1:
        raise InputError(
            f"{name} returns rows of different widths, {sorted(shape[0] for shape in widths)}: two embedders share one "
            "name. Give each its own, and clear the cache: mallow cache clear."
        )
    return np.stack([rows[key] for key in keys])


def _with_progress(embedder: Embedder, todo: list[Any], samples: Samples, progress: bool | None) -> Iterator[Rows]:
    """Checked parts of the features, as the embedder yields them, with a progress bar."""
    if not todo:
        return
    work = [len(item) + 20 if isinstance(item, str) else 1 for item in todo]  # long texts take longer
    done, spent, start = 0, 0, time.monotonic()
    name = "" if samples.source in _NAMELESS else f"{Path(samples.source).name[-_LONGEST:]}: "
    stream = getattr(embedder, "stream", None)
    with bar("embedding", sum(work), wanted=progress) as show:
        for at, part in [(np.arange(len(todo)), embedder(todo))] if stream is None else stream(todo):
            yield at, _checked(part, len(at), samples.source)
            done, spent = done + len(at), spent + sum(work[i] for i in at)
            rate = done / max(time.monotonic() - start, 1e-9)
            show(spent, f"{name}{done}/{len(todo)} {samples.kind}s, {rate:.{0 if rate > 10 else 1}f}/s")


def _checked(rows: object, n: int, source: str) -> Points:
    try:
        array = np.asarray(rows)
    except ValueError:  # rows of different lengths
        raise InputError(
            f"The embedder must return rows of equal length for {source}, but it returns a ragged list."
        ) from None
    if array.ndim != 2 or len(array) != n:
        raise InputError(f"The embedder must return an array (n, d) of {n} rows for {source}; got shape {array.shape}.")
    if array.dtype.kind not in "biuf":
        raise InputError(f"The embedder must return real numbers for {source}; got dtype {array.dtype}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int((~np.isfinite(array).all(axis=1)).sum())
        raise InputError(f"The embedder returned features that are not finite for {bad} of {n} samples of {source}.")
    return array
