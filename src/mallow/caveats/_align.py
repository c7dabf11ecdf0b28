"""Differences that are unrelated to the model, removed: the same quotation marks, white space, case, lengths, files."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mallow._optional import did_you_mean, optional
from mallow.caveats._media import jpeg_quality
from mallow.errors import InputError
from mallow.samples import Samples

_QUOTES = {"'": "‘’‚‛ʼ´′‹›", '"': "“”„‟″«»", "-": "‐‑‒–—―−", "...": "…"}
_PLAIN = str.maketrans({mark: plain for plain, marks in _QUOTES.items() for mark in marks})
_BEST_QUALITY = 95  # of JPEG files, where no side has a lower one; Pillow advises no higher value

Sets = Mapping[str, Samples]


def align_samples(sets: Sets, names: str | Iterable[str]) -> dict[str, Samples]:
    """The sets of samples, without the differences of these `names`; `ALIGNMENTS` has them.

    Examples
    --------
    >>> sets = {"": Samples(texts=["“Yes,” he said."]), "model": Samples(texts=["No. "])}
    >>> [samples.texts for samples in align_samples(sets, ["quotes", "length"]).values()]
    [('"Yes,"',), ('No. ',)]
    """
    for name in (chosen := chosen_alignments(names)):
        kind = next(iter(sets.values())).kind
        if kind != ALIGNMENTS[name][0]:
            raise InputError(f"`align`: {name!r} is for {ALIGNMENTS[name][0]} samples; got {kind}. Leave it out.")
    if chosen and any(samples.features is not None or samples.shards is not None for samples in sets.values()):
        raise InputError("`align` changes the samples, but these have features already. Pass them without features.")
    aligned = dict(sets)
    for name in chosen:
        aligned = {key: aligned[key].with_items(items) for key, items in ALIGNMENTS[name][1](aligned).items()}
    return aligned


def chosen_alignments(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names, of which "quotes,length" holds two. An InputError for an unknown one."""
    chosen = names.split(",") if isinstance(names, str) else list(names)
    chosen = [name.strip() for name in chosen if str(name).strip()]
    for name in chosen:
        if name not in ALIGNMENTS:
            hint = did_you_mean(str(name), ALIGNMENTS)
            raise InputError(f"`align` must contain names of {', '.join(ALIGNMENTS)}; got {name!r}.{hint}")
    return tuple(dict.fromkeys(chosen))


def _each_text(change: Callable[[str], str]) -> Callable[[Sets], dict[str, list[str]]]:
    """An alignment that changes each text by itself; a text of which nothing would be left stays."""
    return lambda sets: {
        name: [change(text) or text for text in samples.require_texts()] for name, samples in sets.items()
    }


def _common_lengths(sets: Sets) -> dict[str, list[str]]:
    """The texts, each cut to the fewest words that the text of its rank has in any set.

    Afterwards lengths have the same distribution in all sets. Where that was so before, no text is cut.
    """
    texts = {name: samples.require_texts() for name, samples in sets.items()}
    lengths = {name: np.array([len(text.split()) for text in of_set]) for name, of_set in texts.items()}
    ordered = [np.sort(counts) for counts in lengths.values()]
    aligned = {}
    for name, counts in lengths.items():
        levels = np.empty(len(counts))
        levels[np.argsort(counts, kind="stable")] = (np.arange(len(counts)) + 0.5) / len(counts)
        shortest = np.min([others[(levels * len(others)).astype(np.int64)] for others in ordered], axis=0)
        aligned[name] = [
            _first_words(text, int(count)) for text, count in zip(texts[name], np.maximum(shortest, 1), strict=True)
        ]
    return aligned


def _first_words(text: str, count: int) -> str:
    """The beginning of a text with so many words."""
    parts = text.split(maxsplit=count)
    return text if len(parts) <= count else text[: text.rindex(parts[count])].rstrip()


def _common_files(sets: Sets) -> dict[str, list[Path]]:
    """The images as RGB in JPEG files of one size and one quality: the smallest and the lowest of any set.

    The files are removed when the program ends.
    """
    pillow: Any = optional("PIL.Image", extra="images")
    sizes, qualities = [], [float(_BEST_QUALITY)]
    for samples in sets.values():
        headers = [_size_and_quality(path, pillow) for path in samples.require_images()]
        sizes.append(np.median([size for size, _ in headers], axis=0))
        known = [quality for _, quality in headers if quality is not None]
        qualities += [float(np.median(known))] if len(known) > len(headers) / 2 else []
    size = min(tuple(np.rint(size).astype(int).tolist()) for size in sizes)
    folder = Path(tempfile.mkdtemp(prefix="mallow-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    aligned: dict[str, list[Path]] = {}
    for place, (name, samples) in enumerate(sets.items()):
        aligned[name] = []
        for number, path in enumerate(samples.require_images()):
            aligned[name].append(folder / f"{place}-{number:06d}.jpg")
            with pillow.open(path) as image:
                changed = image.convert("RGB")
                changed = changed if changed.size == size else changed.resize(size, pillow.Resampling.BICUBIC)
            changed.save(aligned[name][-1], quality=round(min(qualities)))
    return aligned


def _size_and_quality(path: Path, pillow: Any) -> tuple[tuple[int, int], float | None]:
    with pillow.open(path) as image:
        tables = getattr(image, "quantization", None)
        return image.size, jpeg_quality(tables[min(tables)]) if tables else None


# Name → the kind of samples, a function that returns the aligned items of each set, and what is then the same.
ALIGNMENTS: dict[str, tuple[str, Callable[[Sets], Mapping[str, Any]], str]] = {
    "quotes": ("text", _each_text(lambda text: text.translate(_PLAIN)), "quotation marks and dashes"),
    "space": ("text", _each_text(lambda text: " ".join(text.split())), "white space"),
    "case": ("text", _each_text(str.lower), "letter case"),
    "length": ("text", _common_lengths, "lengths"),
    "format": ("image", _common_files, "file format, size and compression"),
}
"""The differences that can be removed."""

REMOVED_BY: dict[str, tuple[str, ...]] = {
    "length": ("length",),
    "truncation": ("length",),
    "space": ("space",),
    "case": ("case",),
    "characters": ("quotes", "space"),
    **dict.fromkeys(("format", "size", "mode", "compression"), ("format",)),
}
"""The kind of a caveat → the alignments that may remove its difference."""
