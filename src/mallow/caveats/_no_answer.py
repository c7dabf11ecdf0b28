"""Samples about which a measure can say nothing: they are refused, since any number would be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.estimate import Codebook, Quantize
from mallow.evidence import Measure

_SAME_DIRECTION = (
    1e-6  # by which entries of rows of length 1 may differ and still be equal; chosen: rounding of float32
)
_ROWS = 256  # chosen: rows at once; the first few nearly always show that there is an answer
_REMEDY = "Pass measure=Measure(Quantize(reduce=Reduce(normalise=False))), which leaves the rows as they are."


def refuse_without_answer(measure: Measure, sides: Iterable[NDArray[Any]]) -> None:
    """Raise an InputError if all rows of all sides are the same, or would be once they are scaled to length 1.

    `sides` are the features of the reference and of every system, all of one width.
    """
    rows = list(sides)
    total = sum(map(len, rows))
    first = rows[0][0]
    if any(side.shape[1] != len(first) for side in rows):  # an error of its own
        return
    if all((side[low : low + _ROWS] == first).all() for side in rows for low in range(0, len(side), _ROWS)):
        raise InputError(
            f"all {total} rows of features are the same, so that nothing can be said about the samples: any score would be 1, "
            "whatever they contain. Use another embedder, or check how the features were made."
        )
    if not ignores_lengths(measure):
        return
    if len(first) == 1:
        raise InputError(
            "the features have width 1, and the measure scales every row to length 1, so that only their signs would be "
            f"compared. {_REMEDY}"
        )
    if _one_direction(rows):
        raise InputError(
            f"all {total} rows of features point in one direction and differ in length only, and the measure scales every row "
            f"to length 1, so that nothing would be left to compare. {_REMEDY}"
        )


def ignores_lengths(measure: Measure) -> bool:
    """Whether the measure scales every row to length 1."""
    estimator = measure.estimator
    if not isinstance(estimator, Quantize):
        return False
    if isinstance(estimator.codebook, Codebook):
        return estimator.codebook.projection is not None and estimator.codebook.projection.normalise
    return estimator.reduce is not None and estimator.reduce.normalise


def _one_direction(sides: list[NDArray[Any]]) -> bool:
    reference: NDArray[np.float64] | None = None
    for side in sides:
        for low in range(0, len(side), _ROWS):
            block = side[low : low + _ROWS].astype(np.float64)
            largest = np.abs(block).max(axis=1, keepdims=True)
            if not largest.all():  # a row of zeros has no direction, so that it is not that of the others
                return False
            block /= largest  # squares must neither overflow nor vanish
            block /= np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
            reference = block[0] if reference is None else reference
            if np.abs(block - reference).max() > _SAME_DIRECTION:
                return False
    return True
