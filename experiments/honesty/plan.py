"""Does the planned number of samples reach the promised power?

    python experiments/honesty/plan.py [trials]           about a quarter of an hour on one core with 400 trials, the default

A reference and two systems, Gaussians that are shifted along the first column, so that the true MAUVE of each is known. In each trial `plan_samples`
sees a new pilot and plans for the true difference at 80% power; new samples of the planned number are then compared. Counted is how often the
difference is significant with the right sign. The constants of the plan were chosen on the first settings; the others were looked at once. Below: what is
certified of known pairs, beside what the law of the plan expects, 20 draws each. Writes plan.json and plan.md beside this file.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from settings import HERE, LEVEL, Clock, save, share_with_error

from mallow import InputError, plan_samples
from mallow.evaluate._check import _SHIFTS, gaussian_areas
from mallow.evaluate._plan import _CONSTANT, _PER_DIMENSION, _LearningLaw
from mallow.evidence import MAUVE_STAR, HeldOut, hold_out
from mallow.samples import Samples
from mallow.theory import KL

# width, shifts of the systems, pilot
CHOSEN = [(8, 0.6, 0.9, 150), (50, 0.6, 1.0, 150)]
CONFIRMED = [(30, 0.7, 1.1, 150), (8, 0.5, 1.0, 120), (50, 0.9, 1.4, 200)]
CELLS = [(width, n) for width in (2, 8, 20, 50) for n in (100, 200, 400)]
AREAS = gaussian_areas(KL, 5.0)


def draw(rng: np.random.Generator, n: int, width: int, a: float, b: float) -> list[Samples]:
    sets = rng.normal(size=(3, n, width))
    sets[1, :, 0] += a
    sets[2, :, 0] += b
    return [
        Samples(features=rows, ids=[f"{name} {place}" for place in range(n)])
        for name, rows in zip("xab", sets, strict=True)
    ]


def evidence(sets: list[Samples]) -> HeldOut:
    reference, first, second = sets
    return hold_out(MAUVE_STAR, {"A": (reference, first), "B": (reference, second)}, permutations=19)


def run(width: int, a: float, b: float, pilot: int, trials: int) -> dict[str, object]:
    near, far = np.interp([a, b], _SHIFTS, AREAS)
    planned, reached = [], 0
    for trial in range(trials):
        rng = np.random.default_rng([30, width, trial])
        try:
            n = plan_samples(*draw(rng, pilot, width, a, b), detect=near - far).n
        except InputError:  # the pilot shows no gap; that is what the user is told
            continue
        found = evidence(draw(rng, n, width, a, b)).difference("A", "B")
        planned.append(n)
        reached += found.p_value["mauve"] < LEVEL and found.value["mauve"] > 0
    return {
        "width": width,
        "shifts": [a, b],
        "difference": near - far,
        "pilot": pilot,
        "plans": len(planned),
        "refused": trials - len(planned),
        "n": [min(planned), float(np.mean(planned)), max(planned)],
        "reached": int(reached),
    }


def certified(width: int, n: int) -> dict[str, object]:
    """The mean certified MAUVE of systems shifted by 0.6 and 0.9, and what the law expects."""
    seen = []
    for trial in range(20):
        both = evidence(draw(np.random.default_rng([5, trial, width, n]), n, width, 0.6, 0.9)).certificates
        seen.append([both[name].estimates["mauve"].value for name in "AB"])
    law = _LearningLaw(AREAS, AREAS, _CONSTANT + _PER_DIMENSION * width, (0.0, 0.0), 1.0)
    expected = np.interp(law.seen(n, np.array([0.6, 0.9])), _SHIFTS, AREAS)
    return {"width": width, "n": n, "certified": np.mean(seen, axis=0), "expected": expected}


def main() -> None:
    trials, clock = int(sys.argv[1]) if len(sys.argv) > 1 else 400, Clock()
    warnings.simplefilter("ignore")
    results: dict[str, list] = {"chosen": [], "confirmed": [], "certified": []}
    lines = [
        "| settings | width | true difference | pilot | planned n: least, mean, greatest | reached (%), 80 promised |",
        "|---|---|---|---|---|---|",
    ]
    for family, settings in (("chosen", CHOSEN), ("confirmed", CONFIRMED)):
        for setting in settings:
            row = run(*setting, trials)
            results[family].append(row)
            least, mean, most = row["n"]
            lines.append(
                f"| {family} | {row['width']} | {row['difference']:.3f} | {row['pilot']} | {least}, {mean:.0f}, {most} | "
                f"{share_with_error(row['reached'], row['plans'])} |"
            )
            print(lines[-1], flush=True)
    lines += [
        "",
        "What is certified of systems whose true MAUVE is 0.910 and 0.712, and what the law of the plan expects:",
        "",
    ]
    lines += ["| width | n | certified | expected |", "|---|---|---|---|"]
    for cell in CELLS:
        row = certified(*cell)
        results["certified"].append(row)
        shown = (", ".join(f"{value:.3f}" for value in row[key]) for key in ("certified", "expected"))
        lines.append(f"| {row['width']} | {row['n']} | {' | '.join(shown)} |")
    save("plan.json", {"trials": trials, **results})
    page = f"# Power at the planned number of samples\n\nWritten by `python experiments/honesty/plan.py {trials}` in {clock.seconds / 60:.0f} minutes, {trials} trials each.\n\n"
    (HERE / "plan.md").write_text(page + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
