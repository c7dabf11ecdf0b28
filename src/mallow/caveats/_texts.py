"""Checks of texts: lengths, truncation, copies, prompts, characters, and traits that a text has or has not."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mallow.caveats._counts import (
    MIN_SHARE_DIFFERENCE,
    MIN_SHARE_OF_COPIES,
    QUANTILES,
    Numbers,
    SampleKeys,
    copy_caveats,
    count_independent,
    percent,
    quantiles_differ,
    share_caveat,
    shares_differ,
    skipped_caveats,
)
from mallow.errors import Caveat
from mallow.samples import Samples

_CLOSING_MARKS = "\"'”’»›)]}*_`"
_SENTENCE_ENDS = tuple(".!?…。！？．｡؟۔।॥:;")
_TOKENIZER_MARKER = re.compile(r"<\|\w{1,30}\|>|</?s>|<(?:unk|pad|eos|bos|mask)>|\[(?:PAD|CLS|SEP|UNK|MASK)\]")
_SPACED_PUNCTUATION = re.compile(r"\w [.,] ")
_SHORTEST_LIMIT = 20  # words or characters; chosen: many shorter texts share their length with others anyway
# Chosen: a model may well write no semicolons, so an ASCII mark must be in this share of texts to count as missing.
_COMMON = 0.5
_MISSING_RATIO = 10  # chosen: a character is missing if it is this many times as frequent on the other side
_CHARACTERS_SHOWN = 6
_SIDES = ("these texts", "the reference texts")
_CONTROL_NAMES = {"\n": "line feed", "\r": "carriage return", "\t": "tab"}
_STRIP = "Strip the texts on both sides, or on neither."


@dataclass(frozen=True)
class Trait:
    """A yes-or-no property of a text."""

    kind: str  # of the caveat
    applies_to: Callable[[str], bool]  # whether a text has the trait
    phrase: str  # the predicate of "… of the texts"
    advice: str  # what usually explains a difference, and what to do
    least: float = MIN_SHARE_DIFFERENCE  # the smallest difference of shares that matters


# Plain searches come first. They are much faster than the expressions, and most texts contain neither.
TRAITS = (
    Trait("space", lambda text: text[:1].isspace(), "begin with white space", _STRIP),
    Trait("space", lambda text: text[-1:].isspace(), "end with white space", _STRIP),
    Trait(
        "case",
        lambda text: text == text.lower() != text.upper(),
        "contain no capital letters",
        "This usually means that one side was lower-cased. Undo that, or lower-case both sides.",
    ),
    Trait(
        "case",
        lambda text: text == text.upper() != text.lower(),
        "are written in capital letters only",
        "This usually means that one side was upper-cased. Undo that, or upper-case both sides.",
    ),
    Trait(
        "truncation",
        lambda text: not text.rstrip().rstrip(_CLOSING_MARKS).endswith(_SENTENCE_ENDS),
        "end without a punctuation mark that closes a sentence",
        (
            "This usually means that one side was cut off. Cut both sides to the same length, or let both end by "
            "themselves."
        ),
    ),
    Trait(
        "characters",
        lambda text: not text.isascii() and not unicodedata.is_normalized("NFC", text),
        "are not normalised to composed Unicode (NFC)",
        "Normalise both sides with unicodedata.normalize('NFC', text).",
    ),
    Trait(
        "leftovers",
        lambda text: ("<" in text or "[" in text) and _TOKENIZER_MARKER.search(text) is not None,
        "contain tokenizer markers such as <|endoftext|>",
        "Remove them.",
        MIN_SHARE_OF_COPIES,
    ),
    Trait(
        "leftovers",
        lambda text: (" . " in text or " , " in text) and _SPACED_PUNCTUATION.search(text) is not None,
        "contain a space before a full stop or comma",
        "This usually means that one side is tokenised text. Undo the tokenisation, in the same way on both sides.",
    ),
)
"""The traits that are checked."""


@dataclass(frozen=True, eq=False)
class _TextCounts:
    """Everything that is counted in one set of texts."""

    n: int
    independent: int
    lengths: dict[str, Numbers]  # sorted, in words and in characters
    traits: tuple[float, ...]  # the share of texts that have each of TRAITS
    characters: Counter[str]  # the number of texts that contain each character
    blank: int  # texts of white space only
    keys: SampleKeys


def text_caveats(sets: Sequence[tuple[str, Samples]]) -> Iterator[Caveat]:
    """Caveats about sets of texts, the first of which is the reference."""
    counts = [_count_texts(samples) for _, samples in sets]
    keys = [(name, count.keys) for (name, _), count in zip(sets, counts, strict=True)]
    for index, (name, samples) in enumerate(sets):
        yield from skipped_caveats(name, samples, counts[index].blank)
        yield from copy_caveats(keys[: index + 1], "texts")
        if index:
            yield from _length_caveats(name, counts[index], counts[0])
            yield from _limit_caveats(name, counts[index], counts[0])
            yield from _trait_caveats(name, counts[index], counts[0])
            yield from _character_caveats(name, counts[index], counts[0])
            yield from _kept_prompt_caveats(name, samples, sets[0][1])


def _count_texts(samples: Samples) -> _TextCounts:
    texts = samples.require_texts()
    words, keys, characters = [], [], Counter[str]()
    for text in texts:
        parts = text.split()
        words.append(len(parts))
        # White space and case do not count: a text that was only reformatted is still a copy.
        normalised = " ".join(parts).casefold().encode("utf-8", "surrogatepass")
        keys.append(hashlib.blake2b(normalised, digest_size=16).digest())
        characters.update(set(text))
    return _TextCounts(
        n=len(texts),
        independent=count_independent(samples),
        lengths={
            "words": np.sort(np.array(words, np.float64)),
            "characters": np.sort(np.array([len(text) for text in texts], np.float64)),
        },
        traits=tuple(sum(map(trait.applies_to, texts)) / len(texts) for trait in TRAITS),
        characters=characters,
        blank=words.count(0),
        keys=SampleKeys.count(keys, texts.__getitem__),
    )


def _length_caveats(name: str, model: _TextCounts, reference: _TextCounts) -> Iterator[Caveat]:
    """Lengths that differ, in words or, if those do not, in characters."""
    for unit, lengths in model.lengths.items():
        others = reference.lengths[unit]
        if quantiles_differ(lengths, others, model.independent, reference.independent):
            (low, middle, high), (low_r, middle_r, high_r) = (
                np.quantile(part, QUANTILES) for part in (lengths, others)
            )
            values = {
                f"{unit}_{round(100 * level)}{side}": float(value)
                for side, quantiles in (("", (low, middle, high)), ("_reference", (low_r, middle_r, high_r)))
                for level, value in zip(QUANTILES, quantiles, strict=True)
            }
            yield Caveat(
                "length",
                f"the median text is {middle:.0f} {unit} long (reference: {middle_r:.0f}), and 80% of the texts are "
                f"{low:.0f} to {high:.0f} {unit} long (reference: {low_r:.0f} to {high_r:.0f}). Cut both sides to the "
                "same length; otherwise the score measures length too.",
                name,
                values,
            )
            return


def _limit_caveats(name: str, model: _TextCounts, reference: _TextCounts) -> Iterator[Caveat]:
    """Many texts of exactly the maximum length on one side, and hardly any of that length on the other."""
    for unit in model.lengths:
        for limited, other in ((model, reference), (reference, model)):
            lengths, longest = limited.lengths[unit], float(limited.lengths[unit][-1])
            share, share_other = (float(np.mean(counts.lengths[unit] == longest)) for counts in (limited, other))
            slightly_shorter = float(np.mean((lengths >= 0.9 * longest) & (lengths < longest)))
            if longest < _SHORTEST_LIMIT or share <= max(slightly_shorter, share_other):
                continue
            if shares_differ(share, share_other, limited.independent, other.independent):
                here, there = _SIDES if limited is model else _SIDES[::-1]
                shares = (share, share_other) if limited is model else (share_other, share)
                yield Caveat(
                    "truncation",
                    f"{percent(share)} of {here} are exactly {longest:.0f} {unit} long, the maximum, but only "
                    f"{percent(share_other)} of {there}. This usually means that they were cut off. Cut both sides to "
                    "this length, or raise the limit.",
                    name,
                    {"share": shares[0], "share_reference": shares[1], unit: longest},
                )
                return


def _trait_caveats(name: str, model: _TextCounts, reference: _TextCounts) -> Iterator[Caveat]:
    for trait, share, share_reference in zip(TRAITS, model.traits, reference.traits, strict=True):
        if shares_differ(share, share_reference, model.independent, reference.independent, trait.least):
            shares, sizes = (share, share_reference), (model.n, reference.n)
            yield share_caveat(trait.kind, name, f"texts {trait.phrase}", trait.advice, shares, sizes)


def _character_caveats(name: str, model: _TextCounts, reference: _TextCounts) -> Iterator[Caveat]:
    """Characters that are common on one side and almost missing on the other."""
    sides = {True: _missing_characters(model, reference), False: _missing_characters(reference, model)}
    foreign = {of_model: [entry for entry in every if script_of(entry[0])] for of_model, every in sides.items()}
    for of_model, every in sides.items():
        yield from _script_caveats(name, foreign[of_model], of_model)
        common = model if of_model else reference
        # Where languages differ, so do the letters of both.
        missing = [entry for entry in every if not (any(foreign.values()) and entry[0].isalpha())]
        if not missing:
            continue
        share, share_other = missing[0][1:]
        shown = " ".join(_visible(character) for character, _, _ in missing[:_CHARACTERS_SHOWN])
        shown = shown.replace("\ufffd", "U+FFFD (for bytes that could not be read)")
        if len(missing) == 1:
            subject = f"the character {shown} occurs"
        else:
            rest = " …" if len(missing) > _CHARACTERS_SHOWN else ""
            subject = f"{len(missing)} characters are common on one side only: {shown}{rest}. The first of them occurs"
        here, there = _SIDES if common is model else _SIDES[::-1]
        shares = (share, share_other) if common is model else (share_other, share)
        yield Caveat(
            "characters",
            f"{subject} in {percent(share)} of {here}, but only in {percent(share_other)} of {there}. Treat line "
            "breaks, quotation marks and encodings in the same way on both sides.",
            name,
            {"share": shares[0], "share_reference": shares[1], "characters": len(missing)},
        )


def script_of(character: str) -> str:
    """The script of a letter, such as "Cyrillic"; "" for Latin letters and for characters that are no letters.

    Examples
    --------
    >>> [script_of(character) for character in "aé1яあ漢"]
    ['', '', '', 'Cyrillic', 'Hiragana', 'CJK']
    """
    if character < "\u0250" or not character.isalpha():
        return ""
    script = unicodedata.name(character, "").partition(" ")[0]
    return "" if script in ("LATIN", "FULLWIDTH", "MODIFIER", "") else "CJK" if script == "CJK" else script.title()


def _script_caveats(name: str, missing: Sequence[tuple[str, float, float]], of_model: bool) -> Iterator[Caveat]:
    """A caveat about letters of another script that only one side has: another language, not another encoding."""
    if not missing:
        return
    character, share, share_other = missing[0]
    here, there = _SIDES if of_model else _SIDES[::-1]
    yield Caveat(
        "language",
        f"{percent(share)} of {here} contain {script_of(character)} letters such as {character}, but only "
        f"{percent(share_other)} of {there}. Compare texts in the same language.",
        name,
        {"share": share if of_model else share_other, "share_reference": share_other if of_model else share},
    )


def _missing_characters(common: _TextCounts, other: _TextCounts) -> list[tuple[str, float, float]]:
    """Characters that are common on one side and almost missing on the other, with both shares. The commonest first."""
    missing = []
    for character, count in common.characters.items():
        share, share_other = count / common.n, other.characters[character] / other.n
        if share < _COMMON and character.isascii() and character.isprintable():
            continue
        swapped = character.swapcase()  # a change of case is reported as such
        only_case = swapped != character and other.characters[swapped] / other.n >= share / 2
        if share_other > share / _MISSING_RATIO or only_case:
            continue
        if shares_differ(share, share_other, common.independent, other.independent):
            missing.append((character, share, share_other))
    return sorted(missing, key=lambda entry: (-entry[1], entry[0]))


def _visible(character: str) -> str:
    if character in _CONTROL_NAMES:
        return _CONTROL_NAMES[character]
    plain = character.isprintable() and not character.isspace() and not unicodedata.combining(character)
    return character if plain else unicodedata.name(character, f"U+{ord(character):04X}")


def _kept_prompt_caveats(name: str, samples: Samples, reference: Samples) -> Iterator[Caveat]:
    """Texts that begin with their prompt, on one side only."""
    prompts = samples.prompts or reference.prompts
    if prompts is None:
        return
    shares = share_with_prompt(samples, prompts), share_with_prompt(reference, prompts)
    if shares_differ(*shares, count_independent(samples), count_independent(reference)):
        advice = "Remove the prompts on both sides, or keep them on both."
        sizes = len(samples), len(reference)
        yield share_caveat("prompt", name, "texts begin with their prompt", advice, shares, sizes)


def share_with_prompt(samples: Samples, prompts_of_others: Sequence[str] = ()) -> float:
    """The share of texts that begin with their own prompt or, if they have none, with one of the other side."""
    texts = [text.strip() for text in samples.require_texts()]
    if samples.prompts is not None:
        pairs = zip(texts, (prompt.strip() for prompt in samples.prompts), strict=True)
        return sum(bool(prompt) and text.startswith(prompt) for text, prompt in pairs) / len(texts)
    # If a text begins with a prompt, that prompt is the last one not after the text in alphabetical order, unless one
    # prompt begins with another.
    ordered = sorted({prompt.strip() for prompt in prompts_of_others} - {""})
    positions = (bisect_right(ordered, text) for text in texts)
    hits = (after > 0 and text.startswith(ordered[after - 1]) for text, after in zip(texts, positions, strict=True))
    return sum(hits) / len(texts)
