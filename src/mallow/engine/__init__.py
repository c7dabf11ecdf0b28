"""How work is spread: tasks over blocks of fixed shape, summed in a fixed order: the same bits on any threads."""

from mallow.engine.threads import cores, ordered_map, single_threaded_blas

__all__ = ["cores", "ordered_map", "single_threaded_blas"]
