"""Options of a network: its device, its precision, choices among words, and whether it stays in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar, cast

from mallow._optional import optional
from mallow.errors import InputError
from mallow.models._load_errors import first_line

Precision = Literal["float32", "float16", "bfloat16"]


def choose_device(device: str | None, *, extra: str) -> str:
    """The device of torch; None chooses CUDA if available, else MPS, else the CPU."""
    torch = optional("torch", extra=extra)
    if device is not None:
        return device
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def choose_precision(dtype: Precision | None, device: str, *, extra: str) -> Precision:
    """The precision; None chooses bfloat16 on CUDA (float16 if the card lacks it), float16 on MPS, float32 on a CPU."""
    if dtype is not None:
        return dtype
    if device.startswith("cuda"):
        # Emulated bfloat16 is slower than float16.
        native = optional("torch", extra=extra).cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if native else "float16"
    return "float16" if device.startswith("mps") else "float32"


def move_network(network: Any, device: str, model: str, dtype: Any = None) -> Any:
    """The network on its device, in evaluation mode; `dtype` converts all of it to this precision."""
    try:
        return network.to(device=device, dtype=dtype).eval()
    except (RuntimeError, AssertionError) as error:  # torch without CUDA raises an AssertionError
        raise InputError(
            f"`device` must be one that torch can use here, with room for {model}; got {device!r}: "
            f"{first_line(error)} Pass `device='cpu'`."
        ) from error


Model = TypeVar("Model")

_STORE: ContextVar[dict[str, Any] | None] = ContextVar("kept model", default=None)


@contextmanager
def keep_model(store: dict[str, Any]) -> Iterator[None]:
    """Keep the model that is loaded inside this block in `store`, and use it instead of loading it again.

    The store belongs to the caller, and holds at most one model.
    """
    token = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(token)


def kept_model(make_key: Callable[[], str], load: Callable[[], Model]) -> Model:
    """The result of `load`, or inside `keep_model` its earlier result for the same key.

    The key must identify the current weights on the disk, so that changed weights are loaded again.

    Examples
    --------
    >>> store = {}
    >>> with keep_model(store):
    ...     kept_model(lambda: "a", lambda: [1]) is kept_model(lambda: "a", lambda: [1])
    True
    >>> kept_model(lambda: "a", lambda: 2)
    2
    """
    store = _STORE.get()
    if store is None:
        return load()
    key = make_key()
    if key not in store:
        store.clear()  # before the next model needs the memory
        store[key] = load()
    return cast("Model", store[key])
