"""Correction of p-values for the number of tests."""

from __future__ import annotations

from collections.abc import Sequence

from mallow.errors import InputError


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order of the input: they keep the chance of any false alarm below the level.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise InputError(f"`p_values` must lie between 0 and 1; got {list(p_values)}.")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
