"""Differences between two sets of samples that are unrelated to the model: lengths, truncation, copies, file formats.

A score sees every difference between the two sides, including those that come from the handling of the files. The
checks here look for differences that are known to have spoiled published comparisons and that can be counted without an
embedder. Each caveat states what was counted, what usually explains it, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

from mallow.caveats._audio import audio_caveats
from mallow.caveats._features import feature_caveats
from mallow.caveats._images import image_caveats
from mallow.caveats._texts import text_caveats
from mallow.embed import read_all
from mallow.errors import Caveat, InputError

_CHECKS = {"text": text_caveats, "image": image_caveats, "audio": audio_caveats, "features": feature_caveats}


def find_confounds(reference: object, systems: Mapping[str, object]) -> tuple[Caveat, ...]:
    """Caveats about differences between the reference and each system that are unrelated to the model.

    Texts: length in words and characters, truncation, duplicates, copies of reference texts, texts of white space only,
    prompts that were kept on one side only, white space around texts, capital letters, characters that occur on one
    side only, tokenizer markers. Images: duplicates and copies, file formats, sizes, modes, JPEG quality. Recordings:
    duplicates and copies, formats, rates, channels, durations. Features: duplicates, copies, norms. Samples that were embedded are checked as what they are: texts with features as texts.

    A difference is reported if it is larger than what another draw of samples would explain (4 standard errors; samples
    with the same id or prompt count as one) and large enough to matter: 10 % in length, 10 percentage points in a share,
    one percentage point in copies. Copies that are as frequent as duplicates within the reference are not reported.

    What cannot be told apart: texts cut after a number of tokens have no common length in words and are recognised only
    by ends without punctuation; a model that writes shorter texts by itself looks like one whose texts were cut. The
    numbers in each caveat let the reader judge.

    Parameters
    ----------
    reference : list of texts, path, table, `Samples` or array (n, d)
        Whatever `mallow.read` takes.
    systems : mapping
        Name → samples, of the same kind as the reference.

    Returns
    -------
    tuple of Caveat
        Those of the reference first (``system="reference"``), then those of each system; empty if nothing was found.
        `kind` is, for texts, "length", "truncation", "prompt", "space", "case", "characters", "leftovers" or "empty";
        for images, "format", "size", "mode", "compression" or "unchecked"; for recordings, "format", "rate", "channels" or
        "duration"; for features, "norm"; for all, "duplicates", "shared" or "skipped". `values` holds the numbers of the message; names that end in ``reference`` are those of
        the reference.

    Notes
    -----
    The time grows linearly with the number of samples: 50,000 texts of 1,000 characters take a few seconds. Each image
    file is opened once: its header is read, and the whole file only where another file has the same size. Without
    Pillow only names and copies are checked, and a caveat of the kind "unchecked" says so.

    Examples
    --------
    >>> human = [f"Sentence {i}" + " goes on and on" * (i % 9) + "." for i in range(200)]
    >>> for caveat in find_confounds(human[:100], {"spaced": [" " + text for text in human[100:]]}):
    ...     print(caveat)
    spaced: 100.0 % of the texts begin with white space (reference: 0.0 %). Strip the texts on both sides, or on neither.
    """
    if not isinstance(systems, Mapping) or not systems or "" in systems:
        raise InputError(
            f"`systems` must be a mapping of names to samples, with at least one entry and no empty name; got {systems!r:.60}."
        )
    sets = read_all({"": reference, **systems})
    check = _CHECKS[sets[""].kind]
    return tuple(check([(name or "reference", samples) for name, samples in sets.items()]))
