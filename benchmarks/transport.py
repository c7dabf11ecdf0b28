"""Seconds of optimal transport: 5,000 against 5,000 points, exact, quantised, entropic, and both frontiers.

    python benchmarks/transport.py

The exact cost is also found as an assignment problem by SciPy, in the same run and on the same costs: the ratio says
which solver the library should use. The entropic cost is also found by POT's iteration in the log domain, on a part
of the points. Each is run once; the whole takes a minute or two. Seconds are those of the processor (everything
here runs on one thread), which other work on the machine disturbs less than the clock on the wall.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import mallow
from mallow import Quantize, area
from mallow.theory.smoothing import empirical
from mallow.theory.transport import (
    entropic_cost,
    free_barycentric_frontier,
    linear_frontier,
    quantized_cost,
    transport_cost,
)

POINTS, PART = 5_000, 2_000


def samples(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussians whose variances fall along the axes, as those of embeddings do."""
    rng = np.random.default_rng(d)
    spread = np.arange(1, d + 1) ** -0.5
    return rng.normal(size=(n, d)) * spread, rng.normal(size=(n, d)) * spread * 1.05 + 0.05


def timed(found: dict[str, float], name: str, work: Callable[[], object]) -> object:
    start = time.process_time()
    value = work()
    found[name] = round(time.process_time() - start, 2)
    print(f"{found[name]:8.2f} s  {name}", flush=True)
    return value


def assignment_cost(x: np.ndarray, y: np.ndarray) -> float:
    pairwise = cdist(x, y, "sqeuclidean")
    rows, columns = linear_sum_assignment(pairwise)
    return float(pairwise[rows, columns].mean())


def entropic_by_pot(x: np.ndarray, y: np.ndarray) -> float:
    pairwise = cdist(x, y, "sqeuclidean")
    mass = np.full(len(x), 1 / len(x))
    plan = ot.bregman.sinkhorn_log(mass, mass, pairwise, float(np.median(pairwise)), stopThr=1e-9)
    return float((plan * pairwise).sum())


def main() -> None:
    seconds: dict[str, float] = {}
    x, y = samples(POINTS, 64)
    exact = timed(seconds, "exact, 5,000 x 64", lambda: transport_cost(x, y))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    plane = timed(seconds, "exact, 2,000 x 2", lambda: transport_cost(x[:PART, :2], y[:PART, :2]))
    timed(seconds, "exact, 5,000 x 768", lambda: transport_cost(*samples(POINTS, 768)))
    assigned = timed(seconds, "exact by SciPy's assignment, 5,000 x 64", lambda: assignment_cost(x, y))
    assigned_plane = timed(
        seconds, "exact by SciPy's assignment, 2,000 x 2", lambda: assignment_cost(x[:PART, :2], y[:PART, :2])
    )
    timed(seconds, "entropic, 5,000 x 64", lambda: entropic_cost(x, y))
    own = timed(seconds, "entropic, 2,000 x 64", lambda: entropic_cost(x[:PART], y[:PART]))
    by_pot = timed(seconds, "entropic by POT's sinkhorn_log, 2,000 x 64", lambda: entropic_by_pot(x[:PART], y[:PART]))
    masses = Quantize(smoothing=empirical)(x, y)
    flat = Quantize(smoothing=empirical, reduce=None)(x[:, :2], y[:, :2])
    timed(seconds, "quantised, 500 bins", lambda: quantized_cost(masses))
    timed(seconds, "linear frontier, 500 bins, 64 dimensions", lambda: linear_frontier(masses))
    coarse = timed(seconds, "linear frontier, 500 bins, 2 dimensions", lambda: linear_frontier(flat))
    timed(seconds, "free barycentric frontier, 500 bins", lambda: free_barycentric_frontier(masses))
    result = {
        "mallow": mallow.__version__,
        "POT": version("POT"),
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "seconds": seconds,
        "exact_peak_megabytes": peak,
        "exact_over_assignment_64": round(
            seconds["exact, 5,000 x 64"] / seconds["exact by SciPy's assignment, 5,000 x 64"], 2
        ),
        "exact_over_assignment_2": round(
            seconds["exact, 2,000 x 2"] / seconds["exact by SciPy's assignment, 2,000 x 2"], 2
        ),
        "entropic_times_faster_than_pot": round(
            seconds["entropic by POT's sinkhorn_log, 2,000 x 64"] / seconds["entropic, 2,000 x 64"], 1
        ),
        "exact_difference": abs(exact - assigned) / assigned,
        "exact_difference_2": abs(plane - assigned_plane) / assigned_plane,
        "entropic_difference": abs(own - by_pot) / by_pot,
        "area_2_dimensions": round(float(area(coarse, scale=5)), 4),
    }
    text = json.dumps(result, indent=1)
    print(text)
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
