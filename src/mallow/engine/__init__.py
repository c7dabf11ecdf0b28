"""How work is spread over threads or a cluster, and how its progress is shown.

Tasks are blocks whose results are exact, or are combined in a fixed order. Any number of threads or workers gives
the same bits.
"""

from mallow.engine._engine import AnyEngine, Engine, Passes, Threads, memory_budget, open_engine, resolve_engine
from mallow.engine._progress import bar, expect, overall, quiet
from mallow.engine._ray import Ray
from mallow.engine._same_bits import (
    DOUBLE,
    SINGLE,
    bits_for_squares,
    cores,
    one_core,
    ordered_map,
    round_to,
    run_now,
    settle,
    single_threaded_blas,
    start,
    unit_rows,
    worker_pool,
)

__all__ = ["Engine", "Ray", "Threads"]
