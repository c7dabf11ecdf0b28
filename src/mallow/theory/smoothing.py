"""From counts of bins to probabilities: the estimators that the paper compares.

All take counts (..., bins) and return probabilities of the same shape, each row summing to 1. A bin
that no sample fell into keeps mass 0 under `empirical` and gets some under the others
(paper: eq:add_constant, tab:add_const, fig:missing-mass).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import first_place, open_unit, positive, real_array
from mallow.errors import InputError
from mallow.theory._masses import Array

__all__ = [
    "absolute_discounting",
    "add_constant",
    "braess_sauer",
    "empirical",
    "good_turing",
    "krichevsky_trofimov",
    "laplace",
]


def empirical(counts: Any) -> Array:
    """The share of each bin, counts / n: no smoothing. The plug-in of the 2021 MAUVE."""
    return _normalised(checked_counts("counts", counts))


def add_constant(counts: Any, constant: float = 0.5) -> Array:
    """Add-b estimate (counts + b) / (n + bins·b) (paper: eq:add_constant, b = constant).

    Examples
    --------
    >>> add_constant([3, 1, 0], 1)
    array([0.57142857, 0.28571429, 0.14285714])
    """
    return _normalised(checked_counts("counts", counts) + positive("constant", constant))


def laplace(counts: Any) -> Array:
    """Add-1 estimate (paper: tab:add_const)."""
    return add_constant(counts, 1.0)


def krichevsky_trofimov(counts: Any) -> Array:
    """Add-1/2 estimate, the paper's default: the starred scores (paper: tab:add_const)."""
    return add_constant(counts, 0.5)


def braess_sauer(counts: Any) -> Array:
    """Add 1/2 to a bin not seen, 1 to a bin seen once and 3/4 to the others (paper: tab:add_const)."""
    array = checked_counts("counts", counts)
    return _normalised(array + np.where(array == 0, 0.5, np.where(array == 1, 1.0, 0.75)))


def good_turing(counts: Any) -> Array:
    """The modified Good–Turing estimate (paper: simulations of smoothing, fig:main:smoothing:new).

    With φ_t the number of bins seen t times, a bin seen t times gets a mass proportional to t if
    t > φ_{t+1}, else to (φ_{t+1} + 1)(t + 1)/φ_t.
    """
    array = checked_counts("counts", counts)
    return _normalised(np.apply_along_axis(_good_turing_row, -1, array))


def absolute_discounting(counts: Any, discount: float = 0.5) -> Array:
    """Take `discount` from every bin seen and share it among the bins not seen (paper: sec:mauve:quant).

    (count − δ)/n for a bin seen and δ·seen/(n·unseen) for one that was not; the empirical estimate
    where every bin was seen. The discount δ lies in (0, 1); ½ suits tails that fall like l^-2.
    """
    array = checked_counts("counts", counts)
    discount = open_unit("discount", discount)
    seen = array > 0
    unseen = (~seen).sum(axis=-1, keepdims=True)
    share = discount * seen.sum(axis=-1, keepdims=True) / np.maximum(unseen, 1)
    return _normalised(np.where(unseen == 0, array, np.where(seen, array - discount, share)))


def _good_turing_row(row: Array) -> Array:
    times, inverse, bins = np.unique(row, return_inverse=True, return_counts=True)
    follows = np.append(times[1:] == times[:-1] + 1, False)
    next_bins = np.where(follows, np.append(bins[1:], 0), 0)  # φ_{t+1} for each t that occurs
    masses = np.where(times > next_bins, times, (next_bins + 1) * (times + 1) / bins)
    found: Array = masses[inverse]
    return found


def _normalised(weights: Array) -> Array:
    found: Array = weights / weights.sum(axis=-1, keepdims=True)
    return found


def checked_counts(name: str, counts: Any) -> Array:
    """Counts (..., bins) as floats, refused if they are not counts."""
    array = real_array(name, counts)
    if not np.isfinite(array).all():
        place = first_place(~np.isfinite(array))
        raise InputError(f"`{name}` must be finite; got {array[place]} at index {place}.")
    if (array < 0).any():
        place = first_place(array < 0)
        raise InputError(f"`{name}` must not be negative; got {array[place]:g} at index {place}.")
    if (array != np.round(array)).any():
        place = first_place(array != np.round(array))
        raise InputError(f"`{name}` must be whole numbers; got {array[place]:g} at index {place}.")
    empty = array.sum(axis=-1) == 0
    if empty.any():
        where = f" in row {first_place(empty)}" if empty.ndim else ""
        raise InputError(f"`{name}` must hold at least one sample; all bins are empty{where}.")
    return array
