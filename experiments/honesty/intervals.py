"""Do the intervals of the published score hold? Bins whose true masses are known, independent samples, pairs and groups.

    python experiments/honesty/intervals.py [trials]          about 5 minutes on one core with 200 trials, the default

Two questions, asked of `mallow.evidence` on labels drawn from known bins:

1. `published_interval`: is the score of *another draw* of as many samples inside, in 95% of draws?
2. `debiased_estimate`: is the score of the *true masses* inside, in 95% of draws?

The constants of both (`_published.py`) were tuned on family 1 and then run on family 2: other distributions of the same kinds and
other draws. Both tables are in intervals.md. Part 3 asks question 1 of the whole of `Quantize` on points, where another draw is also
clustered anew. Writes intervals.json and intervals.md beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from synthetic import zipf

from mallow.estimate import Quantize
from mallow.evidence import Units, debiased_estimate, published_interval
from mallow.theory import KL, Masses, Partition, area, frontier, integral, midpoint

NAMES = ("mauve", "frontier_integral", "midpoint")
SCALE = 5.0
FAMILIES = {1: (11, 1000), 2: (12, 2000)}  # the seed of the distributions, and of the draws


@dataclass(frozen=True)
class Setting:
    """`tilt` is how strongly the model's log-masses are tilted at random. `units`: rows; pairs: a row of each side, in one bin of the
    same quantile with probability 0.6; groups: 4 rows of each side per prompt; generations: 1 row of the reference and 4 of the
    model per prompt, likewise."""

    name: str
    base: str
    bins: int
    tilt: float
    n: int
    m: int
    units: str = "rows"


SETTINGS = [
    Setting("identical", "Dirichlet", 50, 0.0, 500, 500),
    Setting("identical, 100 bins", "Dirichlet", 100, 0.0, 1000, 1000),
    Setting("near", "Dirichlet", 50, 0.1, 500, 500),
    Setting("close", "Dirichlet", 50, 0.4, 500, 500),
    Setting("middle", "Dirichlet", 50, 0.8, 500, 500),
    Setting("far", "Dirichlet", 50, 1.5, 500, 500),
    Setting("very far", "Dirichlet", 50, 3.0, 500, 500),
    Setting("uniform", "Zipf(0)", 100, 0.3, 1000, 1000),
    Setting("log-normal", "log-normal", 100, 0.4, 1000, 1000),
    Setting("Zipf", "Zipf(1)", 50, 0.8, 500, 500),
    Setting("structural zeros", "zeros", 100, 0.5, 1000, 1000),
    Setting("middle, bins/n 0.02", "Dirichlet", 50, 0.8, 2500, 2500),
    Setting("close, bins/n 0.5", "Dirichlet", 250, 0.4, 500, 500),
    Setting("middle, bins/n 0.5", "Dirichlet", 250, 0.8, 500, 500),
    Setting("Zipf, bins/n 0.5", "Zipf(1)", 250, 0.8, 500, 500),
    Setting("uniform, bins/n 0.5", "Zipf(0)", 400, 0.4, 800, 800),
    Setting("Zipf, bins/n 0.2", "Zipf(1)", 200, 0.4, 1000, 1000),
    Setting("n = 500, m = 1500", "Dirichlet", 50, 0.4, 500, 1500),
    Setting("n = 300, m = 6000", "Dirichlet", 30, 0.6, 300, 6000),
    Setting("n = 200", "Dirichlet", 20, 0.6, 200, 200),
    Setting("500 bins, n = 5000", "Dirichlet", 500, 0.4, 5000, 5000),
    Setting("pairs, identical", "Dirichlet", 50, 0.0, 500, 500, "pairs"),
    Setting("pairs, close", "Dirichlet", 50, 0.4, 500, 500, "pairs"),
    Setting("pairs, middle", "Dirichlet", 50, 0.8, 500, 500, "pairs"),
    Setting("pairs, far", "Dirichlet", 50, 1.5, 500, 500, "pairs"),
    Setting("pairs, Zipf", "Zipf(1)", 100, 0.6, 1000, 1000, "pairs"),
    Setting("groups 100 × (4 + 4), identical", "Dirichlet", 40, 0.0, 400, 400, "groups"),
    Setting("groups 100 × (4 + 4), close", "Dirichlet", 40, 0.4, 400, 400, "groups"),
    Setting("groups 100 × (4 + 4), far", "Dirichlet", 40, 1.5, 400, 400, "groups"),
    Setting("generations 200 × (1 + 4), identical", "Dirichlet", 20, 0.0, 200, 800, "generations"),
    Setting("generations 200 × (1 + 4), middle", "Dirichlet", 20, 0.8, 200, 800, "generations"),
    Setting("generations 500 × (1 + 4), close", "Zipf(1)", 50, 0.4, 500, 2000, "generations"),
]


def distributions(s: Setting, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    if s.base.startswith("Zipf"):
        p = zipf(s.bins, float(s.base[5:-1]))
    elif s.base == "log-normal":
        p = np.exp(rng.normal(size=s.bins))
    else:
        p = rng.dirichlet(np.ones(s.bins))
    q = p * np.exp(s.tilt * rng.normal(size=s.bins))
    if s.base == "zeros":  # an eighth of the bins of each side are empty
        order = rng.permutation(s.bins)
        p[order[: s.bins // 8]], q[order[s.bins // 8 : s.bins // 4]] = 0.0, 0.0
    return p / p.sum(), q / q.sum()


def draw(s: Setting, p: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> tuple[Partition, Units]:
    prompts = {"rows": s.n + s.m, "pairs": s.n, "groups": s.n // 4, "generations": s.n}[s.units]
    sets = {
        "rows": (np.arange(s.n), s.n + np.arange(s.m)),
        "pairs": (np.arange(s.n), np.arange(s.n)),
        "groups": (np.repeat(np.arange(prompts), 4),) * 2,
        "generations": (np.arange(s.n), np.repeat(np.arange(s.n), 4)),
    }[s.units]
    common = rng.random(prompts)
    labels = []
    for unit, masses in zip(sets, (p, q), strict=True):
        own = rng.random(len(unit))
        shared = (rng.random(len(unit)) < 0.6) & (s.units != "rows")
        quantile = np.where(shared, common[unit], own)
        labels.append(np.minimum(np.searchsorted(np.cumsum(masses), quantile), s.bins - 1))
    return Partition(*labels, np.zeros((s.bins, 1))), Units(sets, np.arange(prompts, dtype=np.uint64))


def summaries(masses: Masses) -> np.ndarray:
    curve = frontier.quiet(masses, KL)
    return np.array([float(area(curve, scale=SCALE)), float(integral(masses)), float(midpoint(curve))])


def run_setting(s: Setting, family: int, trials: int) -> dict[str, object]:
    first, second = FAMILIES[family]
    p, q = distributions(s, first)
    truth = summaries(Masses.from_histograms(p, q))
    rng = np.random.default_rng([second, *s.name.encode()])
    smooth = Quantize().smooth
    printed, intervals, estimates = [], [], []
    for _ in range(trials):
        partition, units = draw(s, p, q, rng)
        values = summaries(smooth(partition.p_counts, partition.q_counts))
        each = {name: (float(value),) for name, value in zip(NAMES, values, strict=True)}
        interval = published_interval([partition], units, each, smooth=smooth, divergence=KL, scale=SCALE)
        estimate = debiased_estimate([partition], units, divergence=KL, scale=SCALE)
        printed.append(values)
        intervals.append([interval[name] for name in NAMES])
        estimates.append([(estimate[name].low, estimate[name].value, estimate[name].high) for name in NAMES])
    score, ends, debiased = np.array(printed), np.array(intervals), np.array(estimates)
    low, value, high = np.moveaxis(debiased, 2, 0)
    held = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
    return {
        "setting": asdict(s),
        "trials": trials,
        "truth": truth,
        "printed outside its interval": np.mean((score < ends[..., 0]) | (score > ends[..., 1])),
        "another draw inside": another_draw_inside(ends, score),
        "width for another draw": (ends[..., 1] - ends[..., 0]).mean(axis=0),
        "truth inside": held.mean(axis=0),
        "truth below": (truth + 1e-12 < low).mean(axis=0),
        "truth above": (truth - 1e-12 > high).mean(axis=0),
        "width around the truth": (high - low).mean(axis=0),
        "error of the score": np.sqrt(((score - truth) ** 2).mean(axis=0)),
        "error bias-corrected": np.sqrt(((value - truth) ** 2).mean(axis=0)),
    }


def another_draw_inside(ends: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """How often the score of another draw is in an interval, over all pairs of draws."""
    inside = (ends[:, None, :, 0] <= scores) & (scores <= ends[:, None, :, 1])
    return inside[~np.eye(len(scores), dtype=bool)].mean(axis=0)


POINTS = [
    ("width 5, identical", 5, 0.0),
    ("width 5, shift 0.4", 5, 0.4),
    ("width 50, identical", 50, 0.0),
    ("width 50, shift 0.2", 50, 0.2),
]


def run_points(name: str, width: int, shift: float, draws: int, n: int = 500, repeats: int = 5) -> dict[str, object]:
    """Gaussian mixtures of eight, the model shifted in every dimension: is the score of another draw, clustered anew, inside?"""
    centres = np.random.default_rng(3).normal(size=(8, width))
    rng = np.random.default_rng([4000, width, round(100 * shift)])
    estimator = Quantize(reduce=None)
    units = Units((np.arange(n), n + np.arange(n)), np.arange(2 * n, dtype=np.uint64))
    scores, intervals = [], []
    for _ in range(draws):
        x, y = (centres[rng.integers(8, size=n)] + 0.8 * rng.normal(size=(n, width)) + move for move in (0.0, shift))
        prepared = estimator.prepare(x, y)
        masses = [estimator.masses(prepared, child) for child in rng.spawn(repeats)]
        each = np.array([summaries(one) for one in masses])
        values = {name: each[:, i] for i, name in enumerate(NAMES)}
        partitions = [one.partition for one in masses]
        ends = published_interval(partitions, units, values, smooth=estimator.smooth, divergence=KL, scale=SCALE)
        scores.append(each.mean(axis=0))
        intervals.append([ends[name] for name in NAMES])
    score, ends = np.array(scores), np.array(intervals)
    return {
        "points": name,
        "draws": draws,
        "score": score.mean(axis=0),
        "another draw inside": another_draw_inside(ends, score),
        "width for another draw": (ends[..., 1] - ends[..., 0]).mean(axis=0),
        "width that is right": 2 * 1.96 * np.sqrt(2) * score.std(axis=0, ddof=1),
    }


def percent(values: np.ndarray) -> str:
    return " ".join(f"{100 * v:.0f}" for v in values)


def report(rows: dict[int, list[dict]], points: list[dict], seconds: float) -> str:
    lines = [
        "# Intervals of the published score, in per cent (area, integral, mid-point)",
        "",
        f"Written by `python experiments/honesty/intervals.py` in {seconds / 60:.1f} minutes of one core. 95 is meant everywhere. *Another draw*: the score of",
        "another draw of as many samples lies in `published_interval`. *Truth*: the score of the true masses lies in the interval of",
        "`debiased_estimate`. Errors are root-mean-square errors of the area. The printed score never lay outside its own interval.",
        "",
    ]
    for family, table in rows.items():
        what = "on which the constants were tuned" if family == 1 else "looked at after that"
        lines += [
            f"## Family {family}, {what}",
            "",
            "| setting | true area | another draw | its width | truth | its width | error of the score | error, bias-corrected |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in table:
            cells = [
                row["setting"]["name"],
                f"{row['truth'][0]:.3f}",
                percent(row["another draw inside"]),
                f"{row['width for another draw'][0]:.3f}",
                percent(row["truth inside"]),
                f"{row['width around the truth'][0]:.3f}",
                f"{row['error of the score'][0]:.4f}",
                f"{row['error bias-corrected'][0]:.4f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines += [
        "## Points, clustered anew in every draw (n = m = 500, five clusterings)",
        "",
        "| points | mean score | another draw | width | width that is right |",
        "|---|---|---|---|---|",
    ]
    for row in points:
        cells = [
            row["points"],
            f"{row['score'][0]:.3f}",
            percent(row["another draw inside"]),
            f"{row['width for another draw'][0]:.3f}",
            f"{row['width that is right'][0]:.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(entry) for entry in value]
    return float(f"{value:.4g}") if isinstance(value, (float, np.floating)) else value


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    start = time.process_time()
    rows: dict[int, list[dict]] = {}
    for family in FAMILIES:
        rows[family] = []
        for s in SETTINGS:
            rows[family].append(run_setting(s, family, trials if s.bins < 500 else trials // 4))
            row = rows[family][-1]
            print(
                f"{family} {s.name:38} {row['truth'][0]:.3f}  another draw {percent(row['another draw inside'])} width "
                f"{row['width for another draw'][0]:.3f}  truth {percent(row['truth inside'])} (below {percent(row['truth below'])}) "
                f"width {row['width around the truth'][0]:.3f} error {row['error bias-corrected'][0]:.4f}",
                flush=True,
            )
    points = [run_points(*one, draws=max(trials // 4, 10)) for one in POINTS]
    for row in points:
        print(row, flush=True)
    text = report(rows, points, time.process_time() - start)
    Path(__file__).with_name("intervals.md").write_text(text)
    Path(__file__).with_name("intervals.json").write_text(
        json.dumps(rounded({"families": rows, "points": points}), indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
