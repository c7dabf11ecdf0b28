"""A GAN against a diffusion model of digits (paper: tab:expt:gan-v-diffusion, fig:diffusion-examples).

    python experiments/digits/gan_diffusion.py        about ten minutes, and ten more for diffusion.py at first

StyleGAN2-ADA and NCSN++ cannot be had here. The GAN and the VAE were trained by others on the 60,000 training digits of MNIST, the diffusion model here on 5,000
of the 10,000 test digits, the row *real*; the other 5,000 are the reference. Sizes and bins are those of the paper: n = 5,000 and k = 100. Embedders: LeNet-5 and raw
pixels. Writes gan_diffusion.json, .md and .png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import Claim, above, claims_table, grid, pair_text, verdict, write
from data import LeNet, gan, pixels, real, vae
from diffusion import diffusion

import mallow
from models import measured

HERE = Path(__file__).resolve().parent
LABEL, COUNT, BINS = "tab:expt:gan-v-diffusion", 5000, 100


def learned_by_heart(learned: np.ndarray, others: np.ndarray, images: np.ndarray) -> float:
    """The share of images whose nearest digit, by pixels, is one that was learned and not one of as many others."""
    x, nearest = pixels(images), []
    for digits in (learned, others):
        y = pixels(digits)
        nearest.append(((y**2).sum(axis=1) - 2 * x @ y.T).min(axis=1))
    return float(np.mean(nearest[0] < nearest[1]))


def judge(embedder: str, rows: dict[str, dict[str, float]], compared: mallow.Comparison) -> list[Claim]:
    one, other = rows["GAN"], rows["diffusion"]
    said = verdict(other["Fréchet"] - one["Fréchet"], float(np.hypot(one["± (Fréchet)"], other["± (Fréchet)"])))
    nearer = above(compared, "GAN", "diffusion")
    text, detail = f"the GAN is above the diffusion model ({embedder})", pair_text(compared, "GAN", "diffusion")
    shown = f"{one['Fréchet']:.4g} and {other['Fréchet']:.4g}"
    return [
        Claim(LABEL, text, nearer, detail),
        Claim(LABEL, f"and by the Fréchet distance ({embedder})", {"measure": said} | nearer, shown),
    ]


def picture(images: dict[str, np.ndarray]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(images), figsize=(11, 3), layout="constrained")
    for one, (name, some) in zip(axes, images.items(), strict=True):
        one.imshow(255 - np.block([[some[6 * row + column] for column in range(6)] for row in range(6)]), cmap="gray")
        one.set_title(name, fontsize=9)
        one.axis("off")
    figure.savefig(HERE / "gan_diffusion.png", dpi=80)


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    digits = real(rng)
    reference, learned = digits[:COUNT], digits[COUNT:]
    map_noise, synthesise, width = gan()
    images = {
        "real": learned,
        "VAE": vae(rng.normal(size=(COUNT, 20)).astype(np.float32)),
        "diffusion": diffusion(learned, COUNT),
        "GAN": synthesise(map_noise(rng.normal(size=(COUNT, width)).astype(np.float32))),
    }
    copied = {name: learned_by_heart(learned, reference, images[name]) for name in ("VAE", "diffusion", "GAN")}
    rows, claims = {}, []
    measure = mallow.Measure(mallow.Quantize(bins=BINS))
    for name, embed in (("LeNet-5", LeNet()), ("pixels", pixels)):
        rows[name], compared = measured(embed(reference), {each: embed(some) for each, some in images.items()}, measure)
        claims += judge(name, rows[name], compared)
        print(name, [list(group) for group in compared.groups], file=sys.stderr, flush=True)
    shares = ", ".join(f"{name} {share:.1%}" for name, share in copied.items())
    page = f"A GAN against a small diffusion model of digits, n = {COUNT:,} per side, {BINS} bins: `python experiments/digits/gan_diffusion.py`. *real* are the digits that the diffusion model "
    page += "has learned from; the GAN and the VAE have learned from twelve times as many. Images whose nearest digit, by pixels, is one of *real* and not of the reference: "
    page += f"{shares}; 50% if nothing is learned by heart. In rows about the Fréchet distance, columns MAUVE* and held-out say what these find.\n\n"
    for name, each in rows.items():
        head = [name, *next(iter(each.values()))]
        page += grid(head, [[system, *values.values()] for system, values in each.items()]) + "\n"
    results = {"n": COUNT, "bins": BINS, "values": rows, "learned by heart": copied, "claims": claims}
    write(__file__, "gan_diffusion", results, page + claims_table(claims))
    picture(images)


if __name__ == "__main__":
    main()
