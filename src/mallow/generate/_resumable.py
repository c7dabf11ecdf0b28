"""A file of lines that an interruption cannot damage: it holds only complete lines, and the next run continues it.

Lines are appended in a fixed order. A second file beside it, ``FILE.meta.json``, records how it was made, and a file that was
made differently is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mallow._files import parse_json, read_text, refuse_special, sync_folder, write_text
from mallow.errors import InputError

_WAY_OUT = "Write to another file, or start again with overwrite=True (--overwrite)."


def check_output_path(out: str | os.PathLike[str]) -> Path:
    """The path of a .jsonl file to write; refused if there can be no such file."""
    path = Path(out).expanduser()
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        raise InputError(
            f"{out}: the suffix must be .jsonl, because lines are appended to the file; got {path.suffix!r}."
        )
    if not path.parent.is_dir():
        raise InputError(f"{out}: the folder {path.parent} does not exist. Create it first.")
    if path.is_dir():
        raise InputError(f"{out}: is a folder, not a file. Name a file in it.")
    return path


class ResumableFile:
    """An open file in which every line is complete whenever a reader sees it, even after a failure."""

    def __init__(self, path: Path, file: int, count: int, size: int) -> None:
        self.path, self.file, self.count, self.size = path, file, count, size

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines; if the disk is full, those that fit."""
        try:
            for line in lines:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self.file, rest) :]
                self.count, self.size = self.count + 1, self.size + len(line)
            os.fsync(self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, self.size)
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror or error}. Its {self.count} texts are complete; solve the "
                "problem and run the same command again, which continues from there."
            ) from error


@contextlib.contextmanager
def open_resumable(
    path: Path, facts: dict[str, Any], is_expected: Callable[[int, Any], bool], *, overwrite: bool
) -> Iterator[ResumableFile]:
    """The file, new or to be continued, locked against other processes.

    `facts` say how the file is made; `is_expected(i, record)` says whether a record may stand on line i, counted from 0.
    """
    about = path.with_name(path.name + ".meta.json")
    refuse_special(path)
    new = not path.exists()
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}.") from error
    try:
        _lock(file, path)
        if overwrite:
            os.ftruncate(file, 0)
        count = size = 0
        if os.fstat(file).st_size == 0:
            try:
                write_text(about, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
            except InputError:
                if new:
                    path.unlink(missing_ok=True)  # nothing was written: nothing stays
                raise
        else:
            _check_facts(path, about, facts)
            count, size = _complete_lines(path, is_expected)
            if size < os.fstat(file).st_size:
                os.ftruncate(file, size)
        os.lseek(file, size, os.SEEK_SET)
        sync_folder(path.parent)  # the file may be new
        yield ResumableFile(path, file, count, size)
    finally:
        os.close(file)


def _lock(file: int, path: Path) -> None:
    """Lock the file until the process ends, however it ends; without effect if the system or the disk has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{path}: another process is writing to it. Wait until it has finished, or write to another file."
        ) from None
    except (ImportError, OSError):
        return


def _check_facts(path: Path, about: Path, facts: dict[str, Any]) -> None:
    try:
        recorded = parse_json(read_text(about))
        if recorded["kind"] != facts["kind"]:
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: exists already, and there is no {about.name} beside it that records how it was made. {_WAY_OUT}"
        ) from None
    for name, value in facts.items():
        if recorded.get(name) != value:
            raise InputError(f"{path}: was started with {name} = {recorded.get(name)!r}, not {value!r}. {_WAY_OUT}")


def _complete_lines(path: Path, is_expected: Callable[[int, Any], bool]) -> tuple[int, int]:
    """The number of complete lines and of their bytes; each must be the one expected there."""
    count = size = 0
    with path.open("rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote this line
            try:
                expected = is_expected(count, parse_json(line))
            except (ValueError, KeyError, TypeError):
                expected = False
            if not expected:
                raise InputError(f"{path}:{count + 1}: is not a line that mallow wrote. {_WAY_OUT}")
            count, size = count + 1, size + len(line)
    return count, size
