"""The systems of the family: a size and a decoder, its texts, and their features.

    python experiments/family/systems.py [books | news] [0/2]     writes all texts (or every second); continues where it stopped

Each system continues the first 35 tokens of the same held-out texts by exactly 256 tokens; the reference are the human continuations of these
prompts, and "human" are continuations of other texts by people, what a perfect model would give. Texts are kept in the user's cache folder.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from settings import DOMAINS, NEW, PROMPT, SIZES, Domain, available, human_texts, model_folder

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import mallow
from mallow import Comparison, Samples
from mallow.baselines import perplexity
from mallow.embed import embed_samples
from mallow.generate import CausalModel, GenerationPlan, Prompt, generate_file

COUNT = 400  # texts per system
FEW = 60  # of beam search, which is slow
MIDDLE = {"books": "0.3M", "news": "0.3M"}  # the size that is decoded in all ways
EVERY_SIZE = ("ancestral", "nucleus:0.95", "greedy")
P = (0.5, 0.8, 0.9, 0.95, 0.99)
K = (5, 50, 500)
MIDDLE_ONLY = (
    "top-k:50",
    "typical:0.95",
    "adversarial",
    "beam:4",
    "beam:4:no-repeat=4",
    *(f"nucleus:{p:g}" for p in P),
    *(f"top-k:{k}" for k in K),
    "typical:0.2",
)
NEWS_ONLY = ("top-k:50", "adversarial")
RULES = {size.name: size for size in SIZES}


@dataclass(frozen=True)
class System:
    """A size and a decoder."""

    size: str
    decoder: str

    @property
    def name(self) -> str:
        return f"{self.size} {self.decoder}"


def systems_of(domain: Domain) -> list[System]:
    """All systems of a domain, the most wanted first."""
    middle = MIDDLE[domain.name]
    main = [System(size, decoder) for decoder in EVERY_SIZE for size in domain.sizes]
    others = MIDDLE_ONLY if domain.name == "books" else NEWS_ONLY
    return list(dict.fromkeys([*main, *(System(middle, decoder) for decoder in others)]))


@functools.cache
def model(domain: Domain, size: str):
    return CausalModel(str(model_folder(domain, RULES[size])), dtype="float32", device="cpu").load()


@functools.cache
def _continuations(domain: Domain) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Held-out texts that are long enough, as tokens of prompt and continuation."""
    smallest = model(domain, domain.sizes[0])
    found = []
    for number, text in enumerate(human_texts(domain)[1]):
        tokens = smallest.encode(text)[: PROMPT + NEW]
        if len(tokens) == PROMPT + NEW:
            found.append((str(number), tuple(tokens)))
    return tuple(found)


def prompts(domain: Domain, count: int = COUNT) -> list[Prompt]:
    decode = model(domain, domain.sizes[0]).decode
    return [Prompt(id_, decode(tokens[:PROMPT]), tokens[:PROMPT]) for id_, tokens in _continuations(domain)[:count]]


def human(domain: Domain, *, new: int = NEW, other: bool = False, count: int = COUNT) -> Samples:
    """Human continuations: the reference, or those of other texts."""
    decode = model(domain, domain.sizes[0]).decode
    first = count if other else 0
    rows = _continuations(domain)[first : first + count]
    texts = tuple(decode(tokens[PROMPT : PROMPT + new]) for _, tokens in rows)
    return Samples(texts=texts, ids=tuple(id_ for id_, _ in rows), source="human")


def texts_folder(domain: Domain, size: str) -> Path:
    """Beside the weights, not among them: the digest of a model is that of its folder."""
    own = model_folder(domain, RULES[size])
    folder = own.with_name(f"{own.name}-texts")
    folder.mkdir(exist_ok=True)
    return folder


def human_perplexity(domain: Domain, size: str) -> float:
    """What the adversary aims at; kept beside the weights."""
    kept = texts_folder(domain, size) / "human-perplexity.json"
    if not kept.exists():
        rows = [tokens for _, tokens in _continuations(domain)[:100]]
        value = perplexity(model(domain, size), [row[PROMPT:] for row in rows], prefixes=[row[:PROMPT] for row in rows])
        kept.write_text(json.dumps(round(value, 2)))
    return json.loads(kept.read_text())


def generations(domain: Domain, system: System, *, new: int = NEW) -> Samples:
    """The system's texts, generated at the first call, cut to so many tokens."""
    name = system.decoder
    if name == "adversarial":
        name = f"adversarial:{human_perplexity(domain, system.size)}"
    folder = texts_folder(domain, system.size)
    path = folder / f"{name.replace(':', '-')}-{COUNT}.jsonl"
    count, batch = (FEW, 100) if "beam" in name else (COUNT, 200)
    plan = GenerationPlan(max_new=NEW, min_new=NEW)
    if not path.exists() or len(path.read_bytes().splitlines()) < count:
        generate_file(model(domain, system.size), prompts(domain, count), name, path, plan, batch=batch)
    read = mallow.read(path)
    if new == NEW:
        return read
    coder = model(domain, domain.sizes[0])
    texts = tuple(coder.decode(coder.encode(text)[:new]) for text in read.require_texts())
    return Samples(texts=texts, ids=read.ids, source=read.source)


def is_written(domain: Domain, system: System) -> bool:
    """Whether its texts exist, so that an experiment need not generate."""
    folder = texts_folder(domain, system.size)
    wild = "-*" if system.decoder == "adversarial" else ""
    found = list(folder.glob(f"{system.decoder.replace(':', '-')}{wild}-{COUNT}.jsonl"))
    count = FEW if "beam" in system.decoder else COUNT
    return any(len(path.read_bytes().splitlines()) == count for path in found)


def embedded(samples: Samples, embedder: object = None) -> Samples:
    """With features, from the cache where they are there."""
    return embed_samples(samples, embedder)


def compared(reference: Samples, systems: dict[str, Samples], embedder: object = None, **options) -> Comparison:
    """`mallow.compare` on as many texts as the smallest system has, without warnings: caveats are in the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mallow.compare(reference, systems, embedder=embedder, **options)


def main() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    share = [word for word in sys.argv[1:] if "/" in word]
    part, parts = map(int, (share or ["0/1"])[0].split("/"))
    for name in [word for word in sys.argv[1:] if word in DOMAINS] or DOMAINS:
        domain = available(name)
        for system in systems_of(domain)[part::parts]:
            texts = generations(domain, system).require_texts()
            print(name, system.name, len(texts), repr(texts[0][:70]), flush=True)


if __name__ == "__main__":
    np.set_printoptions(precision=3)
    main()
