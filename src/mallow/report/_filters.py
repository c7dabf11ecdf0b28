"""How values appear on the page: numbers, letters of groups, long texts, small copies of images."""

from __future__ import annotations

import base64
import importlib.util
import io
import warnings

__all__ = ["format_number", "group_letters", "shorten_text", "thumbnail"]

_LONGEST_TEXT = 600  # characters of an example; chosen: a paragraph or two
_THUMBNAIL = 192  # pixels; chosen: twice the size at which it is shown, for sharp screens


def format_number(value: float, digits: int = 3) -> str:
    """So many decimals, with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "\u2212")


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
    return text if rest <= 0 else f"{text[:_LONGEST_TEXT]} … ({rest} more characters)"


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
