"""Checks of arguments, shared by every public function.

Each returns the value or raises an InputError that names it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from mallow._optional import did_you_mean
from mallow.errors import InputError

if TYPE_CHECKING:  # the command line shows its help without numpy
    import numpy as np
    from numpy.typing import NDArray


def open_unit(name: str, value: float, *, why: str = "") -> float:
    """`value` if it lies strictly between 0 and 1."""
    if not (isinstance(value, Real) and 0.0 < float(value) < 1.0):
        raise InputError(f"`{name}` must lie strictly between 0 and 1; got {value!r}.{why}")
    return float(value)


def positive(name: str, value: float, *, why: str = "") -> float:
    """`value` if it is a finite number above 0."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value > 0):
        raise InputError(f"`{name}` must be a finite number above 0; got {value!r}.{why}")
    return float(value)


def whole(name: str, value: int, *, least: int) -> int:
    """`value` if it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"`{name}` must be an integer of at least {least}; got {value!r}.")
    return int(value)


def one_of(name: str, value: object, allowed: Sequence[str | None]) -> None:
    """Refuse a value that is not allowed. The message suggests the nearest allowed one."""
    if value in allowed:
        return
    choices = [choice for choice in allowed if choice is not None]
    listed = ", ".join(map(repr, choices)) + (" or None" if None in allowed else "")
    raise InputError(f"`{name}` must be one of {listed}; got {value!r}.{did_you_mean(str(value).lower(), choices)}")


def seed_from(rng: int | np.random.Generator | None) -> int:
    """The seed for `rng`: an integer is the seed, a generator draws one, None takes a fresh one from the system."""
    import numpy as np

    if rng is None:
        return int(np.random.default_rng().integers(1 << 32))
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(1 << 32))
    if isinstance(rng, bool) or not isinstance(rng, Integral) or rng < 0:
        raise InputError(f"`rng` must be an integer of at least 0, a numpy Generator or None; got {rng!r}.")
    return int(rng)


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """`values` as a float64 array with at least one axis; empty or non-numeric input is an error."""
    import numpy as np

    try:
        array = np.asarray(values)
    except ValueError as error:  # ragged nesting
        raise InputError(f"`{name}` must be a rectangular array of numbers; {error}.") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"`{name}` must be an array of real numbers; got dtype {array.dtype}.")
    if array.ndim == 0:
        raise InputError(f"`{name}` must have at least one axis (the last one is the atoms); got a scalar.")
    if array.size == 0:
        raise InputError(f"`{name}` must not be empty; got shape {array.shape}.")
    return array.astype(np.float64)


def same_shape(first: str, a: NDArray[np.float64], second: str, b: NDArray[np.float64]) -> None:
    """Raise an InputError if two arrays have different shapes."""
    if a.shape != b.shape:
        raise InputError(
            f"`{first}` and `{second}` must have the same shape, one entry per atom; got {a.shape} and {b.shape}."
        )


def first_place(mask: NDArray[np.bool_]) -> Sequence[int] | int:
    """The index of the first true entry, for error messages. A plain int for one axis."""
    place = [int(axis[0]) for axis in mask.nonzero()]
    return place[0] if len(place) == 1 else tuple(place)


def number_of(value: Any) -> float:
    """The value of a number, or of a text that is one. A TypeError or ValueError for anything else.

    True is no number here, and Python's underscores are not allowed: in a file, 1_5 may be a damaged 1.5.

    Examples
    --------
    >>> number_of("1.5")
    1.5
    >>> number_of("1_5")
    Traceback (most recent call last):
    ...
    ValueError: '1_5' is no number
    """
    if type(value).__name__ in ("bool", "bool_") or (isinstance(value, str) and "_" in value):  # numpy's too
        raise ValueError(f"{value!r} is no number")
    return float(value)
