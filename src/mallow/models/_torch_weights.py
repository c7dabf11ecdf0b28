"""The weights in a file of torch.save, read as arrays without torch. Nothing in the file is run."""

from __future__ import annotations

import io
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_DTYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


class _Storage(NamedTuple):
    dtype: str
    key: str
    size: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch_weights(content: bytes, *, name: str) -> dict[str, NDArray[Any]]:
    """The tensors of a state dict, by name, from the format that torch.save wrote before version 1.6.

    The description of the tensors is a pickle. Only what describes tensors is looked up in it: any other name is an error.

    Parameters
    ----------
    content : bytes
        The file.
    name : str
        What to call it in an error message.
    """
    stream = io.BytesIO(content)
    try:
        if _Unpickler(stream).load() != _MAGIC or _Unpickler(stream).load() != _PROTOCOL:
            raise ValueError("it does not begin as one")
        _Unpickler(stream).load()  # sizes of integers on the machine that wrote it
        described: dict[str, _Tensor] = _Unpickler(stream).load()
        used = {tensor.storage.key: tensor.storage for tensor in described.values()}
        values = {str(key): _read_storage(stream, used[key]) for key in _Unpickler(stream).load()}
        return {label: _view(tensor, values[tensor.storage.key]) for label, tensor in described.items()}
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, struct.error, pickle.UnpicklingError) as error:
        raise InputError(
            f"{name}: must be a state dict as torch.save wrote it before version 1.6: {str(error).rstrip('.')}."
        ) from error


def _read_storage(stream: io.BytesIO, storage: _Storage) -> NDArray[Any]:
    (count,) = struct.unpack("<q", stream.read(8))
    dtype = np.dtype(storage.dtype)
    data = stream.read(count * dtype.itemsize)
    if count != storage.size or len(data) != count * dtype.itemsize:
        raise ValueError("it is cut short")
    return np.frombuffer(data, dtype)


def _view(tensor: _Tensor, values: NDArray[Any]) -> NDArray[Any]:
    last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True))
    if min((tensor.offset, *tensor.shape, *tensor.strides)) < 0 or last >= len(values):
        raise ValueError("a tensor reaches beyond its values")
    steps = [step * values.itemsize for step in tensor.strides]
    return np.lib.stride_tricks.as_strided(values[tensor.offset :], tensor.shape, steps, writeable=False)


def _describe_tensor(
    storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> _Tensor:
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


class _Unpickler(pickle.Unpickler):
    """Knows dicts, numbers, strings and tensors, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., Any] | str] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _describe_tensor,
            **{("torch", kind): dtype for kind, dtype in _DTYPES.items()},
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which describes no tensor")
        return known[module, name]

    def persistent_load(self, described: Any) -> _Storage:
        _, dtype, key, _, count, *_ = described
        return _Storage(str(dtype), str(key), int(count))
