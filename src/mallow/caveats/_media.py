"""Checks of image files and recordings by their headers: copies, formats, sizes, rates, compression, durations."""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mallow._optional import install_line, optional
from mallow.caveats._counts import (
    Numbers,
    SampleKeys,
    copy_caveats,
    count_independent,
    quantiles_differ,
    share_caveat,
    shares_differ,
    skipped_caveats,
)
from mallow.errors import Caveat, InputError
from mallow.samples import Samples, read_audio_header

_SAME_FORMAT = {".jpeg": ".jpg", ".tiff": ".tif"}
# Mean of the example luminance table of the JPEG standard (ITU-T T.81, Annex K), which is quality 50.
_LUMA_MEAN = 57.625
_PHRASES = {
    "format": "are {} files",
    "size": "measure {} pixels",
    "mode": "are in mode {}",
    "rate": "have {} values per second",
    "channels": "have {} channels",
}
_MEDIANS = {
    "pixels": ("size", "the median length of the shorter side is {:.0f} pixels (reference: {:.0f})"),
    "quality": ("compression", "the median JPEG quality is about {:.0f} (reference: about {:.0f})"),
    "seconds": ("duration", "the median duration is {:.3g} s (reference: {:.3g} s; quantiles differ)"),
}
_ADVICE = {
    "format": "Save both sides in the same lossless format.",
    "size": "Resize both sides to the same size with the same filter.",
    "mode": "Convert both sides to the same mode, such as RGB.",
    "compression": "Compress both sides in the same way, or preferably not at all.",
    "rate": "Resample both sides to the same rate.",
    "channels": "Mix both sides to the same number of channels.",
    "duration": "Cut both sides to the same duration.",
}


@dataclass(frozen=True)
class _ImageHeader:
    """The contents of an image's header; if it could not be read, only the format, by the name of the file."""

    format: str
    size: tuple[int, int] | None = None
    mode: str | None = None
    quality: float | None = None  # of JPEG files


@dataclass(frozen=True, eq=False)
class _FileCounts:
    """Counts over the headers of one set of files."""

    independent: int
    labels: dict[str, Counter[str]]  # how many files have each format, size, mode, rate
    numbers: dict[str, Numbers]  # sorted: pixels of the shorter side, JPEG quality, seconds
    keys: SampleKeys
    unread: int = 0  # images whose header could not be read


def audio_caveats(sets: Sequence[tuple[str, Samples]]) -> Iterator[Caveat]:
    """Caveats about sets of recordings, the first of which is the reference."""
    counts = [_count_recordings(samples) for _, samples in sets]
    for index in range(len(sets)):
        yield from _file_caveats(sets, counts, index, "recordings")


def image_caveats(sets: Sequence[tuple[str, Samples]]) -> Iterator[Caveat]:
    """Caveats about sets of images, the first of which is the reference."""
    sizes = Counter(_file_size(path) for _, samples in sets for path in samples.require_images())
    shared_sizes = {size for size, count in sizes.items() if count > 1}
    pillow = optional("PIL.Image", extra="images") if importlib.util.find_spec("PIL") is not None else None
    counts = [_count_images(samples, shared_sizes, pillow) for _, samples in sets]
    for index, (name, _) in enumerate(sets):
        yield from _file_caveats(sets, counts, index, "images")
        if pillow is not None or not index:
            yield from _unread_caveats(name, counts[index], pillow)


def _file_caveats(
    sets: Sequence[tuple[str, Samples]], counts: Sequence[_FileCounts], index: int, noun: str
) -> Iterator[Caveat]:
    """Caveats about the set with this index: files left out, copies, and what differs from the reference."""
    name, samples = sets[index]
    keys = [(other, count.keys) for (other, _), count in zip(sets, counts, strict=True)]
    yield from skipped_caveats(name, samples)
    yield from copy_caveats(keys[: index + 1], noun)
    if index:
        yield from _label_caveats(name, counts[index], counts[0], noun)
        yield from _number_caveats(name, counts[index], counts[0])


def _count_recordings(samples: Samples) -> _FileCounts:
    paths = samples.require_audio()
    headers = [read_audio_header(path) for path in paths]
    labels = {
        "format": Counter(path.suffix.lower() for path in paths),
        "rate": Counter(str(header.rate) for header in headers),
        "channels": Counter(str(header.channels) for header in headers),
    }
    keys = []
    for path in paths:
        with path.open("rb") as stream:
            keys.append(hashlib.file_digest(stream, "sha256").digest())
    seconds = {"seconds": np.sort(np.array([header.seconds for header in headers]))}
    return _FileCounts(count_independent(samples), labels, seconds, SampleKeys.count(keys, lambda row: paths[row].name))


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: the image cannot be read: {error.strerror}.") from error


def _count_images(samples: Samples, shared_sizes: set[int], pillow: Any) -> _FileCounts:
    paths = samples.require_images()
    keys, headers = [], []
    with warnings.catch_warnings():
        if pillow is not None:
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # very large images are legal
        for path in paths:
            key, header = _inspect_file(path, shared_sizes, pillow)
            keys.append(key)
            headers.append(header)
    labels = {
        "format": [header.format for header in headers],
        "size": ["{}×{}".format(*header.size) for header in headers if header.size is not None],
        "mode": [header.mode for header in headers if header.mode is not None],
    }  # of two equal differences, the last label in alphabetical order is reported
    shorter = [min(header.size) for header in headers if header.size is not None]
    quality = [header.quality for header in headers if header.quality is not None]
    return _FileCounts(
        count_independent(samples),
        {kind: Counter(sorted(values, reverse=True)) for kind, values in labels.items()},
        {"pixels": np.sort(np.array(shorter, np.float64)), "quality": np.sort(np.array(quality, np.float64))},
        unread=len(paths) - len(shorter),
        keys=SampleKeys.count(keys, lambda row: paths[row].name),
    )


def _inspect_file(path: Path, shared_sizes: set[int], pillow: Any) -> tuple[Hashable, _ImageHeader]:
    """A key that equal files share, and the header. The file is opened once at most.

    A file whose size no other file has cannot be a copy: its size is the key.
    """
    size = _file_size(path)
    suffix = path.suffix.lower()
    key: Hashable = size
    header = _ImageHeader(_SAME_FORMAT.get(suffix, suffix))
    if pillow is not None or size in shared_sizes:
        with path.open("rb") as stream:
            if size in shared_sizes:
                key = size, hashlib.file_digest(stream, "sha256").digest()
                stream.seek(0)
            if pillow is not None:
                header = _read_header(stream, pillow) or header
    return key, header


def _read_header(stream: BinaryIO, pillow: Any) -> _ImageHeader | None:
    try:
        with pillow.open(stream) as image:
            tables = getattr(image, "quantization", None)
            quality = jpeg_quality(tables[min(tables)]) if tables else None
            return _ImageHeader(str(image.format), tuple(image.size), str(image.mode), quality)
    except Exception:  # a decoder may raise anything, and the embedder reports unusable images
        return None


def jpeg_quality(table: Sequence[int]) -> float:
    """The approximate quality setting, 1 to 100, of the usual JPEG library."""
    coarseness = sum(table) / len(table) / _LUMA_MEAN
    return 50.0 / coarseness if coarseness > 1.0 else 100.0 - 50.0 * coarseness


def _label_caveats(name: str, counts: _FileCounts, reference: _FileCounts, noun: str) -> Iterator[Caveat]:
    for kind, here in counts.labels.items():
        there = reference.labels[kind]
        n, m = here.total(), there.total()
        if not (n and m):
            continue
        shares = {label: (here[label] / n, there[label] / m) for label in here | there}
        sizes = counts.independent, reference.independent
        differing = [label for label, both in shares.items() if shares_differ(*both, *sizes)]
        if differing:
            # Of two equal differences, take the label that is common in this set.
            label = max(differing, key=lambda value: (abs(shares[value][0] - shares[value][1]), shares[value][0]))
            phrase = f"{noun} {_PHRASES[kind].format(label)}"
            yield share_caveat(kind, name, phrase, _ADVICE[kind], shares[label], (n, m))


def _number_caveats(name: str, counts: _FileCounts, reference: _FileCounts) -> Iterator[Caveat]:
    for unit, numbers in counts.numbers.items():
        others = reference.numbers[unit]
        if not (len(numbers) and len(others)):
            continue  # without JPEG files on one side, the formats differ already
        sizes = min(counts.independent, len(numbers)), min(reference.independent, len(others))
        if quantiles_differ(numbers, others, *sizes):
            kind, phrase = _MEDIANS[unit]
            here, there = float(np.median(numbers)), float(np.median(others))
            values = {unit: here, f"{unit}_reference": there}
            yield Caveat(kind, f"{phrase.format(here, there)}. {_ADVICE[kind]}", name, values)


def _unread_caveats(name: str, counts: _FileCounts, pillow: Any) -> Iterator[Caveat]:
    if pillow is None:
        message = (
            "sizes, modes and compression of the images were not checked, because Pillow is not installed: "
            f"{install_line('images')}"
        )
        yield Caveat("unchecked", message, name)
    elif counts.unread:
        n = len(counts.keys.keys)
        message = (
            f"Pillow could not read the headers of {counts.unread} of {n} images; their sizes, modes and compression "
            "were not checked."
        )
        yield Caveat("unchecked", message, name, {"unread": counts.unread, "n": n})
