"""Feature metrics: seconds and memory for 50,000 × 2,048 per side, and compared with torch-fidelity and prdc.

    python benchmarks/feature_metrics.py [--peers PYTHON] [--small] [--large first | full]

Every measurement runs in a process of its own. Memory is the peak of the process, including samples and libraries. The other
packages run on the same features, 5,000 × 512 per side, with the interpreter PYTHON of an environment that has them (`pip
install prdc==0.2 torch==2.13.0 torch-fidelity==0.4.0`); torchvision is not needed by the functions that are called here, and is
replaced by an empty module. The ratios are those of CPU seconds of alternating runs, so that other work on the machine does not
count.

`--large full` takes about 10 minutes of CPU time. `--large first` computes only the first blocks of the kernel distance and of
precision and recall: all blocks have the same shape, so that the memory is that of the full computation, and the CPU seconds are
extrapolated. `--small` measures 5,000 samples. Results that are not requested stay in the file unchanged.
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
FIRST = 4  # blocks from which the time of all is extrapolated


def samples(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two float32 samples with a decreasing spectrum and a positive mean, like image features."""
    rng = np.random.default_rng(0)
    scale = np.arange(1, d + 1, dtype=np.float32) ** np.float32(-0.5)
    x, y = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(2))
    for side, shift, factor in ((x, 0.4, 1.0), (y, 0.42, 1.05)):
        side *= scale * np.float32(factor)
        side += np.float32(shift)
    return x, y


# --- the metrics; they are imported inside, because the other packages run where mallow is not installed


def frechet(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines import frechet_distance

    return frechet_distance(x, y)


def kernel(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines import kernel_distance

    return kernel_distance(x, y)


def kernel_of_subsets(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines import kernel_distances

    return vars(kernel_distances(x, y))


def precision(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines import precision_recall

    return vars(precision_recall(x, y))


def discriminator(x: np.ndarray, y: np.ndarray) -> object:
    from mallow.baselines import discriminator_accuracy

    return discriminator_accuracy(x, y - np.float32(0.0195))  # otherwise the two separate immediately


def discriminator_one_penalty(x: np.ndarray, y: np.ndarray) -> object:
    """Needs the memory of the full metric in a fraction of its time: one penalty and few steps."""
    import warnings
    from functools import partial

    from mallow.baselines import _discriminator
    from mallow.estimate import _classifier

    _discriminator.choose_penalty = partial(_classifier.choose_penalty, penalties=(1e4,))
    _classifier._MOST_STEPS = 5
    warnings.simplefilter("ignore")
    return _discriminator.discriminator_accuracy(x, y)


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
    """Replaces `ordered_map`: runs the first tasks, repeats the last result, and adds up what the other tasks would cost."""

    def __init__(self, ordered_map: Callable[..., Iterator[object]]) -> None:
        self.ordered_map, self.rest_cpu = ordered_map, 0.0

    def __call__(self, function: Callable, tasks: Iterable, threads: int, **options: int) -> Iterator[object]:
        tasks = list(tasks)
        start = time.process_time()
        done = list(self.ordered_map(function, tasks[:FIRST], threads, **options))
        self.rest_cpu += (time.process_time() - start) / len(done) * (len(tasks) - len(done))
        return iter(done + [done[-1]] * (len(tasks) - len(done)))


def child(name: str, n: int, d: int, first: bool) -> None:
    """Measure one metric in this process and print the result as JSON."""
    x, y = samples(n, d)
    WORK[name](x[:1000, :8].copy(), y[:1000, :8].copy())  # imports and first calls are excluded
    rest = 0.0
    wall, cpu = time.perf_counter(), time.process_time()
    if first:
        from mallow.baselines import _kernel_distance, _precision_recall
        from mallow.engine import ordered_map

        _precision_recall._TILE = 200 * n  # all blocks have the same shape, as 200 divides n; the default is 0.84e7
        _kernel_distance.ordered_map = _precision_recall.ordered_map = blocks = FirstBlocks(ordered_map)
        WORK[name](x, y)
        value, rest = None, blocks.rest_cpu
    else:
        value = WORK[name](x, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": wall, "cpu_seconds": cpu, "rest_cpu": rest, "peak_bytes": peak, "value": value}))


def measure(python: str, name: str, shape: tuple[int, int], *, first: bool = False) -> dict:
    """The measurement of one metric in a new process."""
    command = [python, str(Path(__file__).resolve()), "--child", name, *map(str, shape), *["first"] * first]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    times = {"seconds": round(measured["seconds"], 2), "cpu_seconds": round(measured["cpu_seconds"], 2)}
    if first:
        times = {"cpu_seconds_extrapolated": round(measured["cpu_seconds"] + measured["rest_cpu"])}
    peak = measured["peak_bytes"]
    memory = {"peak_gb": round(peak / 1e9, 2), "peak_times_the_samples": round(peak / (8 * shape[0] * shape[1]), 2)}
    return times | memory | ({} if first else {"value": measured["value"]})


def against(python: str) -> dict:
    """The least CPU seconds of a few runs of each package, and their ratios to mallow."""
    turns: dict[str, list[dict]] = {name: [] for name in (*RIVALS, *RIVALS.values())}
    for _ in range(TURNS):
        for name, runs in turns.items():
            runs.append(measure(python if name in RIVALS else sys.executable, name, PEERS))
    best = {name: min(runs, key=lambda run: run["cpu_seconds"]) for name, runs in turns.items()}
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
        result["5000x1024"] = {"discriminator_accuracy": measure(sys.executable, "discriminator_accuracy", MIDDLE)}
    if options.large:
        pairs, first = ("kernel_distance", "precision_recall"), options.large == "first"
        names = ("frechet_distance", *pairs, "discriminator_accuracy_one_penalty")
        result["50000x2048"] = {
            name: measure(sys.executable, name, LARGE, first=first and name in pairs) for name in names
        }
    text = json.dumps(result, indent=1)
    print(text)
    target.write_text(text + "\n")


if __name__ == "__main__":
    main()
