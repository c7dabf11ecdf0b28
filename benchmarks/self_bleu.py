"""Self-BLEU of 5,000 texts of 256 tokens, compared with the usual way: NLTK, one text at a time against all others.

    pip install nltk
    python benchmarks/self_bleu.py

The texts are drawn from a bigram model of the manual that every Python carries, so that n-grams are shared as in real text.
NLTK takes several seconds per text: it runs on a few texts in the same process, half of them before and half of them after
mallow, and its time for all texts is extrapolated. The ratio is that of CPU seconds, so that other work on the machine does
not count; both use one thread.
"""

from __future__ import annotations

import json
import platform
import pydoc_data.topics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import numpy as np
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

import mallow
from mallow.baselines import text_self_bleus, text_statistics
from mallow.models import words

Result = TypeVar("Result")

TEXTS, TOKENS, NLTK_TEXTS = 5_000, 256, 20


def draw_texts() -> list[list[str]]:
    """Texts of a bigram model: each token is followed by its successor at a random place of the manual where it occurs."""
    manual = np.array([word for text in pydoc_data.topics.topics.values() for word in words(text)])
    _, token = np.unique(manual, return_inverse=True)
    count = np.bincount(token)
    first, places = np.cumsum(count) - count, np.argsort(token, kind="stable")  # places of token t: first[t] …
    rng = np.random.default_rng(0)
    walk = [rng.integers(0, len(manual), TEXTS)]
    for _ in range(TOKENS - 1):
        now = token[walk[-1]]
        walk.append((places[first[now] + rng.integers(0, count[now])] + 1) % len(manual))
    return manual[np.array(walk).T].tolist()


def nltk_self_bleus(texts: list[list[str]], chosen: np.ndarray) -> np.ndarray:
    """The self-BLEU of some of the texts by NLTK."""
    smooth = SmoothingFunction().method1
    others = ((texts[:i] + texts[i + 1 :], texts[i]) for i in chosen)
    return np.array([sentence_bleu(references, text, smoothing_function=smooth) for references, text in others])


def timed(work: Callable[[], Result]) -> tuple[Result, float, float]:
    """A result, with the wall-clock and CPU seconds it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    texts = draw_texts()
    assert len(texts) == TEXTS
    assert {len(text) for text in texts} == {TOKENS}
    chosen = np.random.default_rng(1).choice(TEXTS, NLTK_TEXTS, replace=False)
    before, _, before_cpu = timed(lambda: nltk_self_bleus(texts, chosen[: NLTK_TEXTS // 2]))
    values, wall, cpu = timed(lambda: text_self_bleus(texts))
    statistics, all_wall, _ = timed(lambda: text_statistics(texts))
    after, _, after_cpu = timed(lambda: nltk_self_bleus(texts, chosen[NLTK_TEXTS // 2 :]))
    nltk_cpu = (before_cpu + after_cpu) / NLTK_TEXTS * TEXTS
    result = {
        "mallow": mallow.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "nltk": version("nltk"),
        "texts": TEXTS,
        "tokens": TOKENS,
        "self_bleu": round(statistics.self_bleu, 4),
        "seconds": round(wall, 2),
        "cpu_seconds": round(cpu, 2),
        "all_text_statistics_seconds": round(all_wall, 2),
        "nltk_texts_measured": NLTK_TEXTS,
        "nltk_cpu_seconds_a_text": round(nltk_cpu / TEXTS, 2),
        "nltk_cpu_seconds_extrapolated": round(nltk_cpu),
        "times_less_cpu": round(nltk_cpu / cpu),
        "largest_difference": float(np.abs(values[chosen] - np.concatenate([before, after])).max()),
    }
    text = json.dumps(result, indent=1)
    print(text)
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
