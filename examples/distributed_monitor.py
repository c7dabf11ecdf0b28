"""One monitor over several processes that train together: each counts its own samples, and the sums are added up.

Two processes on this machine, connected by torch.distributed (gloo, on the loopback interface), take the place of the machines of a
cluster. Process 0 fits the monitor on real data and sends it to all. In each step every process counts a batch of its own; then process
0 merges what all of them have counted, and looks. At the end it shows that one process alone, with all the samples, finds the same score,
to the last bit.

The model is a Gaussian that drifts away from the data, so that the alarm sounds after some steps.

    python examples/distributed_monitor.py
"""

import copy
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from socket import create_server

import numpy as np

from mallow import EstimateWarning, Measure, Monitor, Quantize

PROCESSES, STEPS, BATCH, WIDTH = 2, 8, 50, 16


def real_data():
    return np.random.default_rng(0).normal(size=(2000, WIDTH))


def batch_of(process, step):
    drift = 0.08 * step
    return np.random.default_rng([1, process, step]).normal(drift, 1.0, size=(BATCH, WIDTH))


def watch(process, port):
    import torch.distributed as dist  # here: only these processes need it

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the interface; on a cluster, that of its network
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=process, world_size=PROCESSES)
    try:
        start = [Monitor(real_data(), measure=Measure(Quantize(bins=50))) if process == 0 else None]
        dist.broadcast_object_list(start, src=0)
        total = copy.deepcopy(start[0])
        for step in range(STEPS):
            mine = copy.deepcopy(start[0])  # the samples of this step
            mine.update(batch_of(process, step))
            counted = [None] * PROCESSES if process == 0 else None
            dist.gather_object(mine, counted, dst=0)
            if process == 0:
                for part in counted:
                    total.merge(part)
                print(f"step {step}: {total.n[1]} samples, p = {total.p_value:.4f}{', ALARM' if total.alarm else ''}")
        if process == 0:
            compare_with_one_process(start[0], total)
    finally:
        dist.destroy_process_group()


def compare_with_one_process(alone, total):
    for step in range(STEPS):
        alone.update(np.concatenate([batch_of(process, step) for process in reversed(range(PROCESSES))]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # fewer than 1,000 samples
        one, many = alone.compute(), total.compute()
    print(
        f"MAUVE of {PROCESSES} processes: {many.mauve:.4f}; a perfect model gets about {many.self_score['mauve']:.4f}."
    )
    # The certified bound is of one process alone: it rests on bets in the order of the samples.
    if any(getattr(one, name) != getattr(many, name) for name in ("mauve", "interval", "debiased", "p_value")):
        raise SystemExit("One process with all samples has another result: this must not happen.")
    print("One process with all samples finds the same score, to the last bit.")


if __name__ == "__main__":
    with create_server(("127.0.0.1", 0)) as server:  # a port that is free
        port = server.getsockname()[1]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        list(pool.map(watch, range(PROCESSES), [port] * PROCESSES))
