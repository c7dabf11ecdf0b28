"""Checks of the texts, paths and labels that `Samples` is made from."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from mallow.errors import InputError


def checked_texts(values: Sequence[str]) -> tuple[str, ...]:
    """The texts as a tuple of str."""
    _refuse_single("texts", values)
    texts = tuple(values)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"`texts` must contain strings; got {repr(text)[:40]} ({type(text).__name__}) at place {place}."
            )
    return tuple(map(str, texts))  # numpy's strings become Python's


def checked_paths(name: str, values: Sequence[str | PathLike[str]]) -> tuple[Path, ...]:
    """The paths of images or recordings as a tuple of Path; the files are not opened."""
    _refuse_single(name, values)
    paths = tuple(values)
    for place, path in enumerate(paths):
        if not isinstance(path, str | PathLike):
            raise InputError(
                f"`{name}` must contain paths; got {repr(path)[:40]} ({type(path).__name__}) at place {place}."
            )
    return tuple(map(Path, paths))


def checked_labels(name: str, values: Sequence[object]) -> tuple[str, ...]:
    """Ids or prompts as a tuple of str."""
    _refuse_single(name, values)
    labels = tuple(values)
    for place, label in enumerate(labels):
        if is_missing(label):  # as text, all samples without an id would count as one unit
            raise InputError(f"`{name}` must not contain missing values; got {label} at place {place}.")
    return tuple(map(str, labels))


def is_missing(value: object) -> bool:
    """Whether a value is None, or NaN, which tables use for missing values."""
    return value is None or (isinstance(value, float) and value != value)


def _refuse_single(name: str, values: object) -> None:
    """Raise an InputError for a single text or path: a string would be read as a list of characters."""
    if isinstance(values, str | bytes | PathLike):
        raise InputError(f"`{name}` must be a list; got a single {type(values).__name__}. Put it into a list.")
