"""A value with the interval that it lies in."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Estimate"]


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
