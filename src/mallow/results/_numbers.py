"""Numbers as people read them: estimates, p-values, and bounds that stay true when they are rounded."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_LEVEL = 0.05  # the usual level of significance


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
