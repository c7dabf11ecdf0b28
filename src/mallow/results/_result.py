"""The common part of results: readable text, tables, lossless JSON, a data frame, and a form for notebooks."""

from __future__ import annotations

import base64
import functools
import html
import json
import math
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from os import PathLike, fspath
from types import NoneType
from typing import Any, ClassVar, Literal, Self, TypeVar, Union

import numpy as np

from mallow._files import parse_json
from mallow._optional import optional
from mallow.errors import Caveat, InputError, one_line, visible
from mallow.results._table import TableData, render

_SHORT = 1000  # longest array that is written as a list; chosen: people can read a page of numbers

_NAMES = {list: "a list", dict: "an object with named fields", float: "a number", int: "a whole number"}
_NAMES |= {str: "a text", bool: "true or false"}

_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NUMBER = re.compile(r"(`[^`]*`)|\d[\d.,]*")  # a name in backticks stays, with all its digits
_MOST_ALIKE = 2  # chosen: more lines that differ only in numbers hide the others

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
        return to_plain(value.item())
    if isinstance(value, float) and math.isnan(value):
        return None  # JSON has no NaN
    return fspath(value) if isinstance(value, PathLike) else value


def from_plain(hint: Any, data: Any, field: str = "") -> Any:
    """The value of a type from the output of `to_plain`. Unknown keys are ignored, and missing ones take defaults.

    Wrong data give an InputError that names the field, such as ``scores.small.n[1]``.
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(origin, "__value__"):  # a `type` statement, such as NDArray from NumPy 2.5 on
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
    if hint is float and data is None:
        return math.nan
    if hint is float:  # a whole number in a field for any number stays whole after the round trip
        return _of_type((int, float), data, field)
    return _of_type(hint, data, field) if hint in (bool, int, str) else hint(_of_type(str, data, field))  # Path


def _tuple(parts: tuple[Any, ...], entries: list[Any], field: str) -> tuple[Any, ...]:
    hints = parts[:1] * len(entries) if len(parts) == 2 and parts[1] is Ellipsis else parts
    if len(hints) != len(entries):
        raise _misfit(field, f"a list of {len(hints)} entries", entries)
    pairs = enumerate(zip(hints, entries, strict=True))
    return tuple(from_plain(hint, entry, f"{field}[{index}]") for index, (hint, entry) in pairs)


def _dataclass(cls: type[T], data: dict[str, Any], field: str) -> T:
    hints = typing.get_type_hints(cls)
    entries = [entry for entry in fields(cls) if entry.init]  # type: ignore[arg-type]
    for entry in entries:
        if entry.name not in data and entry.default is MISSING and entry.default_factory is MISSING:
            raise InputError(f"the field '{_inside(field, entry.name)}' is missing.")
    values = {
        entry.name: from_plain(hints[entry.name], data[entry.name], _inside(field, entry.name))
        for entry in entries
        if entry.name in data
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
    return f"the field '{field}'" if field else "the content"


def _packed(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"dtype": array.dtype.str, "shape": list(array.shape)}
    if array.size <= _SHORT and np.isfinite(array).all():
        return entry | {"values": array.ravel().tolist()}
    return entry | {"base64": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")}


def _unpacked(entry: dict[str, Any], field: str) -> np.ndarray[Any, Any]:
    """An array of numbers. A file cannot create any other object."""
    try:
        dtype, shape = np.dtype(entry["dtype"]), tuple(map(int, entry["shape"]))
        if dtype.kind not in "biuf":
            raise ValueError(f"numbers are needed, not {dtype}")
        if "values" in entry:
            return np.array(entry["values"], dtype).reshape(shape)
        return np.frombuffer(base64.b64decode(entry["base64"], validate=True), dtype).reshape(shape).copy()
    except (KeyError, OverflowError, TypeError, ValueError) as error:  # binascii's error is a ValueError
        raise InputError(f"{_called(field)} must be an array of numbers, but it is damaged: {error}.") from None


class Result:
    """The common part of all results, which are frozen dataclasses that name their `KIND`.

    A result defines `__str__` (a few readable lines), usually `_table` and `_records`, and draws itself with `plot`.
    """

    KIND: ClassVar[str]
    ALSO: ClassVar[tuple[str, ...]] = ()  # derived values that the JSON has for its readers; `from_dict` ignores them

    def __init_subclass__(cls) -> None:
        """Remove control characters from the text of a result, whatever names of systems and files it holds."""
        if "__str__" in cls.__dict__:
            cls.__str__ = _made_visible(cls.__str__)  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """The whole result as numbers, strings, lists and dicts, which `from_dict` restores."""
        return {"kind": f"mallow {self.KIND}", **to_plain(self), **self._also()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The result from the output of `to_dict`."""
        kind = data.get("kind") if isinstance(data, dict) else type(data).__name__
        if kind != f"mallow {cls.KIND}":
            raise InputError(f"`data` must be what {cls.__name__}.to_dict wrote, but its kind is {kind!r}.")
        try:
            result: Self = from_plain(cls, data)
            result._check_parts()
        except InputError as error:
            raise InputError(
                f"`data` must be what {cls.__name__}.to_dict wrote, but it is damaged, or was written by another "
                f"version: {error}"
            ) from error
        return result

    def _check_parts(self) -> None:
        """Raise an InputError if parts are inconsistent, such as the name of a missing system."""
        try:
            str(self)
            self._also()
            self._records()
            self._table()
        except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
            reason = f"there is no {error}" if isinstance(error, KeyError) else str(error) or "some are missing"
            raise InputError(f"its parts do not fit together: {reason}.") from error

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        # The only control character that JSON does not escape.
        return json.dumps(self.to_dict(), indent=1).replace("\x7f", "\\u007f")

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The result from the output of `to_json`."""
        try:
            data = parse_json(text)
        except TypeError:
            raise InputError(f"`text` must be JSON as text; got {type(text).__name__}.") from None
        except ValueError as error:
            raise InputError(f"`text` must be JSON, as {cls.__name__}.to_json wrote it; {error}.") from None
        return cls.from_dict(data)

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict, without curves, samples and other long parts: ``--summary`` prints it."""
        plain = {
            name: value for name, value in to_plain(self).items() if isinstance(value, str | int | float | NoneType)
        }
        return {"kind": f"mallow {self.KIND}", **self._also(), **plain, **self._doubts()}

    def brief_json(self) -> str:
        """`brief` as JSON for people and scripts: one line per number or system."""
        lines = []
        for key, value in self.brief().items():
            text = json.dumps(value)
            if isinstance(value, dict) and any(isinstance(entry, dict) for entry in value.values()):
                inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items())
                text = f"{{\n{inner}\n }}"
            lines.append(f" {json.dumps(key)}: {text}")
        return "{\n" + ",\n".join(lines) + "\n}"

    def _doubts(self) -> dict[str, Any]:
        """The kinds of all caveats, for a summary."""
        return {"caveats": sorted({caveat.kind for caveat in getattr(self, "caveats", ())})}

    def table(self, form: str = "text", *, width: int | None = None, digits: int | None = None) -> str:
        """The main numbers as a table: "text", "markdown", "latex", "siunitx" or "html".

        LaTeX needs the package booktabs. "siunitx" is LaTeX in which that package aligns numbers at their points.
        `digits` is the number of digits after the point in a score or comparison; None keeps the usual number. Bounds
        are rounded so that they stay true. `width` is the width of a terminal. A wider text table becomes one paragraph
        per row.
        """
        return render(form, self._table(), width=width, digits=digits)

    def format(self, form: str = "text", *, width: int | None = None, digits: int | None = None) -> str:
        """The result in the form for commands: "text", "json", or its table as "markdown", "latex" or "siunitx".

        Caveats are not part of the text or table; `caveat_lines` has them. `width` is the width of a terminal, for
        text, and `digits` the number of digits in a table.
        """
        if form == "json":
            return self.to_json()
        return "\n\n".join(self._blocks(width)) if form == "text" else self.table(form, digits=digits)

    def _blocks(self, width: int | None) -> list[str]:
        """The paragraphs of the text, without caveats; where possible, no line is longer than `width`."""
        names = [entry.name for entry in fields(self)]  # type: ignore[arg-type]
        return [str(replace(self, caveats=()) if "caveats" in names else self)]  # type: ignore[type-var]

    def to_frame(self) -> Any:
        """The numbers of the table, unrounded, as a pandas DataFrame."""
        return optional("pandas", extra="frames").DataFrame(self._records())

    def caveat_lines(self) -> list[str]:
        """The caveats of the result as lines, with equal caveats of several systems merged."""
        return merge_caveats(getattr(self, "caveats", ()))

    def _with_caveats(self, lines: Sequence[str]) -> str:
        """Lines followed by the caveats, for `str`."""
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())]).rstrip()

    def _repr_html_(self) -> str:
        lines = self.caveat_lines()
        # Folded up: the warnings of the call have said the same.
        title = "1 caveat" if len(lines) == 1 else f"{len(lines)} caveats"
        caveats = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        folded = f"<details><summary>{title}</summary><ul>{caveats}</ul></details>" if lines else ""
        return "".join([f"<p>{html.escape(self._headline())}</p>", *self._tables("html"), folded])

    def _tables(self, form: str = "text", width: int | None = None) -> list[str]:
        """All tables of the result, the main one first; "" for one that has no rows."""
        return [self.table(form, width=width)]

    def _also(self) -> dict[str, Any]:
        return {name: to_plain(getattr(self, name)) for name in self.ALSO}

    def _headline(self) -> str:
        """One sentence above the table in a notebook."""
        return str(getattr(self, "verdict", "")) or str(self).splitlines()[0]

    def _table(self) -> TableData:
        records = self._records()
        rows = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in record.values()] for record in records]
        return TableData(list(records[0]) if records else [""], rows)

    def _records(self) -> list[dict[str, Any]]:
        """The rows of `to_frame`: by default one, with the fields that are numbers or strings."""
        plain = to_plain(self)
        return [{name: value for name, value in plain.items() if isinstance(value, str | int | float)}]


def merge_caveats(caveats: Sequence[Caveat], systems: Sequence[str] = ()) -> list[str]:
    """The caveats as lines, merged if they are equal, or if more than two differ only in numbers.

    Examples
    --------
    >>> few = [Caveat("few samples", "only 300 samples.", system=name) for name in ("a", "b", "c")]
    >>> merge_caveats(few, systems=["a", "b", "c"])
    ['all three systems: only 300 samples.']
    >>> merge_caveats(few[:2], systems=["a", "b", "c"])
    ['a and b: only 300 samples.']
    >>> many = [Caveat("few samples", f"only {n} samples.", system=f"run-{n}") for n in (100, 200, 300, 400)]
    >>> merge_caveats(many, systems=["run-100", "run-200", "run-300", "run-400", "run-5000"])
    ['run-100, run-200, run-300 and run-400: only 100 samples. (numbers of run-100)']
    """
    owners: dict[str, list[str | None]] = {}
    alike: dict[str, list[str]] = {}  # messages that differ only in numbers
    for caveat in caveats:
        names = owners.setdefault(caveat.message, [])
        if caveat.system not in names:
            names.append(caveat.system)
        group = alike.setdefault(f"{caveat.kind}: {_NUMBER.sub(lambda match: match[1] or '0', caveat.message)}", [])
        if caveat.message not in group and caveat.system is not None:
            group.append(caveat.message)
    for group in alike.values():
        if len(group) > _MOST_ALIKE:
            first, *others = group
            more = dict.fromkeys(name for message in others for name in owners.pop(message))
            owners = {
                (f"{text} (numbers of {owners[first][0]})" if text == first else text): (
                    [*names, *(name for name in more if name not in names)] if text == first else names
                )
                for text, names in owners.items()
            }
    lines: list[str] = []
    for message, names in owners.items():
        named = [name for name in names if name is not None]
        if len(named) > 2 and set(systems) <= set(named) and systems:
            count = _NUMBERS[len(named)] if len(named) < len(_NUMBERS) else str(len(named))
            lines.append(f"all {count} systems: {message}")
        elif named:
            lines.append(f"{join_names(named)}: {message}")
        else:
            lines.append(message)
    return list(map(one_line, lines))


def _made_visible(text_of: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(text_of)
    def visible_text(self: Any) -> str:
        return visible(text_of(self))

    return visible_text


def join_names(names: Sequence[str]) -> str:
    """Names as a phrase: "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
