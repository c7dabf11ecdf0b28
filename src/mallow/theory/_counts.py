"""The check of counts that smoothing and debiasing share."""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import first_place, real_array
from mallow.errors import InputError
from mallow.theory._arrays import Array, require_finite, require_non_negative


def checked_counts(name: str, counts: Any) -> Array:
    """`counts` (..., bins) as floats, if they are whole numbers and every row holds at least one sample."""
    array = real_array(name, counts)
    require_finite(name, array)
    require_non_negative(name, array)
    if (array != np.round(array)).any():
        place = first_place(array != np.round(array))
        raise InputError(f"`{name}` must be whole numbers; got {array[place]:g} at index {place}.")
    empty = array.sum(axis=-1) == 0
    if empty.any():
        where = f" in row {first_place(empty)}" if empty.ndim else ""
        raise InputError(f"`{name}` must hold at least one sample; all bins are empty{where}.")
    return array
