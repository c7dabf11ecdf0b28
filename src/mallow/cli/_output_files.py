"""Files that commands write: checked before the work begins, and written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mallow._files import atomic_file, refuse_special, write_text
from mallow._optional import optional
from mallow.cli._terminal import tell
from mallow.errors import InputError

_PENDING = "mallow.cli.files"


def check_output_file(path: str, *suffixes: str) -> Path:
    """The path of a file to write; refused before the work begins if it could not be written at the end."""
    if not path:
        raise InputError("the name of the file to write must not be empty. Name a file.")
    file = Path(os.path.expanduser(path))
    if suffixes and file.suffix.lower() not in suffixes:
        raise InputError(f"{path}: must end in one of {', '.join(suffixes)}; got {file.suffix!r}.")
    if file.is_dir():
        raise InputError(f"{path}: is a folder, not a file. Name a file in it.")
    if not file.parent.is_dir():
        raise InputError(f"{path}: the folder {file.parent} does not exist. Create it first.")
    refuse_special(path)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written: permission denied.")
    return file


def check_picture_file(path: str) -> Path:
    """The path of a picture to draw, in one of the formats that matplotlib writes; refused as `check_output_file` does."""
    canvas = optional("matplotlib.figure", extra="plot").Figure().canvas
    return check_output_file(path, *(f".{suffix}" for suffix in sorted(canvas.get_supported_filetypes())))


def save_text(path: Path, content: str) -> None:
    """Write a text file and say so."""
    write_text(path, content)
    tell(f"{path}: written")


def save_text_at_end(path: Path, content: str) -> None:
    """Write a text file once the result is printed: if the disk is full, what was computed is not lost."""
    do_at_end(lambda: save_text(path, content))


def do_at_end(task: Callable[[], None]) -> None:
    """Have something written once the result is printed."""
    click.get_current_context().meta.setdefault(_PENDING, []).append(task)


def save_pending() -> None:
    """Write the files that were to be written at the end."""
    for task in click.get_current_context().meta.pop(_PENDING, []):
        task()


def save_picture(path: Path, draw: Callable[[Any], object]) -> None:
    """Write the picture that `draw` makes on the axes that it is called with, and say so."""
    from mallow.results import draw as drawing

    figure = optional("matplotlib.figure", extra="plot").Figure(figsize=drawing.SIZE, layout="constrained")
    draw(figure.subplots())
    try:
        with atomic_file(path) as stream:
            figure.savefig(stream, format=path.suffix[1:].lower())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}.") from error
    tell(f"{path}: written")
