"""Do bins flatter the samples that placed them? Points whose distribution is known, k-means on them, fresh points in the same bins.

    python experiments/honesty/optimism.py [trials]           about 4 minutes on one core with 16 trials, the default

For each family: MAUVE of the samples, bias-corrected in the bins that they placed (`debiased_estimate`), and that of 20,000 fresh points
per side in the same bins, which is what it should be. The same for the published add-1/2 score, against as many fresh points. Last:
how often `optimism_caveats`, which knows the samples alone, raises its caveat. No reduction, so that the width is the one named.
Writes optimism.md and optimism.json beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import json
import sys
import time
from pathlib import Path

import numpy as np

from mallow import Measure, Quantize
from mallow.caveats._optimism import optimism_caveats
from mallow.estimate import Codebook
from mallow.evidence import Units, debiased_estimate
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
    """A function (n, rng) → points of both sides. Pairs share 80 % of their variance, as texts for one prompt do."""
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
        caveats = optimism_caveats(measure, prepared, units, trial)
        found.append(
            [
                corrected.value,
                truth,
                corrected.low <= truth <= corrected.high,
                area(masses, scale=5.0),
                area(measure.estimator.count(again), scale=5.0),
                len(caveats),
            ]
        )
    corrected, truth, inside, score, fresh_score, raised = np.array(found, dtype=float).T
    return {
        "case": case,
        "corrected": corrected.mean(),
        "truth": truth.mean(),
        "error": (corrected - truth).mean(),
        "error of the error": (corrected - truth).std(ddof=1) / np.sqrt(trials),
        "inside": inside.mean(),
        "score": score.mean(),
        "score of fresh points": fresh_score.mean(),
        "caveat": raised.mean(),
    }


def report(rows: list[dict], trials: int, seconds: float) -> str:
    lines = [
        "# Bins placed by the samples that are counted in them",
        "",
        f"Written by `python experiments/honesty/optimism.py` in {seconds / 60:.1f} minutes, {trials} trials each. *Too high* is the bias-corrected MAUVE of",
        "the samples minus that of fresh points in the same bins, with its standard error. *Covered*: how often the 95 % interval of the",
        "bias-corrected value holds the latter. *Caveat*: how often `optimism_caveats` warns, from the samples alone.",
        "",
        "| family | width | n | bins/n | bias-corrected | fresh points | too high | covered | score | of fresh points | caveat |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        family, parameter, width, n, share = row["case"]
        lines.append(
            f"| {family} {parameter:g} | {width} | {n} | {share:g} | {row['corrected']:.3f} | {row['truth']:.3f} | "
            f"{row['error']:+.3f} ± {row['error of the error']:.3f} | {row['inside']:.0%} | {row['score']:.3f} | "
            f"{row['score of fresh points']:.3f} | {row['caveat']:.0%} |"
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
