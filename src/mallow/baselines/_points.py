"""The common part of all feature metrics: checks of the input, blocks of rows, and the number of threads.

Each of them takes the features of the reference (n, d) and of the model (m, d), one row per sample, as `mallow.embed`
produces them. Everything except one copy of the features is computed in blocks: 50,000 × 2,048 features per side need
about 2 GB besides the samples themselves, and the result does not depend on the number of processors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place, seed_from
from mallow.engine import cores
from mallow.errors import InputError
from mallow.estimate import Features, checked_features, checked_pair

Doubles = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

ROWS = 2048  # rows per matrix product; chosen: the product of two such blocks takes 16 MB in float32

_LARGEST = 1e40  # chosen: the cube of a product of two such numbers, 1e240, is far from overflow
_ORDINARY = 20  # features between 2^-20 and 2^20 are not rescaled; chosen: their squares are far from float32's limits
_MOST_THREADS = 16  # chosen: each thread holds a few blocks, and more threads would need more memory than the features


def check_pair(reference: Any, model: Any) -> tuple[Features, Features]:
    """Both samples as float32 or float64 arrays of the same width whose powers do not overflow."""
    x, y = checked_pair(reference, model)
    return _refuse_large("reference", x), _refuse_large("model", y)


def check_sample(name: str, points: Any) -> Features:
    """One sample of at least two rows, checked in the same way."""
    return _refuse_large(name, checked_features(name, points))


def rescale(x: Features, y: Features) -> tuple[Features, Features]:
    """Both samples, divided by the same power of two if their squares could overflow or vanish.

    For metrics that do not depend on the unit of the features.
    """
    exponent = math.frexp(max(largest_entry(x), largest_entry(y)))[1]
    if abs(exponent) < _ORDINARY:
        return x, y
    return np.ldexp(x.astype(np.float64), -exponent), np.ldexp(y.astype(np.float64), -exponent)


def largest_entry(points: Features) -> float:
    """The largest absolute value."""
    return max(float(points.max()), -float(points.min()))


def row_blocks(count: int, size: int) -> list[slice]:
    """Slices of at most `size` rows that cover `count` rows."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def thread_count() -> int:
    """How many threads work on blocks."""
    return min(cores(), _MOST_THREADS)


def as_generator(rng: int | np.random.Generator | None) -> np.random.Generator:
    """A generator is used as it is. An integer or None seeds a new one."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_from(rng))


def _refuse_large(name: str, points: Features) -> Features:
    if largest_entry(points) > _LARGEST:
        index = first_place(np.abs(points) > _LARGEST)
        raise InputError(
            f"`{name}` must not exceed {_LARGEST:g} in absolute value, so that its powers do not overflow; got "
            f"{points[index]:g} at index {index}. Divide both samples by the same number."
        )
    return points
