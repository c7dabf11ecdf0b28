"""Models that stay in memory between calls, for whoever asks for it: a worker that embeds one part after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

Model = TypeVar("Model")

_STORE: ContextVar[dict[str, Any] | None] = ContextVar("kept model", default=None)


@contextmanager
def keep_model(store: dict[str, Any]) -> Iterator[None]:
    """Keep the model that is loaded inside this block in `store`, and use it instead of loading it again.

    The store belongs to the caller, and holds one model at most.
    """
    token = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(token)


def kept_model(key: str, load: Callable[[], Model]) -> Model:
    """What `load` returns, or returned before for the same key, inside `keep_model`; elsewhere, what it returns now.

    Examples
    --------
    >>> store = {}
    >>> with keep_model(store):
    ...     kept_model("a", lambda: [1]) is kept_model("a", lambda: [1])
    True
    >>> kept_model("a", lambda: 2)
    2
    """
    store = _STORE.get()
    if store is None:
        return load()
    if key not in store:
        store.clear()  # before the next one needs the memory
        store[key] = load()
    return cast("Model", store[key])
