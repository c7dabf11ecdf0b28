"""Differences between two sets of samples that are unrelated to the model: lengths, truncation, copies, file formats.

A score sees every difference between the two sides, including those that come from the handling of the files. The
checks here look for differences that are known to have spoiled published comparisons and that can be counted without an
embedder. Each caveat states what was counted, what usually explains it, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.caveats._counts import (
    Numbers,
    SampleKeys,
    copy_caveats,
    count_independent,
    quantiles_differ,
    skipped_caveats,
)
from mallow.caveats._media import audio_caveats, image_caveats
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
