"""Are the shares of `Score.shares` at least what is printed, and does the interval of `estimate_share` hold the true share?

    python experiments/honesty/shares.py [--trials 400] [--seed 1914]      ten minutes on one core

Known pairs: Gaussians in eight dimensions, a share of whose samples is moved, on the side of the model or, for "missed", of the reference. Counted are trials in which a printed bound exceeds the
truth, where 5% are allowed, and intervals that miss the planted share. The factor of the limits was chosen with seed 14. Writes shares.json and shares.md beside this file;
parts that are in shares.json already, with the same seed, are not run again.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm
from settings import Clock, load, save, share_with_error

from mallow import EstimateWarning, Samples
from mallow.engine import single_threaded_blas
from mallow.evaluate import estimate_share
from mallow.evidence import Witness, bound_shares, find_units, make_learner

WIDTH = 8
# name, samples of either side, planted share, shift, what samples share
SETTINGS: list[tuple[str, int, float, float, str]] = [
    ("no gap, n = 200", 200, 0.0, 3.0, ""),
    ("10% moved by 3 σ, n = 300", 300, 0.1, 3.0, ""),
    ("20% moved by 3 σ, 300 pairs", 300, 0.2, 3.0, "pairs"),
    ("no gap, n = 60", 60, 0.0, 3.0, ""),
    ("5% moved by 6 σ, n = 60", 60, 0.05, 6.0, ""),
    ("no gap, 75 prompts × 4, others on each side", 300, 0.0, 3.0, "prompts"),
    ("20% of 75 prompts × 4 moved by 3 σ", 300, 0.2, 3.0, "prompts"),
]
PLANTED = (0.2, 0.0, 0.1, 0.4)


def draw(size: int, share: float, shift: float, kind: str, rng: np.random.Generator, topics: np.ndarray) -> Samples:
    """Samples, some of them moved; with prompts and pairs half of the variance is shared."""
    rows = rng.normal(size=(size, WIDTH))
    ids = None
    if kind == "prompts":  # whole prompts are moved
        rows = np.sqrt(0.5) * rng.normal(size=(size // 4, WIDTH)).repeat(4, axis=0) + np.sqrt(0.5) * rows
        rows[(rng.random(size // 4) < share).repeat(4), 0] += shift
        side = rng.integers(1 << 60)
        ids = [f"{side} {place // 4}" for place in range(size)]
        return Samples(features=rows, ids=ids)
    if kind == "pairs":
        rows, ids = np.sqrt(0.5) * topics + np.sqrt(0.5) * rows, [str(place) for place in range(size)]
    rows[rng.random(len(rows)) < share, 0] += shift
    return Samples(features=rows, ids=ids)


def bounds(trials: int, seed: int, *, missed: bool = False) -> list[dict]:
    """The bounds where some samples of the model are moved, or of the reference, which the model then misses."""
    rows, names = [], ("unlike", "missed" if missed else "new")
    for number, (name, size, share, shift, kind) in enumerate(SETTINGS, start=200 if missed else 0):
        clock, above, lows = Clock(), dict.fromkeys(names, 0), {key: [] for key in names}
        apart = 2 * norm.cdf(shift / 2) - 1
        # The moved ones are rare where the others are not, so that the share of the mixture is exact.
        truth = dict(zip(names, (share * apart, share), strict=True))
        for trial in range(trials):
            rng = np.random.default_rng([seed, number, trial])
            topics = rng.normal(size=(size, WIDTH))
            sides = [draw(size, part, shift, kind, rng, topics) for part in (0.0, share)][:: -1 if missed else 1]
            units = find_units(*sides)
            learner = make_learner(Witness(), [side.require_features() for side in sides], units)
            shares = bound_shares(*learner.scores(1), units)
            for key in names:
                above[key] += shares[key].low > truth[key]
                lows[key].append(shares[key].low)
        row = {"name": name, "trials": trials, "truth": truth, "above": above}
        rows.append(row | {"median": {key: float(np.median(each)) for key, each in lows.items()}})
        print(row, f"{clock.seconds:.0f} s", flush=True)
    return rows


def estimates(rows: list[dict], trials: int, seed: int) -> list[dict]:
    """The rows, and those of planted shares that they do not have, in order."""
    for number, share in enumerate(PLANTED):
        if any(row["share"] == share for row in rows):
            continue
        covered, values, widths = 0, [], []
        for trial in range(trials):
            rng = np.random.default_rng([seed, 100 + number, trial])
            topics = rng.normal(size=(300, WIDTH))  # not used, but drawn as in `bounds`
            sides = [draw(300, part, 2.0, "", rng, topics) for part in (0.0, 1.0, share)]
            estimate = estimate_share(*sides)
            covered += estimate.low <= share <= estimate.high
            values.append(estimate.value)
            widths.append(estimate.high - estimate.low)
        row = {"share": share, "trials": trials, "covered": covered, "mean": float(np.mean(values))}
        rows.append(row | {"width": float(np.median(widths))})
        print(rows[-1], flush=True)
    return sorted(rows, key=lambda row: row["share"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1914)
    options = parser.parse_args()
    results = load("shares.json")
    if results.get("seed") != options.seed:
        results = {"seed": options.seed, "seconds": 0.0}
    clock = Clock()
    with warnings.catch_warnings(), single_threaded_blas():
        warnings.simplefilter("ignore", EstimateWarning)
        if "bounds" not in results:
            results["bounds"] = bounds(**vars(options))
        if "missed" not in results:
            results["missed"] = bounds(**vars(options), missed=True)
        results["estimates"] = estimates(results.get("estimates", []), **vars(options))
    results["seconds"] += clock.seconds
    save("shares.json", results)
    Path(__file__).with_name("shares.md").write_text(report(results))


def report(results: dict) -> str:
    lines = [
        "# Shares: are they at least what is printed?",
        "",
        "Written by `python experiments/honesty/shares.py`. Gaussians in eight dimensions, some samples of the model moved along the first. A bound "
        f"may exceed the truth in 5% of trials. Seed {results['seed']}; the factor of the limits was chosen with seed 14. Shares in per cent, ± standard error of the simulation. *unlike*: the total variation distance. "
        "*new*: the share of something else in a mixture. *missed*: the same with sides exchanged, where samples of the reference are moved and the model has none like them.",
    ]
    for part, keys in (("bounds", ("unlike", "new")), ("missed", ("unlike", "missed"))):
        heads = [head for key in keys for head in (f"{key}: truth, median bound", "bound too high")]
        lines += ["", f"| setting | trials | {' | '.join(heads)} |", "|---|---|---|---|---|---|"]
        for row in results[part]:
            cells = [row["name"], str(row["trials"])]
            for key in keys:
                cells += [
                    f"{row['truth'][key]:.3f}, {row['median'][key]:.3f}",
                    share_with_error(row["above"][key], row["trials"]),
                ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "`estimate_share` with 300 samples each of the reference, of examples that are moved by 2 σ, and of a corpus with a planted share.",
        "",
        "| planted share | trials | mean estimate | median width of the interval | interval holds it |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['share']:.2f} | {row['trials']} | {row['mean']:.3f} | {row['width']:.3f} | "
        f"{share_with_error(row['covered'], row['trials'])} |"
        for row in results["estimates"]
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
