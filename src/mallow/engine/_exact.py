"""Integers in floating-point numbers: sums of products that are exact do not depend on their order.

A sum of products of integers is exact in float64 while no partial sum reaches 2^53, and in float32 while none reaches
2^24; by Cauchy and Schwarz it is enough that the product of the norms stays below. The bits are then the same for
every processor, BLAS, number of threads and shape of the blocks. All other operations here are single correctly
rounded ones on each number (+, −, ×, ÷, square root, rounding), which are the same everywhere too.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

SINGLE = 2.0**24  # integers up to here are exact in float32
DOUBLE = 2.0**53  # and up to here in float64

Values = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Value = TypeVar("Value")


def bits_for_squares(count: int) -> int:
    """The largest b for which `count` squares of integers up to 2^b have an exact sum in float64."""
    return (53 - max(count, 1).bit_length()) // 2


def round_to(values: Values, exponent: int) -> Doubles:
    """The values in units of 2^exponent, rounded to integers."""
    return np.rint(np.ldexp(np.asarray(values, np.float64), -exponent))


def unit_rows(rows: Values) -> Doubles:
    """Rows (n, d) of length 1, in float64; rows of zeros stay zeros. Each result depends only on its own row, to the
    last bit.

    The numbers of a row are rounded to integers first, relative to the largest, so that the sum of their squares is
    exact.
    """
    values = np.array(rows, np.float64)
    largest = np.maximum(values.max(axis=1, initial=0.0), -values.min(axis=1, initial=0.0))
    exponent = bits_for_squares(values.shape[1]) - np.frexp(largest)[1]
    half = exponent // 2  # in two steps: one power of two might overflow for the smallest numbers
    values *= np.ldexp(1.0, half)[:, None]
    values *= np.ldexp(1.0, exponent - half)[:, None]
    np.rint(values, out=values)
    norm = np.sqrt(np.einsum("ij,ij->i", values, values))
    norm[norm == 0] = 1.0
    values /= norm[:, None]
    return values


def settle(value: Value, digits: int = 10, *, least: float = 0.0) -> Value:
    """The value without the last digits of its numbers, in which processors may differ by rounding.

    Numbers may be in tuples, lists, dictionaries, arrays and frozen dataclasses. Those smaller than `least` are
    rounding errors, and become 0.

    Examples
    --------
    >>> settle(0.1 + 0.2), settle({"a": (2 / 3, 1)}, 4)
    (0.3, {'a': (0.6667, 1)})
    """
    return cast(Value, _settle(value, digits, least))


def _settle(value: object, digits: int, least: float) -> object:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if abs(value) >= least else 0.0
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array([_settle(each, digits, least) for each in value.ravel().tolist()]).reshape(value.shape)
    if isinstance(value, dict):
        return {key: _settle(each, digits, least) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_settle(each, digits, least) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: _settle(getattr(value, each.name), digits, least) for each in fields(value)}
        )
    return value
