"""The ψ-truncation figure (paper: fig:vision) with a GAN of digits: which spread of the hidden layer comes nearest to real ones?

    pip install -e '.[dev]'
    python experiments/digits/run.py        about ten minutes

5,000 of the 10,000 MNIST test digits are the reference, the other 5,000 what a perfect model would give. The GAN is split after its first layer,
g = s ∘ h, and ψ contracts h(z) to its mean, as in the paper; the same noise serves every ψ. Embedders: a LeNet-5 (99.0% right) and raw pixels.
Writes digits.json, digits.md, digits.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import (
    Claim,
    above,
    claims_table,
    every,
    fold_error,
    grid,
    monotone,
    rising,
    standard_errors,
    verdict,
    write,
)
from data import LeNet, gan, pixels, real

import mallow
from mallow.baselines import frechet_distance, precision_recall
from mallow.generate import mean_embedding, psi_samples

HERE = Path(__file__).resolve().parent
COUNT = 5000
PSI = (0.0, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
ORDER = (1.0, 1.2, 0.7, 0.3, 0.0)  # the paper's, best first


def label(psi: float) -> str:
    return f"ψ = {psi:g}"


def measured(x: np.ndarray, systems: dict[str, np.ndarray]) -> tuple[dict[str, dict[str, float]], mallow.Comparison]:
    compared = mallow.compare(x, systems)
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
        }
    return rows, compared


def judge(embedder: str, rows: dict[str, dict[str, float]], compared: mallow.Comparison) -> list[Claim]:
    claims = []
    for better, worse in pairwise(ORDER):
        text = f"MAUVE: {label(better)} is nearer than {label(worse)} ({embedder})"
        one, other = rows[label(better)], rows[label(worse)]
        detail = f"{one['MAUVE*']:.3f} and {other['MAUVE*']:.3f}"
        claims.append(Claim("fig:vision", text, above(compared, label(better), label(worse)), detail))
    line = [rows[label(psi)] for psi in reversed(ORDER)]
    said = monotone([-row["Fréchet"] for row in line], [row["± (Fréchet)"] for row in line])
    order = sorted(ORDER, key=lambda psi: rows[label(psi)]["Fréchet"])
    text = f"the Fréchet distance has the same order ({embedder})"
    quality = rising(compared, [label(psi) for psi in reversed(ORDER)])
    quality |= {"held-out": every(claim.verdicts["held-out"] for claim in claims)}  # every step, by its own test
    claims.append(Claim("fig:vision", text, {"measure": said} | quality, " ≻ ".join(f"{psi:g}" for psi in order)))
    low, one = rows[label(0.7)], rows[label(1.0)]
    for kind, better in (("precision", low), ("recall", one)):
        other = one if better is low else low
        error = np.sqrt(sum(row[kind] * (1 - row[kind]) for row in (low, one)) / COUNT)
        text = f"{kind} is higher at ψ = {'0.7' if better is low else '1'} than at ψ = {'1' if better is low else '0.7'} ({embedder})"
        detail = f"{better[kind]:.3f} and {other[kind]:.3f}"
        quality = above(compared, *((label(0.7), label(1.0)) if better is low else (label(1.0), label(0.7))))
        said = {"measure": verdict(better[kind] - other[kind], float(error))} | quality
        claims.append(Claim("fig:vision", text, said, detail))
    return claims


def picture(results: dict[str, dict[str, dict[str, float]]], samples: dict[str, np.ndarray]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 5.5), layout="constrained")
    parts = figure.add_gridspec(2, 1, height_ratios=(3, 1.3))
    axes = parts[0].subgridspec(1, 4).subplots()
    for embedder, rows in results.items():
        shown = [rows[label(psi)] for psi in PSI]
        axes[0].errorbar(
            PSI,
            [row["MAUVE*"] for row in shown],
            [row["standard error"] for row in shown],
            marker="o",
            capsize=3,
            label=embedder,
        )
        axes[1].plot(PSI, [row["certified, at most"] for row in shown], "o-", label=embedder)
        axes[2].plot(PSI, [row["Fréchet"] / rows[label(1.0)]["Fréchet"] for row in shown], "s-", label=embedder)
        axes[3].plot(PSI, [row["precision"] for row in shown], "^-", label=f"precision, {embedder}")
        axes[3].plot(PSI, [row["recall"] for row in shown], "v--", label=f"recall, {embedder}")
    axes[2].set_yscale("log")
    titles = (
        "MAUVE*; bars: one standard error",
        "certified: MAUVE at most",
        "Fréchet distance, relative to ψ = 1",
        "precision and recall",
    )
    for one, title in zip(axes, titles, strict=True):
        one.set_title(title, fontsize=9)
        one.set_xlabel("ψ")
        one.grid(alpha=0.3)
        one.legend(fontsize=7)
    strips = parts[1].subgridspec(1, len(samples)).subplots()
    for one, (name, images) in zip(strips, samples.items(), strict=True):
        one.imshow(255 - np.block([[images[4 * row + column] for column in range(4)] for row in range(3)]), cmap="gray")
        one.set_title(name, fontsize=9)
        one.axis("off")
    figure.savefig(HERE / "digits.png", dpi=80)


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    digits = real(rng)
    map_noise, synthesise, width = gan()
    mean = mean_embedding(map_noise, latent=width, rng=1)
    images = {"real": digits[COUNT : 2 * COUNT]}
    for psi in PSI:  # the same noise for all
        images[label(psi)] = psi_samples(map_noise, synthesise, psi, COUNT, latent=width, mean=mean, rng=2)
    rows, claims = {}, []
    for name, embed in (("LeNet-5", LeNet()), ("pixels", pixels)):
        rows[name], compared = measured(embed(digits[:COUNT]), {each: embed(some) for each, some in images.items()})
        claims += judge(name, rows[name], compared)
        print(name, [list(group) for group in compared.groups], file=sys.stderr)
    page = f"ψ-sampling of a GAN of digits, n = {COUNT} per side: `python experiments/digits/run.py`. In rows about another measure, columns MAUVE* and "
    page += "held-out say what these find of the same values of ψ.\n\n"
    for name, each in rows.items():
        head = [name, *next(iter(each.values()))]
        page += grid(head, [[system, *values.values()] for system, values in each.items()]) + "\n"
    write(__file__, "digits", {"n": COUNT, "values": rows, "claims": claims}, page + claims_table(claims))
    picture(rows, images)


if __name__ == "__main__":
    main()
