"""Results as plain data and back, without loss: dataclasses by their type hints, arrays as lists or packed bytes."""

from __future__ import annotations

import base64
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from os import PathLike, fspath
from typing import Any, Literal, TypeVar, Union

import numpy as np

from mallow.errors import InputError

_SHORT = 1000  # entries of an array that is still written as a list; chosen: a page of numbers can be read by people

_NAMES = {list: "a list", dict: "an object with named fields", float: "a number", int: "a whole number"}
_NAMES |= {str: "a text", bool: "true or false"}

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


def from_plain(hint: Any, data: Any, field: str = "") -> Any:
    """The value of a type that `to_plain` wrote; keys that are no fields are ignored, missing ones take their default.

    What does not fit is an InputError that names the field, such as ``scores.small.n[1]``.
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(origin, "__value__"):  # a `type` statement, which NDArray is from NumPy 2.5 on
        origin = typing.get_origin(origin.__value__)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in parts:
            return None
        (inner,) = [part for part in parts if part is not type(None)]
        return from_plain(inner, data, field)
    if origin is tuple:
        return _tuple(parts, _of_type(list, data, field), field)
    if origin is dict:
        entries = _of_type(dict, data, field)
        return {key: from_plain(parts[1], entry, _inside(field, key)) for key, entry in entries.items()}
    if origin is np.ndarray or hint is np.ndarray:
        return _unpacked(_of_type(dict, data, field), field)
    if origin is Literal:
        if data not in parts:
            raise _misfit(field, f"one of {', '.join(map(repr, parts))}", data)
        return data
    if hint in (Any, object):
        return data
    if is_dataclass(hint):
        return _dataclass(typing.cast("type[Any]", hint), _of_type(dict, data, field), field)
    if hint is float:  # a whole number where any number may stand is still one after the round trip
        return _of_type((int, float), data, field)
    return _of_type(hint, data, field) if hint in (bool, int, str) else hint(_of_type(str, data, field))  # Path


def _tuple(parts: tuple[Any, ...], entries: list[Any], field: str) -> tuple[Any, ...]:
    hints = parts[:1] * len(entries) if len(parts) == 2 and parts[1] is Ellipsis else parts
    if len(hints) != len(entries):
        raise _misfit(field, f"a list of {len(hints)} entries", entries)
    pairs = enumerate(zip(hints, entries, strict=True))
    return tuple(from_plain(hint, entry, f"{field}[{place}]") for place, (hint, entry) in pairs)


def _dataclass(cls: type[T], data: dict[str, Any], field: str) -> T:
    hints = typing.get_type_hints(cls)
    own = [one for one in fields(cls) if one.init]  # type: ignore[arg-type]
    for one in own:
        if one.name not in data and one.default is MISSING and one.default_factory is MISSING:
            raise InputError(f"the field `{_inside(field, one.name)}` is missing.")
    values = {
        one.name: from_plain(hints[one.name], data[one.name], _inside(field, one.name))
        for one in own
        if one.name in data
    }
    try:
        return cls(**values)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # its own checks
        raise InputError(f"{_called(field)} is not a valid {cls.__name__}: {error}") from error


def _of_type(kinds: Any, data: Any, field: str) -> Any:
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(data, wanted) or (isinstance(data, bool) and bool not in wanted):
        raise _misfit(field, _NAMES[wanted[-1]], data)
    return data


def _misfit(field: str, rule: str, data: Any) -> InputError:
    shown = repr(data)
    return InputError(f"{_called(field)} must be {rule}; got {shown if len(shown) <= 60 else shown[:60] + '…'}.")


def _inside(field: str, name: str) -> str:
    return f"{field}.{name}" if field else str(name)


def _called(field: str) -> str:
    return f"the field `{field}`" if field else "the content"


def _packed(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"dtype": array.dtype.str, "shape": list(array.shape)}
    if array.size <= _SHORT and np.isfinite(array).all():
        return entry | {"values": array.ravel().tolist()}
    return entry | {"base64": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")}


def _unpacked(entry: dict[str, Any], field: str) -> np.ndarray[Any, Any]:
    """An array of numbers; nothing else is made, whatever the file says."""
    try:
        dtype, shape = np.dtype(entry["dtype"]), tuple(map(int, entry["shape"]))
        if dtype.kind not in "biuf":
            raise ValueError(f"numbers are needed, not {dtype}")
        if "values" in entry:
            return np.array(entry["values"], dtype).reshape(shape)
        return np.frombuffer(base64.b64decode(entry["base64"], validate=True), dtype).reshape(shape).copy()
    except (KeyError, OverflowError, TypeError, ValueError) as error:  # binascii's error is a ValueError
        raise InputError(f"{_called(field)} must be an array of numbers; it is damaged: {error}.") from None
