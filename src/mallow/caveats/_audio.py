"""Checks of recordings: copies, formats, rates, channels, durations. Headers are read, values are not."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mallow.caveats._copies import SampleKeys, copy_caveats, skipped_caveats
from mallow.caveats._statistics import Numbers, count_independent, percent, quantiles_differ, shares_differ
from mallow.errors import Caveat
from mallow.samples import Samples, read_audio_header

_PHRASES = {"format": "are {} files", "rate": "have {} values per second", "channels": "have {} channels"}
_ADVICE = {
    "format": "Save both sides in the same lossless format.",
    "rate": "Resample both sides to the same rate.",
    "channels": "Mix both sides to the same number of channels.",
    "duration": "Cut both sides to the same duration.",
}


@dataclass(frozen=True, eq=False)
class _AudioCounts:
    independent: int
    labels: dict[str, Counter[str]]
    seconds: Numbers  # sorted
    keys: SampleKeys


def audio_caveats(sets: Sequence[tuple[str, Samples]]) -> Iterator[Caveat]:
    """Caveats about sets of recordings, the first of which is the reference."""
    counts = [_count_recordings(samples) for _, samples in sets]
    keys = [(name, count.keys) for (name, _), count in zip(sets, counts, strict=True)]
    for place, (name, samples) in enumerate(sets):
        yield from skipped_caveats(name, samples)
        yield from copy_caveats(keys[: place + 1], "recordings")
        if place:
            yield from _differences(name, counts[place], counts[0])


def _count_recordings(samples: Samples) -> _AudioCounts:
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
    seconds = np.sort(np.array([header.seconds for header in headers]))
    return _AudioCounts(count_independent(samples), labels, seconds, SampleKeys.count(keys, lambda at: paths[at].name))


def _differences(name: str, own: _AudioCounts, reference: _AudioCounts) -> Iterator[Caveat]:
    sizes = own.independent, reference.independent
    n, m = len(own.seconds), len(reference.seconds)
    for kind, here in own.labels.items():
        there = reference.labels[kind]
        shares = {label: (here[label] / n, there[label] / m) for label in here | there}
        differing = [label for label, (a, b) in shares.items() if shares_differ(a, b, *sizes)]
        if differing:
            label = max(differing, key=lambda each: (abs(shares[each][0] - shares[each][1]), shares[each][0]))
            share, other = shares[label]
            text = f"{percent(share)} of the recordings {_PHRASES[kind].format(label)} (reference: {percent(other)})"
            values = {"share": share, "share_reference": other, "n": n, "n_reference": m}
            yield Caveat(kind, f"{text}. {_ADVICE[kind]}", name, values)
    if quantiles_differ(own.seconds, reference.seconds, *sizes):
        here_median, there_median = float(np.median(own.seconds)), float(np.median(reference.seconds))
        text = f"the median duration is {here_median:.3g} s (reference: {there_median:.3g} s; quantiles differ)"
        yield Caveat(
            "duration",
            f"{text}. {_ADVICE['duration']}",
            name,
            {"seconds": here_median, "seconds_reference": there_median},
        )
