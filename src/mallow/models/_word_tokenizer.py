"""The words of a text in any script: the tokenizer of string kernels, text statistics and diagnoses."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata

# Latin letters and the usual punctuation: no marks, joiners, emoji or scripts without spaces, and nothing invisible. The
# short pattern finds the same tokens in such texts, four times as fast.
_PLAIN = re.compile("[\x00-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf]*")
_PLAIN_WORDS = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def words(text: str) -> list[str]:
    """Words in lower case, and single punctuation marks and symbols, in the order of the text.

    Words keep their apostrophes (don't) and their combining marks (as in Devanagari or pointed Hebrew); underscores and
    digits belong to words. An emoji with its modifiers is one token, and so is a flag. Each Chinese or Japanese character
    is a token, because no spaces separate the words. In Thai, Lao, Khmer and Burmese everything between two spaces is one
    token: pass another `tokenize` for these languages. White space and invisible directional marks are dropped. Composed
    and decomposed letters are equal (NFC).

    Examples
    --------
    >>> words("Don't panic: 42 👍🏽!")
    ["don't", 'panic', ':', '42', '👍🏽', '!']
    """
    text = unicodedata.normalize("NFC", text.lower())
    return (_PLAIN_WORDS if _PLAIN.fullmatch(text) else _pattern()).findall(text)


@functools.cache
def _pattern() -> re.Pattern[str]:
    # \w does not match combining marks, and `re` has no class for them: without this, Hindi words would be cut into
    # pieces. Built at the first use, because going through the characters takes a few milliseconds.
    letters = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))  # there are no marks elsewhere
    marks = _ranges([code for code in letters if unicodedata.category(chr(code))[0] == "M"])
    alone = "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
    invisible = "\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    skin, flag = "\U0001f3fb-\U0001f3ff", "[\U0001f1e6-\U0001f1ff]"
    word = rf"[^\W{alone}](?:[^\W{alone}]|[{marks}])*"
    symbol = rf"[^\w\s{invisible}][{marks}{skin}\U000e0020-\U000e007f]*"
    # Zero-width joiners occur inside words of Persian and of the scripts of India, and inside emoji.
    return re.compile(rf"{word}(?:['’\u200c\u200d]{word})*|{flag}{{2}}|[{alone}][{marks}]*|{symbol}(?:\u200d{symbol})*")


def _ranges(codes: list[int]) -> str:
    """Sorted character codes as the ranges of a regular expression."""
    first = [code for before, code in zip([-1, *codes], codes, strict=False) if code != before + 1]
    last = [code for code, after in zip(codes, [*codes[1:], sys.maxunicode + 2], strict=True) if after != code + 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(first, last, strict=True))
