"""The errors and warnings of mallow, the caveats in its results, and text from outside made safe to show in them."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, overload

__all__ = ["Caveat", "EstimateWarning", "InputError"]

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Returned = TypeVar("Returned", covariant=True)
Quiet = TypeVar("Quiet", covariant=True)

# C0 controls except tab and line feed, DEL and C1 controls (which move the cursor, change colours or retitle the
# window), separators that some programs take for line ends, marks that reorder the text around them, halves of
# surrogate pairs (bytes of file names that are not UTF-8 and could become C1 controls again), and noncharacters.
_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE += "\ufeff\ufff9-\ufffb\ufffe\uffff"
_OUTSIDE_LINES = re.compile(f"[{_UNSAFE}]")
_ANYWHERE = re.compile(f"[\t\n{_UNSAFE}]")
_LINE_ENDS = re.compile(r"\s*[\n\r]\s*")


class InputError(ValueError):
    """An argument breaks a rule. The message has the argument, the rule, the value and the way out.

    Arguments stand in backticks, such as `bins` or `bins=5`; commands print their options instead. Names from the
    user's data stand in quotation marks. The message is one line without control characters, whatever the values in it.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


class EstimateWarning(UserWarning):
    """An estimate is legal but doubtful. The result carries the same sentence in its `caveats`."""


@dataclass(frozen=True)
class Caveat:
    """One reason to doubt a result, as a value that travels with it.

    Attributes
    ----------
    kind : str
        A short name, such as "few samples", "duplicates" or "length".
    message : str
        The observation with its numbers, and what to do about it.
    system : str or None
        The system whose samples it concerns; None for the reference or the whole result.
    values : dict
        The numbers in the message, by name.
    """

    kind: str
    message: str
    system: str | None = None
    values: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return one_line(self.message if self.system is None else f"{self.system}: {self.message}")


def warn_about(caveats: Iterable[Caveat], *, stacklevel: int = 2) -> None:
    """Raise an `EstimateWarning` for each caveat, once each; for public functions, just before they return."""
    for text in dict.fromkeys(map(str, caveats)):
        warnings.warn(text, EstimateWarning, stacklevel=stacklevel + 1)


def each_once(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """The caveats without repetitions."""
    return tuple({(caveat.system, caveat.message): caveat for caveat in caveats}.values())


class WithCaveats(NamedTuple, Generic[Value]):
    """A value that cannot carry caveats itself, such as a float, with the reasons to doubt it.

    Attributes
    ----------
    value : any
    caveats : tuple of Caveat
        Empty as a rule.
    """

    value: Value
    caveats: tuple[Caveat, ...] = ()


class WarningFunction(Protocol[Parameters, Returned, Quiet]):
    """A function that raises its caveats as warnings, and its form without warnings, `quiet`."""

    __name__: str

    @property
    def quiet(self) -> Callable[Parameters, Quiet]:
        """The function without warnings. Its result carries the caveats."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned: ...


@overload
def warns(
    function: Callable[Parameters, WithCaveats[Value]],
) -> WarningFunction[Parameters, Value, WithCaveats[Value]]: ...
@overload
def warns(function: Callable[Parameters, Value]) -> WarningFunction[Parameters, Value, Value]: ...
def warns(function: Callable[..., Any]) -> Any:
    """Decorate a public function: the caveats of its result become warnings; ``function.quiet`` only returns them.

    The function returns a result with `caveats`, or `WithCaveats`, of which the caller gets the value. Code that passes
    the caveats on with its own result calls ``function.quiet``.

    Examples
    --------
    >>> @warns
    ... def half(number: float) -> WithCaveats[float]:
    ...     return WithCaveats(number / 2)
    >>> half(3.0), half.quiet(3.0)
    (1.5, WithCaveats(value=1.5, caveats=()))
    """

    @wraps(function)
    def warning(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        warn_about(result.caveats)
        return result.value if isinstance(result, WithCaveats) else result

    signature = inspect.signature(function)
    returned = str(signature.return_annotation).removeprefix("WithCaveats[")
    if returned != str(signature.return_annotation):
        signature = signature.replace(return_annotation=returned.removesuffix("]"))
        warning.__signature__ = signature  # type: ignore[attr-defined]
    warning.quiet = function  # type: ignore[attr-defined]
    return warning


def visible(text: str, *, lines: bool = True) -> str:
    r"""The text with control characters as Python writes them, such as ``\x1b``; with `lines`, lines and tabs stay.

    Examples
    --------
    >>> print(visible("a\x1b[31m red\u202e\nb"))
    a\x1b[31m red\u202e
    b
    >>> print(visible("a\nb", lines=False))
    a\nb
    """
    return (_OUTSIDE_LINES if lines else _ANYWHERE).sub(_written, text)


def one_line(text: str) -> str:
    r"""The text in one line, for messages: line ends become spaces, and other control characters visible.

    Examples
    --------
    >>> print(one_line("cannot be read:\n  bad \x07 byte\n"))
    cannot be read: bad \x07 byte
    """
    return visible(_LINE_ENDS.sub(" ", text.strip()).replace("\t", " "), lines=False)


def _written(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
