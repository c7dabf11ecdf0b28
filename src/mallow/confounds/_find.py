"""What makes two sets of samples differ beside the model: lengths, cut ends, copies, prompts, file formats.

A score sees every difference between the two sides, also one that the handling of the files put there. What is looked
for here is known to have spoiled published comparisons, can be counted without an embedder, and is told with its
numbers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import re
import unicodedata
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.errors import InputError
from mallow.estimate import canonical_order
from mallow.samples import Samples, read

__all__ = ["Finding", "find_confounds"]

# A difference is reported when it is sure and matters. "Sure" is far beyond the usual 2 standard errors: many things
# are looked at, of many systems, and an alarm that is often false is soon ignored.
_SURE = 4.0  # standard errors of a difference of shares
_SURE_EACH = 3.0  # of a quantile, on each side: intervals that do not meet are as sure
_POINTS = 0.1  # a difference of shares that matters
_RATIO = 1.1  # a ratio of lengths that matters
_NORM_RATIO = 1.5  # of feature norms, which differ between samples of any two distributions
_FEW = 0.01  # copies and leftovers matter sooner
_QUANTILES = (0.1, 0.5, 0.9)
_SHORTEST_CUT = 20  # words or characters: below that many texts end at the largest length anyway
_CONTROLS = {"\n": "line feed", "\r": "carriage return", "\t": "tab"}
_SHOWN = 50  # characters of an example
_EVERYDAY = 0.5  # share of texts from which on a mark of ASCII is missed: a model may well write no semicolons

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """One thing beside the model that may move the score.

    Attributes
    ----------
    system : str or None
        Whose samples; None: those of the reference.
    kind : str
        A word for what it is. Texts: "length", "truncation", "prompt", "space", "case", "characters", "leftovers",
        "empty". Images: "format", "size", "mode", "compression", "unchecked". Features: "norm". All: "duplicates",
        "shared", "skipped".
    message : str
        What was counted, with the numbers of both sides, and what to do.
    values : dict
        The numbers of the message; those that end in ``reference`` are the reference's.
    """

    system: str | None
    kind: str
    message: str
    values: dict[str, float]

    def __str__(self) -> str:
        return f"{'reference' if self.system is None else self.system}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings and dicts."""
        return {"system": self.system, "kind": self.kind, "message": self.message, "values": dict(self.values)}


def find_confounds(reference: object, systems: Mapping[str, object]) -> tuple[Finding, ...]:
    """What differs between the reference and each system for other reasons than the model, before anything is scored.

    Texts: length in words and characters, cut ends, duplicates, copies of reference texts, white space alone, texts
    that begin with their prompt on one side only, white space around texts, capitals, characters that one side lacks,
    leftover markers. Images: duplicates and copies, file formats, sizes, modes, JPEG quality. Features: duplicates,
    copies, norms. A difference is reported where it is beyond what drawing other samples explains (4 standard errors;
    samples of one id or prompt count as one) and matters: 10 % in length, 10 points in a share, one point in copies.
    Copies that the reference's own duplicates explain are none.

    What it cannot tell: a cut after so many tokens leaves no common length in words, only ends without punctuation; a
    model that writes shorter texts by itself looks like one that was cut. The numbers are there to judge.

    Parameters
    ----------
    reference : list of texts, path, table, `Samples` or array (n, d)
        Whatever `mallow.read` takes.
    systems : mapping
        Name → samples, of the reference's kind.

    Returns
    -------
    tuple of Finding
        Those of the reference first, then system by system; empty where nothing is wrong.

    Notes
    -----
    The time grows linearly with the samples: 50,000 texts of 1,000 characters take some seconds. Of images only the
    header is read, and of those with equal file sizes the rest; without Pillow, only names and copies are looked at,
    and a finding of the kind "unchecked" says so.

    Examples
    --------
    >>> human = [f"Sentence {i}" + " goes on and on" * (i % 9) + "." for i in range(200)]
    >>> for finding in find_confounds(human[:100], {"spaced": [" " + text for text in human[100:]]}):
    ...     print(finding)
    spaced: 100.0 % of the texts begin with white space, in the reference 0.0 %: strip the texts of both sides, or of none.
    """
    if not isinstance(systems, Mapping) or not systems:
        raise InputError(
            f"`systems` must be a mapping of names to samples, with one entry at least; got {systems!r:.60}."
        )
    given: dict[str | None, Samples] = {
        None: read(reference),
        **{name: read(source) for name, source in systems.items()},
    }
    kinds = {name: each.kind for name, each in given.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name or 'reference'}: {kind}" for name, kind in kinds.items())
        raise InputError(f"All samples must be of one kind; got {listed}.")
    look = {"text": _of_texts, "image": _of_images, "features": _of_features}[given[None].kind]
    place = {name: place for place, name in enumerate(given)}
    return tuple(sorted(look(given), key=lambda finding: place[finding.system]))


# --- what is sure and matters


def _differ(a: float, b: float, n_a: int, n_b: int, least: float = _POINTS) -> bool:
    """Whether two shares, of so many independent samples, differ beyond their noise and by more than `least`."""
    pooled = (a * n_a + b * n_b) / (n_a + n_b)
    noise = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_a + 1.0 / n_b))
    return abs(a - b) > max(least, _SURE * noise)


def _apart(a: Numbers, b: Numbers, n_a: int, n_b: int, ratio: float = _RATIO) -> bool:
    """Whether a quantile of two sorted samples differs beyond its noise and by more than the ratio."""
    for level in _QUANTILES:
        low, high = sorted([_bounds(a, level, n_a), _bounds(b, level, n_b)], key=lambda bounds: bounds[1])
        if low[2] < high[0] and high[1] > ratio * low[1]:
            return True
    return False


def _bounds(ordered: Numbers, level: float, independent: int) -> tuple[float, float, float]:
    """A quantile between two order statistics that enclose it, whatever the distribution; infinite where none do."""
    reach = _SURE_EACH * math.sqrt(level * (1.0 - level) / independent)
    n = len(ordered)
    low, high = math.floor(n * (level - reach)) - 1, math.ceil(n * (level + reach))
    return (
        float(ordered[low]) if low >= 0 else -math.inf,
        float(np.quantile(ordered, level)),
        float(ordered[high]) if high < n else math.inf,
    )


def _independent(samples: Samples) -> int:
    """How many samples are independent: several generations for one prompt are alike, and count as one."""
    groups = samples.ids or samples.prompts
    return len(samples) if groups is None else len(set(groups))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


# --- copies, of samples of any kind


@dataclass(frozen=True, eq=False)
class _Keys:
    """A key of each sample, equal for samples that are the same, and how often each occurs."""

    keys: Sequence[Hashable]
    times: Counter[Hashable]
    show: Callable[[int], str]  # an example, for messages

    @classmethod
    def of(cls, keys: Sequence[Hashable], show: Callable[[int], str]) -> _Keys:
        return cls(keys, Counter(keys), show)

    def example(self, key: Hashable) -> str:
        text = self.show(self.keys.index(key))
        return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def _of_copies(all_keys: Mapping[str | None, _Keys], noun: str) -> Iterator[Finding]:
    """Duplicates inside each set, copies of the reference's samples, and copies of another system's."""
    reference = all_keys[None]
    # Of equal distributions, a sample stands in the reference as often as the reference's own samples stand there
    # again.
    expected = sum(count for count in reference.times.values() if count > 1) / len(reference.keys)
    before: dict[str | None, _Keys] = {}
    for name, mine in all_keys.items():
        yield from _duplicates(name, mine, noun)
        for other, theirs in before.items():
            yield from _shared(name, mine, other, theirs, expected, noun)
        before[name] = mine


def _duplicates(name: str | None, mine: _Keys, noun: str) -> Iterator[Finding]:
    n, repeats = len(mine.keys), len(mine.keys) - len(mine.times)
    if repeats / n <= _FEW:
        return
    key, most = mine.times.most_common(1)[0]
    yield Finding(
        name,
        "duplicates",
        f"{repeats} of {n} {noun} ({_percent(repeats / n)}) stand there a second time or more, the most frequent {most} times "
        f"({mine.example(key)}): keep one of each, unless the source repeats itself as often.",
        {"repeats": repeats, "n": n, "share": repeats / n, "most": most},
    )


def _shared(
    name: str | None, mine: _Keys, other: str | None, theirs: _Keys, expected: float, noun: str
) -> Iterator[Finding]:
    n, m = len(theirs.keys), len(mine.keys)
    found = [key for key in mine.keys if key in theirs.times]
    share = len(found) / m
    least = _FEW if other is None else _POINTS  # two decoders of one model do write some texts alike
    if share - expected <= max(least, _SURE * math.sqrt(expected * (1.0 / n + 1.0 / m))):
        return
    whose = "the reference" if other is None else f"`{other}`"
    way_out = (
        "the model has memorised or been given them. Take them out on both sides, or take another reference."
        if other is None
        else "was one file given twice?"
    )
    yield Finding(
        name,
        "shared",
        f"{len(found)} of {m} {noun} ({_percent(share)}) stand in {whose} too, such as {mine.example(found[0])}: {way_out}",
        {"copies": len(found), "n": m, "share": share, "expected": expected},
    )


def _skipped(name: str | None, samples: Samples, blank: int = 0) -> Iterator[Finding]:
    """What is empty, and what else was left out when the samples were read."""
    empty = [entry for entry in samples.skipped if "empty text" in entry]
    others = len(samples.skipped) - len(empty)
    n = len(samples) + len(samples.skipped)
    if blank or empty:
        parts = [f"{blank} of {n} texts are white space alone"] if blank else []
        parts += [f"{len(empty)} of {n} entries are empty and were left out (the first: {empty[0]})"] if empty else []
        yield Finding(
            name,
            "empty",
            f"{' and '.join(parts)}: an empty text is an answer too; mend the source, or name the share beside the score.",
            {"blank": blank, "left_out": len(empty), "n": n, "share": (blank + len(empty)) / n},
        )
    if others:
        first = next(entry for entry in samples.skipped if "empty text" not in entry)
        yield Finding(
            name,
            "skipped",
            f"{others} of {n} entries could not be used and were left out (the first: {first}): the score is that of the rest.",
            {"left_out": others, "n": n, "share": others / n},
        )


# --- texts

_CLOSERS = "\"'”’»›)]}*_`"
_ENDS = ".!?…。！？．｡؟۔।॥:;"
_MARKER = re.compile(r"<\|\w{1,30}\|>|</?s>|<(?:unk|pad|eos|bos|mask)>|\[(?:PAD|CLS|SEP|UNK|MASK)\]")
_APART = re.compile(r"\w [.,] ")


@dataclass(frozen=True)
class _Trait:
    """Something that a text has or has not."""

    kind: str
    has: Callable[[str], bool]
    words: str
    way_out: str
    least: float = _POINTS


_TRAITS = (
    _Trait(
        "space", lambda text: text[:1].isspace(), "begin with white space", "strip the texts of both sides, or of none"
    ),
    _Trait(
        "space", lambda text: text[-1:].isspace(), "end with white space", "strip the texts of both sides, or of none"
    ),
    _Trait(
        "case",
        lambda text: text == text.lower() != text.upper(),
        "have no capital letters",
        "undo the lower-casing, or lower-case both sides",
    ),
    _Trait(
        "case",
        lambda text: text == text.upper() != text.lower(),
        "have nothing but capital letters",
        "undo the change of case, or make it on both sides",
    ),
    _Trait(
        "truncation",
        lambda text: not text.rstrip().rstrip(_CLOSERS).endswith(tuple(_ENDS)),
        "stop before the end of a sentence",
        "cut both sides at the same length, or let both end by themselves",
    ),
    _Trait(
        "characters",
        lambda text: not text.isascii() and not unicodedata.is_normalized("NFC", text),
        "are not in composed Unicode (NFC)",
        "normalise both sides with unicodedata.normalize('NFC', text)",
    ),
    _Trait(
        "leftovers",
        lambda text: _MARKER.search(text) is not None,
        "hold markers of a tokeniser, such as <|endoftext|>",
        "take them out",
        _FEW,
    ),
    _Trait(
        "leftovers",
        lambda text: _APART.search(text) is not None,
        "have a space before a full stop or comma",
        "undo the tokenisation, on both sides alike",
    ),
)


@dataclass(frozen=True, eq=False)
class _Texts:
    """All that is counted of one set of texts, in one pass."""

    n: int
    independent: int
    lengths: dict[str, Numbers]  # sorted
    traits: tuple[float, ...]  # the share of texts that have each of _TRAITS
    characters: Counter[str]  # in how many texts each stands
    blank: int
    keys: _Keys

    @classmethod
    def of(cls, samples: Samples) -> _Texts:
        texts = samples.texts
        words, keys, characters = [], [], Counter[str]()
        for text in texts:
            parts = text.split()
            words.append(len(parts))
            # White space and case aside: a copy that was only reformatted is one.
            same = " ".join(parts).casefold().encode("utf-8", "surrogatepass")
            keys.append(hashlib.blake2b(same, digest_size=16).digest())
            characters.update(set(text))
        return cls(
            n=len(texts),
            independent=_independent(samples),
            lengths={
                "words": np.sort(np.array(words, np.float64)),
                "characters": np.sort(np.array([len(text) for text in texts], np.float64)),
            },
            traits=tuple(sum(map(trait.has, texts)) / len(texts) for trait in _TRAITS),
            characters=characters,
            blank=words.count(0),
            keys=_Keys.of(keys, texts.__getitem__),
        )


def _of_texts(given: Mapping[str | None, Samples]) -> Iterator[Finding]:
    found = {name: _Texts.of(samples) for name, samples in given.items()}
    reference = found[None]
    for name, samples in given.items():
        yield from _skipped(name, samples, found[name].blank)
    yield from _of_copies({name: each.keys for name, each in found.items()}, "texts")
    for name, mine in found.items():
        if name is not None:
            yield from _lengths(name, mine, reference)
            yield from _cut(name, mine, reference)
            yield from _traits(name, mine, reference)
            yield from _characters(name, mine, reference)
            yield from _prompts(name, given[name], given[None])


def _lengths(name: str, mine: _Texts, reference: _Texts) -> Iterator[Finding]:
    sizes = mine.independent, reference.independent
    apart = [unit for unit in mine.lengths if _apart(mine.lengths[unit], reference.lengths[unit], *sizes)]
    if not apart:
        return
    unit = apart[0]
    at = {side: np.quantile(each.lengths[unit], _QUANTILES) for side, each in (("", mine), ("_reference", reference))}
    (low, middle, high), (low_r, middle_r, high_r) = at[""], at["_reference"]
    levels = [f"{unit}_{round(100 * level)}" for level in _QUANTILES]
    yield Finding(
        name,
        "length",
        f"the median text has {middle:.0f} {unit}, in the reference {middle_r:.0f}, and four of five have {low:.0f} to {high:.0f}, "
        f"in the reference {low_r:.0f} to {high_r:.0f}: cut both sides to one length, or the score measures length too.",
        {f"{level}{side}": float(v) for side, values in at.items() for level, v in zip(levels, values, strict=True)},
    )


def _cut(name: str, mine: _Texts, reference: _Texts) -> Iterator[Finding]:
    """Many texts of exactly the greatest length, where the other side has none such."""
    for unit in mine.lengths:
        for one, other in ((mine, reference), (reference, mine)):
            lengths, most = one.lengths[unit], float(one.lengths[unit][-1])
            share, there = (float(np.mean(each.lengths[unit] == most)) for each in (one, other))
            nearly = float(np.mean((lengths >= 0.9 * most) & (lengths < most)))
            if most < _SHORTEST_CUT or share <= max(nearly, there):
                continue
            if _differ(share, there, one.independent, other.independent):
                here, elsewhere = ("here", "in the reference") if one is mine else ("in the reference", "here")
                shares = (share, there) if one is mine else (there, share)
                yield Finding(
                    name,
                    "truncation",
                    f"{_percent(share)} of the texts {here} have exactly {most:.0f} {unit}, more than which none has; {elsewhere} "
                    f"{_percent(there)} have: they were cut off. Cut both sides there, or raise the limit.",
                    {"share": shares[0], "share_reference": shares[1], unit: most},
                )
                return


def _traits(name: str, mine: _Texts, reference: _Texts) -> Iterator[Finding]:
    for trait, here, there in zip(_TRAITS, mine.traits, reference.traits, strict=True):
        if _differ(here, there, mine.independent, reference.independent, trait.least):
            yield Finding(
                name,
                trait.kind,
                f"{_percent(here)} of the texts {trait.words}, in the reference {_percent(there)}: {trait.way_out}.",
                {"share": here, "share_reference": there, "n": mine.n, "n_reference": reference.n},
            )


def _characters(name: str, mine: _Texts, reference: _Texts) -> Iterator[Finding]:
    """Characters that are common on one side and all but missing on the other."""
    for one, other in ((mine, reference), (reference, mine)):
        lost = []
        for character, count in one.characters.items():
            share, there = count / one.n, other.characters[character] / other.n
            changed = character.swapcase()  # lower-casing is reported as such
            if share < _EVERYDAY and character.isascii() and character.isprintable():
                continue
            if there > share / 10 or (changed != character and other.characters[changed] / other.n >= share / 2):
                continue
            if _differ(share, there, one.independent, other.independent):
                lost.append((-share, character, there))
        if not lost:
            continue
        lost.sort()
        share, there = -lost[0][0], lost[0][2]
        shown = " ".join(_shown(character) for _, character, _ in lost[:6]) + (" …" if len(lost) > 6 else "")
        what = f"the character {shown} stands in" if len(lost) == 1 else f"characters {shown} stand in up to"
        here, elsewhere = ("here", "in the reference") if one is mine else ("in the reference", "here")
        shares = (share, there) if one is mine else (there, share)
        yield Finding(
            name,
            "characters",
            f"{what} {_percent(share)} of the texts {here} and all but never {elsewhere} "
            f"({_percent(there)}): treat line breaks, quotation marks and encodings alike on both sides.",
            {"share": shares[0], "share_reference": shares[1], "characters": len(lost)},
        )


def _shown(character: str) -> str:
    if character in _CONTROLS:
        return _CONTROLS[character]
    plain = character.isprintable() and not character.isspace() and not unicodedata.combining(character)
    return character if plain else unicodedata.name(character, f"U+{ord(character):04X}")


def _prompts(name: str, mine: Samples, reference: Samples) -> Iterator[Finding]:
    """Texts that begin with their prompt, on one side only."""
    prompts = mine.prompts or reference.prompts
    if prompts is None:
        return
    here, there = (_begin(each, prompts) for each in (mine, reference))
    if _differ(here, there, _independent(mine), _independent(reference)):
        yield Finding(
            name,
            "prompt",
            f"{_percent(here)} of the texts begin with their prompt, in the reference {_percent(there)}: take the prompts off on "
            "both sides, or leave them on both.",
            {"share": here, "share_reference": there, "n": len(mine), "n_reference": len(reference)},
        )


def _begin(samples: Samples, others: Sequence[str]) -> float:
    """The share of texts that begin with their own prompt, or, where they have none, with one of the others'."""
    texts = [text.strip() for text in samples.texts]
    if samples.prompts is not None:
        pairs = zip(texts, (prompt.strip() for prompt in samples.prompts), strict=True)
        return sum(bool(prompt) and text.startswith(prompt) for text, prompt in pairs) / len(texts)
    # The greatest prompt that is not above a text is the one that it begins with, unless prompts begin with one
    # another.
    known = sorted({prompt.strip() for prompt in others} - {""})
    places = (bisect_right(known, text) for text in texts)
    return sum(
        place > 0 and text.startswith(known[place - 1]) for text, place in zip(texts, places, strict=True)
    ) / len(texts)


# --- images

_SAME_FORMAT = {".jpeg": ".jpg", ".tiff": ".tif"}
_LUMA_MEAN = 57.625  # of the table for brightness that the JPEG standard gives as an example, which is quality 50


@dataclass(frozen=True, eq=False)
class _Pictures:
    """What the headers of one set of images say."""

    independent: int
    labels: dict[str, list[str]]  # format, size, mode: one of each image
    numbers: dict[str, Numbers]  # sorted


def _of_images(given: Mapping[str | None, Samples]) -> Iterator[Finding]:
    for name, samples in given.items():
        yield from _skipped(name, samples)
    yield from _of_copies(_file_keys(given), "images")
    headers = importlib.util.find_spec("PIL") is not None
    found = {name: _pictures(samples, headers) for name, samples in given.items()}
    for name, mine in found.items():
        if name is not None:
            yield from _labels(name, mine, found[None])
            yield from _sizes(name, mine, found[None])
    if not headers:
        yield Finding(
            None,
            "unchecked",
            "sizes, modes and compression of the images were not looked at: pip install 'mallow[images]'",
            {},
        )


def _file_keys(given: Mapping[str | None, Samples]) -> dict[str | None, _Keys]:
    """Of files that no other equals in size, the place; of the others, size and content."""
    sizes = {name: [path.stat().st_size for path in samples.paths] for name, samples in given.items()}
    times = Counter(size for each in sizes.values() for size in each)

    def key(path: Path, size: int) -> Hashable:
        if times[size] == 1:
            return size
        with path.open("rb") as stream:
            return size, hashlib.file_digest(stream, "sha256").digest()

    return {
        name: _Keys.of(
            [key(path, size) for path, size in zip(samples.paths, sizes[name], strict=True)],
            lambda place, paths=samples.paths: str(paths[place].name),  # type: ignore[misc]
        )
        for name, samples in given.items()
    }


def _pictures(samples: Samples, headers: bool) -> _Pictures:
    if not headers:
        suffixes = [path.suffix.lower() for path in samples.paths]
        return _Pictures(_independent(samples), {"format": [_SAME_FORMAT.get(end, end) for end in suffixes]}, {})
    pillow = optional("PIL.Image", extra="images")
    labels: dict[str, list[str]] = {"format": [], "size": [], "mode": []}
    shorter, quality = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # very large images are legal
        for path in samples.paths:
            with pillow.open(path) as image:
                labels["format"].append(str(image.format))
                labels["size"].append("{}×{}".format(*image.size))
                labels["mode"].append(str(image.mode))
                shorter.append(min(image.size))
                if tables := getattr(image, "quantization", None):
                    quality.append(_quality(tables[min(tables)]))
    return _Pictures(
        _independent(samples),
        labels,
        {"pixels": np.sort(np.array(shorter, np.float64)), "quality": np.sort(np.array(quality, np.float64))},
    )


def _quality(table: Sequence[int]) -> float:
    """About the quality, 1 to 100, that the usual JPEG library was asked for."""
    coarse = sum(table) / len(table) / _LUMA_MEAN
    return 50.0 / coarse if coarse > 1.0 else 100.0 - 50.0 * coarse


_IMAGE_ADVICE = {
    "format": "save both sides in one format, without loss",
    "size": "bring both sides to one size with the same filter",
    "mode": "convert both sides to one mode, such as RGB",
}


def _labels(name: str, mine: _Pictures, reference: _Pictures) -> Iterator[Finding]:
    for kind, own in mine.labels.items():
        here, there = Counter(own), Counter(reference.labels[kind])
        n, m = len(own), len(reference.labels[kind])
        gaps = [
            (abs(here[label] / n - there[label] / m), here[label], label)
            for label in here | there
            if _differ(here[label] / n, there[label] / m, mine.independent, reference.independent)
        ]
        if gaps:
            label = max(gaps)[-1]  # of equal gaps, what is common here
            share, other = here[label] / n, there[label] / m
            yield Finding(
                name,
                kind,
                f"{_percent(share)} of the images are {label}, in the reference {_percent(other)}: {_IMAGE_ADVICE[kind]}.",
                {"share": share, "share_reference": other, "n": n, "n_reference": m},
            )


def _sizes(name: str, mine: _Pictures, reference: _Pictures) -> Iterator[Finding]:
    words = {
        "pixels": ("size", "the shorter side of the images has", "pixels", _IMAGE_ADVICE["size"]),
        "quality": ("compression", "the JPEG quality is about", "", "compress both sides alike, better not at all"),
    }
    for unit, own in mine.numbers.items():
        other = reference.numbers[unit]
        if not (len(own) and len(other)):
            continue  # no JPEG on one side: the formats say so
        sizes = min(mine.independent, len(own)), min(reference.independent, len(other))
        if _apart(own, other, *sizes):
            kind, subject, noun, advice = words[unit]
            here, there = float(np.median(own)), float(np.median(other))
            yield Finding(
                name,
                kind,
                f"{subject} {here:.0f} {noun}".rstrip() + f" in the median, in the reference {there:.0f}: {advice}.",
                {unit: here, f"{unit}_reference": there},
            )


# --- features


def _of_features(given: Mapping[str | None, Samples]) -> Iterator[Finding]:
    for name, samples in given.items():
        yield from _skipped(name, samples)
    widths = {samples.features.shape[1] for samples in given.values()}
    if len(widths) > 1:
        return  # whoever scores them refuses them, and can say by which embedder each was made
    yield from _of_copies(_row_keys(given), "rows")
    norms = {name: np.sort(_norms(samples.features)) for name, samples in given.items()}
    for name, own in norms.items():
        sizes = _independent(given[name]), _independent(given[None])
        if name is not None and _apart(own, norms[None], *sizes, ratio=_NORM_RATIO):
            here, there = float(np.median(own)), float(np.median(norms[None]))
            yield Finding(
                name,
                "norm",
                f"the rows have a length of {here:.4g} in the median, in the reference {there:.4g}: embed both sides alike, with "
                "the same scaling.",
                {"norm": here, "norm_reference": there},
            )


def _row_keys(given: Mapping[str | None, Samples]) -> dict[str | None, _Keys]:
    rows = [samples.features for samples in given.values()]
    pooled = canonical_order(rows[0], np.concatenate(rows[1:]))
    parts = np.split(pooled.group, np.cumsum([len(each) for each in rows])[:-1])
    return {
        name: _Keys.of(part.tolist(), lambda place: f"row {place}") for name, part in zip(given, parts, strict=True)
    }


def _norms(features: NDArray[Any]) -> Numbers:
    parts = [features[low : low + 4096].astype(np.float64) for low in range(0, len(features), 4096)]
    return np.concatenate([np.linalg.norm(part, axis=1) for part in parts])
