"""Richer views than the defaults of a witness, to check whether they reverse the order of two systems.

They take time, so they are used only for significant orders, and on some of the rows.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from mallow.estimate import Features
from mallow.theory import Array

AXES = 64  # chosen: leading components that the views use, which are the last columns of their features
_NEIGHBOURS = 5  # chosen
_ROWS = 128  # chosen: points whose distances are computed at once; these stay in the cache
_PRIOR = 2.0  # chosen: the common covariance counts as this many samples per axis


def nearest_samples(reference: Features, model: Features, others: Features) -> Array:
    """The log-ratio of the densities of the model and the reference, from the distance to the fifth neighbour."""
    *sides, points = (_leading(side) for side in (reference, model, others))
    first, second = (np.log(_to_neighbour(points, side) + np.finfo(np.float32).tiny) for side in sides)
    ratio: Array = second - first
    return ratio


def two_gaussians(reference: Features, model: Features, others: Features) -> Array:
    """The log-ratio of two Gaussians with separate covariances, shrunk towards the common one."""
    points = [_leading(side) for side in (reference, model, others)]
    centres = [side.mean(axis=0) for side in points[:2]]
    scatters = [(side - centre).T @ (side - centre) for side, centre in zip(points[:2], centres, strict=True)]
    sizes = [len(side) for side in points[:2]]
    common = sum(scatters) / sum(sizes)
    common += 1e-6 * np.trace(common) / len(common) * np.eye(len(common)) + np.finfo(float).tiny * np.eye(len(common))
    prior = _PRIOR * len(common)
    scores = []
    for centre, scatter, size in zip(centres, scatters, sizes, strict=True):
        root = scipy.linalg.cholesky((scatter + prior * common) / (size + prior), lower=True, check_finite=False)
        white = scipy.linalg.solve_triangular(root, (points[2] - centre).T, lower=True, check_finite=False)
        scores.append(-0.5 * np.square(white).sum(axis=0) - np.log(np.diagonal(root)).sum())
    ratio: Array = scores[0] - scores[1]
    return ratio


RICH_VIEWS = (nearest_samples, two_gaussians)


def _leading(rows: Features) -> Array:
    return np.asarray(rows[:, -AXES:], dtype=np.float64)


def _to_neighbour(points: Array, others: Array) -> Array:
    """The squared distance of each point to its fifth neighbour among the others."""
    near, lengths = min(_NEIGHBOURS, len(others)) - 1, np.square(others).sum(axis=1)
    squares = np.empty(len(points))
    for low in range(0, len(points), _ROWS):
        block = points[low : low + _ROWS]
        table = np.square(block).sum(axis=1)[:, None] + lengths - 2.0 * block @ others.T
        table.partition(near, axis=1)
        squares[low : low + _ROWS] = table[:, near]
    return np.maximum(squares, 0.0)
