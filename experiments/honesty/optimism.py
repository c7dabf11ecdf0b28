"""Do bins flatter the samples that placed them? Points whose distribution is known, k-means on them, fresh points in the same bins.

    python experiments/honesty/optimism.py [trials]           about 4 minutes on one core with 16 trials, the default

For each family: MAUVE of the samples, bias-corrected in the bins that they placed (`debiased_estimate`), and that of 20,000 fresh points
per side in the same bins, which is what it should be. The same for the published add-1/2 score, against as many fresh points. Last:
how often the samples alone show it (`shows_in_halves`). No reduction, so that the width is the one named.
Writes optimism.md and optimism.json beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from mallow import Measure, Quantize
from mallow.estimate import Codebook
from mallow.evidence import NORMAL, Units, debiased_estimate, generator_for
from mallow.theory import KL, Partition, area

FRESH = 20_000
# family, its parameter, width, n, bins/n
CASES = [
    ("shift", 0.0, 10, 600, 0.1),
    ("shift", 0.0, 100, 600, 0.1),
    ("shift", 1.5, 10, 600, 0.1),
    ("shift", 1.5, 100, 600, 0.1),
    ("shift", 3.0, 10, 600, 0.1),
    ("shift", 3.0, 100, 600, 0.1),
    ("shift", 3.0, 100, 600, 0.03),
    ("shift", 3.0, 100, 2000, 0.1),
    ("shift", 3.0, 300, 600, 0.1),
    ("widths", 0.8, 10, 600, 0.1),
    ("widths", 0.8, 100, 600, 0.1),
    ("weights", 3.0, 10, 600, 0.1),
    ("weights", 3.0, 100, 600, 0.1),
    ("pairs", 0.0, 100, 600, 0.1),
    ("pairs", 1.5, 10, 600, 0.1),
    ("pairs", 1.5, 100, 600, 0.1),
    ("pairs", 3.0, 100, 600, 0.1),
    ("pairs", 1.5, 100, 600, 0.03),
]


def sampler(family: str, parameter: float, width: int):
    """A function (n, rng) → points of both sides. Pairs share 80% of their variance, as texts for one prompt do."""
    fixed = np.random.default_rng(1)
    direction = fixed.normal(size=width)
    direction /= np.linalg.norm(direction)
    centres, weights = 3 * fixed.normal(size=(20, width)), fixed.dirichlet(np.full(20, 3.0))

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x, y = rng.normal(size=(2, n, width))
        if family == "shift":
            return x, y + parameter * direction
        if family == "widths":
            return x, parameter * y
        if family == "weights":
            return x + centres[rng.integers(20, size=n)], y + centres[rng.choice(20, n, p=weights)]
        common = rng.normal(size=(n, width)) * np.sqrt(0.8)
        return common + np.sqrt(0.2) * x, common + np.sqrt(0.2) * y + parameter * direction

    return draw


def shows_in_halves(estimator: Quantize, x: np.ndarray, y: np.ndarray, units: Units, paired: bool, seed: int) -> bool:
    """Whether the samples that place the bins agree clearly more, or less, than the others in the same bins.

    Half of the units place half as many bins, and both halves are counted; then the other half places them. The means
    over both must differ by 0.01 of MAUVE, and the integrals by two standard errors, which are too large here: the
    halves share their bins. The constants were chosen.
    """
    rng = generator_for(seed, "optimism")
    halves = [np.isin(np.arange(len(x)), rng.permutation(len(x))[: len(x) // 2]) for _ in range(1 if paired else 2)]
    inside_x, inside_y = halves[0], halves[-1]
    own, other, variance = np.zeros(2), np.zeros(2), 0.0  # MAUVE and the integral
    for of_x, of_y, child in zip((inside_x, ~inside_x), (inside_y, ~inside_y), rng.spawn(2), strict=True):
        codebook = replace(estimator, bins=estimator.bins // 2).fit(x[of_x], y[of_y], rng=child)
        labels = codebook.labels(x), codebook.labels(y)
        for rows, total in (((of_x, of_y), own), ((~of_x, ~of_y), other)):
            partition = Partition(labels[0][rows[0]], labels[1][rows[1]], codebook.centres)
            part = Units((units.sets[0][rows[0]], units.sets[1][rows[1]]), units.keys)
            corrected = debiased_estimate([partition], part, divergence=KL, scale=5.0)
            cost = corrected["frontier_integral"]
            total += np.array([corrected["mauve"].value, cost.value]) / 2.0
            variance += ((cost.high - cost.low) / (2.0 * NORMAL)) ** 2 / 4.0
    return abs(own[0] - other[0]) >= 0.01 and abs(own[1] - other[1]) >= 2.0 * math.sqrt(variance)


def run_case(case: tuple, trials: int) -> dict[str, object]:
    family, parameter, width, n, share = case
    draw = sampler(family, parameter, width)
    measure = Measure(Quantize(bins=round(share * n), reduce=None))
    rows = np.arange(n)
    paired = family == "pairs"
    units = Units((rows, rows if paired else n + rows), np.arange(n if paired else 2 * n, dtype=np.uint64))
    many = np.arange(FRESH)
    alone = Units((many, FRESH + many), np.arange(2 * FRESH, dtype=np.uint64))
    found = []
    for trial in range(trials):
        rng = np.random.default_rng([31, trial, width])
        x, y = draw(n, rng)
        prepared = measure.estimator.prepare(x, y)
        masses = measure.estimator.masses(prepared, rng)
        corrected = debiased_estimate([masses.partition], units, divergence=KL, scale=5.0)["mauve"]
        codebook = Codebook(masses.partition.centres)
        fresh = Partition(*(codebook.labels(side) for side in draw(FRESH, rng)), codebook.centres)
        truth = debiased_estimate([fresh], alone, divergence=KL, scale=5.0)["mauve"].value
        again = Partition(*(codebook.labels(side) for side in draw(n, rng)), codebook.centres)
        found.append(
            [
                corrected.value,
                truth,
                corrected.low <= truth <= corrected.high,
                area(masses, scale=5.0),
                area(measure.estimator.count(again), scale=5.0),
                shows_in_halves(measure.estimator, x, y, units, paired, trial),
            ]
        )
    corrected, truth, inside, score, fresh_score, shown = np.array(found, dtype=float).T
    return {
        "case": case,
        "corrected": corrected.mean(),
        "truth": truth.mean(),
        "error": (corrected - truth).mean(),
        "error of the error": (corrected - truth).std(ddof=1) / np.sqrt(trials),
        "inside": inside.mean(),
        "score": score.mean(),
        "score of fresh points": fresh_score.mean(),
        "in halves": shown.mean(),
    }


def report(rows: list[dict], trials: int, seconds: float) -> str:
    lines = [
        "# Bins placed by the samples that are counted in them",
        "",
        f"Written by `python experiments/honesty/optimism.py` in {seconds / 60:.1f} minutes, {trials} trials each. *Too high* is the bias-corrected MAUVE of",
        "the samples minus that of fresh points in the same bins, with its standard error. *Covered*: how often the 95% interval of the",
        "bias-corrected value holds the latter. *In halves*: how often half of the samples, counted in bins that the other half placed, shows it.",
        "",
        "| family | width | n | bins/n | bias-corrected | fresh points | too high | covered | score | of fresh points | in halves |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        family, parameter, width, n, share = row["case"]
        lines.append(
            f"| {family} {parameter:g} | {width} | {n} | {share:g} | {row['corrected']:.3f} | {row['truth']:.3f} | "
            f"{row['error']:+.3f} ± {row['error of the error']:.3f} | {row['inside']:.0%} | {row['score']:.3f} | "
            f"{row['score of fresh points']:.3f} | {row['in halves']:.0%} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    start = time.perf_counter()
    rows = []
    for case in CASES:
        rows.append(run_case(case, trials))
        print(report(rows, trials, time.perf_counter() - start).splitlines()[-1], flush=True)
    Path(__file__).with_name("optimism.md").write_text(report(rows, trials, time.perf_counter() - start))
    rounded = [{key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in row.items()} for row in rows]
    Path(__file__).with_name("optimism.json").write_text(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    main()
