"""Six decoders of GPT-2 large against human text: what is certified, who is first and last, and what published scores and people say.

    python experiments/honesty/decoders.py     about two minutes on one core with the features cached; beam search is embedded the first time

`mallow.compare` with its defaults on the 1,000 prompts of ../shared/data/webtext-gpt2-large (default embedder): once with the first
generation of every decoder, once with all three where there are three. Beside it the MAUVE that was published with the generations (GPT-2-large
features, pairs cut to one length), and the rank correlations. Writes decoders.json, decoders.md and decoders.png beside this file.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import settings
from scipy.stats import spearmanr
from settings import DECODERS, SEVERAL, Clock

import mallow

PEOPLE = """What people found about contrastive search, from the papers' abstracts (no annotations are in the data here):

- Su and Collier, *Contrastive Search Is What You Need For Neural Text Generation* (TMLR 2023, arXiv 2210.14140), from whose repository the
  generations come: contrastive search outperforms the other decoding methods without further training, and in 12 of 16 languages
  its texts are judged comparable with those of people.
- Su and Xu, *An Empirical Study On Contrastive Search And Contrastive Decoding* (2022, arXiv 2211.10797): annotators prefer contrastive search to
  contrastive decoding although its MAUVE is lower, from which the authors conclude that MAUVE does not accurately reflect human preferences.

Neither contradicts a large certified gap. A certificate is about distributions of texts with their prompts: that texts of contrastive search can be told from human ones does not say that readers like them less."""


def published(name: str) -> float:
    file = settings.DATA / "webtext-gpt2-large" / f"{name}.published_metrics.json"
    [content] = json.loads(file.read_text())
    return float(content["mauve_dict"]["mauve_mean"]) / 100


def texts(name: str, generations: int = 1) -> mallow.Samples:
    """What people or a decoder wrote for each prompt; empty texts are left out."""
    entries = [
        (text, row["prefix"], str(number))
        for number, row in enumerate(settings._lines(f"webtext-gpt2-large/{name}.jsonl.gz"))
        for text in (row["gen"] if isinstance(row["gen"], list) else [row["gen"]])[:generations]
        if text.strip()
    ]
    written, prompts, ids = zip(*entries, strict=True)
    return mallow.Samples(texts=written, prompts=prompts, ids=ids)


def systems(*, all_generations: bool) -> dict[str, mallow.Samples]:
    """Every decoder; generations of one prompt share its number as their id."""
    return {name: texts(name, 3 if all_generations and name in SEVERAL else 1) for name in DECODERS}


def measure(*, all_generations: bool) -> dict[str, object]:
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        comparison = mallow.compare(texts("human"), systems(all_generations=all_generations))
    scores = {
        name: {
            "certified": [score.certified["mauve"].value, score.certified["mauve"].high],
            "midpoint": [score.certified["midpoint"].value, score.certified["midpoint"].low],
            "p_value": score.p_value,
            "MAUVE*": score.mauve,
            "interval": list(score.interval["mauve"]),
            "published": published(name),
            "rank": list(comparison.ranks[name]),
            "statistics": dict(score.evidence.test.statistics),
        }
        for name, score in comparison.scores.items()
    }

    def agreement(first: str, second: str) -> float:
        values = [
            [row[key][0] if key == "certified" else row[key] for row in scores.values()] for key in (first, second)
        ]
        return float(spearmanr(*values).statistic)

    return {
        "verdict": comparison.verdict,
        "scores": scores,
        "groups": [list(group) for group in comparison.groups],
        "differences": {
            f"{one.first} − {one.second}": {
                "difference": one.difference["mauve"],
                "interval": list(one.interval["mauve"]),
                "adjusted": one.adjusted["mauve"],
            }
            for one in comparison.differences
        },
        "spearman": {
            "certified, published": agreement("certified", "published"),
            "MAUVE*, published": agreement("MAUVE*", "published"),
            "certified, MAUVE*": agreement("certified", "MAUVE*"),
        },
        "seconds": clock.seconds,
    }


def report(results: dict[str, dict]) -> str:
    lines = ["# Six decoders of GPT-2 large against human text, 1,000 prompts, default embedder", ""]
    lines += ["Written by `python experiments/honesty/decoders.py` (rng 0)."]
    for name, row in results.items():
        lines += [
            "",
            f"## {name}",
            "",
            row["verdict"],
            "",
            "| decoder | rank | MAUVE at most: value (95% limit) | p: no gap | MAUVE* (95% interval, another draw) | published MAUVE |",
            "|---|---|---|---|---|---|",
        ]
        for decoder, one in row["scores"].items():
            low, high = one["rank"]
            rank = f"{low}" if low == high else f"{low}–{high}"
            lines.append(
                f"| {decoder} | {rank} | {one['certified'][0]:.3f} ({one['certified'][1]:.3f}) | {one['p_value']:.2g} | "
                f"{one['MAUVE*']:.3f} ({one['interval'][0]:.3f} to {one['interval'][1]:.3f}) | {one['published']:.3f} |"
            )
        groups = "; ".join(", ".join(group) for group in row["groups"])
        correlations = ", ".join(f"{pair}: {value:.2f}" for pair, value in row["spearman"].items())
        lines += [
            "",
            f"Groups that cannot be told apart: {groups}.",
            "",
            f"Spearman's rank correlation over the six decoders: {correlations}.",
        ]
    return "\n".join([*lines, "", PEOPLE]) + "\n"


def picture(results: dict[str, dict]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    row = next(iter(results.values()))["scores"]
    names = list(row)
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    places = np.arange(len(names))
    values, limits = zip(*(row[name]["certified"] for name in names), strict=True)
    axes.errorbar(
        values,
        places,
        xerr=[np.zeros(len(names)), np.subtract(limits, values)],
        fmt="o",
        capsize=3,
        label="certified: at most (95% limit)",
    )
    axes.plot([row[name]["MAUVE*"] for name in names], places, "s", alpha=0.7, label="MAUVE*, default embedder")
    axes.plot([row[name]["published"] for name in names], places, "x", label="published MAUVE, GPT-2 large")
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(xlabel="MAUVE against human text", xlim=(-0.02, 1.02))
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    figure.savefig(settings.HERE / "decoders.png", dpi=110)


def main() -> None:
    results = {
        "One generation for each prompt": measure(all_generations=False),
        "All generations: three of nucleus, top-k, typical": measure(all_generations=True),
    }
    settings.save("decoders.json", results)
    results = settings.load("decoders.json")
    (settings.HERE / "decoders.md").write_text(report(results))
    picture(results)
    print(report(results))


if __name__ == "__main__":
    main()
