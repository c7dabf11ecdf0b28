"""Results as JSON and back, without loss: small arrays as lists, large or non-finite ones as packed bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["decoded", "encoded"]

_SHORT = 1000


def encoded(value: object, names: Iterable[str]) -> dict[str, Any]:
    """The named attributes of a value, arrays included, as plain data."""
    return {name: _plain(getattr(value, name)) for name in names}


def decoded(data: dict[str, Any]) -> dict[str, Any]:
    """What `encoded` took in."""
    return {name: _value(entry) for name, entry in data.items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.size <= _SHORT and np.isfinite(value).all():
        return {"dtype": value.dtype.str, "shape": list(value.shape), "values": value.ravel().tolist()}
    packed = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
    return {"dtype": value.dtype.str, "shape": list(value.shape), "base64": packed}


def _value(entry: Any) -> Any:
    if not (isinstance(entry, dict) and "dtype" in entry):
        return entry
    dtype, shape = np.dtype(entry["dtype"]), entry["shape"]
    if "values" in entry:
        return np.array(entry["values"], dtype).reshape(shape)
    return np.frombuffer(base64.b64decode(entry["base64"]), dtype).reshape(shape).copy()
