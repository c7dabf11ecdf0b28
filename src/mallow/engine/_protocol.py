"""What an engine is, and what it may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

Array = NDArray[Any]
Task = TypeVar("Task")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """Calls a function for many tasks, wherever there are processors.

    `name` says what it is. `map` gives the results in the order of the tasks; only a few of them wait to be consumed, which
    bounds the memory. Function, tasks and results must be picklable, and the function must depend on nothing but its
    task, since it may be called again after a failure. Each call has one thread of BLAS. An engine may also have a method
    ``open()``, a context in which it is used, ``hold(function, tasks)``, which gives `Held` arrays, and an attribute
    `checkpoint`, a folder for what is done of a long work.
    """

    @property
    def name(self) -> str:
        """What the engine is called."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of the function for all tasks, in their order."""


class Held(Protocol):
    """Some arrays, one for each task that made them."""

    def __len__(self) -> int:
        """How many arrays there are."""

    def map(self, function: Callable[[Array, Any], Result], tasks: Iterable[tuple[int, Any]]) -> Iterator[Result]:
        """The results of the function for some arrays, in the order of the tasks: (which array, what else it is called with)."""

    def hold(self, function: Callable[[Array], Array], *, size: int) -> Held:
        """What the function makes of each array, held too; `size` is the sum of their bytes."""
