"""Scores of features in shards: time, memory, and the distance from the plain limit of reading and multiplying.

    python benchmarks/scale.py                     200,000, 2,000,000 and 20,000,000 rows of 128 features, within 4 GB
    python benchmarks/scale.py 200000 2000000      other numbers of rows, both sides together
    python benchmarks/scale.py --engines           Ray against threads, with 400,000 rows
    python benchmarks/scale.py --show              the table, and the model of the cost for larger sizes

The shards are written to a temporary folder (10 GB for 20,000,000 rows; --folder chooses another disk) and removed. Results are in
scale.json. Each size runs in a process of its own with MALLOW_MEMORY=4GB, and files are dropped from the page cache before it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
RESULTS = HERE.with_suffix(".json")
WIDTH, SHARD, BINS, SAMPLE, ROUNDS = 128, 500_000, 500, 200_000, 40
READS = 7.5  # of all files: keys, sums of products, points to cluster (those of the reference twice), labels, three for evidence
MEMORY = "4GB"


def write_shards(folder: Path, rows: int, shift: float, seed: int) -> None:
    """Gaussian rows whose columns have falling standard deviations, as those of embeddings have."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    spread = (1.0 / np.sqrt(np.arange(1, WIDTH + 1))).astype(np.float32)
    for place, low in enumerate(range(0, rows, SHARD)):
        values = rng.standard_normal((min(SHARD, rows - low), WIDTH), np.float32)
        values += np.float32(shift)
        values *= spread
        np.save(folder / f"part-{place:05d}.npy", values)


def forget(folder: Path) -> None:
    """Drop the files from the page cache: they are read from the disk again."""
    for file in folder.rglob("*.npy"):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_rate(folder: Path) -> float:
    """Bytes per second of reading all files once."""
    forget(folder)
    began, total = time.perf_counter(), 0
    for file in sorted(folder.rglob("*.npy")):
        with file.open("rb", buffering=0) as stream:
            while block := stream.read(1 << 24):
                total += len(block)
    return total / (time.perf_counter() - began)


def product_rate(dtype: type, rows: int, inner: int, columns: int) -> float:
    """Multiplications and additions per second of products of this shape, one on each processor at once."""
    from mallow.engine import Threads

    rng = np.random.default_rng(0)
    a, b = rng.random((rows, inner)).astype(dtype), rng.random((inner, columns)).astype(dtype)
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        for _ in Threads().map(lambda _: (a @ b)[0, 0], range(64)):
            pass
        best = max(best, 64 * 2.0 * rows * inner * columns / (time.perf_counter() - began))
    return best


def warm_up(_: int) -> None:
    import mallow.evaluate  # noqa: F401 - what a worker needs

    time.sleep(1)


def processor_seconds() -> float:
    """Of this process and of all that it started, which are still there."""
    above: dict[int, int] = {}
    spent: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            numbers = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        above[int(entry.name)], spent[int(entry.name)] = int(numbers[1]), int(numbers[11]) + int(numbers[12])
    total = 0
    for process, ticks in spent.items():
        parent = process
        while parent not in (os.getpid(), 0):
            parent = above.get(parent, 0)
        total += ticks if parent else 0
    return total / os.sysconf("SC_CLK_TCK")


def run_one(folder: Path, engine: str) -> dict[str, object]:
    """One score, with the time of each pass; in this process."""
    from mallow import Measure, Quantize, Ray, Threads, score
    from mallow.engine import open_engine

    steps: dict[str, float] = {}

    class Steps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            name, seconds = str(record.args[0]), float(record.args[-1])  # type: ignore[index,arg-type]
            steps[name] = steps.get(name, 0.0) + seconds

    logging.getLogger("mallow").setLevel(logging.INFO)
    logging.getLogger("mallow").addHandler(Steps())
    warnings.simplefilter("ignore")
    measure = Measure(Quantize(bins=BINS, sample=SAMPLE))
    chosen = Ray(address="local", workers=2) if engine == "ray" else Threads()
    with open_engine(chosen) as opened:
        list(opened.map(warm_up, range(8)))  # workers are started, and have imported mallow, before the clock runs
        steps.clear()
        began, before = time.perf_counter(), processor_seconds()
        result = score(str(folder / "reference"), str(folder / "model"), measure=measure, repeats=1, engine=opened)
        seconds, spent = time.perf_counter() - began, processor_seconds() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    axes = int(result.masses.partition.centres.shape[1])
    found = {"mauve": result.mauve, "p_value": result.p_value, "certified": result.certified["mauve"].high}
    load = os.getloadavg()[0]
    return {
        "seconds": seconds,
        "processor": spent,
        "load": load,
        "peak_bytes": peak,
        "axes": axes,
        "steps": steps,
        **found,
    }


def in_process(folder: Path, engine: str = "threads") -> dict[str, object]:
    environment = os.environ | {"MALLOW_MEMORY": MEMORY}
    command = [sys.executable, str(HERE), "--one", str(folder), "--engine", engine]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_size(rows: int, root: Path) -> dict[str, object]:
    """One size: made, measured, removed."""
    with tempfile.TemporaryDirectory(dir=root) as name:
        folder = Path(name)
        write_shards(folder / "reference", rows // 2, 0.0, 1)
        write_shards(folder / "model", rows - rows // 2, 0.05, 2)
        reading = read_rate(folder)
        forget(folder)
        found = in_process(folder)
    axes = int(found["axes"])  # type: ignore[call-overload]
    covariance, nearest = product_rate(np.float64, WIDTH, 2560, WIDTH), product_rate(np.float32, 1024, axes, BINS)
    # The reference is in two reductions and two clusterings, the second with half of the bins. Evidence needs products of
    # all columns once more, in float32; bins and rules of it are smaller.
    clustered = kmeans_work(rows, axes, BINS, SAMPLE)
    limit = {
        "reading": READS * rows * WIDTH * 4 / reading,
        "covariance": 1.5 * rows * 2.0 * WIDTH * WIDTH / covariance,
        "reduction": 1.5 * rows * 2.0 * WIDTH * axes / covariance,
        "k-means": clustered / nearest,
        "labels": 1.5 * rows * 2.0 * axes * BINS / nearest,
        "evidence": rows * 2.0 * WIDTH * WIDTH / nearest,
    }
    rates = {"reading": reading, "float64_products": covariance, "float32_products": nearest}
    return {"rows": rows, "width": WIDTH, "bytes": rows * WIDTH * 4, **found, "limit": limit, "rates": rates}


def compare_engines(rows: int, root: Path) -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir=root) as name:
        folder = Path(name)
        write_shards(folder / "reference", rows // 2, 0.0, 1)
        write_shards(folder / "model", rows - rows // 2, 0.05, 2)
        each = {engine: [in_process(folder, engine) for _ in range(2)] for engine in ("threads", "ray")}
    if len({one["mauve"] for runs in each.values() for one in runs}) != 1:
        raise SystemExit("threads and Ray give different scores")
    best = {engine: min(runs, key=lambda one: one["seconds"]) for engine, runs in each.items()}  # type: ignore[arg-type,return-value]
    each_ratio = {
        "call": best["ray"]["seconds"] / best["threads"]["seconds"],  # type: ignore[operator]
        "processor": best["ray"]["processor"] / best["threads"]["processor"],  # type: ignore[operator]
    }
    return {"rows": rows, "width": WIDTH, "best": best, "ratio": each_ratio}


STEPS = ("survey", "products", "points", "clusters", "labels", "evidence")


def kmeans_work(rows: float, axes: float, bins: float, sample: float) -> float:
    """Additions and multiplications of k-means on both samples, and on the reference alone with half of the bins."""
    return ROUNDS * 2.0 * axes * (min(sample, rows) * bins + min(sample, rows / 2) * bins / 2)


def work(rows: float, width: float, axes: float, bins: float, *, clustered: float) -> dict[str, float]:
    """What each step does: entries that are hashed, and additions and multiplications. The reference is in two reductions."""
    reduction = 1.5 * 2.0 * width * axes
    labels = 0.0 if clustered >= rows else 1.5 * rows * (2.0 * axes * bins) + rows * reduction
    points = min(clustered, rows) * reduction + 15.0 * rows * width  # the latter: every row is read
    amounts = {"survey": rows * width, "products": 1.5 * rows * 2.0 * width**2, "points": points, "labels": labels}
    # Evidence: products of all columns; what it does for each row besides is in the rate.
    return amounts | {"clusters": kmeans_work(rows, axes, bins, clustered), "evidence": rows * (2.0 * width**2)}


def seconds_of(one: dict[str, object]) -> dict[str, float]:
    """Measured seconds of each step, both sides together."""
    measured: dict[str, float] = one["steps"]  # type: ignore[assignment]
    plain = {name: name.removeprefix("own-") for name in measured}
    return {step: sum(v for name, v in measured.items() if plain[name].startswith(step)) for step in STEPS}


def show_model(sizes: list[dict[str, Any]]) -> None:
    """Processor time by the rates of the size that was disturbed least, tried on the others, and used for sizes not measured here.

    A step has its share of the clock's time in the processor time of the whole call, so that the load of the machine is left out.
    """
    base = max(sizes, key=lambda one: one["processor"] / one["seconds"])
    own = {"axes": int(base["axes"]), "bins": BINS, "clustered": SAMPLE}
    measured = seconds_of(base)
    share = base["processor"] / sum(measured.values())
    amounts = work(float(base["rows"]), WIDTH, **own)
    rates = {step: amounts[step] / measured[step] / share for step in STEPS}
    shown = ", ".join(f"{step} {rate:.2g}/s" for step, rate in rates.items())
    print(f"rates of one processor, from {base['rows']:,} rows: {shown}")
    for one in sizes:
        amounts = work(float(one["rows"]), WIDTH, **own)
        by_step = {step: amounts[step] / rates[step] for step in STEPS}
        shown = ", ".join(f"{step} {seconds:.1f}" for step, seconds in by_step.items())
        print(
            f"{one['rows']:>14,} x {WIDTH}: {one['processor']:.1f} processor s, by the model {sum(by_step.values()):.1f} ({shown})"
        )
    for rows in (1e8, 1e9):
        amounts = work(rows, 1024, 300, 1000, clustered=1e7)
        each = {step: amounts[step] / rates[step] / 3600 for step in STEPS}
        hours = sum(each.values())
        shown = ", ".join(f"{step} {own:,.1f}" for step, own in each.items())
        print(
            f"{rows:>14,.0f} x 1024, 300 axes, 1,000 bins: {rows * 4096 / 1e12:.1f} TB read {READS} times, {hours:,.0f} processor hours "
            f"({shown}); {hours * 60 / 64:,.0f} minutes on 64 processors, which then read "
            f"{READS * rows * 4096 / (hours / 64 * 3600) / 1e9:.1f} GB/s"
        )
    largest, next_one = sorted(sizes, key=lambda one: -one["rows"])[:2]
    per_row = (largest["peak_bytes"] - next_one["peak_bytes"]) / (largest["rows"] - next_one["rows"])
    print(f"memory of the calling process: {per_row:.0f} bytes for each further row")


def show(results: dict[str, object]) -> None:
    for one in results.get("sizes", []):  # type: ignore[attr-defined]
        limit = sum(one["limit"].values())
        print(
            f"{one['rows']:>12,} rows, {one['bytes'] / 1e9:6.2f} GB: {one['seconds']:7.1f} s (load {one.get('load', 0):.0f}), peak {one['peak_bytes'] / 1e9:.2f} GB; "
            f"plain limit {limit:.1f} s ({', '.join(f'{k} {v:.1f}' for k, v in one['limit'].items())}), factor {one['seconds'] / limit:.1f}"
        )
        print("             " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in one["steps"].items()))
    if len(results.get("sizes", [])) > 1:  # type: ignore[arg-type]
        show_model(results["sizes"])  # type: ignore[arg-type]
    engines = results.get("engines")
    if engines:
        best = engines["best"]  # type: ignore[index]
        print(
            f"{engines['rows']:>12,} rows: threads {best['threads']['seconds']:.1f} s, Ray {best['ray']['seconds']:.1f} s; ratio "  # type: ignore[index]
            f"{engines['ratio']['call']:.2f}, of processor time {engines['ratio']['processor']:.2f}"  # type: ignore[index]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", type=int)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--engines", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", default="threads", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(run_one(given.one, given.engine)))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"sizes": []}
    if given.engines:
        results["engines"] = compare_engines((given.rows or [400_000])[0], given.folder)
    elif not given.show:
        for rows in given.rows or [200_000, 2_000_000, 20_000_000]:
            one = measure_size(rows, given.folder)
            others = [old for old in results["sizes"] if old["rows"] != rows]
            results["sizes"] = sorted([*others, one], key=lambda each: each["rows"])
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if not given.show:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    show(results)


if __name__ == "__main__":
    main()
