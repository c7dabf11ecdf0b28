"""How tight are the statistical error bounds? The paper's study (fig:main:bound:new) on synthetic data.

    python experiments/bounds/run.py        about a minute on two cores

The error of the KL frontier integral of empirical histograms, by Monte Carlo (100 trials), beside the
distribution-free bound (√(k/n) + k/n) log n and the oracle bound (α(P) + α(Q)) log n + β(P) + β(Q), both
drawn divided by 30 as in the paper, and the theorem with its constants explicit (the table's, the sharp).
Only slopes in the log–log plots are to be compared. Writes results.json and bounds.png beside this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from synthetic import Progress, write, zipf

from mallow import Masses, integral, smoothing
from mallow.theory import KL_INTEGRAL, bounds

TRIALS = 100
SCALED = 30
CURVES = {
    "Monte Carlo": "k-o",
    "Bound / 30": "C0--",
    "Oracle bound / 30": "C1-.",
    "Theorem, sharp constants": "C2:",
    "Theorem, the table's constants": "C3:",
    "Monte Carlo, add-1/2": "C7-s",
    "Smoothed theorem, sharp constants": "C4:",
}


def point(p: np.ndarray, q: np.ndarray, n: int, rng: np.random.Generator) -> dict[str, float]:
    k = len(p)
    truth = integral(Masses.from_histograms(p, q))
    counts = rng.multinomial(n, p, size=TRIALS), rng.multinomial(n, q, size=TRIALS)

    def error(smooth) -> float:
        return float(np.abs(integral(Masses.from_histograms(*map(smooth, counts))) - truth).mean())

    log, table = np.log(n), bounds.paper_constants(KL_INTEGRAL)
    oracle = (bounds.alpha(p, n) + bounds.alpha(q, n)) * log + bounds.beta(p, n) + bounds.beta(q, n)
    return {
        "Monte Carlo": error(smoothing.empirical),
        "Bound / 30": (np.sqrt(k / n) + k / n) * log / SCALED,
        "Oracle bound / 30": oracle / SCALED,
        "Theorem, sharp constants": bounds.oracle_bound(p, q, n),
        "Theorem, the table's constants": bounds.oracle_bound(p, q, n, using=table),
        "Monte Carlo, add-1/2": error(smoothing.krichevsky_trofimov),
        "Smoothed theorem, sharp constants": bounds.oracle_bound(p, q, n, constant=0.5),
    }


def near(k: int, power: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A Zipf distribution and the same with every bin's log-mass moved by 0.5 at random: a good model."""
    p = zipf(k, power)
    q = p * np.exp(rng.normal(scale=0.5, size=k))
    return p, q / q.sum()


def slope(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def study(settings: dict[str, tuple], path: Path, rng: np.random.Generator) -> dict[str, dict]:
    """The curves of every panel with their slopes, and the picture."""
    progress = Progress(sum(len(points) for *_, points in settings.values()))
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.2), constrained_layout=True)
    found: dict[str, dict] = {}
    for (panel, (axis, title, points)), ax in zip(settings.items(), axes, strict=True):
        curves: dict[str, list[float]] = {name: [] for name in CURVES}
        for at, p, q, n in points:
            for name, value in point(p, q, n, rng).items():
                curves[name].append(value)
            progress.step(f"({panel}) {axis} = {at}")
        at = [first for first, *_ in points]
        found[panel] = {
            "axis": axis,
            "title": title,
            "at": at,
            "values": curves,
            "slope": {name: slope(at, curve) for name, curve in curves.items()},
            "slope of the last three": {name: slope(at[-3:], curve[-3:]) for name, curve in curves.items()},
        }
        for name, style in CURVES.items():
            ax.loglog(at, curves[name], style, label=name, markersize=4)
        ax.set_title(f"({panel}) {title}", fontsize=9)
        ax.set_xlabel({"n": "sample size n", "k": "support size k"}[axis])
        ax.grid(alpha=0.3)
        print(f"\n({panel}) {title}: slopes in {axis}, all points / last three")
        for name in CURVES:
            both = found[panel]["slope"][name], found[panel]["slope of the last three"][name]
            print(f"  {name:36}{both[0]:7.2f}{both[1]:7.2f}")
    axes[0].set_ylabel("error of the integral")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, ncols=7, loc="outside lower center")
    figure.savefig(path, dpi=80)
    return found


def main() -> None:
    rng = np.random.default_rng(0)
    sizes = [30, 100, 300, 1_000, 3_000, 10_000, 30_000]
    many = [4, 16, 64, 256, 1_024, 4_096]
    pairs = {k: (near(k, 0, rng), near(k, 1, rng)) for k in {64, *many}}
    settings = {
        "a": ("n", "Zipf(0), k = 64", [(n, *pairs[64][0], n) for n in sizes]),
        "b": ("n", "Zipf(1), k = 1024", [(n, *pairs[1_024][1], n) for n in sizes]),
        "c": ("k", "Zipf(0), n = 1000", [(k, *pairs[k][0], 1_000) for k in many]),
        "d": ("k", "Zipf(1), n = 10000", [(k, *pairs[k][1], 10_000) for k in many]),
    }
    found = study(settings, Path(__file__).with_name("bounds.png"), rng)
    write(__file__, {"trials": TRIALS, "panels": found})


if __name__ == "__main__":
    main()
