"""All similarities of 2,000 texts of 256 tokens with string kernels, against the full table of dynamic programming.

    python benchmarks/string_kernels.py

The texts are Reuters stories, in ../shared beside the repository, cut to exactly 256 tokens. The straightforward way to
compute the subsequence kernel is a table over all places of both texts, one row of NumPy at a time. It runs on a few pairs
in the same process, before and after, and its time for all pairs is extrapolated. The ratio is one of CPU seconds, so that
other work on the machine does not count; the straightforward way uses one thread.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path

import numba
import numpy as np
from scipy.signal import lfilter

import mallow
from mallow.embed import NGramKernel, SubsequenceKernel
from mallow.embed._string_kernels import _SIGNATURE, _compiled, _fill_products
from mallow.engine import cores
from mallow.models import words

TEXTS, TOKENS, N, DECAY, PLAIN_PAIRS = 2_000, 256, 5, 0.5, 20
STORIES = Path(__file__).resolve().parents[2] / "shared" / "data" / "reuters" / "reuters_c50.jsonl.gz"


def read_stories() -> list[str]:
    """Distinct stories of exactly 256 tokens, in random order."""
    with gzip.open(STORIES, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    shuffled = (texts[i] for i in np.random.default_rng(0).permutation(len(texts)))
    cut = (words(text)[:TOKENS] for text in shuffled)
    distinct = dict.fromkeys(tuple(tokens) for tokens in cut if len(tokens) == TOKENS)
    return [" ".join(tokens) for tokens in distinct][:TEXTS]


def table_similarity(x: list[str], y: list[str]) -> float:
    """κ(x, y) by the full table: every place of x against all places of y, level by level."""
    places = np.array(y)
    columns = np.zeros((N - 1, len(y)))  # one row per level, decayed to the current place of x
    total = 0.0
    for token in x:
        equal = places == token
        before = np.zeros_like(columns)
        before[:, 1:] = lfilter([1.0], [1.0, -DECAY], columns, axis=1)[:, :-1]
        total += before[-1] @ equal
        columns *= DECAY
        columns[0] += equal
        columns[1:] += before[:-1] * equal
    return total * DECAY ** (2 * N)


def timed(work) -> tuple[np.ndarray, float, float]:
    """What the work returns, its wall-clock seconds and its CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    texts = read_stories()
    tokens = [words(text) for text in texts]
    assert len(texts) == TEXTS
    assert {len(sequence) for sequence in tokens} == {TOKENS}
    chosen = np.random.default_rng(1).integers(0, TEXTS, (2 * PLAIN_PAIRS, 2))

    def by_table(pairs: np.ndarray) -> np.ndarray:
        return np.array([table_similarity(tokens[i], tokens[j]) for i, j in pairs])

    # Compilation happens at the first call on a machine; later processes load the result from numba's cache.
    _, compile_wall, compile_cpu = timed(lambda: numba.njit(_SIGNATURE, nogil=True)(_fill_products))
    _compiled()
    first, _, first_cpu = timed(lambda: by_table(chosen[:PLAIN_PAIRS]))
    gram, wall, cpu = timed(lambda: SubsequenceKernel(n=N, decay=DECAY, normalise=False).gram(texts))
    second, _, second_cpu = timed(lambda: by_table(chosen[PLAIN_PAIRS:]))
    _, ngram_wall, ngram_cpu = timed(lambda: NGramKernel(n=3).gram(texts))
    kernel = SubsequenceKernel(n=N, decay=DECAY)
    points, points_wall, _ = timed(lambda: kernel.points(texts[:500]))  # the similarities included
    pairs = TEXTS * (TEXTS + 1) // 2
    plain_cpu = (first_cpu + second_cpu) / len(chosen) * pairs
    expected = np.concatenate([first, second])
    result = {
        "mallow": mallow.__version__,
        "numpy": np.__version__,
        "texts": TEXTS,
        "tokens": TOKENS,
        "pairs": pairs,
        "cores": cores(),
        "compile_seconds": round(compile_wall, 2),
        "compile_cpu_seconds": round(compile_cpu, 2),
        "subsequence_seconds": round(wall, 1),
        "subsequence_cpu_seconds": round(cpu, 1),
        "plain_cpu_seconds_extrapolated": round(plain_cpu),
        "times_less_cpu": round(plain_cpu / cpu),
        "relative_difference": float(np.max(np.abs(gram[chosen[:, 0], chosen[:, 1]] / expected - 1))),
        "ngram_seconds": round(ngram_wall, 2),
        "ngram_cpu_seconds": round(ngram_cpu, 2),
        "similarities_and_points_of_500_texts_seconds": round(points_wall, 1),
        "points_dimensions": points.shape[1],
    }
    text = json.dumps(result, indent=1)
    print(text)
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
