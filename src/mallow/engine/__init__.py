"""How work is spread over threads, and how its progress is shown.

Tasks are blocks of fixed shape whose results are combined in a fixed order: the same bits on any number of threads.
"""

from mallow.engine._progress import bar, quiet
from mallow.engine._threads import cores, ordered_map, single_threaded_blas

__all__ = ["bar", "cores", "ordered_map", "quiet", "single_threaded_blas"]
