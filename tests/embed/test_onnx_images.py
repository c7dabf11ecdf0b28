"""Image networks saved as ONNX: a small one written here gives what numpy gives, whatever its batch."""

import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from mallow.embed import OnnxImages, Preprocess
from mallow.errors import InputError
from name_digests import name_digest
from onnx_files import FLOAT, graph_input, graph_output, node, tensor, write_onnx

pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")

WEIGHTS = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)


def onnx_file(
    path: Path, weights: np.ndarray, *, batch: int | str = "n", outputs: tuple[str, ...] = ("pooled",)
) -> Path:
    """Conv → Relu → GlobalAveragePool on images of 12×12."""
    shapes = {"pooled": [batch, len(weights), 1, 1], "maps": [batch, len(weights), 10, 10]}
    return write_onnx(
        path,
        node("Conv", ["images", "weights"], ["raw"]),
        node("Relu", ["raw"], ["maps"]),
        node("GlobalAveragePool", ["maps"], ["pooled"]),
        tensor("weights", weights, FLOAT),
        graph_input("images", FLOAT, [batch, 3, 12, 12]),
        *(graph_output(name, FLOAT, shapes[name]) for name in outputs),
    )


@pytest.mark.parametrize("batch", ["n", 1, 4], ids=["any", "one", "four"])
def test_onnx_gives_what_numpy_gives(batch, pictures, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")
    embedder = OnnxImages(onnx_file(tmp_path / "net.onnx", WEIGHTS, batch=batch), Preprocess(size=12))
    seen = np.stack([embedder.preprocess(picture) for picture in pictures])
    windows = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), axis=(2, 3))
    expected = np.maximum(np.einsum("nchwij,kcij->nkhw", windows, WEIGHTS), 0).mean(axis=(2, 3))
    features = embedder(pictures)
    assert callable(embedder.stream)
    assert features == approx(expected, abs=1e-4)
    assert features.dtype == np.float32
    assert embedder(pictures[:1]) == approx(features[:1], abs=1e-5)
    assert embedder.name == f"OnnxImages(net.onnx@{name_digest(embedder.path)}, output=None, {embedder.preprocess!r})"
    assert pickle.loads(pickle.dumps(embedder)) == embedder


def test_onnx_needs_no_torch(pictures, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    assert OnnxImages(onnx_file(tmp_path / "net.onnx", WEIGHTS), Preprocess(size=12))(pictures).shape == (19, 5)


def test_onnx_outputs_and_files_are_checked(pictures, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[onnx]'")
    path = onnx_file(tmp_path / "two.onnx", WEIGHTS, outputs=("maps", "pooled"))
    assert OnnxImages(path, Preprocess(size=12), output="pooled")(pictures).shape == (19, 5)
    with pytest.raises(InputError, match=r"`output` must name one of maps, pooled; got None\."):
        OnnxImages(path, Preprocess(size=12))(pictures)
    with pytest.raises(InputError, match=r"`output` must be one of maps, pooled; got 'logits'\."):
        OnnxImages(path, Preprocess(size=12), output="logits")(pictures)
    (tmp_path / "no.onnx").write_bytes(struct.pack("<q", 12345))
    with pytest.raises(InputError, match=r"no\.onnx: must be an ONNX file; onnxruntime cannot load it \(.+\)\."):
        OnnxImages(tmp_path / "no.onnx", Preprocess(size=12))(pictures)


def test_onnxruntime_is_asked_for(pictures, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime is needed .*: .*pip install '.*\[onnx\]'"):
        OnnxImages(onnx_file(tmp_path / "net.onnx", WEIGHTS), Preprocess(size=12))(pictures)
