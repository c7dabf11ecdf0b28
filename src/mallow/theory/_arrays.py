"""Arrays of real numbers: their type, and the checks that histograms, counts and points share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mallow._checks import first_place
from mallow.errors import InputError

Array = NDArray[np.float64]

SUM_TOLERANCE = 1e-6  # chosen: probabilities rounded to float32 pass; counts, percentages and missing bins do not


def require_finite(name: str, array: Array) -> None:
    """Raise an InputError that names the first entry that is NaN or infinite."""
    infinite = ~np.isfinite(array)
    if infinite.any():
        place = first_place(infinite)
        raise InputError(f"`{name}` must be finite; got {array[place]:g} at index {place}.")


def require_non_negative(name: str, array: Array) -> None:
    """Raise an InputError that names the first negative entry."""
    negative = array < 0
    if negative.any():
        place = first_place(negative)
        raise InputError(f"`{name}` must not be negative; got {array[place]:g} at index {place}.")
