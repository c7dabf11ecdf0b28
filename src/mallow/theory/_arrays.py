"""Arrays of real numbers: their type, and the checks that histograms, counts and points share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place, real_array
from mallow.errors import InputError

Array = NDArray[np.float64]

SUM_TOLERANCE = 1e-6  # chosen: probabilities rounded to float32 pass; counts, percentages and missing bins do not


def require_finite(name: str, array: Array) -> None:
    """Raise an InputError that names the first entry that is NaN or infinite."""
    infinite = ~np.isfinite(array)
    if infinite.any():
        place = first_place(infinite)
        raise InputError(f"`{name}` must be finite; got {array[place]:g} at index {place}.")


def require_weights(name: str, array: Array) -> None:
    """Raise an InputError that names the first entry that is not finite, or is negative."""
    require_finite(name, array)
    negative = array < 0
    if negative.any():
        place = first_place(negative)
        raise InputError(f"`{name}` must not be negative; got {array[place]:g} at index {place}.")


def checked_counts(name: str, counts: Any) -> Array:
    """`counts` (..., bins) as floats, if they are whole numbers and every row holds at least one sample."""
    array = real_array(name, counts)
    require_weights(name, array)
    if (array != np.round(array)).any():
        place = first_place(array != np.round(array))
        raise InputError(f"`{name}` must be whole numbers; got {array[place]:g} at index {place}.")
    empty = array.sum(axis=-1) == 0
    if empty.any():
        where = f" in row {first_place(empty)}" if empty.ndim else ""
        raise InputError(f"`{name}` must hold at least one sample; all bins are empty{where}.")
    return array
