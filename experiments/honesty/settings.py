"""What the studies of honesty share: samples with and without a gap, real texts, and the tests they are judged by.

Real texts are embedded by the default embedder; mallow's own cache makes that quick the second time. They come from
../shared/data, which is not part of the repository: a study that needs them says so and stops.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core is enough, and the same bits everywhere
import gzip
import json
import math
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from mallow.embed import embed_samples, find_embedder
from mallow.estimate import Quantize
from mallow.evidence import (
    Certificate,
    Evidence,
    IdentityTest,
    Learner,
    Witness,
    find_units,
    gather_evidence,
    make_learner,
    subtract_certificates,
)
from mallow.generate import NGram, generate
from mallow.samples import Samples
from mallow.theory import KL, integral

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data"
LEVEL = 0.05
PERMUTATIONS = 499  # of every test here
SCALE = 5.0
DECODERS = ("nucleus", "topk", "typical", "contrastive", "greedy", "beam")
SEVERAL = ("nucleus", "topk", "typical")  # with three generations for each prompt

Pair = tuple[Samples, Samples]


# Real texts


def _lines(path: str) -> list[dict]:
    file = DATA / path
    if not file.exists():
        sys.exit(f"This study needs {file}, which is not part of the repository (../shared/data beside the checkout).")
    with gzip.open(file, "rt", encoding="utf-8") as text:
        return [json.loads(line) for line in text]


def _embedded(texts: list[str], ids: list[str]) -> Samples:
    kept = [(text, name) for text, name in zip(texts, ids, strict=True) if text.strip()]
    samples = Samples(texts=[text for text, _ in kept], ids=[name for _, name in kept])
    return Samples(features=embed_samples(samples, find_embedder(None, kind="text")).features, ids=list(samples.ids))


@cache
def webtext(name: str, generation: int = 0) -> Samples:
    """Human continuations or those of a decoder of GPT-2 large; the ids are the numbers of the prompts. Empty ones are left out."""
    rows = _lines(f"webtext-gpt2-large/{name}.jsonl.gz")
    return _embedded(
        [row["gen"][generation] if isinstance(row["gen"], list) else row["gen"] for row in rows],
        [str(number) for number in range(len(rows))],
    )


@cache
def documents(name: str) -> Samples:
    """Whole documents: "human" or "gpt2-small-unconditional"; each is a unit."""
    texts = [row["text"] for row in _lines(f"webtext-gpt2-small/webtext.{name}.jsonl.gz")]
    return _embedded(texts, [f"{name} {place}" for place in range(len(texts))])


@cache
def news() -> Samples:
    """Every second story of Reuters; the ids are the authors."""
    rows = _lines("reuters/reuters_c50.jsonl.gz")[::2]
    return _embedded([row["text"] for row in rows], [row["author"] for row in rows])


@cache
def books() -> Samples:
    """2,500 passages; the ids are the titles."""
    rows = _lines("classic-books/classic_books_chunks.jsonl.gz")[::3][:2500]
    return _embedded([row["text"] for row in rows], [row["title"] for row in rows])


@cache
def stories(machine: bool) -> Samples:
    """The first 130 words of 4,000 passages of books, or 1,000 that a 5-gram model wrote: it was fitted on 4,000 others, and continues them."""
    rows = _lines("classic-books/classic_books_chunks.jsonl.gz")
    cut = [" ".join(row["text"].split()[:130]) for row in rows]
    if not machine:
        return _embedded(cut[::2], [f"story {place}" for place in range(len(cut[::2]))])
    model = NGram.fit(cut[1::2], order=5)
    tokens = [model.encode(text) for text in cut[1::8]]
    prompts = [text[:10] for text in tokens]
    longest = max(map(len, tokens)) - 10
    new = generate(model, prompts, "nucleus:0.95", max_new=longest, min_new=longest, rng=14, batch=len(prompts))
    texts = [model.decode([*a, *b[: len(c) - 10]]) for a, b, c in zip(prompts, new, tokens, strict=True)]
    return _embedded(texts, [f"machine story {place}" for place in range(len(texts))])


def choose(samples: Samples, rows: np.ndarray, *, ids: bool) -> Samples:
    """Some rows, with or without their ids."""
    names = [samples.ids[row] for row in rows] if ids else None
    return Samples(features=samples.features[rows], ids=names)


def shared_rows(*sets: Samples) -> list[np.ndarray]:
    """For each set the rows of the ids that all have, in one order."""
    common = sorted(set.intersection(*(set(each.ids) for each in sets)), key=int)
    places = [{name: row for row, name in enumerate(each.ids)} for each in sets]
    return [np.array([place[name] for name in common]) for place in places]


def retell(sets: Sequence[Samples], number: int) -> list[Samples]:
    """The same samples, which should get the same answer: other names of units, features times a constant, and rows in another order.

    0 leaves them as they are.
    """
    if number == 0:
        return list(sets)
    rng, told = np.random.default_rng([9, number]), []
    for samples in sets:
        order = rng.permutation(len(samples.features)) if samples.ids is not None else np.arange(len(samples.features))
        names = None if samples.ids is None else [f"{number} {samples.ids[row]}" for row in order]
        told.append(Samples(features=samples.features[order] * (1 + number / 1000), ids=names))
    return told


# What is measured


def learn(reference: Samples, *systems: Samples, seed: int, witness: Witness | None = None) -> Learner:
    """A learner with the defaults of the library."""
    units = find_units(reference, *systems)
    return make_learner(witness or Witness(), [each.features for each in (reference, *systems)], units)


def evidence_of(learner: Learner, system: int, *, seed: int) -> tuple[Evidence, Certificate]:
    """The test and the certificate for one system."""
    evidence = gather_evidence(learner, system, permutations=PERMUTATIONS, seed=seed)
    return evidence, evidence.certify(KL, SCALE)


def best_difference_p_value(first: Certificate, second: Certificate) -> float:
    """A lower bound of the p-value of a difference of areas: that of the certificates alone, to which the common witness can only add."""
    sign = np.sign([first.estimates[name].value - second.estimates[name].value for name in first.estimates])
    return subtract_certificates(first, second, common=np.where(sign == 0, 1.0, sign) * np.inf).p_value["mauve"]


def binned_p_value(x: np.ndarray, y: np.ndarray, *, seed: int) -> float:
    """The test as it was: permutations of single rows on the bins of the published score, whatever the units."""
    estimator = Quantize()
    rng = np.random.default_rng([seed, 3])
    partition = estimator.masses(estimator.prepare(x, y), rng).partition
    p_counts, q_counts = partition.p_counts, partition.q_counts
    pooled = (p_counts + q_counts).astype(np.int64)
    drawn = rng.multivariate_hypergeometric(pooled, int(p_counts.sum()), size=PERMUTATIONS).astype(np.float64)
    observed, others = (
        np.asarray(integral(estimator.smooth(p, q), KL)) for p, q in ((p_counts, q_counts), (drawn, pooled - drawn))
    )
    return float((1 + np.count_nonzero(others >= observed * (1 - 1e-12))) / (PERMUTATIONS + 1))


def statistics_alone(test: IdentityTest) -> dict[str, float]:
    """The p-value of each statistic alone; the partitions, whose numbers of bins follow the samples, are called coarse and fine."""
    partitions = iter(("bins, coarse", "bins, fine"))  # they come in this order; with few samples both are one
    return {next(partitions) if name.endswith(" bins") else name: value for name, value in test.statistics.items()}


# Tables and files


def share_with_error(hits: int, trials: int) -> str:
    """A share in per cent with its standard error; two hits and two misses are added for the error, so that it is not 0 without hits."""
    near = (hits + 2) / (trials + 4)
    return f"{100 * hits / trials:.1f} ± {100 * math.sqrt(near * (1 - near) / (trials + 4)):.1f}"


def load(name: str) -> dict:
    path = HERE / name
    return json.loads(path.read_text()) if path.exists() else {}


def save(name: str, results: dict) -> None:
    """JSON with five digits, so that it can be read and compared."""

    def rounded(value: object) -> object:
        if isinstance(value, dict):
            return {str(key): rounded(entry) for key, entry in value.items()}
        if isinstance(value, (list, tuple, np.ndarray)):
            return [rounded(entry) for entry in value]
        if isinstance(value, (float, np.floating)):
            return float(f"{value:.5g}")
        if isinstance(value, np.bool_):
            return bool(value)
        return int(value) if isinstance(value, np.integer) else value

    (HERE / name).write_text(json.dumps(rounded(results), indent=1) + "\n")


class Clock:
    """Seconds since it was made, of this process: other work on the machine does not count."""

    def __init__(self) -> None:
        self.start = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self.start
