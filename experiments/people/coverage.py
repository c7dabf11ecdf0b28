"""Do the intervals of `mallow.human.correlate` hold the Spearman correlation of the true values?

    python experiments/people/coverage.py [--trials 150]      about three minutes on one core

True values of both sides are drawn with a known correlation, and measured with known errors. Counted is how often the 95% interval
holds the correlation of the true values, for the intervals of `correlate`, and for those of the usual way, in which both sides are drawn anew
around their measurements. Writes coverage.json and coverage.md beside this file.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import save, table
from scipy.stats import rankdata

from mallow.human import correlate

SYSTEMS, CORRELATIONS, ERRORS = (8, 20), (0.0, 0.3, 0.8, 0.95), ((0.1, 0.3), (0.3, 0.6), (0.05, 1.0))
DRAWS = 500


def spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = (rankdata(side, axis=-1) - (side.shape[-1] + 1) / 2 for side in (x, y))
    return (x * y).sum(axis=-1) / np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))


def trial(n: int, r: float, errors: tuple[float, float], rng: np.random.Generator) -> tuple[bool, bool]:
    first, noise = rng.normal(size=(2, n))
    true = first, r * first + np.sqrt(1 - r * r) * noise
    seen = [side + error * rng.normal(size=n) for side, error in zip(true, errors, strict=True)]
    truth = float(spearman(*true))
    given = [{"x": {str(i): (v, e) for i, v in enumerate(side)}} for side, e in zip(seen, errors, strict=True)]
    one = correlate(*given, draws=DRAWS, rng=rng).of("x", "x").spearman
    again = spearman(*(side + error * rng.normal(size=(DRAWS, n)) for side, error in zip(seen, errors, strict=True)))
    low, high = np.quantile(again, [0.025, 0.975])
    return one.low <= truth <= one.high, min(low, one.value) <= truth <= max(high, one.value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=150)
    trials = parser.parse_args().trials
    rng = np.random.default_rng(0)
    rows, results = [], []
    for n in SYSTEMS:
        for r in CORRELATIONS:
            for errors in ERRORS:
                held, usual = np.mean([trial(n, r, errors, rng) for _ in range(trials)], axis=0)
                results.append({"systems": n, "correlation": r, "errors": errors, "held": held, "usual way": usual})
                rows.append([str(n), f"{r:g}", f"{errors[0]:g} and {errors[1]:g}", f"{held:.2f}", f"{usual:.2f}"])
    least = min(row["held"] for row in results)
    head = [
        "systems",
        "correlation",
        "errors, in spreads of the true values",
        "`correlate`",
        "drawn anew around the measurements",
    ]
    page = [
        "# Intervals of correlations",
        "",
        f"How often 95% intervals hold, of {trials} trials each.",
        "",
        table(head, rows),
        "",
    ]
    page += [
        f"The least of `correlate` is {least:.2f}. The usual way puts the errors in twice and pulls strong correlations towards 0."
    ]
    save("coverage", {"trials": trials, "settings": results}, "\n".join(page))


if __name__ == "__main__":
    main()
