"""Is a check right? How often `mallow check` passes, fails or cannot tell, where the drop is known.

    python experiments/power/check.py [--seed 14] [--trials 40] [NAME ...]     about twenty minutes on one core; NAMEs: only these settings

Each trial draws one reference and, for every gap in the list, the samples of two models, one for the baseline and one for
now. Every pair of gaps is then checked with `mallow.evaluate._check.estimate_drop` at a permitted drop of 0.02, as `mallow
check` does. The drop is that of the mean certificates over all trials: what samples of this size certify. Counted are the three
outcomes, and how often the drop lies below the low end or above the high end of its 90% interval, each of which is meant to
happen in at most 5%. For shifted Gaussians the true MAUVE is known too, and the same is counted for the true drop.

The constants of `_drop.py` were chosen on the first two settings with seed 41; the others confirm them.
Writes check-seed-SEED.json and check-seed-SEED.md beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import argparse
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "honesty"))
import settings

from mallow.evaluate import _check as _drop
from mallow.evaluate._check import _SHIFTS, estimate_drop, gaussian_areas
from mallow.evidence import Evidence, IdentityTest, Witness, find_units, make_learner
from mallow.samples import Samples
from mallow.theory import KL

SCALE, MAX_DROP = 5.0, 0.02
_drop.gaussian_areas = cache(gaussian_areas)  # the same for every pair
NO_TEST = IdentityTest(1.0, 1, True, False, {})
SHIFTS = (0.0, 0.3, 0.5, 0.8)
Draw = Callable[[np.random.Generator], tuple[Samples, list[list[Samples]]]]  # the reference; two samples for every gap


def gaussians(
    n: int, width: int, *, common: float = 0.0, group: int = 1, shared: bool = True, widths: bool = False
) -> Draw:
    """Models whose mean is shifted (or whose widths shrink), in a random direction.

    `common` is the part of the variance that a prompt decides, `group` how many samples each prompt has. Not `shared`: the
    baseline had a reference of its own.
    """

    def draw(rng: np.random.Generator) -> tuple[Samples, list[list[Samples]]]:
        number = np.repeat(np.arange(n // group), group)
        topics = rng.normal(size=(n // group, width))[number]
        direction = rng.normal(size=width)
        direction /= np.linalg.norm(direction)

        def sample(gap: float) -> Samples:
            rows = np.sqrt(common) * topics + np.sqrt(1 - common) * rng.normal(size=(n, width))
            rows = rows * (1 - 0.25 * gap) if widths else rows + gap * direction
            return Samples(features=rows, ids=[f"{i}" for i in number] if common else None)

        return sample(0.0), [[sample(gap), sample(gap)] for gap in SHIFTS]

    return draw


def decoders(n: int) -> Draw:
    """GPT-2 large on n prompts of WebText; gap 0 is nucleus sampling, others have some of its texts replaced by top-k ones."""

    def draw(rng: np.random.Generator) -> tuple[Samples, list[list[Samples]]]:
        every = {(name, i): settings.webtext(name, i) for name in ("nucleus", "topk") for i in range(2)}
        human = settings.webtext("human")
        known = set(human.ids).intersection(*(one.ids for one in every.values()))
        chosen = rng.choice(sorted(known, key=int), n, replace=False).tolist()

        def rows(samples: Samples, ids: list[str]) -> np.ndarray:
            place = {name: i for i, name in enumerate(samples.ids)}
            return samples.features[[place[name] for name in ids]]

        def mixed(gap: float, generation: int) -> Samples:
            own = rows(every["nucleus", generation], chosen)
            other = rows(every["topk", generation], chosen)
            return Samples(features=np.where(rng.random((n, 1)) < gap, other, own), ids=chosen)

        return Samples(features=rows(human, chosen), ids=chosen), [[mixed(gap, 0), mixed(gap, 1)] for gap in SHIFTS]

    return draw


SETTINGS: dict[str, tuple[Draw, bool]] = {  # and whether the true MAUVE is that of shifted Gaussians
    "means, width 8, n = 200": (gaussians(200, 8), True),
    "means, width 8, n = 500": (gaussians(500, 8), True),
    "means, width 50, n = 500": (gaussians(500, 50), True),
    "pairs, 60% in common, n = 500": (gaussians(500, 8, common=0.6), True),
    "125 prompts with 4 samples": (gaussians(500, 8, common=0.5, group=4), True),
    "widths, width 20, n = 500": (gaussians(500, 20, widths=True), False),
    "nucleus and top-k texts, n = 500": (decoders(500), False),
}


def learn(reference: Samples, model: Samples, seed: int) -> Evidence:
    units = find_units(reference, model)
    scores = make_learner(Witness(), [reference.features, model.features], units).scores(1)
    return Evidence(*scores, *units.sets, units.keys, NO_TEST)


def run(draw: Draw, seed: int, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """The drop and the ends of its interval, (trials, gaps, gaps, 3), and the certificates, (trials, gaps, 2)."""
    count = len(SHIFTS)
    drops, areas = np.zeros((trials, count, count, 3)), np.zeros((trials, count, 2))
    for trial in range(trials):
        reference, models = draw(np.random.default_rng([seed, trial]))
        evidence = [[learn(reference, one, trial) for one in both] for both in models]
        for i, both in enumerate(evidence):
            areas[trial, i] = [one.certify(KL, SCALE).estimates["mauve"].value for one in both]
            for j in range(count):
                drop = estimate_drop(both[0], evidence[j][1], KL, SCALE)
                drops[trial, i, j] = drop.value, drop.low, drop.high
    return drops, areas


def summarise(drops: np.ndarray, areas: np.ndarray, known: bool) -> list[dict]:
    rows = []
    mean = areas.mean(axis=(0, 2))
    truth = np.interp(SHIFTS, _SHIFTS, gaussian_areas(KL, SCALE))
    for i, j in np.ndindex(len(SHIFTS), len(SHIFTS)):
        _, low, high = drops[:, i, j].T
        row = {"before": mean[i], "now": mean[j], "drop": mean[i] - mean[j]}
        row |= {"passed": np.mean(high <= MAX_DROP), "regression": np.mean(low > MAX_DROP)}
        row |= {"below": np.mean(low > row["drop"] + 1e-9), "above": np.mean(high < row["drop"] - 1e-9)}
        row |= {"width": np.mean(high - low)}
        if known:
            drop = truth[i] - truth[j]
            row |= {
                "true drop": drop,
                "true below": np.mean(low > drop + 1e-9),
                "true above": np.mean(high < drop - 1e-9),
            }
        rows.append(row)
    return rows


def report(results: dict[str, dict], seed: int) -> str:
    lines = [
        f"# Three outcomes of a check, seed {seed}",
        "",
        "Written by `python experiments/power/check.py`. *drop*: of the mean certificates; in brackets the true one, where it is known. "
        f"*passed*, *regression*: how often, with a permitted drop of {MAX_DROP}; the rest cannot tell. *missed*: how often the "
        "drop lies below or above its 90% interval, 5% each are meant; in brackets the same for the true drop.",
    ]
    for name, result in results.items():
        lines += ["", f"## {name} ({result['trials']} trials)", "", "| certified before → now | drop | passed | regression | missed below, above | mean width |", "|---|---|---|---|---|---|"]  # fmt: skip
        for row in result["rows"]:
            true = f" ({row['true drop']:+.3f})" if "true drop" in row else ""
            missed = f" ({row['true below']:.0%}, {row['true above']:.0%})" if "true drop" in row else ""
            lines.append(
                f"| {row['before']:.3f} → {row['now']:.3f} | {row['drop']:+.3f}{true} | {row['passed']:.0%} | "
                f"{row['regression']:.0%} | {row['below']:.0%}, {row['above']:.0%}{missed} | {row['width']:.3f} |"
            )
    wrong = {name: worst(result["rows"]) for name, result in results.items()}
    lines += ["", "## The worst case of each setting", "", "| setting | missed | passed although the drop is above 0.02 | although the true drop is | regression although nothing changed |", "|---|---|---|---|---|"]  # fmt: skip
    for name, one in wrong.items():
        true = "–" if one["true passed"] is None else f"{one['true passed']:.0%}"
        lines.append(f"| {name} | {one['missed']:.0%} | {one['passed']:.0%} | {true} | {one['regression']:.0%} |")
    return "\n".join(lines) + "\n"


def worst(rows: list[dict]) -> dict[str, float | None]:
    unchanged = [rows[place] for place in range(0, len(rows), len(SHIFTS) + 1)]
    true = [row["passed"] for row in rows if row.get("true drop", 0.0) > MAX_DROP]
    return {
        "missed": max(max(row["below"], row["above"]) for row in rows),
        "passed": max((row["passed"] for row in rows if row["drop"] > MAX_DROP), default=0.0),
        "true passed": max(true) if true else None,
        "regression": max(row["regression"] for row in unchanged),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--trials", type=int, default=40)
    options = parser.parse_args()
    file = Path(__file__).with_name(f"check-seed-{options.seed}.json")
    results: dict[str, dict] = json.loads(file.read_text()) if options.names and file.exists() else {}
    for name, (draw, known) in SETTINGS.items():
        if options.names and name not in options.names:
            continue
        drops, areas = run(draw, options.seed, options.trials)
        rows = [{key: float(f"{value:.5g}") for key, value in row.items()} for row in summarise(drops, areas, known)]
        results[name] = {"trials": options.trials, "rows": rows}
        print(f"{name}: {worst(rows)}", flush=True)
        file.write_text(json.dumps(results, indent=1) + "\n")  # after each: what is done is not lost
        file.with_suffix(".md").write_text(report(results, options.seed))


if __name__ == "__main__":
    main()
