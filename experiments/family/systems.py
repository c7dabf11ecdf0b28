"""The systems of the family: a size and a decoder, its texts, and their features.

    python experiments/family/systems.py [books | news | epoch] [0/2]     writes all texts (or every second); continues where it stopped

Each system continues the first 35 tokens of the same held-out texts by exactly 256 tokens; the reference are the human continuations of these
prompts, and "human" are continuations of other texts by people, what a perfect model would give. Tokens are kept in the user's cache folder.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from settings import DOMAINS, NEW, PROMPT, SIZES, Domain, available, domain_folder, human_texts, model_folder

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import mallow
from mallow import Comparison, Samples
from mallow.baselines import perplexity
from mallow.embed import embed_samples
from mallow.generate import CausalModel, Prompt, decoder

COUNT = 2000  # texts per system
FEW = 250  # of beam search, which is slow
PART = 250  # texts that are decoded together and kept in one file
MIDDLE = {"books": "0.3M", "news": "0.3M", "epoch": "epoch 0.3M"}  # the size that is decoded in all ways
EMBEDS = {"books": ("books", "0.3M"), "news": ("news", "0.3M"), "epoch": ("books", "0.3M")}  # the model that embeds
EVERY_SIZE = ("ancestral", "nucleus:0.95", "greedy")
P = (0.5, 0.8, 0.9, 0.92, 0.95, 0.99)  # those of the paper are 0.9 and more
K = (5, 50, 100, 500, 1000)
TAU = (0.2, 0.5, 0.7, 0.9, 0.95, 0.99)  # those of tab:mauve:expt:typical
BEAMS = ("beam:4", "beam:8")
MIDDLE_ONLY = (
    "adversarial",
    *(f"{beam}{rule}" for beam in BEAMS for rule in ("", ":no-repeat=4")),
    *(f"nucleus:{p:g}" for p in P),
    *(f"top-k:{k}" for k in K),
    *(f"typical:{tau:g}" for tau in TAU),
)
ONLY = {
    "books": MIDDLE_ONLY,
    "news": ("top-k:50", "adversarial"),
    "epoch": ("nucleus:0.99", "nucleus:0.9"),
}
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
    judge = System(domain.sizes[-1], "adversarial")  # aims at the perplexity of people under the model that measures it
    return list(dict.fromkeys([*main, *(System(middle, decoder) for decoder in ONLY[domain.name]), judge]))


@functools.cache
def model(domain: Domain, size: str):
    return CausalModel(str(model_folder(domain, RULES[size])), dtype="float32", device="cpu").load()


@functools.cache
def _tokenizer(domain: Domain):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(domain_folder(domain) / "tokenizer.json"))


@functools.cache
def _held(domain: Domain) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Held-out texts that are long enough: their numbers, and tokens (n, PROMPT + NEW) of prompt and continuation."""
    path = domain_folder(domain) / "held.npz"
    if not path.exists():
        coded = [one.ids for one in _tokenizer(domain).encode_batch(human_texts(domain)[1], add_special_tokens=False)]
        numbers = [number for number, ids in enumerate(coded) if len(ids) >= PROMPT + NEW]
        np.savez(path, numbers=numbers, tokens=[coded[number][: PROMPT + NEW] for number in numbers])
    kept = np.load(path)
    return tuple(map(str, kept["numbers"])), kept["tokens"]


def _texts(domain: Domain, tokens: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(_tokenizer(domain).decode_batch(tokens.tolist(), skip_special_tokens=False))


def prompts(domain: Domain, count: int = COUNT) -> list[Prompt]:
    ids, tokens = _held(domain)
    rows = tokens[:count, :PROMPT]
    return [Prompt(*one) for one in zip(ids, _texts(domain, rows), map(tuple, rows.tolist()), strict=False)]


def human_tokens(domain: Domain, *, other: bool = False, count: int = COUNT) -> NDArray[np.int64]:
    """Tokens (n, NEW) of human continuations."""
    first = COUNT if other else 0
    return _held(domain)[1][first : first + count, PROMPT:]


def human(domain: Domain, *, new: int = NEW, other: bool = False, count: int = COUNT) -> Samples:
    """Human continuations: the reference, or those of other texts."""
    first = COUNT if other else 0
    tokens = human_tokens(domain, other=other, count=count)
    ids = _held(domain)[0][first : first + count]
    return Samples(texts=_texts(domain, tokens[:, :new]), ids=ids, source="human")


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
        rows = _held(domain)[1][:100].tolist()
        value = perplexity(model(domain, size), [row[PROMPT:] for row in rows], prefixes=[row[:PROMPT] for row in rows])
        kept.write_text(json.dumps(round(value, 2)))
    return json.loads(kept.read_text())


def _parts(domain: Domain, system: System, count: int = COUNT) -> dict[int, Path]:
    """Where the texts of a system are: the first place of each part, and its file."""
    folder = texts_folder(domain, system.size) / system.decoder.replace(":", "-")
    count = FEW if "beam" in system.decoder else count
    return {first: folder / f"{first}-{min(first + PART, count)}.npy" for first in range(0, count, PART)}


def _write_part(domain: Domain, system: System, first: int, path: Path) -> None:
    from decode import Network, continuations, generators

    name = system.decoder
    if name == "adversarial":
        name = f"adversarial:{human_perplexity(domain, system.size)}"
    network = Network.load(model_folder(domain, RULES[system.size]), RULES[system.size].heads)
    last = int(path.stem.split("-")[1])
    ids, tokens = (each[first:last] for each in _held(domain))
    # A text's random numbers depend on its prompt alone, as in `mallow.generate.generate_file`.
    keys = [int.from_bytes(hashlib.blake2b(f"0 {id_}".encode(), digest_size=8).digest(), "little") for id_ in ids]
    found = continuations(network, tokens[:, :PROMPT], decoder(name), NEW, generators(keys))
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".part.npy")
    np.save(unfinished, found.astype(np.int16))
    unfinished.rename(path)


def tokens_of(domain: Domain, system: System, *, count: int = COUNT) -> NDArray[np.int64]:
    """The system's new tokens (n, NEW), decoded at the first call."""
    parts = _parts(domain, system, count)
    for first, path in parts.items():
        if not path.exists():
            _write_part(domain, system, first, path)
    return np.concatenate([np.load(path) for path in parts.values()]).astype(np.int64)


def generations(domain: Domain, system: System, *, new: int = NEW, count: int = COUNT) -> Samples:
    """The system's texts, cut to so many tokens."""
    tokens = tokens_of(domain, system, count=count)
    return Samples(texts=_texts(domain, tokens[:, :new]), ids=_held(domain)[0][: len(tokens)], source=system.name)


def is_written(domain: Domain, system: System) -> bool:
    """Whether its texts exist, so that an experiment need not generate."""
    return all(path.exists() for path in _parts(domain, system).values())


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
            since = time.process_time()
            texts = generations(domain, system).require_texts()
            used = time.process_time() - since
            print(name, system.name, len(texts), f"{used:.0f} s of processor time", repr(texts[0][:70]), flush=True)


if __name__ == "__main__":
    np.set_printoptions(precision=3)
    main()
