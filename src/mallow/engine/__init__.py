"""How work is spread: tasks over blocks of fixed shape, summed in a fixed order: the same bits on any threads."""

from mallow.engine._progress import bar, quiet
from mallow.engine._threads import cores, ordered_map, single_threaded_blas

__all__ = ["bar", "cores", "ordered_map", "quiet", "single_threaded_blas"]
