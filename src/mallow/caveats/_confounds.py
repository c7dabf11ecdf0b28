"""Differences between sets of samples that are unrelated to the model: found, and removed.

A score sees every difference between the two sides, including those that come from the handling of the files. The
checks here look for differences that are known to have spoiled published comparisons and that can be counted without an
embedder: lengths, truncation, copies, file formats. Each caveat states what was counted, what usually explains it, and
what to do. Some of them can be removed: the same quotation marks, white space, case, lengths, files.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._optional import did_you_mean, optional
from mallow.caveats._counts import (
    Numbers,
    SampleKeys,
    copy_caveats,
    count_independent,
    quantiles_differ,
    skipped_caveats,
)
from mallow.caveats._media import audio_caveats, image_caveats, jpeg_quality
from mallow.caveats._texts import text_caveats
from mallow.embed import read_all
from mallow.errors import Caveat, InputError
from mallow.estimate import row_keys
from mallow.samples import Samples

_MIN_NORM_RATIO = 1.5  # chosen: norms differ somewhat between samples of any two distributions
_BLOCK = 1024  # rows that are converted to double precision together


def find_confounds(reference: object, systems: Mapping[str, object]) -> tuple[Caveat, ...]:
    """Caveats about differences between the reference and each system that are unrelated to the model.

    Texts: length in words and characters, truncation, duplicates, copies of reference texts, texts of white space only,
    prompts that were kept on one side only, white space around texts, capital letters, characters that occur on one
    side only, tokenizer markers. Images: duplicates and copies, file formats, sizes, modes, JPEG quality. Recordings:
    duplicates and copies, formats, rates, channels, durations. Features: duplicates, copies, norms. Samples that were
    embedded are checked as what they are: texts with features as texts.

    A difference is reported if it is larger than what another draw of samples would explain (4 standard errors; samples
    with the same id or prompt count as one) and large enough to matter: 10% in length, 10 percentage points in a
    share, one percentage point in copies. Copies that are as frequent as duplicates within the reference are not
    reported.

    Known limits: texts that were cut after a number of tokens have no common length in words, and are recognised
    only by ends without punctuation. A model that writes shorter texts by itself looks like one whose texts were
    cut. The numbers in each caveat let the reader judge.

    Parameters
    ----------
    reference : list of texts, path, table, `Samples` or array (n, d)
        Whatever `mallow.read` takes.
    systems : mapping
        Name → samples, of the same kind as the reference.

    Returns
    -------
    tuple of Caveat
        Caveats about the reference first (``system="reference"``), then about each system; empty if nothing was
        found. The `kind` for texts is "length", "truncation", "prompt", "space", "case", "characters", "language",
        "leftovers" or "empty". For images it is "format", "size", "mode", "compression" or "unchecked", for recordings
        "format", "rate", "channels" or "duration", and for features "norm". All samples can have "duplicates", "shared"
        or "skipped". `values` holds the numbers of the message; names that end in ``reference`` belong to the
        reference.

    Notes
    -----
    The time grows linearly with the number of samples: 50,000 texts of 1,000 characters take a few seconds. Each
    image file is opened once. Its header is read, and the whole file only if a different file has the same size.
    Without Pillow only names and copies are checked, and a caveat of the kind "unchecked" reports it.

    Examples
    --------
    >>> human = [f"Sentence {i}" + " goes on and on" * (i % 9) + "." for i in range(200)]
    >>> for caveat in find_confounds(human[:100], {"model": [" " + text for text in human[100:]]}):
    ...     print(caveat)
    model: 100.0% of the texts begin with white space (reference: 0.0%). Strip the texts on both sides, or on neither.
    """
    if not isinstance(systems, Mapping) or not systems or "" in systems:
        raise InputError(
            "`systems` must be a mapping of names to samples, with at least one entry and no empty name; got "
            f"{systems!r:.60}."
        )
    sets = read_all({"": reference, **systems})
    check = _CHECKS[sets[""].kind]
    return tuple(check([(name or "reference", samples) for name, samples in sets.items()]))


def feature_caveats(sets: Sequence[tuple[str, Samples]]) -> Iterator[Caveat]:
    """Caveats about sets of features, the first of which is the reference."""
    rows = [samples.require_features() for _, samples in sets]
    same_width = len({part.shape[1] for part in rows}) == 1
    # Features of different widths cannot be compared; scoring them is an error that names the embedder of each.
    keys = _row_keys([name for name, _ in sets], rows) if same_width else []
    norms = [np.sort(_norms(part)) for part in rows] if same_width else []
    for index, (name, samples) in enumerate(sets):
        yield from skipped_caveats(name, samples)
        if not same_width:
            continue
        yield from copy_caveats(keys[: index + 1], "rows")
        sizes = count_independent(samples), count_independent(sets[0][1])
        if index and quantiles_differ(norms[index], norms[0], *sizes, ratio=_MIN_NORM_RATIO):
            norm, reference = float(np.median(norms[index])), float(np.median(norms[0]))
            yield Caveat(
                "norm",
                f"the median norm of the rows is {norm:.4g} (reference: {reference:.4g}). Embed both sides in the same "
                "way, with the same scaling.",
                name,
                {"norm": norm, "norm_reference": reference},
            )


def _row_keys(names: Sequence[str], rows: Sequence[NDArray[Any]]) -> list[tuple[str, SampleKeys]]:
    """Equal numbers for equal rows, in whichever set they are; every row is hashed once."""
    _, group = np.unique(np.concatenate([row_keys(part) for part in rows]), return_inverse=True)
    groups = np.split(group, np.cumsum([len(part) for part in rows])[:-1])
    return [
        (name, SampleKeys.count(group.tolist(), "row {}".format)) for name, group in zip(names, groups, strict=True)
    ]


def _norms(features: NDArray[Any]) -> Numbers:
    """The Euclidean norm of every row."""
    blocks = (features[low : low + _BLOCK].astype(np.float64) for low in range(0, len(features), _BLOCK))
    return np.concatenate([np.linalg.norm(block, axis=1) for block in blocks])


_CHECKS = {"text": text_caveats, "image": image_caveats, "audio": audio_caveats, "features": feature_caveats}


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
    """The beginning of a text, with `count` words."""
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
