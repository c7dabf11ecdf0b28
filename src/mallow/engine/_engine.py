"""Engines that spread work over threads of this machine or over a cluster, with the same bits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from mallow._optional import require_all
from mallow.engine._ray import Ray
from mallow.engine._threads import cores, one_core, ordered_map, single_threaded_blas
from mallow.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")
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
