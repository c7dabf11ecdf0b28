"""The verdict about a gap as a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from mallow.explain._reason import LEVEL, Reason
from mallow.results import at_most, p_text

_REASONS = 3  # in a sentence; chosen


def verdict_text(p_value: float, most: float, n: tuple[int, int], reasons: Sequence[Reason] = ()) -> str:
    """Whether there is a gap, how large it is at least, and, where it is real, the first of its reasons.

    `p_value` is that of the test of identity, `most` what MAUVE is at most with 95 % confidence.

    Examples
    --------
    >>> verdict_text(1e-9, 0.2379, (1000, 1000))
    'The gap is real: with 95 % confidence MAUVE is at most 0.24 (p < 1e-6).'
    >>> verdict_text(0.31, 1.0, (1000, 500))
    'No gap was found (p = 0.31): these 1,000 and 500 samples cannot be told apart.'
    """
    p, limit = p_text(p_value), _limit_text(most)
    if p_value >= LEVEL and limit is None:
        return f"No gap was found ({p}): these {n[0]:,} and {n[1]:,} samples cannot be told apart."
    if p_value >= LEVEL:
        return (
            f"The evidence is mixed: the test finds no gap ({p}), but held-out samples put MAUVE at {limit} at most, with "
            "95 % confidence. More samples would decide."
        )
    if limit is None:
        text = f"The gap is real ({p}), but too small to be measured with so few samples."
    else:
        text = f"The gap is real: with 95 % confidence MAUVE is at most {limit} ({p})."
    if reasons:
        text += f" What gives it away: {'; '.join(reason.text for reason in reasons[:_REASONS])}."
    return text


def _limit_text(most: float) -> str | None:
    """What the area is at most, with two digits that count; None where that is 1."""
    for digits in (2, 3, 4):
        text = at_most(most, digits)
        if float(text) < 1.0 and most >= 10.0 ** (1 - digits):
            return text
    return text if float(text) < 1.0 else None
