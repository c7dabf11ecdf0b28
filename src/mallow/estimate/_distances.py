"""Distances between all points of two samples, for the estimators that need nothing else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mallow._checks import first_place, whole
from mallow.errors import InputError
from mallow.estimate._features import Features
from mallow.theory import Array

ENTRIES = 1 << 20  # chosen: entries of one block of distances, so that a few arrays of 8 MB are held at once

_ASYMMETRY = 1e-5  # chosen: relative to the largest distance; rounding in float32 stays below


def checked_distances(distances: Any, n: int) -> tuple[Features, int]:
    """A symmetric matrix of finite distances in float32 or float64, and the number of reference samples."""
    matrix = np.asarray(distances)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"`distances` must be an array of numbers; got dtype {matrix.dtype}.")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"`distances` must be a square matrix, from each of the n + m samples to each; got shape {matrix.shape}."
        )
    n = whole("n", n, least=2)
    if len(matrix) - n < 2:
        raise InputError(
            f"`n` must leave at least 2 of the {len(matrix)} samples for the model; got {n}. "
            "It is the number of reference samples, which come first."
        )
    matrix = matrix.astype(np.result_type(matrix.dtype, np.float32), copy=False)
    if not np.isfinite(matrix).all():
        place = first_place(~np.isfinite(matrix))
        raise InputError(f"`distances` must be finite; got {matrix[place]} at index {place}.")
    if (matrix < 0).any():
        place = first_place(matrix < 0)
        raise InputError(f"`distances` must not be negative; got {matrix[place]} at index {place}. Are these kernels?")
    if np.diagonal(matrix).any():
        place = first_place(np.diagonal(matrix) != 0)
        raise InputError(
            f"`distances` must be 0 from each sample to itself; got {matrix[place, place]} for sample {place}. "
            "Are these kernels? A kernel k becomes a distance by √(k(u, u) + k(v, v) − 2k(u, v))."
        )
    off = np.abs(matrix - matrix.T)
    if off.max() > _ASYMMETRY * matrix.max():
        place = first_place(off == off.max())
        raise InputError(f"`distances` must be symmetric; entry {place} and its mirror differ by {off.max():.3g}.")
    return matrix, n


def to_unit_range(points: Features) -> tuple[Array, int]:
    """Points divided by 2**exponent, so that no square overflows, and the exponent; the division is exact."""
    exponent = math.frexp(float(np.abs(points).max()))[1]
    return np.ldexp(points.astype(np.float64), -exponent), exponent


def blocks(rows: int, width: int) -> list[slice]:
    """Ranges of rows whose distances to `width` points fit into one block."""
    step = max(1, ENTRIES // width)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
