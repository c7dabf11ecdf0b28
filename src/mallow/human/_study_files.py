"""Studies, gold pairs and questions in files; pictures lie in a folder beside the study, under names that tell nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

from mallow._files import make_folder, parse_json, read_text, write_text
from mallow.errors import InputError
from mallow.human._study import Study, Task
from mallow.human._study_form import Form
from mallow.results import from_plain

_SHOWN = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})  # what every browser shows


def write_study(study: Study, path: str | os.PathLike[str]) -> Study:
    """Write a study as JSON; its pictures are copied into a folder beside it. The study as it was written is returned."""
    target = Path(path).expanduser()
    if study.sample_kind == "image":
        folder = make_folder(picture_folder(target))
        tasks, gold = (
            tuple(
                replace(task, left_item=_copy(task.left_item, folder), right_item=_copy(task.right_item, folder))
                for task in tasks
            )
            for tasks in (study.tasks, study.gold)
        )
        study = replace(study, tasks=tasks, gold=gold)
    write_text(target, study.to_json() + "\n")
    return study


def read_study(path: str | os.PathLike[str], *, accept_edits: bool = False) -> Study:
    """The study in a file that `write_study` wrote; a file that was edited since is refused, unless `accept_edits` is true."""
    text = read_text(path)
    try:
        data = parse_json(text)
    except ValueError as error:
        raise InputError(f"{os.fspath(path)}: is not a study: {error}. Make one with: mallow study") from error
    try:
        study = Study.from_dict(data, accept_edits=accept_edits)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from error
    folder = picture_folder(path)
    if study.sample_kind == "image":
        pictures = {item for task in (*study.tasks, *study.gold) for item in (task.left_item, task.right_item)}
        missing = sorted(name for name in pictures if Path(name).name != name or not (folder / name).is_file())
        if missing:
            raise InputError(
                f"{os.fspath(path)}: the picture {missing[0]} is missing in {folder}. Copy that folder too."
            )
    return study


def picture_folder(path: str | os.PathLike[str]) -> Path:
    """Where the pictures of the study in this file are."""
    file = Path(path).expanduser()
    return file.with_name(f"{file.stem}-pictures")


def _copy(item: str, folder: Path) -> str:
    """Copy a picture under the name of its content; the name of its file or folder might tell the system."""
    source = Path(item)
    if source.suffix.lower() not in _SHOWN:
        raise InputError(
            f"{item}: browsers do not show {source.suffix or 'such'} files. Convert it to one of {' '.join(sorted(_SHOWN))}."
        )
    try:
        name = hashlib.sha256(source.read_bytes()).hexdigest()[:20] + source.suffix.lower()
        if not (folder / name).exists():
            shutil.copyfile(source, folder / name)
    except OSError as error:
        raise InputError(f"{item}: the picture cannot be copied to {folder}: {error.strerror or error}.") from error
    return name


def read_form(path: str | os.PathLike[str]) -> Form:
    """A form from a JSON file with the fields of `Form`."""
    text = read_text(path)
    try:
        data = parse_json(text)
    except ValueError as error:
        raise InputError(f"{os.fspath(path)}: is not JSON: {error}.") from error
    if not isinstance(data, dict) or not isinstance(data.get("questions"), list):
        raise InputError(
            f'{os.fspath(path)}: must be an object with "title", "task" and "questions", as docs/study.md shows.'
        )
    unknown = set(data) - set(Form.__dataclass_fields__)
    if unknown:
        raise InputError(
            f"{os.fspath(path)}: a form has no {', '.join(sorted(unknown))}; it has {', '.join(Form.__dataclass_fields__)}."
        )
    try:
        form: Form = from_plain(Form, data)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{os.fspath(path)}: is not a form: {error}. docs/study.md shows one.") from error
    return form


def read_gold(path: str | os.PathLike[str]) -> tuple[Task, ...]:
    """Gold pairs, one JSON object per line: "left", "right", "expected" (-2 or 2), and "prompt", the context."""
    tasks = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{os.fspath(path)}:{number}"
        try:
            entry = parse_json(line)
        except ValueError as error:
            raise InputError(f"{where}: is not JSON: {error}.") from None
        left, right, expected = (
            entry.get(name) if isinstance(entry, dict) else None for name in ("left", "right", "expected")
        )
        if not isinstance(left, str) or not isinstance(right, str) or expected not in (-2, -1, 1, 2):
            raise InputError(
                f'{where}: a gold pair has texts or picture files "left" and "right", and "expected", -2 or 2.'
            )
        context = str(entry.get("prompt", ""))
        tasks.append(
            Task(f"g{number}", "gold left", "gold right", f"gold {number}", context, left, right, expected=expected)
        )
    if not tasks:
        raise InputError(f"{os.fspath(path)}: has no gold pairs.")
    return tuple(tasks)
