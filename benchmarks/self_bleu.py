"""Self-BLEU of 5,000 texts of 256 tokens, against the usual way: NLTK, one text after another, each against all others.

    pip install nltk
    python benchmarks/self_bleu.py

The texts are drawn from a bigram model of the manual that every Python carries, so that n-grams are shared as in real text.
NLTK takes some seconds a text: it runs on a few in the same process, before and after, and its time for all is
extrapolated. The ratio is of CPU seconds, so that other work on the machine does not count; both ways have one thread.
"""

from __future__ import annotations

import json
import platform
import pydoc_data.topics
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

import mallow
from mallow.baselines._text import text_self_bleus, text_statistics
from mallow.models import words

TEXTS, TOKENS, USUAL = 5_000, 256, 20


def drawn() -> list[list[str]]:
    """Texts of a bigram model: from a token on to what follows it at a random place of the manual where it stands."""
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


def usual(texts: list[list[str]], chosen: np.ndarray) -> np.ndarray:
    smooth = SmoothingFunction().method1
    others = ((texts[:i] + texts[i + 1 :], texts[i]) for i in chosen)
    return np.array([sentence_bleu(references, text, smoothing_function=smooth) for references, text in others])


def timed(work) -> tuple:
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    texts = drawn()
    assert len(texts) == TEXTS
    assert {len(text) for text in texts} == {TOKENS}
    chosen = np.random.default_rng(1).choice(TEXTS, USUAL, replace=False)
    before, _, before_cpu = timed(lambda: usual(texts, chosen[: USUAL // 2]))
    found, wall, cpu = timed(lambda: text_self_bleus(texts))
    statistics, all_wall, _ = timed(lambda: text_statistics(texts))
    after, _, after_cpu = timed(lambda: usual(texts, chosen[USUAL // 2 :]))
    usual_cpu = (before_cpu + after_cpu) / USUAL * TEXTS
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
        "nltk_texts_measured": USUAL,
        "nltk_cpu_seconds_a_text": round(usual_cpu / TEXTS, 2),
        "nltk_cpu_seconds_extrapolated": round(usual_cpu),
        "times_less_cpu": round(usual_cpu / cpu),
        "largest_difference": float(np.abs(found[chosen] - np.concatenate([before, after])).max()),
    }
    text = json.dumps(result, indent=1)
    print(text)
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
