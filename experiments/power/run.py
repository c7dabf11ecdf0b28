"""Does the planned number of samples reach the promised power? Simulations with a known true difference.

    python experiments/power/run.py [pilots [trials]]      about twenty minutes on two cores with 24 pilots and 20 trials, the defaults

A reference and two systems on 100 bins, whose true scores differ by exactly what is to be detected. `mallow.evaluate._plan.plan` sees a pilot
sample and names n; new samples of that size are then tested as `mallow.compare` does, `trials` times for each pilot. Counted is how often
the difference is found: over all pilots together, and how much n and the power vary from pilot to pilot.
Writes results.json and power.md beside this file.
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

from mallow import MAUVE_STAR, EstimateWarning, Masses, Measure
from mallow.estimate import Codebook, Quantize
from mallow.evaluate._plan import plan_samples
from mallow.inference._intervals import evidence, pair_difference
from mallow.theory._masses import Partition

BINS = 100
POWER = 0.8


@dataclass(frozen=True)
class Setting:
    """P is Zipf with this power; A and B are P with log-masses tilted at random until they score `a` and `b`."""

    name: str
    power: float
    a: float
    b: float
    pilot: int


SETTINGS = [
    Setting("close to the reference", 1.0, 0.97, 0.92, 1000),
    Setting("middle", 1.0, 0.85, 0.75, 500),
    Setting("far from the reference", 0.5, 0.55, 0.40, 500),
]


def distributions(s: Setting) -> list[np.ndarray]:
    p = zipf(BINS, s.power)
    noise = np.random.default_rng(11).standard_normal((2, BINS))

    def tilted(target: float, z: np.ndarray) -> np.ndarray:
        low, high = 0.0, 8.0
        for _ in range(60):
            q = p * np.exp((low + high) / 2 * z)
            q /= q.sum()
            above = float(MAUVE_STAR.summaries(Masses(p, q))["mauve"]) > target
            low, high = ((low + high) / 2, high) if above else (low, (low + high) / 2)
        return q

    return [p, tilted(s.a, noise[0]), tilted(s.b, noise[1])]


def planned(task: tuple[Setting, int]) -> int:
    """The n of one pilot. Features are the bins themselves, and the codebook maps each to its bin."""
    s, pilot = task
    rng = np.random.default_rng([17, pilot])  # other pilots than those by which `plan` got its allowance
    measure = Measure(Quantize(codebook=Codebook(np.eye(BINS), None, None, normalise=False)))
    samples = [np.eye(BINS)[rng.choice(BINS, s.pilot, p=d)] for d in distributions(s)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return plan_samples(*samples, detect=s.a - s.b, power=POWER, measure=measure, repeats=2, rng=pilot).n


def found(task: tuple[Setting, int, int, int]) -> bool:
    """Whether the difference is found with n new samples a side, and has the right sign."""
    s, n, pilot, trial = task
    rng = np.random.default_rng([18, pilot, trial])
    reference, *systems = (rng.choice(BINS, n, p=d) for d in distributions(s))
    seen = []
    for labels in systems:
        part = Partition(reference, labels, np.zeros((BINS, 1)))
        values = {name: (float(v),) for name, v in MAUVE_STAR.of_counts(part.p_counts, part.q_counts).items()}
        seen.append(evidence([part], values, divergence=MAUVE_STAR.divergence, scale=MAUVE_STAR.c, rng=rng))
    one = pair_difference(*seen, paired=True)
    return one.p_value["mauve"] < 0.05 and one.value["mauve"] > 0


def report(rows: list[dict]) -> str:
    lines = [
        f"# Power at the planned number of samples; promised: {POWER:.0%}",
        "",
        "Written by `python experiments/power/run.py`. *n*: planned from each pilot, least, mean and greatest. *power*: how often the "
        "difference was found with n new samples, over all pilots, with its standard error, most of which is the luck of the pilots; then "
        "the least and the greatest of a single pilot, each from few trials.",
        "",
        "| setting | true MAUVE of A, B | pilot | pilots × trials | n | power | by pilot |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        s, n, power = row["setting"], np.array(row["n"]), np.array(row["power"])
        total = power.mean()
        error = power.std(ddof=1) / np.sqrt(len(n))
        lines.append(
            f"| {s['name']} | {s['a']}, {s['b']} | {s['pilot']} | {len(n)} × {row['trials']} | {n.min()}, {n.mean():.0f}, {n.max()} | "
            f"{total:.1%} ± {error:.1%} | {power.min():.0%} to {power.max():.0%} |"
        )
    mean = np.mean([np.mean(row["power"]) for row in rows])
    lines += ["", f"Mean over the settings: {mean:.1%}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    pilots = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    rows = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for s in SETTINGS:
            sizes = list(pool.map(planned, [(s, i) for i in range(pilots)]))
            print(s.name, sizes, flush=True)
            tasks = [(s, n, i, trial) for i, n in enumerate(sizes) for trial in range(trials)]
            hits = np.array(list(pool.map(found, tasks, chunksize=5))).reshape(pilots, trials)
            rows.append({"setting": asdict(s), "n": sizes, "trials": trials, "power": hits.mean(axis=1)})
            print(report(rows).splitlines()[-3], flush=True)
            write(__file__, {"promised": POWER, "rows": rows})  # after each: what is done is not lost
            Path(__file__).with_name("power.md").write_text(report(rows))


if __name__ == "__main__":
    main()
