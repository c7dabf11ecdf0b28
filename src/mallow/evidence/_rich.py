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
_PRIOR = 2.0  # chosen: the common covariance counts as this many samples per axis


def nearest_samples(reference: Features, model: Features, others: Features) -> Array:
    """The log-ratio of the densities of the model and the reference, from the distance to the fifth neighbour."""
    points = [_leading(side) for side in (reference, model, others)]
    distances = []
    for side in points[:2]:
        table = _squared_distances(points[2], side)
        near = min(_NEIGHBOURS, len(side)) - 1
        distances.append(np.log(np.partition(table, near, axis=1)[:, near] + np.finfo(np.float32).tiny))
    ratio: Array = distances[1] - distances[0]
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


def _squared_distances(points: Array, others: Array) -> Array:
    squares = np.square(points).sum(axis=1)[:, None] + np.square(others).sum(axis=1) - 2.0 * points @ others.T
    table: Array = np.maximum(squares, 0.0)
    return table
