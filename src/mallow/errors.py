"""What mallow raises and warns with, and the checks shared by every door."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line shows its help without numpy
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EstimateWarning", "InputError"]


class InputError(ValueError):
    """An argument breaks a rule; the message names the argument, the rule, the value and the way out."""


class EstimateWarning(UserWarning):
    """An estimate is legal but doubtful; the same sentence is kept in the result where there is one."""


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


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """`values` as a float64 array with at least one axis, refused when empty or not numeric."""
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
    """Refuse two arrays of different shapes."""
    if a.shape != b.shape:
        raise InputError(
            f"`{first}` and `{second}` must have the same shape, one entry each atom; got {a.shape} and {b.shape}."
        )


def first_place(mask: NDArray[np.bool_]) -> Sequence[int] | int:
    """The index of the first true entry, a plain int for one axis: for error messages."""
    place = [int(axis[0]) for axis in mask.nonzero()]
    return place[0] if len(place) == 1 else tuple(place)


def made_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made where it is missing."""
    found = Path(path).expanduser()
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be made a folder: {error.strerror or error}.") from error
    return found


def optional(module: str, *, extra: str) -> Any:
    """An optional package, imported where it is used; without it the message ends with the install line."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{module.partition('.')[0]} is needed for this and is not installed: pip install 'mallow[{extra}]'"
        ) from error
