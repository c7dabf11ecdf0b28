"""The ψ-truncation figure (paper: fig:vision) with a GAN of digits: which spread of the latent variable comes nearest to real ones?

    pip install -e '.[dev]'
    python experiments/digits/run.py        about ten minutes

5,000 of the 10,000 MNIST test digits are the reference, the other 5,000 what a perfect model would give. The GAN's z in R^64 is drawn from
N(0, ψ² I): ψ < 1 gives likely and less varied digits. All images are written as PNG files, and the same call as for any two folders
measures them, with the last hidden layer of a LeNet-5 (99.0 % right) for an embedder. Writes results.json, digits.md, digits.png beside this file.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from synthetic import write

import mallow
from mallow.baselines import table
from mallow.generate import psi_samples

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data"
COUNT = 5000
PSI = (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0)
SHOWN = ("MAUVE* KL", "Fréchet distance", "kernel distance", "precision", "recall")


class LeNet:
    """An embedder: paths of images to the 84 values before the last layer."""

    kind = "image"

    def __init__(self) -> None:
        path = DATA / "mnist-gan" / "lenet_epoch12_acc0.991.pth"
        self.weights = torch.load(path, weights_only=True, map_location="cpu")
        self.name = f"LeNet-5({path.name}, relu6)"

    def __call__(self, paths) -> np.ndarray:
        found = []
        for first in range(0, len(paths), 500):
            pictures = [np.asarray(Image.open(path).convert("L")) for path in paths[first : first + 500]]
            found.append(self.features(torch.from_numpy(np.stack(pictures)).float() / 255))
        return np.concatenate(found)

    @torch.inference_mode()
    def features(self, pixels: torch.Tensor) -> np.ndarray:
        w, f = self.weights, torch.nn.functional
        x = f.interpolate(pixels[:, None], size=(32, 32), mode="bilinear", align_corners=False)
        x = (x - 0.1307) / 0.3081
        for name, pooled in (("c1", True), ("c3", True), ("c5", False)):
            x = f.relu(f.conv2d(x, w[f"convnet.{name}.weight"], w[f"convnet.{name}.bias"]))
            x = f.max_pool2d(x, 2) if pooled else x
        return f.relu(f.linear(x.flatten(1), w["fc.f6.weight"], w["fc.f6.bias"])).numpy()


def generated(psi: float, rng: np.random.Generator) -> np.ndarray:
    """ψ-sampling of the GAN, which has one stage: h is the identity, and its mean is 0."""
    w = torch.load(DATA / "mnist-gan" / "G--300.ckpt", weights_only=True, map_location="cpu")

    @torch.inference_mode()
    def synthesis(z: np.ndarray) -> np.ndarray:
        x = torch.from_numpy(z)
        for name, bend in (("0", torch.relu), ("2", torch.relu), ("4", torch.tanh)):
            x = bend(torch.nn.functional.linear(x, w[f"{name}.weight"], w[f"{name}.bias"]))
        return ((x + 1) * 127.5).round().to(torch.uint8).numpy().reshape(-1, 28, 28)

    return psi_samples(lambda z: z, synthesis, psi, COUNT, latent=64, mean=0.0, batch=COUNT, rng=rng)


def real(rng: np.random.Generator) -> np.ndarray:
    content = gzip.decompress((DATA / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())
    return rng.permutation(np.frombuffer(content, np.uint8, offset=16).reshape(-1, 28, 28))


def folder(home: Path, name: str, images: np.ndarray) -> Path:
    path = home / name
    path.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(path / f"{number:05}.png", compress_level=1)
    return path


def picture(results: dict, samples: dict[str, np.ndarray]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 5.5), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=(3, 1.3))
    axes = grid[0].subgridspec(1, 3).subplots()
    area, frechet, both = axes
    values = results["values"]
    names = [f"psi {psi:g}" for psi in PSI]
    area.errorbar(
        PSI,
        [values[name]["MAUVE* KL"] for name in names],
        [results["error"][name] for name in names],
        marker="o",
        capsize=3,
    )
    area.axhline(values["real"]["MAUVE* KL"], color="k", linestyle=":", label="other real digits")
    area.set_ylabel("MAUVE*; bars: one standard error")
    frechet.plot(PSI, [values[name]["Fréchet distance"] for name in names], "s-")
    frechet.axhline(values["real"]["Fréchet distance"], color="k", linestyle=":", label="other real digits")
    frechet.set_ylabel("Fréchet distance")
    for key, style in (("precision", "^-"), ("recall", "v--")):
        both.plot(PSI, [values[name][key] for name in names], style, label=key)
    for one in axes:
        one.set_xlabel("ψ")
        one.grid(alpha=0.3)
        one.legend(fontsize=8)
    strips = grid[1].subgridspec(1, len(PSI) + 1).subplots()
    for one, (name, images) in zip(strips, samples.items(), strict=True):
        one.imshow(255 - np.block([[images[4 * row + column] for column in range(4)] for row in range(3)]), cmap="gray")
        one.set_title(name.replace("psi ", "ψ = "), fontsize=9)
        one.axis("off")
    figure.savefig(HERE / "digits.png", dpi=100)


def main() -> None:
    warnings.simplefilter("ignore")
    if not DATA.is_dir():
        sys.exit(f"This study needs the digits and the GAN in {DATA}, which are not part of the repository.")
    rng = np.random.default_rng(0)
    digits = real(rng)
    images = {"real": digits[COUNT:], **{f"psi {psi:g}": generated(psi, rng) for psi in PSI}}
    with tempfile.TemporaryDirectory() as home:
        reference = folder(Path(home), "reference", digits[:COUNT])
        systems = {name: folder(Path(home), name, each) for name, each in images.items()}
        found = table(reference, systems, embedder=LeNet())
        compared = mallow.compare(reference, systems, embedder=LeNet())
    error = {
        name: float(np.sqrt(parts["sampling"] + parts["clustering"] / 5)) for name, parts in compared.variance.items()
    }
    results = {
        "values": found.values,
        "error": error,
        "groups": [list(group) for group in compared.groups],
        "different": [[one.first, one.second] for one in compared.differences if one.significant],
        "signature": compared.signature,
    }
    write(__file__, results)
    said = f"Cannot be told apart by MAUVE*, best first: {'; '.join(' = '.join(group) for group in compared.groups)}.\n"
    (HERE / "digits.md").write_text(f"{found.table('markdown')}\n\n{said}")
    print(found, said, sep="\n")
    picture(results, images)


if __name__ == "__main__":
    main()
