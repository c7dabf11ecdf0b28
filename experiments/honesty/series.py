"""Does `track` claim a trend or a change where a model never changes, but the number of samples grows?

    python experiments/honesty/series.py [trials]           about 20 minutes on one core with 400 trials, the default

Checkpoints of one model, equally far from the reference, with 60 to 960 samples, or fewer with time. A witness learns more from more samples, so that
certified values fall. `track` cuts all checkpoints to the smallest. Beside it: the trend of the certified values of all samples, as it was before,
in the first 100 trials. The last setting has a real trend (100 trials). Writes series.json and series.md beside this file.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.stats import kendalltau
from settings import HERE, LEVEL, Clock, save, share_with_error

from mallow import track
from mallow.evidence import MAUVE_STAR, hold_out
from mallow.samples import Samples

GROWING = (60, 120, 240, 480, 960)
# name: sizes, width, shifts of the checkpoints
SETTINGS = {
    "60 to 960 samples, width 10, a large gap": (GROWING, 10, [1.0] * 5),
    "60 to 960 samples, no gap": (GROWING, 10, [0.0] * 5),
    "800 to 100 samples, width 20": ((800, 600, 400, 300, 200, 100), 20, [1.0] * 6),
    "a real trend, from 1.6 to 0.4 standard deviations, 60 to 960 samples, width 10": (
        GROWING,
        10,
        [1.6, 1.3, 1.0, 0.7, 0.4],
    ),
}
BEFORE = 100


def draw(sizes: tuple[int, ...], width: int, shifts: list[float], trial: int) -> tuple[Samples, dict[str, Samples]]:
    rng = np.random.default_rng([29, width, trial])

    def samples(name: str, count: int, shift: float) -> Samples:
        rows = rng.normal(size=(count, width))
        rows[:, 0] += shift
        return Samples(features=rows, ids=[f"{name} {place}" for place in range(count)])

    made = {f"{step}": samples(f"{step}", count, shifts[step]) for step, count in enumerate(sizes)}
    return samples("reference", 300, 0.0), made


def trend_of_all(reference: Samples, checkpoints: dict[str, Samples]) -> bool:
    held_out = hold_out(MAUVE_STAR, {name: (reference, own) for name, own in checkpoints.items()}, permutations=19)
    values = [held_out.certificates[name].estimates["mauve"].value for name in checkpoints]
    return len(set(values)) > 1 and kendalltau(range(len(values)), values).pvalue < LEVEL


def main() -> None:
    trials, clock = int(sys.argv[1]) if len(sys.argv) > 1 else 400, Clock()
    warnings.simplefilter("ignore")
    results: dict[str, dict[str, int]] = {}
    lines = ["| checkpoints | a trend (%) | a change (%) | a trend, all samples (%) |", "|---|---|---|---|"]
    for name, setting in SETTINGS.items():
        count = min(trials, BEFORE) if len(set(setting[2])) > 1 else trials
        row = {"trials": count, "trend": 0, "change": 0, "before": 0, "trials before": min(trials, BEFORE)}
        for trial in range(count):
            reference, checkpoints = draw(*setting, trial)
            result = track(reference, checkpoints, repeats=1, rng=trial)
            row["trend"] += result.trend.p_value < LEVEL
            row["change"] += bool(result.changes)
            row["before"] += trial < BEFORE and trend_of_all(reference, checkpoints)
        results[name] = row
        shares = [share_with_error(row[key], count) for key in ("trend", "change")]
        shares.append(share_with_error(row["before"], row["trials before"]))
        lines.append(f"| {name} | {' | '.join(shares)} |")
        print(lines[-1], flush=True)
    save("series.json", results)
    page = f"""# A series of checkpoints whose sizes differ

Written by `python experiments/honesty/series.py` in {clock.seconds / 60:.0f} minutes, {trials} trials each (100 of the last row and of the last column). 5% are promised, but for the last row, whose trend is real.

"""
    (HERE / "series.md").write_text(page + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
