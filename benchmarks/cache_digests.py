"""What the digests of cached features cost: the processor time of a score whose features are all cached, and of their check.

python benchmarks/cache_digests.py        about a minute; prints one line per size
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import mallow
from mallow.embed import Cache
from mallow.embed._cache import CacheFile, sample_key

SIZES = ((1000, 384), (5000, 384), (5000, 2048))
RUNS = 7


class Points:
    """An embedder of random points, with a name, so that its rows are cached."""

    kind = "text"

    def __init__(self, width: int) -> None:
        self.name, self.width = f"Points({width})", width

    def __call__(self, texts: list[str]) -> np.ndarray:
        return np.random.default_rng(len(texts)).normal(size=(len(texts), self.width)).astype(np.float32)


def processor_time(work) -> float:
    """Seconds of processor time that the work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main(folder: str) -> None:
    """Print one line per size."""
    os.environ["MALLOW_CACHE"] = folder
    warnings.simplefilter("ignore")
    cache, check = Cache(Path(folder)), CacheFile._is_intact
    for n, width in SIZES:
        sides = [[f"text {i} of {side}" for i in range(n)] for side in ("people", "a model")]
        embedder = Points(width)
        mallow.score(*sides, embedder=embedder)
        whole = processor_time(lambda sides=sides, embedder=embedder: mallow.score(*sides, embedder=embedder))
        keys = [[sample_key(text) for text in side] for side in sides]

        def load(keys=keys, name=embedder.name) -> None:
            for side in keys:
                cache.load(name, side)

        with_check = statistics.median(processor_time(load) for _ in range(RUNS))
        CacheFile._is_intact = lambda *_: True
        without = statistics.median(processor_time(load) for _ in range(RUNS))
        CacheFile._is_intact = check
        cost = with_check - without
        print(
            f"2 x {n:,} x {width:,}: score {whole:.2f} s, digests {1000 * cost:.0f} ms, {100 * cost / whole:.1f}%",
            flush=True,
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        print(__doc__) if "--help" in sys.argv else main(home)
