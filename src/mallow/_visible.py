"""Text from outside, such as names of systems and files, made safe to show: control characters become visible."""

from __future__ import annotations

import re

# C0 controls except tab and line feed, DEL and C1 controls (which move the cursor, change colours or retitle the
# window), separators that some programs take for line ends, marks that reorder the text around them, halves of
# surrogate pairs (bytes of file names that are not UTF-8 and could become C1 controls again), and noncharacters.
_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE += "\ufeff\ufff9-\ufffb\ufffe\uffff"
_OUTSIDE_LINES = re.compile(f"[{_UNSAFE}]")
_ANYWHERE = re.compile(f"[\t\n{_UNSAFE}]")
_LINE_ENDS = re.compile(r"\s*[\n\r]\s*")


def visible(text: str, *, lines: bool = True) -> str:
    r"""The text with control characters as Python writes them, such as ``\x1b``; with `lines`, lines and tabs stay.

    Examples
    --------
    >>> print(visible("a\x1b[31m red\u202e\nb"))
    a\x1b[31m red\u202e
    b
    >>> print(visible("a\nb", lines=False))
    a\nb
    """
    return (_OUTSIDE_LINES if lines else _ANYWHERE).sub(_written, text)


def one_line(text: str) -> str:
    r"""The text in one line, for messages: line ends become spaces, and other control characters visible.

    Examples
    --------
    >>> print(one_line("cannot be read:\n  bad \x07 byte\n"))
    cannot be read: bad \x07 byte
    """
    return visible(_LINE_ENDS.sub(" ", text.strip()).replace("\t", " "), lines=False)


def _written(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
