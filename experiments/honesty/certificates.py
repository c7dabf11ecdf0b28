"""Are certificates true? On pairs whose MAUVE is known, the 95% limit must be above it in at least 94.5% of trials.

    python experiments/honesty/certificates.py [--seed 14] [--trials N] [NAME ...]     about half an hour on one core; NAMEs: only these settings

Gaussians that differ by a shift (in one direction: MAUVE does not depend on the width d) or in all widths, heavy tails, mixtures,
histograms; independent rows, pairs with correlation .9, groups of 4, unequal sizes; then few samples, rare overlaps, skewed or sorted
rows (400 trials of these). The true area comes from the true
likelihood ratio: by quadrature where it has one dimension, else from 400,000 fresh samples. The limits are those of the certificate alone; a result
prints none where its test shows no gap, which only helps. Counted for the three summaries is how often the limit holds,
and how often the limit says anything (area below 1). The second part measures the slack, certified value minus truth, against n
and d. Writes certificates-seed-SEED.json, certificates-seed-SEED.md and certificates.png beside this file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import settings
from scipy import stats
from settings import Clock, learn, share_with_error

from mallow.evidence import certify, pooled_masses
from mallow.samples import Samples
from mallow.theory import KL, Masses, area, frontier, integral, midpoint

TRIALS, MORE_TRIALS, GRID_TRIALS = 200, 400, 40
SIZES, WIDTHS = (100, 200, 500, 1000, 2000), (5, 50, 400)
NAMES = ("mauve", "frontier_integral", "midpoint")
Draw = Callable[[np.random.Generator], tuple[Samples, Samples]]


def summaries(p: np.ndarray, q: np.ndarray) -> tuple[float, float, float]:
    curve = frontier.quiet(Masses.from_histograms(p / p.sum(), q / q.sum()))
    return float(area(curve, scale=settings.SCALE)), float(integral(curve)), float(midpoint(curve))


def by_quadrature(p: Callable, q: Callable, ends: np.ndarray) -> tuple[float, float, float]:
    """From distribution functions on a line: thousands of intervals, each with its exact masses."""
    ends = np.concatenate([[-np.inf], ends, [np.inf]])
    return summaries(np.maximum(np.diff(p(ends)), 0), np.maximum(np.diff(q(ends)), 0))


def by_samples(log_ratio: Callable, draw: Draw) -> tuple[float, float, float]:
    """From fresh samples and the true log-ratio, samples of nearly equal ratio together."""
    x, y = draw(np.random.default_rng(5))
    masses = pooled_masses(log_ratio(x.features), log_ratio(y.features))
    order = np.argsort(masses.p / (masses.p + masses.q))
    p, q = (np.array([part.sum() for part in np.array_split(each[order], 4000)]) for each in (masses.p, masses.q))
    return summaries(p, q)


def shift_truth(shift: float, tails: float | None = None) -> tuple[float, float, float]:
    line = stats.norm() if tails is None else stats.t(tails)
    ends = np.linspace(-12.0, 12.0 + shift, 4000) if tails is None else np.sinh(np.linspace(-9.0, 9.0, 8000))
    return by_quadrature(line.cdf, lambda ends: line.cdf(ends - shift), ends)


def width_truth(factor: float, width: int) -> tuple[float, float, float]:
    """The ratio depends on the squared distance from the centre alone."""
    square = stats.chi2(width)
    end = square.ppf(1 - 1e-12) * max(1.0, factor**2)
    return by_quadrature(square.cdf, lambda ends: square.cdf(ends / factor**2), np.linspace(0.0, end, 4000))


def shifted(shift: float, width: int, n: int, m: int | None = None, tails: float | None = None) -> Draw:
    """The direction is that of the first axis with heavy tails, and across all axes otherwise."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        sizes = n, m or n
        if tails is None:
            x, y = (rng.normal(size=(size, width)) for size in sizes)
            return Samples(features=x), Samples(features=y + shift / np.sqrt(width))
        x, y = (rng.standard_t(tails, size=(size, width)) for size in sizes)
        y[:, 0] += shift
        return Samples(features=x), Samples(features=y)

    return draw


def widened(factor: float, width: int, n: int) -> Draw:
    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        x, y = rng.normal(size=(2, n, width))
        return Samples(features=x), Samples(features=factor * y)

    return draw


def prompts(
    count: int, first: int, second: int, *, share: float, width: int, shift: float = 0.0, factor: float = 1.0
) -> Draw:
    """Texts for shared prompts; each side alone is a standard Gaussian, moved or widened on the model's side."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        topics = rng.normal(size=(count, width))
        sets = []
        for each in (first, second):
            number = np.repeat(np.arange(count), each)
            noise = rng.normal(size=(len(number), width))
            sets.append((np.sqrt(share) * topics[number] + np.sqrt(1 - share) * noise, [str(one) for one in number]))
        (x, of_x), (y, of_y) = sets
        return Samples(features=x, ids=of_x), Samples(features=factor * y + shift / np.sqrt(width), ids=of_y)

    return draw


CENTRES = 1.5 * np.random.default_rng(3).normal(size=(4, 10))
P_WEIGHTS, Q_WEIGHTS = np.array([0.25, 0.25, 0.25, 0.25]), np.array([0.4, 0.3, 0.2, 0.1])


def mixed(n: int) -> Draw:
    """Four clusters in other proportions."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        sides = [
            CENTRES[rng.choice(4, size=n, p=weights)] + rng.normal(size=(n, 10)) for weights in (P_WEIGHTS, Q_WEIGHTS)
        ]
        return Samples(features=sides[0]), Samples(features=sides[1])

    return draw


def mixture_log_ratio(points: np.ndarray) -> np.ndarray:
    near = -0.5 * ((points[:, None, :] - CENTRES) ** 2).sum(axis=-1)
    near -= near.max(axis=1, keepdims=True)
    return np.log(np.exp(near) @ P_WEIGHTS) - np.log(np.exp(near) @ Q_WEIGHTS)


def histogram_pair(strength: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    p = rng.dirichlet(np.ones(30))
    q = p * np.exp(strength * rng.normal(size=30))
    return p, q / q.sum()


def discrete(strength: float, n: int) -> Draw:
    """Thirty points at random places, with tilted masses."""
    p, q = histogram_pair(strength)
    places = np.random.default_rng(12).normal(size=(30, 10))

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        return tuple(Samples(features=places[rng.choice(30, size=n, p=masses)]) for masses in (p, q))

    return draw


def overlapping(share: float, n: int) -> Draw:
    """Two points, nearly: that of P, where a share of Q is as well, and one far away."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        x, y = 0.1 * rng.normal(size=(2, n, 2))
        y += 10 * (rng.random(n) > share)[:, None]
        return Samples(features=x), Samples(features=y)

    return draw


def repeated(n: int, units: int, each: int, *, share: float, width: int, shift: float) -> Draw:
    """Rows against units of several similar rows, of whose variance `share` belongs to the unit; all marginally Gaussian."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        x, common = rng.normal(size=(n, width)), np.repeat(rng.normal(size=(units, width)), each, axis=0)
        y = np.sqrt(share) * common + np.sqrt(1 - share) * rng.normal(size=common.shape)
        y[:, 0] += shift
        names = [f"unit {row // each}" for row in range(len(y))]
        return Samples(features=x, ids=[f"row {row}" for row in range(n)]), Samples(features=y, ids=names)

    return draw


def partly_answered(n: int, m: int, *, share: float, width: int, shift: float) -> Draw:
    """Prompts of the reference, of which the model has the first m; `share` of the variance belongs to the prompt."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        topics = rng.normal(size=(n, width))
        x, y = (
            np.sqrt(share) * of_side + np.sqrt(1 - share) * rng.normal(size=of_side.shape)
            for of_side in (topics, topics[:m])
        )
        y[:, 0] += shift
        return tuple(Samples(features=side, ids=[str(row) for row in range(len(side))]) for side in (x, y))

    return draw


def sorted_and_shifted(shift: float, n: int) -> Draw:
    """Nearly one column, by which both sides are sorted; rows without ids are independent nevertheless."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        x, y = (
            np.sort(rng.normal(size=n))[:, None] * [1, 1] + 1e-3 * rng.normal(size=(n, 2)) + own for own in (0, shift)
        )
        return Samples(features=x), Samples(features=y)

    return draw


def skewed(shift: float, n: int, m: int) -> Draw:
    """Log-normal in two columns, whose logarithms differ by a shift."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        x, y = (np.exp(rng.normal(size=(size, 2)) + own) for size, own in ((n, 0.0), (m, shift / np.sqrt(2))))
        return Samples(features=x), Samples(features=y)

    return draw


def with_rare_part(share: float, n: int, *, in_reference: bool) -> Draw:
    """A standard Gaussian in two dimensions; a share of one side is six standard deviations away."""

    def draw(rng: np.random.Generator) -> tuple[Samples, Samples]:
        plain, mixture = rng.normal(size=(2, n, 2))
        mixture[:, 0] += 6 * (rng.random(n) < share)
        sides = (mixture, plain) if in_reference else (plain, mixture)
        return Samples(features=sides[0]), Samples(features=sides[1])

    return draw


def rare_part_truth(share: float, *, in_reference: bool) -> tuple[float, float, float]:
    def mixture(ends: np.ndarray) -> np.ndarray:
        return (1 - share) * stats.norm.cdf(ends) + share * stats.norm.cdf(ends - 6)

    sides = (mixture, stats.norm.cdf) if in_reference else (stats.norm.cdf, mixture)
    return by_quadrature(*sides, np.linspace(-12.0, 18.0, 8000))


def overlap_truth(share: float) -> tuple[float, float, float]:
    return summaries(np.array([1.0, 0.0]), np.array([share, 1 - share]))


@dataclass(frozen=True)
class Setting:
    draw: Draw
    truth: Callable[[], tuple[float, float, float]]
    trials: int = TRIALS


SETTINGS = {
    "shift 0.5, d = 5, n = 300": Setting(shifted(0.5, 5, 300), lambda: shift_truth(0.5)),
    "shift 1, d = 50, n = 300": Setting(shifted(1.0, 50, 300), lambda: shift_truth(1.0)),
    "shift 2, d = 400, n = 300": Setting(shifted(2.0, 400, 300), lambda: shift_truth(2.0)),
    "shift 0.2, d = 5, n = 1000": Setting(shifted(0.2, 5, 1000), lambda: shift_truth(0.2)),
    "shift 0.7, d = 5, n = 1000, m = 150": Setting(shifted(0.7, 5, 1000, 150), lambda: shift_truth(0.7)),
    "shift 8, d = 5, n = 300 (nearly disjoint)": Setting(shifted(8.0, 5, 300), lambda: shift_truth(8.0)),
    "heavy tails (t, 3 degrees), shift 0.7, d = 5, n = 300": Setting(
        shifted(0.7, 5, 300, tails=3.0), lambda: shift_truth(0.7, 3.0)
    ),
    "all widths × 0.9, d = 50, n = 300": Setting(widened(0.9, 50, 300), lambda: width_truth(0.9, 50)),
    "all widths × 1.3, d = 5, n = 300": Setting(widened(1.3, 5, 300), lambda: width_truth(1.3, 5)),
    "mixture in other proportions, d = 10, n = 300": Setting(
        mixed(300), lambda: by_samples(mixture_log_ratio, mixed(200_000))
    ),
    "histogram of 30 points, n = 300": Setting(discrete(0.5, 300), lambda: summaries(*histogram_pair(0.5))),
    "pairs, ρ = 0.9, shift 0.5, d = 20, n = 300": Setting(
        prompts(300, 1, 1, share=0.9, width=20, shift=0.5), lambda: shift_truth(0.5)
    ),
    "pairs, ρ = 0.9, widths × 0.8, d = 20, n = 300": Setting(
        prompts(300, 1, 1, share=0.9, width=20, factor=0.8), lambda: width_truth(0.8, 20)
    ),
    "75 prompts × 4 on both sides, shift 0.7, d = 20": Setting(
        prompts(75, 4, 4, share=0.5, width=20, shift=0.7), lambda: shift_truth(0.7)
    ),
    "150 prompts, 1 against 4, ρ = 0.9, shift 0.5, d = 20": Setting(
        prompts(150, 1, 4, share=0.9, width=20, shift=0.5), lambda: shift_truth(0.5)
    ),
    "400 rows against 100 × 4, ρ = 0.99, no gap, d = 300": Setting(
        repeated(400, 100, 4, share=0.99, width=300, shift=0.0), lambda: shift_truth(0.0)
    ),
    "400 rows against 100 × 4, ρ = 0.99, shift 1, d = 300": Setting(
        repeated(400, 100, 4, share=0.99, width=300, shift=1.0), lambda: shift_truth(1.0)
    ),
    "400 rows against 80 × 5, ρ = 0.6, shift 0.7, d = 100": Setting(
        repeated(400, 80, 5, share=0.6, width=100, shift=0.7), lambda: shift_truth(0.7)
    ),
    "1,000 prompts, of which the model has 200, ρ = 0.9, no gap, d = 300": Setting(
        partly_answered(1000, 200, share=0.9, width=300, shift=0.0), lambda: shift_truth(0.0)
    ),
    "1,000 prompts, of which the model has 200, ρ = 0.9, shift 0.5, d = 300": Setting(
        partly_answered(1000, 200, share=0.9, width=300, shift=0.5), lambda: shift_truth(0.5)
    ),
    "5% of Q overlaps P, n = 20": Setting(overlapping(0.05, 20), lambda: overlap_truth(0.05), MORE_TRIALS),
    "2% of Q overlaps P, n = 100": Setting(overlapping(0.02, 100), lambda: overlap_truth(0.02), MORE_TRIALS),
    "shift 3, d = 5, n = 50": Setting(shifted(3.0, 5, 50), lambda: shift_truth(3.0), MORE_TRIALS),
    "sorted rows, shift 0.3, n = 300": Setting(sorted_and_shifted(0.3, 300), lambda: shift_truth(0.3), MORE_TRIALS),
    "shift 2, d = 2, n = 10": Setting(shifted(2.0, 2, 10), lambda: shift_truth(2.0), MORE_TRIALS),
    "shift 4, d = 1, n = 10": Setting(shifted(4.0, 1, 10), lambda: shift_truth(4.0), MORE_TRIALS),
    "log-normal, shift 1.5, n = 60": Setting(skewed(1.5, 60, 60), lambda: shift_truth(1.5), MORE_TRIALS),
    "log-normal, shift 1.5, n = 20, m = 500": Setting(skewed(1.5, 20, 500), lambda: shift_truth(1.5), MORE_TRIALS),
    "shift 2, d = 2, n = 500, m = 20": Setting(shifted(2.0, 2, 500, 20), lambda: shift_truth(2.0), MORE_TRIALS),
    "5% of Q far away, n = 150": Setting(
        with_rare_part(0.05, 150, in_reference=False), lambda: rare_part_truth(0.05, in_reference=False), MORE_TRIALS
    ),
    "10% of P that Q lacks, n = 100": Setting(
        with_rare_part(0.1, 100, in_reference=True), lambda: rare_part_truth(0.1, in_reference=True), MORE_TRIALS
    ),
}


def measure(name: str, draw: Draw, truth: tuple[float, float, float], seed: int, trials: int) -> dict[str, object]:
    """What the certificates of some trials say about one pair."""
    holds, values, highs = [], [], []
    for trial in range(trials):
        pair = draw(np.random.default_rng([seed, trial, *name.encode()]))
        learner = learn(*pair, seed=trial)
        certificate = certify(*learner.scores(1), learner.units, KL, settings.SCALE)
        limits = [certificate.estimates[name] for name in NAMES]
        holds.append([truth[0] <= limits[0].high, truth[1] >= limits[1].low, truth[2] >= limits[2].low])
        values.append(limits[0].value)
        highs.append(limits[0].high)
    return {
        "truth": truth,
        "trials": trials,
        "holds": np.sum(holds, axis=0),
        "below 1": int(np.sum(np.array(highs) < 1.0)),
        "value": float(np.mean(values)),
        "limit": float(np.mean(highs)),
        "value, deviation": float(np.std(values)),
    }


def report(results: dict[str, dict], grid: dict[str, dict], seed: int) -> str:
    lines = [
        "# Certificates: does the 95% limit hold? In per cent of trials with the standard error",
        "",
        f"Written by `python experiments/honesty/certificates.py --seed {seed}`. Owed: 94.5. *below 1*: how often the limit of the area says anything. "
        "*certified*: the mean over trials of the certified area and of its 95% limit.",
        "",
        "| setting | trials | true area | certified, limit | below 1 | area holds | integral holds | mid-point holds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        held = " | ".join(share_with_error(count, row["trials"]) for count in row["holds"])
        below = f"{100 * row['below 1'] / row['trials']:.0f}"
        lines.append(
            f"| {name} | {row['trials']} | {row['truth'][0]:.4f} | {row['value']:.3f}, {row['limit']:.3f} | {below} | {held} |"
        )
    if grid:
        truth = next(iter(grid.values()))["truth"][0]
        lines += [
            "",
            f"Slack: certified area (its 95% limit) minus the truth, {truth:.3f} (shift 1), {GRID_TRIALS} trials each; then how often the limit holds.",
            "",
            "| n | " + " | ".join(f"d = {width}" for width in WIDTHS) + " |",
            "|---|" + "---|" * len(WIDTHS),
        ]
        for n in SIZES:
            cells = []
            for width in WIDTHS:
                row = grid[f"{width}, {n}"]
                held = round(100 * row["holds"][0] / row["trials"])
                cells.append(f"{row['value'] - truth:+.3f} ({row['limit'] - truth:+.3f}), {held}%")
            lines.append(f"| {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def picture(grid: dict[str, dict]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    truth = next(iter(grid.values()))["truth"][0]
    for width, colour in zip(WIDTHS, ("C0", "C1", "C2"), strict=True):
        rows = [grid[f"{width}, {n}"] for n in SIZES]
        values, spread = (np.array([row[name] for row in rows]) for name in ("value", "value, deviation"))
        axes.plot(SIZES, values, "o-", color=colour, label=f"d = {width}: certified area")
        axes.fill_between(SIZES, values - spread, values + spread, color=colour, alpha=0.15)
        axes.plot(SIZES, [row["limit"] for row in rows], "--", color=colour, label=f"d = {width}: 95% limit")
    axes.axhline(truth, color="black", linewidth=1)
    axes.text(SIZES[0], truth, f" truth {truth:.3f}", va="bottom")
    axes.set(xscale="log", xlabel="samples of each side", ylabel="MAUVE at most", xticks=SIZES, xticklabels=SIZES)
    axes.legend(fontsize=8)
    figure.savefig(settings.HERE / "certificates.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="settings to run, or 'slack'; others are kept from the last run"
    )
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--trials", type=int, help=f"of each setting; by default {TRIALS} or {MORE_TRIALS}")
    options = parser.parse_args()
    file = f"certificates-seed-{options.seed}"
    known = settings.load(f"{file}.json") or {"settings": {}, "slack": {}}

    def keep() -> None:
        known["settings"] = {each: known["settings"][each] for each in SETTINGS if each in known["settings"]}
        settings.save(f"{file}.json", known)
        grid = known["slack"] if len(known["slack"]) == len(SIZES) * len(WIDTHS) else {}
        (settings.HERE / f"{file}.md").write_text(report(known["settings"], grid, options.seed))
        if grid:
            picture(grid)

    for name in [each for each in options.names or SETTINGS if each != "slack"]:
        clock, setting = Clock(), SETTINGS[name]
        trials = options.trials or setting.trials
        known["settings"][name] = measure(name, setting.draw, setting.truth(), options.seed, trials)
        print(name, known["settings"][name], f"{clock.seconds:.0f} s", flush=True)
        keep()
    if not options.names or "slack" in options.names:
        truth = shift_truth(1.0)
        for width in WIDTHS:
            for n in SIZES:
                clock = Clock()
                row = measure(
                    f"slack {width} {n}",
                    shifted(1.0, width, n),
                    truth,
                    options.seed,
                    min(GRID_TRIALS, options.trials or GRID_TRIALS),
                )
                known["slack"][f"{width}, {n}"] = row
                print(width, n, row, f"{clock.seconds:.0f} s", flush=True)
                keep()


if __name__ == "__main__":
    main()
