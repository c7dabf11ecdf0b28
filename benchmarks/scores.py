"""mallow and mauve-text 0.4.0 side by side on the same arrays: time, ratios, memory, growth with n.

    pip install -e '.[benchmarks]'
    python benchmarks/scores.py small single ten large growth        about 20 minutes; any of them alone works too

Both run in one process, one after the other, on the same float32 features (a mixture of 50 Gaussians with a power-law
spectrum, so that 90% of the variance needs some 150 of 1,024 axes). The first rows are the public call, `mallow.score(x, y)`,
with all that it returns: held-out evidence, test, intervals, bias-corrected value, self-score, reasons. Rows marked "inner path"
are what mauve-text does, the published score alone: order, PCA, k-means and its summaries. Writes scores.json beside this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import mallow
from mallow import Measure, compare, score
from mallow.engine import cores, single_threaded_blas
from mallow.estimate import Quantize
from mallow.estimate import _nearest as nearest

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "scores.json"


def features(n: int, width: int, shift: float, seed: int) -> np.ndarray:
    spread = np.arange(1, width + 1) ** -0.6
    centres = np.random.default_rng(12).standard_normal((50, width)) * spread * 1.5
    rng = np.random.default_rng(seed)
    rows = np.empty((n, width), np.float32)
    for start in range(0, n, 4096):
        size = min(4096, n - start)
        noise = rng.standard_normal((size, width), dtype=np.float32) * spread
        rows[start : start + size] = centres[rng.integers(50, size=size)] + noise + shift * spread
    return rows


def seconds(function) -> tuple[float, object]:
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def product_peak() -> float:
    """GFLOP/s of a large float32 product with all threads, the best of five."""
    a = np.random.default_rng(0).standard_normal((3072, 3072), dtype=np.float32)
    return max(2 * 3072**3 / seconds(lambda: a @ a)[0] for _ in range(5)) / 1e9


def kmeans_rate(points: np.ndarray, bins: int) -> float:
    """GFLOP/s of one round of assignment inside k-means, all points to all centres: product and arg-max."""
    every = np.arange(len(points))
    data = nearest.Data(points, every, nearest.find_grid(points, every, fine=False), np.ones(len(points)))
    centres = data.rows[np.random.default_rng(0).choice(len(points), bins, replace=False), :-1]
    workers = nearest.Workers(4096, cores())
    with single_threaded_blas(), workers:
        state = nearest.Assignment(len(points), data.rows.dtype)
        everything = np.ones(bins, np.bool_)
        best = min(
            seconds(lambda: nearest.assign_points(data, centres, everything, state, workers))[0] for _ in range(30)
        )
    return 2.0 * points.size * bins / best / 1e9


def one_score(x: np.ndarray, y: np.ndarray, bins: int, rng: int = 0) -> dict[str, object]:
    measure = Measure(Quantize(bins=bins))
    masses = measure.estimator(x, y, rng=rng)
    return {"masses": masses, **measure.summarise(masses)}


def objective(points: np.ndarray, partition) -> float:
    labels = np.concatenate([partition.p_labels, partition.q_labels])
    return float(
        sum(
            ((points[i : i + 4096] - partition.centres[labels[i : i + 4096]]) ** 2).sum(dtype=np.float64)
            for i in range(0, len(points), 4096)
        )
    )


def small() -> dict[str, object]:
    import faiss
    import mauve

    x, y, bins = features(5000, 1024, 0.0, 1), features(5000, 1024, 0.3, 2), 500
    estimator, measure = Quantize(bins=bins), Measure(Quantize(bins=bins))
    one_score(x[:500], y[:500], 50)  # load everything first
    mauve.compute_mauve(p_features=x[:500], q_features=y[:500], num_buckets=50)

    def five_repeats() -> list[dict]:
        ready = estimator.prepare(x, y)
        return [measure.summarise(estimator.masses(ready, seed)) for seed in range(5)]

    public: dict[int, list[float]] = {1: [], 5: []}
    ours, fives, calls = [], [], []
    for seed in range(5):  # in turns, so that both meet the same machine
        for repeats, times in public.items():
            time_taken, full = seconds(lambda repeats=repeats: score(x, y, measure=measure, repeats=repeats))
            times.append(time_taken)
        ours.append(seconds(lambda seed=seed: one_score(x, y, bins, seed))[0])
        fives.append(seconds(five_repeats)[0])
        calls.append(
            seconds(lambda seed=seed: mauve.compute_mauve(p_features=x, q_features=y, num_buckets=bins, seed=seed))
        )
    one, five, theirs = float(np.median(ours)), float(np.median(fives)), float(np.median([call[0] for call in calls]))
    call_one, call_five = (float(np.median(times)) for times in public.values())
    prepared = estimator.prepare(x, y)
    points = np.ascontiguousarray(prepared.points[prepared.group])
    runs = [objective(points, estimator.masses(prepared, seed).partition) for seed in range(5)]
    best = []
    for seed in range(5):  # as mauve-text sets it up: five restarts, 500 iterations
        trainer = faiss.Kmeans(points.shape[1], bins, niter=500, nredo=5, seed=seed, max_points_per_centroid=10**7)
        trainer.train(points)
        best.append(float(trainer.index.search(points, 1)[0].sum(dtype=np.float64)))
    return {
        "cores in use": cores(),
        "mallow.score(x, y, repeats=1), all that it returns (s)": call_one,
        "mauve-text, one call (s)": theirs,
        "one repeat, times faster": theirs / call_one,
        "mallow.score(x, y), five repeats, all that it returns (s)": call_five,
        "mauve-text, five calls (s)": sum(call[0] for call in calls),
        "five repeats, times faster": sum(call[0] for call in calls) / call_five,
        "inner path, published score alone, one repeat (s)": one,
        "inner path, one repeat, times faster": theirs / one,
        "inner path, five repeats (s)": five,
        "inner path, five repeats, times faster": sum(call[0] for call in calls) / five,
        "k-means objective, mallow / faiss best of five": float(np.mean(runs) / np.mean(best)),
        "MAUVE*, mallow (mean of five, std)": [full.mauve, full.std["mauve"]],
        "MAUVE*, mauve-text (mean of five, std)": [
            float(np.mean([call[1].mauve_star for call in calls])),
            float(np.std([call[1].mauve_star for call in calls], ddof=1)),
        ],
        "product peak (GFLOP/s)": (peak := product_peak()),
        "k-means assignment (GFLOP/s)": (rate := kmeans_rate(points, bins)),
        "k-means assignment, fraction of peak": rate / peak,
    }


def single() -> dict[str, object]:
    """`small` again with one thread for each of them."""
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    script = (
        "import json, os, sys, warnings; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); warnings.simplefilter('ignore'); "
        "sys.path.insert(0, sys.argv[1]); import scores; print(json.dumps(scores.small()))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(HERE)], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(run.stdout.strip().splitlines()[-1])


_LARGE = """
import json, re, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import scores
from mallow import Measure, compare, score
from mallow.estimate import Quantize
x, y = scores.features({n}, {width}, 0.0, 1), scores.features({n}, {width}, 0.3, 2)
size = x.nbytes + y.nbytes
open("/proc/self/clear_refs", "w").write("5")  # what making the samples took does not count
peak = lambda: 1024 * int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / size
before = peak()
inner = scores.seconds(lambda: scores.one_score(x, y, {bins}))[0]
alone = peak()
public = scores.seconds(lambda: score(x, y, measure=Measure(Quantize(bins={bins})), repeats=1))[0]
print(json.dumps([public, inner, before, alone, peak()]))
"""


def large() -> dict[str, object]:
    import mauve

    n, width, bins = 50_000, 2048, 1000
    script = _LARGE.format(n=n, width=width, bins=bins)
    run = subprocess.run([sys.executable, "-c", script, str(HERE)], capture_output=True, text=True, check=True)
    public, inner, before, alone, memory = json.loads(run.stdout)
    x, y = features(n, width, 0.0, 1), features(n, width, 0.3, 2)
    theirs, _ = seconds(lambda: mauve.compute_mauve(p_features=x, q_features=y, num_buckets=bins))
    return {
        "mallow.score(x, y, repeats=1), all that it returns (s)": public,
        "mauve-text, one call (s)": theirs,
        "times faster": theirs / public,
        "inner path, published score alone (s)": inner,
        "inner path, times faster": theirs / inner,
        "peak memory of the process / input (input included)": memory,
        "the same of the inner path": alone,
        "the same before scoring": before,
    }


def growth() -> dict[str, object]:
    """The public call with its defaults but one repeat, up to a million samples in all.

    Processor time of all threads: that of the clock depends on what else the machine does.
    """
    sizes, measure = [5_000, 20_000, 50_000, 100_000, 200_000, 500_000], Measure(Quantize(bins=500))
    score(features(2000, 128, 0.0, 1), features(2000, 128, 0.3, 2), repeats=1)  # load everything first
    spent: dict[str, list[float]] = {"public": [], "clock": [], "inner": []}
    for size in sizes:
        x, y = features(size, 128, 0.0, 1), features(size, 128, 0.3, 2)
        before = time.process_time()
        spent["clock"].append(seconds(lambda x=x, y=y: score(x, y, measure=measure, repeats=1))[0])
        between = time.process_time()
        one_score(x, y, 500)
        spent["public"].append(between - before)
        spent["inner"].append(time.process_time() - between)
        print(size, *(own[-1] for own in spent.values()), flush=True)
    exponents = {name: float(np.polyfit(np.log(sizes), np.log(own), 1)[0]) for name, own in spent.items()}
    return {
        "n = m": sizes,
        "mallow.score(x, y, repeats=1), all that it returns (processor s)": spent["public"],
        "exponent": exponents["public"],
        "the same (s)": spent["clock"],
        "load of the machine at the end": os.getloadavg()[0],
        "inner path, published score alone (processor s)": spent["inner"],
        "inner path, exponent": exponents["inner"],
        "width": 128,
        "bins": 500,
    }


def ten() -> dict[str, object]:
    """`compare` of ten systems against one `score`, with the defaults of both; then what replaces 1,000 resamples of them."""
    n, width = 5000, 1024
    reference = features(n, width, 0.0, 1)
    systems = {f"system {place}": features(n, width, 0.03 * (place + 1), 10 + place) for place in range(10)}
    equal = {f"system {place}": features(n, width, 0.2, 30 + place) for place in range(10)}
    compare(reference[:300], {name: own[:300] for name, own in systems.items()})  # load everything first
    one = float(np.median([seconds(lambda: score(reference, systems["system 9"]))[0] for _ in range(3)]))
    apart, _ = seconds(lambda: compare(reference, systems))
    together, found = seconds(lambda: compare(reference, equal))
    evidence = [own.evidence for own in found.scores.values()]

    def resample() -> None:
        rng = np.random.default_rng(0)
        for own in evidence:
            units = own.units
            sums = [units.totals(place, side) for place, side in enumerate((own.reference_scores, own.model_scores))]
            counts = [units.sizes(place).astype(np.float64) for place in (0, 1)]
            for _ in range(10):  # 100 resamples of units at a time
                times = rng.multinomial(units.count, np.full(units.count, 1 / units.count), size=100).astype(np.float64)
                _ = [(times @ total) / (times @ count) for total, count in zip(sums, counts, strict=True)]

    return {
        "mallow.score(reference, system) (s)": one,
        "mallow.compare of ten systems, evenly apart (s)": apart,
        "that, times one score": apart / one,
        "mallow.compare of ten equal systems (s)": together,
        "that one, times one score": together / one,
        "1,000 resamples of the units of ten systems, held-out means (s)": seconds(resample)[0],
    }


TITLES = {
    "small": "(5,000 + 5,000) × 1,024, 500 bins",
    "single": "(5,000 + 5,000) × 1,024, 500 bins, one thread each",
    "large": "(50,000 + 50,000) × 2,048, 1,000 bins",
    "ten": "Ten systems against one reference, 5,000 × 1,024 each",
    "growth": "Cost against n at 500 bins, width 128",
}


def main() -> None:
    warnings.simplefilter("ignore", mallow.EstimateWarning)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    names = sys.argv[1:] or list(TITLES)
    results["about"] = results.get("about", {}) | {
        "mallow": mallow.__version__,
        "numpy": np.__version__,
        "cores": cores(),
    }
    if names != ["growth"]:  # which needs mallow alone
        import faiss

        results["about"] |= {"faiss": faiss.__version__, "threads": os.environ.get("OMP_NUM_THREADS", "default")}
    for name in names:
        results[name] = {"small": small, "single": single, "large": large, "ten": ten, "growth": growth}[name]()
        print(json.dumps({name: results[name]}, indent=1), flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        if name == "small":
            remember(results["small"])


def remember(values: dict[str, object]) -> None:
    """Keep the figures that users see in the table by version: the last run of each version and state stands."""
    path = HERE / "versions.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    state = os.environ.get("MALLOW_STATE", "now")
    rows = [row for row in rows if (row["version"], row["state"]) != (mallow.__version__, state)]
    rows.append(
        {
            "version": mallow.__version__,
            "state": state,
            **{
                key: values[key]
                for key in (
                    "mallow.score(x, y, repeats=1), all that it returns (s)",
                    "one repeat, times faster",
                    "mallow.score(x, y), five repeats, all that it returns (s)",
                    "five repeats, times faster",
                    "inner path, one repeat, times faster",
                    "inner path, five repeats, times faster",
                )
            },
        }
    )
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
