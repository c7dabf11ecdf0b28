"""What spreads the work: threads of this machine, or a cluster. The same functions, the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from mallow.engine._protocol import Engine
from mallow.engine._threads import cores, one_core, ordered_map, single_threaded_blas
from mallow.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Threads:
    """The threads of this machine.

    Parameters
    ----------
    threads : int or None
        None: one for each processor that the process may use.
    checkpoint : str or None
        A folder for what is done of a long work: after an interruption, the same call continues from there.

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
"""What `engine=` takes: None (this machine), "ray", the address of a Ray cluster ("ray://…"), or an engine object."""


def resolve_engine(engine: AnyEngine) -> Engine:
    """The engine that `engine=` stands for.

    Examples
    --------
    >>> resolve_engine(None)
    Threads(threads=None, checkpoint=None)
    >>> resolve_engine("ray://head:10001").address
    'ray://head:10001'
    """
    if engine is None:
        return Threads()
    if isinstance(engine, str):
        from mallow.engine._ray import Ray

        if engine == "threads":
            return Threads()
        if engine == "ray":
            return Ray()
        if engine.startswith("ray://"):
            return Ray(address=engine)
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
    """The engine that `engine=` stands for, ready to use; what was started for it ends with the block.

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
