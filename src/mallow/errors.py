"""What mallow raises, warns with, and attaches to results."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from mallow._visible import one_line

__all__ = ["Caveat", "EstimateWarning", "InputError", "warn_about"]


class InputError(ValueError):
    """An argument breaks a rule; the message names the argument, the rule, the value and the way out.

    The message is one line without control characters, whatever the values in it.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


class EstimateWarning(UserWarning):
    """An estimate is legal but doubtful; the result carries the same sentence in its `caveats`."""


@dataclass(frozen=True)
class Caveat:
    """One reason to doubt a result, as a value that travels with it.

    Attributes
    ----------
    kind : str
        A word for what it is, such as "few samples", "duplicates" or "length".
    message : str
        What was seen, with its numbers, and what to do about it.
    system : str or None
        Whose samples; None where it concerns the reference or the whole result.
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
