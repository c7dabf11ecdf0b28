"""What a right decision costs, in samples and processor seconds: python benchmarks/decision.py [--trials 20] [--most 800] [WORD ...]

Each row is a real alternative: texts of a decoder against human texts of other prompts, human texts among which a share was
written by a machine, or digits of a GAN against real ones. For each way to decide, it looks for the number of samples per side
at which a gap is found in 80% of the trials at level 5%, doubling from 25 up to `--most`; the numbers in between were not tried.
There are 1,000 prompts, so that decoders are tried with 400 samples per side at most. All samples of a row are embedded once,
and trials draw from them. The seconds are the processor time of one decision, from samples to a verdict: the call, the median
of three, and the embedding of its samples, measured on 24 of them.

Ways: `mallow score --fast` (style, or texture of images) and `mallow score` (MiniLM, or EfficientNet), by the p-value that they print.
On the same features: the maximum mean discrepancy with the median width and the energy distance, both by 499 permutations, and
mauve-text as it is usually read, by whether the score is below those of the reference against itself: the first half of the
reference against as many samples of the model, and 19 random splits of the reference into halves, so that a lower score than
all of them has p = 0.05. Of texts also TF-IDF with logistic regression, whose accuracy in five folds is compared with chance by
a binomial test.

mauve-text is not a dependency: pip install --no-deps mauve-text==0.4.0 faiss-cpu==1.15.1. All trials of a row and of a way are
kept in decision.json beside this file. Run it again for more rows (words in their names choose some), more trials or other ways;
several runs may work beside each other. `python benchmarks/report.py` draws the picture.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
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
from mallow import Samples
from mallow.embed import embed_samples, find_embedder
from mallow.generate import NGram, generate

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data"
RESULTS = HERE / "decision.json"
LEVEL, POWER, PERMUTATIONS, LEAST = 0.05, 0.8, 499, 25
SPLITS = 19  # of the reference into halves; the least p-value is 0.05
PEOPLE = 1600  # human texts and real digits that are drawn from
FAST = {"text": "style", "image": "texture"}


def lines(path: str) -> list[dict]:
    with gzip.open(DATA / path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# --- the samples of a row: those of people and those of a machine


def first_text(row: dict) -> str:
    return (row["gen"][0] if isinstance(row["gen"], list) else row["gen"]).strip()


def decoder(name: str) -> tuple[list[str], list[str]]:
    """Human texts and texts of a decoder for the same prompts, in one order, without those where one is empty."""
    sides = ([first_text(row) for row in lines(f"webtext-gpt2-large/{each}.jsonl.gz")] for each in ("human", name))
    human, machine = zip(*[pair for pair in zip(*sides, strict=True) if all(pair)], strict=True)
    return list(human), list(machine)


def corpus(name: str) -> tuple[list[str], list[str]]:
    """Human texts of 130 words, and 400 continuations by a 5-gram model that was fitted on others, in random order."""
    file = {"stories": "classic-books/classic_books_chunks", "news": "reuters/reuters_c50"}[name]
    rows = lines(f"{file}.jsonl.gz")  # sorted by book or author
    cut = [" ".join(rows[place]["text"].split()[:130]) for place in np.random.default_rng(14).permutation(len(rows))]
    model = NGram.fit(cut[1::2], order=5)
    tokens = [model.encode(text) for text in cut[1::4]][:400]
    starts, longest = [text[:10] for text in tokens], max(map(len, tokens)) - 10
    new = generate(model, starts, "nucleus:0.95", max_new=longest, min_new=longest, rng=14, batch=len(starts))
    machine = [model.decode([*a, *b[: len(c) - 10]]) for a, b, c in zip(starts, new, tokens, strict=True)]
    return cut[::2], machine


def digits(_: str) -> tuple[list[str], list[str]]:
    """Files of real digits, and of the digits of a GAN."""
    sys.path.insert(0, str(HERE.parent / "experiments" / "digits"))
    from data import gan, real
    from PIL import Image

    map_noise, synthesise, width = gan()
    rng, folder = np.random.default_rng(0), tempfile.mkdtemp()
    noise = rng.normal(size=(PEOPLE // 2, width)).astype(np.float32)
    sides = []
    for side, images in enumerate((real(rng)[:PEOPLE], synthesise(map_noise(noise)))):
        sides.append([f"{folder}/{side}-{number}.png" for number in range(len(images))])
        for path, image in zip(sides[-1], images, strict=True):
            Image.fromarray(image).save(path)
    return sides[0], sides[1]


@cache
def samples(maker: Callable[[str], tuple[list[str], list[str]]], name: str) -> tuple[Samples, int, float]:
    """All samples with the features of the default embedder, those of people first, their number, and seconds per embedding."""
    people, machine = maker(name)
    everything = [*people[:PEOPLE], *machine]
    kind = "image" if maker is digits else "text"
    bare = Samples(images=everything) if kind == "image" else Samples(texts=everything)
    embedder = find_embedder(None, kind=kind)
    places = np.random.default_rng(0).permutation(len(everything))[:24]
    some = [bare.items[place] for place in places]
    embedder(some[:1])
    return embed_samples(bare, embedder), min(len(people), PEOPLE), seconds(embedder, some) / len(some)


Pair = tuple[Samples, Samples]
Draw = Callable[[Samples, int, int, np.random.Generator], Pair]


def other_prompts(everything: Samples, people: int, n: int, rng: np.random.Generator) -> Pair:
    """Human texts, and machine texts for other prompts."""
    order = rng.permutation(people)
    return everything.take(order[:n]), everything.take(people + order[n : 2 * n])


def mixed(share: float) -> Draw:
    """Samples of people, and others among which a share is a machine's."""

    def draw(everything: Samples, people: int, n: int, rng: np.random.Generator) -> Pair:
        replaced, order = round(share * n), rng.permutation(people)
        machine = people + rng.permutation(len(everything) - people)[:replaced]
        return everything.take(order[:n]), everything.take([*order[n : 2 * n - replaced], *machine])

    return draw


ROWS: dict[str, tuple[Callable[[str], tuple[list[str], list[str]]], str, Draw, int]] = {
    **{
        f"{name}, other prompts": (decoder, name, other_prompts, 400)
        for name in ("greedy", "beam", "contrastive", "typical", "topk", "nucleus")
    },
    **{
        f"{name}, {share:.0%} machine": (corpus, name, mixed(share), 800)
        for name in ("stories", "news")
        for share in (0.4, 0.2, 0.1)
    },
    "digits of a GAN": (digits, "", mixed(1.0), 800),
}


# --- ways to decide: samples of both sides with features → p-value


def bare(side: Samples) -> Samples:
    """The samples without their features."""
    return Samples(texts=side.texts, images=side.images)


def fast(x: Samples, y: Samples) -> float:
    return float(mallow.permutation_test(bare(x), bare(y), embedder=FAST[x.kind], permutations=PERMUTATIONS))


def default(x: Samples, y: Samples) -> float:
    return float(mallow.permutation_test(x, y, permutations=PERMUTATIONS))


def score_fast(x: Samples, y: Samples) -> object:
    return mallow.score(bare(x), bare(y), embedder=FAST[x.kind])


def score_default(x: Samples, y: Samples) -> object:
    return mallow.score(x, y)


def permuted(kernel: np.ndarray, n: int) -> float:
    """The p-value of the squared discrepancy of a kernel, by exchanging samples."""
    size = len(kernel)
    weights = np.where(np.arange(size) < n, 1.0 / n, -1.0 / (size - n))
    drawn = np.random.default_rng(0).permuted(np.tile(weights, (PERMUTATIONS, 1)), axis=1)
    every = np.concatenate([weights[None], drawn])
    values = np.einsum("ij,ij->i", every @ kernel, every)
    return float(np.mean(values >= values[0] - 1e-12))


def distances(x: Samples, y: Samples) -> np.ndarray:
    return squareform(pdist(np.concatenate([x.features, y.features]).astype(np.float64)))


def discrepancy(x: Samples, y: Samples) -> float:
    gaps = distances(x, y)
    return permuted(np.exp(-(gaps**2) / (2.0 * np.median(gaps[gaps > 0]) ** 2)), len(x))


def energy(x: Samples, y: Samples) -> float:
    return permuted(-distances(x, y), len(x))


def self_scores(x: Samples, y: Samples) -> Iterator[bool]:
    """For each split of the reference, whether its halves score no more against each other than against the model."""
    import mauve

    def value(p: np.ndarray, q: np.ndarray) -> float:
        return float(mauve.compute_mauve(p_features=p, q_features=q, verbose=False, seed=0).mauve)

    half, rng = len(x) // 2, np.random.default_rng(0)
    against_model = value(x.features[:half], y.features[:half])
    for _ in range(SPLITS):
        order = rng.permutation(len(x))
        yield value(x.features[order[:half]], x.features[order[half : 2 * half]]) <= against_model


def mauve_text(x: Samples, y: Samples) -> float:
    """0.05 if the score is below all self-scores; the first that is not decides, so the others are not computed."""
    return 1.0 if any(self_scores(x, y)) else 1 / (1 + SPLITS)


def all_self_scores(x: Samples, y: Samples) -> object:
    return list(self_scores(x, y))


def words(x: Samples, y: Samples) -> float:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    labels = np.repeat([0, 1], [len(x), len(y)])
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    right = int((cross_val_predict(model, [*x.texts, *y.texts], labels, cv=folds) == labels).sum())
    return float(binom.sf(right - 1, len(labels), 0.5))


# Name: the decision of a trial, what is timed, whether it needs features, and the kinds of samples.
WAYS: dict[str, tuple[Callable[[Samples, Samples], float], Callable[[Samples, Samples], object], bool, str]] = {
    "mallow score --fast": (fast, score_fast, False, "text image"),
    "mallow score": (default, score_default, True, "text image"),
    "MMD": (discrepancy, discrepancy, True, "text image"),
    "energy distance": (energy, energy, True, "text image"),
    "mauve-text": (mauve_text, all_self_scores, True, "text image"),
    "TF-IDF and logistic regression": (words, words, False, "text"),
}


# --- measuring


def seconds(function: Callable[..., object], *arguments: object) -> float:
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def sizes(most: int) -> Iterator[int]:
    n = LEAST
    while n <= most:
        yield n
        n *= 2


def measure(row: str, way: str, trials: int, most: int, known: dict) -> dict:
    """The gaps that were found by size, the first size that is enough, and the seconds of a decision there or at the largest."""
    maker, name, draw, largest = ROWS[row]
    everything, people, per_sample = samples(maker, name)
    decide, timed, embeds, _ = WAYS[way]
    found: dict[str, str] = known.get("trials", {})
    for n in sizes(min(most, largest)):
        marks = found.get(str(n), "")
        while len(marks) < trials and marks.count("0") <= trials * (1.0 - POWER) + 1e-9:  # else it cannot get there
            x, y = draw(everything, people, n, np.random.default_rng([n, len(marks)]))
            marks += str(int(decide(x, y) <= LEVEL))
        found[str(n)] = marks
        if enough := len(marks) >= trials and marks.count("1") >= POWER * len(marks) - 1e-9:
            break
    x, y = draw(everything, people, n, np.random.default_rng([n, 0]))
    call = float(np.median([seconds(timed, x, y) for _ in range(3 if enough else 1)]))
    cost = {"call (s)": round(call, 3), "embedding (s)": round(2 * n * per_sample, 2) if embeds else 0.0}
    return {"trials": found, "samples per side" if enough else "more than": n, **cost}


def stored(embedder: str) -> dict:
    """What was measured with this embedder; rows of another one are dropped."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    return results if results.get("about", {}).get("embedder") == embedder else {"rows": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="measure rows whose names contain one of these")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--most", type=int, default=800, help="samples per side that are tried at most")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    about = {"mallow": mallow.__version__, "threads": 1, "level": LEVEL, "power": POWER, "splits": SPLITS}
    about |= {"trials": chosen.trials, "most": chosen.most, "embedder": find_embedder(None, kind="text").name}
    for row, (maker, *_) in ROWS.items():
        if chosen.words and not any(word in row for word in chosen.words):
            continue
        for way, (*_, kinds) in WAYS.items():
            if ("image" if maker is digits else "text") not in kinds.split():
                continue
            known = stored(about["embedder"])["rows"].get(row, {}).get(way, {})
            measured = measure(row, way, chosen.trials, chosen.most, known)
            print(row, way, measured, flush=True)
            results = stored(about["embedder"])  # another run may have written rows meanwhile
            rows = {**results["rows"], row: {**results["rows"].get(row, {}), way: measured}}
            rows = {name: rows[name] for name in ROWS if name in rows}
            RESULTS.write_text(json.dumps({"about": about, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
