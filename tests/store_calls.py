"""What tests ask of the ledger of a study, one transaction per call."""

from collections.abc import Callable
from typing import Any

from mallow.annotate import Store


class Calls:
    """The methods of the ledger of a store, without their first argument."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store.ledger, name)
        return lambda *values, **options: self._store.run([lambda execute: method(execute, *values, **options)])[0]
