"""How values appear on the page: numbers, letters of groups, texts with marked words, small copies of images."""

from __future__ import annotations

import base64
import importlib.util
import io
import re
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup


_LONGEST_TEXT = 600  # characters of an example; chosen: a paragraph or two
_THUMBNAIL = 192  # pixels; chosen: twice the size at which it is shown, for sharp screens
_POWER = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e-0?(\d+)(?!\w)")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_number(value: float, digits: int = 3) -> str:
    """So many decimals, with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "\u2212")


def typeset(text: str) -> str:
    """Small numbers as powers of ten, and no line break before per cent or within "p < …".

    Examples
    --------
    >>> typeset("p < 1e-6, or 5.1e-12"), typeset("in 48 % of the texts")
    ('p\\xa0<\\xa010⁻⁶, or 5.1·10⁻¹²', 'in 48\\xa0% of the texts')
    """

    def power(match: re.Match[str]) -> str:
        ten = f"10⁻{match[2].translate(_SUPERSCRIPTS)}"
        return ten if match[1] == "1" else f"{match[1]}·{ten}"

    text = re.sub(r"(?<=\d) %", "\u00a0%", _POWER.sub(power, text))
    return re.sub(r"\bp ([<=]) ", "p\u00a0\\1\u00a0", text)


def group_letters(place: int) -> str:
    """The letters of the group at a place: A, B, …, Z, AA, AB, …"""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def shorten_text(text: str) -> str:
    """The beginning of a text, and how much is left out."""
    rest = len(text) - _LONGEST_TEXT
    return text if rest <= 0 else f"{text[:_LONGEST_TEXT]} … ({rest:,} more characters)"


def mark_terms(text: str, terms: Iterable[str]) -> Markup:
    """A text for the page, escaped, in which words and pairs of words are marked wherever they stand.

    Examples
    --------
    >>> print(mark_terms("The Cat & the catalogue; the, cat", ["cat", "the cat"]))
    <mark>The Cat</mark> &amp; the catalogue; <mark>the, cat</mark>
    """
    from markupsafe import Markup, escape

    patterns = [r"\W+".join(map(re.escape, term.split())) for term in sorted(terms, key=len, reverse=True)]
    patterns = [pattern for pattern in patterns if pattern]
    if not patterns:
        return escape(text)
    parts, after = [], 0
    for match in re.finditer(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", text, re.IGNORECASE):
        parts += [escape(text[after : match.start()]), Markup("<mark>"), escape(match[0]), Markup("</mark>")]
        after = match.end()
    return Markup("").join([*parts, escape(text[after:])])


def thumbnail(path: str) -> str | None:
    """A small copy of an image as a data: address; None without Pillow, or if Pillow cannot read the file."""
    if importlib.util.find_spec("PIL") is None:
        return None
    from PIL import Image

    try:
        with warnings.catch_warnings():  # whatever is odd about an image, the page shows it or its path
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                image.thumbnail((_THUMBNAIL, _THUMBNAIL))
                stream = io.BytesIO()
                image.convert("RGBA").save(stream, "PNG")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
