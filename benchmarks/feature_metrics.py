"""Feature metrics: seconds and memory at 50,000 × 2,048 a side, and against torch-fidelity and prdc on the same features.

    python benchmarks/feature_metrics.py [--peers PYTHON] [--small] [--large first | full]

Every measurement is a process of its own. Memory is the most that the process ever held, samples and libraries included. The
other packages run at 5,000 × 512 by the interpreter PYTHON of an environment that has them (`pip install prdc==0.2 torch==2.13.0
torch-fidelity==0.4.0`); torchvision is not needed by what is called here, and replaced by an empty module. The ratios are of CPU
seconds of runs that take turns, so that other work on the machine does not count.

`--large full` takes about 10 minutes of CPU. `--large first` does the first blocks of the kernel distance and of precision and
recall only: all blocks have one shape, so that the memory is that of the whole, and the CPU seconds are extrapolated. `--small`
measures at 5,000. What is not asked for stays in the file as it was.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

LARGE, MIDDLE, PEERS = (50_000, 2_048), (5_000, 1_024), (5_000, 512)
TURNS = 2
FIRST = 4  # blocks that stand for all


def samples(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of float32 with a falling spectrum and a positive mean, as image features have."""
    rng = np.random.default_rng(0)
    scale = np.arange(1, d + 1, dtype=np.float32) ** np.float32(-0.5)
    x, y = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(2))
    for side, shift, factor in ((x, 0.4, 1.0), (y, 0.42, 1.05)):
        side *= scale * np.float32(factor)
        side += np.float32(shift)
    return x, y


# --- what is measured; imports inside, since half of it runs where the other half is not installed


def frechet(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines._features import frechet_distance

    return frechet_distance(x, y)


def kernel(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines._features import kernel_distance

    return kernel_distance(x, y)


def kernel_of_subsets(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines._features import kernel_distances

    return vars(kernel_distances(x, y))


def precision(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines._features import precision_recall

    return vars(precision_recall(x, y))


def discriminator(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines._features import discriminator_accuracy

    return discriminator_accuracy(x, y - np.float32(0.0195))  # else they separate at a glance


def discriminator_one_penalty(x: np.ndarray, y: np.ndarray) -> object:
    """The memory of the whole and a fraction of its time: one penalty, and few steps."""
    from mallow.baselines import _features as features

    features.PENALTIES, features._MOST_STEPS = (1e4,), 5
    import warnings

    warnings.simplefilter("ignore")
    return features.discriminator_accuracy(x, y)


def fidelity(x: np.ndarray, y: np.ndarray, metric: str) -> object:
    from unittest.mock import MagicMock

    for name in ("", ".datasets", ".models", ".transforms", ".transforms.functional"):
        sys.modules[f"torchvision{name}"] = MagicMock()
    import torch
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric
    from torch_fidelity.metric_prc import prc_features_to_metric

    x, y = torch.from_numpy(x), torch.from_numpy(y)
    if metric == "fid":
        return fid_statistics_to_metric(fid_features_to_statistics(x), fid_features_to_statistics(y), False)
    if metric == "kid":
        return kid_features_to_metric(x, y, kid_subsets=1, kid_subset_size=len(x), verbose=False)
    if metric == "kid_subsets":
        return kid_features_to_metric(x, y, verbose=False)
    return prc_features_to_metric(y, x, prc_neighborhood=5, verbose=False)


def prdc(x: np.ndarray, y: np.ndarray) -> object:
    import contextlib
    import io

    from prdc import compute_prdc

    with contextlib.redirect_stdout(io.StringIO()):
        return {name: float(value) for name, value in compute_prdc(x, y, nearest_k=5).items()}


WORK = {
    "frechet_distance": frechet,
    "kernel_distance": kernel,
    "kernel_distances": kernel_of_subsets,
    "precision_recall": precision,
    "discriminator_accuracy": discriminator,
    "discriminator_accuracy_one_penalty": discriminator_one_penalty,
    "torch-fidelity fid": lambda x, y: fidelity(x, y, "fid"),
    "torch-fidelity kid": lambda x, y: fidelity(x, y, "kid"),
    "torch-fidelity kid_subsets": lambda x, y: fidelity(x, y, "kid_subsets"),
    "torch-fidelity prc": lambda x, y: fidelity(x, y, "prc"),
    "prdc": prdc,
}
RIVALS = {
    "torch-fidelity fid": "frechet_distance",
    "torch-fidelity kid": "kernel_distance",
    "torch-fidelity kid_subsets": "kernel_distances",
    "torch-fidelity prc": "precision_recall",
    "prdc": "precision_recall",
}


class FirstBlocks:
    """Stands for `ordered_map`: does the first tasks, repeats the result of the last, and adds up what the rest would cost."""

    def __init__(self, ordered_map: Callable[..., Iterator[object]]) -> None:
        self.ordered_map, self.rest_cpu = ordered_map, 0.0

    def __call__(self, function: Callable, tasks: Iterable, threads: int, **options: int) -> Iterator[object]:
        tasks = list(tasks)
        begun = time.process_time()
        done = list(self.ordered_map(function, tasks[:FIRST], threads, **options))
        self.rest_cpu += (time.process_time() - begun) / len(done) * (len(tasks) - len(done))
        return iter(done + [done[-1]] * (len(tasks) - len(done)))


def child(name: str, n: int, d: int, first: bool) -> None:
    x, y = samples(n, d)
    WORK[name](x[:1000, :8].copy(), y[:1000, :8].copy())  # imports and first calls are not measured
    rest = 0.0
    wall, cpu = time.perf_counter(), time.process_time()
    if first:
        from mallow.baselines import _features as features

        features._TILE = 200 * n  # the blocks divide the samples, so that all have one shape; 0.84e7 as it is
        features.ordered_map = blocks = FirstBlocks(features.ordered_map)
        WORK[name](x, y)
        value, rest = None, blocks.rest_cpu
    else:
        value = WORK[name](x, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": wall, "cpu_seconds": cpu, "rest_cpu": rest, "peak_bytes": peak, "value": value}))


def run(python: str, name: str, shape: tuple[int, int], *, first: bool = False) -> dict:
    command = [python, str(Path(__file__).resolve()), "--child", name, *map(str, shape), *["first"] * first]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    times = {"seconds": round(found["seconds"], 2), "cpu_seconds": round(found["cpu_seconds"], 2)}
    if first:
        times = {"cpu_seconds_extrapolated": round(found["cpu_seconds"] + found["rest_cpu"])}
    peak = found["peak_bytes"]
    memory = {"peak_gb": round(peak / 1e9, 2), "peak_times_the_samples": round(peak / (8 * shape[0] * shape[1]), 2)}
    return times | memory | ({} if first else {"value": found["value"]})


def against(python: str) -> dict:
    """The least CPU seconds of a few turns each, and the ratio."""
    turns: dict[str, list[dict]] = {name: [] for name in (*RIVALS, *RIVALS.values())}
    for _ in range(TURNS):
        for name, found in turns.items():
            found.append(run(python if name in RIVALS else sys.executable, name, PEERS))
    best = {name: min(found, key=lambda one: one["cpu_seconds"]) for name, found in turns.items()}
    for theirs, ours in RIVALS.items():
        best[theirs]["times_the_cpu_of_mallow"] = round(best[theirs]["cpu_seconds"] / best[ours]["cpu_seconds"], 1)
        best[theirs]["times_the_memory_of_mallow"] = round(best[theirs]["peak_gb"] / best[ours]["peak_gb"], 1)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", nargs="+")
    parser.add_argument("--peers")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--large", choices=["first", "full"])
    options = parser.parse_args()
    if options.child:
        name, n, d, *first = options.child
        return child(name, int(n), int(d), bool(first))

    import mallow
    from mallow.engine import cores

    target = Path(__file__).with_suffix(".json")
    result = json.loads(target.read_text()) if target.exists() else {}
    result |= {"mallow": mallow.__version__, "numpy": np.__version__, "cores": cores()}
    if options.peers:
        result["5000x512"] = against(options.peers)
    if options.small:
        result["5000x1024"] = {"discriminator_accuracy": run(sys.executable, "discriminator_accuracy", MIDDLE)}
    if options.large:
        pairs, first = ("kernel_distance", "precision_recall"), options.large == "first"
        names = ("frechet_distance", *pairs, "discriminator_accuracy_one_penalty")
        result["50000x2048"] = {name: run(sys.executable, name, LARGE, first=first and name in pairs) for name in names}
    text = json.dumps(result, indent=1)
    print(text)
    target.write_text(text + "\n")


if __name__ == "__main__":
    main()
