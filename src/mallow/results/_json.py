"""Results as plain data and back, without loss: dataclasses by their type hints, arrays as lists or packed bytes."""

from __future__ import annotations

import base64
import types
import typing
from dataclasses import fields, is_dataclass
from os import PathLike, fspath
from typing import Any, Literal, TypeVar, Union

import numpy as np

__all__ = ["from_plain", "to_plain"]

_SHORT = 1000  # entries of an array that is still written as a list; chosen: a page of numbers can be read by people

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """A value as numbers, strings, lists and dicts; dataclasses become dicts of their fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _packed(value)
    if isinstance(value, dict):
        return {str(key): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    return fspath(value) if isinstance(value, PathLike) else value


def from_plain(hint: Any, data: Any) -> Any:
    """The value of a type that `to_plain` wrote; keys that are no fields are ignored, missing ones take their default."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in parts:
            return None
        (inner,) = [part for part in parts if part is not type(None)]
        return from_plain(inner, data)
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return tuple(from_plain(parts[0], entry) for entry in data)
        return tuple(from_plain(part, entry) for part, entry in zip(parts, data, strict=True))
    if origin is dict:
        return {key: from_plain(parts[1], entry) for key, entry in data.items()}
    if origin is np.ndarray or hint is np.ndarray:
        return _unpacked(data)
    if origin is Literal or hint in (Any, object) or (hint is float and isinstance(data, int)):
        return data  # a whole number where any number may stand is still one after the round trip
    if is_dataclass(hint):
        return _dataclass(typing.cast("type[Any]", hint), data)
    return hint(data)  # float, int, str, bool, Path


def _dataclass(cls: type[T], data: dict[str, Any]) -> T:
    hints = typing.get_type_hints(cls)
    names = [field.name for field in fields(cls) if field.init and field.name in data]  # type: ignore[arg-type]
    return cls(**{name: from_plain(hints[name], data[name]) for name in names})


def _packed(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"dtype": array.dtype.str, "shape": list(array.shape)}
    if array.size <= _SHORT and np.isfinite(array).all():
        return entry | {"values": array.ravel().tolist()}
    return entry | {"base64": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")}


def _unpacked(entry: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype, shape = np.dtype(entry["dtype"]), entry["shape"]
    if "values" in entry:
        return np.array(entry["values"], dtype).reshape(shape)
    return np.frombuffer(base64.b64decode(entry["base64"]), dtype).reshape(shape).copy()
