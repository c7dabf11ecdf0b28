"""A value with the interval that it lies in."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["Estimate", "at_least", "at_most", "p_number", "p_text"]


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it; what the interval is about is said where the estimate is.

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
    """A p-value as people write it.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.00213), p_text(3e-9)
    ('p = 0.031', 'p = 0.0021', 'p < 1e-6')
    """
    number = p_number(p_value)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def p_number(p_value: float) -> str:
    """A p-value for a column of them.

    Examples
    --------
    >>> p_number(0.0312), p_number(2.34e-5), p_number(3e-9)
    ('0.031', '2.3e-5', '< 1e-6')
    """
    return "< 1e-6" if p_value < 1e-6 else f"{p_value:.2g}".replace("e-0", "e-")


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
