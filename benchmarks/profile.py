"""Where the time of `mallow.score` goes: the share of each step, and how near its products are to the limit.

    python benchmarks/profile.py            about half a minute
    python benchmarks/profile.py 20000 768

Everything runs on one thread, so that the times of steps add up; `benchmarks/scores.py` has the time with all threads. The
limit is the rate of a large matrix product on one thread, in float32 or float64, measured in the same run. "At the limit" is what
the products of a covariance would take at that rate. Writes profile.json.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import sys
import sysconfig
import time
import warnings
from pathlib import Path

import numpy as np

import mallow
from mallow import Measure, score
from mallow.engine import run_now
from mallow.estimate import Quantize, _pca, _quantize
from mallow.evaluate import _door, _evaluation, _score
from mallow.evidence import _evidence, _learner, _pass_learner, _space, _within, _witness

HERE = Path(__file__).resolve().parent

if __name__ == "profile":  # beside a benchmark this file hides Python's own module of that name: hand that one out
    spec = importlib.util.spec_from_file_location("profile", Path(sysconfig.get_path("stdlib")) / "profile.py")
    sys.modules["profile"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["profile"])

STEPS = [  # module or class, function, what it is
    (_door, "embed_all", "samples: read and check"),
    (_evaluation, "check_samples", "samples: confounds, sizes, norms"),
    (_evaluation, "self_score", "self-score: reference against itself"),
    (_pca, "canonical_order", "published: order of rows"),
    (_quantize, "distinct_points", "published: reduction (covariance, axes, projection)"),
    (_quantize, "lloyd", "published: k-means"),
    (_score, "published_errors", "published: intervals, bias correction"),
    (_evaluation, "find_units", "evidence: units"),
    (_space, "_scale_columns", "evidence: columns"),
    (_space, "principal_axes", "evidence: covariance, axes, projection"),
    (_space, "find_partitions", "evidence: bins"),
    (_witness, "LeaveUnitOut", "evidence: corrections for the own unit"),
    (_learner.Learner, "_learn", "evidence: views and their stack"),
    (_within, "run_identity_test", "evidence: test"),
    (_pass_learner, "run_test_of_many", "evidence: test"),
    (_evidence.Evidence, "certify", "evidence: certificate"),
    (_evaluation, "find_reasons", "reasons"),
    (_score, "_doubts", "caveats"),
]


def watch(module, name: str, label: str, times: dict[str, float], stack: list[float]) -> None:
    """Add the time of a function, without that of the watched functions that it calls, to its label."""
    inner = getattr(module, name)

    @functools.wraps(inner)
    def timed(*args, **options):
        stack.append(0.0)
        start = time.perf_counter()
        result = inner(*args, **options)
        taken = time.perf_counter() - start
        own = taken - stack.pop()
        times[label] = times.get(label, 0.0) + own
        if stack:
            stack[-1] += taken
        return result

    setattr(module, name, timed)


def rate(dtype: type) -> float:
    """GFLOP/s of a large product."""
    a = np.random.default_rng(0).standard_normal((2048, 2048)).astype(dtype)
    best = min(_seconds(lambda: a @ a) for _ in range(4))
    return 2 * 2048**3 / best / 1e9


def _seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # libraries read it when they are loaded: start again
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    warnings.simplefilter("ignore", mallow.EstimateWarning)
    sys.path.insert(0, str(HERE))
    from scores import features

    n, width = (int(value) for value in sys.argv[1:3]) if len(sys.argv) > 2 else (5000, 1024)
    x, y = features(n, width, 0.0, 1), features(n, width, 0.3, 2)
    measure = Measure(Quantize(bins=n // 10))
    for module in (_evaluation, _space, _witness, _evidence):  # one after the other: times add up
        module.start = run_now
    score(x[:400], y[:400])
    times: dict[str, float] = {}
    stack: list[float] = []
    for module, name, label in STEPS:
        watch(module, name, label, times, stack)
    total = _seconds(lambda: score(x, y, measure=measure, repeats=1))
    single, double = rate(np.float32), rate(np.float64)
    times["everything else"] = total - sum(times.values())
    values: dict[str, object] = {f"{label} (s, share)": [own, own / total] for label, own in times.items() if own > 0}
    values["total (s)"] = total
    values["matrix product, float32 (GFLOP/s)"], values["float64"] = single, double
    products = 2.0 * (2 * n) * width * min(2 * n, width) / 1e9  # of a covariance; half of them, since it is symmetric
    axes = times.get("evidence: covariance, axes, projection", 0.0)
    if axes:
        values["evidence: covariance and projection at the limit (s)"] = 1.5 * products / single
    reduction = times.get("published: reduction (covariance, axes, projection)", 0.0)
    if reduction:
        values["published: covariance at the limit, float64 (s)"] = 0.5 * products / double
    title = f"({n:,} + {n:,}) × {width:,}"
    path = HERE / "profile.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[title] = values
    path.write_text(json.dumps(results, indent=1) + "\n")
    for label, own in sorted(times.items(), key=lambda item: -item[1]):
        print(f"{own:7.3f} s  {100 * own / total:5.1f}%  {label}")
    print(f"{total:7.3f} s  in all; products: {single:.0f} GFLOP/s in float32, {double:.0f} in float64")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
