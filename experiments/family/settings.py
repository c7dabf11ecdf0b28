"""The family of models by size: which sizes and texts, and where weights and texts are kept."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from mallow.embed import default_cache

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
VOCABULARY, PROMPT, NEW = 2048, 35, 256
CONTEXT = PROMPT + NEW + 1
BATCH = 4  # sequences of CONTEXT tokens in a step of training
HELD = 4100  # human texts that are kept from training: reference, prompts, and other human text


@dataclass(frozen=True)
class Size:
    """Width and depth of a model of GPT-2's architecture."""

    name: str
    width: int
    layers: int
    heads: int
    rate: float


SIZES = (
    Size("0.04M", 16, 1, 2, 8e-3),
    Size("0.1M", 32, 2, 2, 6e-3),
    Size("0.3M", 64, 3, 2, 5e-3),
    Size("1.1M", 128, 4, 4, 3e-3),
    Size("epoch 0.3M", 64, 3, 2, 5e-3),
    Size("epoch 1.1M", 128, 4, 4, 3e-3),
)
FAMILY, EPOCH = [tuple(size.name for size in SIZES if ("epoch" in size.name) is more) for more in (False, True)]


@dataclass(frozen=True)
class Domain:
    """A collection of human texts, how many tokens of it each model reads, and the sizes that are trained on it."""

    name: str
    file: str
    tokens: int
    sizes: tuple[str, ...]


BOOKS = "classic-books/classic_books_chunks.jsonl.gz"
DOMAINS = {
    "books": Domain("books", BOOKS, 800_000, FAMILY),
    "news": Domain("news", "reuters/reuters_c50.jsonl.gz", 600_000, FAMILY),
    "epoch": Domain("epoch", BOOKS, 10**9, EPOCH),  # the same stories, all of them once
}


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def kept_in(*parts: object) -> Path:
    """The folder of the cache for what these settings determine."""
    cache = default_cache()
    if cache is None:
        sys.exit("This study keeps weights and texts in the cache, which MALLOW_CACHE=off switches off.")
    folder = cache.folder / "family" / digest(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def human_texts(domain: Domain) -> tuple[list[str], list[str]]:
    """Texts to train on, and texts that no model has read, both in random order."""
    path = DATA / domain.file
    if not path.is_file():
        sys.exit(f"This study needs {path.name} in {path.parent}, which is not part of the repository.")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = list(dict.fromkeys(json.loads(line)["text"].strip() for line in lines))
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[place] for place in order[HELD:]], [texts[place] for place in order[:HELD]]


def domain_folder(domain: Domain) -> Path:
    return kept_in(domain.file, VOCABULARY, CONTEXT, HELD)


def model_folder(domain: Domain, size: Size) -> Path:
    return domain_folder(domain) / f"{size.name}-{digest(asdict(size), domain.tokens, BATCH)}"


def available(name: str) -> Domain:
    """The domain with the sizes that are trained: an experiment runs on these."""
    domain = DOMAINS[name]
    sizes = (size for size in SIZES if size.name in domain.sizes)
    trained = (size.name for size in sizes if (model_folder(domain, size) / "model.safetensors").exists())
    return replace(domain, sizes=tuple(trained))
