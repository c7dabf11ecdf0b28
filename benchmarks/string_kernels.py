"""All similarities of 2,000 texts of 256 tokens by string kernels, against the full table of dynamic programming.

    python benchmarks/string_kernels.py

The texts are Reuters stories, in ../shared beside the repository, cut to exactly 256 tokens. What one writes first for
the subsequence kernel is the table over all places of both texts, one row of NumPy at a time; it runs on a few pairs in
the same process, before and after, and its time for all pairs is extrapolated. The ratio is of CPU seconds, so that other
work on the machine does not count; the plain way has one thread.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import numba
import numpy as np
from scipy.signal import lfilter

import mallow
from mallow.embed._string_kernels import _SIGNATURE, NGramKernel, SubsequenceKernel, _compiled, _products_with, words
from mallow.engine import cores

TEXTS, TOKENS, N, DECAY, PLAIN_PAIRS = 2_000, 256, 5, 0.5, 20
STORIES = Path(__file__).resolve().parents[2] / "shared" / "data" / "reuters" / "reuters_c50.jsonl.gz"


def stories() -> list[str]:
    with gzip.open(STORIES, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    shuffled = (texts[i] for i in np.random.default_rng(0).permutation(len(texts)))
    cut = (words(text)[:TOKENS] for text in shuffled)
    distinct = dict.fromkeys(tuple(tokens) for tokens in cut if len(tokens) == TOKENS)
    return [" ".join(tokens) for tokens in distinct][:TEXTS]


def plain(x: list[str], y: list[str]) -> float:
    """κ(x, y) by the full table: every place of x against all places of y, level by level."""
    of_y = np.array(y)
    columns = np.zeros((N - 1, len(y)))  # of each level, decayed down to the current row
    total = 0.0
    for token in x:
        equal = of_y == token
        before = np.zeros_like(columns)
        before[:, 1:] = lfilter([1.0], [1.0, -DECAY], columns, axis=1)[:, :-1]
        total += before[-1] @ equal
        columns *= DECAY
        columns[0] += equal
        columns[1:] += before[:-1] * equal
    return total * DECAY ** (2 * N)


def timed(work) -> tuple[np.ndarray, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    texts = stories()
    tokens = [words(text) for text in texts]
    assert len(texts) == TEXTS
    assert {len(sequence) for sequence in tokens} == {TOKENS}
    chosen = np.random.default_rng(1).integers(0, TEXTS, (2 * PLAIN_PAIRS, 2))

    def by_table(pairs: np.ndarray) -> np.ndarray:
        return np.array([plain(tokens[i], tokens[j]) for i, j in pairs])

    # At the first call on a machine; where the cache is kept, later processes load it.
    _, compile_wall, compile_cpu = timed(lambda: numba.njit(_SIGNATURE, nogil=True)(_products_with))
    _compiled()
    first, _, first_cpu = timed(lambda: by_table(chosen[:PLAIN_PAIRS]))
    gram, wall, cpu = timed(lambda: SubsequenceKernel(n=N, decay=DECAY, normalise=False).gram(texts))
    second, _, second_cpu = timed(lambda: by_table(chosen[PLAIN_PAIRS:]))
    _, ngram_wall, ngram_cpu = timed(lambda: NGramKernel(n=3).gram(texts))
    kernel = SubsequenceKernel(n=N, decay=DECAY)
    points, points_wall, _ = timed(lambda: kernel.points(texts[:500]))  # similarities and all
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
    main()
