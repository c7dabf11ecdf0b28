"""Does evidence lose anything if MiniLM multiplies in 8 bits? The same texts, embedded with both kinds of products.

    python experiments/embedders/products.py [--prompts 1000] [--tokens 256] [--trials 40] [--edited 300]      about 15 minutes on one core

- *Decoders*: `mallow.score` of GPT-2 large under six decoders against human text, on features alone, by prompts of WebText.
- *Machine text*: how often `mallow.permutation_test` finds 20% of machine text among 200 stories or news, at level 5%.
- *Edits*: `mallow audit` of the first human texts.
- *Noise*: how far the features of a text move, as a cosine and as a share of the variance between texts.

Writes products.json and products.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from decision import corpus, lines
from synthetic import rounded
from webtext import DECODERS

from mallow import Samples, permutation_test, score
from mallow.embed import embed_samples, minilm
from mallow.evaluate import audit_embedder

HERE = Path(__file__).resolve().parent
PRODUCTS = ("float32", "int8")
SHARE, SIDE, POOL = 0.2, 200, 600  # machine text, samples per side, human texts that are drawn from


def generations(prompts: int) -> dict[str, dict[int, str]]:
    """The first generation of each prompt, by its number: human and every decoder, without empty ones."""
    found = {}
    for name in ("human", *DECODERS):
        every = [row["gen"] for row in lines(f"webtext-gpt2-large/{name}.jsonl.gz")[:prompts]]
        first = [each[0] if isinstance(each, list) else each for each in every]
        found[name] = {number: text for number, text in enumerate(first) if text.strip()}
    return found


def features(texts: list[str], tokens: int) -> dict[str, np.ndarray]:
    """The features of the texts with each kind of products."""
    return {
        products: embed_samples(texts, replace(minilm(products=products), max_length=tokens)).require_features()
        for products in PRODUCTS
    }


def judge_decoders(texts: dict[str, dict[int, str]], tokens: int) -> tuple[dict[str, object], dict[str, float]]:
    """The evidence for each decoder, and the noise of integer products."""
    ids = {name: [str(number) for number in by_number] for name, by_number in texts.items()}
    rows = {name: features(list(by_number.values()), tokens) for name, by_number in texts.items()}
    result: dict[str, dict] = {name: {} for name in DECODERS}
    for products in PRODUCTS:
        sets = {name: Samples(features=rows[name][products], ids=ids[name]) for name in texts}
        for name in DECODERS:
            judged = score(sets["human"], sets[name], repeats=1)
            result[name][products] = {
                "certified": [judged.certified["mauve"].value, judged.certified["mauve"].high],
                "costs at least": [judged.certified["midpoint"].value, judged.certified["midpoint"].low],
                "MAUVE*": judged.mauve,
                "p": judged.p_value,
            }
    exact, integer = (np.concatenate([rows[name][products] for name in texts]).astype(float) for products in PRODUCTS)
    moved = integer - exact
    noise = {
        "texts": len(exact),
        "mean cosine": float((exact * integer).sum(axis=1).mean()),
        "smallest cosine": float((exact * integer).sum(axis=1).min()),
        "noise / variance": float((moved**2).sum() / ((exact - exact.mean(axis=0)) ** 2).sum()),
        "common to all texts": float((moved.mean(axis=0) ** 2).sum() / (moved**2).sum(axis=1).mean()),
    }
    return result, noise


def find_machine_text(name: str, tokens: int, trials: int) -> dict[str, object]:
    """How often machine text is found; the same draws for both kinds of products."""
    human, machine = corpus(name)
    of_human, of_machine = features(human[:POOL], tokens), features(machine[: POOL // 3], tokens)
    replaced = round(SHARE * SIDE)
    p_values: dict[str, list[float]] = {products: [] for products in PRODUCTS}
    for trial in range(trials):
        rng = np.random.default_rng([7, trial])
        order, others = rng.permutation(POOL), rng.permutation(len(of_machine["int8"]))[:replaced]
        for products in PRODUCTS:
            mixed = [of_human[products][order[SIDE : 2 * SIDE - replaced]], of_machine[products][others]]
            test = permutation_test(of_human[products][order[:SIDE]], np.concatenate(mixed), permutations=199)
            p_values[products].append(float(test))
    found = {products: float(np.mean(np.array(values) <= 0.05)) for products, values in p_values.items()}
    mean = {products: float(np.mean(np.log10(values))) for products, values in p_values.items()}
    return {"trials": trials, "found": found, "mean log10 p": mean}


def judge_edits(human: list[str], tokens: int) -> dict[str, dict[str, object]]:
    """What an audit finds with each kind of products, by edit."""
    result: dict[str, dict[str, object]] = {}
    for products in PRODUCTS:
        embedder = replace(minilm(products=products), max_length=tokens)
        for effect in audit_embedder(human, embedder, repeats=1).to_dict()["effects"]:
            result.setdefault(effect["edit"], {})[products] = effect
    return result


def table(results: dict[str, dict]) -> str:
    """The page; parts that were not measured are left out."""
    options = results["options"]
    head = f"Written by `python experiments/embedders/products.py`: {options['prompts']:,} prompts, {options['edited']} texts for edits, the first {options['tokens']} tokens of each text."
    lines = ["# MiniLM with products in float32 and in 8 bits", "", head, "", "| | float32 | 8 bits |", "|---|---|---|"]
    for name, both in results.get("decoders", {}).items():
        cells = [f"{each['certified'][0]:.3f} ({each['certified'][1]:.3f})" for each in both.values()]
        lines.append(f"| {name}: MAUVE at most, value (95% limit) | {' | '.join(cells)} |")
    for name, power in results.get("machine text", {}).items():
        cells = [f"{100 * share:.0f}%" for share in power["found"].values()]
        lines.append(
            f"| {name}, {SHARE:.0%} machine text, n = {SIDE}: found in {power['trials']} trials | {' | '.join(cells)} |"
        )
    for edit, both in results.get("edits", {}).items():
        cells = [f"≤ {effect['certified']:.3f} {effect['seen']}" for effect in both.values()]
        lines.append(f"| {edit}: MAUVE at most, and whether it was detected | {' | '.join(cells)} |")
    if noise := results.get("noise"):
        lines += [
            "",
            f"Cosine of both features of a text: {noise['mean cosine']:.5f} on average, at least {noise['smallest cosine']:.4f} ({noise['texts']:,} texts). "
            f"The difference is {100 * noise['noise / variance']:.2f}% of the variance between texts. {100 * noise['common to all texts']:.1f}% of it is common to all texts.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in (("prompts", 1000), ("tokens", 256), ("trials", 40), ("edited", 300)):
        parser.add_argument(f"--{option}", type=int, default=default)
    options = vars(parser.parse_args())
    warnings.simplefilter("ignore")
    tokens = options["tokens"]
    texts = generations(options["prompts"])
    results: dict[str, dict] = {"options": options}
    results["machine text"] = {name: find_machine_text(name, tokens, options["trials"]) for name in ("stories", "news")}
    write(results)
    results["edits"] = judge_edits([text.strip() for text in texts["human"].values()][: options["edited"]], tokens)
    write(results)
    results["decoders"], results["noise"] = judge_decoders(texts, tokens)
    write(results)


def write(results: dict[str, dict]) -> None:
    """Both files, after each part."""
    (HERE / "products.json").write_text(json.dumps(rounded(results), indent=1) + "\n")
    (HERE / "products.md").write_text(table(rounded(results)))
    print(table(rounded(results)), flush=True)


if __name__ == "__main__":
    main()
