"""Numbers as people read them: estimates, p-values, bounds that stay true when rounded, and cells of tables.

A cell keeps its numbers, because LaTeX and Markdown write them otherwise than a terminal, in other digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_LEVEL = 0.05  # the usual level of significance
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"(< )?(?:1e|([\d.]+)e)(-\d+)")


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it. The documentation of the attribute explains the interval.

    Examples
    --------
    >>> print(Estimate(0.71, 0.62, 0.8))
    0.7100 (0.6200 to 0.8000)
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


def p_text(p_value: float) -> str:
    """A p-value in the usual notation.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.00213), p_text(3e-9)
    ('p = 0.031', 'p = 0.0021', 'p < 1e-5')
    """
    number = p_number(p_value)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def p_number(p_value: float) -> str:
    """A p-value for a column of a table, with enough digits to stay on its side of 0.05.

    Examples
    --------
    >>> p_number(0.0312), p_number(2.34e-5), p_number(3e-9), p_number(0.0496)
    ('0.031', '2.3e-5', '< 1e-5', '0.0496')
    """
    if p_value <= 1e-5:  # the smallest p-value from permutations
        return "< 1e-5"
    for digits in (2, 3, 4):
        text = f"{p_value:.{digits}g}"
        if (float(text) < _LEVEL) == (p_value < _LEVEL):
            break
    return text.replace("e-0", "e-")


def at_most(value: float, digits: int = 4) -> str:
    """A number rounded up: if the value is at most this, "at most" stays true.

    Examples
    --------
    >>> at_most(0.0312), at_most(0.41201, digits=2)
    ('0.0312', '0.42')
    """
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING))


def at_least(value: float, digits: int = 4) -> str:
    """A number rounded down: if the value is at least this, "at least" stays true.

    Examples
    --------
    >>> at_least(0.0312), at_least(0.41999, digits=2)
    ('0.0312', '0.41')
    """
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR))


class Cell(str):
    """The text of a cell as a terminal shows it, with the numbers in it.

    Attributes
    ----------
    numbers : tuple of float
        One number, or the two ends of an interval.
    digits : int or None
        How many are shown after the point; None for a p-value, which has two that count.
    write : callable
        Writes a number with so many digits.
    words : str
        What stands before it, such as "at most ".
    """

    numbers: tuple[float, ...]
    digits: int | None
    write: Callable[[float, int], str]
    words: str

    @classmethod
    def of(
        cls, numbers: Sequence[float], digits: int | None, write: Callable[[float, int], str], words: str = ""
    ) -> Cell:
        """The cell of a number or an interval."""
        cell = cls(words + " to ".join(write(number, digits or 0) for number in numbers))
        cell.numbers, cell.digits, cell.write, cell.words = tuple(numbers), digits, write, words
        return cell

    @property
    def is_number(self) -> bool:
        """Whether it is one number with digits after the point, rather than an interval or a p-value."""
        return len(self.numbers) == 1 and self.digits is not None and not self.words

    def shown(self, form: str, digits: int | None) -> str:
        """The cell in a form of a table; a p-value is in LaTeX a power of ten."""
        if self.digits is None:
            return _POWER.sub(_POWERS.get(form, lambda match: match[0]), str(self))
        texts = [self.write(number, self.digits if digits is None else digits) for number in self.numbers]
        if form == "siunitx" and not self.is_number:
            texts = [rf"\num{{{text}}}" for text in texts]
        if form == "latex":
            texts = [f"${text}$" if text[0] in "+-" else text for text in texts]
        text = " to ".join(texts) if form == "text" or len(texts) == 1 else f"[{', '.join(texts)}]"
        return self.words + text


def _latex_power(match: re.Match[str]) -> str:
    sign, factor = "<" if match[1] else "", rf"{match[2]}\times" if match[2] else ""
    return f"${sign}{factor}10^{{{match[3]}}}$"


def _siunitx_power(match: re.Match[str]) -> str:
    return f"{'$<$' if match[1] else ''}" + rf"\num{{{match[2] or ''}e{match[3]}}}"


def _plain_power(match: re.Match[str]) -> str:
    factor = f"{match[2]}·" if match[2] else ""
    return f"{match[1] or ''}{factor}10{match[3].translate(_SUPERSCRIPTS)}"


_POWERS = {"latex": _latex_power, "siunitx": _siunitx_power, "markdown": _plain_power, "html": _plain_power}
_WRITERS = {
    "nearest": lambda value, digits: f"{value:.{digits}f}",
    "signed": lambda value, digits: f"{value:+.{digits}f}",
    "up": at_most,
    "down": at_least,
}


def number_cell(value: float, digits: int = 4, *, rounded: str = "nearest", words: str = "") -> Cell:
    """The cell of a number after `words`, `rounded` "nearest", "up", "down", or "signed" (nearest, with + or -).

    Examples
    --------
    >>> number_cell(0.98761, rounded="up"), number_cell(0.98761, rounded="up").shown("latex", 2)
    ('0.9877', '0.99')
    """
    return Cell.of([value], digits, _WRITERS[rounded], words)


def interval_cell(low: float, high: float, digits: int = 4, *, rounded: str = "nearest") -> Cell:
    """The cell of an interval.

    Examples
    --------
    >>> interval_cell(0.98, 0.99, 3), interval_cell(0.98, 0.99, 3).shown("latex", None)
    ('0.980 to 0.990', '[0.980, 0.990]')
    """
    return Cell.of([low, high], digits, _WRITERS[rounded])


def p_cell(p_value: float) -> Cell:
    r"""The cell of a p-value.

    Examples
    --------
    >>> p_cell(1e-9), p_cell(1e-9).shown("latex", None), p_cell(2.3e-5).shown("latex", None)
    ('< 1e-5', '$<10^{-5}$', '$2.3\\times10^{-5}$')
    """
    return Cell.of([p_value], None, _p_number)


def _p_number(value: float, digits: int) -> str:
    return p_number(value)
