"""Does the planned number of samples reach the promised power? Simulations with a known true difference.

    python experiments/power/run.py [pilots [trials]]      about a quarter of an hour on one core with 8 pilots and 8 trials, the defaults

A reference and two systems, Gaussians of width 8 whose means are shifted, so that the true MAUVE of each is known.
`mallow.plan_samples` sees a pilot of 300 samples and names the n for the true difference; new samples of that size are then
compared as `mallow.compare` does, `trials` times for each pilot. Counted is how often the difference is found significant with
the right sign: over all pilots together, and how much n varies from pilot to pilot. In the last setting the two systems are
shifted in different directions. Writes results.json and power.md beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from synthetic import write

from mallow import EstimateWarning, plan_samples
from mallow.evaluate._check import _SHIFTS, gaussian_areas
from mallow.evidence import Witness, certify, difference_between, find_units, make_learner
from mallow.samples import Samples
from mallow.theory import KL

WIDTH, PILOT, POWER, SCALE = 8, 300, 0.8, 5.0


@dataclass(frozen=True)
class Setting:
    """How far the means of A and B are from that of the reference, and the column in which B is shifted; A: the first."""

    name: str
    a: float
    b: float
    column: int = 0


SETTINGS = [
    Setting("close to the reference", 0.45, 0.65),
    Setting("middle", 0.7, 0.85),
    Setting("far from the reference", 1.0, 1.2),
    Setting("middle, different directions", 0.7, 0.85, column=1),
]


def true_areas(s: Setting) -> tuple[float, float]:
    a, b = np.interp([s.a, s.b], _SHIFTS, gaussian_areas(KL, SCALE))
    return float(a), float(b)


def draw(s: Setting, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    reference, a, b = rng.normal(size=(3, n, WIDTH))
    a[:, 0] += s.a
    b[:, s.column] += s.b
    return [reference, a, b]


def plan(s: Setting, pilot: int) -> int:
    a, b = true_areas(s)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        samples = draw(s, PILOT, np.random.default_rng([17, pilot]))
        return plan_samples(*samples, detect=a - b, power=POWER, rng=pilot).n


def compare(s: Setting, n: int, pilot: int, trial: int) -> tuple[float, bool]:
    """The certified difference of n new samples per side, and whether it is significant with the right sign."""
    sets = draw(s, n, np.random.default_rng([18, pilot, trial]))
    units = find_units(*(Samples(features=one) for one in sets))
    learner = make_learner(Witness(), sets, units)
    first, second = (certify(*learner.scores(i), units.pair(i), KL, SCALE) for i in (1, 2))
    one = difference_between(learner, (1, 2), (first, second), KL)
    return one.value["mauve"], one.p_value["mauve"] < 0.05 and one.value["mauve"] > 0


def report(rows: list[dict]) -> str:
    lines = [
        f"# Power at the planned number of samples; promised: {POWER:.0%}",
        "",
        f"Written by `python experiments/power/run.py`. Gaussians of width {WIDTH}, pilots of {PILOT}. *n*: planned from each pilot, "
        "least, mean and greatest. *power*: how often the difference was found with n new samples, over all pilots, with its standard "
        "error; then the least and the greatest of a single pilot, each from few trials. *certified*: the mean certified difference "
        "at n, beside the true one, which the plan was made for.",
        "",
        "| setting | true MAUVE of A, B | difference: true, certified | pilots × trials | n | power | by pilot |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        n, power = np.array(row["n"]), np.array(row["power"])
        error = power.std(ddof=1) / np.sqrt(len(n))
        a, b = row["areas"]
        lines.append(
            f"| {row['setting']['name']} | {a:.3f}, {b:.3f} | {a - b:.3f}, {row['certified']:.3f} | {len(n)} × {row['trials']} | "
            f"{n.min()}, {n.mean():.0f}, {n.max()} | {power.mean():.0%} ± {error:.0%} | {power.min():.0%} to {power.max():.0%} |"
        )
    lines += ["", f"Mean over the settings: {np.mean([np.mean(row['power']) for row in rows]):.0%}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    pilots = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    rows: list[dict] = []
    for s in SETTINGS:
        sizes = [plan(s, pilot) for pilot in range(pilots)]
        print(s.name, sizes, flush=True)
        found = [[compare(s, n, pilot, trial) for trial in range(trials)] for pilot, n in enumerate(sizes)]
        power = [float(np.mean([hit for _, hit in each])) for each in found]
        certified = float(np.mean([value for each in found for value, _ in each]))
        rows.append(
            {
                "setting": asdict(s),
                "areas": true_areas(s),
                "n": sizes,
                "trials": trials,
                "power": power,
                "certified": certified,
            }
        )
        print(report(rows).splitlines()[-3], flush=True)
        write(__file__, {"promised": POWER, "rows": rows})  # after each: what is done is not lost
        Path(__file__).with_name("power.md").write_text(report(rows))


if __name__ == "__main__":
    main()
