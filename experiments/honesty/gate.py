"""Does `mallow check` give a false verdict where the two runs have different sizes?

    OMP_NUM_THREADS=1 python experiments/honesty/gate.py [trials]     about ten minutes on one core with 40 trials, the default

Gaussian features, 300 wide. The reference has mean 0, and a model is off by its shift in every column. A check with the permitted drop of
0.02 passes, shows a regression, or cannot tell. Where the model got worse, it must not pass; where it is the same model, no regression
may be shown; each in at most 5%. Writes gate.json and gate.md beside this file.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from mallow import score
from mallow.evaluate import check_regression

WIDTH, BEFORE = 300, 0.1
# reference and model of the baseline, reference and model now, shift now
CASES = [
    (1000, 1000, 1000, 1000, 0.12),
    (1000, 1000, 1000, 30, 0.12),
    (1000, 1000, 1000, 60, 0.15),
    (1000, 1000, 60, 1000, 0.12),
    (1000, 1000, 1000, 30, 0.6),
    (300, 300, 1000, 1000, 0.1),
    (300, 300, 1000, 1000, 0.3),
]


def run_trial(trial: int) -> list[str]:
    rng = np.random.default_rng([14, trial])
    human, model = rng.normal(size=(2, 1000, WIDTH)) + np.array([0.0, BEFORE])[:, None, None]
    baselines = {size: score(human[:size], model[:size], repeats=1) for size in (1000, 300)}
    return [
        check_regression(human[:n], rng.normal(shift, 1.0, size=(m, WIDTH)), baselines[size]).outcome
        for size, _, n, m, shift in CASES
    ]


def report(counts: list[Counter[str]], trials: int) -> str:
    lines = [
        "# Checks of two runs of different sizes",
        "",
        f"Written by `python experiments/honesty/gate.py`, {trials} trials. The model of the baseline is off by {BEFORE} in each of {WIDTH} columns. Sizes",
        "are those of the reference and of the model.",
        "",
        "| sizes in the baseline | sizes now | shift now | passed | regression | cannot tell |",
        "|---|---|---|---|---|---|",
    ]
    for (n, m, n_now, m_now, shift), count in zip(CASES, counts, strict=True):
        shares = " | ".join(f"{count[outcome] / trials:.0%}" for outcome in ("passed", "regression", "cannot tell"))
        lines.append(f"| {n:,}, {m:,} | {n_now:,}, {m_now:,} | {shift:g} | {shares} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    outcomes = [run_trial(trial) for trial in range(trials)]
    counts = [Counter(own) for own in zip(*outcomes, strict=True)]
    here = Path(__file__)
    here.with_name("gate.md").write_text(report(counts, trials))
    rows = [{"case": case, "trials": trials, **count} for case, count in zip(CASES, counts, strict=True)]
    here.with_name("gate.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
