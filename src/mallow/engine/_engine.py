"""Engines that spread work over threads of this machine or over a cluster, with the same bits, and their passes.

The progress of a pass is shown and kept in a folder, so that no work is lost.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow._files import atomic_file, make_folder, refuse_special
from mallow._optional import require_all
from mallow.engine._progress import bar
from mallow.engine._ray import Ray
from mallow.engine._same_bits import cores, one_core, ordered_map, single_threaded_blas
from mallow.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")
_LOG = logging.getLogger("mallow")
_EVERY = 20.0  # seconds between two checkpoints; chosen: at most this much work is lost
_SHARE = 0.05  # share of the time that checkpoints may take; chosen
Arrays = dict[str, NDArray[Any]]
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_UNKNOWN = 4 * 10**9  # bytes, if the system does not report its memory


@runtime_checkable
class Engine(Protocol):
    """Calls a function for many tasks, wherever there are processors.

    `name` is its description. `map` returns the results in the order of the tasks. Only a few of them wait to be
    consumed, which bounds the memory. Function, tasks and results must be picklable, and the function must depend
    only on its task, since it may be called again after a failure. Each call has one thread of BLAS. An engine may
    also have a method ``open()``, a context in which it is used, and an attribute `checkpoint`, a folder for the
    progress of long work.
    """

    @property
    def name(self) -> str:
        """What the engine is called."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of the function for all tasks, in their order."""


@dataclass(frozen=True)
class Threads:
    """The threads of this machine.

    Parameters
    ----------
    threads : int or None
        None: one for each processor that the process may use.
    checkpoint : str or None
        A folder for the progress of long work. After an interruption, the same call continues from there.

    Examples
    --------
    >>> list(Threads(2).map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    threads: int | None = None
    checkpoint: str | None = None

    @property
    def name(self) -> str:
        """What the engine is called."""
        return "threads"

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of the function for all tasks, in their order."""

        def work(task: Task) -> Result:
            with one_core():
                return function(task)

        with single_threaded_blas():
            yield from ordered_map(work, tasks, self.threads or cores())


AnyEngine = Engine | str | None
"""Values for `engine=`: None (this machine), "ray", the address of a Ray cluster ("ray://…"), or an engine object."""


def resolve_engine(engine: AnyEngine) -> Engine:
    """The engine that `engine=` stands for.

    Examples
    --------
    >>> resolve_engine(None)
    Threads(threads=None, checkpoint=None)
    >>> resolve_engine("threads") == resolve_engine(None)
    True
    """
    if engine is None:
        return Threads()
    if isinstance(engine, str):
        if engine == "threads":
            return Threads()
        if engine == "ray" or engine.startswith("ray://"):
            require_all({"ray": "ray"}, purpose=f"the engine {engine!r}", extra="ray")
            return Ray(address=None if engine == "ray" else engine)
        raise InputError(
            f"`engine` must be None, 'ray', the address of a cluster ('ray://host:10001') or an engine; got {engine!r}."
        )
    if not isinstance(engine, Engine):
        raise InputError(
            f"`engine` must be None, 'ray', 'ray://…' or an object with `name` and `map(function, tasks)`; got "
            f"{type(engine).__name__}. Pass mallow.Ray(…) for a cluster."
        )
    return engine


@contextmanager
def open_engine(engine: AnyEngine) -> Iterator[Engine]:
    """The engine that `engine=` stands for, ready to use; everything that was started for it ends with the block.

    Examples
    --------
    >>> with open_engine(None) as engine:
    ...     sum(engine.map(abs, [-1, 2]))
    3
    """
    resolved = resolve_engine(engine)
    enter: Any = getattr(resolved, "open", None)
    if enter is None:
        yield resolved
        return
    context: AbstractContextManager[Any] = enter()
    with context:
        yield resolved


def memory_budget() -> int:
    """Bytes that data may take: ``MALLOW_MEMORY`` ("4GB", "512 MiB" or a number), otherwise half of the machine.

    Examples
    --------
    >>> memory_budget() > 0
    True
    """
    text = os.environ.get("MALLOW_MEMORY", "").strip()
    if not text:
        return _machine() // 2
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]I?)?B?", text.upper())
    if match is None or not float(match[1]):
        raise InputError(f"MALLOW_MEMORY must be a number of bytes, such as 4000000000, 4GB or 512MiB; got {text!r}.")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def _machine() -> int:
    """Bytes of memory that this machine has, or that a container allows."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        return 2 * _UNKNOWN
    return min([total, *_group_limits(Path("/"))])


def _group_limits(root: Path) -> list[int]:
    """The limits of memory of the control group of this process and of those above it, of both versions of Linux."""
    limits: list[int] = []
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # another system
        return limits
    for line in lines:
        _, kinds, group = line.split(":", 2)
        if kinds in ("", "memory"):
            base, file = ("", "memory.max") if kinds == "" else ("memory", "memory.limit_in_bytes")
            names = Path(group.lstrip("/"))
            for folder in (names, *names.parents):
                with suppress(OSError, ValueError):  # not visible in here, or "max"
                    limits.append(int((root / "sys/fs/cgroup" / base / folder / file).read_text(encoding="ascii")))
    return limits


class Passes:
    """Passes over the tasks of one piece of work, by one engine.

    Parameters
    ----------
    engine : Engine
        Its `checkpoint`, if it has one, is the folder in which progress is kept.
    work : str
        Everything that the work depends on. Different work does not continue from this checkpoint.
    within : Passes, optional
        The passes of the larger work that contains this one. Progress is kept until the larger work is complete.
    """

    def __init__(self, engine: Engine, work: str, within: Passes | None = None) -> None:
        self.engine = engine
        self._folder: Path | None = None
        chosen: str | None = getattr(engine, "checkpoint", None)
        above = within._folder if within is not None else None if chosen is None else Path(chosen)
        self._work = hashlib.sha256(work.encode()).hexdigest()
        if above is not None:
            self._folder = make_folder(above / self._work[:16])

    def run(
        self,
        name: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        state: Arrays,
        add: Callable[[Arrays, Task, Result], None],
    ) -> Arrays:
        """The state after `add` has put the results of all tasks into it, in their order.

        Parameters
        ----------
        name : str
            The name of this pass, different for all passes of the work.
        function : callable
            Computes the result of a task.
        state : dict of arrays
            Only `add` changes it, in place. A checkpoint holds it, with the number of its tasks. An interruption may
            come between any two operations. A state that does not agree with the number is not saved, and the
            previous checkpoint stays.
        """
        done = self._load(name, state)
        if not 0 <= done <= len(tasks):
            raise InputError(f"{self._folder}: the checkpoint of {name} is damaged. Remove the folder and start again.")
        if done:
            _LOG.warning("%s: continuing from the checkpoint, %d of %d tasks are done", name, done, len(tasks))
        saved = began = time.monotonic()
        spent = 0.0
        agree = True  # whether `state` holds exactly the first `done` tasks
        with bar(name, len(tasks), done=done) as show:
            try:
                for result in self.engine.map(function, tasks[done:]):
                    agree = False
                    add(state, tasks[done], result)
                    done += 1
                    agree = True
                    show(done, f"{done}/{len(tasks)}")
                    now = time.monotonic()
                    if now - saved > _EVERY and spent <= _SHARE * (now - began):
                        self._save(name, state, done)
                        saved = time.monotonic()
                        spent += saved - now
            except BaseException:
                if agree:
                    self._save(name, state, done)
                raise
        self._save(name, state, done)
        _LOG.info("%s: %d tasks in %.1f s", name, len(tasks), time.monotonic() - began)
        return state

    def keep(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The result of `make`, or its saved result from before an interruption."""
        state: Arrays = {}
        if self._load(name, state):
            _LOG.warning("%s: taken from the checkpoint", name)
            return state
        began = time.monotonic()
        state = make()
        self._save(name, state, 1)
        _LOG.info("%s: %.1f s", name, time.monotonic() - began)
        return state

    def finish(self) -> None:
        """Remove the checkpoint: the work is complete."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _save(self, name: str, state: Arrays, done: int) -> None:
        if self._folder is None:
            return
        try:
            with atomic_file(self._folder / f"{name}.npz") as stream:
                digest = np.frombuffer(self._digest(name, state, done), np.uint8)
                np.savez(stream, done=np.int64(done), digest=digest, **state)  # type: ignore[arg-type]
        except OSError as error:
            raise InputError(
                f"{self._folder}: the checkpoint cannot be written: {error.strerror or error}. Free some space, or "
                "choose another folder; what was written before stays valid."
            ) from error

    def _load(self, name: str, state: Arrays) -> int:
        """Fill the state from a checkpoint. The number of tasks in it, 0 without one."""
        path = None if self._folder is None else self._folder / f"{name}.npz"
        if path is None or not path.exists():
            return 0
        refuse_special(path)
        try:
            with path.open("rb") as stream, np.load(stream) as arrays:  # from a path, numpy leaves damaged files open
                done, digest = int(arrays["done"]), arrays["digest"].tobytes()
                kept = {key: arrays[key] for key in arrays.files if key not in ("done", "digest")}
        except Exception as error:  # numpy and zipfile may raise anything for a damaged file
            raise InputError(f"{path}: the checkpoint is damaged: {error}. Remove it and start again.") from error
        if digest != self._digest(name, kept, done):
            raise InputError(f"{path}: the checkpoint is damaged: its values were changed. Remove it and start again.")
        state.update(kept)
        return done

    def _digest(self, name: str, state: Arrays, done: int) -> bytes:
        """The digest of the content of a checkpoint and of its pass."""
        total = hashlib.blake2b(repr((self._work, name, done)).encode(), digest_size=16)
        for key, array in sorted(state.items()):
            values = np.ascontiguousarray(array)
            total.update(repr((key, array.shape, array.dtype.str)).encode())
            total.update(values.reshape(-1).view(np.uint8).data)
        return total.digest()
