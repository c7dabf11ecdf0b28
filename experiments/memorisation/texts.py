"""Real texts for the study of memorisation: pools of human texts, edited copies of some of them, and texts of a real model.

All texts are cut to 120 words. They come from ../shared/data, which is not part of the repository.
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
FILES = {
    "books": "classic-books/classic_books_chunks.jsonl.gz",
    "news": "reuters/reuters_c50.jsonl.gz",
    "web": "webtext-gpt2-small/webtext.human.jsonl.gz",
    "gpt2": "webtext-gpt2-small/webtext.gpt2-small-unconditional.jsonl.gz",
}
POOL = 2000  # texts of a pool
COPIED = 600  # the first of them are those that a model may copy
WORDS = 120
EDITS = {"exact": 0.0, "one word in 20": 0.05, "one word in 5": 0.2}


@cache
def texts(name: str) -> tuple[str, ...]:
    """Different texts of one source in a random order, at most `POOL`."""
    file = DATA / FILES[name]
    if not file.exists():
        sys.exit(f"This study needs {file}, which is not part of the repository (../shared/data beside the checkout).")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        every = [" ".join(json.loads(line)["text"].split()[:WORDS]) for line in lines]
    every = [text for text in dict.fromkeys(every) if len(text.split()) == WORDS]
    order = np.random.default_rng(19).permutation(len(every))[:POOL]
    return tuple(every[place] for place in order)


def edit(text: str, share: float, rng: np.random.Generator) -> str:
    """A text in which a share of the words is replaced by other words of the same pool of words: its own, shuffled."""
    words = text.split()
    places = rng.choice(len(words), round(share * len(words)), replace=False)
    for place in places:
        words[place] = words[int(rng.integers(len(words)))]
    return " ".join(words)


@cache
def edited_texts(name: str, edited: str) -> tuple[str, ...]:
    """The texts of a source; the first `COPIED` alone where these are edited."""
    own = texts(name)
    if not EDITS[edited]:
        return own
    rng = np.random.default_rng([19, list(EDITS).index(edited)])
    return tuple(edit(text, EDITS[edited], rng) for text in own[:COPIED])
