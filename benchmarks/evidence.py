"""What held-out evidence costs beside the published score, in one process, on the same features.

    python benchmarks/evidence.py            about a minute on two idle cores; writes evidence.json beside this file

The first row is the public call with its defaults, `mallow.score(x, y)`, with all that it returns. The others are its parts:
the published score (reduction and five clusterings), the evidence (witness, certificate, test of identity), the intervals.
Features as in benchmarks/scores.py; times are the best of three.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scores import features

import mallow
from mallow.engine import cores
from mallow.evaluate import run_repeats, self_score, summary_values
from mallow.evidence import MAUVE_STAR, debiased_estimate, find_units, hold_out, published_interval

RESULTS = Path(__file__).resolve().parent / "evidence.json"
SIZES = {"1,000 + 1,000, width 384": (1000, 384), "5,000 + 5,000, width 1,024": (5000, 1024)}


def best(function: Callable[[], object], runs: int = 3) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure_size(n: int, width: int) -> dict[str, float]:
    x, y = features(n, width, 0.0, 1), features(n, width, 0.02, 2)
    reference, model = mallow.Samples(features=x), mallow.Samples(features=y)
    measure = MAUVE_STAR
    units = find_units(reference, model)

    def published() -> None:
        run_repeats(measure, measure.estimator.prepare(x, y), 5, 0)

    masses = run_repeats(measure, measure.estimator.prepare(x, y), 5, 0)
    partitions = [one.partition for one in masses]
    values = summary_values(measure, masses)

    def intervals() -> None:
        options = {"divergence": measure.divergence, "scale": measure.area_scale}
        published_interval(partitions, units, values, smooth=measure.estimator.smooth, **options)
        debiased_estimate(partitions, units, **options)

    result = {
        "mallow.score(x, y), all that it returns (s)": best(lambda: mallow.score(x, y)),
        "published score: reduction and five clusterings (s)": best(published),
        "evidence: witness, certificate, test (s)": best(lambda: hold_out(measure, {"model": (reference, model)})),
        "intervals of the published score (s)": best(intervals),
        "self-score (s)": best(lambda: self_score(measure, reference, n, repeats=5, seed=0)),
    }
    published_time = result["published score: reduction and five clusterings (s)"]
    result["evidence / published score"] = result["evidence: witness, certificate, test (s)"] / published_time
    return result


def main() -> None:
    warnings.simplefilter("ignore")
    results: dict[str, object] = {
        "about": {"mallow": version("mallow"), "numpy": np.__version__, "cores": cores()},
        **{name: measure_size(*size) for name, size in SIZES.items()},
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
