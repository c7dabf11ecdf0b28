"""When a difference is reported: beyond the noise of sampling, and large enough to matter. Copies of samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow.errors import Caveat
from mallow.samples import Samples

# All chosen. 4 standard errors are far beyond the usual 2: many things are checked, for many systems, and alarms
# that # are often false are soon ignored. Halves of real texts and images give no alarm (tests/caveats).
STANDARD_ERRORS = 4.0  # of a difference between two shares
# Of a quantile, on each side: two intervals that do not overlap are as certain as 4 standard errors of a difference.
_STANDARD_ERRORS_EACH = 3.0
MIN_SHARE_DIFFERENCE = 0.1  # a difference between two shares that matters
MIN_SHARE_OF_COPIES = 0.01  # copies and leftover markers matter sooner
_MIN_RATIO = 1.1  # a ratio of lengths that matters
QUANTILES = (0.1, 0.5, 0.9)
_EXAMPLE_LENGTH = 50  # characters of an example in a message

Numbers = NDArray[np.float64]


def shares_differ(a: float, b: float, n_a: int, n_b: int, least: float = MIN_SHARE_DIFFERENCE) -> bool:
    """Whether two shares, of n_a and n_b independent samples, differ beyond their noise and by more than `least`."""
    pooled = (a * n_a + b * n_b) / (n_a + n_b)
    noise = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_a + 1.0 / n_b))
    return abs(a - b) > max(least, STANDARD_ERRORS * noise)


def quantiles_differ(a: Numbers, b: Numbers, n_a: int, n_b: int, ratio: float = _MIN_RATIO) -> bool:
    """Whether one of `QUANTILES` of two sorted samples differs beyond its noise and by more than the ratio."""
    for level in QUANTILES:
        bounds = _quantile_bounds(a, level, n_a), _quantile_bounds(b, level, n_b)
        smaller, larger = sorted(bounds, key=lambda bound: bound[1])
        if smaller[2] < larger[0] and larger[1] > ratio * smaller[1]:
            return True
    return False


def _quantile_bounds(ordered: Numbers, level: float, independent: int) -> tuple[float, float, float]:
    """Two order statistics that enclose a quantile for any distribution; infinite where there are none."""
    reach = _STANDARD_ERRORS_EACH * math.sqrt(level * (1.0 - level) / independent)
    n = len(ordered)
    low, high = math.floor(n * (level - reach)) - 1, math.ceil(n * (level + reach))
    return (
        float(ordered[low]) if low >= 0 else -math.inf,
        float(np.quantile(ordered, level)),
        float(ordered[high]) if high < n else math.inf,
    )


def count_independent(samples: Samples) -> int:
    """The number of independent samples. Several generations for one prompt are alike, and count as one."""
    groups = samples.unit_names
    return len(samples) if groups is None else len(set(groups))


def percent(share: float) -> str:
    """A share for a message.

    Examples
    --------
    >>> percent(0.024)
    '2.4%'
    """
    return f"{100 * share:.1f}%"


def share_caveat(
    kind: str, name: str, phrase: str, advice: str, shares: tuple[float, float], sizes: tuple[int, int]
) -> Caveat:
    """A caveat about a share, such as of "texts that …", of a system and of the reference."""
    text = f"{percent(shares[0])} of the {phrase} (reference: {percent(shares[1])}). {advice}"
    values = {"share": shares[0], "share_reference": shares[1], "n": sizes[0], "n_reference": sizes[1]}
    return Caveat(kind, text, name, values)


@dataclass(frozen=True, eq=False)
class SampleKeys:
    """One key per sample, equal for samples that count as the same."""

    keys: Sequence[Hashable]
    counts: Counter[Hashable]  # how often each key occurs
    repeated: float  # the share of samples whose key occurs more than once
    show: Callable[[int], str]  # the sample at a position as a string, for messages

    @classmethod
    def count(cls, keys: Sequence[Hashable], show: Callable[[int], str]) -> SampleKeys:
        """The keys with their counts."""
        counts = Counter(keys)
        return cls(keys, counts, sum(count for count in counts.values() if count > 1) / len(keys), show)

    def example(self, key: Hashable) -> str:
        """The first sample with this key, shortened and quoted."""
        text = self.show(self.keys.index(key))
        return repr(text if len(text) <= _EXAMPLE_LENGTH else text[: _EXAMPLE_LENGTH - 1] + "…")


def copy_caveats(sets: Sequence[tuple[str, SampleKeys]], noun: str) -> Iterator[Caveat]:
    """Caveats about the last set: duplicates in it, and samples that also occur in a set before it.

    The first set is the reference.
    """
    name, samples = sets[-1]
    yield from _duplicate_caveats(name, samples, noun)
    # If both distributions are equal, the share of samples that occur in the reference is the share of duplicates
    # within # the reference.
    expected = sets[0][1].repeated
    m = len(samples.keys)
    shared: list[tuple[list[Hashable], str]] = []  # with earlier systems
    for index, (other_name, other) in enumerate(sets[:-1]):
        copies = [key for key in samples.keys if key in other.counts]
        n, share = len(other.keys), len(copies) / m
        least = (
            MIN_SHARE_DIFFERENCE if index else MIN_SHARE_OF_COPIES
        )  # two decoders of one model write some identical texts
        if share - expected <= max(least, STANDARD_ERRORS * math.sqrt(expected * (1.0 / n + 1.0 / m))):
            continue
        if index:
            shared.append((copies, other_name))
        else:
            reason = (
                "the model has memorised them or was given them. Remove them on both sides, or use another reference."
            )
            yield _shared_caveat(name, samples, noun, copies, "the reference", reason, expected)
    if shared:
        copies, other_name = max(shared, key=lambda entry: len(entry[0]))
        others = f" (and some of them in {len(shared) - 1} more)" if len(shared) > 1 else ""
        reason = "the same samples were passed twice. Check the files."
        yield _shared_caveat(name, samples, noun, copies, f"`{other_name}`{others}", reason, expected)


def _shared_caveat(
    name: str, samples: SampleKeys, noun: str, copies: list[Hashable], owner: str, reason: str, expected: float
) -> Caveat:
    m = len(samples.keys)
    share = len(copies) / m
    return Caveat(
        "shared",
        f"{len(copies)} of {m} {noun} ({percent(share)}) also occur in {owner}, for example "
        f"{samples.example(copies[0])}. "
        f"This usually means that {reason}",
        name,
        {"copies": len(copies), "n": m, "share": share, "expected": expected},
    )


def _duplicate_caveats(name: str, samples: SampleKeys, noun: str) -> Iterator[Caveat]:
    n, repeats = len(samples.keys), len(samples.keys) - len(samples.counts)
    if repeats / n <= MIN_SHARE_OF_COPIES:
        return
    key, most = samples.counts.most_common(1)[0]
    yield Caveat(
        "duplicates",
        f"{repeats} of {n} {noun} ({percent(repeats / n)}) are duplicates. The most frequent one occurs {most} times "
        f"({samples.example(key)}). Keep one copy of each, unless the source itself repeats as often.",
        name,
        {"repeats": repeats, "n": n, "share": repeats / n, "most": most},
    )


def skipped_caveats(name: str, samples: Samples, blank: int = 0) -> Iterator[Caveat]:
    """Caveats about texts of white space only (`blank` of them), empty texts, and other entries that were left out."""
    empty = [entry for entry in samples.skipped if "empty text" in entry]
    unusable = [entry for entry in samples.skipped if "empty text" not in entry]
    n = len(samples) + len(samples.skipped)
    if blank or empty:
        parts = [f"{blank} of {n} texts contain only white space"] if blank else []
        parts += [f"{len(empty)} of {n} entries were left out as empty (the first: {empty[0]})"] if empty else []
        yield Caveat(
            "empty",
            (
                f"{' and '.join(parts)}. An empty text is an answer too: fix the source, or report this share with the "
                "score."
            ),
            name,
            {"blank": blank, "left_out": len(empty), "n": n, "share": (blank + len(empty)) / n},
        )
    if unusable:
        yield Caveat(
            "skipped",
            f"{len(unusable)} of {n} entries were left out as unusable (the first: {unusable[0]}). The score "
            "describes the remaining ones only.",
            name,
            {"left_out": len(unusable), "n": n, "share": len(unusable) / n},
        )
