"""From bin counts to probabilities: the estimators that the paper compares.

Each takes counts (..., bins) and returns probabilities of the same shape; every row sums to 1. A bin without
samples keeps mass 0 under `empirical` and gets a positive mass under all others
(paper: eq:add_constant, tab:add_const, fig:missing-mass).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import open_unit, positive
from mallow.theory._masses import Array, checked_counts

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
    """Share of the samples in each bin, counts / n, without smoothing: the plug-in estimate of the 2021 MAUVE."""
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
    """Add-1/2 estimate, the paper's default, used for its starred scores (paper: tab:add_const)."""
    return add_constant(counts, 0.5)


def braess_sauer(counts: Any) -> Array:
    """Braess–Sauer estimate: add 1/2 to empty bins, 1 to bins with one sample, 3/4 to others (paper: tab:add_const)."""
    array = checked_counts("counts", counts)
    return _normalised(array + np.where(array == 0, 0.5, np.where(array == 1, 1.0, 0.75)))


def good_turing(counts: Any) -> Array:
    """Modified Good–Turing estimate (paper: simulations of smoothing, fig:main:smoothing:new).

    With φ_t the number of bins that hold t samples, a bin with t samples gets a mass proportional to t if
    t > φ_{t+1}, and to (φ_{t+1} + 1)(t + 1)/φ_t otherwise.
    """
    array = checked_counts("counts", counts)
    return _normalised(np.apply_along_axis(_good_turing_masses, -1, array))


def absolute_discounting(counts: Any, discount: float = 0.5) -> Array:
    """Absolute discounting: take `discount` from every occupied bin and share it among the empty ones.

    An occupied bin gets (count − δ)/n and an empty one δ·occupied/(n·empty), with δ = discount in (0, 1)
    (paper: sec:mauve:quant). If no bin is empty, this is the empirical estimate. δ = ½ suits tails that fall like l^-2.
    """
    array = checked_counts("counts", counts)
    discount = open_unit("discount", discount)
    occupied = array > 0
    empty = (~occupied).sum(axis=-1, keepdims=True)
    share = discount * occupied.sum(axis=-1, keepdims=True) / np.maximum(empty, 1)
    return _normalised(np.where(empty == 0, array, np.where(occupied, array - discount, share)))


def _good_turing_masses(row: Array) -> Array:
    """Masses of one row of counts, before normalisation."""
    times, inverse, bins = np.unique(row, return_inverse=True, return_counts=True)
    next_bins = np.append(np.where(times[1:] == times[:-1] + 1, bins[1:], 0), 0)  # φ_{t+1} for each t that occurs
    masses: Array = np.where(times > next_bins, times, (next_bins + 1) * (times + 1) / bins)
    return masses[inverse]


def _normalised(weights: Array) -> Array:
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares
