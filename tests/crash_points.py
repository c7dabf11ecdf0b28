"""Faults at every point where a writer touches the disk, and what can be read afterwards.

`check_writer` runs a real writer in processes of its own, once for every point (a file created, written, synchronised,
renamed, cut or removed; a folder made) and every fault at it:

    error    the call fails: no space for what is written, an error of the disk for the rest
    short    half of the bytes are written, then the disk is full
    kill     the process ends there, as after `kill -9`
    torn     half of the bytes are written, then the process ends
    power    the power fails: what was not synchronised is lost, and the process ends

What is read afterwards must be what was there before or what an undisturbed run leaves. A writer that has returned must have
synchronised its data and their names. After an error no temporary file may be left. `Writer` says what a new writer needs.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FAULTS = ("error", "short", "kill", "torn", "power")


@dataclass(frozen=True)
class Writer:
    """A writer to be disturbed.

    `prepare(folder)` makes the files that are there before, `write(folder)` is the writer itself, `read(folder)` reads the
    outcome as a user would and returns a value that can be compared. `allows(before, after, seen)` says whether a value
    other than these two may be read. If `resumes`, the writer is run once more after each fault, and must leave what an
    undisturbed run leaves.

    What does not go through Python's files, such as a database, calls `reach` before each of its steps, with the error that
    the step could end with (error and kill are then tried there); without one only processes that end (kill, power) are.
    Such files are named by `hand_over`: what a failure of the power leaves of them is not for the harness to say.
    """

    prepare: Callable[[Path], object]
    write: Callable[[Path], object]
    read: Callable[[Path], object]
    allows: Callable[[Any, Any, Any], bool] = field(default=lambda before, after, seen: False)
    resumes: bool = False


@dataclass(frozen=True)
class Outcome:
    """What `check_writer` found: the points of an undisturbed run, how many faults were tried, and what went wrong."""

    points: tuple[str, ...]
    tried: int
    wrong: tuple[str, ...]


def check_writer(writer: Writer, home: Path) -> Outcome:
    """Try every fault at every point of a writer; `home` is an empty folder for the files."""
    before, after = home / "before", home / "after"
    before.mkdir()
    _in_child(lambda: writer.prepare(before))
    shutil.copytree(before, after)
    log = home / "log"
    code = _in_child(lambda: _run(writer, after, _Disk(after, log=log)))
    lines = log.read_text().splitlines()
    points = tuple(line.partition(" ")[2] for line in lines if line.startswith("point "))
    wrong = [f"undisturbed: {line.partition(' ')[2]}" for line in lines if line.startswith("unsafe ")]
    if code != 0:
        return Outcome(points, 0, (*wrong, f"undisturbed: the writer failed: {lines[-1]}"))
    old, new = _seen(writer, before), _seen(writer, after)
    tried = 0
    for place, label in enumerate(points):
        for fault in FAULTS:
            if fault in ("short", "torn") and not label.startswith("write"):
                continue
            if (fault, label.split()[0]) in (("error", "reach"), ("power", "step")):
                continue
            folder = home / f"{place}-{fault}"
            shutil.copytree(before, folder)
            disk = _Disk(folder, at=place, fault=fault)
            code = _in_child(lambda folder=folder, disk=disk: _run(writer, folder, disk))
            tried += 1
            trouble = _trouble(writer, folder, (old, new), fault, code)
            wrong += [f"{fault} at {place} ({label}): {each}" for each in trouble]
            shutil.rmtree(folder)
    return Outcome(points, tried, tuple(wrong))


def _trouble(writer: Writer, folder: Path, known: tuple[Any, Any], fault: str, code: int) -> list[str]:
    before, after = known
    wrong = []
    died = fault in ("kill", "torn", "power")
    if died and code != -signal.SIGKILL:
        wrong.append(f"the process was not reached by the fault: exit {code}")
    if not died:
        wrong += [f"{file.name} was left behind" for file in folder.rglob(".*.tmp")]
    try:
        seen = _seen(writer, folder)
    except Exception as error:
        return [*wrong, f"cannot be read: {error}"]
    if seen != before and seen != after and not writer.allows(before, after, seen):
        wrong.append(f"read {seen!r:.300}, neither old nor new")
    if code == 0 and seen != after:
        wrong.append("the writer returned, but what it wrote is not there")
    if writer.resumes:
        code = _in_child(lambda: writer.write(folder))
        if code != 0 or _seen(writer, folder) != after:
            wrong.append("another run does not complete it")
    return wrong


def _seen(writer: Writer, folder: Path) -> object:
    """What is read in a copy of the folder: reading may repair what it finds."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    try:
        return writer.read(copy)
    finally:
        shutil.rmtree(copy)


def reach(step: str, error: Exception | None = None) -> None:
    """A point in a writer that does not use Python's files, and how it may fail; nothing happens outside `check_writer`."""
    if _Disk.current is not None:
        line = " ".join(step.split())
        _Disk.current.point(f"reach {line:.40}" if error is None else f"step {line:.40}", error=error)


def hand_over(path: Any) -> None:
    """Leave a file to a library that writes and synchronises it by itself."""
    if (disk := _Disk.current) is not None and (own := disk.mine(path)) is not None and own in disk.handles:
        del disk.handles[own], disk.synced[own]
        disk.unsynced_names.discard(own)


def _run(writer: Writer, folder: Path, disk: _Disk) -> None:
    disk.install()
    try:
        writer.write(folder)
    except BaseException as error:
        disk.note(f"raised {error!r}")
        raise
    disk.finish()


def _in_child(work: Callable[[], object]) -> int:
    """The exit code of a forked process that does the work: 0, 1 if it raised, or minus the signal that ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            os.fsync = lambda handle: None  # what is on the disk is only imagined here, and waiting for it takes time
            work()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        except BaseException:
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Disk:
    """Stands between a writer and the files in a folder; counts the points, and fails at one of them."""

    current: _Disk | None = None

    def __init__(self, folder: Path, *, at: int = -1, fault: str = "", log: Path | None = None) -> None:
        self.folder, self.at, self.fault, self.log = folder.resolve(), at, fault, log
        self.count, self.full = 0, False
        self.paths: dict[int, Path] = {}  # open files
        self.handles: dict[Path, int] = {}  # a second handle for each file that is written: it stays after a rename
        self.synced: dict[Path, int] = {}  # how many bytes of it are on the disk
        self.unsynced_names: set[Path] = set()
        self.real = {name: getattr(os, name) for name in PATCHED}
        self.real_open = io.open

    def install(self) -> None:
        _Disk.current = self
        for name in PATCHED:
            setattr(os, name, getattr(self, name))
        io.open = builtins.open = self.open_stream  # type: ignore[assignment]

    def note(self, line: str) -> None:
        if self.log is not None:
            with self.real_open(self.log, "a", encoding="utf-8") as stream:
                stream.write(line + "\n")

    def finish(self) -> None:
        """Note what a failure of the power would undo although the writer has returned."""
        for path, handle in self.handles.items():
            if path.exists() and os.fstat(handle).st_size != self.synced[path]:
                self.note(f"unsafe {path.name} is not synchronised")
        for path in self.unsynced_names:
            if path.exists():
                self.note(f"unsafe the folder of {path.name} is not synchronised")

    def point(self, label: str, half: Callable[[], object] | None = None, error: Exception | None = None) -> None:
        place, self.count = self.count, self.count + 1
        self.note(f"point {label}")
        if place != self.at:
            if label.startswith("write") and self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return
        if self.fault in ("short", "torn") and half is not None:
            half()
        if self.fault == "power":
            for path, handle in self.handles.items():
                self.real["ftruncate"](handle, self.synced[path])
        if self.fault in ("kill", "torn", "power"):
            os.kill(os.getpid(), signal.SIGKILL)
        if error is not None:
            raise error
        self.full = label.startswith(("write", "create"))
        code = errno.ENOSPC if self.full else errno.EIO
        raise OSError(code, os.strerror(code))

    def mine(self, path: Any) -> Path | None:
        if isinstance(path, int):
            return self.paths.get(path)
        resolved = Path(os.path.realpath(os.fspath(path)))
        return resolved if resolved.is_relative_to(self.folder) else None

    def created(self, path: Path, handle: int, *, new: bool) -> None:
        self.paths[handle] = path
        self.handles[path] = os.dup(handle)
        self.synced[path] = 0 if new else os.fstat(handle).st_size
        if new:
            self.unsynced_names.add(path)

    # --- what the writers call

    def open_stream(self, file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        path = None if isinstance(file, int) else self.mine(file)
        if path is None or not set(mode) & set("wxa+"):
            return self.real_open(file, mode, *args, **options)
        new = not path.exists()
        self.point(f"create {path.suffix}")
        raw = _Raw(self, path, "".join(letter for letter in mode if letter in "wxa+"))
        self.created(path, raw.fileno(), new=new)
        stream = io.BufferedWriter(raw)
        return stream if "b" in mode else io.TextIOWrapper(stream, encoding="utf-8")

    def open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:
        own = self.mine(path)
        new = own is not None and not own.exists()
        if own is not None and flags & os.O_CREAT:
            self.point(f"create {own.suffix}")
        handle: int = self.real["open"](path, flags, *args, **options)
        if own is not None and flags & (os.O_WRONLY | os.O_RDWR):
            self.created(own, handle, new=new)
        elif own is not None:
            self.paths[handle] = own
        return handle

    def close(self, handle: int) -> None:
        self.paths.pop(handle, None)
        self.real["close"](handle)

    def write(self, handle: int, content: Any) -> int:
        real = self.real["write"]
        if self.mine(handle) is not None:
            view = memoryview(content)
            self.point(f"write {len(view)}", lambda: real(handle, view[: len(view) // 2]))
        return int(real(handle, content))

    def fsync(self, handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        path = self.mine(number)
        if path is not None:
            self.point("fsync folder" if path.is_dir() else f"fsync {path.suffix}")
        if path is not None and path.is_dir():
            self.unsynced_names = {name for name in self.unsynced_names if name.parent != path}
        elif path is not None:
            self.synced[path] = os.fstat(number).st_size

    def ftruncate(self, handle: int, size: int) -> None:
        path = self.mine(handle)
        if path is not None:
            self.point("truncate")
        self.real["ftruncate"](handle, size)
        if path is not None:
            self.synced[path] = min(self.synced[path], size)

    def replace(self, source: Any, target: Any, **options: Any) -> None:
        old, new = self.mine(source), self.mine(target)
        if old is not None and new is not None:
            self.point(f"rename to {new.suffix}")
        self.real["replace"](source, target, **options)
        if old is not None and new is not None:
            self.handles[new], self.synced[new] = self.handles.pop(old), self.synced.pop(old)
            self.unsynced_names.discard(old)
            self.unsynced_names.add(new)

    def unlink(self, path: Any, **options: Any) -> None:
        if (own := self.mine(path)) is not None and own.exists():
            self.point("remove")
        self.real["unlink"](path, **options)

    def mkdir(self, path: Any, *args: Any, **options: Any) -> None:
        own = self.mine(path)
        if own is not None and not own.exists():
            self.point("folder")
            self.unsynced_names.add(own)
        self.real["mkdir"](path, *args, **options)


PATCHED = ("open", "close", "write", "fsync", "ftruncate", "replace", "unlink", "mkdir")


class _Raw(io.FileIO):
    """A file whose writes are points."""

    def __init__(self, disk: _Disk, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self.disk = disk

    def write(self, content: Any, /) -> int:
        view = memoryview(content).cast("B")
        self.disk.point(f"write {len(view)}", lambda: super(_Raw, self).write(view[: len(view) // 2]))
        return super().write(view)

    def close(self) -> None:
        if not self.closed:
            self.disk.paths.pop(self.fileno(), None)
        super().close()
