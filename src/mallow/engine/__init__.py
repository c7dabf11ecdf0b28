"""How work is spread over threads or a cluster, and how its progress is shown.

Tasks are blocks whose results are exact, or are combined in a fixed order. Any number of threads or workers gives
the same bits.
"""

from mallow.engine._engine import AnyEngine, Engine, Passes, Threads, memory_budget, open_engine, resolve_engine
from mallow.engine._exact import DOUBLE, SINGLE, bits_for_squares, round_to, settle, unit_rows
from mallow.engine._progress import bar, expect, overall, quiet
from mallow.engine._ray import Ray
from mallow.engine._threads import cores, one_core, ordered_map, run_now, single_threaded_blas, start, worker_pool

__all__ = ["Engine", "Ray", "Threads"]
