"""How work is spread over threads, and how its progress is shown.

Tasks are blocks of fixed shape whose results are combined in a fixed order: the same bits on any number of threads.
"""

from mallow.engine._exact import DOUBLE, SINGLE, bits_for_squares, round_to, settle, unit_rows
from mallow.engine._progress import bar, quiet
from mallow.engine._threads import cores, ordered_map, run_now, single_threaded_blas, start

__all__ = [
    "DOUBLE",
    "SINGLE",
    "bar",
    "bits_for_squares",
    "cores",
    "ordered_map",
    "quiet",
    "round_to",
    "run_now",
    "settle",
    "single_threaded_blas",
    "start",
    "unit_rows",
]
