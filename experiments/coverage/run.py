"""Do 95 % intervals cover the truth 95 % of the time? Simulations with known truth, from near-identical to far apart.

    python experiments/coverage/run.py [trials [seed]]        about a quarter of an hour on two cores with 120 trials, the default

Part 1: a reference and two systems on bins with known probabilities; labels are drawn, everything else is
`mallow.inference._intervals`. The truth is the summary of the probabilities. Part 2: the whole of `mallow.compare` on features, with
partitions fitted to the same samples; the truth is the summary of the fitted partitions' true masses, from 100,000 fresh points a side, averaged over the
repeats. Counted are: how often the interval of a single score and that of a difference hold the truth, how often no interval is
given, how often equal systems are called different (type I error), and how often different ones are (power).
Writes results.json and coverage.md beside this file; with another seed than 7 only coverage-seed-SEED.md.

The widening of the errors and the threshold below which no interval is given were last changed after a run with seed 7 in which one
setting covered 85 % in 66 trials. So seed 7 is not an independent check of them; seed 1907 (coverage-seed-1907.md) is.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes share two cores
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from synthetic import write, zipf

from mallow import MAUVE_STAR, EstimateWarning, Masses, compare
from mallow.estimate import Quantize
from mallow.evaluate._score import SUMMARIES
from mallow.inference._intervals import evidence, interval, pair_difference
from mallow.theory._masses import Partition

NEVER = float("nan")


@dataclass(frozen=True)
class Setting:
    """`a` and `b` are how strongly the systems' log-masses are tilted at random; b = nan: as strongly as gives the area of A
    (equal scores of different systems); b = -1: the very distribution of A. `together` is the share of prompts whose
    three labels come from one random number: pairing."""

    name: str
    bins: int
    n: int
    m: int
    base: str
    a: float
    b: float
    together: float = 0.0


SETTINGS = [
    Setting("near, bins/n 0.1", 50, 500, 500, "Dir(1)", 0.1, 0.3),
    Setting("close, bins/n 0.1", 50, 500, 500, "Dir(1)", 0.4, 0.8),
    Setting("close, bins/n 0.5", 250, 500, 500, "Dir(1)", 0.4, 0.8),
    Setting("middle, Zipf", 50, 500, 500, "Zipf(1)", 0.8, 1.5),
    Setting("far", 50, 500, 500, "Dir(1)", 1.5, 3.0),
    Setting("uniform", 100, 1000, 1000, "Zipf(0)", 0.3, 0.5),
    Setting("middle, Zipf, bins/n 0.5", 250, 500, 500, "Zipf(1)", 0.8, 1.5),
    Setting("paired", 100, 1000, 1000, "Dir(1)", 0.5, 0.7, 0.6),
    Setting("close, Zipf, bins/n 0.02", 50, 2500, 2500, "Zipf(1)", 0.2, 0.4),
    Setting("middle, bins/n 0.02", 50, 2500, 2500, "Dir(1)", 0.8, 1.5),
    Setting("n = 500, m = 1500", 50, 500, 1500, "Dir(1)", 0.4, 0.8),
    Setting("500 bins, n = 5000", 500, 5000, 5000, "Dir(1)", 0.4, 0.6),
    Setting("500 bins, n = 5000, near", 500, 5000, 5000, "Dir(1)", 0.1, 0.2),
    Setting("equal systems", 50, 500, 500, "Dir(1)", 0.4, -1),
    Setting("equal scores", 50, 500, 500, "Zipf(1)", 0.8, NEVER),
    Setting("equal scores, paired", 100, 1000, 1000, "Dir(1)", 0.8, NEVER, 0.6),
    Setting("equal scores, bins/n 0.5", 250, 500, 500, "Dir(1)", 0.8, NEVER),
    Setting("all equal to the reference", 50, 500, 500, "Dir(1)", 0.0, -1),
]


def summaries(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    found = MAUVE_STAR.summaries(Masses(p, q))
    return np.array([float(found[name]) for name in SUMMARIES])


def distributions(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    p = rng.dirichlet(np.ones(s.bins)) if s.base == "Dir(1)" else zipf(s.bins, float(s.base[5:-1]))
    noise = rng.standard_normal((2, s.bins))

    def tilted(strength: float, z: np.ndarray) -> np.ndarray:
        q = p * np.exp(strength * z)
        return q / q.sum()

    first = tilted(s.a, noise[0])
    if s.b == -1:
        return p, first, first
    if not np.isnan(s.b):
        return p, first, tilted(s.b, noise[1])
    low, high = 0.0, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        further = summaries(p, tilted(middle, noise[1]))[0] < summaries(p, first)[0]
        low, high = (low, middle) if further else (middle, high)
    return p, first, tilted(low, noise[1])


def on_bins(task: tuple[Setting, int, int]) -> dict[str, list]:
    """One trial on bins: for A, B and A − B the truth, the estimate, the interval; and the p-value."""
    s, trial, seed = task
    p, *systems = distributions(s)
    truth = [summaries(p, q) for q in systems]
    rng = np.random.default_rng([seed, trial])
    u = rng.random((3, max(s.n, s.m)))
    shared = rng.random(u.shape[1]) < s.together
    u[:, shared] = u[0, shared]
    labels = [
        np.minimum(np.searchsorted(np.cumsum(d), x[:size]), s.bins - 1)
        for d, x, size in zip((p, *systems), u, (s.n, s.m, s.m), strict=True)
    ]
    centres = np.zeros((s.bins, 1))
    found = []
    for one in labels[1:]:
        part = Partition(labels[0], one, centres)
        values = {name: (float(v),) for name, v in MAUVE_STAR.of_counts(part.p_counts, part.q_counts).items()}
        found.append(evidence([part], values, divergence=MAUVE_STAR.divergence, scale=MAUVE_STAR.c, rng=rng))
    difference = pair_difference(*found, paired=s.together > 0)
    return record(truth, [one.score for one in found], [interval(one) for one in found], difference)


def record(truth, scores, intervals, difference) -> dict[str, list]:
    return {
        "truth": [list(t) for t in truth],
        "score": [[one[name] for name in SUMMARIES] for one in scores],
        "interval": [[one[name] for name in SUMMARIES] for one in intervals],
        "difference": [difference.value[name] for name in SUMMARIES],
        "difference interval": [difference.interval[name] for name in SUMMARIES],
        "p": [difference.p_value[name] for name in SUMMARIES],
    }


@dataclass(frozen=True)
class Pipeline:
    """Gaussian mixtures in `width` dimensions; systems A and B are shifted by `a` and `b` (up in every other dimension, down in the rest)."""

    name: str
    n: int
    width: int
    a: float
    b: float


PIPELINES = [
    Pipeline("features, close", 1000, 5, 0.3, 0.5),
    Pipeline("features, middle, width 20", 1000, 20, 0.3, 0.6),
    Pipeline("features, equal systems", 1000, 5, 0.4, 0.4),
]


def draw(s: Pipeline, shift: float, size: int, rng: np.random.Generator) -> np.ndarray:
    centres = np.random.default_rng(3).normal(size=(8, s.width))
    direction = np.resize([1.0, -1.0], s.width)
    return centres[rng.integers(8, size=size)] + 0.8 * rng.normal(size=(size, s.width)) + shift * direction


def on_features(task: tuple[Pipeline, int, int]) -> dict[str, list]:
    """One trial of the whole of `compare`; the partitions are fitted again with the same seeds, to get their true masses."""
    s, trial, seed = task
    rng = np.random.default_rng([seed + 6, trial])
    x, y, z = (draw(s, shift, s.n, rng) for shift in (0.0, s.a, s.b))
    measure = type(MAUVE_STAR)(Quantize(reduce=None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        found = compare(x, {"A": y, "B": z}, measure=measure, rng=trial)
    truth = []
    fresh = {shift: draw(s, shift, 100_000, rng) for shift in (0.0, s.a, s.b)}
    estimator = measure.estimator
    for name, shift in (("A", s.a), ("B", s.b)):
        prepared = estimator.prepare(x, {"A": y, "B": z}[name])
        each = []
        for child in np.random.default_rng([trial, *b"clustering"]).spawn(5):
            centres = estimator.masses(prepared, child).partition.centres
            masses = [_shares(fresh[other], centres) for other in (0.0, shift)]
            each.append(summaries(*masses))
        truth.append(np.mean(each, axis=0))
    one = found.differences[0]
    scores = [found.scores[name] for name in "AB"]

    class Shown:
        value, interval, p_value = one.difference, one.interval, one.p_value

    return record(truth, [score.debiased for score in scores], [score.interval for score in scores], Shown)


def _shares(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    half = (centres**2).sum(axis=1) / 2
    labels = np.concatenate([(part @ centres.T - half).argmax(axis=1) for part in np.array_split(points, 25)])
    counts = np.bincount(labels, minlength=len(centres)) + 1e-9
    return counts / counts.sum()


def summarised(s: Setting | Pipeline, trials: list[dict[str, list]]) -> dict[str, object]:
    truth = np.array([t["truth"] for t in trials])  # (trials, 2, 3)
    gap = truth[:, 0] - truth[:, 1]
    ends = np.array([t["difference interval"] for t in trials])
    held = (ends[..., 0] <= gap) & (gap <= ends[..., 1])
    given = np.array([[one[0] is not None for one in t["interval"]] for t in trials])
    single = np.array(
        [
            [
                [ends is not None and ends[0] <= value <= ends[1] for ends, value in zip(one, true, strict=True)]
                for one, true in zip(t["interval"], t["truth"], strict=True)
            ]
            for t in trials
        ]
    )
    widths = [ends[0][1] - ends[0][0] for t in trials for ends in t["interval"] if ends[0] is not None]
    return {
        "setting": asdict(s),
        "trials": len(trials),
        "true area of A, B": truth[..., 0].mean(axis=0),
        "difference covered": held.mean(axis=0),
        "difference width": (ends[..., 1] - ends[..., 0])[:, 0].mean(),
        "called different": (np.array([t["p"] for t in trials]) < 0.05).mean(axis=0),
        "interval given for A, B": given.mean(axis=0),
        "single covered, A": single[given[:, 0], 0].mean(axis=0) if given[:, 0].sum() >= 20 else None,
        "single covered, B": single[given[:, 1], 1].mean(axis=0) if given[:, 1].sum() >= 20 else None,
        "single width": float(np.mean(widths)) if widths else None,
    }


def report(rows: list[dict]) -> str:
    def cells(values) -> str:
        return "–" if values is None else " ".join(f"{100 * v:.0f}" for v in values)

    lines = [
        "# Coverage of 95 % intervals, in per cent (area, integral, mid-point)",
        "",
        "Written by `python experiments/coverage/run.py`. *Given*: how often a single score gets an interval at all (A, B).",
        "",
        "| setting | trials | true area of A, B | difference | single, A | single, B | given | called different |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        areas = ", ".join(f"{v:.3f}" for v in row["true area of A, B"])
        lines.append(
            f"| {row['setting']['name']} | {row['trials']} | {areas} | {cells(row['difference covered'])} | {cells(row['single covered, A'])} | "
            f"{cells(row['single covered, B'])} | {cells(row['interval given for A, B'])} | {cells(row['called different'])} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    rows = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for s in [*SETTINGS, *PIPELINES]:
            count = trials if isinstance(s, Setting) else max(trials // 3, 2)
            tasks = [(s, trial, seed) for trial in range(count)]
            found = list(pool.map(on_bins if isinstance(s, Setting) else on_features, tasks, chunksize=5))
            rows.append(summarised(s, found))
            print(report(rows).splitlines()[-1], flush=True)
    if seed != 7:  # another seed is a check beside the committed results, not a replacement
        Path(__file__).with_name(f"coverage-seed-{seed}.md").write_text(report(rows))
        return
    write(__file__, {"rows": rows})
    Path(__file__).with_name("coverage.md").write_text(report(rows))


if __name__ == "__main__":
    main()
