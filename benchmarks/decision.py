"""What a right decision costs, in samples and processor seconds: python benchmarks/decision.py [--trials 20] [--most 200] [WORD ...]

Each row is a real alternative: texts of a decoder against human texts of other prompts, or human texts among which a share
was written by a machine. For each way to decide, it looks for the number of samples per side at which a gap is found in 80%
of the trials at level 5%, doubling from 25 up to `--most`; the numbers in between were not tried. The seconds are the
processor time of one decision with so many samples, from texts in memory to a verdict: embedding, measured on 24 of the texts,
and the call, the median of three. Trials take the p-value alone, which is the one that `mallow.score` prints.

Ways: `mallow score --fast` (style), `mallow score` (MiniLM), and on the same MiniLM features the maximum mean discrepancy with
the median width and the energy distance, both by 499 permutations; mauve-text as it is usually read, by whether the score is
below those of the reference against itself: the first half of the reference against as many texts of the model, and 19 random
splits of the reference into halves, so that a lower score than all of them has p = 0.05; and TF-IDF with logistic regression, whose accuracy in five
folds is compared with chance by a binomial test. All trials of a row and of a way are kept in decision.json: run it again for
more rows (words in their names choose some), and for other ways after adding them to WAYS.
Writes decision.json beside this file; `python benchmarks/report.py` draws the picture.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import binom

import mallow
from mallow.embed import embed_samples, find_embedder, style
from mallow.generate import NGram, generate

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data"
RESULTS = HERE / "decision.json"
LEVEL, POWER, PERMUTATIONS, LEAST = 0.05, 0.8, 499, 25
SPLITS = 19  # of the reference into halves; the least p-value is 0.05
Texts = tuple[list[str], list[str]]


def lines(path: str) -> list[dict]:
    with gzip.open(DATA / path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@cache
def decoder(name: str) -> list[str]:
    """The first text of each prompt, without white space around it; empty ones are left out."""
    rows = lines(f"webtext-gpt2-large/{name}.jsonl.gz")
    texts = [(row["gen"][0] if isinstance(row["gen"], list) else row["gen"]).strip() for row in rows]
    return [text for text in texts if text]


@cache
def corpus(name: str) -> Texts:
    """Human texts of 130 words, and 400 continuations by a 5-gram model that was fitted on others."""
    file = {"stories": "classic-books/classic_books_chunks", "news": "reuters/reuters_c50"}[name]
    cut = [" ".join(row["text"].split()[:130]) for row in lines(f"{file}.jsonl.gz")]
    model = NGram.fit(cut[1::2], order=5)
    tokens = [model.encode(text) for text in cut[1::4]][:400]
    starts, longest = [text[:10] for text in tokens], max(map(len, tokens)) - 10
    new = generate(model, starts, "nucleus:0.95", max_new=longest, min_new=longest, rng=14, batch=len(starts))
    machine = [model.decode([*a, *b[: len(c) - 10]]) for a, b, c in zip(starts, new, tokens, strict=True)]
    return cut[::2], machine


def other_prompts(name: str) -> Callable[[int, np.random.Generator], Texts]:
    """Human texts, and texts of a decoder for other prompts."""

    def draw(n: int, rng: np.random.Generator) -> Texts:
        human, machine = decoder("human"), decoder(name)
        order = rng.permutation(min(len(human), len(machine), POOL))
        return [human[row] for row in order[:n]], [machine[row] for row in order[n : 2 * n]]

    return draw


def mixed(name: str, share: float) -> Callable[[int, np.random.Generator], Texts]:
    """Human texts, and others of which a share was written by a machine."""

    def draw(n: int, rng: np.random.Generator) -> Texts:
        human, machine = corpus(name)
        replaced, order = round(share * n), rng.permutation(min(len(human), POOL))
        own = [human[row] for row in order[n : 2 * n - replaced]]
        return [human[row] for row in order[:n]], own + [
            machine[row] for row in rng.permutation(len(machine))[:replaced]
        ]

    return draw


ROWS = {
    **{
        f"{name}, other prompts": other_prompts(name)
        for name in ("greedy", "beam", "contrastive", "typical", "topk", "nucleus")
    },
    **{f"{name}, {share:.0%} machine": mixed(name, share) for name in ("stories", "news") for share in (0.4, 0.2, 0.1)},
}


# --- ways to decide: texts of both sides → p-value


@cache
def default_embedder():
    return find_embedder(None, kind="text")


def features(texts: list[str]) -> np.ndarray:
    return embed_samples(texts, default_embedder()).features


def with_features(texts: list[str]) -> mallow.Samples:
    """The samples as `mallow.score` has them after embedding, from the cache."""
    return embed_samples(texts, default_embedder())


def fast(x: list[str], y: list[str]) -> float:
    return float(mallow.permutation_test(x, y, embedder=style, permutations=PERMUTATIONS))


def default(x: list[str], y: list[str]) -> float:
    return float(mallow.permutation_test(with_features(x), with_features(y), permutations=PERMUTATIONS))


def score_fast(x: list[str], y: list[str]) -> float:
    return mallow.score(x, y, embedder=style).p_value


def score_default(x: list[str], y: list[str]) -> float:
    return mallow.score(with_features(x), with_features(y)).p_value


def permuted(kernel: np.ndarray, n: int) -> float:
    """The p-value of the squared discrepancy of a kernel, by exchanging samples."""
    size = len(kernel)
    weights = np.where(np.arange(size) < n, 1.0 / n, -1.0 / (size - n))
    drawn = np.random.default_rng(0).permuted(np.tile(weights, (PERMUTATIONS, 1)), axis=1)
    every = np.concatenate([weights[None], drawn])
    values = np.einsum("ij,ij->i", every @ kernel, every)
    return float(np.mean(values >= values[0] - 1e-12))


def distances(x: list[str], y: list[str]) -> np.ndarray:
    return squareform(pdist(np.concatenate([features(x), features(y)]).astype(np.float64)))


def discrepancy(x: list[str], y: list[str]) -> float:
    gaps = distances(x, y)
    return permuted(np.exp(-(gaps**2) / (2.0 * np.median(gaps[gaps > 0]) ** 2)), len(x))


def energy(x: list[str], y: list[str]) -> float:
    return permuted(-distances(x, y), len(x))


def mauve_text(x: list[str], y: list[str]) -> float:
    import mauve

    def value(p: np.ndarray, q: np.ndarray) -> float:
        return float(mauve.compute_mauve(p_features=p, q_features=q, verbose=False, seed=0).mauve)

    human, machine, half = features(x), features(y), len(x) // 2
    rng = np.random.default_rng(0)
    splits = [rng.permutation(len(x)) for _ in range(SPLITS)]
    itself = [value(human[order[:half]], human[order[half : 2 * half]]) for order in splits]
    against_model = value(human[:half], machine[:half])
    return (1 + sum(score <= against_model for score in itself)) / (1 + SPLITS)


def words(x: list[str], y: list[str]) -> float:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    labels = np.repeat([0, 1], [len(x), len(y)])
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    right = int((cross_val_predict(model, [*x, *y], labels, cv=folds) == labels).sum())
    return float(binom.sf(right - 1, len(labels), 0.5))


WAYS = {  # name: the decision of a trial, what is timed, whether texts are embedded by MiniLM
    "mallow score --fast": (fast, score_fast, False),
    "mallow score": (default, score_default, True),
    "MMD on MiniLM": (discrepancy, discrepancy, True),
    "energy distance on MiniLM": (energy, energy, True),
    "mauve-text on MiniLM": (mauve_text, mauve_text, True),
    "TF-IDF and logistic regression": (words, words, False),
}


# --- measuring


def seconds(function: Callable[..., object], *arguments: object) -> float:
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def embedding_seconds(texts: list[str]) -> float:
    """Processor seconds of a text, on one thread."""
    some = texts[:24]
    default_embedder()(some[:1])
    return seconds(default_embedder(), some) / len(some)


def sizes(most: int) -> Iterator[int]:
    n = LEAST
    while n <= most:
        yield n
        n *= 2


def measure(row: str, way: str, trials: int, most: int, known: dict) -> dict:
    """The shares of gaps found by size, and the size and seconds of a decision, if one was found."""
    decide, timed, embeds = WAYS[way]
    found: dict[str, str] = known.get("trials", {})
    for n in sizes(most):
        marks = found.get(str(n), "")
        while len(marks) < trials:
            x, y = ROWS[row](n, np.random.default_rng([n, len(marks)]))
            marks += str(int(decide(x, y) <= LEVEL))
            if marks.count("0") > trials * (1.0 - POWER) + 1e-9:  # it cannot get there
                break
        found[str(n)] = marks
        if len(marks) >= trials and marks.count("1") >= POWER * len(marks) - 1e-9:
            x, y = ROWS[row](n, np.random.default_rng([n, 0]))
            call = float(np.median([seconds(timed, x, y) for _ in range(3)]))
            own = 2 * n * embedding_seconds([*x, *y]) if embeds else 0.0
            return {"trials": found, "samples per side": n, "call (s)": round(call, 3), "embedding (s)": round(own, 2)}
    return {"trials": found, "more than": most}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="measure rows whose names contain one of these")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--most", type=int, default=400, help="samples per side that are tried at most")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    global POOL
    POOL = max(2 * chosen.most, 2 * LEAST)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    results["about"] = {
        "mallow": mallow.__version__,
        "threads": 1,
        "trials": chosen.trials,
        "most": chosen.most,
        "level": LEVEL,
        "power": POWER,
    }
    for row in ROWS:
        if chosen.words and not any(word in row for word in chosen.words):
            continue
        for way in WAYS:
            known = results["rows"].setdefault(row, {})
            known[way] = measure(row, way, chosen.trials, chosen.most, known.get(way, {}))
            print(row, way, known[way], flush=True)
            RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


POOL = 800  # texts of a side that are drawn from; set by --most

if __name__ == "__main__":
    main()
