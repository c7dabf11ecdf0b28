"""Traits that a text has or has not, whose shares are compared between two sets of texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from mallow.caveats._statistics import MIN_SHARE_DIFFERENCE, MIN_SHARE_OF_COPIES

_CLOSING_MARKS = "\"'”’»›)]}*_`"
_SENTENCE_ENDS = tuple(".!?…。！？．｡؟۔।॥:;")
_TOKENIZER_MARKER = re.compile(r"<\|\w{1,30}\|>|</?s>|<(?:unk|pad|eos|bos|mask)>|\[(?:PAD|CLS|SEP|UNK|MASK)\]")
_SPACED_PUNCTUATION = re.compile(r"\w [.,] ")


@dataclass(frozen=True)
class Trait:
    """A yes-or-no property of a text.

    Attributes
    ----------
    kind : str
        The kind of the caveat.
    applies_to : callable
        Whether a text has the trait.
    phrase : str
        The predicate of "… of the texts".
    advice : str
        What usually explains a difference, and what to do.
    least : float
        The smallest difference of shares that matters.
    """

    kind: str
    applies_to: Callable[[str], bool]
    phrase: str
    advice: str
    least: float = MIN_SHARE_DIFFERENCE


def _has_no_capitals(text: str) -> bool:
    return text == text.lower() != text.upper()


def _has_only_capitals(text: str) -> bool:
    return text == text.upper() != text.lower()


def _ends_unfinished(text: str) -> bool:
    return not text.rstrip().rstrip(_CLOSING_MARKS).endswith(_SENTENCE_ENDS)


def _is_decomposed(text: str) -> bool:
    return not text.isascii() and not unicodedata.is_normalized("NFC", text)


# The plain searches come first: they are much faster than the expressions, and most texts have neither.
def _contains_marker(text: str) -> bool:
    return ("<" in text or "[" in text) and _TOKENIZER_MARKER.search(text) is not None


def _contains_spaced_punctuation(text: str) -> bool:
    return (" . " in text or " , " in text) and _SPACED_PUNCTUATION.search(text) is not None


_STRIP = "Strip the texts on both sides, or on neither."

TRAITS = (
    Trait("space", lambda text: text[:1].isspace(), "begin with white space", _STRIP),
    Trait("space", lambda text: text[-1:].isspace(), "end with white space", _STRIP),
    Trait(
        "case",
        _has_no_capitals,
        "contain no capital letters",
        "This usually means that one side was lower-cased. Undo that, or lower-case both sides.",
    ),
    Trait(
        "case",
        _has_only_capitals,
        "are written in capital letters only",
        "This usually means that one side was upper-cased. Undo that, or upper-case both sides.",
    ),
    Trait(
        "truncation",
        _ends_unfinished,
        "end without a punctuation mark that closes a sentence",
        "This usually means that one side was cut off. Cut both sides to the same length, or let both end by themselves.",
    ),
    Trait(
        "characters",
        _is_decomposed,
        "are not normalised to composed Unicode (NFC)",
        "Normalise both sides with unicodedata.normalize('NFC', text).",
    ),
    Trait(
        "leftovers",
        _contains_marker,
        "contain tokenizer markers such as <|endoftext|>",
        "Remove them.",
        MIN_SHARE_OF_COPIES,
    ),
    Trait(
        "leftovers",
        _contains_spaced_punctuation,
        "contain a space before a full stop or comma",
        "This usually means that one side is tokenised text. Undo the tokenisation, in the same way on both sides.",
    ),
)
"""The traits that are checked."""
