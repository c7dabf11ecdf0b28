"""Samples in separate files, images and recordings: folders and lists of paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

from mallow._files import files_below
from mallow.errors import InputError
from mallow.samples._audio import AUDIO_SUFFIXES, audio_fault
from mallow.samples._entries import Options, Skips
from mallow.samples._images import IMAGE_SUFFIXES, OTHER_IMAGES, image_fault
from mallow.samples._samples import Samples


class _Medium(NamedTuple):
    """One kind of files."""

    field: str  # of Samples
    noun: str
    suffixes: frozenset[str]
    others: frozenset[str]  # unsupported formats, which are bad entries in a folder of this kind
    fault: Callable[..., str | None]


_MEDIA = (
    _Medium("images", "images", IMAGE_SUFFIXES, OTHER_IMAGES, image_fault),
    _Medium(
        "audio",
        "recordings",
        AUDIO_SUFFIXES,
        frozenset({".mp3", ".ogg", ".m4a", ".aac", ".opus", ".aiff"}),
        audio_fault,
    ),
)
MEDIA_SUFFIXES = IMAGE_SUFFIXES | AUDIO_SUFFIXES


def read_folder(folder: Path, name: str, options: Options) -> Samples:
    """The images or recordings in a folder and its subfolders, sorted by name; ids are the paths inside."""
    files = sorted((path.relative_to(folder).as_posix(), path) for path in files_below(folder))
    entries_of = {
        medium: [(id_, path) for id_, path in files if path.suffix.lower() in medium.suffixes | medium.others]
        for medium in _MEDIA
    }
    entries_of = {medium: entries for medium, entries in entries_of.items() if entries}
    if not entries_of:
        content = ", ".join(id_ for id_, _ in files[:3]) + (", …" if len(files) > 3 else "")
        kinds = " or ".join(f"{medium.noun} ({' '.join(sorted(medium.suffixes))})" for medium in _MEDIA)
        raise InputError(
            f"{name}: a folder must contain {kinds}, or texts (.txt, one text per file), but it contains "
            f"{content or 'no files'}. For other texts or features, pass the path of one file."
        )
    if len(entries_of) > 1:
        counts = " and ".join(f"{len(entries)} {medium.noun}" for medium, entries in entries_of.items())
        raise InputError(f"{name}: a folder must contain samples of one kind, but it contains {counts}. Separate them.")
    (medium, entries), *_ = entries_of.items()
    return _gather(entries, medium, name, options)


def read_media(files: Iterable[tuple[str, object]], name: str, options: Options) -> Samples:
    """The files at some paths, each with its id. The suffix of the first determines their kind."""
    entries = iter(files)
    first = next(entries, None)
    suffix = Path(cast("str", first[1])).suffix.lower() if first and isinstance(first[1], str | os.PathLike) else ""
    medium = next((kind for kind in _MEDIA if suffix in kind.suffixes | kind.others), _MEDIA[0])
    return _gather(entries if first is None else chain([first], entries), medium, name, options)


def _gather(files: Iterable[tuple[str, object]], medium: _Medium, name: str, options: Options) -> Samples:
    ids: list[str] = []
    paths: list[Path] = []
    skips = Skips(options)
    for id_, entry in files:
        fault = medium.fault(entry, decode=options.skip_bad)
        if fault is not None:
            skips.add(str(entry), fault)
            continue
        ids.append(id_)
        paths.append(Path(cast("str", entry)))
        if len(paths) == options.limit:
            break
    if not paths:
        raise skips.nothing_left(name)
    return Samples.trusted(**{medium.field: tuple(paths)}, ids=tuple(ids), source=name, skipped=tuple(skips))
