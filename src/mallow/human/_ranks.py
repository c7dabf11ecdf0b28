"""Ranks and rank correlations; `scipy.stats` takes half a second to load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def average_ranks(values: Floats) -> Floats:
    """The rank of each value along the last axis, 1 for the lowest; equal values share the mean of their ranks.

    Examples
    --------
    >>> average_ranks(np.array([3.0, 1.0, 3.0]))
    array([2.5, 1. , 2.5])
    """
    lower = (values[..., None, :] < values[..., :, None]).sum(axis=-1)
    equal = (values[..., None, :] == values[..., :, None]).sum(axis=-1)
    ranks: Floats = lower + (equal + 1) / 2
    return ranks


def pearson(x: Floats, y: Floats) -> Floats:
    """The correlation along the last axis; nan where one side is constant."""
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    norm = np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Floats = np.clip(np.where(norm > 0, (x * y).sum(axis=-1) / norm, np.nan), -1.0, 1.0)
    return correlation


def spearman(x: Floats, y: Floats) -> Floats:
    """The rank correlation along the last axis; nan where one side is constant.

    Examples
    --------
    >>> float(spearman(np.array([1.0, 2.0, 4.0]), np.array([1.0, 9.0, 10.0])))
    1.0
    """
    return pearson(average_ranks(x), average_ranks(y))


def kendall(x: Floats, y: Floats) -> Floats:
    """Kendall's τ-b along the last axis: agreement of the order of pairs; nan where one side is constant."""
    one, two = np.triu_indices(x.shape[-1], 1)
    first, second = np.sign(x[..., one] - x[..., two]), np.sign(y[..., one] - y[..., two])
    norm = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: Floats = np.clip(np.where(norm > 0, (first * second).sum(axis=-1) / norm, np.nan), -1.0, 1.0)
    return tau
